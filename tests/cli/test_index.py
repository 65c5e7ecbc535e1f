# SPDX-License-Identifier: Apache-2.0
"""scbf index: its definition, rows, queries and regions. test_index_tables tests the loading of tables,
test_index_upkeep opening and check."""

import csv
import io
import os
import shlex
import unittest

from index_support import BUILT, HEADER, IndexTest, as_csv, people
from support import INPUT_OUTPUT, NOTHING_FOUND, USAGE, CommandTest

VERBS = ["create", "load", "put", "delete", "get", "query", "stats", "regions", "split", "merge",
         "move", "replan", "add-column", "drop-column", "checkpoint", "check", "backup",
         "export"]


class Help(IndexTest):
    def test_every_verb_has_help_with_examples(self):
        overview = self.scbf("index", "--help").decode()
        for verb in VERBS:
            self.assertRegex(overview, rf"\n  {verb} +\S")
            text = self.scbf("index", verb, "--help").decode()
            self.assertIn("Examples:\n  ", text)
            self.assertIn(f"scbf index {verb}", text)
        self.assertRegex(self.scbf("--help").decode(), r"\n  index +\S")

    def test_the_example_of_the_overview_works(self):
        self.write("packages.tsv", "package\tmaintainer\tsection\tdepends\nbash\tAnn\tshells\tlibc6, x\n")
        text = self.scbf("index", "--help").decode().split("Examples:\n")[1].split("'scbf")[0]
        examples = text.replace("\\\n", " ").strip().splitlines()
        self.assertEqual(len(examples), 3)
        for example in examples:
            out = self.scbf(*shlex.split(example)[1:])
        self.assertIn(b"bash", out)

    def test_an_index_of_nothing_says_so(self):
        self.scbf("index", "create", "i", "--key", "id", "--columns", "id,name")
        self.assertIn("--index", self.err)

    def test_a_query_by_key_points_to_get(self):
        self.create()
        self.refused("index", "query", "i", "id=1", mentions=["index get"])

    def test_one_row_is_one_row(self):
        self.create()
        self.write("one.csv", as_csv(people(1)))
        out = self.scbf("index", "load", "i", "one.csv").decode()
        self.assertIn("loaded 1 row,", out)
        self.assertIn("1 row and 2 values in 1 region on 1 server;", out)

    def test_verbs_that_are_none(self):
        for words, mentions in ((["index"], ["index --help"]),
                                (["index", "laod"], ["'index laod'", "'index load'"]),
                                (["index", "xyzzy"], ["index --help"]),
                                (["index", "stats"], ["DIR", "scbf index stats --help"]),
                                (["index", "stats", "i", "--nonsense"], ["nonsense"])):
            self.refused(*words, mentions=mentions)


class Create(IndexTest):
    def test_report_and_plan(self):
        report = self.scbf_json("index", "create", "i", "--key", "id", "--columns", "id,a,b",
                                "--index", "b", "--fpr", "0.1%", "--servers", 3, "--seed", "0x10")
        self.assertKeys(report, "index key columns fpr region_values servers seed layout")
        self.assertEqual((report["fpr"], report["servers"], report["seed"]), (0.001, 3, 16))
        stats = self.scbf_json("index", "stats", "i")
        self.assertEqual([(c["name"], c["indexed"]) for c in stats["columns"]],
                         [("a", False), ("b", True)])
        self.assertKeys(stats, "rows values regions servers filter_bytes bit_row_bytes store_bytes "
                               "recovery fpr")
        self.assertRegex(self.scbf("index", "stats", "i").decode(),
                         r"\nas of +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, change \d+\n")

    def test_columns_from_a_header(self):
        self.write("t.tsv", "id\ttags\tx:y,z\n1\ta,b\tc\n")
        self.scbf("index", "create", "i", "--header", "t.tsv", "--key", "id", "--index", "x:y,z",
                  "--index", "tags:,")
        columns = self.scbf_json("index", "stats", "i")["columns"]
        self.assertEqual([(c["name"], c["indexed"], c["separator"]) for c in columns],
                         [("tags", True, ","), ("x:y,z", True, "")])
        self.scbf("index", "load", "i", "t.tsv")
        self.assertEqual(self.rows("query", "i", "tags=b", "--keys"), [["1"]])

    def test_refused(self):
        create = ["index", "create", "i", "--key", "id"]
        self.write("h.csv", "id,a\n")
        for options, mentions in (
                ([], ["--columns", "--header"]),
                (["--columns", "a", "--header", "h.csv"], ["only one"]),
                (["--columns", "a,a"], ["'a'", "twice"]),
                (["--columns", "a,,b"], ["name"]),
                (["--columns", "a", "--index", "c"], ["'c'", "no such column"]),
                (["--columns", "a", "--index", "id"], ["the key"]),
                (["--columns", "a", "--index", "a:"], ["colon"]),
                (["--columns", "a", "--fpr", "2"], ["'2'"]),
                (["--columns", "a", "--servers", "0"], ["'0'"]),
                (["--columns", "a", "--servers", "70000"], ["65,536"]),
                (["--columns", "a", "--region-values", "0"], ["'0'"]),
                (["--columns", "a", "--layout", "round"], ["round"]),
                (["--columns", "a", "--seed", "x"], ["'x'"]),
                (["--columns", "a", "--backend", "abacus"], ["abacus"])):
            self.refused(*create, *options, mentions=mentions)
        self.scbf("index", "create", "i", "--key", "no", "--header", "h.csv", code=USAGE)
        self.assertIn("'no'", self.err)
        self.scbf("index", "create", "i", "--columns", "a", code=USAGE)
        self.scbf(*create, "--header", "missing.csv", code=INPUT_OUTPUT)
        self.assertEqual(self.files(), ["h.csv"])

    def test_a_folder_that_is_taken(self):
        self.create()
        self.write("file", "")
        os.symlink("nowhere", self.path("link"))
        for name in ("i", "file", "link"):
            self.refused("index", "create", name, "--key", "k", "--columns", "a",
                         mentions=[f"'{name}': it exists and is no empty directory; name a new one\n"])
        os.mkdir(self.path("folder"))
        self.create(name="folder")
        self.assertEqual(self.scbf_json("index", "stats", "i")["key"], "id")


class Rows(IndexTest):
    def test_put_get_delete(self):
        self.create()
        self.assertEqual(self.scbf_json("index", "put", "i", "id=1", "town=Rome", "name=a=b"),
                         {"index": "i", "put": 1, "replaced": 0})
        self.assertEqual(self.rows("get", "i", "1"), [["1", "a=b", "Rome", ""]])
        self.assertEqual(self.scbf_json("index", "put", "i", "id=1", "town=Bonn"),
                         {"index": "i", "put": 0, "replaced": 1})
        self.assertEqual(self.scbf("index", "query", "i", "town=Rome", code=NOTHING_FOUND), b"")
        self.assertEqual(self.rows("query", "i", "town=Bonn"), [["1", "", "Bonn", ""]])
        self.assertEqual(self.scbf_json("index", "get", "i", "2", "1"),
                         [None, {"id": "1", "name": "", "town": "Bonn", "hobbies": ""}])
        self.assertEqual(self.scbf_json("index", "delete", "i", "1", "2"),
                         {"index": "i", "removed": 1, "absent": 1})
        self.scbf("index", "delete", "i", "1", code=NOTHING_FOUND)
        self.scbf("index", "get", "i", "1", code=NOTHING_FOUND)
        self.scbf("index", "query", "i", "town=Bonn", code=NOTHING_FOUND)
        self.assertSound()

    def test_keys_from_files(self):
        self.people(100)
        self.write("keys.txt", "id-000003\n\nid-000005\n")
        self.assertEqual([r[0] for r in self.rows("get", "i", "--from-file", "keys.txt", "id-000001")],
                         ["id-000001", "id-000003", "id-000005"])
        report = self.scbf_json("index", "delete", "i", "--from-file", "-",
                                stdin=b"id-000003\nnone\n")
        self.assertEqual(report, {"index": "i", "removed": 1, "absent": 1})
        self.scbf("index", "delete", "i", "--from-file", "missing", code=INPUT_OUTPUT)
        self.assertEqual(self.count(), 99)

    def test_how_lists_are_written(self):
        self.people(100)
        self.write("crlf", "id-000003\r\nid-000005\r\n")
        self.write("towns", "town-0\r\n")
        for verb in (["get", "i", "--from-file", "crlf"], ["delete", "i", "--from-file", "crlf"],
                     ["query", "i", "--batch", "towns", "--column", "town", "--keys"]):
            self.scbf("index", *verb, code=NOTHING_FOUND)
            self.assertIn("lines end in CR LF, and the CR is taken as part of the key; --chomp-cr", self.err)
        self.assertEqual(len(self.rows("query", "i", "--batch", "towns", "--column", "town", "--chomp-cr")), 100)
        self.assertEqual(len(self.rows("get", "i", "--from-file", "crlf", "--chomp-cr")), 2)
        self.assertEqual(self.rows("get", "i", "--from-file", "-", "--null", "--names",
                                   stdin=b"id-000003\0id-000005\0")[1][0], "id-000003")
        for option in ("--null", "--chomp-cr", "--raw"):
            for words, with_file in ((["get", "i", "x"], "--from-file"), (["delete", "i", "x"], "--from-file"),
                                     (["query", "i", "town=town-0"], "--batch")):
                self.refused("index", *words, option,
                             mentions=[f"--null, --chomp-cr and --raw go with {with_file} FILE\n"])
        self.build("f.scbf", [b"id-000003"])
        self.write("zeros", b"id-000003\0id-000005\n")
        self.write("utf-16", "id-000003\n".encode("utf-16"))
        for name, why in (("f.scbf", "a filter, where a file of keys"), ("zeros", "--null reads lines that end"),
                          ("utf-16", "UTF-16")):
            for verb in ("get", "delete"):
                self.refused("index", verb, "i", "--from-file", name, code=INPUT_OUTPUT, mentions=[why])
                self.assertNotIn("--keys", self.err)
            self.scbf("index", "get", "i", "--from-file", name, "--raw", code=NOTHING_FOUND)
        self.assertEqual(self.scbf_json("index", "delete", "i", "--from-file", "crlf", "--chomp-cr")["removed"], 2)
        self.scbf("index", "put", "i", "id=-05")
        self.assertEqual(self.rows("get", "i", "-05"), [["-05", "", "", ""]])  # numbers are no options

    def test_refused(self):
        self.create()
        for words, mentions in ((["put", "i", "town=x"], ["id=VALUE"]),
                                (["put", "i", "id=1", "id=2"], ["twice"]),
                                (["put", "i", "id=1", "town"], ["COLUMN=VALUE"]),
                                (["put", "i", "id=1", "city=x"], ["city", "town"]),
                                (["put", "i", "id="], ["key"]),
                                (["put", "i"], ["COL=VALUE"]),
                                (["delete", "i"], ["--from-file"]),
                                (["get", "i"], ["--from-file"])):
            self.refused("index", *words, mentions=mentions)
        self.assertEqual(self.count(), 0)


class Definition(IndexTest):
    """replan, add-column and drop-column."""

    def stats(self):
        return self.scbf_json("index", "stats", "i")

    def test_a_dry_run_says_what_replan_does(self):
        self.people(4000, regions=4)
        before = self.stats()
        forecast = self.scbf_json("index", "replan", "i", "--fpr", "0.1%", "--dry-run")
        self.assertEqual(self.stats()["fpr"], 0.01, "nothing was changed")
        report = self.scbf_json("index", "replan", "i", "--fpr", "0.1%")
        for side in ("before", "after"):
            self.assertKeys(report[side], "fpr region_values filter_bytes mean_fpr highest_fpr")
        self.assertEqual(report["before"]["filter_bytes"], before["filter_bytes"])
        self.assertEqual(forecast["before"], report["before"])
        self.assertEqual(forecast["after"]["filter_bytes"], report["after"]["filter_bytes"])
        self.assertEqual((forecast["dry_run"], report["dry_run"]), (True, False))
        self.assertLess(report["after"]["mean_fpr"], report["before"]["mean_fpr"])
        self.assertLessEqual(report["after"]["highest_fpr"], 0.001)
        after = self.stats()
        self.assertEqual(after["fpr"], 0.001)
        self.assertEqual(after["region_values"], report["after"]["region_values"])
        self.assertEqual(after["recovery"]["rebuilt"], 0, "the new filters were saved")
        self.assertEqual(len(self.rows("query", "i", "town=town-7")), 100)
        self.assertSound()

    def test_replan_without_a_rate_takes_the_least_memory(self):
        self.people(4000, regions=4)
        self.scbf("index", "replan", "i", "--region-values", "100000")
        large = self.stats()
        report = self.scbf_json("index", "replan", "i")
        self.assertEqual(report["after"]["fpr"], 0.01)
        self.assertLess(report["after"]["filter_bytes"], large["filter_bytes"] / 10)
        again = self.scbf("index", "replan", "i").decode()
        self.assertRegex(again, r"filters +\S+ \S+ +\S+ \S+\n")
        self.assertEqual(self.stats()["region_values"], report["after"]["region_values"])
        self.assertSound()

    def test_separators_are_shown_and_no_lists_of_columns(self):
        create = ["index", "create", "j", "--key", "id", "--columns", "id,tags,town"]
        for given, named in (("tags:,,town", "town"), ("tags:,id", "id"), ("tags:,town:,", "town")):
            self.refused(*create, "--index", given, mentions=[f"'{given}'", f"name column '{named}' by itself"])
        self.refused("index", "create", "j", "--key", "id", "--columns", "id,tags,id", mentions=["'id'", "twice"])
        self.assertFalse(os.path.exists(self.path("j")))
        out = self.scbf(*create, "--index", "tags:,", "--index", "town").decode()
        self.assertIn("indexed: tags (divided by ','), town;", out)
        self.assertIn("tags (divided by ','), town\n", self.scbf("index", "stats", "j").decode())
        self.refused("index", "query", "j", "id=1", mentions=["index get"])
        self.scbf("index", "create", "k", "--key", "id", "--columns", "id,size,x", "--index", "size:x")
        self.refused("index", "add-column", "k", "x:,size", mentions=["'x:,size'", "name column 'size' by itself"])
        self.refused("index", "query", "k", "x=1", mentions=["'x' is not indexed; indexed columns: 'size'"])

    def test_replan_refuses(self):
        self.people(100, regions=1)
        for options in (["--fpr", "2"], ["--fpr", "0"], ["--region-values", "0"]):
            self.refused("index", "replan", "i", *options, mentions=[options[1]])
        self.scbf("index", "replan", "none", code=INPUT_OUTPUT)
        self.assertEqual((self.stats()["fpr"], self.stats()["region_values"]), (0.01, 500))

    def test_columns_are_added_and_dropped(self):
        self.people(1000)
        self.refused("index", "query", "i", "name=name 7",
                     mentions=["'name'", "not indexed; indexed columns: 'town', 'hobbies'"])
        report = self.scbf_json("index", "add-column", "i", "name: ")
        self.assertKeys(report, "index columns rows values filter_bytes seconds")
        self.assertEqual([c["name"] for c in report["columns"] if c["indexed"]],
                         ["name", "town", "hobbies"])
        self.assertEqual(self.rows("query", "i", "name=7", "town=town-0", "--keys"), [["id-000007"]])
        self.assertEqual(len(self.rows("query", "i", "name=name")), 1000)
        self.assertSound()
        self.scbf("index", "put", "i", "id=x", "name=two words")
        self.assertEqual(self.rows("query", "i", "name=words", "--keys"), [["x"]])
        out = self.scbf("index", "drop-column", "i", "town", "name").decode()
        self.assertIn("2 columns dropped; indexed: hobbies (divided by ',')\n", out)
        self.refused("index", "query", "i", "town=town-0", mentions=["not indexed"])
        self.assertEqual(self.rows("get", "i", "id-000007"), [people(8)[7]])
        self.assertSound()
        self.scbf("index", "drop-column", "i", "hobbies")
        self.assertIn("no column is indexed", self.err)
        self.scbf("index", "add-column", "i", "town", "hobbies:,", "name")
        self.assertEqual(len(self.rows("query", "i", "town=town-3", "hobbies=h1")), 43)
        self.assertEqual(self.rows("query", "i", "name=two words", "--keys"), [["x"]])
        self.assertSound()

    def test_columns_whose_names_have_colons(self):
        self.scbf("index", "create", "i", "--key", "id", "--columns", "id,a:b,a")
        self.scbf("index", "put", "i", "id=1", "a:b=x/y", "a=z")
        self.scbf("index", "add-column", "i", "a:b:/", "a")
        self.assertEqual(self.rows("query", "i", "a:b=y", "a=z", "--keys"), [["1"]])

    def test_columns_that_are_refused(self):
        self.people(100, regions=1)
        before = self.stats()["columns"]
        for verb, words, mentions in (
                ("add-column", ["nowhere"], ["'nowhere'", "no such column", "town"]),
                ("add-column", ["name", "nowhere:,"], ["'nowhere:,'", "no such column"]),
                ("add-column", ["town"], ["'town'", "already"]),
                ("add-column", ["id"], ["'id'", "key"]),
                ("add-column", ["name:"], ["colon"]),
                ("add-column", ["name", "name:,"], ["'name'", "twice"]),
                ("add-column", [], ["COL"]),
                ("drop-column", ["name"], ["'name'", "not indexed"]),
                ("drop-column", ["town", "town"], ["'town'", "twice"]),
                ("drop-column", ["nowhere"], ["'nowhere'", "no such column"]),
                ("drop-column", [], ["COL"])):
            self.refused("index", verb, "i", *words, mentions=mentions)
        for verb in ("add-column", "drop-column"):
            self.scbf("index", verb, "none", "town", code=INPUT_OUTPUT)
        self.assertEqual(self.stats()["columns"], before)
        self.assertSound()


class Queries(IndexTest):
    def setUp(self):
        super().setUp()
        self.people(1000)
        self.table = people(1000)

    def scan(self, test):
        return [row for row in self.table if test(row)]

    def test_answers_are_those_of_a_scan(self):
        for i in range(10):
            self.assertEqual(self.rows("query", "i", f"town=town-{i}"),
                             self.scan(lambda row: row[2] == f"town-{i}"))
        for i in range(7):
            self.assertEqual(self.rows("query", "i", f"hobbies=h{i}"),
                             self.scan(lambda row: f"h{i}" in row[3].split(", ")))
        self.assertEqual(
            self.rows("query", "i", "town=town-3", "hobbies=h5"),
            self.scan(lambda row: row[2] == "town-3" and "h5" in row[3].split(", ")))

    def test_ranges_limits_and_forms(self):
        query = ["query", "i", "hobbies=h1"]
        everything = self.rows(*query, "--keys")
        self.assertEqual(self.rows(*query, "--keys", "--broadcast"), everything)
        self.assertEqual(self.rows(*query, "--keys", "--limit", 5), everything[:5])
        self.assertEqual(self.rows(*query, "--keys", "--from", "id-000100", "--to", "id-000200"),
                         [k for k in everything if "id-000100" <= k[0] < "id-000200"])
        named = self.scbf("index", *query, "--names", "--separator", ",", "--limit", 2).decode()
        rows = list(csv.reader(io.StringIO(named, newline="")))
        self.assertEqual(rows[0], HEADER)
        self.assertEqual(rows[1][3], "h1, h1")
        self.assertEqual(self.rows(*query, "--names", "--keys", "--limit", 1), [["id"], everything[0]])

    def test_routing(self):
        self.scbf("index", "query", "i", "town=town-0")
        self.assertRegex(self.err, r"^scbf: asked 1 of 4 servers \(broadcast: 4\), 1 of 8 regions; "
                                   r"1 server holds it, 0 false requests; expected 1\.\d\n$")
        self.scbf("index", "query", "i", "hobbies=h1")
        self.assertIn("each of them holds it", self.err)
        self.scbf("index", "query", "i", "town=nowhere", code=NOTHING_FOUND)
        self.assertIn("0 servers hold it", self.err)
        self.scbf("index", "query", "i", "town=town-0", "--broadcast")
        self.assertIn("asked 4 of 4 servers", self.err)

    def test_json(self):
        report = self.scbf_json("index", "query", "i", "town=town-4")
        self.assertEqual(self.err, "")
        self.assertKeys(report, "found routing seconds rows")
        self.assertKeys(report["routing"], "requests broadcast_requests servers_holding "
                                           "false_requests expected_requests everywhere regions "
                                           "regions_asked regions_holding")
        self.assertEqual(report["found"], 100)
        self.assertEqual([list(row.values()) for row in report["rows"]],
                         self.scan(lambda row: row[2] == "town-4"))
        routing = report["routing"]
        self.assertEqual(routing["broadcast_requests"], 4)
        self.assertGreaterEqual(routing["expected_requests"], routing["servers_holding"])
        self.assertEqual(routing["requests"],
                         routing["servers_holding"] + routing["false_requests"])
        keys = self.scbf_json("index", "query", "i", "town=town-4", "--keys", "--limit", 1)["rows"]
        self.assertEqual(keys, [{"id": "id-000400"}])
        nothing = self.scbf_json("index", "query", "i", "town=x", code=NOTHING_FOUND)
        self.assertEqual(nothing["rows"], [])

    def test_batch(self):
        self.write("towns.txt", "town-3\nnowhere\ntown-8\n")
        batch = ["query", "i", "--batch", "towns.txt", "--column", "town"]
        self.assertEqual(self.rows(*batch, "--keys"),
                         [[row[2], row[0]] for row in self.table if row[2] in ("town-3", "town-8")])
        self.assertRegex(self.err, r"3 values, 2 of them found, 200 rows; asked \d+ servers "
                                   r"\(broadcast: 12\)")
        report = self.scbf_json("index", *batch)
        self.assertKeys(report, "queries found rows requests broadcast_requests servers_holding "
                                "false_requests expected_requests everywhere seconds answers")
        self.assertEqual([a["found"] for a in report["answers"]], [100, 0, 100])
        self.assertEqual(report["requests"],
                         sum(a["routing"]["requests"] for a in report["answers"]))
        self.scbf("index", "query", "i", "--batch", "-", "--column", "town", stdin=b"no\n",
                  code=NOTHING_FOUND)

    def test_refused(self):
        for words, mentions in (([], ["COL=VALUE"]), (["town"], ["COLUMN=VALUE"]),
                                (["city=x"], ["city", "town"]), (["name=x"], ["name", "indexed"]),
                                (["town=x", "--limit", "0"], ["'0'"]),
                                (["town=x", "--from", "b", "--to", "a"], ["b", "a"]),
                                (["--batch", "-"], ["--column"]), (["--column", "a"], ["--batch"]),
                                (["town=x", "--batch", "-", "--column", "a"], ["--batch"]),
                                (["--batch", "-", "--column", "name"], ["name"])):
            self.refused("index", "query", "i", *words, stdin=b"x\n", mentions=mentions)


class Regions(IndexTest):
    def setUp(self):
        super().setUp()
        self.people(800, servers=4, regions=4)
        self.ids = [r["region"] for r in self.regions()]

    def regions(self):
        return self.scbf_json("index", "regions", "i")

    def answers(self):
        return self.rows("query", "i", "town=town-3")

    def test_list(self):
        regions = self.regions()
        for region in regions:
            self.assertKeys(region, "region from to server rows values stages filter_bytes "
                                    "estimated_fpr left_over unsaved asked_always")
        self.assertEqual([r["to"] for r in regions[:-1]], [r["from"] for r in regions[1:]])
        self.assertEqual((regions[0]["from"], regions[-1]["to"]), ("", ""))
        text = self.scbf("index", "regions", "i").decode().splitlines()
        self.assertEqual(len(text), 5)
        self.assertIn("id-000200", text[2])

    def test_split_merge_move(self):
        before = self.answers()
        parts = self.scbf_json("index", "split", "i", self.ids[1])
        self.assertEqual([p["rows"] for p in parts], [100, 100])
        at = self.scbf_json("index", "split", "i", parts[0]["region"], "--at", "id-000210")
        self.assertEqual((at[0]["rows"], at[1]["from"]), (10, "id-000210"))
        self.assertEqual(len(self.regions()), 6)
        self.assertEqual(self.answers(), before)
        merged = self.scbf_json("index", "merge", "i", at[0]["region"], at[1]["region"])
        self.assertEqual([r["rows"] for r in merged], [100])
        moved = self.scbf_json("index", "move", "i", merged[0]["region"], 3)
        self.assertEqual(moved[0]["server"], 3)
        self.assertEqual(self.answers(), before)
        self.assertSound()
        self.assertIn(b"region", self.scbf("index", "move", "i", moved[0]["region"], 0))

    def test_refused(self):
        for words, mentions in ((["split", "i", 999], ["999"]), (["split", "i", "x"], ["'x'"]),
                                (["split", "i", self.ids[0], "--at", "zzz"], ["zzz"]),
                                (["merge", "i", self.ids[0], self.ids[2]], []),
                                (["merge", "i", self.ids[0]], ["RIGHT"]),
                                (["move", "i", self.ids[0], 4], ["4"]),
                                (["move", "i", 999, 0], ["999"]), (["move", "i", "-1", 0], ["-1"])):
            self.refused("index", *words, mentions=mentions)
        self.assertEqual([r["region"] for r in self.regions()], self.ids)


class Absent(CommandTest):
    @unittest.skipIf(BUILT, "the command was built with the secondary index")
    def test_says_so(self):
        for words in (["index"], ["index", "create", "i", "--key", "x"], ["index", "--odd"]):
            self.scbf(*words, code=USAGE)
            self.assertIn("built without the secondary index", self.err)
