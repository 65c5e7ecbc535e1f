# SPDX-License-Identifier: Apache-2.0
"""Reading keys: every kind of input, and each key arrives with exactly its bytes."""

import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import unittest

from support import COMMAND, INPUT_OUTPUT, NOTHING_FOUND, OK, USAGE, CommandTest, lines, words


class Lines(CommandTest):
    def counts(self, name, data, *options):
        """The output of count as {key: count}."""
        rows = self.scbf("count", name, *options, stdin=data).split(b"\n")
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
        self.build_from(b"\n".join(keys), "--raw")
        self.assertEqual(self.scbf("query", "f.scbf", "--raw", stdin=b"\n".join(keys)),
                         b"\n".join(keys) + b"\n")
        self.assertEqual(self.scbf("query", "f.scbf", "--raw", stdin=b"a\na\0\n\0\0\0\n",
                                   code=NOTHING_FOUND), b"")

    def test_one_byte_lines(self):
        keys = [bytes([b]) for b in range(256) if b != 10]
        data = b"".join(key + b"\n" for key in keys) * 3
        self.assertEqual(self.build_from(data, "--raw")["keys"], 3 * 255)
        counts = self.counts("f.scbf", b"\n".join(keys), "--raw")
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

    def test_counted_keys_are_those_of_a_second_reading(self):
        self.write("a.txt", lines(words(50_000)) + b"\r\n\n")
        self.write("b.csv", b"id,name\n" + b"".join(b"%d,n-%d\n" % (i, i) for i in range(20_000)))
        self.write("c.txt", b"".join(b"%d\n" % i for i in range(30_000)))
        with open(self.path("c.gz"), "wb") as file:
            file.write(gzip.compress(self.read("c.txt")))
        for inputs, keys in (("a.txt c.txt", 80_001), ("--chomp-cr a.txt", 50_000),
                             ("--column name b.csv", 20_000), ("--keys u64 c.txt", 30_000),
                             ("c.gz a.txt", 80_001)):
            inputs = inputs.split()
            counted = self.scbf_json("build", "--seed", 7, "-o", "counted.scbf", *inputs)
            self.assertEqual((counted["keys"], counted["capacity"]), (keys, keys))
            self.assertTrue(counted["hashes_kept"])
            given = self.scbf_json("build", "--seed", 7, "--capacity", keys, "-o", "given.scbf",
                                   *inputs)
            self.assertFalse(given["hashes_kept"])
            self.assertEqual(self.digest("counted.scbf"), self.digest("given.scbf"))
            for same in "keys", "empty_lines", "key_kind", "input_bytes":
                self.assertEqual(counted[same], given[same])
            os.remove(self.path("counted.scbf"))
            os.remove(self.path("given.scbf"))

    def test_counted_keys_of_blocks_that_a_long_line_made_large(self):
        self.write("in.txt", b"x" * (3 << 20) + b"\n" + b"a\nb\n" * 1_300_000)
        counted = self.scbf_json("build", "-o", "counted.scbf", "in.txt")
        self.assertEqual(counted["keys"], 2_600_001)
        self.assertTrue(counted["hashes_kept"])
        self.scbf("build", "--capacity", 2_600_001, "-o", "given.scbf", "in.txt")
        self.assertEqual(self.digest("counted.scbf"), self.digest("given.scbf"))

    @unittest.skipIf(os.environ.get("SCBF_SANITIZE"), "sanitizers reserve more address space")
    def test_without_memory_for_hashes_keys_are_read_twice(self):
        self.write("in.txt", lines(words(100_000)))
        self.scbf("build", "--threads", 1, "-o", "want.scbf", "in.txt")
        kept = set()
        for mebibytes in range(80, 0, -1):  # the program takes half of that
            limit = (mebibytes << 20,) * 2
            process = self.run_raw(
                "build", "--threads", "1", "--json", "--force", "-o", "f.scbf", "in.txt",
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
            if process.returncode != OK:
                break
            kept.add(json.loads(process.out)["hashes_kept"])
            self.assertEqual(self.digest("f.scbf"), self.digest("want.scbf"))
        self.assertEqual(kept, {True, False})

    @unittest.skipIf(os.environ.get("SCBF_SANITIZE"), "sanitizers take memory of their own")
    def test_a_control_group_without_memory_for_hashes(self):
        # 6 million hashes take 48 MB, of which a quarter must be free.
        group = self.control_group(100 << 20)
        self.write("in.txt", b"".join(b"%d\n" % i for i in range(6_000_000)))
        process = self.run_raw("build", "--threads", 1, "--json", "-o", "f.scbf", "in.txt",
                               preexec_fn=lambda: self.enter(group))
        self.assertEqual(process.returncode, OK, process.err)
        self.assertFalse(json.loads(process.out)["hashes_kept"])

    def control_group(self, most_bytes):
        """A new control group inside this process's own; skips the test if none can be made."""
        with open("/proc/self/cgroup") as file:
            paths = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
        for controllers, path in paths.items():
            if "memory" in controllers.split(","):
                group, limit = "/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes"
                break
        else:
            group, limit = "/sys/fs/cgroup" + paths.get("", "/"), "memory.max"
        group = os.path.join(group, f"scbf-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")
        self.addCleanup(os.rmdir, group)
        try:
            with open(os.path.join(group, limit), "w") as file:
                file.write(str(most_bytes))
        except OSError as error:
            self.skipTest(f"control groups do not limit memory here: {error}")
        return group

    @staticmethod
    def enter(group):
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

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
            self.assertIn("'odd.u64': 13 bytes", self.err)
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


class NotLines(CommandTest):
    """What is easily taken for lines of keys, and gives wrong answers when it is."""

    def setUp(self):
        super().setUp()
        self.text = lines(words(1000))
        self.build("f.scbf", words(1000), "--fpr", "1e-6")

    def found(self, *arguments, **options):
        return int(self.scbf("query", "f.scbf", "--count", *arguments, **options))

    def test_gzip_is_decompressed(self):
        packed = gzip.compress(self.text[:5000]) + gzip.compress(self.text[5000:])
        self.write("keys.gz", packed)
        self.assertEqual(self.scbf("query", "f.scbf", "keys.gz"), self.text)
        self.assertEqual(self.scbf("query", "f.scbf", stdin=packed), self.text)
        self.assertEqual(self.scbf("query", "f.scbf", stdin=packed + bytes(100_000)), self.text)  # as from a tape
        self.assertEqual(self.scbf_json("build", "-o", "g.scbf", "keys.gz")["capacity"], 1000)
        self.assertEqual(self.read("g.scbf")[4096:],
                         self.read(self.build("h.scbf", words(1000)))[4096:])
        for bad, reason in ((packed[:-9], "cut off"), (packed[:100], "cut off"),
                            (packed[:3000] + b"?" * 50 + packed[3050:], "damaged"),
                            (packed + bytes(9) + b"?" * 9, "damaged")):
            self.write("bad.gz", bad)
            self.scbf("insert", "f.scbf", "bad.gz", code=INPUT_OUTPUT)
            self.assertIn("'bad.gz': ", self.err)
            self.assertIn(reason, self.err)
        self.assertEqual(self.scbf("query", "f.scbf", "--raw", "keys.gz", code=NOTHING_FOUND), b"")

    def test_zstd_is_decompressed(self):
        frames = b"".join(zstd_frame(self.text[i:i + 3000]) for i in range(0, len(self.text), 3000))
        self.write("keys.zst", frames)
        self.assertEqual(self.scbf("query", "f.scbf", "keys.zst"), self.text)
        self.scbf("query", "f.scbf", "--count", stdin=frames[:-1], code=INPUT_OUTPUT)
        self.assertIn("cut off", self.err)
        damaged = bytearray(frames)
        damaged[6] |= 6  # a type of block that is reserved
        self.scbf("query", "f.scbf", stdin=bytes(damaged), code=INPUT_OUTPUT)
        self.assertIn("damaged zstd", self.err)

    def test_compressed_numbers_and_tables(self):
        numbers = b"".join(struct.pack("<Q", n) for n in range(1000))
        self.write("n.u64.gz", gzip.compress(numbers))
        self.assertEqual(
            self.scbf_json("build", "--keys", "u64", "-o", "n.scbf", "n.u64.gz")["capacity"], 1000)
        self.write("t.tsv.gz", gzip.compress(b"a\tb\n1\tword-5\n"))
        self.assertEqual(self.scbf("query", "f.scbf", "--column", "b", "t.tsv.gz"), b"word-5\n")

    def test_a_parenthesis_is_not_waited_for(self):
        # Its byte begins zstd's mark.
        self.scbf("insert", "f.scbf", stdin=b"(\n")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"(\n"), b"(\n")
        self.assertEqual(self.scbf("query", "f.scbf", stdin=b"("), b"(\n")

    def test_filters(self):
        self.build("g.scbf", words(1))
        for verb in ("query", "count", "insert", "remove"):
            self.scbf(verb, "f.scbf", "g.scbf", code=INPUT_OUTPUT)
            self.assertIn("a filter, where a file of keys is expected", self.err)
        for options in ([], ["--keys", "u64"], ["-0"]):
            self.scbf("build", "-o", "h.scbf", *options, "f.scbf", code=INPUT_OUTPUT)
        self.scbf("build", "--scalable", "-o", "s.scbf", stdin=b"x\n")
        self.scbf("build", "-o", "h.scbf", "s.scbf", code=INPUT_OUTPUT)

    def test_binary_integers_and_utf_16(self):
        self.scbf("gen", "--keys", 1000, "-o", "n.u64")
        self.write("utf16.txt", self.text.decode().encode("utf-16"))
        for name, hint in (("n.u64", "--keys u64"), ("utf16.txt", "iconv")):
            for verb in ("query", "count", "insert", "remove"):
                self.scbf(verb, "f.scbf", name, code=INPUT_OUTPUT)
                self.assertIn(name, self.err)
                self.assertIn(hint, self.err)
            self.scbf("build", "-o", "g.scbf", name, code=INPUT_OUTPUT)
            self.scbf("build", "-o", "g.scbf", "--raw", name)

    def test_carriage_returns(self):
        dos = self.text.replace(b"\n", b"\r\n")
        self.write("dos.txt", dos)
        self.assertEqual(self.scbf("query", "f.scbf", "dos.txt", code=NOTHING_FOUND), b"")
        self.assertIn("--chomp-cr", self.err)
        self.assertEqual(self.err.count("--chomp-cr"), 1)
        self.assertEqual(self.scbf("query", "f.scbf", "--chomp-cr", "dos.txt"), self.text)
        self.assertEqual(self.err, "")
        self.assertEqual(
            self.scbf_json("build", "-o", "g.scbf", "--chomp-cr", "dos.txt")["capacity"], 1000)
        self.assertEqual(self.read("g.scbf")[4096:],
                         self.read(self.build("h.scbf", words(1000)))[4096:])
        self.assertEqual(self.found("--chomp-cr", stdin=b"word-1\r\r\nword-2\r"), 1)
        self.scbf("remove", "f.scbf", "--chomp-cr", "dos.txt")
        self.assertEqual(self.scbf_json("info", "f.scbf")["fill"], 0)

    def test_a_byte_order_mark(self):
        self.write("mark.txt", b"\xef\xbb\xbf" + self.text)
        self.assertEqual(self.found("mark.txt"), 1000)
        self.assertIn("byte order mark", self.err)
        self.assertEqual(self.found("mark.txt", "--raw"), 999)
        self.assertEqual(self.scbf_json("build", "-o", "g.scbf", "mark.txt")["capacity"], 1000)
        self.scbf("build", "--chomp-cr", "-o", "h.scbf", "mark.txt")  # which reads twice
        self.assertEqual(self.err.count("byte order mark"), 1)

    def test_keys_that_end_in_zero(self):
        keys = [b"two\nlines", b"one", b"", b"\xff"]
        data = b"\0".join(keys)
        report = self.scbf_json("build", "-0", "--fpr", "1e-6", "--capacity", 9, "-o", "g.scbf",
                                stdin=data)
        self.assertEqual((report["keys"], report["empty_lines"]), (3, 1))
        self.assertEqual(self.scbf("query", "g.scbf", "--null", stdin=data),
                         b"two\nlines\0one\0\xff\0")
        self.assertEqual(self.scbf("count", "g.scbf", "-0", stdin=b"one\0"), b"one\t1\0")
        self.write("keys", data)
        self.assertEqual(self.scbf_json("build", "-0", "-o", "h.scbf", "keys")["capacity"], 3)


def zstd_frame(data):
    """A frame of one raw block, as RFC 8878 has it."""
    return (b"\x28\xb5\x2f\xfd\x60" + struct.pack("<H", len(data) - 256)
            + (len(data) << 3 | 1).to_bytes(3, "little") + data)


class Decimal(CommandTest):
    def setUp(self):
        super().setUp()
        self.numbers = [0, 7, 10**6, 2**64 - 1]
        self.write_u64("n.u64", self.numbers)
        self.text = b"".join(b"%d\n" % n for n in self.numbers)
        self.scbf("build", "--keys", "u64", "--fpr", "1e-6", "-o", "f.scbf", "n.u64")

    def test_a_query_of_a_query(self):
        out = self.scbf("query", "f.scbf", "n.u64")
        self.assertEqual(out, self.text)
        for options in ([], ["--keys", "u64"], ["--keys", "decimal"]):
            self.assertEqual(self.scbf("query", "f.scbf", *options, stdin=out), self.text)
        self.write("n.txt", out)
        self.assertEqual(self.scbf("query", "f.scbf", "n.txt", "n.u64", "n.txt"), 3 * self.text)
        self.assertEqual(self.scbf("query", "f.scbf", stdin=out.replace(b"\n", b"\r\n")), self.text)
        self.assertEqual(self.scbf("query", "f.scbf", "-0", stdin=out.replace(b"\n", b"\0")),
                         self.text.replace(b"\n", b"\0"))

    def test_the_same_filter(self):
        self.write("n.txt", self.text)
        for options in (["--keys", "decimal"], ["--keys", "u64"]):
            report = self.scbf_json("build", *options, "--fpr", "1e-6", "-o", "g.scbf", "n.txt")
            self.assertEqual((report["capacity"], report["key_kind"]), (4, "u64"))
            self.assertEqual(self.read("g.scbf"), self.read("f.scbf"))

    def test_what_is_no_number(self):
        for bad in (b"12a\n", b"18446744073709551616\n", b"-1\n", b"1 2\n", b"0x10\n"):
            self.scbf("query", "f.scbf", "--keys", "decimal", stdin=bad,
                      code=INPUT_OUTPUT)
            self.assertIn("2^64 - 1", self.err)
        self.write("odd", b"\1\2\3")
        self.scbf("query", "f.scbf", "odd", code=INPUT_OUTPUT)
        self.assertIn("--keys decimal", self.err)
        self.assertEqual(self.scbf("query", "f.scbf", "--keys", "decimal", stdin=b"7"), b"7\n")

    def test_digits_where_bytes_are_expected_are_noted(self):
        self.write("16", b"2024010120240102")
        for options, keys, noted in ((["--keys", "u64"], 1, True), (["--keys", "u64", "--raw"], 2, False),
                                     (["--keys", "decimal"], 1, False)):
            report = self.scbf_json("build", *options, "--capacity", 9, "-o", "g.scbf", "16")
            self.assertEqual((report["keys"], "'16': read as decimal numbers; --raw" in self.err), (keys, noted))
        self.scbf("query", "f.scbf", "--keys", "u64", stdin=b"7\n" * 9)
        self.assertIn("standard input: read as decimal numbers", self.err)
        self.scbf("query", "f.scbf", stdin=b"7\n")  # a query reads what another one printed
        self.assertEqual(self.err, "")

    def test_a_filter_for_no_keys_is_noted(self):
        self.write("none", b"\n\n")
        for options, noted in (([], True), (["--capacity", 9], False), (["--scalable"], False),
                               (["--memory", "1MB"], False)):
            self.scbf("build", *options, "-o", "g.scbf", "--force", "none")
            self.assertEqual("planned for one" in self.err, noted, self.err)

    def test_empty_lines_with_carriage_returns_are_skipped(self):
        report = self.scbf_json("build", "--keys", "decimal", "--capacity", 10, "-o", "f.scbf",
                                stdin=b"1\r\n\r\n\n2\r\n")
        self.assertEqual((report["keys"], report["empty_lines"]), (2, 2))

    def test_a_header_or_a_sign_is_no_number_of_eight_bytes(self):
        for text in (b"number\n12\n34567\n", b"-1\n+2345\n", b"a_name_longer_than_a_number\n1234\n",
                     b"1;2\r\n3;4\r\n5;67\r\n"):
            text += b"8\n" * 9
            text = text[:len(text) // 8 * 8]
            self.write("t.txt", text)
            for options in ({"stdin": text}, {"in_file": ["t.txt"]}):
                names = options.pop("in_file", [])
                self.scbf("build", "--keys", "u64", "--capacity", 99, "-o", "g.scbf", *names,
                          code=INPUT_OUTPUT, **options)
                self.assertIn("text, not integers of 8 bytes", self.err)
            self.scbf("build", "--keys", "u64", "--raw", "-o", "g.scbf", "t.txt")

    def test_eight_digits_are_a_number_in_text_unless_raw(self):
        self.scbf("build", "--keys", "u64", "--capacity", 9, "-o", "g.scbf", stdin=b"12345678")
        self.assertEqual(self.scbf("query", "g.scbf", stdin=b"12345678\n"), b"12345678\n")
        self.scbf("query", "g.scbf", "--raw", stdin=b"12345678", code=NOTHING_FOUND)
        self.scbf("build", "--keys", "u64", "--raw", "--capacity", 9, "-o", "g.scbf",
                  stdin=b"12345678")
        self.assertEqual(self.scbf("query", "g.scbf", "--raw", stdin=b"12345678"),
                         b"%d\n" % int.from_bytes(b"12345678", "little"))
