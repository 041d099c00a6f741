# SPDX-License-Identifier: Apache-2.0
"""Grouped products from the outside.

    test_grouped.py PATH_TO_WEFT
"""

import os
import tempfile
import unittest

from command import Command

SIZES = ["--n", "72", "--k", "40"]
GROUPS = [
    ["--group-rows", "100,0,37,1"],
    ["--group-rows", "100,0,37,1", "--rows", "200"],
    ["--group-counts", "20,0,64"],
    ["--group-counts", "20,0,64", "--rows", "100"],
    ["--groups", "5", "--rows", "90"],
    ["--groups", "5", "--rows", "30", "--group-layout", "masked"],
]


class Grouped(Command):
    def test_results_pass_their_check(self):
        for groups in GROUPS:
            for more in ["--dtype", "bf16", "--b-major", "col"], ["--dtype", "fp16", "--c-dtype", "fp32", "--alpha", "-0.5"], []:
                found = self.json("run", "grouped-gemm", *groups, *SIZES, *more)
                self.assertTrue(found["check"]["passed"], (groups, more))

    def test_a_seed_splits_the_rows(self):
        found = [self.json("run", "grouped-gemm", *GROUPS[-2], *SIZES, "--seed", seed)["check"]["max_error"] for seed in "123"]
        self.assertGreater(len(set(found)), 1)

    def test_the_problem_is_told(self):
        problem = self.json("run", "grouped-gemm", *GROUPS[1], *SIZES)["problem"]
        self.assertEqual((problem["kind"], problem["groups"], problem["rows"]), ("grouped-gemm", 4, 200))
        self.assertEqual(problem["group_rows"], [100, 0, 37, 1])
        problem = self.json("run", "grouped-gemm", *GROUPS[2], *SIZES)["problem"]
        self.assertEqual((problem["rows"], problem["group_layout"], problem["group_counts"]), (64, "masked", [20, 0, 64]))
        self.assertNotIn("group_rows", self.json("run", "grouped-gemm", *GROUPS[4], *SIZES)["problem"])

    def test_simulations_and_plans(self):
        large = ["--group-rows", "300,0,1000,77", "--n", "1024", "--k", "512", "--dtype", "bf16", "--machine", "h200"]
        found = self.json("simulate", "grouped-gemm", *large)
        used, rows = 3, 1377
        self.assertEqual(found["compulsory_misses"], (rows * 512 + used * 512 * 1024) * 2 // 32)
        self.assertEqual(found["schedule"]["order"], "group")
        self.assertEqual(found["schedule"]["axis"], "m")
        self.assertTrue(self.json("plan", "grouped-gemm", *large)["recommended"]["schedule"]["tile"])
        self.assertIn("raster-n", self.ok("compare", "grouped-gemm", *large))
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.html")
            self.ok("view", "grouped-gemm", *large, "-o", page)
            with open(page) as file:
                self.assertIn("Grouped product, 4 groups", file.read())

    def test_messages(self):
        both = "--group-rows says how many groups there are, which are not masked: leave out --groups and --group-counts"
        for expected, *arguments in [
            (both, "--group-rows", "3,4", "--groups", "2"),
            (both, "--group-rows", "3,4", "--group-counts", "3,4"),
            ("--group-counts says how many groups there are: leave out --groups", "--group-counts", "3,4", "--groups", "2"),
            ("--group-rows 3,x is not a list of lengths like 100,2K,0", "--group-rows", "3,x"),
            ("starts[2] 7 is not between 3 and 6", "--group-rows", "3,4", "--rows", "6"),
            ("counts[1] 4 is not between 0 and 3", "--group-counts", "3,4", "--rows", "3"),
            ("rows 0 is not between 1 and 2147483647", "--group-rows", "0,0"),
            ("groups 0 is not between 1 and 2147483647", "--groups", "0"),
        ]:
            with self.subTest(arguments=arguments):
                self.refused(expected, "run", "grouped-gemm", *arguments)
        self.refused("--group-rows does not apply here: --help lists what does", "run", "gemm", "--group-rows", "3,4")


if __name__ == "__main__":
    unittest.main()
