# SPDX-License-Identifier: Apache-2.0
"""--order-file: an order of the user's own, in every verb that takes a schedule.

    test_order_file.py PATH_TO_WEFT
"""

import json
import os
import random
import tempfile
import unittest

from command import Command, run

GEMM = ("gemm", "--m", "64", "--n", "80", "--k", "32", "--tile", "16x16x16")  # 4 x 5 tiles
ATTENTION = ("attention", "--heads", "4", "--seq", "80", "--head-dim", "16", "--tile", "16x16")  # 4 heads x 5 blocks
TILES = random.Random(1).sample(range(20), 20)


class OrderFile(Command):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "order")
        self.write("# mine\n" + "".join(f"{tile}\n" for tile in TILES))

    def write(self, content):
        with open(self.path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def shown(self, *arguments, **options):
        """Tile numbers in the order of their visits."""
        rows = json.loads(self.ok("order", "show", *arguments, "--json", **options))["rows"]
        cells = [position for row in rows for position in row]
        return sorted(range(len(cells)), key=cells.__getitem__)

    def test_numbers_pairs_and_standard_input(self):
        self.assertEqual(self.shown(*GEMM, "--order-file", self.path), TILES)
        self.assertEqual(self.shown(*ATTENTION, "--order-file", self.path), TILES)
        pairs = "".join(f" {tile // 5} , {tile % 5}\t# of 20\n\n" for tile in TILES)
        self.assertEqual(self.shown(*GEMM, "--order-file", "-", input=pairs), TILES)
        self.write("".join(f"0 {tile // 5} {tile % 5}\r\n" for tile in TILES))
        self.assertEqual(self.shown(*GEMM, "--order", "custom", "--order-file", self.path), TILES)

    def test_clusters_and_pairs_are_the_tiles_of_the_file(self):
        self.write("".join(f"{tile}\n" for tile in reversed(range(10))))
        rows = json.loads(self.ok("order", "show", *GEMM, "--cluster", "2x1", "--order-file", self.path, "--json"))["rows"]
        self.assertEqual(rows, [[9, 8, 7, 6, 5], [9, 8, 7, 6, 5], [4, 3, 2, 1, 0], [4, 3, 2, 1, 0]])
        self.refused(f"{self.path}:4: tile 12 is not in the grid of 1 x 4 x 3 tiles (under the pair sweep, a tile of the order is a pair)",
                     *self.mistaken("1\n2\n3\n12\n", "--sweep", "pair"))  # fmt: skip

    def mistaken(self, content, *more):
        self.write(content)
        return ("run", *GEMM, "--order-file", self.path, *more)

    def test_runs_are_right(self):
        for subject in (GEMM, ATTENTION, (*ATTENTION, "--causal")):
            for more in ([], ["--sweep", "sawtooth", "--dispatch", "static", "--workers", "3"], ["--dispatch", "grid"]):
                self.assertIn(": passed\n", self.ok("run", *subject, "--order-file", self.path, *more))
        self.write("".join(f"{tile}\n" for tile in TILES + [tile + 20 for tile in TILES]))
        self.assertIn(": passed\n", self.ok("run", *GEMM, "--batch", "2", "--order-file", self.path))

    def test_json_has_the_order(self):
        result = json.loads(self.ok("run", *GEMM, "--order-file", self.path, "--json"))
        self.assertEqual((result["schedule"]["order"], result["schedule"]["order_table"]), ("custom", TILES))
        self.assertRegex(result["schedule"]["order_hash"], "^[0-9a-f]{16}$")

    def test_json_is_taken_back(self):
        schedule = os.path.join(self.folder.name, "schedule.json")
        with open(schedule, "w") as file:
            file.write(self.ok("run", *GEMM, "--order-file", self.path, "--json"))
        problem = GEMM[: GEMM.index("--tile")]
        self.assertEqual(self.shown(*problem, "--schedule", schedule), TILES)
        self.assertEqual(self.shown(*problem, "--schedule", schedule, "--order", "raster-n"), list(range(20)))
        self.write("".join(f"{tile}\n" for tile in range(20)))  # a file goes before a schedule
        self.assertEqual(self.shown(*problem, "--schedule", schedule, "--order-file", self.path), list(range(20)))
        self.refused("order custom is not tuned or stored: its table fits one grid of tiles", "tune", *problem, "--schedule", schedule)
        with open(schedule, "w") as file:  # an order that is too long for JSON
            json.dump({"order": "custom", "order_hash": "0123456789abcdef", "tile": [16, 16, 16]}, file)
        self.refused("an order custom that is too long for JSON needs --order-file", "run", *problem, "--schedule", schedule)
        result = run("run", *problem, "--schedule", schedule, "--order-file", self.path)
        self.assertRegex(result.stderr, "^weft: order custom: the order has the hash [0-9a-f]{16}, not 0123456789abcdef\n$")

    def test_simulated_as_the_order_that_it_is(self):
        for order in ("hilbert", "raster-m", "group"):
            named = json.loads(self.ok("simulate", *GEMM, "--machine", "h200", "--order", order, "--json"))
            tiles = self.shown(*GEMM, "--machine", "h200", "--order", order)
            self.write("".join(f"{tile}\n" for tile in tiles))
            own = json.loads(self.ok("simulate", *GEMM, "--machine", "h200", "--order-file", self.path, "--json"))
            for key in ("l2", "dram", "predicted", "compulsory_misses"):
                self.assertEqual(named[key], own[key], order)
        self.assertIn("misses", self.ok("simulate", *GEMM, "--machine", "h200", "--order-file", self.path, "--curve"))

    def test_compared_searched_and_viewed(self):
        options = (*GEMM, "--machine", "h200", "--order-file", self.path)
        rows = json.loads(self.ok("compare", *options, "--json"))["schedules"]
        text = json.dumps(rows)
        self.assertTrue("custom" in text and "hilbert" in text and "raster-n" in text)
        self.assertIn("recommended:", self.ok("plan", *options))
        self.assertIn("custom forward", self.ok("view", *options, "--text"))
        self.assertTrue(self.ok("view", *options, "--svg").startswith("<svg"))
        page = os.path.join(self.folder.name, "page.html")
        view = ("view", *GEMM, "--machine", "h200", "--schedules", "custom,hilbert,custom+sawtooth", "-o", page)
        with open(self.path) as order:
            self.ok(*view, "--order-file", "-", input=order.read())  # once, for two schedules
        with open(page) as file:
            self.assertIn("custom sawtooth", file.read())

    def test_bad_files(self):
        lines = [f"{tile}\n" for tile in TILES]
        row = TILES[0] // 5
        for content, expected in [
            ("".join(lines[:-1]), f": tile {TILES[-1]} (row {TILES[-1] // 5}, column {TILES[-1] % 5}) is missing: the order has 19 of 1 x 4 x 5 = 20 tiles"),
            ("#\n" + "".join(lines[:-1] + lines[:1]), f": tile {TILES[0]} (row {row}, column {TILES[0] % 5}) is visited twice, at line 2 and line 21"),
            ("".join(lines) + "\n3\n", ":22: the order goes on after all 20 tiles"),
            ("0\n20\n", ":2: tile 20 is not in the grid of 1 x 4 x 5 tiles"),
            ("0,0\n4,0\n", ":2: row 4, column 0 is not in the grid of 1 x 4 x 5 tiles"),
            ("0\n1,2\n", ":2: 2 numbers, and the lines before have 1"),
            ("0\none\n", ":2: 'o' cannot be read: a line is a tile's number, 'row,column' or 'batch,row,column'"),
            (b"\x7fELF\x02\x00", ":1: byte 0x7f cannot be read: a line is a tile's number, 'row,column' or 'batch,row,column'"),
            (b"0\n\x00\n", ":2: byte 0x00 cannot be read: a line is a tile's number, 'row,column' or 'batch,row,column'"),
            ("", ": tile 0 (row 0, column 0) is missing: the order has 0 of 1 x 4 x 5 = 20 tiles"),
        ]:  # fmt: skip
            with self.subTest(content=content[:20]):
                self.refused(self.path + expected, *self.mistaken(content))
        self.refused("/nowhere/order: No such file or directory", "run", *GEMM, "--order-file", "/nowhere/order")
        self.refused(f"{self.folder.name}: Is a directory", "run", *GEMM, "--order-file", self.folder.name)

    def test_what_does_not_go_together(self):
        file = ("--order-file", self.path)
        self.refused("--order custom needs --order-file", "run", *GEMM, "--order", "custom")
        self.refused("--order hilbert and --order-file exclude each other", "run", *GEMM, *file, "--order", "hilbert")
        self.refused("order custom is not tuned or stored: its table fits one grid of tiles", "run", *GEMM, *file, "--mode", "stored")
        self.refused("--order-file does not apply here: --help lists what does", "tune", *GEMM, *file)
        self.refused("a table of 1073741824 positions is more than 268435456",
                     "simulate", "gemm", "--m", "32K", "--n", "32K", "--k", "1", "--tile", "1x1x1", *file)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
