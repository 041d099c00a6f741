# SPDX-License-Identifier: Apache-2.0
"""weft on a GPU, from the outside, with the fake driver: outputs, exit codes, messages.

    test_cli_cuda.py PATH_TO_WEFT PATH_TO_FAKE_DRIVER ON|OFF

The last word says whether this build has kernels. The fake runs the reference, so results are right and times mean nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

KERNELS = sys.argv.pop(3) == "ON"
FAKE = os.path.abspath(sys.argv.pop(2))
WEFT = os.path.abspath(sys.argv.pop(1))
SMALL = ["--heads", "2", "--seq", "150", "--dtype", "bf16", "--device", "cuda"]


def run(*arguments, script="", driver=FAKE):
    environment = {**os.environ, "WEFT_CUDA_DRIVER": driver, "FAKE_CUDA": script}
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, env=environment)


class OnGpu(unittest.TestCase):
    def ok(self, *arguments, script=""):
        result = run(*arguments, script=script)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def refused(self, expected, *arguments, code=1, **options):
        result = run(*arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (code, ""), (arguments, result.stderr))
        self.assertEqual(result.stderr.count("\n"), 1, "one line")
        self.assertIn(expected, result.stderr)


class Missing(OnGpu):
    """What is missing on this machine is said in one line, and the exit code is 1."""

    CASES = [
        ("weft: no CUDA driver: /none/libcuda.so.1", {"driver": "/none/libcuda.so.1"}),
        ("weft: no GPU: the CUDA driver is here and finds no device", {"script": "devices=0"}),
        ("weft: the CUDA driver is too old: it is for CUDA 11.4", {"script": "version=11040"}),
        ("weft: the CUDA driver does not start", {"script": "init=803"}),
    ]

    def test_every_verb(self):
        for expected, options in self.CASES:
            for verb in [["run", "attention", *SMALL], ["compare", "attention", *SMALL], ["tune", "attention", *SMALL], ["machines", "probe"]]:
                with self.subTest(expected=expected, verb=verb):
                    self.refused(expected, *verb, **options)

    def test_doctor(self):
        """The doctor is told the same, and says what to do."""
        for expected, options in self.CASES:
            result = run("doctor", "--json", **options)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            gpu = json.loads(result.stdout)["findings"][-1]
            self.assertEqual((gpu["section"], gpu["works"]), ("GPUs", False))
            self.assertIn(expected.removeprefix("weft: "), gpu["text"])
            self.assertTrue(gpu["advice"])

    @unittest.skipIf(KERNELS, "this build has kernels")
    def test_no_kernels(self):
        for verb in [["run", "attention", *SMALL], ["machines", "probe"]]:
            self.refused("weft: this build of weft has no CUDA kernels: it was made without nvcc", *verb)


@unittest.skipUnless(KERNELS, "this build has no kernels")
class Kernels(OnGpu):
    def test_doctor(self):
        findings = {f["name"]: f for f in json.loads(self.ok("doctor", "--json"))["findings"] if f["section"] == "GPUs"}
        self.assertTrue(findings["driver and GPU"]["works"])
        self.assertTrue(findings["driver and GPU"]["text"].startswith("GPU 0, "))
        for operation in ["attention", "gemm"]:
            self.assertTrue(findings[operation]["works"])
            self.assertIn("bf16 by ", findings[operation]["text"])
        for counter in ["counters (CUPTI)", "energy (NVML)"]:
            self.assertTrue(findings[counter]["works"] or findings[counter]["advice"])
        old = json.loads(self.ok("doctor", "--json", script="capability=70"))["findings"]
        gemm = next(f for f in old if (f["section"], f["name"]) == ("GPUs", "gemm"))
        self.assertEqual((gemm["works"], "8.0" in gemm["text"]), (False, True))

    def test_wrong_architecture(self):
        self.refused("compute capability 7.0, and 8.0 is needed", "run", "attention", *SMALL, script="capability=70")
        self.refused("have no code for this GPU and driver", "run", "attention", *SMALL, script="load=209")
        self.refused("have no code for this GPU and driver", "machines", "probe", script="load=209")

    def test_refusals(self):
        self.refused("dtype fp32 is not fp16 or bf16", "run", "attention", "--device", "cuda")
        self.refused("head_dim 130 (V: 130) with precise math is not compiled", "run", "attention", *SMALL, "--head-dim", "130", "--kernel",
                     "study:precise")
        self.refused("no GPU 2: there is 1", "run", "attention", *SMALL, "--gpu", "2")
        self.refused("out of memory", "run", "attention", *SMALL, "--dispatch", "static", "--json", script="memory=2")
        self.refused("cannot be launched", "run", "attention", *SMALL, "--json", script="launch=701")
        self.refused("the kernel failed", "run", "attention", *SMALL, "--json", script="synchronize=700")
        self.refused("it takes bf16 and fp16, not fp32", "run", "grouped-gemm", "--rows", "64", "--device", "cuda")
        self.refused("order hilbert is not for attention", "run", "attention", *SMALL, "--order", "hilbert", code=2)
        self.refused("no machine", "run", "attention", *SMALL, "--machine", "gb11", code=2)

    def test_run(self):
        result = json.loads(self.ok("run", "attention", *SMALL, "--causal", "--repeat", "3", "--json"))
        self.assertEqual(result["device"], "cuda")
        self.assertEqual(result["machine"], "fake-h200-live")
        self.assertEqual(result["runs"], 3)
        self.assertRegex(result["kernel"], r"^attention_bf16_d64_\d+x\d+__hopper$")
        self.assertGreater(result["seconds"], 0)
        self.assertGreater(result["tflops"], 0)
        self.assertTrue(result["check"]["passed"])
        text = self.ok("run", "attention", *SMALL, "--repeat", "2")
        self.assertIn("planned for this GPU: NVIDIA Fake H200", text)
        self.assertIn("(median of 2 runs)", text)

    def test_knobs(self):
        result = json.loads(self.ok("run", "attention", *SMALL, "--precise", "--mask-every-block", "--no-prefetch", "--ctas",
                                    "1", "--tile", "64x64", "--json"))  # fmt: skip
        self.assertEqual(result["kernel"], "attention_bf16_d64_64x64__study_precise")
        self.assertEqual(result["schedule"]["workers"], 12)

    def test_compare(self):
        rows = json.loads(self.ok("compare", "attention", *SMALL, "--order", "head-first", "--repeat", "2", "--json"))
        self.assertEqual(len(rows["schedules"]), 3)
        for row in rows["schedules"]:
            self.assertGreater(row["measured"]["seconds"], 0)
            self.assertGreater(row["measured"]["tflops"], 0)
        self.assertIn("measured ms", self.ok("compare", "attention", *SMALL, "--order", "head-first", "--repeat", "2"))

    def test_backward(self):
        problem = ["attention", *SMALL, "--backward", "--causal", "--sinks", "--repeat", "2"]
        result = json.loads(self.ok("run", *problem, "--json"))
        self.assertEqual((result["problem"]["kind"], result["device"]), ("attention-backward", "cuda"))
        self.assertRegex(result["kernel"], r"^attention_backward_bf16_d64__hopper_general_main$")
        self.assertTrue(result["check"]["passed"])
        rows = json.loads(self.ok("compare", *problem, "--order", "head-first", "--json"))
        self.assertEqual(len(rows["schedules"]), 8)
        self.refused("it has no head dims above 256", "run", *problem, "--head-dim", "300")

    def test_backward_by_side(self):
        """The four mappings of the NUMA study, of which the swizzled ones are placed by the two sides of the L2."""
        mappings = {"block-first", "block-first-swizzled", "head-first", "head-first-swizzled"}
        problem = ["attention", *SMALL, "--backward", "--domains", "2", "--sweep", "shift", "--repeat", "1"]
        for dispatch in ["static", "dynamic"]:
            rows = json.loads(self.ok("compare", *problem, "--dispatch", dispatch, "--json"))["schedules"]
            self.assertLessEqual(mappings, {row["schedule"].split()[1] for row in rows})
            self.assertTrue(all(row["measured"]["seconds"] > 0 for row in rows))
            for order in sorted(mappings):
                result = json.loads(self.ok("run", *problem, "--order", order, "--dispatch", dispatch, "--json"))
                self.assertEqual(result["kernel"], "attention_backward_bf16_d64__hopper_ragged_main")
                self.assertTrue(result["check"]["passed"])

    def test_gemm(self):
        problem = ["gemm", "--m", "200", "--n", "136", "--k", "72", "--dtype", "bf16", "--device", "cuda"]
        result = json.loads(self.ok("run", *problem, "--beta", "0.5", "--batch", "2", "--repeat", "2", "--json"))
        self.assertRegex(result["kernel"], r"^gemm_bf16_kn_\d+x\d+__sm90a$")
        self.assertTrue(result["check"]["passed"])
        result = json.loads(self.ok("run", *problem, "--tile", "128x128", "--split", "2", "--repeat", "2", "--json"))
        self.assertEqual((result["schedule"]["split"], result["schedule"]["dispatch"]), (2, "grid"))
        rows = json.loads(self.ok("compare", *problem, "--order", "hilbert", "--cluster", "2x1", "--repeat", "2", "--json"))
        self.assertEqual(len(rows["schedules"]), 2)  # it has no pair sweep
        for row in rows["schedules"]:
            self.assertGreater(row["measured"]["seconds"], 0)
        self.refused("ldc 137 is not a multiple of 8", "run", *problem, "--n", "137", "--kernel", "hopper_gemm")
        result = json.loads(self.ok("run", *problem, "--n", "137", "--repeat", "2", "--json"))
        self.assertRegex(result["kernel"], r"^gemm_bf16_kk_\d+x\d+__portable$")  # of a copy of B
        self.assertTrue(result["check"]["passed"])
        result = json.loads(self.ok("run", *problem, "--kernel", "portable_gemm", "--repeat", "2", "--json"))
        self.assertRegex(result["kernel"], r"^gemm_bf16_kn_\d+x\d+__portable$")
        self.assertTrue(result["check"]["passed"])
        self.refused("it has no pair sweep", "run", *problem, "--sweep", "pair")

    def test_gemm_of_fp32(self):
        """Each precision is held to what a plain product of that precision has."""
        problem = ["gemm", "--m", "150", "--n", "137", "--k", "71", "--device", "cuda", "--repeat", "1"]
        for precision, kernel in ("fp32", "gemm_bf16_kk"), ("bf16x3", "gemm_bf16_kk"), ("tf32", "gemm_tf32_kk"):
            result = json.loads(self.ok("run", *problem, "--precision", precision, "--json"))
            self.assertRegex(result["kernel"], f"^{kernel}_.*__portable$")  # lines of C begin anywhere
            self.assertEqual(result["problem"].get("precision", "fp32"), precision)
            self.assertTrue(result["check"]["passed"])
        text = self.ok("run", *problem, "--precision", "tf32", "--n", "136", "--verbose")
        self.assertIn("fp32 by tf32 in, fp32 out", text)
        self.assertRegex(text, r"gemm_operands\b.*gemm_tf32_kk_\d+x\d+__sm90a")
        self.refused("it adds parts of fp32 from the smallest to the largest", "run", *problem, "--sweep", "sawtooth")
        self.refused("choose fp32, bf16x3 or tf32", "run", *problem, "--precision", "fp16", code=2)

    def test_every_chip(self):
        """Each is launched as its chip allows: fake_chips.def has an H200 first."""
        bf16 = ["--dtype", "bf16", "--device", "cuda", "--repeat", "1", "--json"]
        cache = ["--page", "16", "--append", "1", "--causal", "--bottom-right", "--seq", "1", "--kv-seq", "592"]
        for problem, kernel, hopper in [
            (["attention", "--heads", "2", "--seq", "150"], "__study_fast", "__hopper"),
            (["attention", "--heads", "2", "--seq", "150", "--backward"], "__study_dk_dv", "__hopper_ragged_main"),
            (["attention", "--heads", "2", "--seq", "150", "--o-dtype", "fp32"], "__study_general_fast", "__study_general_fast"),
            (["attention", "--heads", "2", "--seq", "150", "--o-dtype", "fp32", "--backward"], "__study_dk_dv", "__study_dk_dv"),
            (["attention", "--heads", "4", "--kv-heads", "2", "--head-dim", "256", *cache], "_append", "_append"),
            (["gemm", "--m", "200", "--n", "136", "--k", "72"], "__portable", "__sm90a"),
            (["combine", "--heads", "2", "--seq", "50", "--parts", "3"], "combine_parts", "combine_parts"),
            (["combine", "--heads", "2", "--seq", "50", "--into", "--o-dtype", "fp32"], "combine_parts", "combine_parts"),
            (["combine", "--heads", "2", "--seq", "50", "--into", "--sum"], "combine_parts", "combine_parts"),
        ]:
            for gpu in range(5):
                with self.subTest(problem=problem, gpu=gpu):
                    result = json.loads(self.ok("run", *problem, *bf16, "--gpu", str(gpu), script="chips=1"))
                    self.assertTrue(result["kernel"].endswith(kernel if gpu else hopper), result["kernel"])
                    self.assertTrue(result["check"]["passed"])

    def test_tune(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WEFT_TUNING_DB"] = os.path.join(folder, "tuning.db")
            self.addCleanup(os.environ.pop, "WEFT_TUNING_DB")
            given = [*SMALL, "--kernel", "study", "--order", "head-first", "--sweep", "forward"]
            found = json.loads(self.ok("tune", "attention", *given, "--seconds", "1", "--json"))
            self.assertEqual((found["device"], found["machine"]), ("cuda", "fake-h200-live"))
            self.assertGreater(found["search"]["candidates"], 20)
            self.assertRegex(found["kernel"], r"__study_fast$")
            listed = json.loads(self.ok("tune", "--list", "--json"))["rows"]
            self.assertEqual([(row["device"], row["driver"]) for row in listed], [("NVIDIA Fake H200, 12 SMs", 13)])
            self.ok("run", "attention", *given, "--mode", "stored", "--repeat", "2")
            self.refused("nothing was tuned for", "run", "attention", *SMALL, "--mode", "stored")
            self.refused("cannot be launched", "tune", "attention", *given, "--again", script="launch=701")

    def test_probe(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.ini")
            text = self.ok("machines", "probe", "-o", path)
            self.assertIn("side of SM 0, 1, 2, ...: 001100110011\n", text)
            self.assertIn("fake-h200-live: NVIDIA Fake H200", self.ok("machines", path))
            self.ok("simulate", "attention", "--machine", path, "--seq", "2K", "--heads", "4")
            with open(path) as file:
                self.assertIn("# 001100110011\n", file.read())
            self.refused("No such file or directory", "machines", "probe", "-o", folder + "/none/mine.ini")
        found = json.loads(self.ok("machines", "probe", "--json", script="sides=1"))
        self.assertEqual((found["sides"], found["members"], found["side_of_sm"]), (1, [12, 0], "0" * 12))
        self.refused("--output is for 'weft machines NAME' or 'weft machines probe'", "machines", "-o", "x.ini", code=2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
