# SPDX-License-Identifier: Apache-2.0
"""Python workers and executors that are killed while a filter is built."""

from pathlib import Path

import pytest

import scbf
import scbf.spark
from scbf.spark import tree

N = 30_000
GEOMETRY = scbf.Geometry.split_block(groups=1, blocks_per_group=4000)


@pytest.fixture
def alone():
    made = scbf.Filter(geometry=GEOMETRY)
    made.insert(range(N))
    return made


def kills_once(victim: str, marker: Path):
    """A function for a task, which ends its Python worker, or its executor, the first time that one calls it.

    Nested, so that it travels by value: executors do not have this module.
    """
    marker_path = str(marker)

    def kill() -> None:
        import os
        import signal

        try:
            os.close(os.open(marker_path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        process = os.getpid()
        if victim == "executor":  # the parent of the daemon that forked this worker
            for _ in range(2):
                with open(f"/proc/{process}/stat") as stat:
                    process = int(stat.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{process}/cmdline") as command:
                assert "CoarseGrainedExecutorBackend" in command.read()
        os.kill(process, signal.SIGKILL)

    return kill


@pytest.mark.parametrize("victim", ["worker", "executor"])
def test_a_partial_filter_is_made_again(spark, alone, tmp_path, victim):
    marker = tmp_path / "killed"
    kill = kills_once(victim, marker)

    def dies_in_the_middle(batches):
        from pyspark import TaskContext

        for i, batch in enumerate(batches):
            if i == 1 and TaskContext.get().partitionId() == 3:  # keys were inserted, and others made their filters
                kill()
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    frame = spark.range(N, numPartitions=6).mapInArrow(dies_in_the_middle, "id long")
    built = scbf.spark.build(frame, "id", geometry=GEOMETRY)
    assert marker.exists()
    assert built.to_bytes() == alone.to_bytes()


def test_what_a_lost_executor_had_sent_is_made_again(spark, alone, tmp_path, monkeypatch):
    """The executor dies while it merges, and with it the messages of the partial filters that it made, and its copy
    of a filter that was shared."""
    frame = spark.range(2 * N)
    asked = scbf.spark.contains(frame, "id", alone)
    expected = alone.contains(range(2 * N)).sum()
    assert frame.filter(asked).count() == expected
    marker = tmp_path / "killed"
    kill = kills_once("executor", marker)
    merge = tree.merge

    def dies(batches, shape, fan_in):
        kill()
        yield from merge(batches, shape, fan_in)

    monkeypatch.setattr(tree, "merge", dies)
    reports = []
    built = scbf.spark.build(spark.range(N, numPartitions=6), "id", geometry=GEOMETRY, report=reports.append)
    assert marker.exists()
    assert built.to_bytes() == alone.to_bytes()
    assert reports[0].partitions == 6
    assert frame.filter(asked).count() == expected


def test_a_bank_survives_a_lost_executor(spark, tmp_path):
    marker = tmp_path / "killed"
    kill = kills_once("executor", marker)

    def dies(batches):
        for batch in batches:
            kill()
            yield batch

    frame = spark.range(3000, numPartitions=4).selectExpr("id", "id % 3 as g").mapInArrow(dies, "id long, g long")
    made = scbf.spark.bank(frame, "id", "g", capacity=1000)
    assert marker.exists()
    assert sorted(made.groups) == [0, 1, 2]
    for group in made.groups:
        alone = scbf.Filter(capacity=1000, fpr=0.01)
        alone.insert(range(group, 3000, 3))
        assert made.filter(group).to_bytes() == alone.to_bytes()


def test_a_speculative_copy_of_a_task_changes_nothing(two_hosts, alone, tmp_path):
    folder = str(tmp_path)

    def hangs_the_first_time(batches):
        import time

        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            open(f"{folder}/{task.partitionId()}-{task.attemptNumber()}", "w").close()
            if task.partitionId() == 5 and task.attemptNumber() == 0:
                time.sleep(100)
            yield batch

    frame = two_hosts.range(N, numPartitions=8).mapInArrow(hangs_the_first_time, "id long")
    built = scbf.spark.build(frame, "id", geometry=GEOMETRY)
    assert {each.name for each in tmp_path.glob("5-*")} == {"5-0", "5-1"}
    assert built.to_bytes() == alone.to_bytes()


def test_a_task_that_runs_twice_sends_the_same(monkeypatch):
    """What Spark relies on when it takes either copy of a retried or speculative task."""
    shape = tree.Shape(scbf.Filter, GEOMETRY, 0, 1024)
    monkeypatch.setattr(tree, "partition_id", lambda: 5)
    import pyarrow as pa

    batches = [pa.record_batch({"key": range(i, i + 500)}) for i in range(0, 5000, 500)]
    first = list(tree.leaf(iter(batches), shape, 3))
    assert list(tree.leaf(iter(batches[::-1]), shape, 3)) == first  # and the order of its rows may differ
