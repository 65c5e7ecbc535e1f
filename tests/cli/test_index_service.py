# SPDX-License-Identifier: Apache-2.0
"""scbf index backup, export and stats --prometheus, and queries in pages: what one needs to run an
index beside others."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import time

from index_support import HEADER, IndexTest, as_csv, people
from support import COMMAND, INPUT_OUTPUT, NOTHING_FOUND, USAGE


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
        for words, code, mentions in ((["i", "file"], USAGE, ["'file': it exists"]),
                                      (["i", "folder"], USAGE, ["'folder': it exists"]),
                                      (["i", "i"], USAGE, ["'i': it exists"]),
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

    def test_the_message_names_where_to_go_on_as_shells_take_it(self):
        self.create()
        keys = [b"it's", b"new\nline \\", b"plain", b"\xff\x09\\'"]
        for key in keys:
            self.scbf("index", "put", "i", os.fsdecode(b"id=" + key), "town=T")
        for last, following, shell in zip(keys, keys[1:], ("sh", "bash", "sh")):
            self.scbf("index", "query", "i", "town=T", "--limit", keys.index(last) + 1)
            option = re.search(r"the next page begins (--after .*)", self.err)[1]
            page = subprocess.run([shell, "-c", f"{COMMAND} index query i town=T --keys --limit 1 --json {option}"],
                                  cwd=self.folder, capture_output=True, check=True)
            key = json.loads(page.stdout)["rows"][0]["id"]
            self.assertEqual(bytes(key["bytes"]) if isinstance(key, dict) else key.encode(), following, option)

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


class Export(IndexTest):
    """What is exported loads to the same rows, whatever bytes are in them."""

    PIECES = [b"a", b"\n", b"\r\n", b"\r", b"\t", b"\\", b"\\n", b"\\t", b'"', b",", b" ", b"\xff",
              b"\xfe", b"\xef\xbb\xbf", b"\xc3\xa9", b"", b"'", b";"]

    def odd_rows(self):
        source = random.Random(14)

        def text(most):
            return b"".join(source.choice(self.PIECES) for _ in range(source.randrange(most)))

        keys = {text(6) + b"key" for _ in range(300)} | {b" ", b'"', b"\\", b"\n", b"\xef\xbb\xbf"}
        return [[key, text(8), text(3), text(8)] for key in sorted(keys)]

    def as_tsv(self, rows, header=HEADER):
        def field(text):
            return (text.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n")
                    .replace(b"\r", b"\\r"))
        return b"".join(b"\t".join(map(field, row)) + b"\n"
                        for row in [[name.encode() for name in header], *rows])

    def test_there_and_back(self):
        rows = self.odd_rows()
        self.create()
        self.write("odd.tsv", self.as_tsv(rows))
        self.scbf("index", "load", "i", "odd.tsv", "--regions", 4)
        self.assertEqual(self.scbf("index", "export", "i", "--separator", "tab"),
                         self.as_tsv(rows))
        for number, (name, form) in enumerate((("out.csv", []), ("out.tsv", []), ("out.tab", []),
                                               ("out", []), ("out.txt", ["--separator", "tab"]),
                                               ("semicolons.csv", ["--separator", ";"]))):
            report = self.scbf_json("index", "export", "i", "-o", name, *form)
            self.assertKeys(report, "index file rows seconds")
            self.assertEqual((report["file"], report["rows"]), (name, len(rows)))
            self.create(name=f"back{number}")
            self.scbf("index", "load", f"back{number}", name, *form, "--regions", 3)
            self.assertEqual(self.scbf("index", "export", f"back{number}", "--separator", "tab"),
                             self.as_tsv(rows), name)
        self.assertEqual(self.read("out.tsv"), self.as_tsv(rows))
        self.assertSound("back0")
        self.create(name="pipe")
        self.scbf("index", "load", "pipe", "-", stdin=self.scbf("index", "export", "i"))
        self.assertEqual(self.scbf("index", "export", "pipe"), self.read("out.csv"))

    def test_of_keys_only_and_of_nothing(self):
        keys = [[row[0]] for row in self.odd_rows()]
        for name in ("i", "back"):
            self.scbf("index", "create", name, "--key", "id", "--columns", "id")
        self.assertEqual(self.scbf("index", "export", "i"), b"id\n")
        self.write("keys.tsv", self.as_tsv(keys, ["id"]))
        self.scbf("index", "load", "i", "keys.tsv")
        for name in ("out.csv", "out.tsv"):
            self.assertIn(f"{len(keys)} rows of i".encode(),
                          self.scbf("index", "export", "i", "-o", name))
            self.scbf("index", "load", "back", name)
            self.assertEqual(self.scbf("index", "export", "back", "--separator", "tab"),
                             self.as_tsv(keys, ["id"]))

    def test_bytes_that_are_0(self):
        self.create()
        self.write("zero.csv", b'id,name,town,hobbies\n1,"a\0b",T,\n"2\0",,,\n')
        self.scbf("index", "load", "i", "zero.csv")
        self.scbf("index", "export", "i", "-o", "out.csv")
        self.create(name="back")
        self.scbf("index", "load", "back", "out.csv")
        self.assertEqual(self.scbf("index", "export", "back"), self.read("out.csv"))
        self.assertIn(b"a\0b", self.read("out.csv"))
        self.refused("index", "export", "i", "-o", "out.tsv", mentions=['row "1"', "CSV"],
                     code=INPUT_OUTPUT)
        self.assertNotIn("out.tsv", self.files())

    def test_files_are_not_replaced_by_a_slip(self):
        self.people(10)
        before = self.read("people.csv")
        self.refused("index", "export", "i", "-o", "people.csv", mentions=["--force"])
        self.refused("index", "export", "i", "--json", mentions=["--json"])
        self.refused("index", "export", "i", "-o", "none/x.csv", mentions=["none"],
                     code=INPUT_OUTPUT)
        self.assertEqual(self.read("people.csv"), before)
        self.scbf("index", "export", "i", "-o", "people.csv", "--force")
        self.assertEqual(self.read("people.csv").replace(b"\r", b""), before.replace(b"\r", b""))

    def test_progress_and_a_reader_that_stops(self):
        self.create()
        self.write("long.csv", as_csv([[f"{i:05}", "x" * 1000, "T", ""] for i in range(5000)]))
        self.scbf("index", "load", "i", "long.csv")
        self.scbf("index", "export", "i", "-o", "out.csv", "--progress", "always")
        for text in ("exporting", "5,000 rows", "100 %"):
            self.assertIn(text, self.err)
        process = self.start("index", "export", "i", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        self.assertTrue(process.stdout.readline())
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        self.assertEqual(process.wait(timeout=30), 0)


class Metrics(IndexTest):
    """The format is tested in tests/index/index_metrics_test.cpp."""

    SAMPLE = re.compile(r'(scbf_index_\w+)\{index="i"(?:,\w+="[^"]*")*\} (\S+)')

    def metrics(self, *options):
        samples = {}
        for line in self.scbf("index", "stats", "i", "--prometheus", *options).decode().splitlines():
            if line.startswith("# "):
                self.assertRegex(line, r"^# (HELP|TYPE) scbf_index_\w+ \S")
                continue
            match = self.SAMPLE.fullmatch(line)
            self.assertTrue(match, line)
            samples.setdefault(match[1], []).append(float(match[2]))
        return samples

    def test_metrics(self):
        self.people(400, regions=4)
        stats = self.scbf_json("index", "stats", "i")
        metrics = self.metrics()
        for name in ("rows", "values", "regions", "servers", "filter_bytes", "bit_row_bytes"):
            self.assertEqual(metrics["scbf_index_" + name], [stats[name]])
        self.assertEqual(metrics["scbf_index_read_only"], [1])
        self.assertEqual(len(metrics["scbf_index_column_info"]), 4)
        self.assertNotIn("scbf_index_region_rows", metrics)
        self.assertEqual(self.metrics("--each-region")["scbf_index_region_rows"], [100] * 4)
        self.refused("index", "stats", "i", "--prometheus", "--json", mentions=["--json"])
        self.refused("index", "stats", "i", "--each-region", mentions=["--prometheus"])
