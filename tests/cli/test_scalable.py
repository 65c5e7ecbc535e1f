# SPDX-License-Identifier: Apache-2.0
"""Filters that grow: all verbs work on them as on other filters."""

from support import CORRUPT, INPUT_OUTPUT, NOTHING_FOUND, USAGE, CommandTest, lines, words


class Scalable(CommandTest):
    def grow(self, name, keys, *options):
        return self.scbf_json("build", "--scalable", "--capacity", 100, *options, "-o", name,
                              stdin=lines(keys))

    def test_grows_and_keeps_its_rate(self):
        report = self.grow("f.scbf", words(20_000))
        self.assertEqual((report["keys"], report["policy"]), (20_000, "tightening"))
        self.assertGreater(report["stages"], 5)
        self.assertLess(report["estimated_fpr"], 0.01)
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=lines(words(20_000))),
                         b"20000\n")
        false = int(self.scbf("query", "f.scbf", "--count", stdin=lines(words(50_000, "no"))))
        self.assertLess(false, 500 + 5 * 23)
        for options in (["--map"], ["--backend", "scalar"], ["--threads", 2]):
            self.assertEqual(
                int(self.scbf("query", "f.scbf", "--count", *options,
                              stdin=lines(words(50_000, "no")))), false)

    def test_same_bytes_whatever_computes_and_however_it_is_cut(self):
        self.grow("a.scbf", words(5000))
        for options in (["--backend", "scalar"], ["--threads", 1], ["--threads", 2]):
            self.grow("b.scbf", words(5000), *options)
            self.assertEqual(self.digest("a.scbf"), self.digest("b.scbf"))
        self.grow("b.scbf", words(1234))
        self.scbf("insert", "b.scbf", stdin=lines(words(5000)[1234:]))
        self.assertEqual(self.digest("a.scbf"), self.digest("b.scbf"))

    def test_insert_remove_count(self):
        self.grow("f.scbf", words(3000))
        report = self.scbf_json("insert", "f.scbf", stdin=lines(words(2000, "new")))
        self.assertEqual((report["inserted"], report["keys_in_filter"]), (2000, 5000))
        report = self.scbf_json("remove", "f.scbf", stdin=lines(words(2000, "new")))
        self.assertEqual(report["removed"] + report["ambiguous"], 2000)
        self.assertGreater(report["ambiguous"], 0)
        self.assertLess(report["ambiguous"], 60)
        self.assertIn("claimed by several stages", self.err)
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=lines(words(3000))),
                         b"3000\n")
        self.assertEqual(self.scbf("count", "f.scbf", stdin=b"word-7\n")[:7], b"word-7\t")
        before = self.digest("f.scbf")
        report = self.scbf_json("remove", "f.scbf", "-o", "g.scbf", stdin=b"surely not there\n",
                                code=NOTHING_FOUND)
        self.assertEqual(report["removed"], 0)
        self.assertEqual(self.digest("f.scbf"), before)

    def test_merge_and_subtract(self):
        self.grow("a.scbf", words(60, "a"))
        self.grow("b.scbf", words(3000, "b"))
        report = self.scbf_json("merge", "a.scbf", "b.scbf", "-o", "c.scbf")
        self.assertEqual(report["keys"], 3060)
        for name, count in (("a", 60), ("b", 3000)):
            self.assertEqual(
                int(self.scbf("query", "c.scbf", "--count", stdin=lines(words(count, name)))),
                count)
        self.scbf("subtract", "c.scbf", "b.scbf")
        self.assertEqual(self.scbf("query", "c.scbf", "--count", stdin=lines(words(60, "a"))),
                         b"60\n")
        self.scbf("subtract", "c.scbf", "b.scbf", code=CORRUPT)
        self.assertIn("contained in no stage", self.err)
        self.build("plain.scbf", words(10))
        self.scbf("merge", "a.scbf", "plain.scbf", code=CORRUPT)
        self.assertIn("one grows by stages, the other has a single stage", self.err)

    def test_through_pipes(self):
        self.grow("f.scbf", words(20_000))
        whole = self.read("f.scbf")
        self.assertGreater(len(whole), 1 << 17)  # more than a pipe holds
        self.assertEqual(self.scbf("build", "--scalable", "--capacity", 100, "-o", "-",
                                   stdin=lines(words(20_000))), whole)
        self.write("keys", lines(words(20_000)))
        self.write("others", lines(words(5000, "no")))
        for name in ("keys", "others"):
            for verb in ("query", "count"):
                self.assertEqual(self.scbf(verb, "/dev/stdin", name, stdin=whole),
                                 self.scbf(verb, "f.scbf", name))
        self.assertEqual(self.scbf("insert", "/dev/stdin", "others", "-o", "-", stdin=whole),
                         self.scbf("insert", "f.scbf", "others", "-o", "-"))
        self.grow("g.scbf", words(10, "g"))
        self.assertEqual(self.scbf("merge", "g.scbf", "/dev/stdin", "-o", "-", stdin=whole),
                         self.scbf("merge", "g.scbf", "f.scbf", "-o", "-"))
        self.assertIn(b"stages", self.scbf("verify", "/dev/stdin", stdin=whole))
        header = self.scbf_json("info", "f.scbf", "--header")
        header["file"] = "/dev/stdin"
        self.assertEqual(self.scbf_json("info", "/dev/stdin", "--header", stdin=whole), header)
        for bad in (whole[:-1], whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1])):
            self.scbf("query", "/dev/stdin", "keys", stdin=bad, code=CORRUPT)
            self.scbf("verify", "/dev/stdin", stdin=bad, code=CORRUPT)

    def test_info_and_verify(self):
        self.grow("f.scbf", words(3000), "--fpr", "2%", "--growth", 3, "--tightening", 0.5)
        info = self.scbf_json("info", "f.scbf")
        self.assertEqual((info["growth"], info["tightening"], info["fpr_target"]), (3, 0.5, 0.02))
        self.assertEqual(sum(s["keys_inserted"] for s in info["stages"]), 3000)
        self.assertLess(info["fpr_bound"], 0.02)
        self.assertIn("fill", info["stages"][0])
        self.assertNotIn("fill", self.scbf_json("info", "f.scbf", "--header")["stages"][0])
        text = self.scbf("info", "f.scbf").decode()
        self.assertIn("stage 1", text)
        self.assertIn("bound", text)
        self.assertIn("stages", self.scbf("verify", "f.scbf").decode())
        damaged = bytearray(self.read("f.scbf"))
        damaged[-1] ^= 1
        self.write("f.scbf", bytes(damaged))
        self.scbf("verify", "f.scbf", code=CORRUPT)
        self.scbf("info", "f.scbf", code=CORRUPT)

    def test_identical_stages_and_their_end(self):
        fixed = ["build", "--scalable", "--policy", "fixed", "--memory", "4KiB", "--stage-fpr",
                 "1%", "--fpr", "3%", "-o", "f.scbf"]
        report = self.scbf_json(*fixed, stdin=lines(words(1000)))
        self.assertEqual((report["policy"], report["most_stages"]), ("fixed", 3))
        before = self.digest("f.scbf")
        self.scbf("insert", "f.scbf", stdin=lines(words(5000, "more")), code=INPUT_OUTPUT)
        self.assertIn("all 3 stages are full", self.err)
        self.assertEqual(self.digest("f.scbf"), before)

    def test_usage(self):
        for options in (["--growth", 2], ["--policy", "fixed"], ["--scalable", "--policy", "no"],
                        ["--scalable", "--policy", "fixed"], ["--scalable", "--memory", "1MiB"],
                        ["--scalable", "--growth", 0.5], ["--scalable", "--probes", 3]):
            self.scbf("build", *options, "-o", "f.scbf", stdin=b"x\n", code=USAGE)
        self.assertEqual(self.files(), [])
