#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two builds of a benchmark program, and says which rows differ beyond the spread.

Both programs run in turn, so that both meet the same hours of a noisy machine. A row seems to differ
if every median of one build is above all of the other's, and their means differ by more than a
threshold. By chance that happens to one row in ten with three runs, to one in three with two. So the
rows that seem to differ run again, twice as often, and differ only if the new runs say the same. The
exit code is 1 if a row became slower, and 2 if something could not be compared.
"""

import argparse
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
        return statistics.mean(self.head) / statistics.mean(self.base) - 1

    def differs(self, threshold):
        apart = min(self.head) > max(self.base) or max(self.head) < min(self.base)
        return apart and abs(self.change()) > threshold


def figures(raw, program):
    """Name of a row, or of one of its forms → median over its repetitions."""
    times = {}
    for entry in raw["benchmarks"]:
        if entry.get("error_occurred"):
            fail(f"{program}: {entry['name']}: {entry['error_message']}")
        if entry["run_type"] != "iteration":
            continue
        name = re.sub(r"/iterations:.*$", "", entry["run_name"])
        for counter in (c for c in entry if c not in NO_COUNTERS):
            if time := TIME.match(counter):
                form = f" ({time[1][1:]})" if time[1] else ""
                times.setdefault((name, form), []).append(entry[counter])
    return {name: statistics.median(values) for name, values in times.items()}


class Programs:
    def __init__(self, base, head, flags, show):
        self.paths = {BASE: base, HEAD: head}
        self.flags, self.show = flags, show

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
        return figures(raw, which)

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


def compare(programs, rounds, threshold):
    """All rows, those that differ, and how many only seemed to."""
    rows, only_base, only_head = programs.in_turn(rounds)
    if not rows:
        fail("the programs have no row in common")
    seem = {name: row for name, row in rows.items() if row.differs(threshold)}
    differ = {}
    if seem:
        again, _, _ = programs.in_turn(2 * rounds, seem)
        if missing := sorted(set(seem) - set(again)):
            fail(f"{''.join(missing[0])} is not there when it runs again")
        differ = {name: again[name] for name, row in seem.items()
                  if again[name].differs(threshold) and (again[name].change() > 0) == (row.change() > 0)}
    return rows, differ, len(seem) - len(differ), only_base, only_head


def line(name, row):
    def times(some):
        return f"{statistics.mean(some):.4g} ({min(some):.4g} - {max(some):.4g})"
    return (f"  {''.join(name)}\n"
            f"    {times(row.base)} -> {times(row.head)} ns, {100 * row.change():+.1f} %")


def report(rows, differ, seemed, only_base, only_head, threshold):
    slower = {name: row for name, row in differ.items() if row.change() > 0}
    faster = {name: row for name, row in differ.items() if row.change() < 0}
    for title, some in (("slower", slower), ("faster", faster)):
        if some:
            print(f"{title}:")
            for name, row in sorted(some.items(), key=lambda item: -abs(item[1].change())):
                print(line(name, row))
    for where, some in ((BASE, only_base), (HEAD, only_head)):
        if some:
            print(f"only in {where}, not compared: {len(some)} rows, such as {some[0][0]}")
    print(f"{len(rows)} rows: {len(slower)} slower, {len(faster)} faster, {len(rows) - len(differ)} equal "
          f"within their spread or {100 * threshold:g} %"
          + (f"; {seemed} of them seemed to differ, and did not when they ran again" if seemed else ""))
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
                        help="rows of base that head does not have are no failure")
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
    slower = report(*result, threshold)
    if (gone := result[3]) and not args.allow_missing:
        fail(f"{len(gone)} rows of base are not in head; --allow-missing if that is meant")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    try:
        main()
    except Exception:  # not 1, which says that a row became slower
        traceback.print_exc()
        sys.exit(2)
