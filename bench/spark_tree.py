# SPDX-License-Identifier: Apache-2.0
"""A model of building a filter on a cluster: its parts, as measured on one machine, added up along the tree.

The parts are what scbf.spark's tasks do: take keys from Spark and insert them, pack a filter, unpack one and add
it, and what Spark takes for a stage and a task. Seconds are those of the longest path: the levels follow each
other, and the tasks of a level run on as many cores as there are. The bytes of a message are interpolated between
fills at which filters were packed. Not modelled: stragglers, disks, the driver's own work other than unpacking.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import scbf
import scbf.spark
from scbf.spark.tree import widths_for

# Keys in a filter, as shares of its capacity, for which the parts are measured.
SHARES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 0.3, 1.0)
MEASURED_KEYS = 4_000_000


@dataclass
class Parts:
    """What the parts cost. Of SHARES: bytes a message has per byte of the filter, and seconds per byte of it.

    Attributes:
        insert_s: seconds per key: from Spark's rows to the filter, on one core.
        stage_s: of a stage with a task for each core and no work, beyond its tasks.
        task_s: of a Python task with no work, on one core.
        packed: [message bytes / filter bytes] for counters, by share.
        pack_s, add_s: [seconds / filter byte] to pack a filter; and to unpack and add one.
        bits_packed, bits_pack_s, bits_add_s: the same for filters of bits.
    """

    insert_s: float
    stage_s: float
    task_s: float
    packed: list[float]
    pack_s: list[float]
    add_s: list[float]
    bits_packed: list[float]
    bits_pack_s: list[float]
    bits_add_s: list[float]


@dataclass
class Cost:
    """Of a build.

    Attributes:
        filter_bytes: of the filter.
        partitions, widths: partial filters, and tasks of the levels above them.
        level_bytes: that each level sends; that of the partial filters first.
        sent_bytes: of all levels.
        task_bytes: that a task holds, at most: two filters and a message.
        driver_bytes: that the driver holds: the filter and a message.
        seconds: from the first task to the filter.
    """

    filter_bytes: int
    partitions: int
    widths: tuple[int, ...]
    level_bytes: list[int]
    sent_bytes: int
    task_bytes: int
    driver_bytes: int
    seconds: float


def measure_parts(spark: SparkSession) -> Parts:
    """Measures on this machine: 20 to 40 s."""
    n = MEASURED_KEYS
    packed = {kind: ([], [], []) for kind in (scbf.Filter, scbf.BloomFilter)}  # type: ignore[var-annotated]
    for kind, (sizes, packs, adds) in packed.items():
        total = kind(capacity=n, fpr=0.01)
        total.insert(np.arange(n, 2 * n), threads=1)
        for share in SHARES:
            filter = kind(capacity=n, fpr=0.01)
            filter.insert(np.arange(max(1, round(n * share))), threads=1)
            message, pack = best_of(3, lambda: filter.to_bytes(compress=True))  # noqa: B023
            into = total.copy()
            _, add = best_of(3, lambda: into.merge(kind.from_bytes(message)))  # type: ignore  # noqa: B023
            sizes.append(len(message) / filter.nbytes)
            packs.append(pack / filter.nbytes)
            adds.append(add / filter.nbytes)
    cores = spark.sparkContext.defaultParallelism

    def run(partitions: int) -> float:
        frame = spark.range(partitions, numPartitions=partitions)  # a key for each, so that none is left out
        return best_of(3, lambda: scbf.spark.build(frame, "id", capacity=1000, fpr=0.01, width=1))[1]

    def insert() -> Any:
        frame = spark.range(n, numPartitions=cores)
        return scbf.spark.build(frame, "id", geometry=scbf.plan(capacity=n, fpr=0.01).geometry, width=1)

    stages = 3  # partial filters, one merging task, and what collects
    idle, busy = run(cores), run(32 * cores)
    task = (busy - idle) / 31
    whole = best_of(3, insert)[1]
    counters = packed[scbf.Filter]
    bytes_ = scbf.plan(capacity=n, fpr=0.01).nbytes
    # Each core makes one partial filter of n / cores keys; one task adds them up and packs the sum.
    share = 1 / cores
    merging = bytes_ * (at(share, counters[1]) + cores * at(share, counters[2]) + at(1.0, counters[1])
                        + at(1.0, counters[2]))
    return Parts(max(1e-10, (whole - idle - merging) * cores / n), max(0.0, idle - 2 * task) / stages, task,
                 *packed[scbf.Filter], *packed[scbf.BloomFilter])


def best_of(repeats: int, call: Any) -> tuple[Any, float]:
    """The result, and the least seconds."""
    least = math.inf
    result = None
    for _ in range(repeats):
        begin = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - begin)
    return result, least


def at(share: float, figures: list[float]) -> float:
    """A figure at a share of the capacity, between those of SHARES, on logarithmic axes."""
    return float(np.exp(np.interp(math.log(share), np.log(SHARES), np.log(figures))))


def message_share(share: float, figures: list[float]) -> float:
    """Message bytes per filter byte; below the least share measured, in proportion to the keys."""
    return at(share, figures) * min(1.0, share / SHARES[0])


def cost(parts: Parts, keys: int, partitions: int, *, cores: int, fan_in: int, network_bytes_per_s: float | None,
         bits: bool = False) -> Cost:
    """The cost of a build of this many distinct keys at a rate of 1 %.

    Args:
        cores: of all executors.
        network_bytes_per_s: that a task receives; None if nothing travels.
    """
    counters = scbf.plan(capacity=keys, fpr=0.01).nbytes
    m = counters // 4 if bits else counters
    packed, pack, add = ((parts.bits_packed, parts.bits_pack_s, parts.bits_add_s) if bits else
                         (parts.packed, parts.pack_s, parts.add_s))
    widths = widths_for(cores, fan_in)

    def sending(messages: float, share: float) -> float:
        return messages * m * message_share(share, packed)

    def travel(bytes_: float) -> float:
        return bytes_ / network_bytes_per_s if network_bytes_per_s else 0.0

    rounds = math.ceil(partitions / cores)
    seconds = parts.stage_s + rounds * (parts.task_s + keys / partitions * parts.insert_s
                                        + m * at(max(SHARES[0], 1 / partitions), pack))
    level_bytes = [sending(partitions, 1 / partitions)]
    senders = partitions
    for width in widths:
        arriving = math.ceil(senders / width)
        share = max(SHARES[0], 1 / senders)
        seconds += parts.stage_s + parts.task_s + travel(arriving * m * message_share(1 / senders, packed))
        if arriving > 1:
            seconds += m * (arriving * at(share, add) + at(max(SHARES[0], 1 / width), pack))
            senders = width
        level_bytes.append(sending(min(senders, width), 1 / min(senders, width)))
        senders = min(senders, width)
    seconds += travel(level_bytes[-1]) + m * at(1.0, add)
    last = round(level_bytes[-1])
    return Cost(m, partitions, widths, [round(each) for each in level_bytes], round(sum(level_bytes)),
                2 * m + last, m + last, seconds)
