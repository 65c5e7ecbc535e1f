# SPDX-License-Identifier: Apache-2.0
"""Filters for readers: bits, compressed files, and deltas."""

import fcntl
import os
import resource
import subprocess

from support import CORRUPT, INPUT_OUTPUT, OK, USAGE, CommandTest, lines, words


class Bits(CommandTest):
    """Filters of bits: made from counters, and asked like them."""

    def setUp(self):
        super().setUp()
        self.keys = words(5000)
        self.build("f.scbf", self.keys[:2500], "--fpr", "1%")

    def test_a_projection_answers_like_the_counters(self):
        asked = lines(self.keys)
        want = self.scbf("query", "f.scbf", stdin=asked)
        self.assertGreater(len(want), 20_000)
        report = self.scbf_json("project", "f.scbf", "-o", "b.scbf")
        self.assertEqual((report["keys"], report["stages"]), (2500, 1))
        self.assertEqual(4 * report["bytes"], self.scbf_json("info", "f.scbf")["bytes"])
        self.assertLess(os.path.getsize(self.path("b.scbf")),
                        os.path.getsize(self.path("f.scbf")) / 2)
        for options in (["b.scbf"], ["b.scbf", "--map"], ["f.scbf", "--map"]):
            self.assertEqual(self.scbf("query", *options, stdin=asked), want)
        self.write("asked", asked)
        for file in ("b.scbf", "f.scbf"):
            self.assertEqual(self.scbf("query", "-", "asked", stdin=self.read(file)), want)
        self.scbf("verify", "b.scbf", "f.scbf")
        self.scbf("project", "b.scbf", "-o", "again.scbf")
        self.assertEqual(self.read("again.scbf"), self.read("b.scbf"))
        self.assertEqual(self.scbf("project", "f.scbf", "-o", "-"), self.read("b.scbf"))
        self.assertIn("the bits of 2,500 keys", self.err)

    def test_numbers_and_stages(self):
        self.write_u64("n.u64", range(3000))
        self.scbf("build", "--keys", "u64", "--scalable", "--capacity", 300, "-o", "s.scbf", "n.u64")
        self.scbf("project", "s.scbf", "-o", "b.scbf")
        self.write_u64("asked", range(0, 9000, 3))
        self.assertEqual(self.scbf("query", "b.scbf", "asked"), self.scbf("query", "s.scbf", "asked"))

    def test_bits_cannot_be_counted_or_changed(self):
        self.scbf("project", "f.scbf", "-o", "b.scbf")
        before = self.read("b.scbf")
        for verb, said in (("remove", "no key can be removed"), ("count", "without counters")):
            self.refused(verb, "b.scbf", stdin=b"word-1\n", code=CORRUPT,
                         mentions=["a filter of bits", said])
        self.refused("subtract", "b.scbf", "f.scbf", code=CORRUPT,
                     mentions=["a filter of bits", "nothing can be subtracted"])
        self.refused("merge", "f.scbf", "b.scbf", code=CORRUPT,
                     mentions=["'b.scbf': a filter of bits", "'scbf project'"])
        self.assertEqual(self.read("b.scbf"), before)

    def test_bits_are_built_and_inserted_into_as_counters_are(self):
        self.write("keys", lines(self.keys[:2500]))
        report = self.scbf_json("build", "--bits", "--fpr", "1%", "-o", "b.scbf", "keys")
        self.assertEqual((report["kind"], report["keys"]), ("bits", 2500))
        self.scbf("project", "f.scbf", "-o", "p.scbf")
        self.assertEqual(self.read("b.scbf"), self.read("p.scbf"))
        more = lines(self.keys[2500:2600])
        for file in ("b.scbf", "f.scbf"):
            self.assertEqual(self.scbf_json("insert", file, stdin=more)["inserted"], 100)
        self.scbf("project", "f.scbf", "-o", "p.scbf")
        self.assertEqual(self.read("b.scbf"), self.read("p.scbf"))
        self.scbf("build", "--capacity", 2500, "--fpr", "1%", "-o", "g.scbf",
                  stdin=lines(self.keys[3000:4000]))
        self.scbf("merge", "b.scbf", "g.scbf")  # bits take the bits of counters
        self.scbf("merge", "f.scbf", "g.scbf")
        self.scbf("project", "f.scbf", "-o", "p.scbf")
        self.assertEqual(self.read("b.scbf"), self.read("p.scbf"))

    def test_the_memory_of_bits_is_theirs(self):
        for options in (["--fpr", "1%"], ["--scalable", "--policy", "fixed", "--stage-fpr", "0.1%", "--fpr", "1%"]):
            built = self.scbf_json("build", "--bits", "--memory", "100kB", *options, "-o", "b.scbf", "--force",
                                   stdin=b"x\n")
            self.assertLessEqual(built["bytes"], 100_000)
            self.assertGreater(built["bytes"], 90_000)

    def test_info_and_verify_say_what_a_file_holds(self):
        self.scbf("project", "f.scbf", "-o", "b.scbf")
        self.scbf("project", "f.scbf", "-o", "z.scbf", "--compress")
        for file, kind, compressed in (("f.scbf", "counters", False), ("b.scbf", "bits", False),
                                       ("z.scbf", "bits", True)):
            info = self.scbf_json("info", file)
            self.assertEqual((info["kind"], info["compressed"]), (kind, compressed))
            self.assertEqual(self.scbf_json("info", file, "--header")["kind"], kind)
            self.assertEqual(self.scbf_json("verify", file)[0]["kind"], kind)
        self.assertAlmostEqual(self.scbf_json("info", "f.scbf")["fill"],
                               self.scbf_json("info", "z.scbf")["fill"])
        self.assertIn(b"bits, for readers, compressed", self.scbf("info", "z.scbf"))

    def test_failures_leave_nothing(self):
        self.write("text", b"no filter\n")
        self.refused("project", "text", "-o", "b.scbf", code=CORRUPT, mentions=["not a filter"])
        self.refused("project", "f.scbf", "-o", "text", mentions=["--force"])
        self.refused("project", "f.scbf", "-o", "f.scbf", mentions=["also the input"])
        self.assertEqual(self.files(), ["f.scbf", "text"])


class Compressed(CommandTest):
    def test_files_are_smaller_and_answer_the_same(self):
        keys = words(300)
        for file, options in (("f.scbf", []), ("z.scbf", ["--compress"])):
            self.scbf("build", "--capacity", "100k", "--fpr", "1%", "-o", file, *options,
                      stdin=lines(keys))
        self.assertLess(20 * os.path.getsize(self.path("z.scbf")),
                        os.path.getsize(self.path("f.scbf")))
        asked = lines(words(1000))
        want = self.scbf("query", "f.scbf", stdin=asked)
        for arguments in (["z.scbf"], ["z.scbf", "--map"]):
            self.assertEqual(self.scbf("query", *arguments, stdin=asked), want)
        self.write("asked", asked)
        self.assertEqual(self.scbf("query", "-", "asked", stdin=self.read("z.scbf")), want)
        self.assertEqual(self.scbf("count", "z.scbf", stdin=asked),
                         self.scbf("count", "f.scbf", stdin=asked))
        # Changes keep the form, and give the counters that they give without it.
        for verb in ("insert", "remove"):
            for file in ("f.scbf", "z.scbf"):
                self.scbf(verb, file, stdin=lines(keys[:10]))
            self.assertTrue(self.scbf_json("info", "z.scbf")["compressed"])
            self.scbf("project", "f.scbf", "-o", "a.scbf", "--force")
            self.scbf("project", "z.scbf", "-o", "b.scbf", "--force")
            self.assertEqual(self.read("a.scbf"), self.read("b.scbf"))
        self.scbf("merge", "f.scbf", "z.scbf", "-o", "m.scbf", "--compress")
        self.assertTrue(self.scbf_json("info", "m.scbf")["compressed"])

    def test_damage_is_found(self):
        self.build("z.scbf", words(300), "--compress")
        data = bytearray(self.read("z.scbf"))
        data[-3] ^= 1
        self.write("z.scbf", bytes(data))
        for verb in ("verify", "info", "query", "insert"):
            self.refused(verb, "z.scbf", stdin=b"", code=CORRUPT, mentions=["checksum mismatch"])
        self.write("z.scbf", bytes(data[:-7]))
        self.refused("info", "z.scbf", "--header", code=CORRUPT, mentions=["truncated"])


class Deltas(CommandTest):
    def setUp(self):
        super().setUp()
        self.keys = words(5000)
        self.build("f.scbf", self.keys[:4000], "--fpr", "1%")
        self.scbf("project", "f.scbf", "-o", "published.scbf")

    def publish(self, name):
        return self.scbf_json("delta", "published.scbf", "f.scbf", "-o", name)

    def test_a_reader_follows_the_writer(self):
        first = self.publish("1.delta")
        self.assertEqual((first["whole"], first["epoch"], first["since"]), (True, 1, 0))
        self.write("reader.scbf", self.read("1.delta"))
        asked = lines(self.keys)
        for epoch in range(2, 6):
            part = slice(4000 + 10 * epoch, 4010 + 10 * epoch)
            self.scbf("insert", "f.scbf", stdin=lines(self.keys[part]))
            self.scbf("remove", "f.scbf", stdin=lines(self.keys[20 * epoch:20 * epoch + 5]))
            report = self.publish(f"{epoch}.delta")
            self.assertEqual((report["whole"], report["since"], report["epoch"]),
                             (False, epoch - 1, epoch))
            self.assertLess(report["bytes"], 800)
            self.assertEqual(report["bytes"], os.path.getsize(self.path(f"{epoch}.delta")))
            info = self.scbf_json("info", f"{epoch}.delta")
            self.assertEqual((info["kind"], info["since"], info["epoch"], info["changes"]),
                             ("delta", epoch - 1, epoch, report["changes"]))
            done = self.scbf_json("apply", "reader.scbf", f"{epoch}.delta")
            self.assertEqual((done["epoch"], done["changes"]), (epoch, report["changes"]))
            self.assertEqual(self.read("reader.scbf"), self.read("published.scbf"))
            self.assertEqual(self.scbf("query", "reader.scbf", stdin=asked),
                             self.scbf("query", "f.scbf", stdin=asked))
        # Several at once, from a pipe, into another file.
        late = self.scbf("apply", "-", "2.delta", "3.delta", "4.delta", "5.delta", "-o", "-",
                         stdin=self.read("1.delta"))
        self.assertEqual(late, self.read("published.scbf"))
        self.assertIn("epoch 5", self.err)

    def test_out_of_order_is_refused_and_changes_nothing(self):
        for epoch in (1, 2, 3):
            self.publish(f"{epoch}.delta")
            self.scbf("insert", "f.scbf", stdin=lines(self.keys[4000 + epoch:4001 + epoch]))
        self.write("reader.scbf", self.read("1.delta"))
        before = self.read("reader.scbf")
        for deltas, said in ((["3.delta"], "has epoch 1, the delta begins at 2"),
                             (["1.delta"], "the whole filter is of epoch 1"),
                             (["2.delta", "2.delta"], "has epoch 2, the delta begins at 1")):
            self.refused("apply", "reader.scbf", *deltas, code=CORRUPT,
                         mentions=["'reader.scbf' and '" + deltas[-1], said])
            self.assertEqual(self.read("reader.scbf"), before)
        self.scbf("apply", "reader.scbf", "2.delta", "3.delta")
        self.scbf("insert", "reader.scbf", stdin=b"mine\n")  # now it goes its own way
        self.assertIn("its epochs end here", self.err)
        self.publish("4.delta")
        self.refused("apply", "reader.scbf", "4.delta", code=CORRUPT, mentions=["has no epoch"])

    def test_other_files_are_refused(self):
        self.publish("1.delta")
        self.publish("2.delta")
        for arguments, said in ((["delta", "f.scbf", "published.scbf", "-o", "x"], "'scbf project'"),
                                (["apply", "f.scbf", "2.delta"], "'scbf project'"),
                                (["apply", "published.scbf", "f.scbf"], "no delta"),
                                (["query", "2.delta"], "a delta, from epoch 1 to 2"),
                                (["find", "2.delta"], "a delta, and no bank: 'scbf apply' applies it"),
                                (["insert", "2.delta"], "'scbf apply'"),
                                (["merge", "f.scbf", "2.delta"], "a delta")):
            self.refused(*arguments, stdin=b"", code=CORRUPT, mentions=[said])
        self.refused("delta", "published.scbf", "f.scbf", "-o", "f.scbf", code=USAGE,
                     mentions=["also"])
        self.refused("delta", "-", "f.scbf", "-o", "x", code=USAGE, stdin=self.read("published.scbf"),
                     mentions=["must be in a file"])
        before = self.digest("published.scbf")
        self.refused("delta", "published.scbf", "f.scbf", "-o", "2.delta", code=USAGE,
                     mentions=["-o '2.delta': it exists; --force replaces it"])
        self.assertEqual(self.digest("published.scbf"), before)
        self.write("text", b"no filter\n")
        self.refused("delta", "published.scbf", "f.scbf", "-o", "text", code=USAGE,
                     mentions=["--force"])
        self.assertEqual(self.scbf_json("info", "published.scbf")["epoch"], 2)
        self.scbf("verify", "published.scbf", "1.delta", "2.delta", code=OK)
        self.write("numbers", bytes(range(80)))
        self.scbf("build", "--keys", "u64", "--capacity", 100, "-o", "u64.scbf", "numbers")
        self.refused("delta", "published.scbf", "u64.scbf", "-o", "3.delta", code=CORRUPT,
                     mentions=["u64", "--force"])
        self.build("other.scbf", self.keys[:9])
        self.scbf("delta", "published.scbf", "other.scbf", "-o", "3.delta")
        self.assertIn("'other.scbf' is not of the shape of 'published.scbf': the delta is whole", self.err)

    def test_a_delta_that_another_command_made_meanwhile_stays(self):
        before = self.digest("published.scbf")
        with open(self.path("published.scbf"), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start("delta", "published.scbf", "f.scbf", "-o", "next.delta", stderr=subprocess.PIPE)
            self.assertIn(b"waiting", process.stderr.readline())
            self.write("next.delta", "of the other command")
        self.assertIn(b"'next.delta': cannot write: another command has made it meanwhile; --force",
                      process.stderr.read())
        self.assertEqual(process.wait(30), INPUT_OUTPUT)
        self.assertEqual(self.read("next.delta"), b"of the other command")
        self.assertEqual(self.digest("published.scbf"), before)
        self.assertEqual([name for name in self.files() if "tmp" in name], [])

    def test_a_delta_that_the_published_bits_do_not_follow_is_removed(self):
        self.scbf("delta", "published.scbf", "f.scbf", "-o", "1.delta")
        before = self.digest("published.scbf")
        self.scbf("insert", "f.scbf", stdin=b"new\n")
        for exists in (False, True):
            if exists:
                self.write("2.delta", self.read("1.delta"))
            # The delta fits below the limit, and the published bits do not.
            limit = os.path.getsize(self.path("published.scbf")) - 100
            process = self.run_raw("delta", "published.scbf", "f.scbf", "-o", "2.delta", *(["--force"] if exists else []),
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            self.assertEqual(process.returncode, INPUT_OUTPUT, process.err)
            self.assertEqual(self.digest("published.scbf"), before)
            self.assertEqual(os.path.exists(self.path("2.delta")), exists)
            self.assertEqual(b"'2.delta': do not send it: 'published.scbf' is still at" in process.err, exists)
