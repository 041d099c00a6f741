"""When memory runs out the command says so and writes nothing: each single allocation fails in turn.

    test_memory.py PATH_TO_WEFT PATH_TO_FAIL_ALLOC

WEFT_TEST_ROUNDS says, in per cent of three, how many allocations of each command are tried, spread evenly (0: all).
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

WEFT, FAIL_ALLOC = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS") or 100)
SAMPLES = max(1, 3 * ROUNDS // 100) if ROUNDS else 0
SMALL = ["--m", "256", "--n", "256", "--k", "128"]
SHORT = ["--seq", "256", "--head-dim", "16"]

# What differs from run to run: how long things took.
TIMES = re.compile(rb'"(elapsed_seconds|seconds|tflops|least|most)":[-+.e0-9]+|in \d+\.\d+ s|\d+\.\d+ [mn]?s, [.\d]+ [TGM]FLOP/s')


class Failing(unittest.TestCase):
    def run_command(self, arguments, folder, **variables):
        """Exit code, standard output, the file (None when there is none) and the lines on standard error."""
        path = os.path.join(folder, "out")
        with open(path, "wb") as file:
            file.write(b"before")
        environment = dict(os.environ, LD_PRELOAD=FAIL_ALLOC, OMP_NUM_THREADS="1", HOME=folder, **variables)
        result = subprocess.run([WEFT, *(path if a == "OUT" else a for a in arguments)], capture_output=True,
                                env=environment, cwd=folder)  # fmt: skip
        with open(path, "rb") as file:
            written = file.read()
        self.assertEqual([name for name in os.listdir(folder) if name not in ("out", "count")], [], "left behind")
        # The message of the threads' library begins with an empty line.
        lines = [line for line in result.stderr.decode().splitlines() if line]
        return result.returncode, TIMES.sub(b"TIME", result.stdout), TIMES.sub(b"TIME", written), lines

    def fail_in_turn(self, *arguments, cost=1, begin=0.0):
        """`cost`: how many times fewer allocations to try than of other commands; `begin`: the share to leave out."""
        with tempfile.TemporaryDirectory() as folder:
            count = os.path.join(folder, "count")
            right = self.run_command(arguments, folder, FAIL_ALLOC_COUNT=count)
            self.assertEqual((right[0], right[3]), (0, []))
            with open(count) as file:
                last = int(file.read())
            first = 1 + int(begin * last) if SAMPLES else 1
            step = max(1, (last - first) * cost // SAMPLES) if SAMPLES else 1
            failed, wrong = 0, []
            for number in range(first, last + 1, step):
                code, output, written, lines = self.run_command(arguments, folder, FAIL_ALLOC=str(number))
                if code == 0 and (output, written, lines) == right[1:]:
                    continue
                failed += 1
                if code != 1 or output or written != b"before" or len(lines) != 1:
                    same = "same" if output == right[1] else f"{len(output)} of {len(right[1])} bytes"
                    wrong.append(f"allocation {number} of {last}: exit {code}, output {same}, file {len(written)} bytes, {lines}")
            self.assertFalse(wrong, "\n".join([f"{len(wrong)} wrong", *wrong]))
            self.assertGreater(failed, 0, "no allocation that mattered has failed")


class Memory(Failing):
    def test_orders(self):
        self.fail_in_turn("orders", "--json")

    def test_machines(self):
        self.fail_in_turn("machines", "--json")
        self.fail_in_turn("machines", "h200", "--json")
        self.fail_in_turn("machines", "host", "--json")

    def test_order(self):
        self.fail_in_turn("order", "show", "gemm", *SMALL, "--json")

    def test_simulate(self):
        self.fail_in_turn("simulate", "gemm", *SMALL, "--machine", "mi300x", "--per-domain", "--json")
        self.fail_in_turn("simulate", "attention", *SHORT, "--machine", "h200", "--json")
        self.fail_in_turn("simulate", "attention", *SHORT, "--machine", "gb10", "--curve", "--json")

    def test_run(self):
        self.fail_in_turn("run", "gemm", *SMALL, "--json")
        self.fail_in_turn("run", "attention", *SHORT, "--json")

    def test_compare(self):
        self.fail_in_turn("compare", "attention", *SHORT, "--machine", "h200", "--dispatch", "static", "--json")

    def test_sweep(self):
        sweep = ["simulate", "gemm", *SMALL, "--order", "hilbert,raster-n", "--machine", "gb10,h100"]
        self.fail_in_turn(*sweep, "--json")
        self.fail_in_turn(*sweep, "--csv", "--svg", "-o", "OUT")

    def test_plan(self):
        self.fail_in_turn("plan", "attention", *SHORT, "--machine", "gb10", "--order", "head-first", "--json")

    def test_tune(self):
        self.fail_in_turn("tune", "--list", "--json")

    def test_view(self):
        view = ["view", "gemm", *SMALL, "--machine", "h100"]
        self.fail_in_turn(*view, "-o", "OUT")
        self.fail_in_turn(*view, "--svg")
        self.fail_in_turn(*view, "--svg", "-o", "OUT")
        self.fail_in_turn(*view, "--text")
        self.fail_in_turn("view", "attention", *SHORT, "--machine", "mi300x", "--json")

    def test_reproduce(self):
        self.fail_in_turn("reproduce", "cutile", "--json", "--seeds", "2", cost=5)


class Report(Failing):
    """Apart: it simulates a whole study each time."""

    def test_report(self):
        self.fail_in_turn("report", "cutile", "-o", "OUT", cost=20, begin=0.995)


if __name__ == "__main__":
    unittest.main()
