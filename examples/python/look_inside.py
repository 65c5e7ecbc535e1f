# SPDX-License-Identifier: Apache-2.0
"""Looking inside a filter: is it sound, is it full, does its error rate hold?

A filter is an array of counters, and three questions about it have pictures for answers. Are all slices equally
full? If one is not, the hash or the file is damaged. Which values do the counters have? Those of distinct keys follow
a law; counters far above it tell of keys that were inserted again and again. And is the false-positive rate what the
formula says? That is measured with keys that were never inserted. The fourth picture is for the time before there is
a filter: what does a lower rate cost?

    python look_inside.py --keys 100000 --plot look_inside.svg

needs: scbf (`pip install .` in a checkout); pip install matplotlib
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import scbf
import scbf.plot


def filled(keys: int, fpr: float) -> scbf.Filter:
    """A filter at its capacity, in which one key of a hundred was inserted ten times."""
    filter = scbf.Filter(capacity=keys, fpr=fpr)
    filter.insert(np.arange(keys))
    for _ in range(9):
        filter.insert(np.arange(keys // 100))
    return filter


def draw(filter: scbf.Filter, capacity: int) -> plt.Figure:
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.2), layout="constrained")
    scbf.plot.slice_fill(filter, axes[0, 0])
    scbf.plot.counter_histogram(filter, axes[0, 1])
    scbf.plot.false_positive_rate(filter.geometry, axes[1, 0])
    scbf.plot.memory(axes[1, 1], capacity=capacity)
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="plots of a filter")
    options.add_argument("--keys", type=int, default=50_000)
    options.add_argument("--fpr", type=float, default=0.01)
    options.add_argument("--plot", type=Path, metavar="FILE")
    args = options.parse_args()

    filter = filled(args.keys, args.fpr)
    statistics = filter.statistics()
    (stage,) = statistics.stages
    absent = np.random.default_rng(2).integers(args.keys, 2**62, size=500_000)
    measured = np.count_nonzero(filter.contains(absent)) / len(absent)
    predicted = filter.geometry.predicted_fpr(args.keys)
    often = sum(stage.histogram[10:])

    # A slice of m counters differs from the mean by its own chance, as do rate and estimate; six standard deviations.
    m = filter.geometry.counters_per_slice
    assert all(abs(fill - stage.fill) < 6 * 0.5 / m**0.5 for fill in stage.slice_fill)
    assert abs(measured - predicted) < 6 * (predicted / len(absent)) ** 0.5 + 0.02 * predicted
    assert abs(statistics.estimated_keys - args.keys) < 6 * args.keys**0.5
    # Each key that was inserted ten times has its own counters, up to a few that two of them share.
    assert 0.9 < often / (args.keys // 100 * filter.geometry.probes) <= 1

    print(f"{filter.geometry}, {filter.nbytes:,} bytes")
    print(f"distinct keys         {args.keys:>10,}  estimated from the fill: {statistics.estimated_keys:,.0f}")
    print(f"counters above 0      {stage.fill:>10.2%}  least full slice {min(stage.slice_fill):.2%}, fullest "
          f"{max(stage.slice_fill):.2%}")
    print(f"counters of 10 to 15  {often:>10,}  of {args.keys // 100:,} keys that were inserted ten times")
    print(f"false-positive rate   {measured:>10.3%}  predicted {predicted:.3%}")
    if args.plot:
        draw(filter, args.keys).savefig(args.plot)


if __name__ == "__main__":
    main()
