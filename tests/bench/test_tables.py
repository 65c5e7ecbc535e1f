#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way from what the benchmarks of processors write to the tables and pictures of the pages, on results of the
smallest runs. (Not those of the Python package, of Spark and of GPUs.)

usage: test_tables.py FOLDER RUN...

FOLDER holds RUN.json, written by --benchmark_out, for each of the runs."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import command_tables  # noqa: E402
import field_tables  # noqa: E402
import filter_tables  # noqa: E402
import plot  # noqa: E402
import system_tables  # noqa: E402
import tables  # noqa: E402

# The runs that scripts/bench makes one result of.
MATRICES = {"quick": ["filters"], "travel": ["travel"], "new": ["new"], "hash": ["hash"], "command": ["command"],
            "systems": ["stages", "bank", "growing", "generated", "packages", "sqlite", "field"]}
# The tables that come from each run.
TABLES = {"stages": ["stages", "few_keys"], "bank": ["bank", "bank_readers"], "growing": ["growing_bank"],
          "generated": ["index"], "packages": ["packages"], "sqlite": ["sqlite"], "field": ["field", "field_edges"],
          "travel": ["deltas", "packed"], "new": ["new_keys"], "hash": ["hashing"], "command": ["command"]}
# Plain filters remove nothing; runs of the command with few keys have no floor.
LACK_FIGURES = {"field", "command"}
PICTURES = {"stages": "stages.svg", "bank": "bank.svg", "generated": "index_requests.svg"}


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def result_of(self, matrix, read):
        """The condensed result of a matrix, and which of its runs there are."""
        there = [run for run in MATRICES[matrix] if run in RUNS]
        if not there:
            self.skipTest("its programs were not built")
        result = self.folder / f"{matrix}.json"
        subprocess.run([sys.executable, "-B", BENCH / "condense.py", f"--matrix={matrix}", "-o", result,
                        *(FOLDER / f"{run}.json" for run in there)], check=True, stdout=subprocess.DEVNULL)
        return read(json.loads(result.read_text()), result.name), there

    def check_systems(self, matrix):
        systems, there = self.result_of(matrix, tables.Systems)
        makers = system_tables.TABLES | field_tables.TABLES | command_tables.TABLES
        expected = {table for run in there for table in TABLES[run]}
        for name, make in makers.items():
            with self.subTest(name):
                text = make(systems)
                self.assertEqual(bool(text), name in expected, text)
                # A figure that a program no longer gives, or calls by another name.
                self.assertEqual("n/a" in (text or ""), name in expected & LACK_FIGURES, text)

    def test_filters(self):
        results, _ = self.result_of("quick", filter_tables.Results)
        results.others = [results]
        for name, make in filter_tables.TABLES.items():
            with self.subTest(name):
                text = make(results)
                # A run of the smallest filters has none of the sizes of this table.
                self.assertEqual(bool(text), name != "one_key", text)

    def test_systems(self):
        self.check_systems("systems")

    def test_pictures(self):
        try:
            plot.load_matplotlib()
        except SystemExit as missing:
            if "SCBF_REQUIRE_PYTHON" in os.environ:
                raise
            self.skipTest(str(missing))
        systems, there = self.result_of("systems", tables.Systems)
        self.assertEqual(sorted(plot.draw_systems([systems], self.folder)),
                         sorted(picture for run, picture in PICTURES.items() if run in there))

    def test_travel(self):
        self.check_systems("travel")

    def test_new_keys(self):
        self.check_systems("new")

    def test_hashes(self):
        self.check_systems("hash")

    def test_the_command(self):
        self.check_systems("command")


if __name__ == "__main__":
    # Debian's has matplotlib, and may not be the first in PATH.
    python = os.environ.pop("SCBF_PYTHON", sys.executable)
    if os.path.realpath(python) != os.path.realpath(sys.executable):
        os.execv(python, [python, "-B", *sys.argv])
    FOLDER, RUNS = Path(sys.argv[1]), sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
