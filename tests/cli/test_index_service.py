# SPDX-License-Identifier: Apache-2.0
"""scbf index backup, export and stats --prometheus, and queries in pages: what one needs to run an
index beside others."""

import contextlib
import os
import random
import re
import shutil
import subprocess
import time

from index_support import HEADER, IndexTest, as_csv, people
from support import INPUT_OUTPUT, NOTHING_FOUND, USAGE


class Backup(IndexTest):
    def test_opens_and_is_independent(self):
        self.people(500)
        report = self.scbf_json("index", "backup", "i", "b")
        self.assertKeys(report, "index backup rows bytes as_of seconds")
        self.assertEqual((report["index"], report["backup"], report["rows"]), ("i", "b", 500))
        self.assertAlmostEqual(report["as_of"], time.time(), delta=60)
        self.assertGreater(report["bytes"], 1000)
        self.scbf("index", "delete", "i", "id-000001")
        self.assertEqual((self.count("i"), self.count("b")), (499, 500))
        self.assertSound("b")
        shutil.rmtree(self.path("i"))
        self.assertEqual(len(self.rows("query", "b", "town=town-1")), 100)
        self.assertIn(b"c: backup of b: 500 rows", self.scbf("index", "backup", "b", "c"))

    def holds_the_lock(self, process):
        files = set()
        with contextlib.suppress(OSError):
            folder = f"/proc/{process.pid}/fd"
            files.update(os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder))
        return os.path.realpath(self.path("i/store/LOCK")) in files

    def test_beside_a_process_that_writes(self):
        self.people(100)
        writer = self.start("index", "load", "i", "-", stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        writer.stdin.write(as_csv([["new", "n", "t", "h"]]).encode())
        writer.stdin.flush()
        deadline = time.monotonic() + 30
        while not self.holds_the_lock(writer):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.scbf("index", "put", "i", "id=x", code=INPUT_OUTPUT)  # it holds the lock
        self.assertEqual(self.scbf_json("index", "backup", "i", "b")["rows"], 100)
        writer.communicate(timeout=100)
        self.assertEqual(writer.returncode, 0)
        self.assertEqual((self.count("i"), self.count("b")), (101, 100))
        self.assertSound("b")

    def test_refused(self):
        self.people(10)
        self.write("file", "x")
        os.mkdir(self.path("folder"))
        before = self.files()
        for words, code, mentions in ((["i", "file"], INPUT_OUTPUT, ["file", "exists"]),
                                      (["i", "folder"], INPUT_OUTPUT, ["folder", "exists"]),
                                      (["i", "none/b"], INPUT_OUTPUT, ["none/b"]),
                                      (["i", "i/b"], USAGE, ["i/b", "lies in the index"]),
                                      (["none", "b"], INPUT_OUTPUT, ["none"]),
                                      (["i"], USAGE, ["DEST"])):
            self.refused("index", "backup", *words, code=code, mentions=mentions)
        self.assertEqual(self.files(), before)
        self.assertEqual(os.listdir(self.path("folder")), [])


class Pages(IndexTest):
    def test_pages_are_the_whole_answer(self):
        self.people(500)
        whole = self.rows("query", "i", "hobbies=h1")
        self.assertGreater(len(whole), 100)
        pages, after = [], []
        while True:
            page = self.rows("query", "i", "hobbies=h1", "--limit", 60, *after)
            pages += page
            if len(page) < 60:
                self.assertNotIn("--after", self.err)
                break
            self.assertIn("--after", self.err)
            after = ["--after", page[-1][0]]
        self.assertEqual(pages, whole)

    def test_json_names_where_to_go_on(self):
        self.people(300)
        report = self.scbf_json("index", "query", "i", "town=town-1", "--limit", 30)
        self.assertEqual((report["found"], report["more_after"]), (30, "id-000129"))
        rest = self.scbf_json("index", "query", "i", "town=town-1", "--after", "id-000129")
        self.assertEqual((rest["found"], rest["more_after"]), (70, None))
        self.assertEqual([r["id"] for r in report["rows"] + rest["rows"]],
                         [f"id-{i:06}" for i in range(100, 200)])
        none = self.scbf_json("index", "query", "i", "town=town-1", "--after", "id-000199",
                              code=NOTHING_FOUND)
        self.assertEqual((none["found"], none["rows"]), (0, []))

    def test_json_of_bytes_that_are_not_utf_8(self):
        self.create()
        for key in (b"a\xff", b"b\xfe"):
            self.scbf("index", "put", "i", os.fsdecode(b"id=" + key), "town=T")
        report = self.scbf_json("index", "query", "i", "town=T", "--limit", 2)
        self.assertEqual([r["id"] for r in report["rows"]],
                         [{"bytes": list(b"a\xff")}, {"bytes": list(b"b\xfe")}])
        self.assertEqual(report["more_after"], {"bytes": list(b"b\xfe")})
        self.assertEqual(self.scbf("index", "query", "i", "town=T", "--keys", "--after",
                                   os.fsdecode(b"a\xff")), b"b\xfe\n")

    def test_whoever_reads_may_stop(self):
        self.create()
        self.write("long.csv", as_csv([[f"{i:05}", "x" * 1000, "T", ""] for i in range(5000)]))
        self.scbf("index", "load", "i", "long.csv")
        for form in ([], ["--json"]):
            process = self.start("index", "query", "i", "town=T", *form,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertTrue(process.stdout.readline())
            self.assertIsNone(process.poll(), "5 MB wait for the reader")
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(process.wait(timeout=30), 0)
