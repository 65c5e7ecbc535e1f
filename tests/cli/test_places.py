# SPDX-License-Identifier: Apache-2.0
"""Where keys and filters come from and go to: every verb with every kind of file."""

import os
import resource
import signal
import socket
import subprocess
import threading
import time
import unittest

from support import CORRUPT, INPUT_OUTPUT, OK, USAGE, CommandTest, lines, words


class Places(CommandTest):
    """Each case is run in every place, and must end: with the right answer, or with an error."""

    # verb: arguments, where {} is the place and f.scbf, g.scbf and keys are there.
    FILTERS_READ = {
        "query": ["query", "{}", "keys"],
        "count": ["count", "{}", "keys"],
        "info": ["info", "{}"],
        "info --header": ["info", "{}", "--header"],
        "verify": ["verify", "{}"],
        "insert": ["insert", "{}", "keys", "-o", "-"],
        "remove": ["remove", "{}", "keys", "-o", "-"],
        "merge": ["merge", "{}", "g.scbf", "-o", "-"],
        "merge OTHER": ["merge", "g.scbf", "{}", "-o", "-"],
        "subtract": ["subtract", "{}", "h.scbf", "-o", "-"],
    }
    KEYS_READ = {
        "build": ["build", "--capacity", "100", "-o", "-", "{}"],
        "query": ["query", "f.scbf", "{}"],
        "count": ["count", "f.scbf", "{}"],
        "insert": ["insert", "f.scbf", "{}", "-o", "-"],
        "remove": ["remove", "f.scbf", "{}", "-o", "-"],
    }
    WRITTEN = {
        "build": ["build", "--capacity", "100", "keys", "-o", "{}"],
        "insert": ["insert", "f.scbf", "keys", "-o", "{}"],
        "remove": ["remove", "f.scbf", "keys", "-o", "{}"],
        "merge": ["merge", "f.scbf", "g.scbf", "-o", "{}"],
        "subtract": ["subtract", "f.scbf", "h.scbf", "-o", "{}"],
        "gen": ["gen", "--keys", "1000", "-o", "{}"],
        "remove --absent": ["remove", "f.scbf", "mixed", "-o", "x.scbf", "--absent", "{}"],
        "insert --new": ["insert", "f.scbf", "mixed", "-o", "x.scbf", "--new", "{}"],
    }
    CHANGED = {
        "insert": ["insert", "{}", "keys"],
        "remove": ["remove", "{}", "keys"],
        "merge": ["merge", "{}", "g.scbf"],
        "subtract": ["subtract", "{}", "h.scbf"],
    }

    def setUp(self):
        super().setUp()
        self.write("keys", lines(words(50)))
        self.write("mixed", lines(words(50) + words(5, "absent")))
        self.write("two_stages", lines(words(20_000)))
        self.scbf("build", "--scalable", "--capacity", 100, "-o", "f.scbf", "two_stages")
        self.scbf("build", "--scalable", "--capacity", 100, "-o", "g.scbf", stdin=b"g\n")
        self.scbf("merge", "f.scbf", "g.scbf")
        self.scbf("build", "--scalable", "--capacity", 100, "-o", "h.scbf", stdin=b"g\n")
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("fifo"))
        self.before = {n: self.digest(n) for n in ("f.scbf", "g.scbf", "h.scbf", "keys")}

    def run_at(self, case, place, **options):
        arguments = [a.replace("{}", place) for a in case]
        process = self.run_raw(*arguments, **options)
        self.assertNotIn(b"terminate", process.err)
        return process

    def tearDown(self):
        for name, digest in self.before.items():
            self.assertEqual(self.digest(name), digest, name)
        self.assertEqual([n for n in self.files() if n.endswith(".tmp")], [])

    def feed(self, name, data):
        """Writes to a FIFO once, from a thread."""
        def write():
            with open(self.path(name), "wb") as file:
                try:
                    file.write(data)
                except BrokenPipeError:
                    pass
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        return thread

    def test_filters_and_keys_from_pipes(self):
        for cases, source in ((self.FILTERS_READ, "f.scbf"), (self.KEYS_READ, "keys")):
            data = self.read(source)
            for verb, case in cases.items():
                with self.subTest(verb=verb):
                    expected = self.run_at(case, source)
                    self.assertEqual(expected.returncode, OK, expected.err)
                    for place in ("-", "/dev/stdin"):
                        got = self.run_at(case, place, stdin=data)
                        self.assertEqual((got.returncode, self.named(got, place)),
                                         (OK, self.named(expected, source)), got.err)
                    read_end, write_end = os.pipe()
                    feeder = threading.Thread(target=self.pour, args=(write_end, data))
                    feeder.start()
                    place = f"/dev/fd/{read_end}"
                    got = self.run_at(case, place, pass_fds=[read_end])
                    os.close(read_end)
                    feeder.join()
                    self.assertEqual((got.returncode, self.named(got, place)),
                                     (OK, self.named(expected, source)), got.err)
                    feeder = self.feed("fifo", data)
                    got = self.run_at(case, "fifo")
                    feeder.join()
                    self.assertEqual((got.returncode, self.named(got, "fifo")),
                                     (OK, self.named(expected, source)), got.err)

    @staticmethod
    def pour(end, data):
        with os.fdopen(end, "wb") as file:
            file.write(data)

    @staticmethod
    def named(process, place):
        """The output, but for the name of the file."""
        out = process.out
        for name in (place, "/dev/stdin" if place == "-" else place):
            if out.startswith(name.encode() + b":"):
                out = out[len(name) + 1:]
        return b"\n".join(line for line in out.split(b"\n") if not line.startswith(b"file "))

    def test_what_is_no_file(self):
        for cases in (self.FILTERS_READ, self.KEYS_READ, self.WRITTEN, self.CHANGED):
            for verb, case in cases.items():
                for place in ("folder", "missing/x", *([] if cases is self.WRITTEN else ["none"])):
                    with self.subTest(verb=verb, place=place):
                        process = self.run_at(case, place)
                        self.assertEqual(process.returncode, INPUT_OUTPUT)
                        self.assertIn(place.encode(), process.err)
                        self.assertEqual(process.out, b"")

    def test_full_devices(self):
        for verb, case in self.WRITTEN.items():
            with self.subTest(verb=verb):
                process = self.run_at(case, "/dev/full")
                self.assertEqual(process.returncode, INPUT_OUTPUT)
                self.assertIn(b"/dev/full", process.err)

    def test_only_the_result_goes_to_standard_output(self):
        for verb, case in self.WRITTEN.items():
            with self.subTest(verb=verb):
                expected = self.run_at(case, "file.out")
                self.assertEqual(expected.returncode, OK, expected.err)
                for place in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
                    got = self.run_at(case, place)
                    self.assertEqual(got.returncode, OK, got.err)
                    self.assertEqual(got.out, self.read("file.out"))
                    if verb != "gen":
                        self.assertTrue(got.err.startswith(b"scbf: "), "no report")
                with open(self.path("redirected"), "wb") as out:
                    got = self.run_at(case, "/dev/stdout", stdout=out)
                self.assertEqual(self.read("redirected"), self.read("file.out"))
                os.remove(self.path("file.out"))

    def test_a_fifo_is_written(self):
        for verb, case in self.WRITTEN.items():
            with self.subTest(verb=verb):
                self.run_at(case, "file.out")
                got = []
                reader = threading.Thread(target=lambda: got.append(self.read("fifo")), daemon=True)
                reader.start()
                process = self.run_at(case, "fifo")
                self.assertEqual(process.returncode, OK, process.err)
                reader.join(30)
                self.assertEqual(got[0], self.read("file.out"))
                os.remove(self.path("file.out"))

    def test_what_is_changed_must_be_a_file(self):
        data = self.read("f.scbf")
        for verb, case in self.CHANGED.items():
            for place in ("-", "/dev/stdin"):
                with self.subTest(verb=verb, place=place):
                    process = self.run_at(case, place, stdin=data)
                    self.assertEqual(process.returncode, USAGE)
                    self.assertIn(b"-o", process.err)
            process = self.run_at(case, "fifo")
            self.assertEqual(process.returncode, USAGE)

    def test_standard_input_is_not_replaced(self):
        for place in ("-", "/dev/stdin"):
            for verb in (["insert", place, "keys"], ["remove", place, "keys"],
                         ["merge", place, "g.scbf"], ["subtract", place, "g.scbf"]):
                with open(self.path("f.scbf"), "rb") as stdin:  # a regular file, which could be
                    process = self.start(*verb, stdin=stdin, stderr=subprocess.PIPE)
                    self.assertIn(b"standard input cannot be replaced", process.stderr.read())
                self.assertEqual(process.wait(30), USAGE, verb)

    def test_published_bits_are_named(self):
        self.scbf("project", "f.scbf", "-o", "bits.scbf")
        with open(self.path("bits.scbf"), "rb") as stdin:
            process = self.start("delta", "-", "f.scbf", "-o", "1.delta", stdin=stdin,
                                 stderr=subprocess.PIPE)
            self.assertIn(b"must be in a file, named here", process.stderr.read())
        self.assertEqual(process.wait(30), USAGE)

    def test_one_pipe_cannot_be_two_inputs(self):
        for verb in ("query", "count"):
            self.refused(verb, "-", "-", stdin=b"x", mentions=["standard input"])
            self.refused(verb, "-", stdin=b"x")
            self.refused(verb, "/dev/stdin", stdin=b"x")
        self.refused("query", "f.scbf", "-", "-", stdin=b"x")
        with open(self.path("keys"), "rb") as stdin:  # at whose end it would be the second time
            process = self.start("build", "--capacity", 99, "-o", "twice", "-", "-", stdin=stdin,
                                 stderr=subprocess.PIPE)
            self.assertIn(b"standard input is named twice", process.stderr.read())
            self.assertEqual(process.wait(30), USAGE)
        self.refused("merge", "-", "/dev/stdin", "-o", "-", stdin=b"x")

    def test_an_output_that_is_an_input(self):
        os.symlink("keys", self.path("soft"))
        os.link(self.path("keys"), self.path("hard"))
        for name in ("keys", "soft", "hard", "./folder/../keys"):
            self.refused("build", "-o", name, "keys", mentions=[name, "keys"])
            self.refused("build", "-o", name, "--force", "keys")
            for verb in ("insert", "remove"):
                self.refused(verb, "f.scbf", "keys", "-o", name, "--force", mentions=[name])
            self.refused("remove", "f.scbf", "keys", "-o", "x.scbf", "--absent", name, "--force")
            self.refused("insert", "f.scbf", "keys", "-o", "x.scbf", "--new", name, "--force")
            with open(self.path("keys"), "rb") as stdin:
                process = self.start("build", "--capacity", 9, "-o", name, stdin=stdin,
                                     stderr=subprocess.PIPE)
                self.assertEqual(process.wait(30), USAGE)
        self.refused("build", "-o", "keys", "g.scbf", "keys", "--force")
        self.refused("remove", "f.scbf", "keys", "--absent", "f.scbf", "--force")
        self.refused("insert", "f.scbf", "keys", "--new", "f.scbf", "--force")
        for verb in ("merge", "subtract"):
            self.refused(verb, "f.scbf", "h.scbf", "-o", "h.scbf")
            self.refused(verb, "f.scbf", "g.scbf", "h.scbf", "-o", "h.scbf")
        with open(self.path("keys"), "ab") as out:
            for verb in ("query", "count"):
                self.scbf(verb, "f.scbf", "keys", stdout=out, code=USAGE)

    def test_what_is_no_filter_is_not_replaced(self):
        self.write("notes", "dear diary\n")
        for verb, case in self.WRITTEN.items():
            with self.subTest(verb=verb):
                process = self.run_at(case, "notes")
                self.assertEqual(process.returncode, USAGE)
                self.assertIn(b"--force", process.err)
                self.assertEqual(self.read("notes"), b"dear diary\n")
                self.assertEqual(self.run_at([*case, "--force"], "notes").returncode, OK)
                self.assertNotEqual(self.read("notes"), b"dear diary\n")
                self.write("notes", "")
                self.assertEqual(self.run_at(case, "notes").returncode, OK)  # nothing is lost
                self.write("notes", "dear diary\n")
        self.build("old.scbf", words(5))
        self.build("old.scbf", words(6))
        self.refused("gen", "--keys", 5, "-o", "old.scbf", mentions=["old.scbf", "--force"])

    def test_another_kind_of_file_is_not_replaced(self):
        self.scbf("project", "f.scbf", "-o", "bits")
        self.scbf("delta", "bits", "f.scbf", "-o", "first.delta")
        self.write("reader", self.read("bits"))
        self.scbf("merge", "f.scbf", "g.scbf", "-o", "more.scbf")
        self.scbf("delta", "bits", "more.scbf", "-o", "a.delta")
        self.assertEqual(self.scbf_json("info", "a.delta")["kind"], "delta")
        self.scbf("bank", "-o", "a.bank", "keys")
        self.scbf("project", "a.bank", "-o", "bits.bank")
        self.build("a.scbf", words(5))
        self.write("notes", "dear diary\n")
        to_filter = {**{verb: self.WRITTEN[verb] for verb in ("build", "insert", "remove", "merge", "subtract")},
                     "project": ["project", "f.scbf", "-o", "{}"],
                     "apply": ["apply", "reader", "a.delta", "-o", "{}"]}
        to_bank = {"bank": ["bank", "keys", "-o", "{}"],
                   "bank --to": ["bank", "--to", "a.bank", "mixed", "-o", "{}"],
                   "project": ["project", "a.bank", "-o", "{}"]}
        for cases, kept in ((to_filter, ("a.bank", "bits.bank", "a.delta", "notes")),
                            (to_bank, ("a.scbf", "bits", "a.delta", "notes"))):
            what = "filter" if cases is to_filter else "bank"
            for verb, case in cases.items():
                for name in kept:
                    if name in case:
                        continue
                    with self.subTest(verb=verb, name=name):
                        digest = self.digest(name)
                        process = self.run_at(case, name)
                        self.assertEqual(process.returncode, USAGE, process.err)
                        kind = ("no " + what if name == "notes" else
                                "a " + (name.split(".")[-1].replace("scbf", "filter") if "." in name else "filter"))
                        self.assertIn(f"'{name}': it exists and is {kind}; --force replaces it".encode(),
                                      process.err)
                        self.assertEqual(self.digest(name), digest)
                for old in kept:
                    self.write("old", self.read(old))
                    process = self.run_at([*case, "--force"], "old")
                    self.assertEqual(process.returncode, OK, process.err)
                    process = self.run_at(case, "old")  # of its own kind now
                    self.assertEqual(process.returncode, OK, process.err)

    def test_an_option_is_no_name(self):
        for name in ("--force", "--"):
            self.refused("build", "-o", name, "keys", mentions=[f"-o '{name}': this looks like an option", f"'./{name}'"])
        self.scbf("build", "-o", "./--force", "keys")
        self.assertIn("--force", self.files())

    def test_a_file_without_write_permission_stays(self):
        self.build("mine.scbf", words(50))
        os.chmod(self.path("mine.scbf"), 0o444)
        digest = self.digest("mine.scbf")
        for cases in (self.WRITTEN, self.CHANGED):
            for verb, case in cases.items():
                with self.subTest(verb=verb):
                    for more in ([], ["--force"]) if cases is self.WRITTEN else ([],):
                        process = self.run_at([*case, *more], "mine.scbf")
                        self.assertEqual(process.returncode, INPUT_OUTPUT, process.err)
                        self.assertIn(b"'mine.scbf': cannot write: Permission denied", process.err)
                        self.assertEqual(self.digest("mine.scbf"), digest)


class Pipes(CommandTest):
    """Filters from pipes, which are copied if they are read twice."""

    TWICE = (["info", "-"], ["insert", "-", "-o", "-", "keys"], ["remove", "-", "-o", "-", "keys"],
             ["merge", "-", "f.scbf", "-o", "-"], ["bank", "--to", "-", "-o", "-", "keys"],
             ["apply", "-", "d", "-o", "-"], ["project", "-", "-o", "-"])

    def setUp(self):
        super().setUp()
        self.write("keys", lines(words(5)))
        self.build("f.scbf", words(5))
        self.write("d", b"")

    def test_what_is_no_filter_is_refused_by_its_first_bytes(self):
        for arguments in self.TWICE:
            with self.subTest(arguments=arguments):
                process = self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE)
                process.stdin.write(b"no filter")
                process.stdin.flush()  # and the pipe stays open
                self.assertEqual(process.wait(30), CORRUPT)
                self.assertIn(b"standard input: not a filter file", process.stderr.read())
        self.scbf("info", "/dev/zero", code=CORRUPT)
        for short in (b"", self.read("f.scbf")[:7], self.read("f.scbf")[:100]):
            self.scbf("info", "-", stdin=short, code=CORRUPT)

    @unittest.skipIf(os.environ.get("SCBF_SANITIZE"), "sanitizers reserve more address space")
    def test_a_copy_takes_no_more_memory_than_there_is(self):
        limit = (300 << 20, 300 << 20)
        process = self.start("info", "-", bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        process.stdin.write(self.read("f.scbf"))
        with self.assertRaises(BrokenPipeError):
            for _ in range(400):
                process.stdin.write(bytes(1 << 20))
        self.assertEqual(process.wait(30), INPUT_OUTPUT)
        self.assertRegex(process.stderr.read().decode(), "standard input: too large for memory, of "
                                                         "which .* are free: write it to a file")

    def test_bytes_that_follow_a_filter(self):
        for verb in (["info", "-"], ["project", "-", "-o", "-"], ["insert", "-", "-o", "-", "keys"]):
            self.scbf(*verb, stdin=self.read("f.scbf") + b"x", code=CORRUPT)
            self.assertIn("bytes follow its end", self.err)

    def test_a_socket(self):
        self.scbf("bank", "-o", "b.bank", "keys")
        for name in ("f.scbf", "b.bank"):
            for arguments in (["verify", "-"], ["info", "-"], ["info", "-", "--header"]):
                with self.subTest(name=name, arguments=arguments):
                    ours, theirs = socket.socketpair()
                    with ours, theirs:
                        process = self.start(*arguments, stdin=theirs, stdout=subprocess.PIPE)
                        ours.sendall(self.read(name))
                        ours.shutdown(socket.SHUT_WR)
                        out = process.communicate(timeout=30)[0]
                    self.assertEqual(process.returncode, OK)
                    self.assertEqual(out, self.scbf(*arguments, stdin=self.read(name)))

    def test_banks_and_filters_are_projected(self):
        self.scbf("bank", "-o", "b.bank", "keys")
        for name in ("f.scbf", "b.bank"):
            self.scbf("project", name, "-o", "bits", "--force")
            self.assertEqual(self.scbf("project", "-", "-o", "-", stdin=self.read(name)),
                             self.read("bits"))


class Interrupted(CommandTest):
    def test_signals_leave_no_half_files(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("gen", "--keys", "1e12", "-o", "k.u64")
            deadline = time.monotonic() + 30
            while not self.files() and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(len(self.files()), 1)
            process.send_signal(number)
            self.assertEqual(process.wait(30), -number)
            self.assertEqual(self.files(), [])

    def test_an_ignored_signal_stays_ignored(self):
        process = self.start("gen", "--keys", "1e5", "-o", "k.u64", preexec_fn=lambda: signal.signal(
            signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(30), OK)

    def test_a_limit_on_the_size_of_files(self):
        self.write("keys", lines(words(100_000)))
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        for arguments in (["build", "-o", "f.scbf", "keys"], ["gen", "--keys", 10_000, "-o", "k"]):
            self.scbf(*arguments, preexec_fn=limit, code=INPUT_OUTPUT)
            self.assertIn("File too large", self.err)
            self.assertEqual(self.files(), ["keys"])
