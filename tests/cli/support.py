# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the command: running it in a temporary folder, and reading files."""

import contextlib
import hashlib
import json
import os
import re
import select
import shutil
import struct
import subprocess
import tempfile
import unittest

COMMAND = os.environ.get("SCBF_COMMAND", "scbf")

OK, NOTHING_FOUND, USAGE, INPUT_OUTPUT, CORRUPT, REPORT_LOST = range(6)


class CommandTest(unittest.TestCase):
    """Each test has an empty folder, which is the working directory of the command."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="scbf-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        if isinstance(content, str):
            content = content.encode()
        with open(self.path(name), "wb") as file:
            file.write(content)
        return name

    def write_u64(self, name, numbers):
        return self.write(name, b"".join(struct.pack("<Q", n) for n in numbers))

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def digest(self, name):
        return hashlib.sha256(self.read(name)).hexdigest()

    def files(self):
        return sorted(os.listdir(self.folder))

    def start(self, *arguments, **options):
        environment = {k: v for k, v in os.environ.items() if k != "SCBF_BACKEND"}
        environment.update(options.pop("env", {}))
        process = subprocess.Popen(
            [COMMAND, *map(str, arguments)], cwd=self.folder, env=environment, **options
        )
        self.addCleanup(self.stop, process)
        return process

    def run_raw(self, *arguments, stdin=b"", **options):
        """Runs the command; returns the finished process, with .out and .err as bytes."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = self.start(*arguments, stdin=subprocess.PIPE, **options)
        process.out, process.err = process.communicate(stdin, timeout=100)
        return process

    @staticmethod
    def stop(process):
        """Ends a process that a failed test has left behind."""
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream and not stream.closed:
                with contextlib.suppress(OSError):
                    stream.close()
        if process.poll() is None:
            process.kill()
            process.wait()

    def scbf(self, *arguments, stdin=b"", code=OK, **options):
        """Runs the command, which must exit with `code`; returns standard output as bytes.

        A failure must print an error and nothing on standard output."""
        process = self.run_raw(*arguments, stdin=stdin, **options)
        self.assertEqual(
            process.returncode, code, f"{arguments}: {process.err.decode(errors='replace')}"
        )
        self.err = process.err.decode()
        if code in (USAGE, INPUT_OUTPUT, CORRUPT):
            self.assertTrue(self.err.startswith("scbf: "), self.err)
            self.assertEqual(process.out or b"", b"")
        return process.out

    def refused(self, *arguments, mentions=(), code=USAGE, **options):
        """Runs the command, which must fail with one line that mentions all of these."""
        self.scbf(*arguments, code=code, **options)
        for text in mentions:
            self.assertIn(text, self.err)
        self.assertEqual(self.err.count("\n"), 1, "one line")

    def assertSingulars(self, *arguments, code=OK, **options):
        """Runs the command, which must not speak of "1 keys" anywhere."""
        text = self.scbf(*arguments, code=code, **options).decode() + self.err
        self.assertEqual(re.findall(r"(?<![\d.,])(?<!--max-absent )1 (?!is\b|has\b|was\b)[a-z]+s\b.*", text), [], arguments)

    def scbf_json(self, *arguments, **options):
        return json.loads(self.scbf(*arguments, "--json", **options))

    def next_line(self, process):
        """The next line of standard output, within 30 s. No other line may be waiting."""
        self.assertTrue(select.select([process.stdout], [], [], 30)[0], "no answer")
        return process.stdout.readline()

    def build(self, name, keys, *options):
        """Builds a filter of these keys, which are bytes."""
        self.scbf("build", "--capacity", max(1, len(keys)), "-o", name, *options,
                  stdin=lines(keys))
        return name


def words(count, prefix="word"):
    return [f"{prefix}-{i}".encode() for i in range(count)]


def lines(keys):
    return b"".join(key + b"\n" for key in keys)
