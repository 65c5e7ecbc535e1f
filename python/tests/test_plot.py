# SPDX-License-Identifier: Apache-2.0
"""What scbf.plot draws, read back from the Axes."""

import doctest
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.container import BarContainer, ErrorbarContainer  # noqa: E402

import scbf  # noqa: E402
import scbf.plot  # noqa: E402
from support import check_process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib's, of limits that it cannot draw


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    yield
    plt.close("all")


def heights(ax: Axes) -> list[list[float]]:
    """Of all bars, stage by stage."""
    return [[bar.get_height() for bar in group] for group in ax.containers if isinstance(group, BarContainer)]


def curve(ax: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the line with this label."""
    (line,) = [line for line in ax.get_lines() if line.get_label() == label]
    return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)


def measured(ax: Axes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, and the ends of the bars of the measured points."""
    (group,) = [group for group in ax.containers if isinstance(group, ErrorbarContainer)]
    points, _, (bars,) = group
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    return *points.get_data(), ends[:, 0], ends[:, 1]


def test_examples_of_the_documentation() -> None:
    result = doctest.testmod(scbf.plot)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("draw", [
    lambda ax: scbf.plot.slice_fill(scbf.Filter(capacity=100, fpr=0.01), ax),
    lambda ax: scbf.plot.counter_histogram(scbf.Filter(capacity=100, fpr=0.01), ax),
    lambda ax: scbf.plot.false_positive_rate(scbf.plan(capacity=100, fpr=0.01).geometry, ax, asked=1000),
    lambda ax: scbf.plot.memory(ax, rates=[0.1, 0.01]),
], ids=["slice_fill", "counter_histogram", "false_positive_rate", "memory"])
def test_axes_are_the_given_ones_or_new_and_are_labelled(draw: Callable[[Axes | None], Axes], tmp_path: Path) -> None:
    _, given = plt.subplots()
    assert draw(given) is given
    new = draw(None)
    assert new is not given and new.figure is not given.figure
    for ax in (given, new):
        assert ax.get_title()
        for label in (ax.get_xlabel(), ax.get_ylabel()):
            assert label.startswith("value of a") or label.endswith(")"), f"no unit: {label}"
        assert ax.get_legend() is not None
    for kind in ("png", "svg"):
        new.figure.savefig(tmp_path / f"plot.{kind}")


@pytest.mark.parametrize("layout", ["split", "split_block"])
@pytest.mark.parametrize("bits", [False, True])
def test_slice_fill(layout: str, bits: bool) -> None:
    filter = scbf.Filter(capacity=2000, fpr=0.001, layout=layout)
    filter.insert(range(1500))
    statistics = filter.statistics()
    ax = scbf.plot.slice_fill(scbf.BloomFilter.of(filter) if bits else filter)
    (bars,) = heights(ax)
    assert bars == pytest.approx([100 * share for share in statistics.stages[0].slice_fill])
    assert len(bars) == filter.geometry.probes
    (line,) = ax.get_lines()
    assert line.get_ydata()[0] == pytest.approx(100 * statistics.fill)
    assert ax.get_ylabel() == ("bits that are 1 (%)" if bits else "counters above 0 (%)")


def test_slice_fill_of_stages() -> None:
    filter = scbf.Filter(growth=scbf.Growth.tightening(first_capacity=500, fpr=0.01))
    filter.insert(range(3000))
    assert filter.stages > 1
    ax = scbf.plot.slice_fill(filter)
    assert heights(ax) == [pytest.approx([100 * share for share in stage.slice_fill])
                           for stage in filter.statistics().stages]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [f"stage {i}" for i in range(filter.stages)] == [label for label in labels if label.startswith("stage")]


def test_histogram_is_that_of_the_counters() -> None:
    filter = scbf.Filter(capacity=5000, fpr=0.01)
    filter.insert(range(5000))
    filter.insert([7] * 20)
    ax = scbf.plot.counter_histogram(filter)
    (bars,) = heights(ax)
    assert bars == filter.statistics().stages[0].histogram
    assert bars[15] == filter.geometry.probes


def test_histogram_of_distinct_keys_is_as_expected() -> None:
    filter = scbf.Filter(capacity=100_000, fpr=0.01, layout="split")
    filter.insert(range(100_000))
    ax = scbf.plot.counter_histogram(filter)
    (bars,) = heights(ax)
    values, expected = curve(ax, "expected of distinct keys")
    for value, count in zip(values.astype(int), expected, strict=True):
        if count >= 100:  # six standard deviations; the expectation is itself an estimate
            assert abs(bars[value] - count) < 6 * math.sqrt(count), value
    assert np.nansum(expected) == pytest.approx(filter.geometry.counters, rel=1e-5)


@pytest.mark.parametrize("keys", [0, 100_000])
def test_histogram_of_empty_and_of_full_filters(keys: int) -> None:
    filter = scbf.Filter(geometry=scbf.Geometry.split_block(groups=1, blocks_per_group=10))
    filter.insert(range(keys))
    ax = scbf.plot.counter_histogram(filter)
    (bars,) = heights(ax)
    assert sum(bars) == filter.geometry.counters == bars[15 if keys else 0]


def test_histogram_of_bits() -> None:
    filter = scbf.BloomFilter(capacity=1000, fpr=0.01)
    filter.insert(range(1000))
    ax = scbf.plot.counter_histogram(filter)
    (bars,) = heights(ax)
    assert bars == filter.statistics().stages[0].histogram[:2]
    assert not ax.get_lines()


@pytest.mark.parametrize("geometry", [
    scbf.plan(capacity=10_000, fpr=0.01).geometry,
    scbf.plan(capacity=10_000, fpr=0.001, layout="split").geometry,
    scbf.BloomFilter(capacity=10_000, fpr=0.0001).geometry,
], ids=["split_block", "split", "bits of two groups"])
def test_measured_rates_are_the_predicted_ones(geometry: scbf.Geometry) -> None:
    asked = 400_000
    ax = scbf.plot.false_positive_rate(geometry, asked=asked, points=5)
    keys, rates, low, high = measured(ax)
    assert len(keys) >= 3 and keys[-1] == 2 * geometry.capacity_for(0.01)
    for n, rate in zip(keys, rates, strict=True):
        predicted = geometry.predicted_fpr(n)
        # Five standard deviations, and 2 % for the filter's own deviation from its mean.
        assert rate / 100 == pytest.approx(predicted, rel=0.02, abs=5 * math.sqrt(predicted / asked))
    assert (low < rates).all() and (rates < high).all()
    line_keys, line = curve(ax, "predicted")
    assert line == pytest.approx([100 * geometry.predicted_fpr(n) for n in line_keys])


def test_intervals_contain_the_rate_as_often_as_they_say() -> None:
    """Of 500 intervals of 99 %, at least 97 %. A point where nothing was seen has none, and counts as right."""
    geometry = scbf.plan(capacity=2000, fpr=0.02).geometry
    inside = 0
    for seed in range(100):
        ax = scbf.plot.false_positive_rate(geometry, most_keys=2000, points=5, asked=5000, seed=seed)
        keys, _, low, high = measured(ax)
        truth = [100 * geometry.predicted_fpr(n) for n in keys]
        inside += np.count_nonzero((low <= truth) & (truth <= high)) + 5 - len(keys)
        plt.close("all")
    assert 485 <= inside <= 500


def test_where_no_false_positive_is_seen_the_upper_end_is_shown() -> None:
    geometry = scbf.plan(capacity=100_000, fpr=1e-6).geometry
    ax = scbf.plot.false_positive_rate(geometry, most_keys=1000, points=4, asked=1000)
    keys, most = curve(ax, "none seen: at most")
    assert keys.tolist() == [250, 500, 750, 1000]
    assert (most > 0).all() and (most < 1).all()
    assert not any(isinstance(group, ErrorbarContainer) for group in ax.containers)


def test_fewer_keys_than_points() -> None:
    ax = scbf.plot.false_positive_rate(scbf.plan(capacity=10, fpr=0.3).geometry, most_keys=3, points=8, asked=10)
    assert ax.get_ylim()[0] > 0


@pytest.mark.parametrize("wrong", [{"points": 0}, {"asked": 0}, {"most_keys": 0}, {"most_keys": -1}])
def test_numbers_below_1_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(scbf.InvalidArgument, match="at least 1"):
        scbf.plot.false_positive_rate(scbf.plan(capacity=10, fpr=0.3).geometry, **wrong)
    assert not plt.get_fignums()


def test_memory_is_that_of_the_plans() -> None:
    rates = [0.1, 0.01, 0.001, 1e-5]
    ax = scbf.plot.memory(capacity=50_000, rates=rates)
    for layout in ("split", "split_block"):
        plans = [scbf.plan(capacity=50_000, fpr=rate, layout=layout) for rate in rates]
        x, counters = curve(ax, f"{layout}, counters")
        assert x == pytest.approx([10, 1, 0.1, 0.001])
        assert counters == pytest.approx([8 * plan.nbytes / 50_000 for plan in plans])
        # Bits are as many as a filter of bits really has.
        made = [8 * scbf.BloomFilter(geometry=plan.geometry).nbytes / 50_000 for plan in plans]
        assert curve(ax, f"{layout}, bits")[1] == pytest.approx(made, rel=0.01)


def test_without_matplotlib_the_message_says_what_to_install() -> None:
    said = check_process("""
        import sys
        sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
        import scbf
        try:
            import scbf.plot
        except ModuleNotFoundError as error:
            print(error.name, error)
    """)
    assert said == "matplotlib scbf.plot needs matplotlib: pip install matplotlib\n"
