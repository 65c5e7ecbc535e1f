# SPDX-License-Identifier: Apache-2.0
"""Filters of layout ranked: every verb that takes them, and what those that do not say."""

import json
import re

from support import CORRUPT, OK, USAGE, CommandTest, lines, words


class Ranked(CommandTest):
    def setUp(self):
        super().setUp()
        self.keys = words(2000)
        self.build("f.scbf", self.keys, "--layout", "ranked")
        self.mixed = lines(self.keys[:20]) + lines(words(30, "absent"))

    def test_info_and_plan(self):
        info = self.scbf_json("info", "f.scbf")
        self.assertEqual(info["layout"], "ranked")
        self.assertEqual(info["saturated"], 0)
        self.assertTrue(65 <= info["positions"] <= 112)
        plan = self.scbf_json("plan", "--capacity", "1e8", "--fpr", "1%", "--layout", "ranked")
        self.assertLess(plan["bits_per_key"], 17.6)
        self.assertEqual(plan["positions"], 82)
        self.assertIn("blocks that may spill", self.scbf("plan", "--capacity", "1e8", "--fpr", "1%", "--layout",
                                                         "ranked").decode())

    def test_query(self):
        self.build("packed.scbf", self.keys, "--layout", "ranked", "--compress")
        for file in ("f.scbf", "packed.scbf"):
            for options in ([], ["--map"], ["--backend", "scalar"]):
                got = self.scbf("query", file, *options, stdin=self.mixed)
                self.assertEqual(got[:len(lines(self.keys[:20]))], lines(self.keys[:20]))
            self.scbf("verify", file)

    def test_query_a_pipe(self):
        self.write("keys", self.mixed)
        self.assertEqual(self.scbf("query", "-", "keys", stdin=self.read("f.scbf")),
                         self.scbf("query", "f.scbf", "keys"))

    def test_bits(self):
        self.scbf("project", "f.scbf", "-o", "bits.scbf")
        self.scbf("build", "--bits", "-o", "built.scbf", "--layout", "ranked", "--capacity", 2000,
                  stdin=lines(self.keys))
        self.write("keys", self.mixed)
        want = self.scbf("query", "f.scbf", "keys")
        for file in ("bits.scbf", "built.scbf"):
            self.assertEqual(self.scbf("query", file, "keys"), want)
            self.scbf("verify", file)
            info = self.scbf_json("info", file)
            self.assertEqual((info["layout"], info["kind"]), ("ranked", "bits"))
        self.assertLess(len(self.read("bits.scbf")), len(self.read("f.scbf")))

    def test_bits_are_planned_for_their_memory(self):
        self.scbf("build", "--bits", "-o", "b.scbf", "--layout", "ranked", "--fpr", "1%", "--memory", "64KiB",
                  stdin=lines(self.keys))
        payload = len(self.read("b.scbf")) - 4096
        self.assertLessEqual(payload, 65536)
        self.assertGreater(payload, 64000)

    def test_deltas(self):
        self.scbf("project", "f.scbf", "-o", "published.scbf")
        self.scbf("delta", "published.scbf", "f.scbf", "-o", "1.delta")
        self.scbf("project", "f.scbf", "-o", "reader.scbf")
        self.scbf("apply", "reader.scbf", "1.delta")
        self.scbf("remove", "f.scbf", stdin=lines(self.keys[500:530]))
        done = self.scbf_json("delta", "published.scbf", "f.scbf", "-o", "2.delta")
        self.assertFalse(done["whole"])
        self.scbf("apply", "reader.scbf", "2.delta")
        self.assertEqual(self.read("reader.scbf"), self.read("published.scbf"))
        self.write("keys", self.mixed)
        self.assertEqual(self.scbf("query", "reader.scbf", "keys"), self.scbf("query", "f.scbf", "keys"))

    def test_keys_that_full_blocks_keep(self):
        self.scbf("insert", "f.scbf", "-o", "full.scbf", "--max-fpr", "100%", stdin=lines(words(20_000, "more")))

        def remove(keys):
            out = self.scbf("remove", "full.scbf", "-o", "less.scbf", stdin=lines(keys))
            return out.decode() + self.err

        report = json.loads(self.scbf("remove", "full.scbf", "-o", "less.scbf", "--json", stdin=lines(self.keys)))
        kept = report["kept"]
        self.assertGreater(kept, 1000)
        self.assertEqual((report["removed"] + kept, report["absent"]), (len(self.keys), 0))
        self.assertGreaterEqual(len(self.scbf("query", "less.scbf", stdin=lines(self.keys)).splitlines()), kept)
        said = remove(self.keys)
        self.assertIn(f", kept {kept:,}", said)
        self.assertIn(f"{kept:,} keys are in blocks that were too full", said)
        # A key of which nothing is known any more is not absent.
        self.assertTrue(any("1 key is in blocks that were too full" in remove([key]) for key in self.keys[:40]))

    def test_change_and_combine(self):
        self.build("g.scbf", self.keys, "--layout", "ranked")
        self.scbf("remove", "g.scbf", stdin=lines(self.keys[:500]))
        self.scbf("insert", "g.scbf", stdin=lines(self.keys[:500]))
        self.assertEqual(self.read("g.scbf")[4096:], self.read("f.scbf")[4096:])
        for name, keys in (("a.scbf", self.keys[:900]), ("b.scbf", self.keys[900:])):
            self.scbf("build", "-o", name, "--layout", "ranked", "--capacity", 2000, stdin=lines(keys))
        self.scbf("merge", "-o", "both.scbf", "a.scbf", "b.scbf")
        self.assertEqual(self.read("both.scbf")[4096:], self.read("f.scbf")[4096:])
        self.scbf("subtract", "both.scbf", "b.scbf")
        self.assertEqual(self.read("both.scbf")[4096:], self.read("a.scbf")[4096:])

    def test_what_is_larger_than_another_layout_is_noted(self):
        for options in ([], ["--bits"], ["--scalable"]):
            for rate, noted in (("1%", False), ("1e-9", True)):
                build = ["build", "--capacity", 5000, "--layout", "ranked", *options, "-o", "g.scbf", "--force"]
                report = json.loads(self.scbf(*build, "--fpr", rate, "--json", stdin=b"a\n"))
                note = re.search(r"layout ranked takes ([^ ]+ [^ ]+) for 5,000 keys at a rate of .*split_block would take", self.err)
                self.assertEqual(bool(note), noted, self.err)
                if noted:
                    self.assertIn(f"{report['bytes'] / 2**20:.1f} MiB", note[1])

    def test_too_many_copies_are_noted(self):
        done = self.run_raw("build", "-o", "hot.scbf", "--layout", "ranked", "--capacity", 100,
                            stdin=b"hot\n" * 1000)
        self.assertEqual(done.returncode, OK)
        self.assertIn(b"can no longer be lowered", done.err)
        quiet = self.run_raw("build", "-o", "warm.scbf", "--layout", "ranked", "--capacity", 2000,
                             stdin=b"warm\n" * 20 + lines(self.keys[:100]))
        self.assertEqual((quiet.returncode, quiet.err), (OK, b""))

    def test_too_many_copies_are_noted_in_other_layouts(self):
        for layout in ("split_block", "split"):
            build = ["build", "-o", "f.scbf", "--force", "--layout", layout, "--capacity", 100]
            self.scbf(*build, stdin=b"hot\n" * 14)
            self.assertEqual(self.err, "")
            self.scbf(*build, stdin=b"hot\n" * 15)
            self.assertRegex(self.err, r"^scbf: saturated counters, which can no longer be lowered: [678]\.")
            self.assertIn("insert --new", self.err)
            self.scbf("remove", "f.scbf", stdin=b"hot\n" * 15)
            self.assertIn("can no longer be lowered", self.err)
            self.scbf(*build, "--bits", stdin=b"hot\n" * 15)
            self.assertEqual(self.err, "")
        self.scbf(*build, "--probes", 1, stdin=b"hot\n" * 15)
        self.assertIn("can no longer be lowered: 1.", self.err)
        # Of a bank, the counters of all members count.
        self.write("hot", b"hot\n" * 15)
        self.write("other", lines(self.keys[:50]))
        self.scbf("bank", "-o", "b.bank", "hot", "other")
        self.assertIn("can no longer be lowered", self.err)
        self.scbf("bank", "-o", "b.bank", "--force", "other")
        self.assertEqual(self.err, "")

    def test_what_it_cannot_do(self):
        fixed = self.run_raw("build", "-o", "b.scbf", "--layout", "ranked", "--scalable", "--policy", "fixed",
                             "--memory", "1MiB", "--stage-fpr", "1%", "--fpr", "5%")
        self.assertEqual(fixed.returncode, USAGE)
        self.assertIn(b"layout ranked", fixed.err)
