# SPDX-License-Identifier: Apache-2.0
"""Progress: one line with the time left on a terminal, nothing in a pipe.

    test_progress.py PATH_TO_WEFT
"""

import os
import subprocess
import sys
import tempfile
import unittest

from terminal import on_terminal

WEFT = sys.argv.pop(1)


class Progress(unittest.TestCase):
    def shows(self, what, *arguments):
        code, shown = on_terminal([WEFT, *arguments])
        self.assertEqual(code, 0)
        self.assertRegex(shown, rf"\r?{what}: \d+ %, about \d+ s left")
        self.assertTrue(shown.endswith("\r\033[K"), "the line is wiped at the end")
        self.assertNotIn("\n", shown)

    def test_simulate(self):
        attention = ["attention", "--machine", "gb10", "--seq", "32K", "--heads", "2", "--tile", "64x64"]
        self.shows("simulating", "simulate", *attention)
        self.shows("simulating every size of the L2", "simulate", *attention, "--curve")
        self.shows("simulating every size of the L2", "simulate", "attention", "--machine", "h200", "--seq", "32K", "--curve")
        result = subprocess.run([WEFT, "simulate", *attention], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_compare_and_run(self):
        self.shows("simulating schedules", "compare", "gemm", "--machine", "h100")
        self.shows("running", "run", "gemm")

    def test_reproduce(self):
        self.shows("reproducing", "reproduce", "cutile")
        self.shows("reproducing", "reproduce", "spark-gemm", "--json", "--seeds", "2")

    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            code, shown = on_terminal([WEFT, "report", "cutile", "-o", os.path.join(folder, "report.html")])
        self.assertEqual(code, 0)
        for what in ["reproducing studies", "simulating schedules"]:
            self.assertRegex(shown, rf"{what}: \d+ %, about \d+ s left")

    def test_view(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "view.html")
            for machine in ("gb10", "h200"):  # a curve in one pass, and one with a pass for each size
                self.shows("simulating schedules", "view", "attention", "--machine", machine, "--seq", "16K", "-o", page)
            trace = os.path.join(folder, "kernel.trace")
            attention = ["attention", "--machine", "gb10", "--seq", "16K", "--heads", "2", "--tile", "64x64"]
            made = subprocess.run([WEFT, "simulate", *attention, "--trace-out", trace], stdout=subprocess.DEVNULL)
            self.assertEqual(made.returncode, 0)
            self.shows("simulating traces", "view", "trace", trace, "--machine", "gb10", "-o", page)

    def test_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            attention = ["attention", "--machine", "gb10", "--seq", "16K", "--heads", "2", "--tile", "64x64"]
            for name in ("kernel.trace", "kernel.csv"):
                trace = os.path.join(folder, name)
                code, shown = on_terminal([WEFT, "simulate", *attention, "--trace-out", trace])
                self.assertEqual(code, 0)
                for what in ("writing the trace", "simulating"):
                    self.assertRegex(shown, rf"{what}: \d+ %, about \d+ s left")
                self.shows("reading the trace", "simulate", "trace", trace, "--machine", "gb10")

    def test_runs_and_checks(self):
        """Of several runs together, and of a check that ends before all is compared."""
        code, shown = on_terminal([WEFT, "run", "gemm", "--m", "1K", "--n", "1K", "--k", "1K", "--repeat", "3"])
        self.assertEqual(code, 0)
        for what in ("drawing inputs", "running", "checking"):
            self.assertRegex(shown, rf"{what}: \d+ %, about \d+ s left")
        self.shows("checking", "run", "attention", "--seq", "512", "--ranks", "2")
        self.shows("running ranks", "run", "attention", "--seq", "512", "--ranks", "2", "--repeat", "2")
        with tempfile.TemporaryDirectory() as folder:
            self.shows("simulating ranks", "view", "attention", "--ranks", "8", "--machine", "h100", "--seq", "8K", "-o",
                       os.path.join(folder, "view.html"))  # fmt: skip

    def test_a_message_has_a_line_of_its_own(self):
        code, shown = on_terminal([WEFT, "simulate", "gemm", "--drift", "2"])
        self.assertEqual((code, shown.replace("\r\033[K", "|")), (2, "simulating ...|weft: drift 2 is not at most 1\r\n"))


if __name__ == "__main__":
    unittest.main()
