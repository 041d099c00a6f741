# SPDX-License-Identifier: Apache-2.0
"""`weft run` and `weft compare` with --counters, with a fake CUDA driver and a fake CUPTI.

    test_cli_counters.py PATH_TO_WEFT PATH_TO_FAKE_DRIVER PATH_TO_FAKE_CUPTI ON|OFF

The last word says whether this build has kernels. The fake CUPTI's value of a metric is the length of its name.
"""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from terminal import on_terminal

KERNELS = sys.argv.pop(4) == "ON"
WEFT, DRIVER, CUPTI = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SMALL = ["attention", "--seq", "150", "--dtype", "bf16"]
ON_GPU = [*SMALL, "--device", "cuda", "--repeat", "1", "--counters"]


def run(*arguments, cupti=CUPTI, **environment):
    environment = {**os.environ, "WEFT_CUDA_DRIVER": DRIVER, "WEFT_CUPTI": cupti, **environment}
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, env=environment)


class Counters(unittest.TestCase):
    def test_needs_a_gpu(self):
        for verb in ["run", "compare"]:
            result = run(verb, *SMALL, "--counters")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, "weft: --counters are of a GPU: --device cuda\n")

    @unittest.skipUnless(KERNELS, "this build has no kernels")
    def test_run(self):
        result = run("run", *ON_GPU, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        counters = json.loads(result.stdout)["counters"]
        self.assertEqual(counters["l2_misses"], len("lts__t_sectors_lookup_miss.sum"))
        self.assertEqual(counters["dram_read_bytes"], len("dram__bytes_read.sum"))
        text = run("run", *ON_GPU).stdout
        self.assertRegex(text, r"\nl2_misses +30\.000 +\d+ +sectors\n")

    @unittest.skipUnless(KERNELS, "this build has no kernels")
    def test_progress(self):
        for verb, tasks in (("run", ("warming up", "counting")), ("compare", ("counting",))):
            code, shown = on_terminal([WEFT, verb, *ON_GPU], WEFT_CUDA_DRIVER=DRIVER, WEFT_CUPTI=CUPTI)
            self.assertEqual(code, 0)
            for what in tasks:
                self.assertRegex(shown, rf"{what}: \d+ %, about \d+ s left")

    @unittest.skipUnless(KERNELS, "this build has no kernels")
    def test_lacking(self):
        result = run("run", *ON_GPU, "--json", FAKE_CUPTI_LACK="dram__bytes_read.sum")
        self.assertIsNone(json.loads(result.stdout)["counters"]["dram_read_bytes"])
        self.assertIn("not on this chip", run("run", *ON_GPU, FAKE_CUPTI_LACK="dram__bytes_read.sum").stdout)

    @unittest.skipUnless(KERNELS, "this build has no kernels")
    def test_compare(self):
        schedules = json.loads(run("compare", *ON_GPU, "--order", "head-first", "--json").stdout)["schedules"]
        self.assertEqual({row["counters"]["l2_hits"] for row in schedules}, {float(len("lts__t_sectors_lookup_hit.sum"))})
        text = run("compare", *ON_GPU, "--order", "head-first").stdout
        self.assertEqual(text.count(" counted "), len(schedules))

    @unittest.skipUnless(KERNELS, "this build has no kernels")
    def test_refused(self):
        """One line: why there are no counters, and the command that reads them instead."""
        for expected, options in [("run as root", {"FAKE_CUPTI_FAIL": "cuptiRangeProfilerEnable=35"}),
                                  ("CUPTI is not at /none/libcupti.so", {"cupti": "/none/libcupti.so"})]:
            result = run("run", *ON_GPU, **options)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(expected, result.stderr)
            command = result.stderr.strip().split("; or run: ")[1]
            self.assertTrue(command.startswith("ncu --clock-control none "), command)
            self.assertTrue(command.endswith(f" {WEFT} run {' '.join(ON_GPU[:-1])}"), command)


if __name__ == "__main__":
    unittest.main()
