# SPDX-License-Identifier: Apache-2.0
"""build(): byte for byte what one machine builds."""

import copy
import datetime
import pickle
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F

import scbf
import scbf.spark
from scbf.spark import tree
from scbf.spark.messages import Inbox, Partial
from support import keys_of_several_columns

N = 3000
GEOMETRY = scbf.Geometry.split_block(groups=1, blocks_per_group=600)


def on_one_machine(keys, kind=scbf.Filter, geometry=GEOMETRY, seed=0):
    made = kind(geometry=geometry, seed=seed)
    made.insert([key for key in keys if key is not None])
    return made


def numbers(spark, partitions=5):
    return spark.range(N, numPartitions=partitions)


COLUMNS = {
    "bigint": ("id * 1000003", lambda i: i * 1000003),
    "int": ("cast(id - 1000 as int)", lambda i: i - 1000),
    "smallint": ("cast(id as smallint)", lambda i: i),
    "tinyint": ("cast(id % 200 - 100 as tinyint)", lambda i: i % 200 - 100),
    "string": ("concat('clé ', id)", lambda i: f"clé {i}"),
    "binary": ("cast(concat('b', id) as binary)", lambda i: f"b{i}".encode()),
    "with nulls": ("if(id % 3 = 0, null, id)", lambda i: None if i % 3 == 0 else i),
    "strings with nulls": ("if(id % 3 = 0, null, repeat('x', cast(id % 50 as int)))",
                           lambda i: None if i % 3 == 0 else "x" * (i % 50)),
    "all null": ("cast(null as string)", lambda i: None),
    "of no type": ("null", lambda i: None),
    "one key": ("1", lambda i: 1),  # counters at 15
}


@pytest.mark.parametrize("column", COLUMNS)
def test_bytes_are_those_of_one_machine(spark, column):
    expression, key = COLUMNS[column]
    built = scbf.spark.build(numbers(spark, 3), F.expr(expression), geometry=GEOMETRY, width=1)
    assert built.to_bytes() == on_one_machine(map(key, range(N))).to_bytes()


@pytest.mark.parametrize("kind", [scbf.Filter, scbf.BloomFilter])
def test_a_partition_of_many_batches(monkeypatch, kind):
    """So many keys that they are partitioned before they are inserted. Spark is not needed."""
    monkeypatch.setattr(tree, "partition_id", lambda: 0)
    keys = np.arange(300_000)
    batches = (pa.record_batch({"key": keys[first : first + 10_000]}) for first in range(0, len(keys), 10_000))
    shape = tree.Shape(kind, scbf.plan(capacity=len(keys), fpr=0.01).geometry, seed=3, chunk_bytes=1 << 20)
    message, = Inbox().messages(tree.leaf(batches, shape, 1))
    assert shape.read(Partial.unpack(message).filter) == on_one_machine(keys.tolist(), kind, shape.geometry, seed=3)


def test_keys_of_several_columns(spark):
    """As docs/python.md makes them."""
    df = spark.createDataFrame([("Rom", "a"), ("Bonn", None), (None, "b")], "city string, street string")
    keys = eval(keys_of_several_columns()[1]["Spark"], {"df": df, "F": F})
    (name,) = keys.columns
    assert [row[name] for row in keys.collect()] == ["Rom\x1fa", None, None]
    built = scbf.spark.build(keys, keys[name], geometry=GEOMETRY)
    assert built.to_bytes() == on_one_machine(["Rom\x1fa"]).to_bytes()


def test_a_column_has_a_name_and_a_filter_a_shape(spark):
    frame = numbers(spark).withColumnRenamed("id", "order key")
    built = scbf.spark.build(frame, "order key", capacity=N, fpr=0.001, layout="split", seed=99)
    alone = scbf.Filter(capacity=N, fpr=0.001, layout="split", seed=99)
    alone.insert(range(N))
    assert built.to_bytes() == alone.to_bytes()


def test_bits_are_those_of_one_machine(spark):
    built = scbf.spark.build(numbers(spark), "id", geometry=GEOMETRY, seed=3, bits=True)
    alone = on_one_machine(range(N), scbf.BloomFilter, seed=3)
    assert isinstance(built, scbf.BloomFilter) and built.to_bytes() == alone.to_bytes()
    assert built == scbf.BloomFilter.of(on_one_machine(range(N), seed=3))


@pytest.mark.parametrize("shape", [{"width": 1}, {"width": 7, "fan_in": 2}])
def test_the_shape_of_the_tree_is_not_to_be_seen(spark, shape):
    reports = []
    built = scbf.spark.build(numbers(spark, 11), "id", geometry=GEOMETRY, report=reports.append, **shape)
    assert built.to_bytes() == on_one_machine(range(N)).to_bytes()
    assert reports[0].partitions == 11 and reports[0].widths[0] == shape["width"] and reports[0].widths[-1] == 1


def test_empty_and_skewed_partitions(spark):
    # Of 40 partitions, 37 are empty, and one has nearly all rows, in many batches.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 200)
    frame = numbers(spark).repartitionById(40, F.expr("cast(if(id < 2900, 38, if(id < 2999, 5, 0)) as int)"))
    reports = []
    built = scbf.spark.build(frame, "id", geometry=GEOMETRY, report=reports.append)
    assert built.to_bytes() == on_one_machine(range(N)).to_bytes()
    assert reports[0].partitions == 40


@pytest.mark.parametrize("empty", ["no rows", "no partitions"])
def test_an_empty_frame_is_an_empty_filter(spark, empty):
    frame = numbers(spark).where("id < 0") if empty == "no rows" else numbers(spark).limit(0)
    built = scbf.spark.build(frame, "id", geometry=GEOMETRY)
    assert built.to_bytes() == scbf.Filter(geometry=GEOMETRY).to_bytes()
    assert len(scbf.spark.build(frame, "id", fpr=0.01)) == 0


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_large_filter_comes_in_pieces(spark, monkeypatch, adaptive):
    monkeypatch.setattr(tree, "_PIECE_BYTES", 10_000)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 3_000_000)  # so that chunks are small, too
    built = scbf.spark.build(numbers(spark), "id", geometry=GEOMETRY)
    assert built.to_bytes() == on_one_machine(range(N)).to_bytes()


def test_keys_are_counted_where_no_capacity_is_given(spark):
    reports = []
    built = scbf.spark.build(numbers(spark).union(numbers(spark)), "id", report=reports.append)
    (report,) = reports
    assert abs(report.counted - N) < 0.05 * N
    assert report.capacity == -(-report.counted * 103 // 100)
    assert built.geometry == scbf.plan(capacity=report.capacity, fpr=0.01).geometry
    assert report.keys == 2 * N and abs(report.estimated_keys - N) < 0.05 * N and report.estimated_fpr < 0.0125
    assert f"approx_count_distinct says {report.counted:,}" in str(report)
    assert 0 < report.result_bytes < report.sent_bytes


def test_an_undersized_plan_is_an_error_that_has_the_filter(spark):
    says = r"about [23],\d{3} distinct keys, and was planned for 2,000"
    with pytest.raises(scbf.spark.UndersizedPlan, match=says) as caught:
        scbf.spark.build(numbers(spark), "id", capacity=2000, fpr=0.01)
    assert isinstance(caught.value, scbf.Error)
    assert caught.value.filter.contains(range(N)).all()
    assert caught.value.estimated_fpr > 0.02 and abs(caught.value.estimated_keys - N) < 0.1 * N


def test_an_undersized_plan_can_be_pickled(spark):
    with pytest.raises(scbf.spark.UndersizedPlan) as caught:
        scbf.spark.build(numbers(spark), "id", capacity=1000)
    error = caught.value
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(same) is scbf.spark.UndersizedPlan and str(same) == str(error) and same.filter == error.filter
        assert (same.estimated_keys, same.estimated_fpr) == (error.estimated_keys, error.estimated_fpr)


def test_a_filter_that_says_yes_to_all_is_an_error_whatever_was_planned(spark):
    tiny = scbf.Geometry.split_block(groups=1, blocks_per_group=4)
    with pytest.raises(scbf.spark.UndersizedPlan, match="more distinct keys than can be told"):
        scbf.spark.build(numbers(spark), "id", geometry=tiny)
    with pytest.raises(scbf.spark.UndersizedPlan):
        scbf.spark.build(numbers(spark), "id", capacity=30, fpr=0.9)


def test_a_rate_modestly_above_the_plan_is_a_warning(spark):
    with pytest.warns(scbf.spark.UndersizedPlanWarning, match="planned for 2,800"):
        scbf.spark.build(numbers(spark), "id", capacity=2800, fpr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.spark.UndersizedPlanWarning)
        scbf.spark.build(numbers(spark), "id", capacity=N, fpr=0.01)


PLANNED = r"was made for 3090 keys at a false-positive rate of 0\.01"


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_a_filter_knows_what_it_was_planned_for(spark, monkeypatch, bits, counted):
    monkeypatch.setattr(sys.modules["scbf.spark.build"], "count_keys", lambda *_: N)
    built = scbf.spark.build(numbers(spark), "id", capacity=None if counted else 3090, bits=bits)
    for filter in (built.copy(), built):
        with pytest.warns(scbf.OverfullWarning, match=f"the filter {PLANNED}"):
            filter.insert(range(N, 2 * N))
    with pytest.raises(scbf.spark.UndersizedPlan) as caught:
        scbf.spark.build(numbers(spark), "id", capacity=1000, bits=bits)
    with pytest.warns(scbf.OverfullWarning, match="made for 1000 keys"):
        caught.value.filter.insert(-1)


def test_a_filter_of_a_geometry_has_no_plan(spark):
    built = scbf.spark.build(numbers(spark), "id", geometry=GEOMETRY, fpr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.OverfullWarning)
        built.insert(range(N, 20 * N))


@pytest.mark.parametrize("lost", [0, 4])
def test_a_missing_partial_fails_the_job(spark, monkeypatch, lost):
    leaves = tree._leaves

    def all_but_one(*arguments):
        partials, last = leaves(*arguments)
        return partials.where(F.col("sender") != lost), last

    monkeypatch.setattr(tree, "_leaves", all_but_one)
    with pytest.raises(scbf.spark.MissingPartial, match=f"of 5 partitions, the filters of {lost} did not arrive"):
        scbf.spark.build(numbers(spark), "id", geometry=GEOMETRY)


def test_a_partial_that_comes_twice_fails_the_job(spark, monkeypatch):
    leaves = tree._leaves

    def one_twice(*arguments):
        partials, last = leaves(*arguments)
        copies = F.explode(F.expr("if(sender = 3, array(1, 2), array(1))"))
        return partials.withColumn("copy", copies).drop("copy"), last

    monkeypatch.setattr(tree, "_leaves", one_twice)
    with pytest.raises(PythonException, match="(of|from) 3,? came twice"):
        scbf.spark.build(numbers(spark), "id", geometry=GEOMETRY)


REFUSED = {
    "cast(id as double)": "floating-point",
    "cast(id as decimal(20, 2))": "string or to bigint",
    "id > 5": "true and false",
    "current_date()": "unix_date",
    "current_timestamp()": "unix_micros",
    "cast(current_timestamp() as timestamp_ntz)": "unix_micros",
    "interval 1 day": "bigint, string or binary",
    "array(id)": "explode",
    "struct(id)": "xxhash64",
    "map(id, id)": "one of its values",
    "cast(id as string) collate utf8_lcase": "collation_key",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_columns_that_cannot_be_keys_are_refused_before_a_job_runs(spark, expression):
    with pytest.raises(scbf.InvalidKey, match=REFUSED[expression]):
        scbf.spark.build(numbers(spark), F.expr(expression).alias("x"), capacity=10)


def test_a_capacity_may_be_a_whole_float(spark):
    made = [scbf.spark.build(numbers(spark), "id", capacity=capacity) for capacity in (3 * N, 3.0 * N)]
    assert made[0].to_bytes() == made[1].to_bytes()


def test_the_way_out_of_a_refusal_is_one(spark):
    days = numbers(spark).selectExpr("unix_date(date_add(date'2020-01-01', cast(id as int))) as d")
    built = scbf.spark.build(days, "d", geometry=GEOMETRY)
    first = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    assert built.to_bytes() == on_one_machine(range(first, first + N)).to_bytes()


ARGUMENTS = {
    "seed -1: must be a whole number from 0 to 2": {"capacity": 10, "seed": -1},
    "seed 18446744073709551616: must": {"capacity": 10, "seed": 2**64},
    "seed 'x': must": {"capacity": 10, "seed": "x"},
    "seed 1.5: must": {"seed": 1.5},
    "capacity 0: must be a whole number from 1 to 2": {"capacity": 0},
    "capacity -1: must": {"capacity": -1},
    "capacity 1000.5: must": {"capacity": 1000.5},
    "capacity inf: must": {"capacity": float("inf")},
    "capacity True: must": {"capacity": True},
    "report 5: must be a function": {"capacity": 10, "report": 5},
    "capacity 18446744073709551616: must": {"capacity": 2**64},
    "capacity 9223372036854775808 at fpr 0.01: split holds at most": {"capacity": 2**63},
    r"fpr '0.01': must be a number in \(0, 1\)": {"fpr": "0.01"},
    "fpr 1.5: must": {"capacity": 10, "fpr": 1.5},
    "fpr 0.0: must": {"fpr": 0.0},
    "fpr nan: must": {"fpr": float("nan")},
    "fpr 2: must": {"geometry": GEOMETRY, "fpr": 2},
    "geometry 3: must be a scbf.Geometry": {"geometry": 3},
    "give a geometry, or": {"geometry": GEOMETRY, "capacity": 5},
    "layout 'round': must be one of 'split_block'": {"layout": "round"},
    "layout 3: must": {"layout": 3},
    "width 0: must be a whole number from 1 to 2,147,483,647": {"width": 0},
    "width 1.5: must": {"width": 1.5},
    "fan_in 1: must be a whole number from 2": {"fan_in": 1},
    "fan_in 2.5: must": {"fan_in": 2.5},
}


@pytest.mark.parametrize("says", ARGUMENTS)
def test_arguments_are_checked_before_a_job_runs(spark, says):
    fails = numbers(spark).select(F.raise_error(F.lit("a job ran")).cast("long").alias("id"))
    with pytest.raises(scbf.InvalidArgument, match=f"^{says}"):
        scbf.spark.build(fails, "id", **ARGUMENTS[says])
    if ARGUMENTS[says].keys() <= {"capacity", "fpr", "layout", "seed"}:
        with pytest.raises(scbf.InvalidArgument, match=f"^{says}"):
            scbf.spark.bank(fails, "id", F.lit(1), **ARGUMENTS[says])


def test_what_is_no_frame_and_no_column(spark):
    frame = numbers(spark)
    with pytest.raises(scbf.InvalidArgument, match="data frame None: must be"):
        scbf.spark.build(None, "id", capacity=10)
    with pytest.raises(scbf.InvalidArgument, match="key 5: must be the name of a column"):
        scbf.spark.build(frame, 5, capacity=10)
    with pytest.raises(scbf.InvalidArgument, match="group 5: must be the name of a column"):
        scbf.spark.bank(frame, "id", 5, capacity=10)
    with pytest.raises(scbf.InvalidKey, match=r"2 \(id, twice\)"):
        scbf.spark.build(frame.withColumn("twice", F.col("id") * 2), "*", capacity=10)


def test_a_stream_has_no_end(spark):
    stream = spark.readStream.format("rate").load()
    for call in (lambda: scbf.spark.build(stream, "value", capacity=10), lambda: scbf.spark.count_keys(stream, "value"),
                 lambda: scbf.spark.bank(stream, "value", F.lit(1), capacity=10)):
        with pytest.raises(scbf.InvalidArgument, match="streaming data frame has no end"):
            call()


def test_names_of_columns_are_those_of_select(spark):
    frame = numbers(spark).select(F.col("id").alias("a.b"), F.struct(F.col("id").alias("c")).alias("s"))
    for name in ("`a.b`", "s.c"):
        built = scbf.spark.build(frame, name, geometry=GEOMETRY)
        assert built.to_bytes() == on_one_machine(range(N)).to_bytes()


def test_the_advice_is_one_that_was_not_followed_already(spark, monkeypatch):
    with pytest.raises(scbf.spark.UndersizedPlan, match="; give a larger capacity, or none to have the keys counted$"):
        scbf.spark.build(numbers(spark), "id", capacity=1000)
    tiny = scbf.Geometry.split_block(groups=1, blocks_per_group=4)
    with pytest.raises(scbf.spark.UndersizedPlan, match="; give a larger geometry$"):
        scbf.spark.build(numbers(spark), "id", geometry=tiny)
    monkeypatch.setattr(sys.modules["scbf.spark.build"], "count_keys", lambda *_: 1000)
    with pytest.raises(scbf.spark.UndersizedPlan, match="; give a capacity, larger than what was counted, or"):
        scbf.spark.build(numbers(spark), "id")
