# SPDX-License-Identifier: Apache-2.0
"""Reading keys from columns of CSV and TSV tables."""

import csv
import gzip
import io
import os
import random
import subprocess

from support import INPUT_OUTPUT, NOTHING_FOUND, OK, USAGE, CommandTest, lines, words


class Columns(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("t.csv", 'id,name\n1,Ann\n2,"Bo, ""B"""\n3,\n4,Cy\n')
        self.write("t.tsv", "name\tid\nAnn\t1\nBo, \"B\"\t2\na\\tb\t5\n")

    def test_by_name_and_number(self):
        report = self.scbf_json("build", "--column", "name", "-o", "f.scbf", "t.csv")
        self.assertEqual((report["keys"], report["empty_lines"], report["capacity"]), (3, 1, 3))
        self.assertEqual(self.scbf("query", "f.scbf", "--column", "name", "t.tsv"),
                         b'Ann\nBo, "B"\n')
        self.assertEqual(self.scbf("query", "f.scbf", "--column", 2, "t.csv"),
                         b'Ann\nBo, "B"\nCy\n')
        self.assertEqual(self.scbf("query", "f.scbf", "--column", "b", "--separator", "tab", "-",
                                   stdin=b"a\tb\n1\tCy\n"), b"Cy\n")
        table = b'a,x;b\n1;"Cy"\n2;"Bo, ""B"""\n'
        for separator in ";|: \x01":
            self.assertEqual(self.scbf("query", "f.scbf", "--column", "b", "--separator", separator,
                                       "-", stdin=table.replace(b";", separator.encode())),
                             b'Cy\nBo, "B"\n')
        self.assertEqual(self.scbf("query", "f.scbf", "--column", "b", "--invert",
                                   stdin=b"b\nnew\n"), b"new\n")

    def test_long_tables(self):
        """Lines of every kind lie across the ends of the blocks that are read, at any offset."""
        source = random.Random(20261129)
        self.build("f.scbf", [])

        def keys_of(table, *options):
            return self.scbf("query", "f.scbf", "--invert", "-0", "--column", 2, *options,
                             stdin=table).split(b"\0")[:-1]

        def field(odd, longest):
            text = "x" * source.randrange(1, longest)
            return text + source.choice(odd) if source.random() < 0.1 else text

        for end in ("\n", "\r\n", "\r"):
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC):
                odd = [",", '"', "\n", "\r", "\r\n"]
                if quoting == csv.QUOTE_MINIMAL:  # it quotes only the line breaks of its own
                    odd = [",", '"', end]
                rows = [[i, field(odd, 150), field(odd, 5)] for i in range(9_000)]
                rows[5_000][1] = "y" * 600_000
                rows[7_000][2] = "z" * 300_000
                out = io.StringIO(newline="")
                csv.writer(out, lineterminator=end, quoting=quoting).writerows(rows)
                for text in (out.getvalue(), out.getvalue()[:-len(end)]):
                    self.assertEqual(keys_of(text.encode()), [row[1].encode() for row in rows])

        rows = [[b"%d" % i, b"%d\\t" % i + b"x" * source.randrange(150), b""] for i in range(9_000)]
        rows[5_000][1] = b"y" * 600_000
        rows[6_000][1] = b"\\t" + b"y" * 600_000 + b"\\t"
        for end in (b"\n", b"\r\n"):
            table = end.join(b"\t".join(row) for row in rows)
            self.assertEqual(keys_of(table, "--separator", "tab"),
                             [row[1].replace(b"\\t", b"\t") for row in rows])
            self.assertEqual(keys_of(table + end, "--separator", "tab", "--no-escapes"),
                             [row[1] for row in rows])

    def test_quotes(self):
        """As Python's csv reads them, which has the same rules. (Empty fields are no keys.)"""
        self.build("f.scbf", [])
        for table in ('""\n"a"\n', '""""\n', '"a"\r\n""\r\n', '"a"\r"b"\r', '""\na\n', '"a"\n', '"a,b","c"\n',
                      'a,""\r\n"",b\r\n', 'plain,"b""c"\n"""",""""""\n', '"a\rb",c\n', '"a\nb",c\nd,e\n',
                      '"a\r\nb","c"\r\n"d",e', ',"x"\n"x",\n', '"",\n,""\n', 'a,b\n\n"c","d"\n\r\n'):
            rows = [row for row in csv.reader(io.StringIO(table, newline=""), strict=True) if row]
            for start in ("", "\ufeff"):
                for column in range(len(rows[0])):
                    process = self.run_raw("query", "f.scbf", "--invert", "-0", "--column", column + 1,
                                           stdin=(start + table).encode())
                    keys = [row[column].encode() + b"\0" for row in rows if row[column]]
                    self.assertEqual(process.out, b"".join(keys), table)
                    self.assertEqual(process.returncode, OK if keys else NOTHING_FOUND, table)
        for line in ('"a"b', 'a"b', '"a" ', '"a"\rb"', 'x,"a""', '"b""c","d"e', '"open'):
            process = self.run_raw("query", "f.scbf", "--invert", "-0", "--column", 1,
                                   stdin=f'"a""b",c\n{line}\n'.encode())
            self.assertEqual(process.out.split(b"\0")[0], b'a"b', line)
            self.assertEqual(process.returncode, INPUT_OUTPUT, line)
            self.assertIn(b"line 2: a quote ", process.err, line)

    def test_ends_of_lines_may_differ_within_a_table(self):
        self.build("f.scbf", [])
        source = random.Random(20261130)
        table = b"\xef\xbb\xbf"  # a byte order mark, before a quote
        for i in range(9_000):
            table += b'"%d",key-%d' % (i, i) if i % 10 == 0 else b"%d,key-%d" % (i, i)
            table += source.choice((b"\n", b"\r\n", b"\r"))
        for column, key in ((1, b"%d\n"), (2, b"key-%d\n")):
            self.assertEqual(self.scbf("query", "f.scbf", "--invert", "--column", column, stdin=table),
                             b"".join(key % i for i in range(9_000)))

    def test_what_stands_before_an_error_is_answered(self):
        self.build("f.scbf", [])
        quote, zero = b": a quote ", b": a byte that is 0"
        for separator, table, error in (
            (",", b'a,b\nc,d\ne,"f"g\nh,i\n', b"line 3" + quote),
            (",", b'a,b\rc,d\re,"f"g\rh,i\n', b"line 1" + quote),
            (",", b'a,b\nc,d\n"e,f\n\ng', b"line 3" + quote),
            ("tab", b"a\tb\n\nc\td\ne\0\nf\n", b"line 4" + zero),
        ):
            process = self.run_raw("query", "f.scbf", "--invert", "--column", 1, "--separator",
                                   separator, stdin=table)
            self.assertEqual((process.returncode, process.out), (INPUT_OUTPUT, b"a\nc\n"), table)
            self.assertIn(error, process.err)
        for end in (b"\n", b"\r\n", b"\r"):
            table = gzip.compress(end.join(lines([b"k", *words(3_000)]).split()))
            process = self.run_raw("query", "f.scbf", "--invert", "--column", "k",
                                   stdin=table[:len(table) * 3 // 4])
            self.assertEqual(process.returncode, INPUT_OUTPUT)
            self.assertIn(b"cut off", process.err)
            self.assertTrue(lines(words(3_000)).startswith(process.out))
            self.assertGreater(len(process.out), 10_000)
            with open(self.path("cut.csv.gz"), "wb") as file:
                file.write(table[:len(table) * 3 // 4])
            from_file = self.run_raw("query", "f.scbf", "--invert", "--column", "k", "cut.csv.gz")
            self.assertEqual(from_file.returncode, INPUT_OUTPUT)
            self.assertGreater(len(from_file.out), 10_000)
        process = self.run_raw("query", "f.scbf", "--column", 1, "--separator", "tab",
                               stdin=b"a\n" + bytes(1_000_000))
        self.assertEqual(process.returncode, INPUT_OUTPUT)
        self.assertIn(b"line 2" + zero, process.err)

    def test_numbers(self):
        self.scbf("build", "--keys", "decimal", "--column", "id", "-o", "n.scbf", "t.csv")
        self.assertEqual(self.scbf("query", "n.scbf", "--column", "id", "t.tsv"), b"1\n2\n")
        self.scbf("query", "n.scbf", "--column", "name", "t.csv", code=INPUT_OUTPUT)
        self.assertIn("'Ann'", self.err)

    def test_a_column_that_is_there_twice(self):
        self.write("twice.csv", "a,b,a\n1,2,3\n")
        self.scbf("build", "--column", "a", "-o", "n.scbf", "twice.csv", code=INPUT_OUTPUT)
        self.assertIn("'twice.csv': line 1: column 'a' is there twice", self.err)
        self.assertFalse(os.path.exists(self.path("n.scbf")))
        self.scbf("build", "--column", "b", "-o", "n.scbf", "twice.csv")

    def test_a_key_with_a_newline(self):
        self.write("n.csv", 'k\n"a\nb"\n')
        self.scbf("build", "--column", "k", "-o", "f.scbf", "n.csv")
        self.assertEqual(self.scbf("query", "f.scbf", "--column", "k", "-0", "n.csv"), b"a\nb\0")
        self.scbf("query", "f.scbf", "--column", "k", "n.csv", code=INPUT_OUTPUT)
        self.assertIn("-0", self.err)
        # Several threads print so many keys. Those before it are printed all the same.
        before = lines(words(30_000))
        table = b"k\n" + before + b'"c\nd"\n' + before
        process = self.run_raw("query", "f.scbf", "--invert", "--column", "k", stdin=table)
        self.assertEqual(process.returncode, INPUT_OUTPUT)
        self.assertEqual(process.out, before)

    def test_errors(self):
        build = ["build", "--capacity", 9, "-o", "f.scbf"]
        self.scbf(*build, "--column", "town", "t.csv", code=INPUT_OUTPUT)
        self.assertIn("'t.csv': line 1: no column 'town'; there are: 'id', 'name'", self.err)
        self.scbf(*build, "--column", 3, "t.csv", code=INPUT_OUTPUT)
        self.assertIn("line 1", self.err)
        self.refused(*build, "--separator", "tab", "t.csv", mentions=["go with --column"])
        self.refused(*build, "--column", "", "t.csv",
                     mentions=["--column '': must be the name or the number of a column"])
        for separator in ("", "ab", ";;", "a", "7", '"', "\\", "\n", "é"):
            self.refused(*build, "--column", "id", "--separator", separator, "t.csv",
                         mentions=["--separator '", "must be tab or a character such as"])

    def test_answers_from_a_pipe_do_not_wait_for_its_end(self):
        self.build("f.scbf", words(10))
        process = self.start("query", "f.scbf", "--column", "k", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        # Neither an empty line nor a row that goes on holds up the rows before it.
        for written, answer in ((b"k,l\nword-3,x\n", b"word-3\n"),
                                (b"word-4,x\n\n\r\n", b"word-4\n"),
                                (b'word-5,x\nword-6,"a\nb', b"word-5\n"), (b'"\n', b"word-6\n"),
                                (b"word-7,x\r", b"word-7\n"), (b"\nword-8,x\r", b"word-8\n"),
                                (b"word-9,x\rword-0", b"word-9\n"), (b",x\n", b"word-0\n")):
            process.stdin.write(written)
            process.stdin.flush()
            self.assertEqual(self.next_line(process), answer)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK)

    def test_backslashes_in_a_column(self):
        self.write("t.tsv", b"id\ta\nx\\y\tb\n")
        self.scbf("build", "--column", "id", "--capacity", 9, "-o", "f.scbf", "t.tsv",
                  code=INPUT_OUTPUT)
        self.assertIn("--no-escapes", self.err)
        self.scbf("build", "--column", "id", "--no-escapes", "--capacity", 9, "-o", "f.scbf", "t.tsv")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"x\\y\n"), b"x\\y\n")
        self.scbf("build", "--no-escapes", "--capacity", 9, "-o", "f.scbf", "t.tsv", code=USAGE)
        self.assertIn("go with --column", self.err)

    def test_raw_columns_are_not_decompressed(self):
        with open(self.path("t.csv"), "wb") as file:
            file.write(gzip.compress(b"id\na\n"))
        self.scbf("build", "--column", "id", "--capacity", 9, "-o", "f.scbf", "t.csv")
        self.scbf("build", "--column", "id", "--raw", "--capacity", 9, "-o", "g.scbf", "t.csv",
                  code=INPUT_OUTPUT)
