# SPDX-License-Identifier: Apache-2.0
"""Plots of filters, with matplotlib.

    >>> import matplotlib
    >>> matplotlib.use("Agg")  # to files, without a screen
    >>> import scbf, scbf.plot
    >>> seen = scbf.Filter(capacity=1000, fpr=0.01)
    >>> _ = seen.insert(range(1000))
    >>> axes = scbf.plot.slice_fill(seen)
    >>> axes.get_ylabel()
    'counters above 0 (%)'
    >>> axes.figure.savefig("/dev/null", format="png")

Each function draws on ``ax``, or on a new figure if that is None, and returns the Axes, so that titles, limits
and labels can be changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
import numpy.typing as npt

try:
    import matplotlib.pyplot
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("scbf.plot needs matplotlib: pip install matplotlib", name="matplotlib") from error

import scbf

__all__ = ["counter_histogram", "false_positive_rate", "memory", "slice_fill"]

BLUE, ORANGE, GREEN, GREY = "#2f6fde", "#dd7a1f", "#23946a", "#6b7785"


def slice_fill(filter: scbf.Filter | scbf.BloomFilter, ax: Axes | None = None) -> Axes:
    """The share of counters above 0 in each slice, as bars, with the mean of all as a line.

    Slices of a sound filter differ only by chance. A filter at its capacity is about half full. If it grew,
    each stage has bars of its own. Cost: one pass over the counters.

    Args:
        filter: a Filter, or a BloomFilter, whose bits are 1 where the counters are above 0.
        ax: where to draw; None for a new figure.
    """
    ax = _axes(ax)
    statistics = filter.statistics()
    several = len(statistics.stages) > 1
    width = 0.8 / len(statistics.stages)
    for number, stage in enumerate(statistics.stages):
        slices = numpy.arange(len(stage.slice_fill)) - 0.4 + (number + 0.5) * width
        ax.bar(slices, _percent(stage.slice_fill), width, color=BLUE, alpha=1 / (1 + 0.4 * number),
               label=f"stage {number}" if several else None)
    ax.axhline(100 * statistics.fill, color=ORANGE, label=f"all: {statistics.fill:.1%}")
    ax.set(title="Fill", xlabel="slice (number)",
           ylabel="bits that are 1 (%)" if _cells(filter) == "bits" else "counters above 0 (%)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylim(0, 100)
    ax.legend()
    return ax


def counter_histogram(filter: scbf.Filter | scbf.BloomFilter, ax: Axes | None = None) -> Axes:
    """How many counters have each value, 0 to 15, beside what distinct keys would give.

    Distinct keys fall on counters by chance, in a Poisson distribution; its mean follows from the fill. Counters
    far above it belong to keys that were inserted several times, and those at 15 stay there. A BloomFilter has
    the values 0 and 1. Cost: one pass over the counters.

    Args:
        filter: a Filter or BloomFilter.
        ax: where to draw; None for a new figure.
    """
    ax = _axes(ax)
    stages = filter.statistics().stages
    counted = numpy.sum([stage.histogram for stage in stages], axis=0)
    values = numpy.arange(2 if _cells(filter) == "bits" else 16)
    ax.bar(values, counted[: len(values)], color=BLUE, label=f"{_cells(filter)} of the filter")
    if _cells(filter) == "counters":
        expected = numpy.sum([_expected(stage) for stage in stages], axis=0)
        ax.plot(values, numpy.where(expected >= 0.5, expected, numpy.nan), "o", color=ORANGE,
                label="expected of distinct keys")
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.5)
    ax.set(title=f"Values of the {_cells(filter)}", xlabel=f"value of a {_cells(filter)[:-1]}",
           ylabel=f"{_cells(filter)} (number)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return ax


def false_positive_rate(geometry: scbf.Geometry, ax: Axes | None = None, *, most_keys: int | None = None,
                        points: int = 8, asked: int = 200_000, seed: int = 1) -> Axes:
    """The false-positive rate against the number of keys: predicted as a line, measured as points.

    A filter of this geometry is filled with random keys; at each point, it is asked for ``asked`` others. Bars are
    99 % confidence intervals (Wilson's); where no false positive was seen, only the interval's upper end is shown.
    Cost: the memory of the filter as bits, and ``most_keys + points * asked`` keys.

    Args:
        geometry: for example ``filter.geometry`` or ``scbf.plan(…).geometry``.
        ax: where to draw; None for a new figure.
        most_keys: the last point; None for twice as many as give a rate of 1 %.
        points: how many, evenly spaced.
        asked: absent keys for each point. A rate P is measured to about ±2.6 · sqrt(P / asked).
        seed: of the random keys.
    Raises:
        InvalidArgument: if ``points``, ``asked`` or ``most_keys`` is less than 1.
    """
    if min(points, asked, 1 if most_keys is None else most_keys) < 1:
        raise scbf.InvalidArgument(f"points {points}, asked {asked}, most_keys {most_keys}: each must be at least 1")
    most = most_keys or 2 * geometry.capacity_for(0.01)
    random = numpy.random.default_rng(seed)
    filter = scbf.BloomFilter(geometry=geometry)
    keys = numpy.unique(numpy.ceil(numpy.linspace(most / points, most, points)).astype(numpy.int64))
    measured = []
    for before, now in zip([0, *keys], keys, strict=False):
        # Of the integers below 2**63, even ones are inserted and odd ones asked for.
        filter.insert(2 * random.integers(2**62, size=now - before))
        absent = 2 * random.integers(2**62, size=asked) + 1
        measured.append(numpy.count_nonzero(filter.contains(absent)))

    ax = _axes(ax)
    line = numpy.linspace(most / 200, most, 200)
    ax.plot(line, _percent([geometry.predicted_fpr(n) for n in line]), color=BLUE, label="predicted")
    seen = numpy.array(measured)
    low, high = _wilson(seen, asked)
    some = seen > 0
    rate = seen / asked
    if some.any():
        ax.errorbar(keys[some], _percent(rate[some]), _percent([(rate - low)[some], (high - rate)[some]]), fmt="o",
                    capsize=3, color=ORANGE, label=f"measured, {asked:,} absent keys each")
    if not some.all():
        ax.plot(keys[~some], _percent(high[~some]), "v", color=GREY, label="none seen: at most")
    ax.set_yscale("log")
    lowest = min(geometry.predicted_fpr(float(keys[0])), float(low[some].min(initial=1))) / 3
    ax.set_ylim(bottom=100 * max(lowest, 0.001 / asked))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set(title=f"{geometry.layout}, {geometry.nbytes:,} bytes", xlabel="keys in the filter (number)",
           ylabel="false-positive rate (%)")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.legend()
    return ax


def memory(ax: Axes | None = None, *, capacity: int = 1_000_000, rates: Sequence[float] | None = None) -> Axes:
    """Memory per key against the false-positive rate, for all layouts, as counters and as bits.

    Each point is what :func:`scbf.plan` chooses. ``split_block`` has steps where another group begins to pay off.

    Args:
        ax: where to draw; None for a new figure.
        capacity: distinct keys.
        rates: false-positive rates; None for 60 from 10 % to 0.0001 %.
    Raises:
        InvalidArgument: for a rate that is not between 0 and 1.
    """
    if rates is None:
        rates = numpy.geomspace(0.1, 1e-6, 60).tolist()
    plans = {layout: [scbf.plan(capacity=capacity, fpr=rate, layout=layout) for rate in rates]
             for layout in ("split_block", "split", "ranked")}
    ax = _axes(ax)
    for (layout, chosen), color in zip(plans.items(), (BLUE, ORANGE, GREEN), strict=True):
        ax.plot(_percent(rates), [plan.bits_per_key for plan in chosen], color=color, label=f"{layout}, counters")
        bits = [8 * plan.geometry.of_bits.nbytes / plan.capacity for plan in chosen]
        ax.plot(_percent(rates), bits, "--", color=color, label=f"{layout}, bits")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.invert_xaxis()
    ax.set_ylim(bottom=0)
    ax.set(title=f"Memory for {capacity:,} keys", xlabel="false-positive rate (%)", ylabel="memory (bits per key)")
    ax.legend()
    return ax


def _axes(ax: Axes | None) -> Axes:
    return matplotlib.pyplot.subplots(layout="constrained")[1] if ax is None else ax


def _percent(share: npt.ArrayLike) -> npt.NDArray[numpy.float64]:
    return 100 * numpy.asarray(share, dtype=numpy.float64)


def _cells(filter: scbf.Filter | scbf.BloomFilter) -> str:
    return "bits" if isinstance(filter, scbf.BloomFilter) else "counters"


def _expected(stage: scbf.StageStatistics) -> npt.NDArray[numpy.float64]:
    """How many counters of each value, 0 to 15, distinct keys give at this fill; the last has all from 15 on."""
    counters = stage.geometry.counters
    mean = -math.log1p(-min(stage.fill, 1 - 0.5 / counters))  # a full stage: as if half a counter were 0
    shares = [math.exp(-mean) * mean**value / math.factorial(value) for value in range(15)]
    return counters * numpy.array([*shares, max(0.0, 1 - sum(shares))])


def _wilson(seen: npt.NDArray[numpy.int64], asked: int, z: float = 2.5758) -> tuple[
        npt.NDArray[numpy.float64], npt.NDArray[numpy.float64]]:
    """The ends of the 99 % confidence interval of a share that was measured as ``seen`` of ``asked``."""
    share = seen / asked
    middle = share + z * z / (2 * asked)
    half = z * numpy.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked))
    return numpy.maximum(0, (middle - half) / (1 + z * z / asked)), (middle + half) / (1 + z * z / asked)
