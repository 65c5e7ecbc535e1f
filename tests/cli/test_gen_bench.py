# SPDX-License-Identifier: Apache-2.0
"""Generated keys follow their distributions, and bench verifies what it measures."""

import collections
import os
import pty
import struct
import subprocess

from support import OK, USAGE, CommandTest


class Gen(CommandTest):
    def numbers(self, *arguments):
        data = self.scbf("gen", *arguments)
        return [n for (n,) in struct.iter_unpack("<Q", data)]

    def test_sizes(self):
        for count in (0, 1, 7, 16_384, 16_385, 100_000):
            self.assertEqual(len(self.numbers("--keys", count)), count)

    def test_same_seed_same_keys(self):
        for kind in ("uniform", "sequential", "zipf", "clustered"):
            first = self.scbf("gen", "--keys", 5000, "--kind", kind, "--seed", 3)
            self.assertEqual(self.scbf("gen", "--keys", 5000, "--kind", kind, "--seed", 3), first)
            self.assertNotEqual(self.scbf("gen", "--keys", 5000, "--kind", kind), first)
            # The shorter output is a prefix of the longer one.
            longer = self.scbf("gen", "--keys", 9000, "--kind", kind, "--seed", 3)
            self.assertEqual(longer[:len(first)], first)

    def test_the_stream_is_the_documented_one(self):
        golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1

        def mix(x):
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
            return x ^ (x >> 31)

        seed, start = 42, mix((42 + golden) & mask)
        uniform = [mix((start + (i + 1) * golden) & mask) for i in range(1000)]
        self.assertEqual(self.numbers("--keys", 1000, "--seed", seed), uniform)
        sequential = [(mix(seed) + i) & mask for i in range(1000)]
        self.assertEqual(self.numbers("--keys", 1000, "--seed", seed, "--kind", "sequential"),
                         sequential)
        clustered = [(uniform[i // 100] + i % 100) & mask for i in range(1000)]
        self.assertEqual(
            self.numbers("--keys", 1000, "--seed", seed, "--kind", "clustered", "--run", 100),
            clustered)

    def test_options_of_another_kind_are_refused(self):
        for options, said in ((["--run", 4], "gen: --run goes with --kind clustered"),
                              (["--kind", "zipf", "--run", 4], "gen: --run goes with --kind clustered"),
                              (["--kind", "uniform", "--exponent", 1], "gen: --exponent and --universe go with --kind zipf"),
                              (["--universe", 9, "--kind", "clustered"], "go with --kind zipf")):
            self.refused("gen", "--keys", 5, *options, mentions=[said])
        for kind, options in (("clustered", ["--run", 4]), ("zipf", ["--exponent", 1, "--universe", 9])):
            self.assertEqual(len(self.numbers(*options, "--keys", 5, "--kind", kind)), 5)

    def test_uniform_keys_are_distinct_and_spread(self):
        keys = self.numbers("--keys", 200_000)
        self.assertEqual(len(set(keys)), len(keys))
        for shift in (0, 30, 56):
            bins = collections.Counter((key >> shift) & 255 for key in keys)
            chi = sum((bins[b] - 781.25) ** 2 / 781.25 for b in range(256))
            self.assertLess(abs(chi - 255), 6 * (2 * 255) ** 0.5)

    def test_sequential(self):
        self.assertEqual(self.numbers("--keys", 5, "--kind", "sequential"), [0, 1, 2, 3, 4])
        seeded = self.numbers("--keys", 5, "--kind", "sequential", "--seed", 1)
        self.assertEqual([(k - seeded[0]) % 2**64 for k in seeded], [0, 1, 2, 3, 4])

    def test_clustered(self):
        keys = self.numbers("--keys", 1000, "--kind", "clustered", "--run", 100)
        for begin in range(0, 1000, 100):
            run = keys[begin:begin + 100]
            self.assertEqual([(k - run[0]) % 2**64 for k in run], list(range(100)))
        self.assertEqual(len({k // 1000 for k in keys[::100]}), 10)

    def test_zipf_frequencies(self):
        for exponent, universe in ((1.2, 50), (1.0, 20), (0.5, 30), (3, 10)):
            draws = 200_000
            keys = self.numbers("--keys", draws, "--kind", "zipf", "--exponent", exponent,
                                "--universe", universe, "--seed", 5)
            seen = sorted(collections.Counter(keys).values(), reverse=True)
            self.assertLessEqual(len(seen), universe)
            weights = [r ** -exponent for r in range(1, universe + 1)]
            expected = [draws * w / sum(weights) for w in weights]
            # Sorting by frequency swaps ranks of nearly equal probability; their sums stay exact.
            chi = sum((s - e) ** 2 / e for s, e in zip(seen, expected))
            self.assertLess(chi, universe + 6 * (2 * universe) ** 0.5 + 6, (exponent, universe))
        self.assertEqual(len(set(self.numbers("--keys", 100, "--kind", "zipf", "--universe", 1))),
                         1)

    def test_refuses_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.start("gen", "--keys", 5, stdout=theirs, stderr=subprocess.PIPE)
        self.assertIn(b"terminal", process.stderr.read())
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), USAGE)
        os.close(ours)
        os.close(theirs)

    def test_to_a_file(self):
        self.scbf("gen", "--keys", 1000, "-o", "k.u64")
        self.assertEqual(self.read("k.u64"), self.scbf("gen", "--keys", 1000))


class Bench(CommandTest):
    QUICK = ["bench", "--sizes", "2000,50000", "--seconds", "0.001", "--threads", 1]

    def test_json(self):
        report = self.scbf_json(*self.QUICK)
        self.assertTrue(report["machine"]["processor"])
        self.assertTrue(report["machine"]["compiler"])
        self.assertEqual(report["machine"]["threads"], 1)
        cells = [(r["keys"], r["layout"], r["backend"], r["calls"], r["operation"])
                 for r in report["results"]]
        self.assertEqual(len(set(cells)), len(cells))
        # Of each filter: the scalar backend in one batch, the best one in six forms.
        operations = {"first_build", "build", "insert", "hit", "miss", "mix", "count", "remove"}
        changes = {"first_build", "build", "insert", "remove"}
        lookups_and_changes = operations - {"first_build", "build"}
        forms = {"one": operations, "small": operations, "bulk": changes,
                 "key": lookups_and_changes, "view": lookups_and_changes,
                 "ahead": lookups_and_changes}
        for keys in (2000, 50000):
            for layout in ("split_block", "ranked", "split"):
                of_this = [c[2:] for c in cells if c[:2] == (keys, layout)]
                best = next(backend for backend, _, _ in of_this if backend != "scalar")
                self.assertEqual(set(of_this), {("scalar", "one", o) for o in operations}
                                 | {(best, form, o) for form in forms for o in forms[form]})
        for row in report["results"]:
            self.assertGreater(row["ns_per_key"], 0)
            self.assertGreaterEqual(row["slowest_ns_per_key"], row["fastest_ns_per_key"])
            self.assertAlmostEqual(row["predicted_fpr"], 0.01, delta=0.0005)
            self.assertGreater(row["measured_fpr"], 0)
            self.assertGreater(row["bits_per_key"], 15 if row["layout"] == "ranked" else 30)
            self.assertGreaterEqual(row["repetitions"], 1)
        # Filters of 2,000 keys lie in any L2 cache.
        (floor,) = [f for f in report["floors"] if f["where"] == "cache"]
        self.assertGreater(floor["line_read_ns"], 0)
        self.assertGreater(floor["line_update_ns"], 0)

    def test_a_choice_of_cells(self):
        report = self.scbf_json(*self.QUICK, "--backends", "scalar", "--layouts", "split",
                                "--operations", "hit,insert", "--fpr", "0.1%")
        self.assertEqual({r["operation"] for r in report["results"]}, {"insert", "hit"})
        self.assertEqual({r["layout"] for r in report["results"]}, {"split"})
        self.assertEqual({r["calls"] for r in report["results"]}, {"one"})

    def test_a_choice_of_forms(self):
        report = self.scbf_json(*self.QUICK, "--backends", "scalar", "--layouts", "split",
                                "--calls", "bulk,view", "--operations", "hit,insert")
        self.assertEqual({(r["calls"], r["operation"]) for r in report["results"]},
                         {("bulk", "insert"), ("view", "insert"), ("view", "hit")})
        for options, said in (
                (["--calls", "twice"], "--calls 'twice': must be one of one, small, bulk, key"),
                (["--operations", "look"], "--operations 'look': must be one of first_build"),
                (["--calls", "bulk", "--operations", "hit"], "bulk has only insert")):
            self.scbf(*self.QUICK, *options, code=USAGE)
            self.assertIn(said, self.err)

    def test_both_paths(self):
        for path in ("direct", "partitioned"):
            self.scbf(*self.QUICK, "--backends", "auto", "--path", path, "--operations", "insert")

    def test_table(self):
        text = self.scbf(*self.QUICK, "--backends", "auto").decode()
        for word in ("ns per key", "1st build", "measured", "predicted", "bits per key",
                     "split_block", "verified", "insert", "remove", "miss", "batches of 4,096 keys",
                     "4,096 keys, in bulk", "one key a call", "through a view", "a random line in cache"):
            self.assertIn(word, text)

