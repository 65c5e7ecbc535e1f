# SPDX-License-Identifier: Apache-2.0
"""One filter for each partition, and their sum as a tree of tasks.

    partitions   0   1   2   3   4   5   …         one partial filter each: mapInArrow
                  ╲  │  ╱     ╲  │  ╱
    level 1         ▢           ▢       …          as many tasks as the cluster has cores
                      ╲       ╱
    level 2              ▢                         an eighth of them, and so on
                         │
    driver            the filter

Between the levels lies a shuffle of messages (messages.py). All of it is one Spark job on data frames, so Spark
reruns what is lost, and one code serves Spark Classic and Spark Connect. A task only returns rows: one that is
retried, or runs twice, returns the same rows, of which Spark takes one copy.

Counters add up, saturating at 15, and bits by OR. Both are commutative and associative, so the shape of the
tree does not affect the result.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from scbf import BloomFilter, Filter, Geometry, release_scratch
from scbf.spark import messages
from scbf.spark.errors import MissingPartial
from scbf.spark.keys import kind_of
from scbf.spark.messages import Inbox, Partial, rows_of
from scbf.spark.sessions import cores, rows_by_partition

# Bytes that the driver fetches at a time if a filter is larger.
_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class Shape:
    """What all filters of a tree have in common. Travels to the tasks."""

    kind: type[Filter] | type[BloomFilter]
    geometry: Geometry
    seed: int
    chunk_bytes: int

    def new(self) -> Filter | BloomFilter:
        return self.kind(geometry=self.geometry, seed=self.seed)

    def read(self, data: bytes | bytearray | memoryview) -> Filter | BloomFilter:
        return self.kind.from_bytes(data)


@dataclass(frozen=True)
class Delivery:
    """What the driver received.

    Attributes:
        filter: of all partitions.
        partitions: how many there were.
        widths: tasks of each level.
        sent_bytes: of all messages, of all levels.
        result_bytes: of the last message.
    """

    filter: Filter | BloomFilter
    partitions: int
    widths: tuple[int, ...]
    sent_bytes: int
    result_bytes: int


def partition_id() -> int:
    """The number of the partition that this task computes."""
    context = TaskContext.get()
    assert context is not None, "runs in a task"
    return context.partitionId()


def widths_for(parallelism: int, fan_in: int) -> tuple[int, ...]:
    """Tasks of each level: first one for each core, at last one."""
    widths = [max(1, parallelism)]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // fan_in))
    return tuple(widths)


def leaf(batches: Iterator[pa.RecordBatch], shape: Shape, width: int) -> Iterator[pa.RecordBatch]:
    """The partial filter of a partition, as a message. Runs in a task.

    Memory: one filter and, while keys come, half as much (at most 1 GiB) to partition them in; then the filter and
    its compressed bytes. None if there are no keys.
    """
    partition = partition_id()
    filter = bulk = None
    for batch in batches:
        keys = batch.column(0)
        if keys.null_count == len(keys):
            continue
        if bulk is None:
            filter = shape.new()
            bulk = filter.bulk(threads=1)
        bulk.insert(keys)
    if bulk is not None:
        bulk.finish()
        release_scratch()  # executors have little memory, and this task needs it no more
    data = b"" if filter is None else filter.to_bytes(compress=True)
    del bulk, filter
    yield from rows_of(Partial(1 << partition, data), partition, partition % width, shape.chunk_bytes)


def add_up(received: Iterator[bytearray], shape: Shape) -> Partial | None:
    """The sum of messages; None if there are none. Memory: two filters and a message.

    A single filter is passed on as it came.
    """
    result: Partial | None = None
    filter = None
    for message in received:
        one = Partial.unpack(message)
        if result is None:
            result = one
            continue
        if twice := result.partitions & one.partitions:
            raise MissingPartial(f"the filters of {_list(twice)} came twice; there is no result")
        result.partitions |= one.partitions
        result.sent_bytes += one.sent_bytes
        if not one.filter:
            continue
        if filter is None and not result.filter:
            result.filter = one.filter
            continue
        if filter is None:
            filter, result.filter = shape.read(result.filter), b""
        filter.merge(shape.read(one.filter))  # type: ignore[arg-type]  # both are of the shape's kind
    if result is not None and filter is not None:
        result.filter = filter.to_bytes(compress=True)
    return result


def merge(batches: Iterator[pa.RecordBatch], shape: Shape, fan_in: int) -> Iterator[pa.RecordBatch]:
    """Adds up the messages for a task, for the next level. Runs in a task."""
    task = partition_id()
    result = add_up(Inbox().messages(batches), shape)
    if result is not None:
        yield from rows_of(result, task, task // fan_in, shape.chunk_bytes)


def grow(keys: DataFrame, shape: Shape, width: int | None = None, fan_in: int = 8) -> Delivery:
    """Runs the tree over a frame of one column of keys.

    Besides the filter, the driver holds the last message, and 64 MiB of it twice.

    Raises:
        MissingPartial: unless every partition's filter came once.
    """
    spark = keys.sparkSession
    widths = widths_for(width or cores(spark), fan_in)
    partials, last = _leaves(keys, shape, widths[0])
    for tasks in widths:
        partials = partials.repartitionById(tasks, "target").mapInArrow(
            functools.partial(merge, shape=shape, fan_in=fan_in), messages.SCHEMA)
    inbox = Inbox()
    received = [message for row in _fetched(partials, spark, shape.geometry.nbytes)
                if (message := inbox.add(row.sender, row.offset, row.total, row.data)) is not None]
    inbox.check_empty()
    result = add_up(iter(received), shape) or Partial(0, b"")
    largest = last.get["last"]
    partitions = 0 if largest is None else largest + 1
    check_complete(result.partitions, partitions)
    filter = shape.read(result.filter) if result.filter else shape.new()
    if result.filter and (kind := kind_of(keys.schema.fields[0].dataType)) is not None:
        filter._holds(kind)  # type: ignore[union-attr]  # not in the stub
    return Delivery(filter, partitions, widths, result.sent_bytes, sum(map(len, received)))


def check_complete(arrived: int, partitions: int) -> None:
    """Raises MissingPartial unless bit i of ``arrived`` is set for each partition i."""
    missing = ((1 << partitions) - 1) & ~arrived
    if missing:
        raise MissingPartial(f"of {partitions} partitions, the filters of {_list(missing)} did not arrive; there is "
                             "no result")
    if arrived >> partitions:
        raise MissingPartial(f"filters of {partitions} partitions were made, and {arrived.bit_length()} or more came; "
                             "there is no result")


def _list(mask: int) -> str:
    numbers = [i for i in range(mask.bit_length()) if mask >> i & 1]
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {len(numbers) - 10} more" if len(numbers) > 10 else shown


def _leaves(keys: DataFrame, shape: Shape, width: int) -> tuple[DataFrame, Observation]:
    """The messages of the partial filters, and an observation of the largest partition that made one.

    The largest, and not how many: a partition that is computed twice, because an executor was lost, may be observed
    twice.
    """
    last = Observation()
    partials = keys.mapInArrow(functools.partial(leaf, shape=shape, width=width), messages.SCHEMA)
    return partials.observe(last, F.max("sender").alias("last")), last


def _fetched(partials: DataFrame, spark: SparkSession, nbytes: int) -> Iterator[Row]:
    """The rows of the last level. Those of a large filter come in pieces, through one more shuffle."""
    pieces = -(-nbytes // _PIECE_BYTES)
    if pieces == 1:
        return iter(partials.collect())
    piece = F.floor(F.col("offset") / F.lit(_PIECE_BYTES)).cast("int")
    return rows_by_partition(partials.repartitionById(pieces, piece))


def shape_for(spark: SparkSession, kind: type, geometry: Geometry, seed: int) -> Shape:
    """The shape, with chunks that suit the session's Arrow batches."""
    records = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or "10000"
    return Shape(kind, geometry, seed, messages.chunk_bytes_for(int(records)))
