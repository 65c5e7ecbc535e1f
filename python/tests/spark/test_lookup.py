# SPDX-License-Identifier: Apache-2.0
"""contains() and find() as columns, and semi_join()."""

import dataclasses
import datetime
import decimal
import warnings

import numpy as np
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

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


def test_a_column_of_the_other_kind_is_warned_of(spark):
    frame = spark.range(100).withColumn("text", F.col("id").cast("string"))
    numbers, text = scbf.spark.build(frame, "id", capacity=100), scbf.spark.build(frame, "text", capacity=100)
    made = scbf.BloomFilter(capacity=100, fpr=0.01)
    made.insert(range(100))
    for filter, asked in ((numbers, "text"), (text, "id"), (made, "text"), (scbf.BloomFilter.of(numbers), "text")):
        with pytest.warns(scbf.KeyKindWarning, match="5 and '5' are two keys"):
            scbf.spark.contains(frame, asked, filter)


def test_the_warning_names_the_line_that_asks_and_what_spark_offers(spark):
    frame = spark.range(100).withColumn("text", F.col("id").cast("string"))
    full = scbf.Filter(geometry=scbf.Geometry.split(1, 64))  # it seems to have everything
    full.insert(range(10_000))
    text = scbf.Filter(capacity=100, fpr=0.01)
    text.insert(["5"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        scbf.spark.contains(frame, "text", full)
        scbf.spark.contains(frame, "text", full)  # once
        scbf.spark.contains(frame, "text", full.copy())
        scbf.spark.contains(frame, "id", text)
    caught = [each for each in caught if each.category is scbf.KeyKindWarning]
    assert [each.filename for each in caught] == [__file__] * 3 and len({each.lineno for each in caught}) == 3
    assert [str(each.message) for each in caught] == [
        "the filter holds numbers, and the column has text: 5 and '5' are two keys; make numbers of the text, for "
        'example by cast("bigint")'] * 2 + [
        "the filter holds text, and the column has numbers: 5 and '5' are two keys; make text of the numbers, for "
        'example by cast("string")']


def test_an_update_changes_what_is_known_of_kinds(spark):
    frame = spark.range(100).withColumn("text", F.col("id").cast("string"))
    changed = scbf.spark.build(frame, "id", capacity=1000)
    scbf.spark.update(changed, "id", insert=spark.range(100, 120), remove=spark.range(10))
    with pytest.warns(scbf.KeyKindWarning, match="the filter holds numbers"):
        scbf.spark.contains(frame, "text", changed.copy())
    scbf.spark.update(changed, "text", insert=frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.KeyKindWarning)
        scbf.spark.contains(frame, "text", changed)
        scbf.spark.contains(frame, "id", changed)


def test_columns_that_are_not_warned_of(spark, tmp_path):
    frame = spark.range(100).select("id", F.col("id").cast("string").alias("text"),
                                    F.expr("cast(cast(id as string) as binary)").alias("bytes"), F.lit(None).alias("none"))
    numbers, text = scbf.spark.build(frame, "id", capacity=200), scbf.spark.build(frame, "text", capacity=200)
    binary, none = scbf.spark.build(frame, "bytes", capacity=200), scbf.spark.build(frame, "none", capacity=200)
    numbers.save(tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.KeyKindWarning)
        for filter, asked in ((numbers, ["id", "bytes", "none"]), (text, ["text", "bytes", "none"]),
                              (binary, ["id", "text"]), (none, ["id", "text"]), (numbers | text, ["id", "text"]),
                              (scbf.Filter.load(tmp_path / "a"), ["text"])):
            before = filter.to_bytes()
            for name in asked:
                scbf.spark.contains(frame, name, filter)
            assert filter.to_bytes() == before
        scbf.spark.contains(frame, "text", scbf.spark.share(numbers, spark=spark))  # its kind is not known


def test_columns_that_cannot_be_keys_are_refused(spark, filter):
    frame = spark.range(3).withColumn("x", F.col("id").cast("double"))
    with pytest.raises(scbf.InvalidKey, match="column x of type double"):
        scbf.spark.contains(frame, "x", filter)


def test_a_column_of_spark_is_no_column_of_keys(spark, filter):
    frame = spark.range(5)
    says = r"of type Column, which has no values here: scbf.spark.contains\(df, column, filter\) asks"
    for keys in (F.col("id"), frame["id"] + 1, [F.col("id")]):
        for call in (filter.insert, filter.contains, filter.remove):
            with pytest.raises(scbf.InvalidKey, match=says):
                call(keys)


def test_streams_can_be_asked(spark, filter, tmp_path):
    numbers = spark.range(100).selectExpr("id * 5 as value")
    numbers.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("value long").parquet(str(tmp_path / "in"))
    kept = stream.filter(scbf.spark.contains(stream, "value", filter))
    query = kept.writeStream.format("memory").queryName("kept").trigger(availableNow=True).option(
        "checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    expected = numbers.filter(scbf.spark.contains(numbers, "value", filter))
    assert rows(spark.table("kept")) == rows(expected) != []


def test_a_column_asks_the_filter_as_it_was(spark):
    changes = scbf.Filter(capacity=100, fpr=1e-9)
    changes.insert([1])
    frame = spark.range(5)
    asked = scbf.spark.contains(frame, "id", changes)
    changes.insert([2])
    assert rows(frame.filter(asked)) == [(1,)]


def test_what_is_no_filter(spark):
    frame = spark.range(5)
    counters = scbf.Filter(capacity=10, fpr=0.01)
    replica = scbf.Replica(scbf.BloomFilter.of(counters).advance(counters))
    bank = scbf.Bank(capacity=10, fpr=0.01)
    for wrong in (None, {1, 2}, bank, scbf.spark.share(bank, spark=spark), replica):
        with pytest.raises(scbf.InvalidArgument, match=f"type {type(wrong).__name__}: must be a Filter, a Bloom"):
            scbf.spark.contains(frame, "id", wrong)
        if wrong is not bank:
            with pytest.raises(scbf.InvalidArgument, match="must be a Filter, a BloomFilter or a bank"):
                scbf.spark.share(wrong, spark=spark)
    for wrong in (None, counters, scbf.spark.share(counters, spark=spark)):
        with pytest.raises(scbf.InvalidArgument, match=f"bank of type {type(wrong).__name__}: must be a GroupBank, a B"):
            scbf.spark.find(frame, "id", wrong)
    assert frame.filter(scbf.spark.contains(frame, "id", replica.snapshot())).count() == 0


def test_what_another_session_shared_is_refused(spark, filter):
    frame = spark.range(5)
    bank = scbf.Bank(capacity=10, fpr=0.01)
    shared, shared_bank = scbf.spark.share(filter, spark=spark), scbf.spark.share(bank, spark=spark)
    says = "shared with another session, or with one that was stopped: share it again, by share"
    for call in (lambda: scbf.spark.contains(frame, "id", dataclasses.replace(shared, session="another")),
                 lambda: scbf.spark.find(frame, "id", dataclasses.replace(shared_bank, session="another"))):
        with pytest.raises(scbf.InvalidArgument, match=says):
            call()
    sister = spark.newSession().range(5)  # of the same application
    assert sister.filter(scbf.spark.contains(sister, "id", shared)).count() == 1
    assert sister.select(scbf.spark.find(sister, "id", shared_bank).alias("found")).count() == 5


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


@pytest.fixture
def char_tables(spark):
    """big5 and big10, small5, small10 and small: tables with a column k, of type char(5), char(10) and string."""
    made = []
    for name, type_ in (("big5", "char(5)"), ("big10", "char(10)"), ("small5", "char(5)"), ("small10", "char(10)"),
                        ("small", "string"), ("big", "string")):
        spark.sql(f"create table {name} (k {type_}, i int) using parquet")
        made.append(name)
        keys = ["ab", "cd", "", " x", "alone"] if name.startswith("big") else ["ab", "", " x", "ab   ", "ef"]
        spark.sql(f"insert into {name} values {', '.join(f'({key!r}, {len(key)})' for key in keys)}, (null, 1)")
    yield
    for name in made:
        spark.sql(f"drop table {name}")


@pytest.mark.parametrize("big, small, some", [("big5", "small10", True), ("big10", "small5", True),
                                              ("big5", "small5", True), ("big5", "small", True),
                                              ("big", "small5", False), ("big10", "small", False)])
@pytest.mark.parametrize("on", ["k", ["k", "i"]])
def test_a_semi_join_on_padded_strings(spark, char_tables, big, small, some, on):
    left, right = spark.table(big), spark.table(small)
    if on != "k":
        right = right.withColumn("i", F.when(F.length(F.rtrim("k")) == 2, 2).otherwise(F.length(F.rtrim("k"))))
    expected = rows(left.join(right, on, "left_semi"))
    assert bool(expected) >= some
    assert rows(scbf.spark.semi_join(left, right, on=on, capacity=10)) == expected


@pytest.mark.parametrize("name", ["a.b", "a b", "a`b", "`a.b`", "clé"])
def test_a_semi_join_takes_the_names_that_the_plain_one_takes(spark, name):
    big = spark.range(300).select(F.col("id").alias(name), F.lit("x").alias("other"))
    small = spark.range(290, 310).select(F.col("id").alias(name))
    for on in (name, [name, name]):
        joined = scbf.spark.semi_join(big, small, on=on, capacity=20)
        assert rows(joined) == rows(big.join(small, on, "left_semi")) != []


def test_what_is_no_name_of_a_column(spark):
    frame = spark.range(5)
    for on in ([], 5, frame["id"], [frame["id"]], None):
        with pytest.raises(scbf.InvalidArgument, match="must be the name of a column"):
            scbf.spark.semi_join(frame, frame, on=on)


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


# ---- banks ---------------------------------------------------------------------------------------

GROUPS = {
    "integers": [7, -2**63, None],
    "strings": ["a", "", "µ"],
    "binary": [b"\0\xff", b""],
    "booleans": [True, False, None],
    "dates": [datetime.date(2020, 2, 29), None],
    "decimals": [decimal.Decimal("1.50"), decimal.Decimal("-12345.678")],
}


@pytest.mark.parametrize("kind", GROUPS)
def test_a_column_of_groups(spark, kind):
    groups = GROUPS[kind]
    counters = scbf.Bank(capacity=1000, fpr=1e-4)
    for i in range(len(groups)):
        counters.insert(counters.add_member(), range(i, 3000, len(groups) + 1))
    made = scbf.spark.GroupBank(groups, counters)
    frame = spark.range(4000, numPartitions=2).select(F.expr("nullif(id, 5)").alias("v"))
    bits = made.bits()
    before = bits.bank.to_bytes()
    for bank in (made, bits):
        asked = frame.select("v", scbf.spark.find(frame, "v", bank).alias("found")).toArrow()
        values = asked["v"].to_pylist()
        found = dict(zip(values, asked["found"].to_pylist(), strict=True))
        assert found.pop(None) == []
        assert list(found.values()) == made.find(list(found))
    assert counters.metadata == "" and bits.bank.to_bytes() == before  # nothing was noted there


def test_a_column_of_members(spark):
    bank = scbf.Bank(capacity=100, fpr=1e-6)
    for keys in (["a", "b"], ["b"], ["c"]):
        bank.insert(bank.add_member(), keys)
    bank.remove_member(1)
    bank.ask_always(2)
    frame = spark.sql("select explode(array('a', 'b', 'c', null, 'd')) as k")
    expected = [[0, 2], [0, 2], [2], [], [2]]
    shared = scbf.spark.share(bank, spark=spark)
    assert scbf.spark.share(scbf.BloomBank.of(bank), spark=spark) == shared
    for each in (bank, scbf.BloomBank.of(bank), shared):
        column = scbf.spark.find(frame, "k", each)
        assert [row.found for row in frame.select(column.alias("found")).collect()] == expected
    assert frame.select(column.alias("found")).schema["found"].dataType == T.ArrayType(T.IntegerType())
    with pytest.raises(scbf.InvalidKey, match="column x of type double"):
        scbf.spark.find(spark.sql("select 1.5d as x"), "x", bank)


def test_the_type_of_a_column_of_groups(spark):
    frame = spark.range(5).selectExpr("id as k", "cast(id as decimal(10, 2)) as price", "cast(id as int) as i")
    for name, type_ in (("price", T.DecimalType(10, 2)), ("i", T.IntegerType())):
        for rows in (frame, frame.limit(0)):
            made = scbf.spark.bank(rows, "k", name, capacity=10)
            found = frame.select(scbf.spark.find(frame, "k", made).alias("found"))
            assert found.schema["found"].dataType == T.ArrayType(type_)
            assert sum(len(row.found) for row in found.collect()) == rows.count()
    bank = scbf.Bank(capacity=10, fpr=0.01)
    bank.add_members([bank.copy_member(bank.add_member())])
    for groups, why in (([7, "7"], "types int, string: must be of one"), ([2**63, 1], "groups: "), ([1.5, 1], "float"),
                        ([1], "members \\[0, 1\\]: its 1 groups")):
        with pytest.raises(scbf.InvalidArgument, match=why):
            scbf.spark.find(frame, "k", scbf.spark.GroupBank(groups, bank))
    with pytest.raises(scbf.InvalidArgument, match="two members of the bank have the same group"):
        scbf.spark.GroupBank(["a", "a"], bank).labelled()
