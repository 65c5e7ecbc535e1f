# SPDX-License-Identifier: Apache-2.0
"""Reading keys: every kind of input, and each key arrives with exactly its bytes."""

import json
import struct
import subprocess
import sys

from support import COMMAND, INPUT_OUTPUT, NOTHING_FOUND, OK, USAGE, CommandTest, words


class Lines(CommandTest):
    def counts(self, name, data):
        """The output of count as {key: count}."""
        rows = self.scbf("count", name, stdin=data).split(b"\n")
        self.assertEqual(rows.pop(), b"")
        return dict(row.rsplit(b"\t", 1) for row in rows)

    def build_from(self, data, *options):
        return self.scbf_json(
            "build", "--capacity", 1000, "--fpr", "1e-6", "-o", "f.scbf", *options, stdin=data
        )

    def test_last_line_without_newline_is_a_key(self):
        self.assertEqual(self.build_from(b"a\nbb\nccc")["keys"], 3)
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"ccc\nd\na"), b"ccc\na\n")

    def test_empty_lines_are_skipped_and_counted(self):
        report = self.build_from(b"\n\na\n\n\nb\n\n")
        self.assertEqual((report["keys"], report["empty_lines"]), (2, 5))
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"\nb\n\na\n"), b"b\na\n")

    def test_no_input_at_all(self):
        report = self.build_from(b"")
        self.assertEqual((report["keys"], report["empty_lines"], report["fill"]), (0, 0, 0))
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"", code=NOTHING_FOUND), b"")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"x\n", code=NOTHING_FOUND), b"")

    def test_carriage_return_is_part_of_the_key(self):
        self.build_from(b"dos\r\nunix\n")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"dos\ndos\r\nunix\r\nunix\n"),
                         b"dos\r\nunix\n")

    def test_zero_bytes_and_bytes_that_are_no_text(self):
        keys = [b"a\0b", b"a\0c", b"\0", b"\0\0", bytes(range(11, 256)), b"\xff\xfe", b"x"]
        self.build_from(b"\n".join(keys))
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"\n".join(keys)),
                         b"\n".join(keys) + b"\n")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"a\na\0\n\0\0\0\n",
                                   code=NOTHING_FOUND), b"")

    def test_one_byte_lines(self):
        keys = [bytes([b]) for b in range(256) if b != 10]
        data = b"".join(key + b"\n" for key in keys) * 3
        self.assertEqual(self.build_from(data)["keys"], 3 * 255)
        counts = self.counts("f.scbf", b"\n".join(keys))
        self.assertEqual(len(counts), 255)
        self.assertTrue(all(int(n) >= 3 for n in counts.values()))

    def test_line_longer_than_a_block(self):
        line = b"0123456789abcdef" * (70 << 16)  # 70 MiB, a block has 64
        data = b"before\n" + line + b"\nafter\n"
        self.write("long.txt", data)
        self.assertEqual(self.scbf_json("build", "-o", "f.scbf", "long.txt")["keys"], 3)
        self.assertEqual(self.scbf("query", "f.scbf", "long.txt"), data)
        self.assertEqual(
            self.scbf("query", "f.scbf", "--count", stdin=line[:-1] + b"\nnothing\n",
                      code=NOTHING_FOUND), b"0\n")

    def test_blocks_cut_lines_anywhere(self):
        # Lines of many lengths, more than a block holds: all must come back unchanged.
        lines = b"".join(b"%d:" % i + b"x" * (i * 7919 % 2000) + b"\n" for i in range(75_000))
        self.assertGreater(len(lines), 70 << 20)
        self.write("many.txt", lines)
        report = self.scbf_json("build", "-o", "f.scbf", "many.txt", "--threads", 2)
        self.assertEqual((report["keys"], report["capacity"]), (75_000, 75_000))
        for threads in (1, 2):
            found = self.scbf("query", "f.scbf", "many.txt", "--threads", threads)
            self.assertTrue(found == lines)
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=lines), b"75000\n")

    def test_long_lines_with_a_second_reader(self):
        # The first line makes its block grow to 256 MiB. The part of the second line that is cut off
        # is longer than the other block.
        line = b"abcdefghijklmnop" * (130 << 16)
        with open(self.path("long.txt"), "wb") as file:
            file.write(b"1" + line + b"\n2" + line + b"\nlast")
        report = self.scbf_json("build", "-o", "f.scbf", "long.txt", "--threads", 0)
        self.assertEqual(report["keys"], 3)
        for threads in (0, 1):
            out = self.scbf("query", "f.scbf", "long.txt", "--count", "--threads", threads)
            self.assertEqual(out, b"3\n")

    def test_blocks_of_empty_lines_take_no_memory(self):
        with open(self.path("empty.txt"), "wb") as file:
            for _ in range(200):
                file.write(b"\n" * (1 << 20))
            file.write(b"end")
        # A process starts with the peak memory of its parent, so a small process starts it.
        starter = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        out = subprocess.run(
            [sys.executable, "-c", starter, COMMAND, "build", "-o", "f.scbf", "empty.txt", "--json",
             "--threads", "1"], cwd=self.folder, stdout=subprocess.PIPE, check=True, timeout=100)
        text, peak_kib = out.stdout.decode().rstrip().rsplit("\n", 1)
        report = json.loads(text)
        self.assertEqual((report["keys"], report["empty_lines"]), (1, 200 << 20))
        self.assertLess(int(peak_kib), 160 << 10)

    def test_inputs_are_read_in_order_and_lines_end_with_their_file(self):
        self.write("a.txt", b"one\ntw")
        self.write("b.txt", b"o\nthree\n")
        self.assertEqual(
            self.scbf_json("build", "-o", "f.scbf", "--fpr", "1e-6", "a.txt", "b.txt")["keys"], 4)
        self.assertEqual(self.scbf("query", "f.scbf", "b.txt", "a.txt"), b"o\nthree\none\ntw\n")
        self.scbf("query", "f.scbf", stdin=b"two", code=NOTHING_FOUND)

    def test_dash_is_standard_input_among_files(self):
        self.write("a.txt", b"first\n")
        self.build_from(b"first\nmiddle\n")
        self.assertEqual(self.scbf("query", "f.scbf", "a.txt", "-", "a.txt", stdin=b"middle"),
                         b"first\nmiddle\nfirst\n")

    def test_counting_first_counts_exactly(self):
        cases = [b"", b"\n", b"a", b"a\n", b"\na", b"a\n\nb", b"\n\n\n", b"a\nb\n\n",
                 b"x\n" * 1000, b"\n" * 600 + b"y", b"ab\n\n" * 70_000, b"q" * 300_000 + b"\n\nz"]
        for data in cases:
            self.write("in.txt", data)
            report = self.scbf_json("build", "-o", "f.scbf", "in.txt")
            expected = sum(1 for line in data.split(b"\n") if line)
            self.assertEqual(report["keys"], expected)
            self.assertEqual(report["capacity"], max(1, expected))

    def test_standard_input_needs_a_capacity(self):
        self.scbf("build", "-o", "f.scbf", stdin=b"a\n", code=USAGE)
        self.assertIn("--capacity", self.err)
        self.scbf("build", "-o", "f.scbf", "-", stdin=b"a\n", code=USAGE)
        self.assertEqual(self.files(), [])

    def test_answers_from_a_pipe_do_not_wait_for_its_end(self):
        self.build("f.scbf", words(10))
        process = self.start("query", "f.scbf", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(b"word-3\n")
        process.stdin.flush()
        self.assertEqual(self.next_line(process), b"word-3\n")
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), OK)
        process.stdout.close()


class Numbers(CommandTest):
    NUMBERS = [0, 1, 10, 2**32, 2**63, 2**64 - 1, 0x0A0A0A0A0A0A0A0A]

    def test_numbers_are_printed_as_decimals(self):
        self.write_u64("n.u64", self.NUMBERS)
        report = self.scbf_json("build", "--keys", "u64", "--fpr", "1e-6", "-o", "f.scbf", "n.u64")
        self.assertEqual((report["keys"], report["capacity"]), (7, 7))
        text = b"".join(b"%d\n" % n for n in self.NUMBERS)
        self.assertEqual(self.scbf("query", "f.scbf", "n.u64"), text)
        counts = self.scbf("count", "f.scbf", "n.u64")
        self.assertEqual(counts, text.replace(b"\n", b"\t1\n"))
        other = self.write_u64("other.u64", [5])
        self.assertEqual(self.scbf("query", "f.scbf", "--invert", other), b"5\n")

    def test_a_number_is_its_eight_bytes(self):
        self.write_u64("n.u64", [0x6867666564636261])
        self.scbf("build", "--keys", "u64", "--fpr", "1e-6", "-o", "f.scbf", "n.u64")
        self.assertEqual(
            self.scbf("query", "f.scbf", "--keys", "lines", "--force", stdin=b"abcdefgh\nabcdefgi"),
            b"abcdefgh\n")

    def test_odd_length_is_refused_with_name_and_length(self):
        self.write("odd.u64", b"x" * 13)
        for options in ([], ["--capacity", 10]):
            self.scbf("build", "--keys", "u64", *options, "-o", "f.scbf", "odd.u64",
                      code=INPUT_OUTPUT)
            self.assertIn("odd.u64: 13 bytes", self.err)
        self.scbf("build", "--keys", "u64", "--capacity", 10, "-o", "f.scbf", stdin=b"y" * 9,
                  code=INPUT_OUTPUT)
        self.assertIn("standard input: 9 bytes", self.err)
        self.assertEqual(self.files(), ["odd.u64"])

    def test_numbers_cut_by_small_reads(self):
        self.write_u64("n.u64", [1001, 1002, 1003])
        self.scbf("build", "--keys", "u64", "-o", "f.scbf", "n.u64")
        process = self.start("query", "f.scbf", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        data = self.read("n.u64")
        for begin, end, answer in ((0, 13, b"1001\n"), (13, 17, b"1002\n"), (17, 24, b"1003\n")):
            process.stdin.write(data[begin:end])
            process.stdin.flush()
            self.assertEqual(self.next_line(process), answer)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK)

    def test_more_than_a_block(self):
        count = (64 << 20) // 8 + 12_345
        self.scbf("gen", "--keys", count, "--kind", "sequential", "-o", "n.u64")
        report = self.scbf_json("build", "--keys", "u64", "-o", "f.scbf", "n.u64")
        self.assertEqual((report["keys"], report["capacity"]), (count, count))
        self.assertEqual(self.scbf("query", "f.scbf", "--count", "n.u64"), b"%d\n" % count)

    def test_the_filter_remembers_its_kind(self):
        self.write_u64("n.u64", [7])
        self.scbf("build", "--keys", "u64", "-o", "f.scbf", "n.u64")
        for verb in ("query", "count", "insert", "remove"):
            self.scbf(verb, "f.scbf", "--keys", "lines", stdin=b"abc\n", code=USAGE)
            self.assertIn("--force", self.err)
        self.scbf("query", "f.scbf", "--keys", "u64", stdin=struct.pack("<Q", 7))
