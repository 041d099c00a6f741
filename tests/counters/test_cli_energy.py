# SPDX-License-Identifier: Apache-2.0
"""`weft run --energy` and `weft reproduce energy`, with a fake CUDA driver, a fake CUPTI and a fake NVML.

    test_cli_energy.py PATH_TO_WEFT PATH_TO_FAKE_DRIVER PATH_TO_FAKE_CUPTI PATH_TO_FAKE_NVML PATH_TO_ONE_WITHOUT_ENERGY

By the fake NVML a launch takes a quarter of a joule.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from terminal import on_terminal

WEFT, DRIVER, CUPTI, NVML, INCOMPLETE = (os.path.abspath(sys.argv.pop(1)) for _ in range(5))
PRODUCT = ["gemm", "--m", "16", "--n", "16", "--k", "16", "--dtype", "bf16"]
ON_GPU = ["run", *PRODUCT, "--device", "cuda", "--repeat", "1", "--energy"]
STUDY = ["reproduce", "energy", "--device", "cuda", "--sizes", "16", "--repeat", "1"]
ORDERS = ["raster-m", "group", "hilbert", "serpentine"]


def run(*arguments, nvml=NVML, **environment):
    environment = {**os.environ, "WEFT_CUDA_DRIVER": DRIVER, "WEFT_CUPTI": CUPTI, "WEFT_NVML": nvml, **environment}
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, env=environment)


def shown(*arguments):
    """What a terminal shows that is standard error."""
    code, text = on_terminal([WEFT, *arguments], WEFT_CUDA_DRIVER=DRIVER, WEFT_CUPTI=CUPTI, WEFT_NVML=NVML)
    assert code == 0, text
    return text


class Energy(unittest.TestCase):
    def refused(self, expected, *arguments, code=1, **options):
        result = run(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (code, 1), result)
        self.assertIn(expected, result.stderr)

    def test_run(self):
        result = run(*ON_GPU, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = json.loads(result.stdout)
        energy = result["energy"]
        self.assertAlmostEqual(energy["joules"], 0.25)
        self.assertAlmostEqual(energy["tflop_per_joule"], 2 * 16**3 / 0.25 / 1e12, delta=1e-15)
        self.assertAlmostEqual(energy["watts"] * energy["seconds"], energy["joules"])
        self.assertGreaterEqual(energy["runs"], 20)
        self.assertIn(energy["settled"], (True, False))  # as busy as this machine is
        self.assertTrue(result["check"]["passed"])
        self.assertRegex(run(*ON_GPU).stdout, r"\nenergy: 0\.25 J a run, [\d.]+ W, 3\.277e-08 TFLOP/J \(\d+ runs of [\d.]+ s")
        self.assertNotIn("energy", json.loads(run(*ON_GPU[:-1], "--json").stdout))

    def test_progress(self):
        self.assertRegex(shown(*ON_GPU), r"measuring energy: \d+ %, about \d+ s left")
        text = shown(*STUDY)
        for what in ("counting", "measuring energy"):
            self.assertRegex(text, rf"{what}: \d+ %, about \d+ s left")
        shares = [int(share) for share in re.findall(r"measuring energy: (\d+) %", text)]
        self.assertTrue(min(shares) < 60 and max(shares) > 80, shares)

    def test_study(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "energy.csv")
            result = run(*STUDY, "--json", "-o", path)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            rows = json.loads(result.stdout)["energy"]
            with open(path, newline="") as file:
                lines = list(csv.DictReader(file))
        self.assertEqual([line["order"] for line in lines], ORDERS)
        self.assertEqual([line["sweep"] for line in lines], ["forward"] * 3 + ["sawtooth"])
        self.assertEqual({line["joules"] for line in lines}, {"0.25"})
        self.assertEqual(len({line["tile"] + line["cluster"] + line["dispatch"] for line in lines}), 1)  # the order alone differs
        self.assertEqual({row["section"] for row in rows}, {"16 x 16 x 16, bf16"})
        for unit in ["TFLOP/s", "W", "TFLOP/J", "DRAM reads (GB)"]:
            self.assertEqual([row["label"].startswith(f"{unit}, {order}") for row, order in
                              zip([row for row in rows if row["label"].startswith(unit + ",")], ORDERS)], [True] * 4)  # fmt: skip
        for row in rows:
            self.assertGreater(row["measured"], 0)
            if row["label"].startswith("TFLOP/J"):
                self.assertAlmostEqual(row["measured"], 2 * 16**3 / 0.25 / 1e12, delta=1e-15)

    def test_refused(self):
        """Before the problem runs, where that can be known; for a counter that stands still, after a second."""
        for command in [ON_GPU, STUDY]:
            self.refused("energy needs NVML", *command, nvml="/none/libnvidia-ml.so.1")
            self.refused("NVML has no nvmlDeviceGetTotalEnergyConsumption", *command, nvml=INCOMPLETE)
            self.refused("has no energy counter that NVML can read: Not Supported", *command, FAKE_NVML="energy=3")
            self.refused("NVML does not find NVIDIA Fake H200 at PCI bus id 0000:17:00.0", *command, FAKE_NVML="find=6")
            self.refused("energy counter stands still", *command, FAKE_NVML="still=1")
        self.refused("energy needs NVML", *ON_GPU, nvml="/none/libnvidia-ml.so.1", FAKE_CUDA="launch=701")
        self.refused("--energy is of a GPU: --device cuda", "run", *PRODUCT, "--energy", code=2)
        self.refused("study energy measures a GPU: --device cuda", "reproduce", "energy", code=2)
        self.refused("--sizes is for the study energy", "reproduce", "cutile", "--sizes", "1K", code=2)
        self.refused("CUPTI is not at /none/libcupti.so", *STUDY, WEFT_CUPTI="/none/libcupti.so")


if __name__ == "__main__":
    unittest.main()
