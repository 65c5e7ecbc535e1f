# SPDX-License-Identifier: Apache-2.0
"""A filter of a column of a data frame."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scbf import BloomFilter, Filter, Geometry, Plan
from scbf.errors import InvalidArgument
from scbf.spark import tree
from scbf.spark.arguments import check_fpr, check_geometry, check_seed, plan_for, whole_number
from scbf.spark.errors import UndersizedPlan, UndersizedPlanWarning
from scbf.spark.keys import all_keys
from scbf.typing import Layout

_log = logging.getLogger("scbf.spark")

DEFAULT_FPR = 0.01

# Standard error of approx_count_distinct, and how many of these errors are added to its result.
COUNT_ERROR = 0.01
_COUNT_MARGIN = 3

# A rate above the plan's by these factors is warned about, or refused. With eight probes, 1/8 more keys double it.
_WARNED_FACTOR = 1.25
_REFUSED_FACTOR = 2.0
# The limit if a geometry was given and no rate was planned: the filter says yes to every second absent key.
_REFUSED_FPR = 0.5

# Partitions are numbered by 32 bits in Spark.
_MOST_TASKS = 2**31 - 1


@dataclass(frozen=True)
class BuildReport:
    """What build() chose, and how it turned out. ``str()`` says it in a few sentences.

    Attributes:
        geometry, seed: of the filter; the geometry of its counters, if it has bits.
        nbytes: of the filter.
        capacity: distinct keys that it is planned for; None if a geometry was given.
        counted: what approx_count_distinct said; None if it was not asked.
        keys: keys inserted, repetitions counted, nulls not.
        estimated_keys: distinct keys, from the fill.
        estimated_fpr: the false-positive rate, from the fill.
        saturated: counters that no removal lowers: at 15; in layout ranked at 255, and those of blocks whose counts
            are lost.
        partitions: partial filters, one for each partition of the frame.
        widths: tasks of each level of the tree; it has ``len(widths)`` levels above the partial filters.
        sent_bytes: of all messages, of all levels; compressed.
        result_bytes: of the last message, to the driver; compressed.
    """

    geometry: Geometry
    seed: int
    nbytes: int
    capacity: int | None
    counted: int | None
    keys: int
    estimated_keys: float
    estimated_fpr: float
    saturated: int
    partitions: int
    widths: tuple[int, ...]
    sent_bytes: int
    result_bytes: int

    def __str__(self) -> str:
        planned = "" if self.capacity is None else f"planned for {self.capacity:,} distinct keys"
        if self.counted is not None:
            planned += (f" (approx_count_distinct says {self.counted:,}, and {_COUNT_MARGIN} standard errors of "
                        f"{COUNT_ERROR:.0%} were added)")
        tasks = " and then ".join(map(str, self.widths))
        return (f"filter of {self.nbytes:,} bytes{', ' if planned else ''}{planned}: {self.keys:,} keys "
                f"inserted, about {self.estimated_keys:,.0f} distinct, false-positive rate about "
                f"{self.estimated_fpr:.3g}; {self.partitions:,} partitions, merged by {tasks} tasks, "
                f"{self.sent_bytes:,} bytes sent")


Report = Callable[[BuildReport], object]


def count_keys(df: DataFrame, key: str | Column) -> int:
    """About how many distinct keys there are, nulls aside: approx_count_distinct, with a standard error of 1 %.

    Runs a job over the column. Raises InvalidKey, and InvalidArgument for a streaming frame.
    """
    row = all_keys(df, key).agg(F.approx_count_distinct("key", COUNT_ERROR)).first()
    return 0 if row is None else int(row[0])


def with_margin(counted: int) -> int:
    """The capacity for an approximate count: three standard errors more, at least 1."""
    return max(1, math.ceil(counted * (1 + _COUNT_MARGIN * COUNT_ERROR)))


@overload
def build(df: DataFrame, key: str | Column, *, capacity: int | float | None = ..., fpr: float | None = ...,
          layout: Layout | None = ..., geometry: Geometry | None = ..., seed: int = ..., bits: Literal[False] = ...,
          width: int | None = ..., fan_in: int = ..., report: Report | None = ...) -> Filter: ...


@overload
def build(df: DataFrame, key: str | Column, *, capacity: int | float | None = ..., fpr: float | None = ...,
          layout: Layout | None = ..., geometry: Geometry | None = ..., seed: int = ..., bits: Literal[True],
          width: int | None = ..., fan_in: int = ..., report: Report | None = ...) -> BloomFilter: ...


@overload
def build(df: DataFrame, key: str | Column, *, capacity: int | float | None = ..., fpr: float | None = ...,
          layout: Layout | None = ..., geometry: Geometry | None = ..., seed: int = ..., bits: bool,
          width: int | None = ..., fan_in: int = ..., report: Report | None = ...) -> Filter | BloomFilter: ...


def build(df: DataFrame, key: str | Column, *, capacity: int | float | None = None, fpr: float | None = None,
          layout: Layout | None = None, geometry: Geometry | None = None, seed: int = 0, bits: bool = False,
          width: int | None = None, fan_in: int = 8, report: Report | None = None) -> Filter | BloomFilter:
    """The filter of a column: byte for byte the one that a single machine builds from the same keys.

    Each partition makes a partial filter, and tasks add them up as a tree; see scbf.spark.tree. Retried and
    speculative tasks, lost executors, empty and skewed partitions do not change it. Nulls are not inserted.

    Args:
        df: a frame of any number of partitions; it is read once, and once more to count.
        key: a column of integers, strings or binary, as an expression, or by name as ``df.select()`` takes it: "a.b"
            is a field of column a, and "`a.b`" a column of that name.
        capacity: distinct keys. None counts them first, with approx_count_distinct, and adds 3 %.
        fpr: false-positive rate; 0.01 if nothing else is said.
        layout: ``'split_block'`` (the default), ``'split'`` or ``'ranked'``.
        geometry: in place of capacity, for a filter that is to be merged with others of this geometry.
        seed: of the hash.
        bits: build a BloomFilter, for readers that only ask: a quarter of the memory (more for ``ranked``) and less to
            send, but no removal.
        width: tasks of the first level of the tree; by default one for each core of the cluster.
        fan_in: messages that a task of a later level adds up.
        report: called with a BuildReport, for example ``print``. The logger ``scbf.spark`` gets it, too.
    Returns:
        a Filter; with ``bits``, a BloomFilter. It knows its plan: later insertions may warn with OverfullWarning.
    Raises:
        InvalidKey: for a column that cannot be keys; before any job runs.
        InvalidArgument: for a shape out of range, or a streaming frame.
        UndersizedPlan: if the rate came out at more than twice ``fpr`` (0.5 with a geometry and no fpr). The exception
            has the filter. Above 1.25 times there is an UndersizedPlanWarning.
        MissingPartial: if the filter of a partition did not arrive.
    Cost, for a filter of m bytes (counters, or bits): each task holds m bytes, and half as much to partition its keys
        in; a merging one holds 2 m and a message; a core runs one task at a time. A message has 13 to 30 bytes for
        each distinct key of its partition, at most m.
        Besides the result, the driver holds the last message: less than m bytes.
    """
    if width is not None:
        width = whole_number("width", width, 1, _MOST_TASKS)
    fan_in = whole_number("fan_in", fan_in, 2, _MOST_TASKS)
    seed = check_seed(seed)
    if report is not None and not callable(report):
        raise InvalidArgument(f"report {report!r}: must be a function of a BuildReport")
    keys = all_keys(df, key)
    chosen, counted = _plan(keys, capacity, fpr, layout, geometry)
    shape = tree.shape_for(df.sparkSession, BloomFilter if bits else Filter,
                           chosen.geometry if isinstance(chosen, Plan) else chosen, seed)
    delivery = tree.grow(keys, shape, width, fan_in)
    filter = delivery.filter
    if isinstance(chosen, Plan):
        filter._plan_for(chosen.capacity, chosen.fpr)  # type: ignore[union-attr]  # not in the stub
    figures = filter.statistics()
    done = BuildReport(
        geometry=shape.geometry, seed=seed, nbytes=filter.nbytes,
        capacity=chosen.capacity if isinstance(chosen, Plan) else None,
        counted=counted, keys=filter.keys_inserted, estimated_keys=figures.estimated_keys,
        estimated_fpr=figures.estimated_fpr, saturated=0 if bits else figures.saturated,
        partitions=delivery.partitions, widths=delivery.widths, sent_bytes=delivery.sent_bytes,
        result_bytes=delivery.result_bytes)
    _log.info("%s", done)
    if report is not None:
        report(done)
    check_rate(figures.estimated_keys, figures.estimated_fpr, done.capacity,
               chosen.fpr if isinstance(chosen, Plan) else fpr, filter,
               "give a larger geometry" if geometry is not None else advice_for(counted is not None))
    return filter


def _plan(keys: DataFrame, capacity: int | float | None, fpr: float | None, layout: Layout | None,
          geometry: Geometry | None) -> tuple[Plan | Geometry, int | None]:
    """The plan, or the geometry that was given; and what was counted."""
    if geometry is not None:
        if capacity is not None or layout is not None:
            raise InvalidArgument("give a geometry, or a capacity (and layout), not both")
        check_geometry(geometry)
        if fpr is not None:
            check_fpr(fpr)
        return geometry, None
    fpr = DEFAULT_FPR if fpr is None else fpr
    plan_for(capacity, fpr, layout)  # refuses what is out of range before anything is counted
    counted = count_keys(keys, "key") if capacity is None else None
    if counted is not None:
        capacity = with_margin(counted)
    return plan_for(capacity, fpr, layout), counted


def advice_for(counted: bool) -> str:
    """What helps against a capacity that is too small."""
    if counted:
        return "give a capacity, larger than what was counted, or a lower fpr"
    return "give a larger capacity, or none to have the keys counted"


def check_rate(estimated_keys: float, estimated_fpr: float, capacity: int | None, fpr: float | None,
               filter: Filter | BloomFilter | None, advice: str, subject: str = "the filter") -> None:
    """Warns of a rate that is modestly above the plan, and refuses one that is far above.

    Raises UndersizedPlan; warns UndersizedPlanWarning. Both messages end with ``advice``.
    """
    if capacity is not None and estimated_keys <= capacity + 2 * math.sqrt(capacity):
        return  # with few keys, the estimate is this uncertain
    refused = _REFUSED_FPR if fpr is None else min(_REFUSED_FACTOR * fpr, max(fpr, _REFUSED_FPR))
    if estimated_fpr <= refused and (fpr is None or estimated_fpr <= _WARNED_FACTOR * fpr):
        return
    many = (f"about {estimated_keys:,.0f} distinct keys" if math.isfinite(estimated_keys) else
            "more distinct keys than can be told from its fill")
    planned = "" if capacity is None else f", and was planned for {capacity:,}"
    limit = "" if fpr is None else f", where {fpr:g} was planned"
    message = (f"{subject} has {many}{planned}: its false-positive rate is about {estimated_fpr:.3g}"
               f"{limit}; {advice}")
    if estimated_fpr > refused:
        raise UndersizedPlan(message, filter, estimated_keys, estimated_fpr)
    warnings.warn(message, UndersizedPlanWarning, stacklevel=3)
