# SPDX-License-Identifier: Apache-2.0
"""The pictures of the primer that have axes: saturation, false-positive rate, memory per key."""
import math

import model
from svg import BLUE, GREEN, INK, LINE, MUTED, ORANGE, RED, Picture

PURPLE = "#7b4bb3"
COUNTER_BITS = 4  # in `split` and `split_block`


class Axes:
    """Maps data to pixels inside a frame; `log` says which of "x" and "y" are logarithmic."""

    def __init__(self, picture, left, top, width, height, x_range, y_range, log=""):
        self.p, self.left, self.top, self.w, self.h = picture, left, top, width, height
        self.x_range, self.y_range, self.log = x_range, y_range, log

    def _share(self, value, limits, log):
        low, high = limits
        if log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low)

    def x(self, value):
        return self.left + self.w * self._share(value, self.x_range, "x" in self.log)

    def y(self, value):
        return self.top + self.h * (1 - self._share(value, self.y_range, "y" in self.log))

    def frame(self, x_ticks, y_ticks, x_label, y_label):
        for value, text in x_ticks:
            x = self.x(value)
            self.p.path([(x, self.top), (x, self.top + self.h)], "#e8ecf1", 1)
            self.p.text(x, self.top + self.h + 18, text, 11.5, MUTED)
        for value, text in y_ticks:
            y = self.y(value)
            self.p.path([(self.left, y), (self.left + self.w, y)], "#e8ecf1", 1)
            self.p.text(self.left - 8, y + 4, text, 11.5, MUTED, "end")
        self.p.rect(self.left, self.top, self.w, self.h, "none", LINE, 0)
        self.p.text(self.left + self.w / 2, self.top + self.h + 40, x_label, 12.5, INK)
        self.p.text(self.left - 44, self.top - 14, y_label, 12.5, INK, "start")

    def curve(self, xs, function, color, dash=None, width=2.2):
        points = [(v, function(v)) for v in xs]
        self.p.path([(self.x(v), self.y(value)) for v, value in points
                     if self.y_range[0] <= value <= self.y_range[1]], color, width, dash)


def percent(fpr):
    return f"{fpr * 100:.6g} %"


def saturation():
    """One key inserted 20 times, then removed 20 times."""
    p = Picture(860, 330, "A counter saturates at 15 and stays there")
    axes = Axes(p, 70, 50, 540, 220, (0, 40), (0, 21))
    axes.frame([(v, str(v)) for v in range(0, 41, 5)], [(v, str(v)) for v in (0, 5, 10, 15, 20)],
               "operations: 20 × insert lemon, 20 × remove lemon", "value")
    filter_ = model.Split(4, 16)
    position = model.split_positions("lemon", 4, 16)[0]
    truth, stored = [(0, 0)], [(0, 0)]
    for step in range(1, 41):
        filter_.insert("lemon") if step <= 20 else filter_.remove("lemon")
        truth.append((step, min(step, 40 - step)))
        stored.append((step, filter_.slices[0][position]))
    for points, color, dash, width in ((truth, MUTED, "5 4", 1.6), (stored, BLUE, None, 2.6)):
        p.path([(axes.x(x), axes.y(y)) for x, y in points], color, width, dash)
    p.text(630, axes.y(stored[-1][1]) + 4, "the counter: 15 is sticky,", 12.5, BLUE, "start")
    p.text(630, axes.y(stored[-1][1]) + 22, "it never goes down again", 12.5, BLUE, "start")
    p.text(630, axes.y(1), "how often the key is in", 12.5, MUTED, "start")
    return p


def fpr():
    """P against n/capacity for three filters made for 1 %."""
    p = Picture(860, 380, "The false-positive rate grows with the number of keys")
    axes = Axes(p, 90, 46, 520, 270, (0.1, 3), (1e-5, 1), "y")
    axes.frame([(v, f"{v:g}") for v in (0.5, 1, 1.5, 2, 2.5, 3)],
               [(10.0 ** -e, percent(10.0 ** -e)) for e in range(0, 6)],
               "keys in the filter, in units of its capacity", "false-positive rate P")
    n, target = 1_000_000, 0.01
    per_key, k = model.best_split(target)
    m = per_key * n / k
    load = model.COUNTERS_PER_BLOCK / model.block_counters_per_key(target, 1)
    bits, ranked_load, positions = model.best_ranked(target)
    xs = [0.1 + i * 0.02 for i in range(146)]
    rates = (lambda v: model.block_fpr(v * load), lambda v: model.ranked_fpr(v * ranked_load, positions),
             lambda v: model.split_fpr(v * n, k, m))
    for rate, color in zip(rates, (BLUE, PURPLE, ORANGE)):
        axes.curve(xs, rate, color)
    p.path([(axes.x(0.1), axes.y(target)), (axes.x(1), axes.y(target)),
            (axes.x(1), axes.y(1e-5))], MUTED, 1.2, "4 4")
    x, y = 630, axes.y(0.5)
    for row, (name, shape, size, color) in enumerate((
            ("split_block", "g = 1", COUNTER_BITS * 128 / load, BLUE), ("ranked", f"S = {positions}", bits, PURPLE),
            ("split", f"k = {k}", COUNTER_BITS * per_key, ORANGE))):
        p.text(x, y + 46 * row, name, 13, color, "start", bold=True)
        p.text(x, y + 46 * row + 18, f"{shape}, {size:.1f} bits per key", 12, color, "start")
    for row, share in enumerate((0.5, 2)):
        first, second, third = (f"{rate(share) * 100:.2g} %" for rate in rates)
        p.text(x, y + 152 + 40 * row, f"at {share:g} × capacity:", 12, INK, "start")
        p.text(x, y + 169 + 40 * row, f"{first}, {second} and {third}", 12, INK, "start")
    return p


def layouts():
    """Bits per key against the rate, with the cache lines that each layout touches."""
    p = Picture(860, 420, "What a rate costs in memory, by layout")
    axes = Axes(p, 80, 46, 540, 310, (0.1, 1e-5), (0, 240), "x")
    axes.frame([(10.0 ** -e, percent(10.0 ** -e)) for e in range(1, 6)],
               [(v, str(v)) for v in range(0, 241, 40)],
               "false-positive rate P", "bits per key")
    rates = [10 ** (-1 - i * 0.05) for i in range(81)]
    for groups, color in ((1, BLUE), (2, GREEN), (3, RED)):
        axes.curve(rates, lambda v: COUNTER_BITS * model.block_counters_per_key(v, groups), color)
    axes.curve(rates, lambda v: model.best_ranked(v)[0], PURPLE)
    axes.curve(rates, lambda v: COUNTER_BITS * model.best_split(v)[0], ORANGE)
    ends = sorted(((COUNTER_BITS * model.block_counters_per_key(1e-5, g), f"split_block, g = {g}",
                    f"{g} cache line{'s' if g > 1 else ''} per key", color)
                   for g, color in ((1, BLUE), (2, GREEN), (3, RED))), reverse=True)
    ends.append((model.best_ranked(1e-5)[0], "ranked", "1 cache line per key", PURPLE))
    last, k = model.best_split(1e-5)
    ends.append((COUNTER_BITS * last, "split", f"{model.best_split(0.1)[1]} to {k} cache lines per key", ORANGE))
    bottom = 0.0
    for value, name, lines, color in ends:
        y = max(axes.y(value), bottom)
        bottom = y + 44
        p.text(634, y, name, 13, color, "start", bold=True)
        p.text(634, y + 17, lines, 12, color, "start")
    return p
