# SPDX-License-Identifier: Apache-2.0
"""Parameter sweeps: every point is what the verb says of it alone, in a table, CSV, JSON and a plot.

    test_sweep.py PATH_TO_WEFT
"""

import csv
import io
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

from command import Command

ATTENTION = ["attention", "--dtype", "fp16", "--order", "head-first", "--tile", "64x64"]
GEMM = ["gemm", "--n", "512", "--k", "256", "--tile", "128x128"]
SVG = "{http://www.w3.org/2000/svg}"


class Sweep(Command):
    maxDiff = None

    def rows(self, *arguments):
        return list(csv.DictReader(io.StringIO(self.ok(*arguments, "--csv"))))

    def test_points_are_what_each_is_alone(self):
        sweep = [*ATTENTION, "--seq", "1K:4K:x2", "--machine", "gb10,H100", "--seed", "3,4"]
        rows, objects = self.rows("simulate", *sweep), json.loads(self.ok("simulate", *sweep, "--json"))
        points = [(seq, machine, seed) for seq in (1024, 2048, 4096) for machine in ("gb10", "h100") for seed in (3, 4)]
        self.assertEqual([(o["point"]["seq"], o["point"]["machine"], o["point"]["seed"]) for o in objects], points)
        self.assertEqual([(int(r["seq"]), r["machine"], int(r["seed"])) for r in rows], points)
        for (seq, machine, seed), row, whole in zip(points, rows, objects):
            alone = json.loads(self.ok("simulate", *ATTENTION, "--seq", str(seq), "--machine", machine, "--seed", str(seed), "--json"))
            for one in (alone, whole):
                one.pop("elapsed_seconds")
            whole.pop("point")
            self.assertEqual(whole, alone)
            self.assertEqual([int(row[key]) for key in ("sectors", "hits", "misses")], [alone["l2"][key] for key in ("sectors", "hits", "misses")])
            self.assertEqual(int(row["dram_read_bytes"]), alone["dram"]["read_bytes"])
            self.assertAlmostEqual(float(row["seconds"]) / alone["predicted"]["seconds"], 1, 8)
        table = self.ok("simulate", *sweep).splitlines()
        self.assertEqual(table[0].split()[:4], ["seq", "machine", "seed", "schedule"])
        self.assertEqual([tuple(line.split()[:3]) for line in table[1:]], [tuple(map(str, point)) for point in points])
        self.assertEqual(len({len(line) for line in table}), 1, "columns stand below each other")

    def test_compare_and_plan(self):
        sweep = [*GEMM, "--m", "256,512", "--machine", "h100,gb10"]
        for verb in ("compare", "plan"):
            rows, objects = self.rows(verb, *sweep), json.loads(self.ok(verb, *sweep, "--json"))
            self.assertEqual(len(objects), 4)
            for one in objects:
                point = one.pop("point")
                self.assertEqual(point["machine"], one["machine"])
                self.assertEqual(one, json.loads(self.ok(verb, *GEMM, "--m", str(point["m"]), "--machine", point["machine"], "--json")))
                mine = [row for row in rows if (int(row["m"]), row["machine"]) == (point["m"], point["machine"])]
                if verb == "plan":
                    self.assertEqual([row["schedule"] for row in mine], [one["recommended"]["name"]])
                else:
                    self.assertEqual([row["schedule"] for row in mine], [row["schedule"] for row in one["schedules"]])
                    self.assertEqual([int(row["misses"]) for row in mine], [row["misses"] for row in one["schedules"]])

    def test_lists_of_words(self):
        rows = self.rows("simulate", "gemm", "--m", "512", "--n", "512", "--k", "128", "--order", "hilbert,raster-n", "--tile", "64x64,128x64",
                         "--dispatch", "static,grid", "--machine", "gb10")  # fmt: skip
        self.assertEqual(len(rows), 8)
        for row in rows:
            self.assertEqual(row["schedule"], f"{row['tile']} {row['order']} forward {row['dispatch']}")
        machines = [m["name"] for m in json.loads(self.ok("machines", "--json"))["machines"]]
        self.assertEqual([row["machine"] for row in self.rows("simulate", *GEMM, "--m", "256", "--machine", "all")], machines)
        self.assertEqual(len(self.rows("simulate", *GEMM, "--m", "256", "--machine", "gb10")), 1)

    def test_a_comma_in_a_path(self):
        with tempfile.TemporaryDirectory() as folder:
            values = json.loads(self.ok("machines", "gb10", "--json"))["values"]
            text, section = "", None
            for v in values:
                text += "" if v["section"] == section else f"[{v['section']}]\n"
                section = v["section"]
                text += f"{v['key']} = {v['value']}" + (f" | {v['source']}\n" if v["source"] else "\n")
            path = os.path.join(folder, 'a,"b.ini')
            with open(path, "w") as file:
                file.write(text)
            self.assertIn("sectors", self.ok("simulate", *GEMM, "--m", "256", "--machine", path))
            rows = self.rows("simulate", *GEMM, "--m", "256,512", "--machine", path)
            self.assertEqual([row["m"] for row in rows], ["256", "512"])

    def plot(self, *arguments):
        """The texts of a plot, and for each of its lines how many points it has."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plot.svg")
            self.ok(*arguments, "--svg", "-o", path)
            root = xml.etree.ElementTree.parse(path).getroot()
        lines = [line.get("points").split() for line in root.iter(SVG + "polyline")]
        for line in lines:
            across = [float(point.split(",")[0]) for point in line]
            self.assertEqual(across, sorted(across))
        return [text.text for text in root.iter(SVG + "text")], [len(line) for line in lines]

    def test_plots(self):
        sweep = ["simulate", *ATTENTION, "--machine", "gb10,h100", "--sweep", "sawtooth,forward", "--seq", "4K,1K,2K"]
        for what, unit in [("time", "(ms)"), ("tflops", "(TFLOP/s)"), ("dram", "(GB)"), ("misses", "(millions of sectors)"), ("hits", "(%)")]:
            texts, lines = self.plot(*sweep, "--plot", what)
            self.assertEqual(lines, [3, 3, 3, 3])
            self.assertTrue(any(text.endswith(unit) for text in texts), texts)
            for text in ("1K", "2K", "4K", "gb10, sawtooth", "h100, forward"):
                self.assertIn(text, texts)
            self.assertTrue(any(text.startswith("seq: ") for text in texts))
        texts, lines = self.plot("compare", *GEMM, "--m", "256,512", "--machine", "gb10", "--sweep", "forward", "--dispatch", "static")
        self.assertIn("hilbert forward static", texts)
        texts, lines = self.plot("simulate", *GEMM, "--m", "256", "--machine", "all")
        self.assertEqual(len(lines), 1)
        self.assertIn("mi300x", texts)
        self.assertTrue(self.ok(*sweep, "--svg").startswith("<svg"))

    def test_refusals(self):
        gemm, attention = ["simulate", *GEMM, "--m", "256,512"], ["simulate", "attention"]
        for expected, *arguments in [
            ("a parameter sweep simulates: --device and --counters are for one point", "compare", *GEMM, "--m", "256,512", "--device", "cpu"),
            ("--curve and --per-domain are for one point", *gemm, "--curve"),
            ("--csv and --json exclude each other", *gemm, "--csv", "--json"),
            ("--svg plots a parameter sweep: give an option a list or a range", "simulate", "gemm", "--svg"),
            ("--plot needs --svg", *gemm, "--plot", "dram"),
            ("--output is for --svg; the rest goes to standard output", *gemm, "-o", "x"),
            ("--svg beside --csv or --json needs --output", *gemm, "--svg", "--csv"),
            ("the parameter sweep has 11000 points: at most 10000", *attention, "--seq", "1:1000:1", "--heads", "1:11:1"),
            ("seq 100, tile 128x64: tile_m 128 is larger than seq 100", *attention, "--seq", "256,100", "--tile", "64x64,128x64"),
            ("order hilbert: order hilbert is not for attention", *attention, "--order", "head-first,hilbert"),
            ("the plot has more than 24 lines, which nobody could tell apart: vary less",
             "simulate", *GEMM, "--m", "256,512", "--seed", "1:25:1", "--svg"),
            ("'simulate x' is not known: 'weft simulate attention', 'weft simulate gemm', 'weft simulate combine' and 'weft simulate grouped-gemm' are", "simulate", "x", "--seq", "1,2"),
            ("a parameter sweep is of attention or gemm: a trace takes one value of each option", "simulate", "trace", "x", "--machine", "h100,h200"),
            ("--trace-out is for one point", *gemm, "--trace-out", "x.csv"),
            ("more: nothing more is expected here", "simulate", "gemm", "more", "--m", "1K,2K"),
            ("drift 2 is not at most 1", *gemm, "--drift", "0,2"),
            ("--seq 1K,2K: one value is expected here; lists and ranges are for simulate, compare and plan", "run", "attention", "--seq", "1K,2K"),
            ("--order group,hilbert: one value is expected here; lists and ranges are for simulate, compare and plan",
             "view", "gemm", "--order", "group,hilbert", "--svg"),
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.refused(expected, *arguments)


if __name__ == "__main__":
    unittest.main()
