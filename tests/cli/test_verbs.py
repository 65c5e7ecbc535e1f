# SPDX-License-Identifier: Apache-2.0
"""The effect of each verb on a filter, and its output."""

import os
import re
import struct
import subprocess

from support import CORRUPT, INPUT_OUTPUT, NOTHING_FOUND, OK, USAGE, CommandTest, lines, words


class Query(CommandTest):
    def setUp(self):
        super().setUp()
        self.build("f.scbf", words(1000), "--fpr", "1e-5")
        self.mixed = lines(words(20)) + lines(words(30, "absent"))

    def test_prints_what_may_be_present_in_input_order(self):
        reordered = lines(reversed(words(20)))
        self.assertEqual(self.scbf("query", "f.scbf", stdin=reordered), reordered)
        self.assertEqual(self.scbf("query", "f.scbf", stdin=self.mixed), lines(words(20)))

    def test_invert(self):
        self.assertEqual(self.scbf("query", "f.scbf", "--invert", stdin=self.mixed),
                         lines(words(30, "absent")))
        self.scbf("query", "f.scbf", "--invert", stdin=lines(words(5)), code=NOTHING_FOUND)

    def test_count(self):
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=self.mixed), b"20\n")
        self.assertEqual(self.scbf("query", "f.scbf", "--count", "--invert", stdin=self.mixed),
                         b"30\n")
        self.assertEqual(
            self.scbf("query", "f.scbf", "--count", stdin=b"no\n", code=NOTHING_FOUND), b"0\n")

    def test_loading_and_every_backend_answer_the_same(self):
        for options in (["--map"], ["--backend", "scalar"], ["--threads", 2],
                        ["--backend", "scalar", "--map"]):
            self.assertEqual(self.scbf("query", "f.scbf", *options, stdin=self.mixed),
                             lines(words(20)))

    def test_a_filter_that_comes_through_a_pipe(self):
        read_end, write_end = os.pipe()
        os.write(write_end, self.read("f.scbf"))
        os.close(write_end)
        out = self.scbf("query", f"/dev/fd/{read_end}", stdin=self.mixed, pass_fds=[read_end])
        os.close(read_end)
        self.assertEqual(out, lines(words(20)))

    def test_files_named_like_verbs(self):
        self.write("plan", lines(words(3)))
        self.scbf("build", "-o", "info", "plan")
        self.assertEqual(self.scbf("query", "info", "plan"), lines(words(3)))

    def test_the_rate_is_the_one_asked_for(self):
        self.build("one_percent.scbf", words(20_000), "--fpr", "1%")
        false = int(self.scbf("query", "one_percent.scbf", "--count",
                              stdin=lines(words(100_000, "absent"))))
        self.assertGreater(false, 1000 - 6 * 32)
        self.assertLess(false, 1000 + 6 * 32)


class Count(CommandTest):
    def test_prints_key_tab_count_in_input_order(self):
        self.build("f.scbf", [b"a", b"b", b"a", b"c", b"a", b"b"], "--fpr", "1e-6")
        self.assertEqual(self.scbf("count", "f.scbf", stdin=b"c\na\nx\nb\na\n"),
                         b"c\t1\na\t3\nx\t0\nb\t2\na\t3\n")
        self.assertEqual(self.scbf("count", "f.scbf", stdin=b"nothing\n", code=OK), b"nothing\t0\n")

    def test_fifteen_is_the_most(self):
        self.build("f.scbf", [b"often"] * 40)
        self.assertEqual(self.scbf("count", "f.scbf", stdin=b"often\n"), b"often\t15\n")
        self.assertEqual(self.scbf_json("info", "f.scbf")["saturated"], 8)


class ManyKeys(CommandTest):
    """More keys than are asked, or removed, together (131,072)."""

    N = 150_000

    def check(self, present, mixed, *kind, as_text):
        self.write("present", present)
        self.write("mixed", mixed)
        self.scbf("build", *kind, "--fpr", "1e-3", "-o", "f.scbf", "present")
        for threads in (1, 2):
            asked = ("f.scbf", "mixed", "--threads", threads)
            printed = self.scbf("query", *asked)
            found = len(printed.splitlines())
            self.assertLess(abs(found - self.N), 20)
            self.assertTrue(printed.startswith(as_text(present)), "in input order")
            absent = self.scbf("query", *asked, "--invert")
            self.assertEqual(sorted((printed + absent).split()), sorted(as_text(mixed).split()))
            counts = self.scbf("count", *asked).splitlines()
            self.assertEqual([line.split(b"\t")[0] for line in counts], as_text(mixed).split())
            self.assertEqual(sum(not line.endswith(b"\t0") for line in counts), found)
            self.assertEqual(int(self.scbf("query", *asked, "--count")), found)
            self.assertEqual(int(self.scbf("query", *asked, "--count", "--invert")), self.N + 500 - found)
            report = self.scbf_json("query", *asked)
            self.assertEqual((report["keys"], report["present"]), (self.N + 500, found))
            report = self.scbf_json("count", *asked)
            self.assertEqual((report["present"], report["absent"]), (found, self.N + 500 - found))
            report = self.scbf_json("remove", "f.scbf", "present", "-o", f"less{threads}.scbf", "--threads", threads)
            self.assertEqual((report["removed"], report["absent"]), (self.N, 0))
            self.assertEqual(report["fill"], 0)
            # Lists: each key in its line, in the order of the input.
            listed = self.scbf_json("remove", "f.scbf", "mixed", "-o", "x.scbf", "--force", "--absent",
                                    f"absent{threads}", "--threads", threads)
            self.assertEqual(len(self.read(f"absent{threads}").splitlines()), listed["absent"])
            self.assertLessEqual(set(absent.split()), set(self.read(f"absent{threads}").split()))
            self.scbf("build", *kind, "--capacity", self.N, "--fpr", "1e-6", "-o", "e.scbf", "--force", stdin=b"")
            self.scbf("insert", "e.scbf", "mixed", "--new", f"new{threads}", "--threads", threads)
            new, all_keys = self.read(f"new{threads}").split(), iter(as_text(mixed).split())
            self.assertGreater(len(new), self.N + 490)
            self.assertTrue(all(key in all_keys for key in new), "in input order")
        self.assertEqual(self.read("absent1"), self.read("absent2"))
        self.assertEqual(self.read("new1"), self.read("new2"))
        self.assertEqual(self.read("less1.scbf"), self.read("less2.scbf"))
        listed = self.scbf_json("remove", "f.scbf", "present", "-o", "listed.scbf", "--absent", "absent")
        self.assertEqual((listed["removed"], self.read("absent")), (self.N, b""))
        self.assertEqual(self.read("listed.scbf"), self.read("less1.scbf"))

    def test_lines(self):
        present = lines(words(self.N))
        self.check(present, present + lines(words(500, "absent")), as_text=bytes)

    def test_integers(self):
        present = self.scbf("gen", "--keys", self.N)
        self.check(present, present + self.scbf("gen", "--keys", 500, "--seed", 9), "--keys", "u64",
                   as_text=lambda keys: b"".join(b"%d\n" % key for key, in struct.iter_unpack("<Q", keys)))

    def test_an_error_behind_many_keys(self):
        self.build("f.scbf", words(1000))
        before = self.read("f.scbf")
        odd = self.scbf("gen", "--keys", self.N) + b"odd"
        self.scbf("remove", "f.scbf", "--keys", "u64", "--force", stdin=odd, code=INPUT_OUTPUT)
        self.assertEqual(self.read("f.scbf"), before)


class InsertAndRemove(CommandTest):
    def test_in_place_and_back(self):
        self.build("f.scbf", words(1000))
        before = self.read("f.scbf")
        report = self.scbf_json("insert", "f.scbf", stdin=lines(words(50, "new")))
        self.assertEqual((report["inserted"], report["keys_in_filter"]), (50, 1050))
        self.assertEqual(
            self.scbf("query", "f.scbf", "--count", stdin=lines(words(50, "new"))), b"50\n")
        report = self.scbf_json("remove", "f.scbf", stdin=lines(words(50, "new")))
        self.assertEqual((report["removed"], report["absent"]), (50, 0))
        after = self.read("f.scbf")
        self.assertEqual(after[4096:], before[4096:])  # the counters; the numbers in the header differ
        self.assertEqual(self.files(), ["f.scbf"])

    def test_to_another_file(self):
        self.build("f.scbf", words(100))
        before = self.digest("f.scbf")
        self.scbf("insert", "f.scbf", "-o", "g.scbf", stdin=b"new\n")
        self.scbf("remove", "f.scbf", "-o", "h.scbf", stdin=lines(words(100)))
        self.assertEqual(self.digest("f.scbf"), before)
        self.assertEqual(self.scbf("query", "g.scbf", stdin=b"new\n"), b"new\n")
        self.assertEqual(self.scbf_json("info", "h.scbf")["fill"], 0)

    def test_removing_half_leaves_the_other_half(self):
        self.build("f.scbf", words(10_000))
        half, rest = words(10_000)[::2], words(10_000)[1::2]
        report = self.scbf_json("remove", "f.scbf", stdin=lines(half))
        self.assertEqual((report["removed"], report["absent"]), (5000, 0))
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=lines(rest)), b"5000\n")

    def test_absent_keys_are_reported_and_left_alone(self):
        self.build("f.scbf", words(100), "--fpr", "1e-5")
        payload = self.read("f.scbf")[4096:]
        report = self.scbf_json("remove", "f.scbf", stdin=lines(words(10, "no")),
                                code=NOTHING_FOUND)
        self.assertEqual((report["removed"], report["absent"]), (0, 10))
        self.assertEqual(self.read("f.scbf")[4096:], payload)
        # Twice in one batch: present the first time, absent the second time.
        report = self.scbf_json("remove", "f.scbf", "--max-absent", 2,
                                stdin=b"word-1\nword-1\nno-1\n")
        self.assertEqual((report["removed"], report["absent"]), (1, 2))
        self.assertIn("removed 1, absent 0",
                      self.scbf("remove", "f.scbf", stdin=b"word-2\n").decode())

    def test_too_many_absent_keys(self):
        self.build("f.scbf", words(100), "--fpr", "1e-5")
        before = self.digest("f.scbf")
        keys = words(10) + words(10, "no")
        self.assertEqual(self.scbf_json("remove", "f.scbf", "-o", "g.scbf",
                                        stdin=lines(keys))["removed"], 10)  # half of them: just so
        for options, more in (([], words(1, "not")), (["--max-absent", 9], []),
                              (["--max-absent", "40%"], []), (["--max-absent", 0], []),
                              (["--max-absent", "0%"], [])):
            self.scbf("remove", "f.scbf", "--absent", "list", *options, "--force",
                      stdin=lines(keys + more), code=CORRUPT)
            self.assertIn(f"{10 + len(more)} of {20 + len(more)} keys are absent", self.err)
            self.assertIn("nothing is removed", self.err)
            self.assertEqual(self.digest("f.scbf"), before)
            self.assertEqual(self.read("list"), lines(words(10, "no") + more))
        # A share is exact, although 29 % of 100 are less than 29 in binary.
        for share in (29, 57, 58):
            keys_of_100 = lines(words(100 - share) + words(share, "no"))
            self.scbf("remove", "f.scbf", "--max-absent", f"{share - 1}%", "-o", "g.scbf", "--force", stdin=keys_of_100,
                      code=CORRUPT)
            self.scbf("remove", "f.scbf", "--max-absent", f"{share}%", "-o", "g.scbf", "--force", stdin=keys_of_100)
        report = self.scbf_json("remove", "f.scbf", "--max-absent", "100%",
                                stdin=lines(keys + words(1, "not")))
        self.assertEqual((report["removed"], report["absent"]), (10, 11))
        self.assertIn("11 of 21 keys are absent", self.err)
        self.scbf("remove", "f.scbf", "--max-absent", 0, stdin=lines(words(5, "no")), code=CORRUPT)
        self.assertNotIn("the other", self.err)  # there is none
        self.scbf("remove", "f.scbf", stdin=lines(words(5, "no")), code=NOTHING_FOUND)
        for bad in ("-1", "x", "101%", "half", "0.5", "%", "1e-3%x"):
            self.refused("remove", "f.scbf", f"--max-absent={bad}",
                         mentions=[f"--max-absent '{bad}': must be a whole number of keys, or a share of them from "
                                   "0% to 100% such as 50%"])

    def test_the_list_of_absent_keys(self):
        self.build("f.scbf", words(100), "--fpr", "1e-5")
        data = lines([b"no-1", *words(50), b"no-2", b"word-3"])
        self.assertEqual(self.scbf("remove", "f.scbf", "--absent", "-", stdin=data),
                         b"no-1\nno-2\nword-3\n")
        self.assertIn("removed 50, absent 3", self.err)
        self.scbf("gen", "--keys", 10, "--kind", "sequential", "-o", "n.u64")
        self.scbf("build", "--keys", "u64", "--fpr", "1e-6", "-o", "n.scbf", "n.u64")
        self.assertEqual(self.scbf("remove", "n.scbf", "--absent", "-", "--keys", "decimal",
                                   stdin=b"3\n77\n4\n"), b"77\n")

    def test_the_list_of_new_keys(self):
        data = lines([b"new-1", *words(50), b"new-2", b"new-1", b"word-3"])
        for options in (["--fpr", "1e-5"], ["--scalable", "--fpr", "1e-5"],
                        ["--bits", "--fpr", "1e-5"], ["--layout", "ranked", "--fpr", "1e-5"]):
            self.build("f.scbf", words(100), *options, "--force")
            self.assertEqual(self.scbf("insert", "f.scbf", "--new", "-", stdin=data), b"new-1\nnew-2\n")
            self.assertIn("inserted 2, present 52; 102 keys now", self.err)
            report = self.scbf_json("insert", "f.scbf", "--new", "list", "--force", stdin=data)
            self.assertEqual((report["inserted"], report["present"]), (0, 54))
            self.assertEqual(self.read("list"), b"")
            self.assertEqual(report["keys_in_filter"], 102)
        # What was new can be removed again, and nothing else goes.
        self.build("f.scbf", words(100), "--fpr", "1e-5", "--force")
        before = self.digest("f.scbf")
        self.scbf("insert", "f.scbf", "-o", "more.scbf", "--new", "list", "--force", stdin=data)
        self.scbf("remove", "more.scbf", "list", "--max-absent", 0, "-o", "less.scbf")
        self.scbf("subtract", "less.scbf", "f.scbf", "-o", "nothing.scbf")
        self.assertEqual(self.scbf_json("info", "nothing.scbf")["fill"], 0)
        self.assertEqual(self.digest("f.scbf"), before)
        # A filter and a list at one place, and two things on standard output.
        for options in (["-o", "-", "--new", "-"], ["--json", "--new", "-"], ["-o", "x", "--new", "./x"]):
            self.refused("insert", "f.scbf", *options, stdin=data)
        # Records of another kind are written as they came.
        self.scbf("gen", "--keys", 10, "--kind", "sequential", "-o", "n.u64")
        self.scbf("build", "--keys", "u64", "--fpr", "1e-6", "-o", "n.scbf", "n.u64")
        self.assertEqual(self.scbf("insert", "n.scbf", "--new", "-", "--keys", "decimal",
                                   stdin=b"3\n77\n77\n4\n"), b"77\n")

    def test_a_list_that_is_a_link_to_the_filter(self):
        self.build("f.scbf", words(100))
        os.mkdir(self.path("folder"))
        os.symlink("folder/second", self.path("link"))
        os.symlink("../out.scbf", self.path("folder/second"))  # which is not there yet
        for verb, option in (("insert", "--new"), ("remove", "--absent")):
            for names in (("link", "out.scbf"), ("out.scbf", "link")):
                self.refused(verb, "f.scbf", option, names[0], "-o", names[1], stdin=b"x\n", code=USAGE,
                             mentions=["the filter is written there"])
        self.scbf("insert", "f.scbf", "--new", "link", "-o", "else.scbf", stdin=b"x\n")
        self.assertEqual(self.read("out.scbf"), b"x\n")

    def test_a_filter_whose_links_lead_nowhere(self):
        self.build("f.scbf", words(100))
        os.symlink("b", self.path("a"))
        os.symlink("a", self.path("b"))
        for name, says in (("a", "'a': cannot write: Too many levels of symbolic links"),
                           ("n" * 300, "File name too long")):
            for option in ([], ["--absent", "list"]):
                self.scbf("remove", "f.scbf", *option, "-o", name, stdin=b"x\n", code=INPUT_OUTPUT)
                self.assertIn(says, self.err)
                self.assertNotIn("filesystem error", self.err)
        self.assertFalse(os.path.exists(self.path("list")))

    def test_a_list_that_nobody_reads_to_its_end(self):
        self.scbf("build", "--capacity", 200_000, "--fpr", "1e-5", "-o", "f.scbf", stdin=b"")
        before = self.digest("f.scbf")
        keys = lines(words(200_000, "a-new-and-rather-long-key"))
        for verb, option in (("insert", "--new"), ("remove", "--absent")):
            process = self.start(verb, "f.scbf", option, "-", "--threads", 1, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.close()
            _, err = process.communicate(keys, timeout=60)
            self.assertEqual(process.returncode, INPUT_OUTPUT)
            self.assertIn(b"the reader of the list has closed it", err)
            self.assertEqual(self.digest("f.scbf"), before)
        # Nor is a list worth anything without its filter.
        for verb, *options in (("insert", "--new", "list"),
                               ("remove", "--absent", "list", "--max-absent", "100%")):
            process = self.start(verb, "f.scbf", "-o", "-", *options, "--force", stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.close()
            _, err = process.communicate(keys, timeout=60)
            self.assertEqual(process.returncode, INPUT_OUTPUT)
            self.assertIn(b"the reader of the filter has closed it", err)

    def test_a_delta_that_is_removed_twice(self):
        # docs/maths.md, "Removing what was not inserted": how many keys go with each false positive.
        self.scbf("gen", "--keys", 220_000, "-o", "all.u64")
        data = self.read("all.u64")
        self.write("delta.u64", data[:160_000])
        self.write("rest.u64", data[160_000:])
        self.scbf("gen", "--keys", 40_000, "--seed", 1, "-o", "absent.u64")
        # In a filter that grows, other stages claim keys that would be false positives in theirs, so
        # hardly any of them is removed a second time.
        for shape, again in ((["--fpr", "1%"], "delta.u64"),
                             (["--fpr", "1%", "--layout", "split"], "delta.u64"),
                             (["--fpr", "1%", "--groups", 2], "delta.u64"),
                             (["--fpr", "1%", "--scalable", "--capacity", "30k"], "absent.u64")):
            self.scbf("build", "--keys", "u64", *shape, "-o", "f.scbf", "all.u64")
            self.scbf("remove", "f.scbf", "delta.u64")
            rest = int(self.scbf("query", "f.scbf", "--count", "rest.u64"))
            before = self.digest("f.scbf")
            self.scbf("remove", "f.scbf", again, "--max-absent", 0, code=CORRUPT)
            self.assertEqual(self.digest("f.scbf"), before)
            report = self.scbf_json("remove", "f.scbf", again, "--max-absent", "100%")
            self.assertIn("are absent now", self.err)
            lost = rest - int(self.scbf("query", "f.scbf", "--count", "rest.u64"))
            expected = report["removed"] * report["lost_per_false_removal"]
            self.assertGreater(expected, 100)
            # Each false positive loses several keys together, so the variance is a few times the mean.
            self.assertLess(abs(lost - expected), 5 * (4 * expected) ** 0.5 + 0.05 * expected,
                            f"{shape}: {lost}, not {expected}")

    def test_nothing_to_remove_is_no_failure(self):
        self.build("f.scbf", words(10))
        self.assertEqual(self.scbf_json("remove", "f.scbf", stdin=b"")["removed"], 0)

    def test_more_keys_than_planned_are_taken_with_a_warning(self):
        report = self.scbf_json("build", "--capacity", 100, "--max-fpr", "100%", "-o", "f.scbf",
                                stdin=lines(words(1000)))
        self.assertEqual(report["keys"], 1000)
        self.assertGreater(report["estimated_fpr"], 0.5)
        self.assertIn(" distinct keys in a filter for 100", self.err)
        self.assertEqual(self.scbf("query", "f.scbf", "--count", stdin=lines(words(1000))),
                         b"1000\n")
        self.build("g.scbf", words(100))
        self.assertEqual(self.err, "")
        self.scbf("insert", "g.scbf", stdin=lines(words(100, "more")))
        self.assertIn(" distinct keys in a filter for 100", self.err)

    def test_what_says_yes_to_most_keys_is_not_written(self):
        self.refused("build", "--capacity", 100, "-o", "new.scbf", stdin=lines(words(1000)), code=CORRUPT,
                     mentions=["'new.scbf': with 1,000 keys", "about 98.6 %", "--max-fpr allows 50 %: nothing was written"])
        self.assertNotIn("new.scbf", self.files())
        self.build("f.scbf", words(100))
        before = self.digest("f.scbf")
        self.write("more", lines(words(1000, "more")))
        self.refused("insert", "f.scbf", "more", code=CORRUPT, mentions=["'f.scbf'", "--max-fpr allows 50 %"])
        self.refused("insert", "f.scbf", "more", "--new", "list", code=CORRUPT, mentions=["nothing was written"])
        self.assertNotIn("list", self.files())
        self.assertEqual(self.digest("f.scbf"), before)
        self.refused("insert", "f.scbf", "--max-fpr", "2", "more", mentions=["--max-fpr '2'"])
        self.write("many", lines(words(400, "more")))
        self.scbf("insert", "f.scbf", "--max-fpr", "0.02", "many", "--new", "-", code=CORRUPT)
        self.assertIn("it was not written, and the keys that were listed are not in it", self.err)
        self.assertEqual(self.digest("f.scbf"), before)
        grows = ("--capacity", 100, "--scalable", "--fpr", "3%")
        self.refused("build", *grows, "--max-fpr", "0.1%", "-o", "s.scbf", "more", code=CORRUPT,
                     mentions=["would be up to 1.76 %, and --max-fpr allows 0.1 %"])
        self.scbf("build", *grows, "--max-fpr", "3%", "-o", "s.scbf", "more")
        self.scbf("insert", "f.scbf", "--max-fpr", "0.999", "more")
        self.assertIn(" distinct keys in a filter for 100", self.err)
        self.assertIn("--capacity 1100", self.err)  # so full that the estimate says little
        self.write("same", lines(words(100) * 2))
        self.build("g.scbf", words(100))
        self.scbf("insert", "g.scbf", "same")  # repeated keys take no room
        self.assertEqual(self.err, "")

    def test_the_way_out_where_a_high_rate_was_planned(self):
        self.write("keys", lines(words(1000)))
        def way_out():
            return re.search(r"60 % was planned; --max-fpr ([0-9]+%) accepts the filter", self.err)[1]
        build = ["build", "--fpr", "60%", "keys", "-o", "f.scbf"]
        self.scbf(*build, code=CORRUPT)
        self.scbf(*build, "--max-fpr", way_out())
        self.scbf("build", "--fpr", "60%", "--capacity", 1000, "-o", "f.scbf", stdin=b"a\n")
        self.scbf("build", "--fpr", "60%", "--capacity", 1000, "--max-fpr", 1, "-o", "g.scbf", "keys")
        for change in (["insert", "f.scbf", "keys"], ["merge", "f.scbf", "g.scbf"],
                       ["bank", "--fpr", "60%", "-o", "b.bank", "keys"],
                       ["bank", "--filters", "-o", "b.bank", "g.scbf"]):
            self.scbf(*change, code=CORRUPT)
            self.scbf(*change, "--max-fpr", way_out())
        # A filter that is too small for such a rate, too.
        small = ["build", "--fpr", "60%", "keys", "-o", "f.scbf", "--capacity"]
        self.refused(*small, 200, code=CORRUPT, mentions=["build a larger filter", ", with --max-fpr 60%\n"])
        self.scbf(*small, 1100, "--max-fpr", "60%")

    def test_a_full_filter_says_how_much_fitted(self):
        fixed = ("--scalable", "--policy", "fixed", "--memory", "8kB", "--stage-fpr", "1%", "--fpr", "3%")
        self.write("many", lines(words(9000)))
        self.refused("build", *fixed, "-o", "new.scbf", "many", code=INPUT_OUTPUT,
                     mentions=["'new.scbf': all 3 stages are full", " keys of the input fitted, and nothing was written"])
        self.assertNotIn("new.scbf", self.files())
        self.scbf("build", *fixed, "-o", "f.scbf", stdin=lines(words(1000)))
        before = self.digest("f.scbf")
        self.refused("insert", "f.scbf", "many", code=INPUT_OUTPUT, mentions=["'f.scbf': all 3 stages are full"])
        fitted = int(re.search(r"; ([0-9,]+) keys of the input fitted", self.err)[1].replace(",", ""))
        self.assertEqual(self.digest("f.scbf"), before)
        self.write("fit", lines(words(9000)[:fitted]))
        self.scbf("insert", "f.scbf", "fit")
        self.assertEqual(self.scbf_json("info", "f.scbf", "--header")["keys"], 1000 + fitted)

    def test_no_warning_where_the_rate_is_below_the_plan(self):
        self.build("f.scbf", words(100))
        self.scbf("insert", "f.scbf", stdin=lines(words(100)))  # the same again
        self.assertEqual(self.err, "")

    def test_links_and_permissions_survive(self):
        self.build("real.scbf", words(10))
        os.chmod(self.path("real.scbf"), 0o640)
        os.symlink("real.scbf", self.path("link.scbf"))
        self.scbf("insert", "link.scbf", stdin=b"new\n")
        self.assertTrue(os.path.islink(self.path("link.scbf")))
        self.assertEqual(os.stat(self.path("real.scbf")).st_mode & 0o777, 0o640)
        self.assertEqual(self.scbf("query", "real.scbf", stdin=b"new\n"), b"new\n")


class MergeAndSubtract(CommandTest):
    def setUp(self):
        super().setUp()
        for i, name in enumerate(("a", "b", "c")):
            data = lines(words(300, name))
            self.scbf("build", "--capacity", 1000, "-o", f"{name}.scbf", stdin=data)

    def test_merge_equals_inserting_everything(self):
        everything = lines(words(300, "a") + words(300, "b") + words(300, "c"))
        self.scbf("build", "--capacity", 1000, "-o", "all.scbf", stdin=everything)
        report = self.scbf_json("merge", "a.scbf", "b.scbf", "c.scbf", "-o", "sum.scbf")
        self.assertEqual((report["keys"], report["filters"]), (900, 2))
        self.assertEqual(self.digest("sum.scbf"), self.digest("all.scbf"))

    def test_what_says_yes_to_most_keys_is_not_written(self):
        for name in ("f", "g"):
            self.scbf("build", "--capacity", 100, "-o", name + ".scbf", stdin=lines(words(180, name)))
        before = self.digest("f.scbf")
        self.scbf("project", "f.scbf", "-o", "bits")
        for into in ("f.scbf", "bits"):
            for options in ([], ["--max-fpr", "10%"], ["-o", "x.scbf"]):
                self.refused("merge", into, "g.scbf", *options, code=CORRUPT,
                             mentions=[f"'{into}': with 360 keys", "--max-fpr allows", "nothing was written"])
        self.assertEqual(self.digest("f.scbf"), before)
        self.assertNotIn("x.scbf", self.files())
        self.scbf("merge", "f.scbf", "g.scbf", "--max-fpr", 1, "-o", "x.scbf")
        self.assertIn(" distinct keys in a filter for 100", self.err)
        self.scbf("subtract", "x.scbf", "g.scbf", "-o", "y.scbf")  # which goes down
        self.refused("subtract", "x.scbf", "g.scbf", "--max-fpr", 1)

    def test_a_filter_and_itself(self):
        for verb in ("merge", "subtract"):
            self.refused(verb, "a.scbf", "./a.scbf",
                         mentions=["scbf: 'a.scbf': it is also the input './a.scbf'; use -o OUT\n"])
            self.refused(verb, "b.scbf", "a.scbf", "-o", "a.scbf",
                         mentions=["scbf: -o 'a.scbf': it is also the input 'a.scbf'; write to another file\n"])
        for verb in ("insert", "remove"):
            self.refused(verb, "a.scbf", "a.scbf",
                         mentions=["'a.scbf': it is also the input 'a.scbf'; INPUT must be a file of keys\n"])
        self.write("keys", b"a\n")
        self.refused("insert", "a.scbf", "keys", "-o", "keys",
                     mentions=["-o 'keys': it is also the input 'keys'; write to another file\n"])
        self.scbf("bank", "-o", "bank", "keys")
        self.refused("bank", "--to", "bank", "bank",
                     mentions=["'bank': it is also the input 'bank'; FILE must be another file\n"])
        self.scbf("project", "a.scbf", "-o", "bits")
        self.refused("apply", "bits", "bits", mentions=["'bits': it is also the input 'bits'; DELTA must be another file\n"])
        self.refused("delta", "bits", "bits", "-o", "d",
                     mentions=["'bits': it is also the input 'bits'; FILTER must be another file"])

    def test_subtract_is_the_inverse(self):
        before = self.read("a.scbf")
        self.scbf("merge", "a.scbf", "b.scbf")
        self.assertNotEqual(self.read("a.scbf"), before)
        report = self.scbf_json("subtract", "a.scbf", "b.scbf")
        self.assertEqual((report["keys"], report["inexact_counters"]), (300, 0))
        self.assertEqual(self.read("a.scbf")[4096:], before[4096:])

    def test_what_is_not_contained_cannot_be_subtracted(self):
        before = self.digest("a.scbf")
        self.scbf("subtract", "a.scbf", "b.scbf", code=CORRUPT)
        self.assertIn("below zero", self.err)
        self.assertEqual(self.digest("a.scbf"), before)

    def test_saturated_counters_are_reported(self):
        self.scbf("build", "--capacity", 1000, "-o", "many.scbf", stdin=b"often\n" * 20)
        self.scbf("merge", "a.scbf", "many.scbf")
        report = self.scbf_json("subtract", "a.scbf", "many.scbf")
        self.assertEqual(report["inexact_counters"], 8)
        self.assertIn("could not be lowered", self.err)

    def test_incompatible_filters(self):
        before = self.digest("a.scbf")
        others = {
            "seed": ["--capacity", 1000, "--seed", 5],
            "capacity": ["--capacity", 5000],
            "layout": ["--capacity", 1000, "--layout", "split"],
        }
        for name, options in others.items():
            self.scbf("build", *options, "-o", "other.scbf", stdin=b"x\n")
            for verb in ("merge", "subtract"):
                self.scbf(verb, "a.scbf", "b.scbf", "other.scbf", code=CORRUPT)
                self.scbf(verb, "a.scbf", "other.scbf", "-o", "new.scbf", code=CORRUPT)
                self.assertIn("other.scbf", self.err)
        self.assertEqual(self.digest("a.scbf"), before)
        self.assertEqual(self.files(), ["a.scbf", "b.scbf", "c.scbf", "other.scbf"])

    def test_kinds_of_keys_do_not_mix(self):
        self.scbf("build", "--keys", "u64", "--capacity", 1000, "-o", "n.scbf", stdin=b"8 bytes!")
        self.scbf("merge", "a.scbf", "n.scbf", code=CORRUPT)
        self.assertIn("--force", self.err)
        self.scbf("merge", "a.scbf", "n.scbf", "--force")

    def test_both_kinds_of_keys(self):
        said = "the filter holds keys of both kinds: say by --keys which ones 'scbf query' is to ask for\n"
        self.scbf("build", "--capacity", 1000, "-o", "none.scbf", stdin=b"")
        self.scbf("build", "--keys", "u64", "--capacity", 1000, "-o", "no_numbers.scbf", stdin=b"")
        self.write_u64("n.u64", range(100, 103))
        self.scbf("build", "--keys", "u64", "--capacity", 1000, "-o", "n.scbf", "n.u64")
        for arguments in (["merge", "a.scbf", "n.scbf"], ["merge", "n.scbf", "a.scbf"],
                          ["merge", "a.scbf", "b.scbf", "n.scbf", "c.scbf"],
                          ["insert", "a.scbf", "--keys", "u64", "n.u64"]):
            with self.subTest(arguments=arguments):
                self.scbf(*arguments, "--force", "-o", "both.scbf")
                self.assertIn(said, self.err)
                notes = self.scbf_json("info", "both.scbf")["metadata"]
                self.assertEqual((notes.get("keys"), notes["capacity"]), (None, 1000))
                self.assertEqual(self.scbf("query", "both.scbf", "--keys", "decimal", stdin=b"101\n"), b"101\n")
                self.assertEqual(self.scbf("query", "both.scbf", "--keys", "lines", stdin=b"a-1\n"), b"a-1\n")
                self.assertEqual(self.err, "")
        # Keys of a filter that notes no kind may be of either.
        for into, other in (("a.scbf", "both.scbf"), ("n.scbf", "both.scbf")):
            self.scbf("merge", into, other, "-o", "x.scbf")
            self.assertEqual(self.err, f"scbf: {said}".replace("holds", "may hold"))
            self.assertNotIn("keys", self.scbf_json("info", "x.scbf")["metadata"])
        self.scbf("merge", "a.scbf", "both.scbf", "n.scbf", "--force", "-o", "x.scbf")
        self.assertEqual(self.err, f"scbf: {said}")
        self.scbf("merge", "none.scbf", "both.scbf", "-o", "x.scbf")
        self.assertNotIn("keys", self.scbf_json("info", "x.scbf")["metadata"])
        for members in (["both.scbf", "a.scbf"], ["a.scbf", "both.scbf"], ["both.scbf", "n.scbf"]):
            self.scbf("bank", "--filters", "-o", "x.bank", *members)
            self.assertEqual(self.err, "scbf: members may have keys of both kinds: say by --keys which ones "
                                       "'scbf find' is to ask for\n")
            self.assertNotIn("keys", self.scbf_json("info", "x.bank")["metadata"])
        self.scbf("bank", "--filters", "-o", "x.bank", "both.scbf")
        self.assertEqual(self.err, "")
        self.refused("bank", "--filters", "-o", "x.bank", "both.scbf", "a.scbf", "n.scbf", code=CORRUPT,
                     mentions=["--force combines them"])
        # Where there is only one kind, it is noted.
        for arguments, kind in ((["merge", "a.scbf", "no_numbers.scbf"], "lines"),
                                (["merge", "none.scbf", "n.scbf", "no_numbers.scbf"], "u64"),
                                (["insert", "none.scbf", "--keys", "u64", "n.u64"], "u64"),
                                (["subtract", "a.scbf", "no_numbers.scbf"], "lines"),
                                (["merge", "a.scbf", "b.scbf"], "lines")):
            with self.subTest(arguments=arguments):
                self.scbf(*arguments, "--force", "-o", "one.scbf")
                self.assertEqual(self.err, "")
                self.assertEqual(self.scbf_json("info", "one.scbf")["metadata"]["keys"], kind)


class Build(CommandTest):
    def test_same_bytes_whatever_computes(self):
        self.write("in.txt", lines(words(30_000)))
        for layout in ("split", "split_block"):
            digests = set()
            for options in (["--backend", "scalar"], ["--threads", 1], ["--threads", 2],
                            ["--backend", "simd", "--scratch", "16MiB"]):
                self.scbf("build", "--layout", layout, "--seed", "0x10", *options, "-o", "f.scbf",
                          "in.txt")
                digests.add(self.digest("f.scbf"))
            self.assertEqual(len(digests), 1)

    def test_through_a_pipe(self):
        data = lines(words(100))
        piped = self.scbf("build", "--capacity", 100, "-o", "-", stdin=data)
        self.scbf("build", "--capacity", 100, "-o", "f.scbf", stdin=data)
        self.assertEqual(piped, self.read("f.scbf"))
        self.scbf("build", "--capacity", 100, "-o", "-", "--json", stdin=data, code=USAGE)

    def test_an_existing_file_is_replaced(self):
        self.write("f.scbf", "something else")
        self.build("f.scbf", words(10), "--force")
        self.scbf("verify", "f.scbf")
        self.assertEqual(self.files(), ["f.scbf"])

    def test_memory_instead_of_rate_or_capacity(self):
        data = lines(words(1000))
        report = self.scbf_json("build", "--capacity", 1000, "--memory", "4KiB", "-o", "f.scbf",
                                stdin=data)
        self.assertLessEqual(report["bytes"], 4096)
        report = self.scbf_json("build", "--fpr", "1%", "--memory", "64KiB", "-o", "f.scbf",
                                stdin=data)
        self.assertLessEqual(report["bytes"], 65536)
        self.assertGreater(report["capacity"], 10_000)
        self.scbf("build", "--capacity", 1000, "--fpr", "1%", "--memory", "1KiB", "-o", "f.scbf",
                  stdin=data, code=USAGE)
