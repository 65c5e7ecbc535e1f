# SPDX-License-Identifier: Apache-2.0
"""Yesterday's keys out, today's in."""

import os
import signal
import sys
import tempfile
import threading
import warnings

import pytest
from pyspark.sql import functions as F

import scbf
import scbf.spark
from scbf.spark import change


BLOCKS = scbf.Geometry.split_block(groups=1, blocks_per_group=400)
GEOMETRIES = [BLOCKS, scbf.Geometry.split(5, 4096), scbf.Geometry.ranked(80, 300, 10)]


def filter_of(*ranges, kind=scbf.Filter, geometry=BLOCKS):
    made = kind(geometry=geometry, seed=8)
    for each in ranges:
        made.insert(each)
    return made


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_removal_is_that_of_one_machine(spark, geometry):
    filter = filter_of(range(2000), geometry=geometry)
    one_by_one = filter.copy()
    one_by_one.remove(range(500, 1500))
    assert scbf.spark.remove(filter, spark.range(500, 1500), "id") == 0
    assert filter.to_bytes() == one_by_one.to_bytes()


def test_keys_that_come_often(spark):
    often = [7] * 30 + list(range(100, 200)) * 3
    filter = filter_of(often, range(1000))
    one_by_one = filter.copy()
    one_by_one.remove(often)
    frame = spark.createDataFrame([(key,) for key in often], "id long")
    assert scbf.spark.remove(filter, frame, "id") > 0  # counters at 15 stay
    assert filter.to_bytes() == one_by_one.to_bytes()
    assert filter.contains(range(1000)).all()


@pytest.mark.parametrize("gone", ["never there", "too often"])
def test_keys_that_are_not_there_are_refused_and_nothing_changes(spark, gone):
    filter = filter_of(range(2000))
    before = filter.to_bytes()
    frame = spark.range(1900, 2100) if gone == "never there" else spark.range(10).union(spark.range(10))
    with pytest.raises(scbf.Incompatible, match="remove only what was inserted"):
        scbf.spark.remove(filter, frame, "id")
    assert filter.to_bytes() == before


def test_an_update_is_a_removal_and_an_insertion(spark, tmp_path):
    path = f"file:{tmp_path}/keys.scbf"
    scbf.spark.save(filter_of(range(1000)), path, spark=spark)
    stored = scbf.spark.load(path, spark=spark)
    assert scbf.spark.update(stored, "id", remove=spark.range(400), insert=spark.range(1000, 1300)) == 0
    scbf.spark.save(stored, path, spark=spark)
    again = scbf.spark.load(path, spark=spark)
    assert again == filter_of(range(400, 1300))
    assert (again.keys_inserted, again.keys_removed) == (1300, 400)


def test_an_update_that_cannot_remove_does_not_insert(spark):
    filter = filter_of(range(1000))
    before = filter.to_bytes()
    with pytest.raises(scbf.Incompatible):
        scbf.spark.update(filter, "id", remove=spark.range(990, 1010), insert=spark.range(5000, 5010))
    assert filter.to_bytes() == before


def test_an_update_holds_one_filter_beyond_the_result(spark, monkeypatch):
    build, built = change._built_for, []

    def build_and_watch(*arguments):
        # The list, this variable and the argument are all that refers to it.
        assert all(sys.getrefcount(earlier) <= 3 for earlier in built)
        built.append(build(*arguments))
        return built[-1]

    monkeypatch.setattr(change, "_built_for", build_and_watch)
    filter = filter_of(range(1000))
    scbf.spark.update(filter, "id", remove=spark.range(400), insert=spark.range(1000, 1300))
    assert len(built) == 2 and filter == filter_of(range(400, 1300))


def test_an_update_that_cannot_be_built_changes_nothing(spark, monkeypatch, tmp_path):
    filter = filter_of(range(1000))
    before = filter.to_bytes()
    fails = spark.range(10).select(F.when(F.col("id") == 7, F.raise_error(F.lit("seven"))).otherwise(F.col("id"))
                                   .cast("long").alias("id"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(Exception, match="seven"):
        scbf.spark.update(filter, "id", remove=spark.range(400), insert=fails)
    assert filter.to_bytes() == before
    assert os.listdir(tmp_path) == []


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C comes after the removal and before the insertion."""
    subtract = change._subtract

    def subtract_and_interrupt(*arguments):
        inexact = subtract(*arguments)
        signal.raise_signal(signal.SIGINT)
        return inexact

    monkeypatch.setattr(change, "_subtract", subtract_and_interrupt)


def test_no_signal_comes_between_the_halves_of_an_update(spark, monkeypatch):
    """Nor one whose handler raises, as those of timeouts do."""
    subtract = change._subtract

    def subtract_slowly(*arguments):
        inexact = subtract(*arguments)
        signal.raise_signal(signal.SIGALRM)
        return inexact

    def expire(number, frame):
        raise TimeoutError

    monkeypatch.setattr(change, "_subtract", subtract_slowly)
    old = signal.signal(signal.SIGALRM, expire)
    try:
        filter = filter_of(range(1000))
        with pytest.raises(TimeoutError):
            scbf.spark.update(filter, "id", remove=spark.range(400), insert=spark.range(1000, 1300))
    finally:
        signal.signal(signal.SIGALRM, old)
    assert filter == filter_of(range(400, 1300))


def test_ctrl_c_waits_for_both_halves_of_an_update(spark, interrupted):
    filter = filter_of(range(1000))
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        scbf.spark.update(filter, "id", remove=spark.range(400), insert=spark.range(1000, 1300))
    assert filter == filter_of(range(400, 1300))
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_update_in_a_thread(spark):
    filter = filter_of(range(1000))
    thread = threading.Thread(target=scbf.spark.update, args=(filter, "id"),
                              kwargs={"remove": spark.range(400), "insert": spark.range(1000, 1300)})
    thread.start()
    thread.join()
    assert filter == filter_of(range(400, 1300))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_bits_take_insertions_only(spark, geometry):
    bits = filter_of(range(1000), kind=scbf.BloomFilter, geometry=geometry)
    scbf.spark.update(bits, "id", insert=spark.range(1000, 1200))
    assert bits == filter_of(range(1200), kind=scbf.BloomFilter, geometry=geometry)
    with pytest.raises(scbf.InvalidArgument, match="removed from counters"):
        scbf.spark.update(bits, "id", remove=spark.range(5))


def test_a_rate_that_is_lost_is_reported(spark):
    filter = filter_of(range(1000))
    with pytest.raises(scbf.spark.UndersizedPlan, match="where 0.01 was planned"):
        scbf.spark.update(filter, "id", insert=spark.range(1000, 9000), fpr=0.01)
    assert filter.contains(range(9000)).all()


def test_an_update_without_a_rate_goes_by_the_plan(spark):
    filter = scbf.spark.build(spark.range(1000), "id", capacity=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.OverfullWarning)
        scbf.spark.update(filter, "id", remove=spark.range(900), insert=spark.range(1000, 1900))
    with pytest.warns(scbf.OverfullWarning, match="made for 1000 keys at a false-positive rate of 0.01"):
        scbf.spark.update(filter, "id", insert=spark.range(1900, 3000))
    assert filter.contains(range(900, 3000)).all()


@pytest.mark.parametrize("keys, fpr", [(1100, None), (9000, None), (9000, 0.01)])
def test_an_update_is_finished_where_warnings_are_errors(spark, keys, fpr):
    filter = scbf.spark.build(spark.range(1000), "id", capacity=1000)
    expected = filter.copy()
    expected.remove(range(900))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected.insert(range(1000, 1000 + keys))
    with warnings.catch_warnings():
        warnings.simplefilter("error", scbf.OverfullWarning)
        with pytest.raises(scbf.OverfullWarning if keys == 1100 else scbf.spark.UndersizedPlan):
            scbf.spark.update(filter, "id", remove=spark.range(900), insert=spark.range(1000, 1000 + keys), fpr=fpr)
    assert filter == expected


def test_what_cannot_be_updated(spark):
    grows = scbf.Filter(growth=scbf.Growth.tightening(first_capacity=100, fpr=0.01))
    with pytest.raises(scbf.InvalidArgument, match="may grow"):
        scbf.spark.update(grows, "id", insert=spark.range(5))
    with pytest.raises(scbf.InvalidArgument, match="give a data frame"):
        scbf.spark.update(filter_of(), "id")


def test_arguments_are_checked_before_a_job_runs(spark, tmp_path):
    filter = filter_of(range(10))
    filter.save(tmp_path / "a.scbf")
    mapped = scbf.Filter.map(tmp_path / "a.scbf")
    fails = spark.range(5).select(F.raise_error(F.lit("a job ran")).cast("long").alias("id"))
    bits = scbf.BloomFilter.of(filter)
    bank = scbf.Bank(capacity=10, fpr=0.01)
    stream = spark.readStream.format("rate").load().select(F.col("value").alias("id"))
    for says, call in (
            ("removed from counters", lambda: scbf.spark.remove(bits, fails, "id")),
            ("type Bank: must be a Filter", lambda: scbf.spark.remove(bank, fails, "id")),
            ("type Bank: must be a Filter or", lambda: scbf.spark.update(bank, "id", insert=fails)),
            ("type NoneType: must be a Filter", lambda: scbf.spark.update(None, "id", remove=fails)),
            ("fpr 1.5: must be a number in", lambda: scbf.spark.update(filter, "id", insert=fails, fpr=1.5)),
            ("fpr '0.01': must be a number in", lambda: scbf.spark.update(filter, "id", insert=fails, fpr="0.01")),
            (r"data frame \[1\]: must be", lambda: scbf.spark.update(filter, "id", remove=fails, insert=[1])),
            ("key 5: must be the name", lambda: scbf.spark.remove(filter, fails, 5)),
            ("streaming", lambda: scbf.spark.update(filter, "id", remove=fails, insert=stream)),
            ("streaming", lambda: scbf.spark.remove(filter, stream, "id"))):
        with pytest.raises(scbf.InvalidArgument, match=says):
            call()
    for call in (lambda: scbf.spark.update(mapped, "id", insert=fails), lambda: scbf.spark.remove(mapped, fails, "id")):
        with pytest.raises(scbf.ReadOnly, match="mapped, and cannot be changed"):
            call()
