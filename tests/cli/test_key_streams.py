# SPDX-License-Identifier: Apache-2.0
"""Inputs that come in pieces, wait, break off or fail on the way."""

import contextlib
import gzip
import os
import struct
import subprocess
import time

from support import INPUT_OUTPUT, OK, CommandTest, lines, words


class Pieces(CommandTest):
    """Pipes deliver any part of what was written to them: what the input is must not depend on it."""

    def in_pieces(self, pieces, *arguments):
        process = self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        with contextlib.suppress(BrokenPipeError):
            for piece in pieces:
                process.stdin.write(piece)
                process.stdin.flush()
                time.sleep(0.1)
        process.out, process.err = process.communicate(timeout=60)
        return process

    def setUp(self):
        super().setUp()
        self.scbf("build", "--keys", "decimal", "--capacity", 10, "-o", "ids.scbf",
                  stdin=b"123\n7\n12345678\n")

    def test_decimal_numbers(self):
        for pieces, found in (([b"0000123", b"\n"], b"123\n"), ([b"1", b"23\n7", b"\n"], b"123\n7\n"),
                              ([b"00000000000000000123", b"\r", b"\n"], b"123\n"),
                              ([b"12345678"], b"12345678\n"), ([b"7"], b"7\n")):
            with self.subTest(pieces):
                process = self.in_pieces(pieces, "query", "ids.scbf")
                self.assertEqual((process.returncode, process.out), (OK, found), process.err)

    def test_binary_numbers(self):
        number = struct.pack("<Q", 123)
        for pieces in ([number[:1], number[1:]], [number[:7], number[7:] + number]):
            process = self.in_pieces(pieces, "query", "ids.scbf")
            self.assertEqual(process.out, b"123\n" * (sum(map(len, pieces)) // 8), process.err)

    def test_what_is_no_file_of_keys_is_refused(self):
        for pieces, said in (([b"\xff", b"\xfea\0\n\0"], b"UTF-16"),
                             ([self.read("ids.scbf")[:3], self.read("ids.scbf")[3:]], b"a filter"),
                             ([b"key\n", b"a\0b\n"], b"zero bytes"),
                             ([b"k" * 30000, b"k" * 20000 + b"\0\n"], b"zero bytes")):
            with self.subTest(said):
                process = self.in_pieces(pieces, "build", "--capacity", 9, "-o", "out.scbf")
                self.assertEqual(process.returncode, INPUT_OUTPUT)
                self.assertIn(said, process.err)
                self.assertFalse(os.path.exists(self.path("out.scbf")))

    def test_a_reader_that_goes_away_ends_the_command(self):
        # One block of keys, whose absent ones find no reader, and the beginning of the next.
        keys = b"".join(b"absent%07d\n" % i for i in range(100_000))
        self.assertTrue(1 << 20 < len(keys) < 2 << 20)
        self.scbf("build", "--capacity", 10, "-o", "f.scbf", stdin=b"a\n")
        process = self.start("remove", "f.scbf", "-o", "g.scbf", "--absent", "-", "--threads", 2,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(keys)
            process.stdin.flush()
        # The input stays open: only the lost reader can end the command.
        process.wait(timeout=20)
        self.assertFalse(os.path.exists(self.path("g.scbf")))
        self.stop(process)


class Errors(CommandTest):
    """An error in the middle: it names its input, and what was answered before it is given."""

    def test_an_error_names_its_file(self):
        self.write("a", b"1\nx\n")
        self.write("b", b"3\n")
        self.write("t.csv", b"id\n5\ny\n")
        self.write("u.csv", b"id\n6\n")
        self.write_u64("n.u64", [8, 9])
        self.write("d", b"10\n" * 50_000 + b"x\n")
        self.write("c", b"4\r\n\n\r\n" + lines([b"%d" % i for i in range(200_000)]) + b"-1\n")
        for files, name in ((["a", "b"], "'a': line 2: 'x'"), (["b", "a"], "'a': line 2: 'x'"),
                            (["n.u64", "d"], "'d': line 50001: 'x'"),
                            (["b", "c"], "'c': line 200004: '-1'"),
                            (["--column", "id", "t.csv", "u.csv"], "'t.csv': line 3: 'y'"),
                            (["--column", "id", "u.csv", "t.csv"], "'t.csv': line 3: 'y'")):
            kind = "u64" if {"--column", "n.u64"} & set(files) else "decimal"
            self.scbf("build", "--keys", kind, "--capacity", 9, "-o", "f.scbf", *files,
                      code=INPUT_OUTPUT)
            self.assertIn(name, self.err)
            self.assertEqual("--raw" in self.err, "--column" not in files)

    def test_answers_before_an_error_are_given(self):
        self.scbf("build", "--keys", "decimal", "--capacity", 9, "-o", "f.scbf", stdin=b"1\n2\n")
        process = self.run_raw("query", "f.scbf", "--keys", "decimal", stdin=b"2\n3\n1\nx\n1\n")
        self.assertEqual((process.returncode, process.out), (INPUT_OUTPUT, b"2\n1\n"))
        self.assertIn(b"line 4: 'x': must be a decimal number", process.err)

    def test_a_damaged_file(self):
        keys = words(200_000)
        self.build("f.scbf", keys)
        packed = gzip.compress(lines(keys))
        self.write("cut.gz", packed[: len(packed) // 2])
        for query, row in ((["query"], b"%s\n"), (["count"], b"%s\t1\n")):
            process = self.run_raw(*query, "f.scbf", "cut.gz")
            self.assertEqual(process.returncode, INPUT_OUTPUT)
            self.assertIn(b"'cut.gz': the compressed data is cut off", process.err)
            answers = process.out.splitlines(keepends=True)
            self.assertGreater(len(answers), 90_000)
            self.assertEqual(answers[::1000], [row % key for key in keys[: len(answers) : 1000]])

    def test_a_damaged_table(self):
        self.write("t.csv", b"id\na\nb\nx\"y\nc\n")
        self.scbf("build", "--capacity", 9, "-o", "f.scbf", stdin=b"a\nb\nc\n")
        process = self.run_raw("query", "f.scbf", "--column", "id", "t.csv")
        self.assertEqual((process.returncode, process.out), (INPUT_OUTPUT, b"a\nb\n"))
        self.assertIn(b"line 4", process.err)

    def test_half_a_number_at_the_end(self):
        self.scbf("build", "--keys", "u64", "--capacity", 9, "-o", "f.scbf",
                  stdin=struct.pack("<2Q", 500, 600))
        process = self.run_raw("query", "f.scbf", stdin=struct.pack("<2Q", 500, 600) + b"123")
        self.assertEqual((process.returncode, process.out), (INPUT_OUTPUT, b"500\n600\n"))
        self.assertIn(b"19 bytes", process.err)

    def test_a_build_with_an_error_leaves_no_file(self):
        self.write("t.csv", b"id\na\nx\"y\n")
        self.scbf("build", "--capacity", 9, "--column", "id", "-o", "f.scbf", "t.csv",
                  code=INPUT_OUTPUT)
        self.assertEqual(self.files(), ["t.csv"])


class Waiting(CommandTest):
    """An error ends the command at once, also while its input is a pipe that nobody closes."""

    def ended(self, *arguments, stdin, **options):
        process = self.start(*arguments, "--threads", 2, stdin=subprocess.PIPE,
                             stderr=subprocess.PIPE, **options)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin)
            process.stdin.flush()
        process.wait(timeout=20)
        return process

    def test_answers_that_cannot_be_written(self):
        self.build("f.scbf", words(10))
        with open("/dev/full", "wb") as full:
            for column in ([], ["--column", "1"]):
                process = self.ended("query", "f.scbf", *column, stdin=b"word-1\n", stdout=full)
                self.assertEqual(process.returncode, INPUT_OUTPUT)
                self.assertIn(b"standard output: cannot write", process.stderr.read())

    def test_a_filter_that_is_full(self):
        self.scbf("build", "--scalable", "--policy", "fixed", "--memory", "4KiB", "--stage-fpr",
                  "1%", "--fpr", "2%", "-o", "f.scbf", stdin=b"a\n")
        before = self.digest("f.scbf")
        keys = lines(words(200_000))
        self.assertGreater(len(keys), 1 << 20, "more than a block")
        process = self.ended("insert", "f.scbf", stdin=keys)
        self.assertEqual(process.returncode, INPUT_OUTPUT, process.stderr.read())
        self.assertEqual(self.digest("f.scbf"), before)


class CutFilter(CommandTest):
    def test_a_mapped_filter_that_is_cut_is_told(self):
        self.scbf("build", "--capacity", 12_000_000, "-o", "f.scbf", stdin=b"a\n")
        process = self.start("query", "f.scbf", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        process.stdin.write(b"a\n")
        process.stdin.flush()
        self.assertEqual(self.next_line(process), b"a\n")
        os.truncate(self.path("f.scbf"), 0)
        _, told = process.communicate(lines([b"key%d" % i for i in range(1000)]), timeout=60)
        self.assertEqual(process.returncode, INPUT_OUTPUT)
        self.assertIn(b"cut short while it was in use", told)
