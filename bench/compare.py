#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two builds of a benchmark program, and says which rows differ beyond the spread.

Both programs run in turn, so that both meet the same hours of a noisy machine. A row seems to differ
if the medians over the runs of the two builds differ by more than a threshold. Those rows run again,
at least five times, and differ if the new medians say the same and chance does so in less than one
case of fifty (exact Mann-Whitney test of the new runs); if only the medians say so, the row is
undecided. Beside the rows, the mean change of all of them is printed: many small changes make a large
one. The exit code is 1 if a row became slower, and 2 if something could not be compared.
"""

import argparse
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from condense import NO_COUNTERS, TIME

BASE, HEAD = "base", "head"
SAME = ("bits_per_key", "fpr_predicted")  # figures that do not depend on time
LEAST_RUNS = 5  # with fewer, no difference is less likely than CHANCE
CHANCE = 0.02
ERE_SPECIAL = re.compile(r"([.^$*+?()\[\]{}|\\])")


def fail(message):
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(2)


@dataclass
class Row:
    """The medians of each run of a row, in nanoseconds."""
    base: list
    head: list

    def change(self):
        """How much slower head is: 0.1 means by a tenth."""
        return statistics.median(self.head) / statistics.median(self.base) - 1

    def differs(self, threshold):
        return abs(self.change()) > threshold

    def chance(self):
        """How often runs of two equal builds lie as far apart as these: the exact two-sided
        p value of Mann and Whitney's test, over all ways to deal the runs out."""
        runs = self.base + self.head

        def far(head):
            """How far the number of pairs in which head is slower is from one half of them."""
            base = [i for i in range(len(runs)) if i not in head]
            wins = sum((runs[h] > runs[b]) + (runs[h] == runs[b]) / 2 for h in head for b in base)
            return abs(wins - len(head) * len(base) / 2)

        deals = list(itertools.combinations(range(len(runs)), len(self.head)))
        seen = far(deals[-1])  # the last runs are those of head
        return sum(far(deal) >= seen for deal in deals) / len(deals)


def figures(raw, program):
    """Name of a row, or of one of its forms → median over its repetitions; and name of a row → the
    figures that say which filter it was."""
    times, filters = {}, {}
    for entry in raw["benchmarks"]:
        if entry.get("error_occurred"):
            fail(f"{program}: {entry['name']}: {entry['error_message']}")
        if entry["run_type"] != "iteration":
            continue
        name = re.sub(r"/iterations:.*$", "", entry["run_name"])
        filters[name] = {figure: entry[figure] for figure in SAME if figure in entry}
        for counter in (c for c in entry if c not in NO_COUNTERS):
            if time := TIME.match(counter):
                form = f" ({time[1][1:]})" if time[1] else ""
                if not 0 < entry[counter] < math.inf:
                    fail(f"{program}: {name}: {counter} is {entry[counter]}")
                times.setdefault((name, form), []).append(entry[counter])
    return {name: statistics.median(values) for name, values in times.items()}, filters


class Programs:
    def __init__(self, base, head, flags, show):
        self.paths = {BASE: base, HEAD: head}
        self.flags, self.show = flags, show
        self.filters = {}

    def run(self, which, rows=None):
        """One run; of these rows only, if any are given."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            command = [str(self.paths[which]), *self.flags, f"--benchmark_out={out}",
                       "--benchmark_out_format=json"]
            if rows:
                patterns = sorted({ERE_SPECIAL.sub(r"\\\1", name) for name, _ in rows})
                command.append(f"--benchmark_filter=^({'|'.join(patterns)})(/iterations|$)")
            done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                fail(f"{' '.join(command)} ended with {done.returncode}")
            if not out.exists() or not out.stat().st_size:
                fail(f"{which}: --benchmark_filter picks no row")
            raw = json.loads(out.read_text())
        times, self.filters[which] = figures(raw, which)
        return times

    def in_turn(self, rounds, rows=None):
        """Rows that both have, and those that only one has. Order: base head, head base, …"""
        runs = {BASE: [], HEAD: []}
        for i in range(rounds):
            for which in ((BASE, HEAD) if i % 2 == 0 else (HEAD, BASE)):
                self.show(f"round {i + 1} of {rounds}: {which}")
                runs[which].append(self.run(which, rows))
        names = {which: set(some[0]) for which, some in runs.items()}
        for which, some in runs.items():
            for run in some[1:]:
                if set(run) != names[which]:
                    fail(f"{which}: not the same rows in each run, such as "
                         f"{''.join(min(set(run) ^ names[which]))}")
        both = {name: Row([run[name] for run in runs[BASE]], [run[name] for run in runs[HEAD]])
                for name in sorted(names[BASE] & names[HEAD])}
        return both, sorted(names[BASE] - names[HEAD]), sorted(names[HEAD] - names[BASE])


@dataclass
class Compared:
    rows: dict
    seemed: dict  # rows of the first runs that seem to differ,
    differ: dict  # and runs of those that do,
    undecided: dict  # or may
    only_base: list
    only_head: list
    other_filters: list

    def mean_change(self):
        """The geometric mean of all changes, in the first runs."""
        return math.exp(statistics.mean(math.log1p(row.change()) for row in self.rows.values())) - 1


def compare(programs, rounds, threshold):
    rows, only_base, only_head = programs.in_turn(rounds)
    if not rows:
        fail("the programs have no row in common")
    filters = programs.filters
    others = [name for name in rows if filters[BASE][name[0]] != filters[HEAD][name[0]]]
    seem = {name: row for name, row in rows.items() if row.differs(threshold)}
    differ, undecided = {}, {}
    if seem:
        again, _, _ = programs.in_turn(max(2 * rounds, LEAST_RUNS), seem)
        if missing := sorted(set(seem) - set(again)):
            fail(f"{''.join(missing[0])} is not there when it runs again")
        for name, row in seem.items():
            new = again[name]
            if new.differs(threshold) and (new.change() > 0) == (row.change() > 0):
                (differ if new.chance() < CHANCE else undecided)[name] = new
    return Compared(rows, seem, differ, undecided, only_base, only_head, others)


def line(name, row):
    def times(some):
        return f"{statistics.median(some):.4g} ({min(some):.4g} - {max(some):.4g})"
    return (f"  {''.join(name)}\n"
            f"    {times(row.base)} -> {times(row.head)} ns, {100 * row.change():+.1f} %")


def report(compared, threshold):
    rows, undecided = compared.rows, compared.undecided
    slower = {name: row for name, row in compared.differ.items() if row.change() > 0}
    faster = {name: row for name, row in compared.differ.items() if row.change() < 0}
    for title, some in (("slower", slower), ("faster", faster), ("undecided", undecided)):
        if some:
            print(f"{title}:")
            for name, row in sorted(some.items(), key=lambda item: -abs(item[1].change())):
                print(line(name, row))
    for what, some in ((f"only in {BASE}, not compared", compared.only_base),
                       (f"only in {HEAD}, not compared", compared.only_head),
                       (f"not the same filters ({', '.join(SAME)})", compared.other_filters)):
        if some:
            print(f"{what}: {len(some)} rows, such as {some[0][0]}")
    equal = len(rows) - len(compared.differ) - len(undecided)
    passed = len(compared.seemed) - len(compared.differ) - len(undecided)
    print(f"{len(rows)} rows, {100 * compared.mean_change():+.1f} % on average: {len(slower)} slower, "
          f"{len(faster)} faster, {len(undecided)} undecided, {equal} equal within {100 * threshold:g} %"
          + (f"; {passed} of them seemed to differ, and did not when they ran again" if passed else ""))
    return slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog="Further arguments go to both programs.")
    parser.add_argument("base", type=Path, help="the program as it was")
    parser.add_argument("head", type=Path, help="the program as it is")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default 3")
    parser.add_argument("--threshold", type=float, default=3,
                        help="per cent that do not count; default 3")
    parser.add_argument("--allow-missing", action="store_true",
                        help="rows of base that head does not have, or has of another filter, "
                             "are no failure")
    args, flags = parser.parse_known_args()
    if args.rounds < 2:
        fail(f"--rounds {args.rounds}: at least 2, or there is no spread")
    if not 0 <= args.threshold < math.inf:
        fail(f"--threshold {args.threshold:g}: a number from 0 on")
    for program in (args.base, args.head):
        if not os.access(program, os.X_OK) or program.is_dir():
            fail(f"{program}: is no program")
    programs = Programs(args.base.resolve(), args.head.resolve(), flags,
                        lambda text: print(text, file=sys.stderr))
    threshold = args.threshold / 100
    result = compare(programs, args.rounds, threshold)
    slower = report(result, threshold)
    for what, some in (("are not in head", result.only_base),
                       ("measure another filter in head", result.other_filters)):
        if some and not args.allow_missing:
            fail(f"{len(some)} rows of base {what}; --allow-missing if that is meant")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    try:
        main()
    except Exception:  # not 1, which says that a row became slower
        traceback.print_exc()
        sys.exit(2)
