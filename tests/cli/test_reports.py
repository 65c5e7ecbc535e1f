# SPDX-License-Identifier: Apache-2.0
"""Help, JSON keys and progress, on which scripts and people rely."""

import json
import os
import pty
import re
import select
import subprocess

from support import COMMAND, CORRUPT, NOTHING_FOUND, OK, USAGE, CommandTest, lines, words

VERBS = ["plan", "build", "query", "insert", "remove", "count", "merge", "subtract", "info",
         "verify", "backends", "paper", "gen", "bench", "completion"]


class Help(CommandTest):
    def test_every_verb_has_help_with_examples(self):
        overview = self.scbf("--help").decode()
        for verb in VERBS:
            self.assertRegex(overview, rf"\n  {verb} +\S")
            text = self.scbf(verb, "--help").decode()
            self.assertIn("Examples:\n  ", text)
            self.assertIn(f"scbf {verb}", text)

    def test_examples_are_accepted(self):
        # Every option in an example must exist. Each example runs in an empty folder and must not end
        # with a usage error.
        for verb in ("plan", "paper", "backends"):
            text = self.scbf(verb, "--help").decode()
            # Slow commands run with smaller numbers.
            text = text.replace("--trials 2000", "--trials 2")
            for line in text.split("Examples:\n")[1].strip().splitlines():
                result = subprocess.run(["sh", "-c", line.replace("scbf ", f'"{COMMAND}" ', 1)],
                                        cwd=self.folder, capture_output=True, timeout=100)
                if line.strip().startswith("scbf"):
                    self.assertEqual(result.returncode, OK, (line, result.stderr))

    def test_completion_is_a_verb(self):
        self.assertIn(b"\nSHELL", self.scbf("help", "completion").replace(b"  SHELL", b"SHELL"))
        for shell, text in (("bash", "complete -o default -F _scbf scbf"), ("zsh", "#compdef scbf"),
                            ("fish", "complete -c scbf"), ("man", ".SH \"scbf completion\"")):
            printed = self.scbf("completion", shell).decode()
            self.assertIn(text, printed)
            for name in ("completion", "max-fpr", "add-column"):
                self.assertIn(name, printed.replace("\\-", "-"))
        page = printed.replace("\\-", "-")
        self.assertIn(".SH COMMAND\n.nf\n", page)
        for text in ("Usage: scbf [OPTIONS] SUBCOMMAND", "Exit codes:", "Usage: scbf index create [OPTIONS] DIR",
                     "Usage: scbf completion [OPTIONS] SHELL"):
            self.assertEqual(page.count(text), 1, text)
        self.refused("completion", mentions=["SHELL is required", "completion --help"])
        self.refused("completion", "csh", mentions=["completion 'csh': must be bash, zsh, fish or man"])
        self.refused("completion", "bash", "zsh")

    def test_no_line_of_help_is_long(self):
        page = self.scbf("completion", "man").decode()
        verbs = re.findall(r'^\.SH "scbf (.*)"$', page, re.M)
        self.assertIn("index create", verbs)
        for verb in ["", *verbs]:
            for line in self.scbf(*verb.split(), "--help").decode().splitlines():
                self.assertLessEqual(len(line), 110, f"{verb}: {line}")

    def test_version(self):
        self.assertRegex(self.scbf("--version").decode(), r"^scbf \d+\.\d+\.\d+\n$")


class Json(CommandTest):
    def assertKeys(self, report, keys):
        self.assertEqual([k for k in keys.split() if k not in report], [])

    def test_plan(self):
        plan = self.scbf_json("plan", "--capacity", "1e8", "--fpr", "1%")
        self.assertKeys(plan, "layout capacity fpr groups probes counters bytes bits_per_key "
                              "predicted_fpr cache_lines_per_key reason")
        self.assertEqual((plan["layout"], plan["groups"], plan["probes"]), ("split_block", 1, 8))
        self.assertEqual((plan["capacity"], plan["fpr"]), (100_000_000, 0.01))
        self.assertAlmostEqual(plan["bits_per_key"] / 4, 11.4, delta=0.05)
        self.assertLessEqual(plan["predicted_fpr"], 0.01)
        self.assertEqual(plan["cache_lines_per_key"], 1)
        split = self.scbf_json("plan", "--capacity", "100M", "--fpr", "0.01", "--layout", "split")
        self.assertEqual((split["layout"], split["groups"]), ("split", 0))
        self.assertEqual(split["cache_lines_per_key"], split["probes"])
        memory = self.scbf_json("plan", "--memory", "512MiB", "--capacity", "1e8")
        self.assertLessEqual(memory["bytes"], 512 << 20)

    def test_build(self):
        self.write("in.txt", b"\n".join(words(1000)) + b"\n\n")
        report = self.scbf_json("build", "-o", "f.scbf", "in.txt", "--threads", 1, "--seed", 9)
        self.assertKeys(report, "keys seconds keys_per_second backend target threads bytes fill "
                                "saturated empty_lines capacity fpr layout")
        self.assertEqual((report["keys"], report["empty_lines"], report["threads"]), (1000, 1, 1))
        self.assertEqual((report["backend"], report["saturated"]), ("simd", 0))
        self.assertTrue(report["capacity_counted"])
        self.assertGreater(report["seconds"], 0)
        self.assertGreater(report["keys_per_second"], 0)
        self.assertAlmostEqual(report["fill"], 0.5, delta=0.05)

    def test_info(self):
        self.build("f.scbf", words(1000), "--seed", "0xffffffffffffffff")
        self.scbf("remove", "f.scbf", stdin=b"word-1\n")
        info = self.scbf_json("info", "f.scbf")
        self.assertKeys(info, "version hash seed layout groups probes counters_per_slice counters "
                              "keys keys_inserted keys_removed fill saturated estimated_keys "
                              "estimated_fpr bytes file_bytes payload_offset payload_bytes "
                              "chunk_bytes metadata cache_lines_per_key hash_version "
                              "counter_bits chunks metadata_bytes")
        self.assertEqual((info["hash"], info["hash_version"], info["counter_bits"], info["chunks"]),
                         ("XXH3-64", 1, 4, 1))
        self.assertEqual((info["keys"], info["keys_inserted"], info["keys_removed"]),
                         (999, 1000, 1))
        self.assertEqual(info["seed"], 2**64 - 1)
        self.assertEqual(info["metadata"]["keys"], "lines")
        self.assertEqual(info["file_bytes"], os.path.getsize(self.path("f.scbf")))
        self.assertAlmostEqual(info["estimated_keys"], 999, delta=60)
        self.assertEqual(sum(info["histogram"]), info["counters"])
        header = self.scbf_json("info", "f.scbf", "--header")
        self.assertNotIn("fill", header)
        self.assertEqual(header["keys"], 999)
        self.assertIn(b"999 (1,000 inserted, 1 removed)", self.scbf("info", "f.scbf"))

    def test_keys_in_filter_says_the_same_everywhere(self):
        self.build("f.scbf", words(1000))
        self.scbf("remove", "f.scbf", stdin=b"word-1\n")
        self.build("g.scbf", words(1000, "other"))
        self.scbf("project", "f.scbf", "-o", "bits")
        self.scbf("delta", "bits", "f.scbf", "-o", "1.delta")
        self.write("reader", self.read("bits"))
        self.scbf("delta", "bits", "f.scbf", "-o", "2.delta")
        self.scbf("bank", "--filters", "-o", "b.bank", "f.scbf")
        self.assertEqual(self.scbf_json("info", "b.bank")["members"][0]["keys_in_filter"], 999)
        for arguments, keys in ((["info", "f.scbf"], 999), (["info", "f.scbf", "--header"], 999),
                                (["merge", "f.scbf", "g.scbf", "-o", "h.scbf"], 1999),
                                (["subtract", "h.scbf", "g.scbf"], 999),
                                (["project", "f.scbf", "-o", "p"], 999),
                                (["apply", "reader", "2.delta", "-o", "p"], 999)):
            report = self.scbf_json(*arguments)
            self.assertEqual((report["keys"], report["keys_in_filter"]), (keys, keys), arguments)
        self.write("new", b"new\n")
        self.assertEqual(self.scbf_json("insert", "f.scbf", "new")["keys_in_filter"], 1000)

    def test_more_removed_than_inserted(self):
        # A key with saturated counters cannot be removed.
        self.build("f.scbf", [b"same"] * 20)
        report = self.scbf_json("remove", "f.scbf", stdin=b"same\n" * 30)
        self.assertEqual((report["removed"], report["keys_in_filter"]), (30, 0))
        info = self.scbf_json("info", "f.scbf")
        self.assertEqual((info["keys"], info["keys_inserted"], info["keys_removed"]), (0, 20, 30))
        self.assertIn(b"0 (20 inserted, 30 removed)", self.scbf("info", "f.scbf"))

    def test_a_full_filter_has_no_estimate(self):
        self.scbf("build", "--capacity", 1, "--max-fpr", 1, "-o", "f.scbf",
                  stdin=lines(words(10_000)))
        info = self.scbf_json("info", "f.scbf")
        self.assertEqual((info["fill"], info["estimated_keys"], info["estimated_fpr"]),
                         (1, None, 1))
        self.assertIn(b"too many", self.scbf("info", "f.scbf"))

    def test_query_and_count(self):
        self.build("f.scbf", words(10))
        for verb in ("query", "count"):
            report = self.scbf_json(verb, "f.scbf", stdin=b"word-1\nnot there\n\n")
            self.assertKeys(report, "keys present absent empty_lines seconds keys_per_second "
                                    "backend target threads")
            self.assertEqual((report["keys"], report["present"], report["absent"]), (2, 1, 1))

    def test_verify_and_backends(self):
        self.build("f.scbf", words(10))
        for files in (["f.scbf"], ["f.scbf", "f.scbf"]):
            self.assertEqual([r["ok"] for r in self.scbf_json("verify", *files)], [True] * len(files))
        backends = self.scbf_json("backends")
        names = [b["name"] for b in backends]
        self.assertIn("scalar", names)
        self.assertIn("simd", names)
        self.assertIn("cuda", names)
        self.assertEqual([b["name"] for b in backends if b["auto"]], ["simd"])
        for backend in backends:
            self.assertEqual(backend["available"], backend["reason"] is None)
            self.assertTrue(backend["description"])
        forced = self.scbf_json("backends", env={"SCBF_BACKEND": "scalar"})
        self.assertEqual([b["name"] for b in forced if b["auto"]], ["scalar"])

    def test_paper(self):
        paper = self.scbf_json("paper", "--trials", 20)
        printed = [(r["printed_probes"], r["printed_slice"], r["printed_keys"])
                   for r in paper["table_1"]]
        self.assertEqual(printed, [(10, 36864, 25639), (14, 26331, 19229), (17, 21684, 15383),
                                   (20, 18432, 12819)])
        rows = {r["bits"]: r for r in paper["tables_2_3_4"]}
        self.assertAlmostEqual(rows[1]["bound"], 0.25037, places=4)
        self.assertAlmostEqual(rows[1]["exact_split"], 0.15343, places=4)
        self.assertAlmostEqual(rows[1]["simulated_split"], 0.15343, delta=0.002)
        self.assertEqual(rows[4]["printed_standard"], 2.22e-16)
        self.assertIsNone(rows[5]["simulated_split"])
        self.assertAlmostEqual(paper["table_1"][0]["simulated_fpr"], 1e-3, delta=3e-4)
        self.assertIsNone(paper["table_1"][3]["simulated_fpr"])
        text = self.scbf("paper", "--trials", 5).decode()
        for table in ("Table 1", "Tables 2 and 3", "Table 4", "36,864", "25,639"):
            self.assertIn(table, text)
        self.assertIsNone(
            self.scbf_json("paper", "--trials", 0)["tables_2_3_4"][0]["simulated_split"])

    def test_names_that_are_no_text(self):
        name = os.path.join(os.fsencode(self.folder), b"\xff.scbf")
        self.write("in.txt", "a\n")
        result = subprocess.run([COMMAND, "build", "-o", name, "in.txt", "--json"],
                                cwd=self.folder, capture_output=True, timeout=100)
        self.assertEqual(result.returncode, OK, result.stderr)
        json.loads(result.stdout)


class OneOfEverything(CommandTest):
    def test_is_not_called_several(self):
        self.write("one", b"apple\n")
        self.write("other", b"pear\n")
        for code, *arguments in (
                (OK, "plan", "--capacity", 1, "--fpr", "1%"),
                (OK, "plan", "--capacity", 1, "--fpr", "1%", "--layout", "split"),
                (OK, "plan", "--memory", 64, "--fpr", "1e-5"),
                (USAGE, "plan", "--memory", 1, "--capacity", 1),
                (USAGE, "plan", "--memory", 1, "--fpr", "1%", "--layout", "split"),
                (OK, "plan", "--regions", 1, "--servers", 1, "--values", 1, "--rows", 1, "--memory", "1GiB"),
                (OK, "plan", "--regions", 2, "--servers", 2, "--values", "1M", "--memory", "24MiB"),
                (OK, "build", "--capacity", 1, "--fpr", "1e-9", "-o", "f", "one"),
                (OK, "build", "--capacity", 1, "--scalable", "-o", "growing", "one"),
                (OK, "build", "--layout", "ranked", "-o", "ranked", "one"),
                (OK, "build", "--bits", "-o", "bits", "one"),
                (OK, "info", "f"), (OK, "info", "growing"), (OK, "info", "ranked"), (OK, "info", "bits"),
                (OK, "verify", "f"), (OK, "query", "f", "one"), (OK, "count", "f", "one"),
                (OK, "query", "f", "one", "--progress", "always"),
                (OK, "insert", "f", "other"), (OK, "insert", "f", "--new", "new", "other"),
                (OK, "merge", "f", "f", "-o", "g"), (OK, "subtract", "g", "f"),
                (CORRUPT, "subtract", "f", "ranked"),
                (OK, "remove", "f", "other"), (CORRUPT, "remove", "f", "--max-absent", 0, "other"),
                (NOTHING_FOUND, "remove", "f", "other"), (NOTHING_FOUND, "query", "f", "other"),
                (OK, "project", "f", "-o", "p"), (OK, "delta", "p", "f", "-o", "1.delta"),
                (OK, "info", "1.delta"), (OK, "insert", "f", "one"), (OK, "delta", "p", "f", "-o", "2.delta"),
                (OK, "project", "f", "-o", "reader"),
                (OK, "bank", "-o", "b", "one"), (OK, "info", "b"), (OK, "find", "b", "one"), (OK, "verify", "b"),
                (OK, "project", "b", "-o", "bits_of_b"), (OK, "info", "bits_of_b"),
                (OK, "bank", "--to", "b", "--drop", "one", "other"),
                (OK, "gen", "--keys", 1, "-o", "u64")):
            self.assertSingulars(*arguments, code=code)


class Progress(CommandTest):
    def on_a_terminal(self, *arguments):
        """Runs the command with a terminal as standard error; returns what it printed there."""
        ours, theirs = pty.openpty()
        process = self.start(*arguments, stdout=subprocess.PIPE, stderr=theirs,
                             stdin=subprocess.DEVNULL)
        os.close(theirs)
        process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), OK)
        seen = b""
        while select.select([ours], [], [], 1)[0]:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # on Linux: the other end is closed
                break
            if not piece:
                break
            seen += piece
        os.close(ours)
        return seen

    def test_only_where_it_is_wanted(self):
        self.write("in.txt", lines(words(1000)))
        build = ["build", "-o", "f.scbf", "in.txt"]
        self.scbf(*build)
        self.assertEqual(self.err, "")
        self.scbf(*build, "--progress", "always")
        for text in ("counting", "building", "100 %", "1,000 keys", "keys/s"):
            self.assertIn(text, self.err)
        self.assertIn(b"building", self.on_a_terminal(*build))
        self.assertEqual(self.on_a_terminal(*build, "--progress", "never"), b"")

    def test_never_in_the_data(self):
        self.build("f.scbf", words(100))
        data = lines(words(100))
        self.assertEqual(self.scbf("query", "f.scbf", "--progress", "always", stdin=data), data)
        self.assertIn("100 keys", self.err)
        self.assertEqual(len(self.scbf("gen", "--keys", 100, "--progress", "always")), 800)
