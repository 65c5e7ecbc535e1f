# SPDX-License-Identifier: Apache-2.0
"""scbf index load: normal tables, unusual tables and malformed ones."""

import csv
import gzip
import io
import os
import random
import re
import shutil
import subprocess

from index_support import HEADER, IndexTest, as_csv, people
from support import INPUT_OUTPUT, OK, USAGE


class Load(IndexTest):
    def test_regions_are_of_about_one_size(self):
        report = self.people(4000, regions=8)
        self.assertKeys(report, "rows bytes put replaced seconds check_seconds rows_per_second "
                                "rows_in_index values regions servers filter_bytes bit_row_bytes "
                                "store_bytes")
        self.assertEqual((report["rows"], report["put"], report["replaced"], report["regions"]),
                         (4000, 4000, 0, 8))
        self.assertEqual(report["bytes"], os.path.getsize(self.path("people.csv")))
        regions = self.scbf_json("index", "regions", "i")
        self.assertEqual([r["rows"] for r in regions], [500] * 8)
        self.assertEqual([r["server"] for r in regions], [0, 1, 2, 3, 0, 1, 2, 3])
        self.assertSound()

    def test_the_sample_does_not_depend_on_luck(self):
        shuffled = people(40_000)
        random.Random(3).shuffle(shuffled)
        self.write("people.csv", as_csv(shuffled))
        found = []
        for name in ("i", "j"):
            self.create(name=name)
            self.scbf("index", "load", name, "people.csv", "--regions", 16)
            found.append([(r["from"], r["rows"])
                          for r in self.scbf_json("index", "regions", name)])
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(found[0]), 16)
        for _, rows in found[0]:
            self.assertAlmostEqual(rows, 2500, delta=500)  # more than five standard errors

    def test_again_replaces(self):
        self.people(500)
        report = self.scbf_json("index", "load", "i", "people.csv")
        self.assertEqual((report["put"], report["replaced"], report["rows_in_index"]),
                         (0, 500, 500))
        self.assertIn(b"500 in place of others", self.scbf("index", "load", "i", "people.csv"))
        self.scbf("index", "load", "i", "people.csv", "--regions", 4, code=USAGE)
        self.assertIn("500 rows", self.err)

    def test_columns_by_name_several_files_and_standard_input(self):
        self.create()
        self.write("a.csv", "town,id,hobbies,name\nRome,1,\"x, y\",Ann\n")
        self.write("b.tsv", "hobbies\tname\ttown\tid\r\n\r\ny\t\"Bo\" B.\tRome\t2\r\n\r\n")
        self.scbf("index", "load", "i", "a.csv", "b.tsv")
        self.scbf("index", "load", "i", "-", stdin=b"id,name,town,hobbies\n3,Cy,Rome,y")
        self.scbf("index", "load", "i", "-", "--separator", "tab",
                  stdin=b"\xef\xbb\xbfid\tname\ttown\thobbies\n\n4\tDi\tBonn\ty\n\n")
        self.assertEqual(self.rows("query", "i", "town=Rome"),
                         [["1", "Ann", "Rome", "x, y"], ["2", '"Bo" B.', "Rome", "y"],
                          ["3", "Cy", "Rome", "y"]])
        self.assertEqual(self.rows("query", "i", "hobbies=y", "--keys"),
                         [["1"], ["2"], ["3"], ["4"]])
        self.scbf("index", "load", "i", "-", "--regions", 2, stdin=b"x", code=USAGE)

    def test_standard_input_that_is_a_file(self):
        self.create()
        self.write("p.tsv", "id\tname\ttown\thobbies\n1\tAnn\tRome\tx\n2\tBo\tBonn\ty\n")
        def load(*options, file="-"):
            with open(self.path("p.tsv"), "rb") as stdin:
                process = self.start("index", "load", "i", file, "--separator", "tab", *options,
                                     stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                out, err = process.communicate(timeout=60)
            return process.returncode, err.decode()
        code, err = load("--regions", "2")
        self.assertEqual(code, USAGE)
        self.assertIn("--regions 2: the rows are read twice", err)
        self.assertEqual(len(self.scbf_json("index", "regions", "i")), 1)
        self.assertEqual(load(), (OK, ""))
        self.assertEqual(self.count(), 2)
        self.assertEqual(load(file="/dev/stdin"), (OK, ""))
        code, err = load("-")
        self.assertEqual(code, USAGE)
        self.assertIn("standard input is named twice", err)

    def test_fewer_keys_than_regions(self):
        self.create()
        self.write("few.csv", as_csv(people(3)))
        report = self.scbf_json("index", "load", "i", "few.csv", "--regions", 10)
        self.assertEqual((report["rows"], report["regions"]), (3, 3))
        self.assertIn("--regions 10", self.err)
        self.create(name="empty")
        self.write("none.csv", as_csv([]))
        report = self.scbf_json("index", "load", "empty", "none.csv", "--regions", 10)
        self.assertEqual((report["rows"], report["regions"]), (0, 1))

    def test_progress(self):
        self.create()
        self.write("people.csv", as_csv(people(1000)))
        self.scbf("index", "load", "i", "people.csv", "--progress", "always")
        for text in ("checking", "loading", "1,000 rows", "rows/s", "100 %"):
            self.assertIn(text, self.err)


class Oddities(IndexTest):
    """Tables written by Python's csv module are read back unchanged."""

    def setUp(self):
        super().setUp()
        self.addCleanup(csv.field_size_limit, csv.field_size_limit(1 << 30))

    PIECES = ["a", "b", '"', '""', ",", ",,", "\n", "\r\n", "\r", " ", "\t", "'", "\\", "é", "日本",
              "\x00", "\x1f", ";", "NULL", "0"]

    def text(self, source, longest=6):
        return "".join(source.choice(self.PIECES) for _ in range(source.randrange(longest)))

    def round_trip(self, rows, name, **dialect):
        out = io.StringIO(newline="")
        csv.writer(out, **dialect).writerows([HEADER, *rows])
        self.write("odd.csv", out.getvalue())
        self.create(name=name)
        self.scbf("index", "load", name, "odd.csv", "--regions", 3)
        back = self.scbf("index", "get", name, "--names", "--separator", ",",
                         *[row[0] for row in rows]).decode()
        self.assertEqual(list(csv.reader(io.StringIO(back, newline=""))), [HEADER, *rows])
        # Once more, from the command's own output.
        self.write("again.csv", back)
        self.create(name=name + "2")
        self.scbf("index", "load", name + "2", "again.csv")
        shutil.rmtree(self.path(name))
        self.assertSound(name + "2")

    def test_round_trip(self):
        source = random.Random(20261122)
        # A lone CR outside quotes ends a line. With the line end "\n" the csv module quotes it only
        # under QUOTE_ALL.
        dialects = [{"lineterminator": "\r\n"}, {"quoting": csv.QUOTE_ALL},
                    {"quoting": csv.QUOTE_ALL, "lineterminator": "\n"}]
        for trial in range(6):
            rows = []
            for i in range(60):
                row = [f"k{i:03}"] + [self.text(source) for _ in range(3)]
                # Older versions of the csv module do not read 0 bytes.
                rows.append([field.replace("\x00", "") for field in row])
            self.round_trip(rows, f"i{trial}", **dialects[trial % len(dialects)])

    def test_large_fields(self):
        rows = [["big", "x" * 3_000_000 + '"\n', "t", "h"], ["next", "y", "t", "h" * 65_535]]
        self.round_trip(rows, "i")

    def test_blanks_around_values(self):
        # A value may be as long as the limit, and the blanks around it do not count.
        self.create()
        longest = "h" * 65_535
        self.write("t.csv", as_csv([["1", "n", "T", f"x, \t{longest}\r\n ,y\n"]]))
        self.scbf("index", "load", "i", "t.csv")
        for value in ("x", "y"):
            self.assertEqual(self.rows("query", "i", f"hobbies={value}", "--keys"), [["1"]])
        self.write("value", longest)
        self.assertEqual(self.rows("query", "i", "--batch", "value", "--column", "hobbies",
                                   "--keys")[0][-1], "1")

    def test_keys_that_look_like_lists_and_options(self):
        self.create()
        keys = ["[a,b]", "a", "b", "-x", "--json", "[", "]"]
        for key in keys:
            self.scbf("index", "put", "i", f"id={key}", "town=T")
        self.assertEqual(self.rows("query", "i", "town=T", "--keys"), [[k] for k in sorted(keys)])
        self.scbf("index", "delete", "i", "[a,b]")
        self.scbf("index", "delete", "i", "--", "-x")
        self.assertEqual(self.rows("get", "i", "a", "b", "[a,b]"), [["a", "", "T", ""],
                                                                    ["b", "", "T", ""]])

    def test_tabs_and_line_breaks_within_fields(self):
        self.create()
        self.write("t.csv", as_csv([["1", "a\tb\nc\rd", "T", ""]]))
        self.scbf("index", "load", "i", "t.csv")
        self.assertEqual(self.scbf("index", "get", "i", "1"), b"1\ta\\tb\\nc\\rd\tT\t\n")
        self.assertEqual(self.scbf_json("index", "get", "i", "1")[0]["name"], "a\tb\nc\rd")

    def test_a_tsv_takes_quotes_as_they_are(self):
        self.create()
        line = ["1", '"', 'say "x" ', "'a',\\"]
        self.write("t.tsv", "\t".join(HEADER) + "\n" + "\t".join(line) + "\n")
        self.scbf("index", "load", "i", "t.tsv", "--no-escapes")
        self.assertEqual(self.rows("get", "i", "1"), [[*line[:-1], "'a',\\\\"]])


class BadInput(IndexTest):
    HEAD = b"id,name,town,hobbies\n"
    BAD = [
        (b"", ["empty"]),
        (b"\n\n", ["empty"]),
        (b"id,name,town\n", ["line 1", "missing", "hobbies"]),
        (b"id,name,town,hobbies,age\n", ["line 1", "no column 'age'"]),
        (b"id,name,town,hobby\n", ["hobbies", "hobby"]),
        (b"id,name,town,hobbies,name\n", ["name", "twice"]),
        (b"id,name,town,,hobbies\n", ["without a name"]),
        (b"id\tname\ttown\thobbies\n", ["--separator tab"]),
        (HEAD + b"1,a,b,c\n2,a,b\n", ["line 3", "3 fields", "4"]),
        (HEAD + b"1,a,b,c\n\n2,a,b,c,d\n", ["line 4", "5 fields"]),
        (HEAD + b"1,a,b,c\n,a,b,c\n", ["line 3", "no 'id'"]),
        (HEAD + b"1,\"a\nb\nc\",b,c\n2,\"never closed,b,c\n3,d\n", ["line 5", "never closed"]),
        (HEAD + b"1,a\"b,c,d\n", ["line 2", "quote"]),
        (HEAD + b"1,\"a\r\nb\",c,d\r\n\r\n2,a,b\r\n", ["line 5", "3 fields"]),
        (HEAD + b"1,\"a\nb\",c,d\r2,a,b\n", ["line 3", "3 fields"]),
        (HEAD + b"1,\"a\"b,c,d\n", ["line 2", "quote"]),
        (HEAD + b"1,a,b,c\n" + b"k" * 65_536 + b",a,b,c\n", ["line 3", "key", "65,535"]),
        (HEAD + b"1,a," + b"t" * 65_536 + b",c\n", ["line 2", "town", "65,535"]),
        (HEAD + b"1,a,b,\"x," + b"h" * 65_536 + b"\"\n", ["line 2", "hobbies", "65,535"]),
    ]

    def test_nothing_is_written(self):
        self.create()
        self.scbf("index", "put", "i", "id=0", "town=T")
        good = self.write("good.csv", as_csv(people(50)))
        for content, mentions in self.BAD:
            self.write("bad.csv", content)
            self.refused("index", "load", "i", good, "bad.csv", code=INPUT_OUTPUT,
                         mentions=["bad.csv", *mentions])
        self.assertEqual(self.rows("query", "i", "town=T", "--keys"), [["0"]])
        self.assertEqual(self.count(), 1)
        self.assertSound()

    def test_nor_is_the_index_divided(self):
        self.create()
        self.write("bad.csv", as_csv(people(50)) + "x,y\r\n")
        self.scbf("index", "load", "i", "bad.csv", "--regions", 4, code=INPUT_OUTPUT)
        self.assertEqual(len(self.scbf_json("index", "regions", "i")), 1)

    def test_tsv(self):
        self.create()
        for content, mentions in ((b"id\tname\ttown\thobbies\n1\ta\0b\tc\td\n", ["line 2", "0"]),
                                  (b"id\tname\ttown\thobbies\n1\ta\tb\n", ["line 2", "3 fields"]),
                                  (b"id,name,town,hobbies\n", ["--separator ,"])):
            self.write("bad.tsv", content)
            self.refused("index", "load", "i", "bad.tsv", code=INPUT_OUTPUT, mentions=mentions)
        self.assertEqual(self.count(), 0)

    def test_from_a_pipe_says_what_stays(self):
        self.create()
        data = as_csv(people(70_000)).encode() + b"1,2\n"
        self.scbf("index", "load", "i", "-", stdin=data, code=INPUT_OUTPUT)
        self.assertIn("line 70002", self.err)
        stays = int(re.search(r"has ([\d,]+) now", self.err).group(1).replace(",", ""))
        self.assertEqual(self.count(), stays)
        self.assertSound()

    def test_files_and_folders_that_are_not_there(self):
        self.create()
        self.scbf("index", "load", "i", "missing.csv", code=INPUT_OUTPUT)
        self.assertIn("missing.csv", self.err)
        os.mkdir(self.path("folder"))
        self.scbf("index", "load", "i", "folder", code=INPUT_OUTPUT)
        self.scbf("index", "load", "i", code=USAGE)
        self.scbf("index", "load", "i", "x.csv", "--separator", ";;", code=USAGE)
        self.assertIn("';;'", self.err)
        for words in (["load", "no", "x.csv"], ["get", "no", "k"], ["query", "no", "a=b"],
                      ["stats", "no"], ["regions", "no"], ["check", "no"], ["put", "no", "id=1"],
                      ["delete", "no", "1"], ["checkpoint", "no"], ["split", "no", 0],
                      ["merge", "no", 0, 1], ["move", "no", 0, 1]):
            self.scbf("index", *words, code=INPUT_OUTPUT)
            self.assertIn("no", self.err)
        self.assertNotIn("no", self.files())
        self.scbf("index", "stats", "folder", code=INPUT_OUTPUT)
        self.assertEqual(os.listdir(self.path("folder")), [])


class ThereAndBack(IndexTest):
    """What the command prints, it loads again; and different bytes print differently."""

    FIELDS = ["plain", "tab\there", "line\nfeed", "back\\slash", "a\\nb", "\\", "\r", "end\r", "\\t",
              "a\\", "\t\n\r\\", '"quoted"', " blanks "]

    def rows_of_fields(self):
        return [[f"k{i:02}", field, "T", "h"] for i, field in enumerate(self.FIELDS)]

    def test_tsv(self):
        self.create()
        self.write("t.csv", as_csv(self.rows_of_fields()))
        self.scbf("index", "load", "i", "t.csv")
        printed = self.scbf("index", "query", "i", "town=T", "--names")
        self.assertEqual(len(printed.splitlines()), 1 + len(self.FIELDS))
        self.assertEqual(len(set(line.split(b"\t", 1)[1] for line in printed.splitlines())),
                         1 + len(self.FIELDS))
        self.write("t.tsv", printed)
        self.create(name="j")
        self.scbf("index", "load", "j", "t.tsv")
        for name in ("i", "j"):
            rows = self.scbf_json("index", "query", name, "town=T")["rows"]
            self.assertEqual([row["name"] for row in rows], self.FIELDS)
        # With CRLF too, where a CR within a field is escaped.
        self.write("dos.tsv", printed.replace(b"\n", b"\r\n"))
        self.create(name="k")
        self.scbf("index", "load", "k", "dos.tsv")
        self.assertEqual(self.scbf("index", "query", "k", "town=T", "--names"), printed)

    def test_backslashes_of_others(self):
        self.create()
        head = "id\tname\ttown\thobbies\n"
        for bad in ("C:\\dir", "end\\"):
            self.write("t.tsv", head + f"1\tn\tT\th\n2\t{bad}\tT\th\n")
            self.scbf("index", "load", "i", "t.tsv", code=INPUT_OUTPUT)
            self.assertIn("'t.tsv': line 3", self.err)
            self.assertIn("--no-escapes", self.err)
            self.assertEqual(self.count(), 0)
        self.write("t.tsv", head + "1\tC:\\new\tT\th\n")
        self.scbf("index", "load", "i", "t.tsv", "--no-escapes")
        self.assertEqual(self.scbf_json("index", "get", "i", "1")[0]["name"], "C:\\new")

    def test_bytes_that_are_not_utf_8(self):
        self.create()
        self.write("t.csv", b"id,name,town,hobbies\n1,\xff,T,h\n2,\xfe,T,h\n3,\xef\xbf\xbd,T,h\n"
                            b"\xc3,n,T,h\n")
        self.scbf("index", "load", "i", "t.csv")
        rows = self.scbf_json("index", "query", "i", "town=T")["rows"]
        self.assertEqual([row["name"] for row in rows],
                         [{"bytes": [255]}, {"bytes": [254]}, "\ufffd", "n"])
        self.assertEqual(rows[3]["id"], {"bytes": [195]})

    def test_compressed_tables(self):
        self.create()
        self.write("people.csv.gz", gzip.compress(as_csv(people(500)).encode()))
        report = self.scbf_json("index", "load", "i", "people.csv.gz", "--regions", 4)
        self.assertEqual((report["rows"], report["regions"]), (500, 4))
