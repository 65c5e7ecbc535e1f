# SPDX-License-Identifier: Apache-2.0
"""Filters of layout ranked: every verb that takes them, and what those that do not say."""

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
            for options in ([], ["--load"], ["--backend", "scalar"]):
                got = self.scbf("query", file, *options, stdin=self.mixed)
                self.assertEqual(got[:len(lines(self.keys[:20]))], lines(self.keys[:20]))
            self.scbf("verify", file)

    def test_a_pipe_is_refused(self):
        self.write("keys", self.mixed)
        refused = self.run_raw("query", "-", "keys", stdin=self.read("f.scbf"))
        self.assertEqual(refused.returncode, CORRUPT)
        self.assertIn(b"layout ranked: there are no filters of bits", refused.err)

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

    def test_too_many_copies_are_noted(self):
        done = self.run_raw("build", "-o", "hot.scbf", "--layout", "ranked", "--capacity", 100,
                            stdin=b"hot\n" * 1000)
        self.assertEqual(done.returncode, OK)
        self.assertIn(b"can no longer be lowered", done.err)
        quiet = self.run_raw("build", "-o", "warm.scbf", "--layout", "ranked", "--capacity", 2000,
                             stdin=b"warm\n" * 20 + lines(self.keys[:100]))
        self.assertEqual((quiet.returncode, quiet.err), (OK, b""))

    def test_what_it_cannot_do(self):
        for command in (["build", "-o", "b.scbf", "--bits", "--layout", "ranked", "--capacity", 10],
                        ["project", "f.scbf", "-o", "b.scbf"]):
            refused = self.run_raw(*command)
            self.assertIn(refused.returncode, (USAGE, CORRUPT))
            self.assertIn(b"layout ranked", refused.err)
        self.assertNotIn("b.scbf", self.files())
        fixed = self.run_raw("build", "-o", "b.scbf", "--layout", "ranked", "--scalable", "--policy", "fixed",
                             "--memory", "1MiB", "--stage-fpr", "1%", "--fpr", "5%")
        self.assertEqual(fixed.returncode, USAGE)
        self.assertIn(b"layout ranked", fixed.err)
