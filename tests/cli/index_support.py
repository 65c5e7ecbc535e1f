# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of scbf index: an index of a table whose answers can be computed."""

import csv
import io
import subprocess
import unittest

from support import COMMAND, CommandTest

BUILT = "without the secondary index" not in subprocess.run(
    [COMMAND, "index", "stats", "x"], capture_output=True, text=True).stderr


def people(count):
    """Rows whose town follows from i // 100 and whose hobbies follow from i % 3 and i % 7."""
    return [[f"id-{i:06}", f"name {i}", f"town-{i // 100}", f"h{i % 3}, h{i % 7}"]
            for i in range(count)]


HEADER = ["id", "name", "town", "hobbies"]


def as_csv(rows, header=HEADER):
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    return out.getvalue()


@unittest.skipUnless(BUILT, "the command was built without the secondary index")
class IndexTest(CommandTest):
    def create(self, *options, name="i"):
        self.scbf("index", "create", name, "--key", "id", "--columns", "id,name,town,hobbies",
                  "--index", "town,hobbies:,", *options)
        return name

    def people(self, count=1000, *options, servers=4, regions=8):
        self.create("--servers", servers, "--region-values", 500)
        self.write("people.csv", as_csv(people(count)))
        return self.scbf_json("index", "load", "i", "people.csv", "--regions", regions, *options)

    def rows(self, *arguments, **options):
        out = self.scbf("index", *arguments, **options).decode()
        return [line.split("\t") for line in out.splitlines()]

    def count(self, name="i"):
        return self.scbf_json("index", "stats", name)["rows"]

    def assertKeys(self, report, keys):
        self.assertEqual([k for k in keys.split() if k not in report], [])

    def assertSound(self, name="i"):
        self.assertTrue(self.scbf_json("index", "check", name)["ok"])
