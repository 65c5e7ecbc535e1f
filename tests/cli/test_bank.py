# SPDX-License-Identifier: Apache-2.0
"""Banks: made of files of keys or of filters, asked, shown and verified."""

import gzip
import json
import os
import subprocess

from support import CORRUPT, INPUT_OUTPUT, NOTHING_FOUND, USAGE, CommandTest, lines, words

# So low that no other member is found by mistake.
RATE = ("--fpr", "1e-9")


class Banks(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("fruit.txt", "apple\nbanana\n")
        self.write("tools.txt", "hammer\nsaw\nboth\n")
        self.write("gems.gz", gzip.compress(b"ruby\nboth\n"))
        self.scbf("bank", *RATE, "-o", "b.bank", "fruit.txt", "tools.txt", "gems.gz")

    def find(self, keys, *options, bank="b.bank", **more):
        return self.scbf("find", bank, *options, stdin=keys, **more)

    def test_find(self):
        self.assertEqual(self.find(b"saw\nnothing\nboth\napple\nsaw\n"),
                         b"tools.txt\tsaw\ntools.txt\tboth\ngems.gz\tboth\nfruit.txt\tapple\ntools.txt\tsaw\n")
        self.assertEqual(self.find(b"saw\nnothing\n", "--invert"), b"nothing\n")
        self.assertEqual(self.find(b"saw\nboth\nnothing\n", "--count"), b"2\n")
        self.assertEqual(self.find(b"saw\nboth\nnothing\n", "--count", "--invert"), b"1\n")
        self.assertEqual(self.find(b"", code=NOTHING_FOUND), b"")
        self.assertEqual(self.find(b"nothing\n", code=NOTHING_FOUND), b"")
        self.assertEqual(self.find(b"saw\n", "--invert", code=NOTHING_FOUND), b"")
        self.assertEqual(self.find(b"saw\0no\0", "-0"), b"tools.txt\tsaw\0")
        report = json.loads(self.find(b"saw\nboth\nnothing\n", "--json"))
        self.assertEqual([report[k] for k in ("keys", "members", "present", "absent", "pairs")], [3, 3, 2, 1, 3])
        self.write("keys", b"saw\n")
        self.assertEqual(self.scbf("find", "-", "keys", stdin=self.read("b.bank")), b"tools.txt\tsaw\n")

    def test_numbers(self):
        self.write_u64("even.u64", range(0, 1000, 2))
        self.write_u64("odd.u64", range(1, 1000, 2))
        self.scbf("bank", *RATE, "--keys", "u64", "-o", "n.bank", "even.u64", "odd.u64")
        self.write_u64("keys", [7, 8, 5000])
        self.assertEqual(self.scbf("find", "n.bank", "keys"), b"odd.u64\t7\neven.u64\t8\n")
        self.assertEqual(self.find(b"10\n", "--keys", "decimal", bank="n.bank"), b"even.u64\t10\n")
        self.refused("find", "n.bank", "--keys", "lines",
                     mentions=["--keys 'lines': 'n.bank' was built from u64 keys"])
        self.refused("find", "b.bank", "--keys", "decimal",
                     mentions=["--keys 'decimal': 'b.bank' was built from lines keys"])

    def test_names(self):
        os.mkdir(self.path("folder"))
        strange = "folder/tab\tand\nline\\"
        self.write(strange, "x\n")
        self.scbf("bank", *RATE, "-o", "n.bank", strange, "fruit.txt")
        self.assertEqual(self.find(b"x\n", bank="n.bank"), b"folder/tab\\tand\\nline\\\\\tx\n")
        not_text = os.fsencode(self.folder) + b"/\xff.txt"
        with open(not_text, "wb") as file:
            file.write(b"y\n")
        self.scbf("bank", *RATE, "-o", "n.bank", "fruit.txt", os.fsdecode(b"\xff.txt"))
        self.assertEqual(self.find(b"y\n", bank="n.bank"), b"\xff.txt\ty\n")

    def test_shapes(self):
        many = lines(words(3000))
        self.write("many", many)
        for options in (["--capacity", "5000"], ["--scalable"], ["--scalable", "--capacity", "100"],
                        ["--layout", "split"], ["--layout", "ranked"], ["--seed", "7"], ["--compress"],
                        ["--threads", "1"], ["--scalable", "--layout", "split", "--compress"]):
            report = self.scbf_json("bank", "--fpr", "0.1%", *options, "-o", "s.bank", "many", "fruit.txt")
            self.assertEqual((report["members"], report["keys"], report["largest_added"]), (2, 3002, 3000), options)
            found = self.find(many, bank="s.bank")
            self.assertEqual(found.count(b"many\t"), 3000)
            self.assertLess(found.count(b"fruit.txt\t"), 30)
            info = self.scbf_json("info", "s.bank")
            self.assertEqual(info["seed"], 7 if "--seed" in options else 0)
            self.assertEqual(info["compressed"], "--compress" in options)
            self.assertEqual(info["policy"], "tightening" if "--scalable" in options else "one")
            self.assertEqual(info["metadata"].get("capacity"), None if "--scalable" in options else
                             5000 if "5000" in options else 3000)
            self.assertIn("s.bank: ok, a bank of 2 members", self.scbf("verify", "s.bank").decode())

    def test_the_same_bytes_as_filters_alone(self):
        for name in ("fruit", "tools"):
            self.scbf("build", "--capacity", "3", *RATE, "-o", f"{name}.scbf", f"{name}.txt")
        self.scbf("bank", "--filters", "-o", "f.bank", "fruit.scbf", "tools.scbf")
        self.scbf("bank", "--capacity", "3", *RATE, "-o", "k.bank", "fruit.txt", "tools.txt")
        for member, name in enumerate(("fruit", "tools")):
            alone = self.read(f"{name}.scbf")[4096:]
            for bank in ("f.bank", "k.bank"):
                offset = self.scbf_json("info", bank)["members"][member]["offset"] + 4096
                self.assertEqual(self.read(bank)[offset:offset + len(alone)], alone)
        self.assertEqual(self.find(b"saw\n", bank="f.bank"), b"tools.scbf\tsaw\n")
        self.assertEqual(self.scbf_json("info", "f.bank")["members"][0]["metadata"],
                         {"keys": "lines", "capacity": 3, "fpr": 1e-9, "name": "fruit.scbf"})

    def test_members_come_and_go(self):
        for options in ([], ["--compress"], ["--scalable"]):
            self.scbf("bank", *RATE, *options, "-o", "b.bank", "fruit.txt", "tools.txt", "gems.gz")
            self.scbf("bank", *RATE, *options, "-o", "few.bank", "fruit.txt", "tools.txt", "--force")
            self.write("more.txt", "bolt\n")
            report = self.scbf_json("bank", "--to", "b.bank", "more.txt")
            self.assertEqual([report[k] for k in ("file", "members", "added", "dropped", "keys")],
                             ["b.bank", 4, 1, 0, 1])
            self.assertEqual(self.find(b"bolt\nsaw\n"), b"more.txt\tbolt\ntools.txt\tsaw\n")
            self.scbf("bank", "--to", "b.bank", "--drop", "more.txt", "--drop", "tools.txt", "-o", "out.bank")
            self.assertEqual(self.find(b"bolt\nsaw\nruby\n", bank="out.bank"), b"gems.gz\truby\n")
            self.assertEqual(self.scbf_json("info", "out.bank")["compressed"], "--compress" in options)
            self.write("more.txt", "nut\n")
            self.assertIn("4 members (1 added, 1 dropped)",
                          self.scbf("bank", "--to", "b.bank", "--drop", "more.txt", "more.txt").decode())
            self.assertEqual(self.find(b"bolt\nnut\n"), b"more.txt\tnut\n")
            # As if it had been made so, but for the room for others.
            self.scbf("bank", "--to", "b.bank", "--drop", "more.txt", "--drop", "gems.gz")
            self.scbf("bank", "--to", "b.bank", "--drop", "tools.txt", "tools.txt")
            self.assertEqual(self.read("b.bank"), self.read("few.bank"))
            self.assertEqual(self.scbf("bank", "--to", "-", "--drop", "fruit.txt", "-o", "-",
                                       stdin=self.read("b.bank")),
                             self.scbf("bank", "--to", "few.bank", "--drop", "fruit.txt", "-o", "-"))

    def test_kinds_of_keys_that_are_added(self):
        self.write_u64("n.u64", range(3))
        self.scbf("build", *RATE, "--capacity", "3", "-o", "a.scbf", "fruit.txt")
        self.scbf("build", *RATE, "--capacity", "3", "--keys", "u64", "-o", "n.scbf", "n.u64")
        def kind(bank):
            return self.scbf_json("info", bank)["metadata"].get("keys")
        # A bank whose members have keys of both kinds does not get a kind when a member is replaced.
        self.scbf("bank", "--filters", "--force", "-o", "x.bank", "a.scbf", "n.scbf")
        self.scbf("bank", "--to", "x.bank", "--filters", "--drop", "a.scbf", "a.scbf")
        self.assertIsNone(kind("x.bank"))
        # A bank that has a kind loses it when keys of another kind come.
        self.scbf("bank", "--to", "b.bank", "--keys", "u64", "--force", "-o", "y.bank", "n.u64")
        self.assertIn("keys of both kinds", self.err)
        self.assertIsNone(kind("y.bank"))
        self.assertEqual(self.find(b"2\n", "--keys", "decimal", bank="y.bank"), b"n.u64\t2\n")
        self.assertEqual(self.scbf_json("bank", "--to", "b.bank", "--drop", "gems.gz", "--drop", "gems.gz")["dropped"], 1)
        # An empty bank takes the kind of its first members.
        self.scbf("bank", "--keys", "u64", *RATE, "-o", "n.bank", "n.u64")
        self.assertEqual(self.scbf_json("bank", "--to", "n.bank", "--drop", "n.u64")["key_kind"], "u64")
        self.assertEqual(kind("n.bank"), "u64")

    def test_numbers_are_names(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "bank.scbf")
        self.scbf("bank", "--to", golden, "--drop", "0", "-o", "x.bank")
        info = self.scbf_json("info", "x.bank")
        self.assertEqual([(m["number"], m["asked_always"], m["metadata"]) for m in info["members"]],
                         [(2, True, ""), (3, False, "both")])
        self.assertEqual(info["metadata"], {"sign": "✓"})
        self.scbf("bank", "--to", "x.bank", "fruit.txt")
        self.assertEqual([m["number"] for m in self.scbf_json("info", "x.bank")["members"]], [0, 2, 3])
        self.assertEqual(self.scbf_json("info", "x.bank")["metadata"], {"sign": "✓"})

    def test_filters_are_added(self):
        self.scbf("bank", "--capacity", "3", *RATE, "-o", "b.bank", "fruit.txt")
        self.scbf("build", "--capacity", "3", *RATE, "-o", "t.scbf", "tools.txt")
        self.scbf("bank", "--filters", "--to", "b.bank", "t.scbf")
        self.assertEqual(self.find(b"saw\napple\n"), b"t.scbf\tsaw\nfruit.txt\tapple\n")
        self.scbf("build", "--capacity", "1000", *RATE, "-o", "large.scbf", "tools.txt")
        before = self.digest("b.bank")
        self.refused("bank", "--filters", "--to", "b.bank", "large.scbf", code=CORRUPT,
                     mentions=["'b.bank' has split_block", "'large.scbf' split_block", "one shape and seed"])
        self.assertEqual(self.digest("b.bank"), before)

    def test_changes_that_are_refused(self):
        before = self.digest("b.bank")
        self.write_u64("n.u64", range(3))
        self.refused("bank", "--to", "b.bank", mentions=["no FILE to add, and no --drop NAME"])
        self.refused("bank", "--to", "b.bank", "n.u64", "n.u64", mentions=["n.u64", "is named twice"])
        self.refused("bank", "fruit.txt", mentions=["-o OUT or --to BANK is missing"])
        self.refused("bank", "-o", "x.bank", "--drop", "fruit.txt", mentions=["--drop goes with --to"])
        self.refused("bank", "--to", "b.bank", "--drop", "plum.txt",
                     mentions=["--drop 'plum.txt': 'b.bank' has no member of this name"])
        self.refused("bank", "--to", "b.bank", "fruit.txt", mentions=["'fruit.txt'", "--drop it to replace it"])
        self.refused("bank", "--to", "b.bank", "--capacity", "10", "n.u64", mentions=["do not go with --to: the bank has"])
        self.refused("bank", "--to", "b.bank", "--keys", "u64", "n.u64", mentions=["was built from lines keys"])
        self.refused("bank", "--to", "b.bank", "missing", code=INPUT_OUTPUT, mentions=["missing"])
        self.refused("bank", "--to", "missing", "fruit.txt", code=INPUT_OUTPUT, mentions=["missing"])
        self.refused("bank", "--to", "fruit.txt", "tools.txt", code=CORRUPT, mentions=["not a filter file"])
        self.refused("bank", "--to", "-", "--drop", "fruit.txt", stdin=self.read("b.bank"),
                     mentions=["standard input cannot be replaced"])
        self.refused("bank", "--to", "b.bank", "-o", "fruit.txt", "--drop", "fruit.txt", mentions=["--force"])
        self.assertEqual(self.digest("b.bank"), before)
        self.assertNotIn("x.bank", self.files())

    def test_filters_that_do_not_fit(self):
        self.scbf("build", "--capacity", "3", *RATE, "-o", "a.scbf", "fruit.txt")
        self.write_u64("n.u64", range(3))
        for options, why in ((["--capacity", "1000"], "all members have one shape and seed"),
                             (["--capacity", "3", "--seed", "5"], "all members have one shape and seed"),
                             (["--capacity", "3", "--bits"], "'a.scbf' has counters, 'other.scbf' has bits: all members are of one kind")):
            self.scbf("build", *RATE, *options, "-o", "other.scbf", "tools.txt", "--force")
            self.refused("bank", "--filters", "-o", "x.bank", "a.scbf", "other.scbf", code=CORRUPT,
                         mentions=["other.scbf", why])
        self.scbf("build", *RATE, "--capacity", "3", "--keys", "u64", "-o", "n.scbf", "n.u64")
        self.refused("bank", "--filters", "-o", "x.bank", "a.scbf", "n.scbf", code=CORRUPT,
                     mentions=["'a.scbf' holds lines keys, 'n.scbf' holds u64 keys; --force combines them"])
        self.scbf("bank", "--filters", "--force", "-o", "x.bank", "a.scbf", "n.scbf")
        self.refused("bank", "--filters", "--fpr", "1%", "-o", "y.bank", "a.scbf", mentions=["do not go with"])
        self.refused("bank", "--filters", "-o", "y.bank", "b.bank", code=CORRUPT, mentions=["a bank of filters"])
        self.refused("bank", "--filters", "-o", "y.bank", "fruit.txt", code=CORRUPT, mentions=["not a filter file"])
        self.assertNotIn("y.bank", self.files())

    def test_refused(self):
        before = self.digest("b.bank")
        self.refused("bank", "-o", "x.bank", mentions=["FILE"])
        self.refused("bank", "-o", "b.bank", "fruit.txt", "missing.txt", code=INPUT_OUTPUT, mentions=["missing.txt"])
        self.refused("bank", "-o", "fruit.txt", "fruit.txt", "tools.txt", mentions=["fruit.txt"])
        self.refused("bank", "-o", "tools.txt", "fruit.txt", mentions=["--force"])
        self.refused("bank", "-o", "x.bank", "-", stdin=b"a\n", mentions=["--capacity is missing"])
        self.refused("bank", "-o", "x.bank", "fruit.txt", "b.bank", code=INPUT_OUTPUT, mentions=["b.bank", "a filter"])
        self.refused("bank", "--fpr", "2", "-o", "x.bank", "fruit.txt", mentions=["--fpr"])
        self.scbf("build", "-o", "f.scbf", "fruit.txt")
        self.refused("find", "f.scbf", code=CORRUPT, mentions=["a filter, and no bank"])
        self.refused("find", "fruit.txt", code=CORRUPT, mentions=["not a filter file"])
        self.refused("find", "missing.bank", code=INPUT_OUTPUT, mentions=["missing.bank"])
        for verb in ("query", "count", "insert", "remove"):
            self.refused(verb, "b.bank", "fruit.txt", code=CORRUPT, mentions=["scbf: 'b.bank': a bank", "'scbf find'"])
        for verb in ("merge", "subtract"):
            self.refused(verb, "f.scbf", "b.bank", code=CORRUPT, mentions=["b.bank", "'scbf find'"])
        self.assertEqual(self.digest("b.bank"), before)
        self.scbf("bank", "--capacity", "5", "-o", "b.bank", "-", stdin=b"saw\n")  # replaces a bank without --force
        self.assertEqual(self.find(b"saw\n"), b"-\tsaw\n")

    def test_bits(self):
        keys = b"saw\nnothing\nboth\napple\n"
        want = self.find(keys)
        report = self.scbf_json("project", "b.bank", "-o", "r.bank")
        self.assertEqual([report["members"], report["policy"]], [3, "one"])
        self.assertLess(os.path.getsize(self.path("r.bank")), os.path.getsize(self.path("b.bank")))
        self.assertEqual(self.find(keys, bank="r.bank"), want)
        self.assertEqual(self.find(keys, "--map", bank="r.bank"), want)
        self.write("keys", keys)
        self.assertEqual(self.scbf("find", "-", "keys", stdin=self.read("r.bank")), want)
        self.assertIn(b"c.bank: the bits of 3 members; ", self.scbf("project", "r.bank", "--compress", "-o", "c.bank"))
        self.assertEqual(self.find(keys, bank="c.bank"), want)
        self.assertEqual(self.scbf("project", "c.bank", "-o", "-"), self.read("r.bank"))
        self.assertEqual(self.scbf("verify", "r.bank")[:37], b"r.bank: ok, a bank of bits of 3 membe")
        self.assertIn("a bank of bits of 3 members, room for 8", self.scbf("info", "r.bank").decode())
        of_bits, of_counters = self.scbf_json("info", "r.bank"), self.scbf_json("info", "b.bank")
        self.assertEqual([of_bits["kind"], of_bits["version"], of_counters["kind"]], ["bits_bank", 2, "bank"])
        self.assertGreater(of_bits["row_bytes"], of_counters["row_bytes"])  # and what is kept for each slot
        for name in ("seed", "capacity", "policy", "metadata"):
            self.assertEqual(of_bits[name], of_counters[name])
        same = ("number", "asked_always", "stages", "keys_inserted", "metadata")
        self.assertEqual([[m[k] for k in same] for m in of_bits["members"]],
                         [[m[k] for k in same] for m in of_counters["members"]])
        self.refused("bank", "--to", "r.bank", "fruit.txt", code=CORRUPT,
                     mentions=["'r.bank': a bank of bits takes filters of bits (--filters), not keys"])
        self.refused("query", "r.bank", "fruit.txt", code=CORRUPT, mentions=["'scbf find'"])
        self.scbf("build", "--capacity", "9", "-o", "f.scbf", "fruit.txt")
        self.refused("find", "f.scbf", "fruit.txt", code=CORRUPT, mentions=["'f.scbf': a filter, and no bank: 'scbf query' asks it"])
        data = bytearray(self.read("r.bank"))
        data[-1] ^= 0x80  # no member 7
        self.write("damaged.bank", bytes(data))
        for command in (["verify"], ["info"], ["find"]):
            self.refused(*command, "damaged.bank", code=CORRUPT,
                         mentions=["'damaged.bank': payload chunk 0: checksum mismatch"])
        self.assertEqual(self.find(keys, "--map", bank="damaged.bank"), want)

    def build_bits(self, name, keys):
        self.write("keys", keys)
        self.scbf("build", "--bits", "--capacity", "9", *RATE, "-o", name, "keys")

    def test_a_bank_of_filters_of_bits(self):
        self.build_bits("fruit", "apple\nbanana\n")
        self.build_bits("tools", "hammer\nsaw\nboth\n")
        report = self.scbf_json("bank", "--filters", "-o", "r.bank", "fruit", "tools")
        self.assertEqual([report[k] for k in ("kind", "members", "keys", "counter_bytes")], ["bits_bank", 2, 5, 0])
        self.assertEqual(self.find(b"saw\napple\nx\n", bank="r.bank"), b"tools\tsaw\nfruit\tapple\n")
        info = self.scbf_json("info", "r.bank")
        self.assertEqual([info["kind"], info["metadata"]["keys"]], ["bits_bank", "lines"])
        # As the projection of a bank of counters.
        for name, keys in (("fruit", "apple\nbanana\n"), ("tools", "hammer\nsaw\nboth\n")):
            self.write("keys", keys)
            self.scbf("build", "--capacity", "9", *RATE, "-o", name, "keys")
        self.scbf("bank", "--filters", "-o", "c.bank", "fruit", "tools")
        self.scbf("project", "c.bank", "-o", "p.bank")
        self.assertEqual(self.read("p.bank"), self.read("r.bank"))
        # Members come and go.
        self.build_bits("gems", "ruby\n")
        said = self.scbf("bank", "--filters", "--to", "r.bank", "--drop", "fruit", "gems").decode()
        self.assertIn("r.bank: 2 members (1 added, 1 dropped), 1 key in", said)
        self.assertNotIn("of counters", said)
        self.assertEqual(self.find(b"ruby\napple\nsaw\n", bank="r.bank"), b"gems\truby\ntools\tsaw\n")
        before = self.digest("r.bank")
        self.refused("bank", "--filters", "--to", "r.bank", "fruit", code=CORRUPT,
                     mentions=["'r.bank' has bits, 'fruit' has counters"])
        self.refused("bank", "--filters", "--to", "c.bank", "gems", code=CORRUPT,
                     mentions=["'c.bank' has counters, 'gems' has bits"])
        self.assertEqual(self.digest("r.bank"), before)

    def test_filters_above_the_limit_of_the_rate(self):
        self.scbf("build", "--capacity", "9", "--fpr", "1%", "-o", "one", "fruit.txt")
        self.refused("bank", "--filters", "--max-fpr", "0.0001%", "-o", "x.bank", "one", code=CORRUPT,
                     mentions=["'one': with 2 keys", "--max-fpr allows", "leave it out, or take a larger one"])
        self.refused("bank", "--filters", "-o", "x.bank", "one", "one", mentions=["'one' is named twice"])
        self.refused("bank", "--to", "b.bank", "--max-fpr", "1e-300", "fruit.txt", "--drop", "fruit.txt", code=CORRUPT,
                     mentions=["make the bank anew"])
        self.assertNotIn("x.bank", self.files())

    def test_deltas_of_a_member(self):
        keys = words(2000)
        for name in ("paris", "tokyo"):
            self.write("keys", lines(keys[:1500] if name == "paris" else keys[1500:]))
            self.scbf("build", "--capacity", "2000", *RATE, "-o", name + ".scbf", "keys")
            self.scbf("project", name + ".scbf", "-o", name)
            self.scbf("delta", name, name + ".scbf", "-o", name + ".1")
        self.scbf("bank", "--filters", "-o", "r.bank", "paris", "tokyo")
        for epoch, key in ((2, b"new\n"), (3, b"newer\n")):
            self.scbf("insert", "paris.scbf", stdin=key)
            self.scbf("remove", "paris.scbf", stdin=lines(keys[epoch:epoch + 1]))
            self.scbf("delta", "paris", "paris.scbf", "-o", f"paris.{epoch}")
        before = self.digest("r.bank")
        both = ["paris.2", "paris.3"]
        for arguments, said, code in ((["r.bank", "paris.3"], "has epoch 1, the delta begins at 2", CORRUPT),
                                      (["r.bank", *reversed(both)], "member 'paris' of 'r.bank' and 'paris.3'", CORRUPT),
                                      (["r.bank", "tokyo.scbf"], "no delta", CORRUPT),
                                      (["b.bank", "paris.2"], "a bank of counters: 'scbf project'", CORRUPT),
                                      (["paris", "paris.2"], "'paris': a filter, and no bank: leave --member out", CORRUPT),
                                      (["paris.2", "paris.3", "paris.3", "-o", "z"],
                                       "'paris.2': a delta: 'scbf apply' applies it", CORRUPT)):
            self.refused("apply", "--member", "paris", *arguments, code=code, mentions=[said])
        self.refused("apply", "--member", "tokyo", "r.bank", "paris.2", code=CORRUPT, mentions=["history"])
        self.refused("apply", "--member", "rome", "r.bank", "paris.2",
                     mentions=["--member 'rome': 'r.bank' has no member of this name"])
        self.refused("apply", "r.bank", "paris.2", mentions=["'r.bank': a bank: name the member", "--member NAME"])
        self.assertEqual(self.digest("r.bank"), before)
        report = self.scbf_json("apply", "--member", "paris", "r.bank", *both)
        self.assertEqual([report[k] for k in ("file", "member", "deltas", "epoch", "keys")], ["r.bank", "paris", 2, 3, 1500])
        asked = lines(keys) + b"new\nnewer\n"
        self.assertEqual(self.find(asked, bank="r.bank").count(b"paris\t"), 1500)
        self.scbf("bank", "--filters", "-o", "fresh.bank", "paris", "tokyo")
        self.assertEqual(self.read("r.bank"), self.read("fresh.bank"))
        # A whole filter is a delta, too; the bank may be a pipe.
        self.scbf("remove", "tokyo.scbf", stdin=lines(keys[1501:]))
        self.assertTrue(self.scbf_json("delta", "tokyo", "tokyo.scbf", "-o", "tokyo.2")["whole"])
        out = self.scbf("apply", "--member", "tokyo", "-", "tokyo.2", "-o", "-", stdin=self.read("r.bank"))
        self.assertIn("'tokyo', epoch 2; 1 key", self.err)
        self.scbf("bank", "--filters", "-o", "fresh.bank", "paris", "tokyo")
        self.assertEqual(out, self.read("fresh.bank"))

    def test_keys_of_both_kinds(self):
        self.scbf("build", "--capacity", "3", *RATE, "-o", "a.scbf", "fruit.txt")
        self.write_u64("n.u64", range(3))
        self.scbf("build", *RATE, "--capacity", "3", "--keys", "u64", "-o", "n.scbf", "n.u64")
        for files in (("a.scbf", "n.scbf"), ("n.scbf", "a.scbf")):
            self.scbf("bank", "--filters", "--force", "-o", "x.bank", *files)
            self.assertIn("keys of both kinds", self.err)
            self.assertNotIn("keys", self.scbf_json("info", "x.bank")["metadata"])
            self.assertEqual(self.find(b"apple\n", bank="x.bank"), b"a.scbf\tapple\n")
            self.assertEqual(self.find(b"2\n", "--keys", "decimal", bank="x.bank"), b"n.scbf\t2\n")
        for option in (["--keys", "u64"], ["--column", "1"], ["-0"], ["--chomp-cr"], ["--raw"]):
            self.refused("bank", "--filters", *option, "-o", "y.bank", "a.scbf", mentions=["do not go with --filters"])

    def test_a_member_that_is_too_full(self):
        self.write("many", lines(words(5000)))
        self.refused("bank", "--capacity", "10", "-o", "x.bank", "fruit.txt", "many", code=CORRUPT,
                     mentions=["'many': with 5,000 keys", "nothing was written"])
        self.scbf("bank", "--capacity", "10", "--max-fpr", "1", "-o", "x.bank", "fruit.txt", "many")
        self.assertIn(" distinct keys in a filter for 10", self.err)
        self.assertIn("--capacity 5000", self.err)
        for options in ([], ["--scalable"], ["--capacity", "5000"]):
            self.scbf("bank", *options, "-o", "x.bank", "fruit.txt", "many")
            self.assertEqual(self.err, "")

    def test_info(self):
        text = self.scbf("info", "b.bank").decode()
        self.assertIn("a bank of 3 members, room for 8", text)
        self.assertIn('2 (2 inserted, 0 removed), {"name":"fruit.txt"}', text)
        self.assertEqual(text, self.scbf("info", "b.bank", "--header").decode())
        self.assertEqual(text.replace("b.bank", "-"), self.scbf("info", "-", stdin=self.read("b.bank")).decode())
        info = self.scbf_json("info", "b.bank")
        self.assertEqual(info["kind"], "bank")
        self.assertEqual([m["keys"] for m in info["members"]], [2, 3, 2])
        for i in range(40):
            self.write(f"m{i}", f"key {i}\n")
        self.scbf("bank", "-o", "many.bank", *(f"m{i}" for i in range(40)))
        self.assertIn("and 20 more", self.scbf("info", "many.bank").decode())

    def test_damage(self):
        data = bytearray(self.read("b.bank"))
        data[-1] ^= 1
        self.write("damaged.bank", bytes(data))
        for verb in ("verify", "info", "find"):
            self.refused(verb, "damaged.bank", code=CORRUPT,
                         mentions=["'damaged.bank': member 2: payload chunk 0: checksum mismatch"])
        done = self.run_raw("verify", "damaged.bank", "b.bank")
        self.assertEqual(done.returncode, CORRUPT)
        self.assertIn(b"b.bank: ok", done.out)
        self.assertEqual(self.scbf("verify", "-", stdin=self.read("b.bank"))[:27], b"-: ok, a bank of 3 members,")
        self.refused("verify", "-", stdin=bytes(data), code=CORRUPT, mentions=["member 2: payload chunk 0"])
        self.refused("query", "-", "fruit.txt", stdin=self.read("b.bank"), code=CORRUPT, mentions=["a bank of filters"])

    def test_the_same_is_said_of_a_pipe_and_of_a_file(self):
        self.scbf("build", "--capacity", "9", "-o", "f.scbf", "fruit.txt")
        self.build_bits("bits", "apple\n")
        self.write("published", self.read("bits"))
        self.scbf("delta", "published", "f.scbf", "-o", "1.delta")
        self.scbf("insert", "f.scbf", "tools.txt")
        self.scbf("delta", "published", "f.scbf", "-o", "2.delta")
        no_filter = "{}: a bank of filters, and no filter: 'scbf find' asks it, 'scbf bank --to' changes its members"
        no_bank = "{}: a filter, and no bank: 'scbf query' asks it, 'scbf insert' changes it"
        delta = ": 'scbf apply' applies it"
        for data, arguments, said, code in (
                ("b.bank", ["query", "-", "fruit.txt"], no_filter, CORRUPT),
                ("b.bank", ["count", "-", "fruit.txt"], no_filter, CORRUPT),
                ("b.bank", ["insert", "-", "fruit.txt", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["remove", "-", "fruit.txt", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["merge", "-", "f.scbf", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["merge", "f.scbf", "-", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["merge", "bits", "-", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["subtract", "-", "f.scbf", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["delta", "published", "-", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["apply", "bits", "-", "-o", "x"], no_filter, CORRUPT),
                ("b.bank", ["bank", "--filters", "-o", "x", "-"], no_filter, CORRUPT),
                ("b.bank", ["apply", "-", "1.delta", "-o", "x"], "{}: a bank: name the member that changes", USAGE),
                ("f.scbf", ["bank", "--to", "-", "fruit.txt", "-o", "x"], no_bank, CORRUPT),
                ("f.scbf", ["find", "-", "fruit.txt"], no_bank, CORRUPT),
                ("f.scbf", ["apply", "--member", "a", "-", "1.delta", "-o", "x"],
                 "{}: a filter, and no bank: leave --member out", CORRUPT),
                ("bits", ["count", "-", "fruit.txt"],
                 "{}: a filter of bits, without counters: 'scbf query' asks it", CORRUPT),
                ("2.delta", ["query", "-", "fruit.txt"], delta, CORRUPT),
                ("2.delta", ["count", "-", "fruit.txt"], delta, CORRUPT),
                ("2.delta", ["insert", "-", "fruit.txt", "-o", "x"], delta, CORRUPT),
                ("2.delta", ["project", "-", "-o", "x"], delta, CORRUPT),
                ("2.delta", ["bank", "--to", "-", "fruit.txt", "-o", "x"], delta, CORRUPT),
                ("fruit.txt", ["query", "-", "tools.txt"], "{}: not a filter file", CORRUPT),
                ("fruit.txt", ["find", "-", "tools.txt"], "{}: not a filter file", CORRUPT),
                ("fruit.txt", ["apply", "bits", "-", "-o", "x"], "{}: not a filter file", CORRUPT),
                ("fruit.txt", ["verify", "-"], "{}: not a filter file", CORRUPT),
                ("fruit.txt", ["info", "-", "--header"], "{}: not a filter file", CORRUPT)):
            with self.subTest(data=data, arguments=arguments):
                self.refused(*arguments, stdin=self.read(data), code=code,
                             mentions=[said.replace("{}", "scbf: standard input")])
                named = [data if a == "-" else a for a in arguments]
                self.refused(*named, code=code, mentions=[said.replace("{}", f"scbf: '{data}'")])
                with open(self.path(data), "rb") as stdin:
                    process = self.start(*arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    err = process.communicate(timeout=60)[1].decode()
                self.assertIn(said.replace("{}", "scbf: standard input"), err)
                for word in ("load it", "/dev/stdin", "Bank", "Filter", "stream"):
                    self.assertNotIn(word, err)
        self.assertNotIn("x", self.files())
        both = self.read("b.bank")
        self.write("bits.bank", self.scbf("project", "-", "-o", "-", stdin=both))
        self.scbf("project", "b.bank", "-o", "r.bank")
        self.assertEqual(self.read("bits.bank"), self.read("r.bank"))
        self.assertEqual(self.scbf("find", "-", "fruit.txt", stdin=both), self.find(self.read("fruit.txt")))

    def test_members_without_names(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
        for name in ("bank.scbf", "growing_bank_compressed.scbf"):
            # Member 2 is always asked; "a" was removed from member 3.
            found = self.find("a\nSchlüssel\n".encode(), bank=os.path.join(golden, name)).decode().splitlines()
            self.assertEqual(found[:1] + found[-2:], ["2\ta", "2\tSchlüssel", "3\tSchlüssel"])
            told = self.scbf("info", os.path.join(golden, name)).decode()
            self.assertEqual("rows, stage 1" in told, name.startswith("growing"), told)
