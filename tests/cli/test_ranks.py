#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulate, plan and run with --ranks: python3 test_ranks.py WEFT"""

import re
import unittest

from command import Command

SMALL = ["--heads", "8", "--kv-heads", "2", "--seq", "4K", "--head-dim", "64", "--dtype", "bf16", "--causal"]


class Simulate(Command):
    def test_json(self):
        told = self.json("simulate", "attention", "--machine", "h800", "--ranks", "8", *SMALL)
        self.assertEqual((told["machine"], told["steps"]), ("h800", 8))
        self.assertEqual(told["ranks"], {"ranks": 8, "cut": "zigzag", "exchange": "ring", "order": "ring", "sweep": "forward",
                                         "head_ranks": 1, "columns": 2, "most_keys": 0})  # fmt: skip
        p = told["predicted"]
        self.assertAlmostEqual(p["efficiency"], p["ideal_seconds"] / p["seconds"])
        # Of 7 parts of 512 rows that come by, all ranks but the last take halves of some: K and V of 2 heads of 64, 2 bytes.
        row = 2 * 2 * 64 * 2
        self.assertEqual(p["sent"]["most"] % row, 0)
        self.assertLess(p["sent"]["mean"], 7 * 512 * row)
        self.assertEqual(p["network"], 0)
        self.assertGreaterEqual(p["seconds"], p["computing"]["most"])
        self.assertAlmostEqual(p["imbalance"], 1)

    def test_every_option(self):
        told = self.json("simulate", "attention", "--backward", "--machine", "h100", "--ranks", "16", "--cut", "balanced", "--exchange",
                         "all-gather", "--rank-order", "mesh-cycle", "--rank-sweep", "forward", "--head-ranks", "2", "--mesh-columns", "4",
                         "--most-keys", "100", *SMALL)  # fmt: skip
        self.assertEqual(told["ranks"], {"ranks": 16, "cut": "balanced", "exchange": "all-gather", "order": "mesh-cycle",
                                         "sweep": "forward", "head_ranks": 2, "columns": 4, "most_keys": 100})  # fmt: skip
        self.assertGreater(told["predicted"]["network"], 0)  # nodes have 8 GPUs

    def test_cuts(self):
        told = {cut: self.json("simulate", "attention", "--machine", "h100", "--ranks", "8", "--cut", cut, "--heads", "32", "--seq", "32K",
                               "--head-dim", "128", "--dtype", "bf16", "--causal")["predicted"] for cut in ("contiguous", "striped", "zigzag")}  # fmt: skip
        self.assertAlmostEqual(told["contiguous"]["imbalance"], 15 / 8, places=2)
        self.assertAlmostEqual(told["zigzag"]["imbalance"], 1, places=6)
        self.assertLess(told["zigzag"]["seconds"], 0.8 * told["contiguous"]["seconds"])
        self.assertLess(told["striped"]["seconds"], 0.8 * told["contiguous"]["seconds"])

    def test_text(self):
        text = self.ok("simulate", "attention", "--machine", "gb10", "--ranks", "2", *SMALL)
        self.assertIn("ranks      2, cut zigzag, exchange ring, order ring\n", text)
        self.assertIn("machine    gb10 (NVIDIA GB10 (Grace Blackwell, DGX Spark)), nodes of 1, network 22 GB/s a GPU\n", text)
        self.assertIn("100.0 % between nodes", text)
        self.assertIn("scaling is predicted, not measured", text)

    def test_tables(self):
        """A column for each choice and one unit in each column; 80 columns are enough for the choices and the speed."""
        def rows(text):
            return [re.split("  +", line.strip()) for line in text.splitlines() if not line.startswith("left out")]
        ask = ["simulate", "attention", "--machine", "h100", "--ranks", "4:16:x2", "--heads", "8"]
        for seq, rate, size in (("100", "GFLOP/s/GPU", "kB"), ("64K", "TFLOP/s/GPU", "MB")):
            heads, *lines = rows(self.ok(*ask, "--seq", seq))
            self.assertEqual(heads, ["ranks", "cut", "exchange", "order", "ms", rate, "ideal %", "wait ms", "sent " + size, "net %", "imbalance",
                                     "memory " + size])  # fmt: skip
            for row, point in zip(lines, self.json(*ask, "--seq", seq), strict=True):
                told, cells = point["predicted"], dict(zip(heads, row))
                self.assertEqual(cells["ranks"], str(point["point"]["ranks"]))
                self.assertEqual(cells["sent " + size], f"{told['sent']['mean'] / {'kB': 1e3, 'MB': 1e6}[size]:.2f}")
                self.assertEqual(cells["memory " + size], f"{told['memory'] / {'kB': 1e3, 'MB': 1e6}[size]:.2f}")
                self.assertEqual(cells[rate], f"{told['tflops'] * {'G': 1e3, 'T': 1}[rate[0]]:.1f}")
        plan = ["plan", "attention", "--machine", "h100", "--ranks", "16", "--heads", "8", "--seq", "64K"]
        self.assertEqual(rows(self.ok(*plan).split("\n\n")[1])[0][:5], ["cut", "exchange", "heads", "order", "ms"])
        for extra in ([], ["--rank-sweep", "sawtooth"], ["--rank-order", "mesh-cycle", "--mesh-columns", "4", "--most-keys", "1K"]):
            for command in (plan, ask[:-2] + ["--seq", "64K"]):
                table = self.ok(*command, *extra, "--width", "80").split("\n\n")[-1].splitlines()
                self.assertLess(max(map(len, table)), 80)
                self.assertIn("ideal %", table[0])
                self.assertNotRegex("".join(line for line in table[1:] if "--width" not in line), r"\d ?([kMGT]?B|[MGT]FLOP)")

    def test_sweep(self):
        ask = ["simulate", "attention", "--machine", "h100", "--ranks", "2:64:x2", "--cut", "zigzag,striped", *SMALL]
        lines = self.ok(*ask, "--csv").splitlines()
        self.assertEqual(lines[0].split(",")[:4], ["ranks", "cut", "cut", "exchange"])
        self.assertEqual(len(lines), 1 + 6 * 2)
        self.assertEqual([line.split(",")[0] for line in lines[1::2]], ["2", "4", "8", "16", "32", "64"])
        points = self.json(*ask)
        self.assertEqual([p["point"] for p in points[:2]], [{"ranks": 2, "cut": "zigzag"}, {"ranks": 2, "cut": "striped"}])
        self.assertEqual(float(lines[1].split(",")[9]), float(f"{points[0]['predicted']['seconds']:.9g}"))
        self.assertIn("ideal %", self.ok(*ask))
        self.assertIn("predicted share of ideal", self.ok(*ask, "--svg", "--plot", "efficiency"))

    def test_refusals(self):
        ask = ["simulate", "attention"]
        self.refused("--cut, --exchange and other options of ranks need --ranks", *ask, "--cut", "zigzag")
        self.refused("machine host has no [links]: what joins several of it is not known", *ask, "--ranks", "2")
        self.refused("machine rtx-5090 has no network_bandwidth in [links]: a node has 4 GPUs, fewer than 5 ranks", *ask, "--machine",
                     "rtx-5090", "--ranks", "5")  # fmt: skip
        self.refused("combine is not shared among ranks: attention is, forward and backward, and gemm", "simulate", "combine",
                     "--machine", "h100", "--ranks", "2")  # fmt: skip
        gemm = ["simulate", "gemm", "--machine", "h100", "--ranks", "2"]
        self.refused("cut zigzag is of attention: a product's is m or k", *gemm, "--cut", "zigzag")
        self.refused("attention is not shared among ranks with a cut of products", *ask, "--ranks", "2", "--cut", "k")
        self.refused("gemm is not shared among ranks with cut k and beta", *gemm, "--cut", "k", "--beta", "1")
        self.refused("ranks 2000 are more than seq 1024 or kv_seq 1024", *ask, "--machine", "h100", "--ranks", "2000")
        self.refused("--curve and --per-domain are of one GPU, not of --ranks", *ask, "--machine", "h100", "--ranks", "2", "--curve")
        self.refused("--cut zigzg is not known: did you mean zigzag?", *ask, "--ranks", "2", "--cut", "zigzg")
        self.refused("--plot efficiency needs --ranks", *ask, "--machine", "h100", "--seq", "1K,2K", "--svg", "--plot", "efficiency", "-o", "x")
        self.refused("attention is not shared among ranks with dropout, which would depend on the number of ranks", *ask,
                     "--machine", "h100", "--ranks", "3", "--dropout", "0.1")  # fmt: skip


class Gemm(Command):
    ASK = ["gemm", "--ranks", "3", "--m", "100", "--n", "70", "--k", "50"]

    def test_simulate(self):
        told = self.json("simulate", *self.ASK, "--machine", "h100", "--cut", "k")
        self.assertEqual(told["ranks"], {"ranks": 3, "cut": "k", "exchange": "ring", "order": "ring", "sweep": "sawtooth",
                                         "head_ranks": 1, "columns": 1, "most_keys": 0})  # fmt: skip
        # Each rank sends sums of all rows of C but its own, in fp32.
        self.assertEqual(told["predicted"]["sent"], {"mean": 200 * 70 * 4 / 3, "most": 67 * 70 * 4})
        text = self.ok("simulate", *self.ASK, "--machine", "h100")
        self.assertIn("ranks      3, cut m, exchange ring, order ring\n", text)
        self.assertIn("rows       34 of A and 24 columns of B and C at rank 0; 3 steps\n", text)

    def test_plan(self):
        told = self.json("plan", *self.ASK, "--machine", "h100")
        self.assertEqual({way["ranks"]["cut"] for way in told["ways"]}, {"m", "k"})
        self.assertEqual({way["ranks"]["exchange"] for way in told["ways"]}, {"ring", "all-gather"})
        self.assertIn(f"ranks.cut = WEFT_CUT_{told['recommended']['ranks']['cut'].upper()};", told["recommended"]["c"])

    def test_run(self):
        """What ranks send is what the simulator says."""
        for extra in ([], ["--cut", "k"], ["--cut", "k", "--bias", "--alpha", "2", "--c-major", "col", "--dtype", "bf16"],
                      ["--beta", "0.5", "--activation", "gelu", "--residual", "--a-major", "col"],
                      ["--batch", "2", "--b-major", "col", "--row-scale", "--column-scale", "--cut", "k", "--exchange", "all-gather"],
                      ["--rank-order", "zigzag", "--n", "2"]):  # fmt: skip
            ran = self.json("run", *self.ASK, *extra, "--repeat", "3")
            told = self.json("simulate", *self.ASK, *extra, "--machine", "h100")
            with self.subTest(extra=extra):
                self.assertTrue(ran["check"]["passed"])
                self.assertTrue(ran["traffic"]["equal"])
                self.assertEqual(ran["ranks"], told["ranks"])
                self.assertEqual(ran["traffic"]["sent_most"], told["predicted"]["sent"]["most"])


class Plan(Command):
    def test_recommends(self):
        ask = ["plan", "attention", "--machine", "h100", "--ranks", "4", *SMALL]
        told = self.json(*ask)
        best = told["recommended"]
        self.assertEqual(told["ways"][0], best)
        for way in told["ways"]:
            self.assertLessEqual(best["predicted"]["seconds"], 1.01 * way["predicted"]["seconds"])
        self.assertEqual({way["ranks"]["cut"] for way in told["ways"]}, {"contiguous", "striped", "zigzag", "balanced"})
        self.assertEqual({way["ranks"]["exchange"] for way in told["ways"]}, {"ring", "all-gather", "heads"})
        self.assertIn(f"ranks.cut = WEFT_CUT_{best['ranks']['cut'].upper()};", best["c"])
        text = self.ok(*ask)
        self.assertIn(f"recommended: {best['name']}\n", text)
        self.assertIn(f"in C: {best['c']}\n", text)
        for sentence in told["why"]:
            self.assertIn(f"  {sentence}\n", text)

    def test_keeps_what_is_given(self):
        told = self.json("plan", "attention", "--machine", "h100", "--ranks", "4", "--cut", "striped", "--rank-order", "zigzag", *SMALL)
        self.assertEqual({(way["ranks"]["cut"], way["ranks"]["order"]) for way in told["ways"]}, {("striped", "zigzag")})

    def test_sweep(self):
        lines = self.ok("plan", "attention", "--machine", "h100,h800", "--ranks", "4", *SMALL, "--csv").splitlines()
        self.assertEqual([line.split(",")[0] for line in lines], ["machine", "h100", "h800"])


class Run(Command):
    def test_forward_and_backward(self):
        for extra in ([], ["--backward", "--sinks"], ["--cut", "striped", "--rank-order", "zigzag"], ["--exchange", "heads"],
                      ["--head-ranks", "2", "--layout", "bhsd", "--dtype", "bf16"], ["--exchange", "all-gather", "--most-keys", "20"]):  # fmt: skip
            told = self.json("run", "attention", "--ranks", "4", "--heads", "4", "--seq", "150", "--causal", *extra)
            with self.subTest(extra=extra):
                self.assertTrue(told["check"]["passed"])
                self.assertTrue(told["traffic"]["equal"])
                self.assertEqual(told["traffic"]["sent"], told["traffic"]["expected"])
                self.assertEqual(told["ranks"]["ranks"], 4)

    def test_as_simulated(self):
        """What ranks send is what the simulator says."""
        ask = ["attention", "--ranks", "6", "--heads", "4", "--lengths", "100,37,90", "--causal"]
        ran, told = self.json("run", *ask, "--repeat", "2"), self.json("simulate", *ask, "--machine", "h100")
        self.assertEqual(ran["runs"], 2)
        self.assertEqual(ran["ranks"], told["ranks"])
        self.assertEqual(ran["traffic"]["sent_most"], told["predicted"]["sent"]["most"])
        self.assertAlmostEqual(ran["traffic"]["sent"] / 6, told["predicted"]["sent"]["mean"])

    def test_text(self):
        text = self.ok("run", "attention", "--ranks", "2", "--seq", "64")
        self.assertIn("2 ranks on threads of this host, cut contiguous, exchange ring, order ring: ", text)
        self.assertIn(": equal\n", text)

    def test_refusals(self):
        self.refused("--ranks 513 are more than 512 threads: simulate takes more", "run", "attention", "--ranks", "513")
        self.refused("--ranks runs on threads of the CPU: leave out --device cuda", "run", "attention", "--ranks", "2", "--device", "cuda")


class Lists(Command):
    def test_orders(self):
        self.assertEqual([o["name"] for o in self.json("orders")["rank_orders"]], ["ring", "zigzag", "mesh-cycle"])
        self.assertIn("\norders across ranks (--rank-order)\n  ring ", self.ok("orders"))

    def test_completion_and_help(self):
        script = self.ok("completion", "bash")
        self.assertIn("--cut) list='contiguous striped zigzag balanced m k' ;;", script)
        self.assertIn("--rank-sweep) list='forward sawtooth' ;;", script)
        self.assertIn("\nranks:\n  --ranks N ", self.ok("help", "plan"))

    def test_machine(self):
        values = {(v["section"], v["key"]): v["value"] for v in self.json("machines", "h800")["values"]}
        self.assertEqual((values["links", "topology"], values["links", "gpus"]), ("switch", "8"))
        self.assertEqual(float(values["links", "bandwidth"]), 1.6e11)


if __name__ == "__main__":
    unittest.main()
