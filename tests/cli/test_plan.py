#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft plan against weft compare and weft simulate, on problems drawn at random: python3 test_plan.py WEFT"""
import json
import random
import subprocess
import sys
import tempfile
import unittest

WEFT = sys.argv.pop(1)
PROBLEMS, SEED = 15, 20  # tests/search/test_recommend.c has more, and all candidates
AS_FAST, AS_FRUGAL = 1.01, 1.05  # how far a recommendation may be behind, in time and in DRAM reads
MACHINES = ["h100", "h200", "b200", "gb10", "mi300x"]


def weft(*arguments):
    done = subprocess.run([WEFT, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"weft {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def draw(source):
    """A problem of some waves of tiles, few enough to be simulated whole in milliseconds, on some machine."""
    machine = source.choice(MACHINES)
    dtype = source.choice(["bf16", "fp16"])
    if source.random() < 0.5:
        m, n = (source.choice([128, 200, 256]) * source.randint(8, 56) for _ in range(2))
        k = 64 * source.randint(2, 32)
        major = source.choice([[], ["--b-major", "col"]])
        problem = ["gemm", "--m", m, "--n", n, "--k", k, *major]
    else:
        kv_heads, sharing = source.choice([1, 2, 4, 8]), source.choice([1, 1, 2, 4])
        seq = source.choice([64, 100, 128]) * source.randint(4, 40)
        mask = source.choice([[], ["--causal"]])
        problem = ["attention", *source.choice([[], ["--backward"]]), "--heads", kv_heads * sharing, "--kv-heads", kv_heads,
                   "--seq", seq, "--head-dim", source.choice([64, 128]), *mask]  # fmt: skip
    return [str(word) for word in [*problem, "--dtype", dtype, "--machine", machine]]


def as_options(schedule):
    """A schedule, as weft prints it, as options of the command."""
    options = []
    for key, value in schedule.items():
        if isinstance(value, bool):
            options += [f"--{key}"] if value else []
        else:
            options += [f"--{key}", "x".join(map(str, value)) if isinstance(value, list) else str(value)]
    return options


class Plan(unittest.TestCase):
    def check_against_compare(self, problem):
        plan, rows = weft("plan", *problem, "--cost", "simulator"), weft("compare", *problem)["schedules"]
        best = plan["recommended"]
        told = " ".join(problem) + f": {best['name']}, {best['seconds']} s, {best['dram_read_bytes']} bytes"
        for row in rows:
            self.assertLessEqual(best["seconds"], AS_FAST * row["seconds"], f"{told}, behind {row}")
            if abs(row["seconds"] / best["seconds"] - 1) <= AS_FAST - 1:
                self.assertLessEqual(best["dram_read_bytes"], AS_FRUGAL * row["dram_read_bytes"], f"{told}, behind {row}")
        return plan

    def check_whole(self, problem, row):
        """What is printed is what a whole simulation of the printed schedule gives."""
        run = weft("simulate", *problem, *as_options(row["schedule"]))
        self.assertEqual(row["schedule"], run["schedule"])
        self.assertEqual(row["simulated"], 1)
        self.assertEqual(row["seconds"], run["predicted"]["seconds"])
        self.assertEqual(row["dram_read_bytes"], run["dram"]["read_bytes"])

    def test_random_problems(self):
        source = random.Random(SEED)
        for _ in range(PROBLEMS):
            problem = draw(source)
            with self.subTest(problem=" ".join(problem)):
                plan = self.check_against_compare(problem)
                self.check_whole(problem, plan["recommended"])

    def test_seven_waves(self):
        """A product of seven waves, whose first three say something else."""
        problem = ["gemm", "--machine", "h100", "--m", "4096", "--n", "14336", "--k", "2048", "--dtype", "bf16"]
        plan = self.check_against_compare(problem)
        self.check_whole(problem, plan["recommended"])
        self.check_whole(problem, plan["baseline"])
        self.assertLessEqual(plan["finalists"], plan["searched"])
        for row in plan["best"]:  # by the rule that is printed
            self.assertLessEqual(plan["recommended"]["seconds"], 1.01 * row["seconds"])
        self.assertIn("within 1 % of the fastest", plan["rule"])

    def test_baseline_is_another(self):
        problem = ["gemm", "--machine", "h100", "--m", "2048", "--n", "2048", "--k", "256", "--dtype", "bf16"]
        for given in (["--order", "hilbert"], ["--order", "raster-n"],
                      ["--order", "raster-n", "--sweep", "forward", "--dispatch", "static"]):  # fmt: skip
            plan = weft("plan", *problem, *given)
            self.assertEqual(plan["recommended"]["schedule"]["order"], given[1])
            self.assertNotEqual(plan["baseline"]["schedule"], plan["recommended"]["schedule"])
            self.assertIn(plan["baseline"]["name"], plan["reason"])
        only = weft("plan", *problem, *given, "--tile", "128x128x64")
        self.assertIsNone(only["baseline"])
        self.assertIn("only schedule", only["reason"])

    def test_text(self):
        problem = ["gemm", "--machine", "h100", "--m", "2048", "--n", "2048", "--k", "256", "--dtype", "bf16"]
        text = subprocess.run([WEFT, "plan", *problem], capture_output=True, text=True, check=True).stdout
        plan = weft("plan", *problem)
        why = "".join(f"  {sentence}\n" for sentence in plan["why"])
        self.assertIn(f"recommended: {plan['recommended']['name']}\n{why}elsewhere:\n", text)
        self.assertEqual((plan["why"][0], plan["why"][2]), (plan["reason"], f"rule: {plan['rule']}"))
        self.assertIn("simulated whole", text)
        self.assertEqual(plan["cost"], "simulator")
        for program, words in plan["elsewhere"].items():
            self.assertIn(f"  {program:16} {words}\n", text)
        self.assertIn("RasterOrderOptions::Along", plan["elsewhere"]["cutlass"])

    def test_kernels_of_the_machine(self):
        """Where the kernels here were measured, their model ranks: what the chip's own chooser takes, with simulated traffic."""
        problem = ["attention", "--machine", "h200", "--heads", "16", "--seq", "4K", "--head-dim", "128", "--dtype", "bf16"]
        plan = weft("plan", *problem)
        self.assertEqual((plan["cost"], plan["recommended"]["schedule"]["tile"]), ("model", [192, 80]))
        self.assertGreater(plan["recommended"]["dram_read_bytes"], 0)
        text = subprocess.run([WEFT, "plan", *problem], capture_output=True, text=True, check=True).stdout
        self.assertIn("ranked by the model of the kernels", text)
        self.assertRegex(text, r"192x80 .* 1\.000 ")
        self.assertEqual(weft("plan", *problem, "--cost", "simulator")["cost"], "simulator")
        done = subprocess.run([WEFT, "plan", *problem, "--cost", "model", "--dtype", "fp32"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no CUDA kernel fits", done.stderr)

    def test_backward_elsewhere(self):
        """What FlashAttention-3 calls an order backward, and in which orders its deterministic mode does not stand still."""
        def said(*given):
            problem = ["attention", "--backward", "--machine", "h200", "--heads", "8", "--kv-heads", "4", "--head-dim", "128", "--dtype", "bf16",
                       "--tile", "64x128", "--dispatch", "dynamic", "--seq", "2K"]  # fmt: skip
            return weft("plan", *problem, *given)["elsewhere"]

        causal, hangs = ["--causal"], "may hang"
        for order, mask, words, stands in (
            ("head-first", [], "head-first is its grid order: blockIdx.x is the key block", False),
            ("head-first", causal, "SingleTileScheduler in run_flash_bwd for causal launches, too", True),
            ("block-first", causal, "its SingleTileBwdLPTScheduler with swizzle = batch * heads", True),
            ("reverse", causal, "its SingleTileBwdLPTScheduler with SPT, and swizzle = 1", False),
            ("reverse", [], "with SPT, and swizzle = 1", True),
            ("longest-first", [], "which it has for causal launches, without SPT, and swizzle = 4", False),
            ("longest-first", causal, "and swizzle = 4; it takes 16 by itself, as many as 40 MiB hold", True),
            ("head-first", ["--window", "200,0"], "blockIdx.x is the key block", False),
            ("head-first-swizzled", [], "cannot be set: map blockIdx to key blocks", True),
        ):
            group = ["--group", "2"] if order == "longest-first" else []
            with self.subTest(order=order, mask=mask):
                elsewhere = said("--order", order, "--sweep", "forward", *mask, *group)
                flash = elsewhere["flash-attention"]
                self.assertIn(words, flash)
                self.assertIn(f"tiles add to dQ from the {'last' if mask == causal else 'first'} key block on", flash)
                self.assertEqual(hangs in flash, stands)
                self.assertIn("kBlockM = 64, kBlockN = 128 in run_mha_bwd_hdim*; its loops over m_block go up", flash)
                self.assertIn("pack_gqa is forward only", flash)
                self.assertIn("key block and head", elsewhere["cutlass"])
                self.assertIn("BLOCK_M1 = 64, BLOCK_N1 = 128", elsewhere["triton"])
        self.assertIn("block = at // size", said("--order", "longest-first", "--sweep", "shift", *causal)["triton"])
        self.assertIn("sweep shift cannot be set", said("--order", "longest-first", "--sweep", "shift", *causal)["flash-attention"])
        forward = weft("plan", "attention", "--machine", "h200", "--seq", "2K", "--dtype", "bf16", "--causal", "--order", "longest-first")["elsewhere"]
        self.assertIn("block = blocks - 1 - at // size", forward["triton"])
        self.assertNotIn("deterministic", forward["flash-attention"])

    def test_backward_tiles(self):
        """Steps of a backward pass are queries: tiles of many keys are among the candidates."""
        problem = ["attention", "--backward", "--machine", "h100", "--heads", "64", "--seq", "8K", "--head-dim", "128", "--dtype", "bf16", "--causal"]
        self.assertEqual(weft("plan", *problem)["recommended"]["schedule"]["tile"], [64, 128])

    def test_schedules_are_taken_back(self):
        problem = ["gemm", "--machine", "h100", "--m", "2048", "--n", "2048", "--k", "256", "--dtype", "bf16"]
        plan = subprocess.run([WEFT, "plan", *problem, "--json"], capture_output=True, text=True, check=True).stdout
        schedule = json.loads(plan)["recommended"]["schedule"]
        for given in (plan, json.dumps(schedule), json.dumps({"schedule": schedule})):
            for verb in ("simulate", "compare", "plan"):
                done = subprocess.run([WEFT, verb, *problem, "--schedule", "-", "--json"], input=given, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                told = json.loads(done.stdout)
                if verb == "compare":
                    self.assertEqual([row["schedule"] for row in told["schedules"]], [json.loads(plan)["recommended"]["name"]])
                else:
                    self.assertEqual(told.get("recommended", told)["schedule"], schedule)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(plan)
            file.flush()
            taken = weft("simulate", *problem, "--schedule", file.name, "--sweep", "pair", "--order", "hilbert")["schedule"]
        self.assertEqual((taken["sweep"], taken["order"], taken["tile"]), ("pair", "hilbert", schedule["tile"]))

    def test_bad_schedules_are_refused(self):
        problem = ["simulate", "gemm", "--m", "256", "--n", "256", "--k", "64"]
        cases = {'{"order": "spiral"}': '"order" is not an order', '{"tile": [64]}': '"tile" is not a list', '[1]': "there is no schedule",
                 '{"tile": [64, 0]}': '"tile" is not a whole number', '{"spin": 1}': '"spin" is not a choice', '{"table": 1}': '"table" is not true',
                 '{"order": ': "line 1: no JSON", '{"recommended": {}}': "there is no schedule", '{"workers": 1e3}': '"workers" is not a whole',
                 '{"axis": "k"}': '"axis" is not "n" or "m"', '{"split": 99999999999999999999}': "line 1: no JSON"}  # fmt: skip
        for text, wrong in cases.items():
            done = subprocess.run([WEFT, *problem, "--schedule", "-"], input=text, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), text)
            self.assertIn("standard input: ", done.stderr)
            self.assertIn(wrong, done.stderr)
        done = subprocess.run([WEFT, *problem, "--schedule", "/no/such/file"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "weft: --schedule /no/such/file: it cannot be opened\n"))

    def test_long_problems_say_what_was_simulated(self):
        problem = ["attention", "--machine", "gb10", "--heads", "16", "--seq", "256K", "--head-dim", "64", "--dtype", "bf16",
                   "--tile", "256x128", "--dispatch", "static", "--order", "head-first"]  # fmt: skip
        plan = weft("plan", *problem)
        self.assertLess(plan["recommended"]["simulated"], 1)
        self.assertEqual(plan["recommended"]["schedule"]["sweep"], "sawtooth")


if __name__ == "__main__":
    unittest.main(verbosity=2)
