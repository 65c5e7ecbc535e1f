# SPDX-License-Identifier: Apache-2.0
"""scbf plan --regions: its figures agree with each other and with the documents."""

import glob
import os
import re

from support import CommandTest

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def open_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Plan(CommandTest):
    def test_only_a_rate_that_was_asked_for_is_shown(self):
        for options, asked in ((["--capacity", 1000, "--memory", "4KiB"], False),
                               (["--capacity", 1000, "--fpr", "1%"], True),
                               (["--memory", "4KiB", "--fpr", "1%"], True)):
            text = self.scbf("plan", *options).decode()
            self.assertEqual("rate asked for" in text, asked)
            self.assertIn("rate predicted", text)
        for capacity, said in ((1, "1 key\n"), (1000, "1,000 keys\n")):
            text = self.scbf("plan", "--capacity", capacity, "--fpr", "1%").decode()
            self.assertRegex(text, f"\ncapacity +{said}")


class RegionPlan(CommandTest):
    PLAN = ["plan", "--regions", 64, "--servers", 16, "--values", 5000]

    def test_figures(self):
        report = self.scbf_json(*self.PLAN, "--rows", "60k", "--memory", "2MiB")
        plan = report["plan"]
        self.assertEqual((report["regions"], report["servers"], report["regions_per_server"]),
                         (64, 16, 4))
        self.assertEqual(plan["counters_bytes"], 64 * plan["bytes"])
        self.assertEqual(plan["rows_of_bits_bytes"], plan["counters"] * 64 // 8)
        self.assertEqual(plan["bank_bytes"], plan["counters_bytes"] + plan["rows_of_bits_bytes"])
        self.assertGreaterEqual(plan["machines"], plan["bank_bytes"] / (2 << 20))
        self.assertAlmostEqual(plan["server_fpr"], 1 - 0.99**4, places=12)
        self.assertEqual([r["fpr"] for r in report["rates"]], [0.1, 0.01, 0.001])
        for choice in report["rates"]:
            self.assertEqual([r["holding"] for r in choice["requests"]], [0, 1, 10])
            for request in choice["requests"]:
                h = request["holding"]
                self.assertAlmostEqual(request["expected"], h + (16 - h) * choice["server_fpr"])
                self.assertEqual(request["broadcast"], 16)
        self.assertAlmostEqual(report["plan_for_one_request"]["requests"][0]["expected"], 1)

    def test_text(self):
        text = self.scbf(*self.PLAN, "--fpr", "0.5%", "--memory", "1GiB", "--holding", 2).decode()
        for part in ("64 on 16 servers", "0.5 %", "a machine of 1.0 GiB", "broadcast"):
            self.assertIn(part, text)
        rows = self.scbf_json("plan", "--regions", 10, "--servers", 10, "--rows", 101)
        self.assertEqual(rows["values_per_region"], 11)

    def test_refused(self):
        for options, mentions in ((["--servers", 4], ["--regions"]),
                                  (["--regions", 4], ["--servers"]),
                                  (["--regions", 4, "--servers", 2], ["--values"]),
                                  (["--regions", 4, "--servers", 5, "--values", 1], ["5", "4"]),
                                  ([*self.PLAN[1:], "--capacity", 5], ["--capacity"]),
                                  ([*self.PLAN[1:], "--groups", 2], ["--groups"]),
                                  ([*self.PLAN[1:], "--holding", 17], ["17", "16"]),
                                  ([*self.PLAN[1:], "--memory", "1kB"], ["--memory"])):
            self.refused("plan", *options, mentions=mentions)

    def test_the_documents_show_what_it_prints(self):
        documents = glob.glob(os.path.join(DOCS, "secondary_index*.md"))
        shown = [block for document in documents
                 for block in re.findall(r"```sh\nscbf (plan .*)\n```\n\n```text\n([^`]*)```",
                                         open_text(document))]
        self.assertGreaterEqual(len(shown), 2)
        for words, output in shown:
            self.assertEqual(self.scbf(*words.split()).decode(), output)
