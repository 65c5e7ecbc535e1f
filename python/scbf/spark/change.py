# SPDX-License-Identifier: Apache-2.0
"""Changes a filter by the rows of data frames: yesterday's out, today's in."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from pyspark.sql import Column, DataFrame

from scbf import BloomFilter, Filter, Geometry, verify_file
from scbf.errors import Incompatible, InvalidArgument, OverfullWarning, ReadOnly
from scbf.spark.arguments import check_filter, check_fpr
from scbf.spark.build import check_rate
from scbf.spark.keys import all_keys
from scbf.spark.tree import grow, shape_for


def remove(filter: Filter, df: DataFrame, key: str | Column) -> int:
    """Removes the keys of a data frame from a filter, each as often as the frame has it; all or nothing.

    A filter of the keys to remove is built on the cluster, and subtracted. If all of them are in the filter, the
    result is that of removing them one by one, byte for byte. If some are not, a counter would fall below zero, and
    then nothing is changed. (A single absent key goes unnoticed at the filter's rate.) ``Filter.remove`` instead leaves
    keys alone that are certainly absent. This is not imitated here: among many absent keys, some look present, at the
    filter's rate, and their removal would take other keys away. Remove what was inserted, for example the same rows of
    the same table.

    Args:
        filter: a filter of one stage; changed in place.
        df, key: as in build().
    Returns:
        how many counters may be too high from now on, because nobody knows what they would be: those at 15, which
        means 15 or more; in layout ranked those at 255, and those of blocks whose counts are lost. Keys are never
        lost by this.
    Raises:
        Incompatible: if the keys are not all in the filter, or not that often. Nothing was changed.
        InvalidArgument, ReadOnly: for a filter of bits, one that grows, or a mapped one.
        InvalidKey, MissingPartial: as build().
    """
    _check_removable(filter)
    _check_changeable(filter)
    return _subtract(filter, cast(Filter, _built_for(filter, all_keys(df, key))))


def update(filter: Filter | BloomFilter, key: str | Column, *, insert: DataFrame | None = None,
           remove: DataFrame | None = None, fpr: float | None = None) -> int:
    """Removes the keys of one data frame and inserts those of another; both or nothing.

    The filters of both are built before this one changes. The driver holds one of them at a time in memory: that of
    the keys to remove waits in a temporary file, which is mapped. Ctrl-C ends the building; once the removal has
    begun, it waits until the insertion is done, too.

    Args:
        filter: a filter of one stage; changed in place. A BloomFilter takes insertions only.
        key: the column, in both frames.
        insert, remove: as the frames of build() and remove().
        fpr: the rate that the filter is to keep. Give it for a loaded filter: only one that knows its plan, such as
            what build() returned, warns without it (OverfullWarning).
    Returns:
        as remove().
    Raises:
        Incompatible: as remove(). Nothing was changed.
        InvalidArgument, ReadOnly: for a removal from bits, a filter that grows, or a mapped one.
        InvalidKey, MissingPartial: as build(). Nothing was changed.
        IoError: if there is no room for the temporary file. Nothing was changed.
        UndersizedPlan: if the filter's rate is now above twice ``fpr``, or above 0.5. The filter is changed, and has
            all keys. Above 1.25 times there is an UndersizedPlanWarning.
        OverfullWarning: where warnings are errors, and UndersizedPlan is not raised. The filter is changed, and has all
            keys.
    """
    if insert is None and remove is None:
        raise InvalidArgument("give a data frame to insert, or one to remove")
    if remove is not None:
        _check_removable(filter)
    check_filter(filter)
    _check_changeable(filter)
    if fpr is not None:
        check_fpr(fpr)
    leaving = None if remove is None else all_keys(remove, key)
    coming = None if insert is None else all_keys(insert, key)

    def both(departure: Filter | None, arrival: Filter | BloomFilter | None) -> tuple[int, OverfullWarning | None]:
        inexact = 0 if departure is None else _subtract(cast(Filter, filter), departure)
        try:
            if arrival is not None:
                filter.merge(arrival)  # type: ignore[arg-type]
        except OverfullWarning as warning:  # an error, after the merge
            return inexact, warning
        return inexact, None

    with tempfile.TemporaryDirectory(prefix="scbf-", ignore_cleanup_errors=True) as folder:
        departure = None if leaving is None else cast(Filter, _built_for(filter, leaving))
        if departure is not None and coming is not None:
            departure = _set_aside(departure, Path(folder))
        arrival = None if coming is None else _built_for(filter, coming)
        # In another thread, which no signal interrupts: leaving the block waits until both are done.
        with ThreadPoolExecutor(1) as pool:
            inexact, overfull = pool.submit(both, departure, arrival).result()
    figures = filter.statistics()
    check_rate(figures.estimated_keys, figures.estimated_fpr, None, fpr, filter,
               "build a new filter, of a larger capacity")
    if overfull is not None:
        raise overfull
    return inexact


def counter_geometry(filter: Filter | BloomFilter) -> Geometry:
    """The geometry of the counters that the filter has, or that its bits came from. Raises InvalidArgument."""
    if filter.growth.policy != "one":
        raise InvalidArgument(f"the filter has {filter.stages} stages, and may grow: on Spark, filters have one stage; "
                              "build a new one, of the capacity that is needed now")
    return filter.geometry.of_counters


def _check_removable(filter: Filter | BloomFilter) -> None:
    """Raises InvalidArgument unless keys can be removed from it."""
    if isinstance(filter, BloomFilter):
        raise InvalidArgument("keys are removed from counters, and this filter has bits: update the Filter that "
                              "they came from, and take BloomFilter.of() it")
    check_filter(filter, Filter, "a Filter")


def _check_changeable(filter: Filter | BloomFilter) -> None:
    """Raises ReadOnly for a mapped filter, and InvalidArgument for one that grows."""
    if filter.read_only:
        raise ReadOnly("the filter is mapped, and cannot be changed: load it instead")
    counter_geometry(filter)


def _built_for(filter: Filter | BloomFilter, keys: DataFrame) -> Filter | BloomFilter:
    """The filter of a frame of keys that can be merged with this one, or subtracted from it."""
    shape = shape_for(keys.sparkSession, type(filter), counter_geometry(filter), filter.seed)
    return grow(keys, shape).filter


def _set_aside(filter: Filter, folder: Path) -> Filter:
    """The same filter, mapped from a file: the system may take its memory while another filter is built."""
    path = folder / "departure.scbf"
    filter.save(path)
    verify_file(path)  # mapping it verifies its header only
    return Filter.map(path)


def _subtract(filter: Filter, departure: Filter) -> int:
    try:
        return filter.subtract(departure)
    except Incompatible as error:
        raise Incompatible(f"the filter does not have all of the {departure.keys_inserted:,} keys to remove, or not "
                           f"that often ({error}); nothing was changed; remove only what was inserted") from error
