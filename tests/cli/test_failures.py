# SPDX-License-Identifier: Apache-2.0
"""Failures print a message, exit with the right code and change nothing."""

import gzip
import json
import os
import resource
import subprocess
import time
import unittest

from support import (COMMAND, CORRUPT, INPUT_OUTPUT, OK, REPORT_LOST, USAGE, CommandTest, lines,
                     words)


class OneAtATime(CommandTest):
    """Commands that change one file wait for each other, so that none undoes what another did."""

    def start_to_change(self, *arguments):
        return self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)

    def test_the_second_waits_and_both_count(self):
        self.build("f.scbf", words(100))
        for second in (["insert", "f.scbf"], ["insert", "f.scbf", "-o", "./f.scbf"],
                       ["remove", "f.scbf"]):
            with self.subTest(second=second):
                first = self.start_to_change("insert", "f.scbf")
                first.stdin.write(lines(words(10, "first")))
                first.stdin.flush()
                time.sleep(0.5)  # it has the file, and waits for more keys
                other = self.start_to_change(*second)
                self.assertRegex(other.stderr.readline(),
                                 b"^scbf: '.*f.scbf': waiting for another command that changes it")
                other.stdin.write(lines(words(10, "first" if second[0] == "remove" else "other")))
                other.stdin.close()
                with self.assertRaises(subprocess.TimeoutExpired):
                    other.wait(0.2)
                first.stdin.close()
                self.assertEqual((first.wait(60), other.wait(60)), (OK, OK))
        self.scbf("query", "f.scbf", stdin=lines(words(10, "first") + words(10, "other")))
        self.assertEqual(self.scbf_json("info", "f.scbf")["keys_inserted"], 150)

    def test_a_short_wait_is_not_told(self):
        self.build("f.scbf", words(100))
        first = self.start_to_change("insert", "f.scbf")
        first.stdin.write(b"x\n")
        first.stdin.flush()
        time.sleep(0.5)  # it has the file
        other = self.start_to_change("insert", "f.scbf")
        time.sleep(0.3)
        first.stdin.close()
        out, err = other.communicate(b"y\n", 60)
        self.assertEqual((first.wait(60), other.returncode, err), (OK, OK, b""), out)
        self.assertEqual(self.scbf_json("info", "f.scbf")["keys_inserted"], 102)

    def test_nobody_waits_for_another_file(self):
        self.build("f.scbf", words(100))
        first = self.start_to_change("insert", "f.scbf")
        time.sleep(0.5)
        self.scbf("insert", "f.scbf", "-o", "g.scbf", stdin=b"x\n")
        self.scbf("query", "f.scbf", stdin=lines(words(1)))
        first.stdin.close()
        self.assertEqual(first.wait(60), OK)


class Usage(CommandTest):
    def test_verbs(self):
        self.refused()
        self.refused("bild", mentions=["bild", "'build'"])
        self.refused("qurey", mentions=["'query'"])
        self.refused("xyzzy", mentions=["--help"])
        self.refused("--no-such-option")

    def test_missing_and_unknown_options(self):
        self.refused("build", "--capacity", 5, mentions=["output", "build --help"])
        self.refused("build", "-o", "f.scbf", "--nonsense", mentions=["nonsense"])
        self.refused("query")
        self.refused("merge", "one.scbf")
        self.refused("gen")
        self.refused("plan", mentions=["capacity"])
        self.refused("plan", "--capacity", 10)

    def test_help_for_a_verb(self):
        for verb in (["build"], ["index", "create"], []):
            self.assertEqual(self.scbf("help", *verb), self.scbf(*verb, "--help"))
        self.refused("help", "bild", mentions=["'build'"])

    def test_the_nearest_option_is_suggested(self):
        self.refused("build", "--capcity", 5, "-o", "f", mentions=["--capacity?"])
        self.refused("query", "f", "--invrt", mentions=["--invert?"])
        self.refused("index", "create", "i", "--key", "k", "--colums=a", mentions=["--columns?"])
        self.refused("query", "f", "--xyzzy")
        self.assertNotIn("mean", self.err)

    def test_a_name_that_looks_like_an_option(self):
        self.write("-hash.scbf", self.read(self.build("w.scbf", words(5))))
        self.write("-h.txt", lines(words(2)))
        for arguments in (["verify", "w.scbf", "-hash.scbf"], ["remove", "w.scbf", "-h.txt"],
                          ["query", "-hash.scbf"], ["index", "load", "i", "-h.txt"],
                          ["build", "-0h.txt", "-o", "x"], ["bank", "-o", "x", "-help"]):
            name = next(a for a in arguments if a.startswith("-") and len(a) > 2)
            self.refused(*arguments, mentions=[f"'{name}': this looks like an option",
                                               f"put -- before it, or write './{name}' if it is a file"])
        self.scbf("verify", "w.scbf", "./-hash.scbf")
        self.scbf("verify", "w.scbf", "--", "-hash.scbf")
        self.scbf("remove", "w.scbf", "-o", "-x.scbf", "--", "-h.txt")  # the value of an option
        self.scbf("verify", "./-x.scbf")
        self.assertEqual(self.scbf("remove", "w.scbf", "-o-", "--", "-h.txt"), self.read("-x.scbf"))
        self.scbf("query", "-0", "w.scbf", stdin=b"word-1\0")
        self.scbf("build", "-0oy.scbf", "--capacity", 5, stdin=b"a\0")
        self.scbf("query", "w.scbf", "-7", code=INPUT_OUTPUT)
        self.scbf("query", "w.scbf", "-7.txt", code=INPUT_OUTPUT)
        self.assertIn("'-7.txt': cannot", self.err)
        self.assertEqual(self.scbf("verify", "-h"), self.scbf("verify", "--help"))

    def test_an_option_where_a_verb_must_stand(self):
        for word, mentions in (("-V", "'-V': no such option; did you mean --version?"),
                               ("--verson", "'--verson': no such option; did you mean --version?"),
                               ("--xyzzy=1", "'--xyzzy=1': no such option; 'scbf --help' tells more"),
                               ("-x", "'-x': no such option; 'scbf --help' tells more")):
            self.refused(word, mentions=[mentions])
            self.refused(word, "f.scbf", mentions=[mentions])
        self.refused("--json", "info", "f", mentions=["'--json': options come after the verb: scbf info … --json"])
        self.refused("--fpr", "1%", "build", "f", mentions=["options come after the verb: scbf build … --fpr"])
        self.refused("index", "--json", "stats", "i", mentions=["after the verb: scbf index stats … --json"])
        self.refused("-ox", "build", mentions=["'-ox': options come after the verb: scbf build … -ox"])
        self.refused("--json", "index", "create", "i", mentions=["after the verb: scbf index create … --json"])
        # Only an option that the verb has.
        for words in (["--jso", "index", "create"], ["--fpr", "query"], ["--jso", "info", "f"]):
            self.refused(*words, mentions=[f"'{words[0]}': no such option; 'scbf --help' tells more"])
        self.refused("--", "query", "f")
        self.assertNotIn("after the verb", self.err)
        self.refused("--version", "-foo.txt", mentions=["scbf: '-foo.txt': this looks like an option"])
        self.refused("index", "--hepl", mentions=["'--hepl': no such option; did you mean --help?; 'scbf index --help'"])
        self.refused("query", "f.scbf", "-i", mentions=["did you mean --invert?"])
        self.refused("query", "f.scbf", "-c")  # --count, --column, --chomp-cr
        self.assertNotIn("mean", self.err)
        self.scbf("--version")
        self.scbf("-h")

    def test_help_tells_what_lists_and_capacities_are(self):
        def text_of(verb):
            return " ".join(self.scbf(verb, "--help").decode().split())
        for verb in ("insert", "remove"):
            self.assertIn("one a line: a new file, unless --force is given", text_of(verb))
            self.assertIn("replace OUT even if it is no filter, and LIST if it exists", text_of(verb))
        self.assertNotIn("LIST", text_of("build"))
        self.assertIn("--capacity is that of the first one, default 100,000", text_of("build"))

    def test_true_limits(self):
        self.refused("plan", "--capacity", 100, "--groups", 9, mentions=["'9'", "from 1 to 8\n"])
        for value in ("1e19", "18446744073709551615", "0"):
            self.refused("plan", "--capacity", value, "--fpr", "1%", mentions=["from 1 to 2^63 - 1"])

    @unittest.skipIf(os.environ.get("SCBF_SANITIZE"), "sanitizers reserve more address space")
    def test_too_little_memory(self):
        limit = (8 << 30, 8 << 30)
        self.scbf("build", "--capacity", "1e11", "-o", "f.scbf", stdin=b"x", code=INPUT_OUTPUT,
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        self.assertIn("GiB of counters", self.err)
        self.scbf("build", "--capacity", "1e8", "--compress", "-o", "large.scbf", stdin=b"x")
        limit = (500 << 20, 500 << 20)
        for verb in ("insert", "remove"):
            self.scbf(verb, "large.scbf", stdin=b"x", code=INPUT_OUTPUT,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
            self.assertIn("'large.scbf': its counters take 545.0 MiB, and ", self.err)
            self.scbf(verb, "-", "large.scbf", "--raw", "-o", "x", stdin=self.read("large.scbf"), code=INPUT_OUTPUT,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
            self.assertIn("standard input: its counters take 545.0 MiB, and ", self.err)

    @unittest.skipIf(os.environ.get("SCBF_SANITIZE"), "sanitizers reserve more address space")
    def test_a_removal_with_little_memory_to_spare(self):
        self.scbf("gen", "--keys", 1_000_000, "-o", "in.u64")
        self.scbf("build", "--keys", "u64", "-o", "f.scbf", "--capacity", 5_000_000, "in.u64")
        self.scbf("remove", "f.scbf", "-o", "want.scbf", "in.u64")
        worked = 0
        for mebibytes in range(160, 20, -4):  # the program and the filter take 50, or 70 with CUDA
            limit = (mebibytes << 20,) * 2
            process = self.run_raw("remove", "f.scbf", "--threads", "1", "-o", "less.scbf", "in.u64",
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
            if process.returncode != OK:
                break
            self.assertEqual(self.digest("less.scbf"), self.digest("want.scbf"))
            os.remove(self.path("less.scbf"))
            worked += 1
        self.assertGreater(worked, 5)
        self.assertEqual(process.returncode, INPUT_OUTPUT)
        self.assertIn(b"27.3 MiB", process.err)
        self.assertFalse(os.path.exists(self.path("less.scbf")))

    def test_bad_values_name_value_and_limit(self):
        build = ["build", "-o", "f.scbf"]
        for value in ("0", "-5", "x", "1.5", "1e30", "10Q", "nan", "inf", "0x10", "1 000"):
            self.refused(*build, f"--capacity={value}", mentions=[f"'{value}'"])
        self.refused(*build, "--capacity=")
        for value in ("0", "1", "2", "-0.1", "nan", "inf", "100%", "0%", "x"):
            self.refused(*build, f"--fpr={value}", mentions=[f"'{value}'", "below 1"])
        for value in ("0", "2", "-0.1", "nan", "inf", "101%", "0%", "x"):
            self.refused(*build, f"--max-fpr={value}", mentions=[f"'{value}'", "up to 1"])
        self.refused("plan", "--fpr", "1%", "--fpr", "2%", mentions=["plan: --fpr may be given once;"])
        self.refused("plan", "--fpr", "1%", mentions=["of --capacity, --fpr and --memory, got only --fpr"])
        self.refused(*build, "--memory", "12parsecs", mentions=["12parsecs"])
        self.refused(*build, "--memory", "18446744073709551615T")
        self.refused(*build, "--layout", "round", mentions=["round"])
        self.refused(*build, "--keys", "words", mentions=["words", "lines", "u64"])
        self.refused(*build, "--threads", "5000", mentions=["4,096"])
        self.refused(*build, "--seed", "18446744073709551616", mentions=["2^64"])
        self.refused(*build, "--progress", "maybe", mentions=["'maybe': must be auto, always or never"])
        self.refused(*build, "--groups", "9", "--capacity", 5, mentions=["9", "8"])
        self.refused(*build, "--probes", "65", mentions=["65", "64"])
        self.refused("gen", "--keys", 1, "--kind", "odd", "-o", "k", mentions=["odd", "zipf"])
        self.refused("bench", "--operations", "insert,,hit")
        self.refused("bench", "--sizes", "10", mentions=["1,000"])
        self.refused("paper", "--trials", "-1")
        self.assertEqual(self.files(), [])

    def test_backends(self):
        self.build("f.scbf", words(3))
        self.refused("query", "f.scbf", "--backend", "abacus", mentions=["abacus", "scalar"])
        self.scbf("query", "f.scbf", env={"SCBF_BACKEND": "abacus"}, code=USAGE)
        self.assertIn("SCBF_BACKEND", self.err)
        self.assertIn(b"scalar", self.scbf("backends", env={"SCBF_BACKEND": "abacus"}))
        self.refused("query", "f.scbf", "--device", "1000", mentions=["cuda:1000"])
        self.refused("query", "f.scbf", "--device", "-1", mentions=["--device", "-1"])
        for options in (["--device", "1", "--backend", "simd"],
                        ["--backend", "simd", "--device", "1"]):
            self.refused("query", "f.scbf", *options, mentions=["--device 1", "simd"])
        absent = [b for b in self.scbf_json("backends") if not b["available"]]
        for backend in absent:
            self.refused("query", "f.scbf", "--backend", backend["name"],
                         mentions=[backend["name"], backend["reason"]])
            self.assertIn("not available: " + backend["reason"], self.scbf("backends").decode())

    def test_a_plan_that_cannot_be_met(self):
        self.refused("plan", "--capacity", "1e9", "--fpr", "0.1%", "--memory", "1MiB")
        self.refused("plan", "--capacity", 100, "--fpr", "1%", "--layout", "split", "--groups", 2)


class Files(CommandTest):
    def setUp(self):
        super().setUp()
        self.build("f.scbf", words(1000))
        self.before = self.digest("f.scbf")

    def tearDown(self):
        self.assertEqual(self.digest("f.scbf"), self.before)
        self.assertEqual([n for n in self.files() if n.endswith(".tmp")], [])

    def test_missing_input(self):
        for verb in ("query", "count", "insert", "remove"):
            self.scbf(verb, "f.scbf", "missing.txt", code=INPUT_OUTPUT)
            self.assertIn("missing.txt", self.err)
        self.scbf("build", "-o", "g.scbf", "missing.txt", code=INPUT_OUTPUT)
        self.write("there.txt", "a\n")
        self.scbf("build", "-o", "g.scbf", "there.txt", "missing.txt", code=INPUT_OUTPUT)
        self.assertEqual(self.files(), ["f.scbf", "there.txt"])

    def test_a_folder_as_input(self):
        os.mkdir(self.path("folder"))
        self.scbf("query", "f.scbf", "folder", code=INPUT_OUTPUT)
        self.scbf("query", "folder", code=INPUT_OUTPUT)
        self.scbf("build", "--capacity", 5, "-o", "folder", stdin=b"x", code=INPUT_OUTPUT)

    def test_missing_filter(self):
        for verb in ("query", "count", "insert", "remove", "info", "verify"):
            self.scbf(verb, "missing.scbf", code=INPUT_OUTPUT)
            self.assertIn("missing.scbf", self.err)
        self.scbf("merge", "f.scbf", "missing.scbf", code=INPUT_OUTPUT)
        self.scbf("subtract", "missing.scbf", "f.scbf", code=INPUT_OUTPUT)

    def test_input_that_fails_late_changes_nothing(self):
        self.scbf("build", "--keys", "u64", "--capacity", 9, "-o", "n.scbf", stdin=b"12345678")
        numbers = self.digest("n.scbf")
        self.scbf("insert", "n.scbf", stdin=b"x" * 8001, code=INPUT_OUTPUT)
        self.assertEqual(self.digest("n.scbf"), numbers)

    def test_unwritable_places(self):
        self.scbf("build", "--capacity", 5, "-o", "no/such/f.scbf", stdin=b"x", code=INPUT_OUTPUT)
        self.assertIn("no/such", self.err)
        self.scbf("insert", "f.scbf", "-o", "/dev/full", stdin=b"x", code=INPUT_OUTPUT)
        self.assertIn("/dev/full", self.err)
        self.scbf("build", "--capacity", 5, "-o", "/dev/full", stdin=b"x", code=INPUT_OUTPUT)
        self.refused("build", "--capacity", 5, "-o", "", stdin=b"x", mentions=["-o ''", "must name a file"])
        self.scbf("gen", "--keys", 10, "-o", "/dev/full", code=INPUT_OUTPUT)

    def test_a_folder_without_write_permission(self):
        os.mkdir(self.path("theirs"))
        self.write("theirs/old.scbf", b"")
        os.chmod(self.path("theirs/old.scbf"), 0o666)
        os.chmod(self.path("theirs"), 0o555)
        os.chmod(self.folder, 0o755)
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        for path in ("theirs/new.scbf", "theirs/old.scbf"):
            try:
                # Before the first key is read, which never comes.
                process = self.start("build", "--capacity", 5, "-o", path, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, **other)
            except PermissionError as error:
                self.skipTest(f"no other user can run the command: {error}")
            self.addCleanup(self.stop, process)
            self.assertEqual(process.wait(30), INPUT_OUTPUT)
            self.assertEqual(process.stderr.read().decode(),
                             f"scbf: '{path}': cannot write into 'theirs': Permission denied\n")

    def test_standard_output_that_is_full(self):
        self.write("w.txt", lines(words(1000)))
        with open("/dev/full", "wb") as full:
            for arguments in (["query", "f.scbf", "w.txt"], ["count", "f.scbf", "w.txt"],
                              ["query", "f.scbf", "w.txt", "--json"], ["info", "f.scbf"],
                              ["gen", "--keys", 100], ["plan", "--capacity", 5, "--fpr", "0.1"],
                              ["--help"], ["backends"], ["verify", "f.scbf"]):
                self.scbf(*arguments, stdout=full, code=INPUT_OUTPUT)
                self.assertIn("standard output", self.err)

    def test_a_report_that_cannot_be_written(self):
        # Whoever repeats a command that has failed must not insert or remove twice.
        self.write("new", b"x\ny\n")
        self.build("g.scbf", words(1000))
        self.scbf("project", "g.scbf", "-o", "p.scbf")
        with open("/dev/full", "wb") as full:
            for arguments, written in ((["insert", "g.scbf", "new"], "g.scbf"),
                                       (["remove", "g.scbf", "new"], "g.scbf"),
                                       (["remove", "g.scbf", "new", "--json"], "g.scbf"),
                                       (["merge", "g.scbf", "g.scbf", "-o", "m.scbf"], "m.scbf"),
                                       (["build", "--capacity", 5, "-o", "b.scbf", "new"], "b.scbf"),
                                       (["delta", "p.scbf", "g.scbf", "-o", "1.delta"], "p.scbf")):
                self.scbf(*arguments, stdout=full, code=REPORT_LOST)
                self.assertIn(f"'{written}' is changed already: do not repeat", self.err)
                self.scbf("verify", written)
            # Nothing is done where the result itself goes there.
            self.scbf("remove", "g.scbf", "new", "-o", "-", "--absent", "list", "--max-absent", 100,
                      stdout=full, code=INPUT_OUTPUT)
            self.scbf("delta", "p.scbf", "g.scbf", "-o", "-", stdout=full, code=INPUT_OUTPUT)
        self.assertEqual(self.scbf("count", "m.scbf", "new"), b"x\t0\ny\t0\n")

    def test_standard_output_that_is_closed(self):
        # A file that the command opens must not get the descriptor of the closed stream.
        for command, code in (("info f.scbf", INPUT_OUTPUT), ("query f.scbf", INPUT_OUTPUT),
                              ("insert f.scbf -o g.scbf", REPORT_LOST)):
            result = subprocess.run(
                ["sh", "-c", f'echo word-1 | "$0" {command} >&-', COMMAND], cwd=self.folder,
                stderr=subprocess.PIPE, timeout=100)
            self.assertEqual(result.returncode, code, command)
        self.scbf("verify", "g.scbf")

    def test_standard_error_that_is_closed(self):
        # Messages must not end up in a file that got the descriptor.
        subprocess.run(
            ["sh", "-c", '"$0" gen --keys 100 -o k.u64 --progress always 2>&-', COMMAND],
            cwd=self.folder, check=True, timeout=100)
        self.assertEqual(self.read("k.u64"), self.scbf("gen", "--keys", 100))
        with open("/dev/full", "wb") as full:
            for code, arguments in ((OK, ["gen", "--keys", 5, "-o", "k", "--progress", "always"]),
                                    (USAGE, ["gen", "--keys", "x"])):
                process = self.run_raw(*arguments, stderr=full)
                self.assertEqual(process.returncode, code)

    def test_a_reader_that_leaves(self):
        self.write("w.txt", lines(words(1000)) * 500)
        for arguments in (["query", "f.scbf", "w.txt"], ["count", "f.scbf", "w.txt"],
                          ["gen", "--keys", "1e6"]):
            process = self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(len(process.stdout.read(10)), 10)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), OK)


class Damage(CommandTest):
    def setUp(self):
        super().setUp()
        self.build("f.scbf", words(1000))
        self.good = self.read("f.scbf")

    def all_refuse(self, name, verbs):
        before = self.digest(name)
        for verb in verbs:
            self.scbf(verb, name, stdin=b"word-1\n", code=CORRUPT)
            self.assertIn(name, self.err)
        self.scbf("merge", "f.scbf", name, code=CORRUPT)
        self.scbf("merge", name, "f.scbf", code=CORRUPT)
        self.assertEqual(self.digest(name), before)
        self.assertEqual(self.read("f.scbf"), self.good)

    EVERY = ("verify", "info", "query", "count", "insert", "remove")

    def test_a_compressed_filter(self):
        self.write("f.scbf.gz", gzip.compress(self.good))
        said = "compressed by gzip; filters are not decompressed: "
        self.write("k", b"word-1\n")
        for arguments in (["query", "f.scbf.gz", "k"], ["count", "f.scbf.gz", "k"], ["info", "f.scbf.gz"],
                          ["info", "f.scbf.gz", "--header"], ["insert", "f.scbf.gz", "k"],
                          ["verify", "f.scbf.gz"], ["find", "f.scbf.gz", "k"], ["merge", "f.scbf", "f.scbf.gz"],
                          ["apply", "f.scbf.gz", "f.scbf"], ["project", "f.scbf.gz", "-o", "x"]):
            self.refused(*arguments, code=CORRUPT,
                         mentions=["'f.scbf.gz': " + said + "give - instead, with standard input from gzip -dc 'f.scbf.gz'"])
        for arguments in (["query", "-", "k"], ["info", "-"], ["find", "-", "k"]):
            self.refused(*arguments, stdin=self.read("f.scbf.gz"), code=CORRUPT,
                         mentions=["standard input: " + said + "pipe it through gzip -dc"])
        self.refused("query", "k", "k", code=CORRUPT, mentions=["'k': not a filter file"])
        # (zstd's four bytes are enough to know it by.)
        self.write("f.scbf.zst", b"\x28\xb5\x2f\xfd" + bytes(100))
        self.refused("query", "f.scbf.zst", "k", code=CORRUPT, mentions=["compressed by zstd"])

    def test_not_a_filter(self):
        self.write("text.scbf", "no filter at all\n" * 1000)
        self.all_refuse("text.scbf", self.EVERY)
        self.write("empty.scbf", "")
        self.all_refuse("empty.scbf", self.EVERY)

    def test_truncated(self):
        for length in (1, 100, 4095, 4096, 5000, len(self.good) - 1):
            self.write("short.scbf", self.good[:length])
            self.all_refuse("short.scbf", self.EVERY)

    def test_too_long(self):
        self.write("long.scbf", self.good + b"x")
        self.all_refuse("long.scbf", self.EVERY)

    def test_damaged_header(self):
        self.write("header.scbf", self.good[:40] + bytes([self.good[40] ^ 1]) + self.good[41:])
        self.all_refuse("header.scbf", self.EVERY)

    def test_damaged_counters(self):
        at = len(self.good) - 77
        self.write("bad.scbf", self.good[:at] + bytes([self.good[at] ^ 16]) + self.good[at + 1:])
        self.all_refuse("bad.scbf", self.EVERY)
        for verb in ("query", "count"):  # of a file that is mapped, only the header is verified
            self.scbf(verb, "bad.scbf", "--map", stdin=b"word-1\n")
        self.refused("query", "bad.scbf", "--map", "--load", code=USAGE,
                     mentions=["--load, --map: only one of them"])
        self.scbf("build", "--capacity", 12_000_000, "-o", "large.scbf", stdin=b"a\n")  # 68 MB: is mapped
        with open(self.path("large.scbf"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x80")
        self.assertEqual(self.scbf("query", "large.scbf", stdin=b"a\n"), b"a\n")
        self.refused("query", "large.scbf", "--load", stdin=b"a\n", code=CORRUPT, mentions=["checksum"])

    def test_verify_goes_on_after_a_damaged_one(self):
        self.write("bad.scbf", self.good[:-1] + bytes([self.good[-1] ^ 128]))
        process = self.run_raw("verify", "bad.scbf", "missing.scbf", "f.scbf")
        self.assertEqual(process.returncode, CORRUPT)
        for name in (b"bad.scbf", b"missing.scbf"):
            self.assertIn(name, process.err)
        self.assertTrue(process.out.startswith(b"f.scbf: ok"), process.out)
        process = self.run_raw("verify", "--json", "missing.scbf", "f.scbf", "bad.scbf")
        self.assertEqual(process.returncode, CORRUPT)
        self.assertEqual([r["ok"] for r in json.loads(process.out)], [False, True, False])
        process = self.run_raw("verify", "--json", "bad.scbf")
        self.assertEqual((process.returncode, json.loads(process.out)[0]["ok"]), (CORRUPT, False))
        self.assertEqual(self.run_raw("verify", "f.scbf", "missing.scbf").returncode, INPUT_OUTPUT)
        self.scbf("verify", "bad.scbf", code=CORRUPT)
        self.assertIn("bad.scbf", self.err)
