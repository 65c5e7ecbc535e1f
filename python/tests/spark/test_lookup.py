# SPDX-License-Identifier: Apache-2.0
"""contains() as a column, and semi_join()."""


import numpy as np
import pytest
from pyspark.sql import functions as F

import scbf
import scbf.spark

N = 20_000


@pytest.fixture(scope="module")
def filter():
    made = scbf.Filter(capacity=4000, fpr=0.02, seed=5)
    made.insert(range(0, N, 10))
    made.insert([f"key {i}" for i in range(0, N, 10)])
    return made


def test_answers_are_those_of_the_filter(spark, filter):
    frame = spark.range(N, numPartitions=3).withColumn("word", F.concat(F.lit("key "), F.col("id")))
    asked = frame.select("id", scbf.spark.contains(frame, "id", filter).alias("a"),
                         scbf.spark.contains(frame, F.col("word"), scbf.BloomFilter.of(filter)).alias("b")).toArrow()
    ids = asked["id"].to_numpy()
    assert np.array_equal(asked["a"].to_numpy(), filter.contains(ids))
    assert np.array_equal(asked["b"].to_numpy(), filter.contains([f"key {i}" for i in ids]))
    assert asked["a"].null_count == 0


def test_a_null_key_is_not_in_the_filter(spark, filter):
    frame = spark.sql("select explode(array(0, null, 10, null)) as k")
    asked = scbf.spark.contains(frame, "k", filter)
    assert frame.filter(asked).count() == 2
    assert frame.filter(~asked).count() == 2
    nothing = spark.sql("select cast(null as string) as k")
    assert nothing.filter(scbf.spark.contains(nothing, "k", filter)).count() == 0


def test_a_filter_that_grows_can_be_asked(spark):
    grown = scbf.Filter(growth=scbf.Growth.tightening(first_capacity=100, fpr=0.01))
    grown.insert(range(1000))
    frame = spark.range(5000)
    assert grown.stages > 1
    found = frame.filter(scbf.spark.contains(frame, "id", grown)).count()
    assert found == grown.contains(range(5000)).sum()


def test_the_same_filter_is_shared_once(spark, filter):
    first = scbf.spark.share(filter, spark=spark)
    files = len(spark.sparkContext.listFiles)
    assert scbf.spark.share(scbf.BloomFilter.of(filter), spark=spark) == first
    assert len(spark.sparkContext.listFiles) == files
    assert first.nbytes < filter.nbytes
    changed = filter.copy()
    changed.insert(-1)
    second = scbf.spark.share(changed, spark=spark)
    frame = spark.sql("select -1 as k")
    assert second != first
    assert [frame.filter(scbf.spark.contains(frame, "k", each)).count() for each in (first, second)] == [0, 1]


def test_what_executors_have_is_a_mapped_file(spark, filter):
    shared = scbf.spark.share(filter, spark=spark)
    name = shared.name

    def look(batches):
        import pyarrow as pa
        from pyspark import SparkFiles

        from scbf.spark.lookup import _mapped

        for _ in batches:
            path = SparkFiles.get(name)
            bits = _mapped(path)
            with open("/proc/self/maps") as maps:
                mapped = any(path in line for line in maps)
            yield pa.record_batch({"mapped": [mapped and bits.read_only and bits is _mapped(path)]})

    rows = spark.range(2, numPartitions=2).mapInArrow(look, "mapped boolean").collect()
    assert [row.mapped for row in rows] == [True, True]


def test_columns_that_cannot_be_keys_are_refused(spark, filter):
    frame = spark.range(3).withColumn("x", F.col("id").cast("double"))
    with pytest.raises(scbf.InvalidKey, match="column x of type double"):
        scbf.spark.contains(frame, "x", filter)


JOINED = {
    "integers of two widths": ("id", "cast(id as int)"),
    "strings": ("concat('k', id)", "concat('k', id)"),
    "dates": ("date_add(date'2020-01-01', cast(id as int))", "date_add(date'2020-01-01', cast(id as int))"),
    "with nulls": ("if(id % 2 = 0, null, id)", "if(id % 3 = 0, null, id)"),
}


@pytest.mark.parametrize("types", JOINED)
def test_a_semi_join_has_the_rows_of_the_plain_one(spark, types):
    left, right = JOINED[types]
    big = spark.range(3000).select(F.expr(left).alias("k"), F.col("id").alias("payload"))
    small = spark.range(2900, 3100).select(F.expr(right).alias("k"), F.lit("x").alias("other"))
    joined = scbf.spark.semi_join(big, small, on="k", capacity=200)
    assert joined.columns == big.columns
    assert rows(joined) == rows(big.join(small, "k", "left_semi")) != []


def test_a_semi_join_on_several_columns(spark):
    big = spark.range(3000).selectExpr("cast(id % 50 as int) as a",
                                       "if(id % 7 = 0, null, concat('b', id % 60)) as b", "id")
    small = spark.range(40).selectExpr("id as a", "concat('b', id + 10) as b")
    reports = []
    joined = scbf.spark.semi_join(big, small, on=["a", "b"], report=reports.append)
    assert rows(joined) == rows(big.join(small, ["a", "b"], "left_semi")) != []
    assert 35 <= reports[0].counted <= 45


def test_the_filter_drops_rows_before_the_join(spark):
    big, small = spark.range(100_000), spark.range(0, 100_000, 1000)
    plan = scbf.spark.semi_join(big, small, on="id", capacity=100)._jdf.queryExecution().optimizedPlan().toString()
    join, left = plan.index("Join LeftSemi"), plan.index("maybe_contains")
    assert join < left


REFUSED = {
    ("id", "cast(id as string)"): "cast it to the type of the other",
    ("cast(id as double)", "cast(id as double)"): "-0.0",
    ("cast(id as decimal(12, 3))", "cast(id as decimal(14, 3))"): "cast it to the type of the other",
    ("cast(id as string) collate utf8_lcase", "cast(id as string) collate utf8_lcase"): "strings of bytes",
    ("array(id)", "array(id)"): "use DataFrame.join",
}


@pytest.mark.parametrize("left, right", REFUSED)
def test_a_join_that_equal_bytes_do_not_decide_is_refused(spark, left, right):
    big = spark.range(5).select(F.expr(left).alias("k"))
    small = spark.range(5).select(F.expr(right).alias("k"))
    with pytest.raises(scbf.InvalidArgument, match=REFUSED[left, right]):
        scbf.spark.semi_join(big, small, on="k")


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)
