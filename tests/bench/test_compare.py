#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py, with programs that report what a plan tells them to."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPARE = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "compare.py")
# Each run takes the next times of a row from the plan, the last ones again and again. It writes
# what Google Benchmark would, of the rows that --benchmark_filter picks.
PROGRAM = """#!{python}
import json, os, re, sys
folder = {folder!r}
runs = os.path.join(folder, "runs")
run = len(os.listdir(runs))
with open(os.path.join(runs, str(run)), "w") as file:
    file.write(" ".join(sys.argv[1:]))
flags = dict(a.split("=", 1) for a in sys.argv[1:])
with open(os.path.join(folder, "plan.json")) as file:
    plan = json.load(file)
rows = []
for name, times in plan.get("rows_later" if run > 2 else "rows", plan["rows"]).items():
    full = name + "/iterations:1/repeats:2"
    if not re.search(flags.get("--benchmark_filter", "."), full):
        continue
    time = times[min(run, len(times) - 1)]
    for factor in (0.9, 1, 1.5):
        rows.append(dict(name=full, run_name=full, run_type="iteration", ns_per_key=factor * time,
                         ns_per_key_apart=factor * 7, bits_per_key=plan.get("bits", 45.7),
                         **({{"error_occurred": True, "error_message": "wrong"}} if time < 0 else {{}})))
with open(flags["--benchmark_out"], "w") as file:
    if rows: json.dump({{"context": {{}}, "benchmarks": rows}}, file)
sys.exit(plan.get("exit", 0))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, name, rows, **plan):
        folder = os.path.join(self.folder.name, name)
        os.makedirs(os.path.join(folder, "runs"))
        with open(os.path.join(folder, "plan.json"), "w") as file:
            json.dump({"rows": rows, **plan}, file)
        path = os.path.join(folder, "bench")
        with open(path, "w") as file:
            file.write(PROGRAM.format(python=sys.executable, folder=folder))
        os.chmod(path, 0o755)
        return path

    def runs(self, name):
        folder = Path(self.folder.name, name, "runs")
        return [(folder / str(i)).read_text() for i in range(len(list(folder.iterdir())))]

    def compare(self, base, head, *arguments):
        done = subprocess.run([sys.executable, "-B", COMPARE, base, head, *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_tells_what_became_slower_and_what_faster(self):
        rows = {"insert/n:1": [10, 10.1, 9.9], "hit/n:1": [10], "miss/n:1": [10], "mix/n:1": [10]}
        base = self.program("base", rows)
        head = self.program("head", {"insert/n:1": [11, 11.2, 10.9], "hit/n:1": [8],
                                     "miss/n:1": [10.1], "mix/n:1": [10]})
        code, out, _ = self.compare(base, head)
        self.assertEqual(code, 1)
        slower, faster = out.split("faster:")
        self.assertIn("slower:\n  insert/n:1\n    9.9 (9.9 - 9.9) -> 10.9 (10.9 - 10.9) ns, +10.1 %", slower)
        self.assertIn("  hit/n:1\n    10 (10 - 10) -> 8 (8 - 8) ns, -20.0 %", faster)
        self.assertNotIn("miss", out)  # by 1 %
        # Each row has a second form, `apart`, which is the same in both.
        self.assertIn("8 rows, -1.5 % on average: 1 slower, 1 faster, 0 undecided, 6 equal within 3 %\n", out)

    def test_faster_is_no_failure(self):
        base = self.program("base", {"insert/n:1": [10]})
        code, out, _ = self.compare(base, self.program("head", {"insert/n:1": [9]}))
        self.assertEqual(code, 0)
        self.assertIn("faster:", out)

    def test_the_threshold_is_the_users(self):
        base, head = self.program("base", {"hit/n:1": [10]}), self.program("head", {"hit/n:1": [10.2]})
        self.assertEqual(self.compare(base, head)[0], 0)
        self.assertEqual(self.compare(base, head, "--threshold", "1")[0], 1)

    def test_one_outlier_hides_no_change(self):
        base = self.program("base", {"hit/n:1": [10, 10, 30, 10, 10, 30, 10, 10, 10]})
        code, out, _ = self.compare(base, self.program("head", {"hit/n:1": [12]}))
        self.assertEqual(code, 1)
        self.assertIn("10 (10 - 30) -> 12 (12 - 12) ns, +20.0 %", out)

    def test_times_that_overlap_are_undecided(self):
        base = self.program("base", {"hit/n:1": [10, 10, 10, 10, 13, 10, 13, 10, 13]})
        head = self.program("head", {"hit/n:1": [12, 12, 12, 12, 10, 12, 10, 12, 12]})
        code, out, _ = self.compare(base, head)
        self.assertEqual(code, 0)
        self.assertIn("undecided:\n  hit/n:1\n", out)
        self.assertIn("1 undecided, 1 equal", out)

    def test_two_rounds_suffice(self):
        base, head = self.program("base", {"hit/n:1": [10]}), self.program("head", {"hit/n:1": [12]})
        self.assertEqual(self.compare(base, head, "--rounds", "2")[0], 1)

    def test_many_small_changes_are_seen(self):
        base = self.program("base", {"hit/n:1": [10], "miss/n:1": [20]})
        head = self.program("head", {"hit/n:1": [10.2], "miss/n:1": [20.4]})
        self.assertIn("4 rows, +1.0 % on average", self.compare(base, head)[1])

    def test_another_filter_is_not_compared(self):
        base = self.program("base", {"hit/n:1": [10]})
        head = self.program("head", {"hit/n:1": [10]}, bits=30)
        code, out, told = self.compare(base, head)
        self.assertEqual(code, 2)
        self.assertIn("not the same filters (bits_per_key, fpr_predicted): 2 rows, such as hit/n:1", out)
        self.assertIn("measure another filter", told)
        self.assertEqual(self.compare(base, head, "--allow-missing")[0], 0)

    def test_what_differs_only_at_first_is_equal(self):
        base = self.program("base", {"hit/n:1": [10, 10, 10, 11.9], "miss/n:1": [10]})
        head = self.program("head", {"hit/n:1": [12], "miss/n:1": [10]})
        code, out, _ = self.compare(base, head)
        self.assertEqual(code, 0)
        self.assertIn("1 of them seemed to differ", out)

    def test_what_differs_the_other_way_when_it_runs_again_is_equal(self):
        base = self.program("base", {"hit/n:1": [14, 14, 14, 10]})
        head = self.program("head", {"hit/n:1": [12]})
        self.assertEqual(self.compare(base, head)[0], 0)

    def test_runs_in_turn_and_then_only_what_seems_to_differ(self):
        base = self.program("base", {"hit/n:1.5": [10], "miss/n:1": [10], "hit/n:105": [10]})
        head = self.program("head", {"hit/n:1.5": [12], "miss/n:1": [10], "hit/n:105": [10]})
        _, _, told = self.compare(base, head, "--rounds", "2", "--matrix=quick")
        self.assertEqual([line.split()[-1] for line in told.splitlines()][:4],
                         ["base", "head", "head", "base"])
        for name in ("base", "head"):
            runs = self.runs(name)
            self.assertEqual(len(runs), 2 + 5)
            self.assertTrue(all("--matrix=quick" in run for run in runs))
            for run in runs[2:]:
                self.assertIn(r"--benchmark_filter=^(hit/n:1\.5)(/iterations|$)", run)

    def test_rows_of_one_program_alone_are_named(self):
        base = self.program("base", {"hit/n:1": [10], "old/n:1": [10]})
        code, out, _ = self.compare(base, self.program("head", {"hit/n:1": [10], "new/n:1": [10]}))
        self.assertEqual(code, 2)
        self.assertIn("only in base, not compared: 2 rows, such as old/n:1", out)
        self.assertIn("only in head, not compared: 2 rows, such as new/n:1", out)
        head = self.program("again", {"hit/n:1": [10], "new/n:1": [10]})
        self.assertEqual(self.compare(base, head, "--allow-missing")[0], 0)
        # Rows that only head has are new, and no failure.
        self.assertEqual(self.compare(head, self.program("more", {
            "hit/n:1": [10], "new/n:1": [10], "newer/n:1": [10]}))[0], 0)

    def test_failures_are_no_results(self):
        good = self.program("good", {"hit/n:1": [10]})
        for name, other, message in (
                ("exits", self.program("exits", {"hit/n:1": [10]}, exit=1), "ended with 1"),
                ("wrong", self.program("wrong", {"hit/n:1": [-1]}), "hit/n:1/iterations:1/repeats:2: wrong"),
                ("nan", self.program("nan", {"hit/n:1": [math.nan]}), "ns_per_key is nan"),
                ("zero", self.program("zero", {"hit/n:1": [0]}), "ns_per_key is 0"),
                ("apart", self.program("apart", {"miss/n:1": [10]}), "no row in common"),
                ("later", self.program("later", {"hit/n:1": [12]}, rows_later={}), "--benchmark_filter picks no row"),
                ("nothing", "/bin/true", "picks no row"), ("none", "/no/program", "is no program")):
            with self.subTest(name):
                code, out, told = self.compare(good, other)
                self.assertEqual(code, 2)
                self.assertIn(message, told)
                self.assertEqual(out, "")

    def test_arguments(self):
        good = self.program("good", {"hit/n:1": [10]})
        self.assertIn("--rounds 1: at least 2", self.compare(good, good, "--rounds", "1")[2])
        for threshold in ("-1", "nan", "inf"):
            self.assertIn(f"--threshold {threshold}: a number from 0 on",
                          self.compare(good, good, "--threshold", threshold)[2])


if __name__ == "__main__":
    unittest.main()
