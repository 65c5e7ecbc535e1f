# SPDX-License-Identifier: Apache-2.0
"""Commands that are printed can be pasted: every example of every --help, and every shell block of the
documents, runs as it stands, in the order of the page, in a folder with a small data set.

Numbers of keys are made smaller. A block that is not run has `<!-- not run: why -->` in the line before
it; an example of a help that is not run is in NOT_RUN.
"""

import os
import re
import shutil
import subprocess
import unittest

from index_support import BUILT
from support import COMMAND, CommandTest, lines, words

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Example: why it is not run.
NOT_RUN = {
    "scbf bench": "measures for minutes; its options are tested by the other examples",
}
SMALLER = [("--trials 2000", "--trials 2"), ("--keys 1e8", "--keys 1e4"), ("--keys 10M", "--keys 1e4"),
           ("--capacity 1e8 --threads", "--capacity 1e4 --threads"),
           ("--capacity 1e8 --fpr 0.01 -o", "--capacity 1e4 --fpr 0.01 -o"), ("--sizes 1e8", "--sizes 1e4"),
           ("scbf bench --operations", "scbf bench --sizes 1e4 --backends auto --operations"),
           ("scbf bench --calls", "scbf bench --sizes 1e4 --backends auto --calls")]
INDEX_VERBS = ["create", "load", "put", "delete", "get", "query", "stats", "regions", "split", "merge",
               "move", "checkpoint", "check"]


def examples_in(text):
    """The examples at the end of a help, one command each."""
    if "Examples:\n" not in text:
        return []
    block = text.split("Examples:\n")[1]
    block = "\n".join(line for line in block.split("\n") if line.startswith("  "))
    return [re.sub(r"\s+", " ", line).strip() for line in block.replace("\\\n", " ").split("\n")
            if line.strip()]


def shell_blocks(page):
    """(line, reason not to run it or None, language, text) of every block for a shell."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        rows = file.read().split("\n")
    blocks, start, language = [], None, None
    for i, row in enumerate(rows):
        opened = re.match(r"```(sh|bash|shell|console)$", row)
        if start is None and opened:
            start, language = i, opened.group(1)
        elif start is not None and row == "```":
            mark = re.match(r"<!-- not run: (.+) -->$", rows[start - 1])
            blocks.append((start + 1, mark and mark.group(1), language,
                           "\n".join(rows[start + 1:i]) + "\n"))
            start = None
    return blocks


def pages():
    found = ["README.md", "CONTRIBUTING.md", os.path.join("bench", "README.md")]
    found += [os.path.join("docs", name) for name in sorted(os.listdir(os.path.join(ROOT, "docs")))]
    return [page for page in found
            if page.endswith(".md") and os.path.exists(os.path.join(ROOT, page))]


class ExamplesTest(CommandTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(COMMAND, self.path("bin/scbf"))
        # What these would print does not matter here.
        for tool, stand_in in (("jq", "cat > /dev/null"), ("zstd", "cat")):
            if shutil.which(tool) is None:
                self.write(f"bin/{tool}", f"#!/bin/sh\nexec {stand_in}\n")
                os.chmod(self.path(f"bin/{tool}"), 0o755)

    def data(self):
        for number, name in enumerate(("words", "more_words", "new_words", "candidates", "queries")):
            self.write(name + ".txt", lines(words(1000, f"w{number % 3}")))
        self.write("log", lines(words(500)))
        self.write("retired.txt", lines(words(1000, "w0")[:9]))
        self.write("old.txt", lines(words(1000, "w0")[:9]))
        people = b"id,name,town,email\n" + b"".join(
            b"%d,name %d,town-%d,m%d@example.org\n" % (i, i, i % 7, i) for i in range(17, 60))
        self.write("people.csv", people)
        self.sh("tr , '\\t' < people.csv | gzip > more_people.tsv.gz")
        packages = b"package\tmaintainer\tsection\tdepends\n" + b"".join(
            b"%c%03d\tm%d\t%s\tlibc6, x%d\n" % (97 + i % 26, i, i % 9, b"games" if i % 3 else b"shells", i % 5)
            for i in range(200))
        self.write("packages.tsv", packages + b"bash\tm1\tshells\tlibc6\ncoreutils\tm2\tutils\tlibc6\n")
        self.write("wanted.txt", "bash\nb001\n")
        self.write("maintainers.txt", "m1\nm2\n")
        self.write_u64("ids.u64", range(1000))

    def sh(self, command, allowed=(0,)):
        environment = {k: v for k, v in os.environ.items() if k != "SCBF_BACKEND"}
        environment["PATH"] = self.path("bin") + os.pathsep + environment["PATH"]
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder,
                                env=environment, capture_output=True, timeout=100,
                                stdin=subprocess.DEVNULL)
        said = result.stderr.decode(errors="replace")
        self.assertIn(result.returncode, allowed, (command, said))
        return result.stdout

    def smaller(self, command):
        for large, small in SMALLER:
            command = command.replace(large, small)
        return command

    def assertPastes(self, text):
        for bad in ("…", "...", "producer", "$ ", "“", "’"):
            self.assertNotIn(bad, text.replace("'.[].rows'", ""))


class Help(ExamplesTest):
    def run_examples(self, lead, verb, ready):
        examples = examples_in(self.scbf(*lead, verb, "--help").decode())
        self.assertTrue(examples, verb)
        for example in examples:
            self.assertPastes(example)
            self.assertIn("scbf " + " ".join([*lead, verb]), example)
            if example in NOT_RUN:
                continue
            with self.subTest(example=example):
                ready()
                # Some of what is asked for is absent: 1 is an answer. A pager closes a pipe: 141.
                self.sh(self.smaller(example), (0, 1, 141) if "|" in example or verb in (
                    "query", "count", "get", "find") else (0,))

    def filters(self, verb):
        for name in os.listdir(self.folder):
            if name.endswith(".scbf"):
                os.remove(self.path(name))
        self.data()
        self.sh("gzip -kf words.txt; mv words.txt.gz urls.gz; zstd -qf words.txt -o more_urls.zst"
                if shutil.which("zstd") else
                "gzip -kf words.txt; mv words.txt.gz urls.gz; cp words.txt more_urls.zst")
        self.sh("scbf build --capacity 5000 -o words.scbf words.txt")
        for name in ("paths", "huge", "monday", "tuesday", "wednesday", "today"):
            shutil.copy(self.path("words.scbf"), self.path(f"{name}.scbf"))
        self.sh("scbf build --keys u64 -o ids.scbf ids.u64")
        shutil.copy(self.path("ids.scbf"), self.path("more_ids.scbf"))
        self.sh("scbf merge monday.scbf tuesday.scbf wednesday.scbf -o week.scbf; "
                "cp week.scbf all.scbf")
        self.sh("mkdir -p logs; for i in 1 2 3; do gzip -c words.txt > logs/$i.txt.gz;"
                "  cp words.scbf shard-$i.scbf; done; cp candidates.txt addresses.txt; cp logs/1.txt.gz today.txt.gz;"
                "scbf bank -o logs.bank logs/*.txt.gz --force")
        # Three epochs, of which the reader has the first; for 'delta', the last.
        if verb in ("delta", "apply"):
            self.sh("scbf project words.scbf -o published.scbf; for i in 1 2 3; do"
                    "  scbf insert words.scbf new_words.txt;"
                    "  scbf delta published.scbf words.scbf -o $i.delta --force; done; "
                    f"cp {'published.scbf' if verb == 'delta' else '1.delta'} reader.scbf")
        if verb == "delta":
            self.sh("rm -f 1.delta next.delta")
        if verb == "apply":
            self.sh("cp 1.delta paris.bits; cp 2.delta paris-2.delta; scbf bank --filters -o proxies.bank paris.bits --force")
        if verb == "bank":
            self.sh("for i in 1 2; do scbf project words.scbf -o proxy-$i.bits; done; rm -f proxies.bank")
        if verb == "gen":
            os.remove(self.path("ids.u64"))

    def test_verbs(self):
        overview = self.scbf("--help").decode()
        verbs = [verb for verb in re.findall(r"^  ([a-z][a-z-]*) +\S", overview.split("Examples:")[0], re.M)
                 if verb not in ("index", "help", "completion")]
        self.assertGreaterEqual(len(verbs), 14)
        for verb in verbs:
            self.run_examples([], verb, lambda verb=verb: self.filters(verb))

    def test_overview(self):
        self.data()
        examples = examples_in(self.scbf("--help").decode())
        self.assertGreaterEqual(len(examples), 4)
        for example in examples:
            self.assertPastes(example)
            self.sh(example, (0, 1))

    @unittest.skipUnless(BUILT, "the command was built without the secondary index")
    def test_index(self):
        overview = self.scbf("index", "--help").decode()
        verbs = re.findall(r"^  ([a-z][a-z-]*) +\S", overview.split("Examples:")[0], re.M)
        self.assertEqual([v for v in INDEX_VERBS if v not in verbs], [])
        for verb in verbs:
            def ready(verb=verb):
                self.data()
                self.write("retired.txt", "19\n20\n")
                for name in ("people.index", "packages.index", "packages.backup"):
                    shutil.rmtree(self.path(name), ignore_errors=True)
                if verb == "create":
                    return
                self.sh("scbf index create people.index --key id --columns id,name,town,email "
                        "--index town; "
                        "scbf index create packages.index --header packages.tsv --key package "
                        "--servers 16 --index maintainer" +
                        ("" if verb == "add-column" else " --index section --index depends:,"))
                if verb == "load":
                    return
                self.sh("scbf index load people.index people.csv; "
                        "scbf index load packages.index packages.tsv --regions 5")
            self.run_examples(["index"], verb, ready)


class Documents(ExamplesTest):
    def test_shell_blocks(self):
        run = 0
        for page in pages():
            for line, reason, language, text in shell_blocks(page):
                with self.subTest(page=page, line=line):
                    self.assertPastes(text)
                    self.assertNotEqual(language, "console", "a prompt cannot be pasted")
                    if reason or (not BUILT and "scbf index" in text):
                        continue
                    self.data()
                    if "packages.index" in text and "index create packages.index" not in text:
                        self.sh("scbf index create packages.index --header packages.tsv --key package "
                                "--index section; scbf index load packages.index packages.tsv")
                    # Each command by itself: the last of a block must not hide the others.
                    for command in text.replace("\\\n", " ").splitlines():
                        self.sh(self.smaller(command), (0, 1))
                    run += 1
        self.assertGreaterEqual(run, 3)
