# SPDX-License-Identifier: Apache-2.0
"""The command, from the outside: outputs, exit codes, messages.

    test_cli.py PATH_TO_WEFT
"""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from command import WEFT, Command, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINES = sorted(path.stem for path in (ROOT / "machines").glob("*.ini"))


class Orders(Command):
    NAMES = [
        "raster-m", "raster-n", "group", "serpentine", "hilbert", "serpentine-swizzled", "block-first", "block-first-swizzled", "head-first",
        "head-first-swizzled", "reverse", "longest-first", "custom",
    ]  # fmt: skip

    def test_machines_and_profiles_are_written_and_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.ini")
            for verb, names in (("machines", ("h100", "mi300x", "gb10", "host")), ("profiles", ("study", "sawtooth-cuda"))):
                for name in names:
                    self.ok(verb, name, "-o", path)
                    self.assertIn(f"Reports call it {name} until", self.ok(verb, name, "-o", path))
                    self.assertEqual(self.json(verb, path), self.json(verb, name))
                    with open(path) as file:  # large numbers as one writes them
                        self.assertNotRegex(file.read(), r"= \d+0000000 ")
        self.refused("--output is for 'weft profiles NAME'", "profiles", "-o", "x")

    def test_text_and_json_list_the_same(self):
        text = self.ok("orders")
        listed = self.json("orders")
        self.assertEqual([o["name"] for o in listed["orders"]], self.NAMES)
        self.assertEqual([s["name"] for s in listed["sweeps"]], ["forward", "sawtooth", "pair", "shift", "shift-causal", "descending", "fold-causal", "climb"])
        self.assertEqual([d["name"] for d in listed["dispatches"]], ["grid", "static", "dynamic"])
        for row in listed["orders"] + listed["sweeps"] + listed["dispatches"]:
            self.assertIn(row["name"] + " ", text)
            self.assertIn(row["text"], text)

    def test_every_order_shows_every_position_once(self):
        for order in self.json("orders")["orders"][:-1]:  # but for custom, which needs a file: see test_order_file.py
            rows = self.json("order", "show", order["subject"], "--order", order["name"])["rows"]
            cells = sorted(cell for row in rows for cell in row)
            self.assertEqual(cells, list(range(len(cells))), order["name"])

    def test_picture(self):
        self.assertEqual(
            self.ok("order", "show", "gemm", "--m", "3", "--n", "4", "--tile", "1x1", "--order", "raster-m"),
            " 0  3  6  9\n 1  4  7 10\n 2  5  8 11\n",
        )
        self.assertEqual(
            self.ok("order", "show", "gemm", "--m", "4", "--n", "4", "--tile", "1x1", "--order", "hilbert", "--show", "path"),
            "╶─┐ ┌─╴\n┌─┘ └─┐\n│ ┌─┐ │\n└─┘ └─┘\n",
        )

    def test_too_large_to_show(self):
        self.refused(
            "a grid of 1 x 8192 x 8192 tiles is too large to show: at most 256 rows and 64 columns",
            "order", "show", "gemm", "--m", "1M", "--n", "1M",
        )  # fmt: skip


class Machines(Command):
    def test_list(self):
        names = [m["name"] for m in self.json("machines")["machines"]]
        self.assertEqual(names, MACHINES)
        for name in names:
            self.assertIn(name, self.ok("machines"))

    def test_every_number_has_a_source(self):
        for name in [*MACHINES, "host"]:
            values = self.json("machines", name)["values"]
            self.assertGreater(len(values), 20)
            for value in values:
                if value["section"] != "machine":
                    self.assertTrue(value["source"], (name, value))
        self.assertIn("measured on an H200", self.ok("machines", "h200"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.ini")
            with open(path, "w") as file:
                file.write("[machine]\nname = mine\nspeed = 3\n")
            self.refused(f"{path}:3: unknown key speed in [machine]", "machines", path)
            self.refused(f"{path}:3: unknown key speed in [machine]", "run", "gemm", "--machine", path)
            self.refused(f"{folder}/none.ini: no such file", "machines", f"{folder}/none.ini")
        self.assertEqual(self.json("machines", "H200"), self.json("machines", "h200"))
        self.assertEqual(self.json("machines", "Host")["name"], "host")
        result = run("machines", "gb11")
        self.assertEqual(result.returncode, 2)
        self.assertIn("gb10", result.stderr)


class Run(Command):
    def test_attention(self):
        result = self.json(
            "run", "attention", "--heads", "4", "--kv-heads", "2", "--seq", "65", "--kv-seq", "97", "--head-dim", "24",
            "--causal", "--offset", "3", "--dtype", "bf16", "--order", "block-first-swizzled", "--domains", "3",
            "--sweep", "pair", "--tile", "16x32", "--workers", "5", "--device", "cpu",
        )  # fmt: skip
        self.assertEqual(result["device"], "cpu")
        self.assertEqual(result["problem"]["kv_seq"], 97)
        self.assertEqual(result["schedule"]["tile"], [16, 32])
        self.assertEqual(result["schedule"]["sweep"], "pair")
        self.assertGreater(result["seconds"], 0)
        self.assertGreater(result["tflops"], 0)
        self.assertTrue(result["check"]["passed"])
        self.assertGreater(result["check"]["max_error"], 0)
        self.assertLessEqual(result["check"]["max_error"], result["check"]["bound"])

    def test_every_attention_schedule(self):
        for order in ["head-first", "longest-first", "reverse"]:
            for sweep in ["forward", "sawtooth", "pair"]:
                for dispatch in ["grid", "static", "dynamic"]:
                    self.ok("run", "attention", "--seq", "40", "--tile", "7x9", "--order", order, "--sweep", sweep,
                            "--dispatch", dispatch, "--workers", "3")  # fmt: skip

    def test_gemm(self):
        for order in ["raster-m", "serpentine", "hilbert"]:
            result = self.json(
                "run", "gemm", "--m", "70", "--n", "50", "--k", "33", "--tile", "16x16x8", "--order", order, "--a-major",
                "col", "--b-major", "col", "--alpha", "0.5", "--beta", "2", "--dtype", "fp16", "--c-dtype", "fp32",
            )  # fmt: skip
            self.assertTrue(result["check"]["passed"])
            self.assertEqual(result["check"]["checked"], 3500)

    def test_what_is_checked(self):
        """Small results are compared whole, large ones on a sample, of which the text says that it is one."""
        small = ["run", "gemm", "--m", "70", "--n", "50", "--k", "33"]
        self.assertEqual((self.json(*small)["check"]["checked"], self.json(*small)["check"]["total"]), (3500, 3500))
        self.assertIn(", 3500 elements compared: passed\n", self.ok(*small))
        large = ["run", "gemm", "--m", "1536", "--n", "1536", "--k", "1024"]
        check = self.json(*large)["check"]
        self.assertEqual((check["total"], check["passed"]), (1536 * 1536, True))
        self.assertTrue(0 < check["checked"] < check["total"])
        self.assertRegex(self.ok(*large), r", \d+ of 2359296 elements compared, drawn at random \(--check-all compares all\): passed\n")
        attention = ["run", "attention", "--heads", "1", "--seq", "512", "--check-all"]
        for ranks in ([], ["--ranks", "2"]):
            self.assertEqual(self.json(*attention, *ranks)["check"]["checked"], 512)
        self.assertEqual(self.json(*attention, "--backward")["check"]["checked"], 3 * 512)

    def test_results_in_fp32(self):
        sizes = ["attention", "--heads", "2", "--seq", "65", "--dtype", "bf16", "--o-dtype"]
        for backward in [[], ["--backward"]]:
            result = self.json("run", *sizes, "fp32", *backward, "--device", "cpu")
            self.assertTrue(result["check"]["passed"])
            self.assertEqual(result["problem"]["o_dtype"], "fp32")
        self.assertNotIn("o_dtype", self.json("run", *sizes, "bf16", "--device", "cpu")["problem"])
        self.refused("o_dtype 2 (fp16) is neither dtype (bf16) nor fp32", "run", *sizes, "fp16")
        self.refused("--o-dtype bf15 is not known: did you mean bf16?", "run", *sizes, "bf15")

    def test_combine(self):
        sizes = ["combine", "--heads", "2", "--seq", "50", "--parts", "3", "--dtype", "bf16", "--o-dtype", "fp32"]
        for flags in [[], ["into"], ["sum"], ["into", "sum"]]:
            result = self.json("run", *sizes, *("--" + flag for flag in flags))
            self.assertTrue(result["check"]["passed"])
            self.assertEqual(result["check"]["checked"], 100)
            self.assertEqual([flag for flag in ("into", "sum") if result["problem"].get(flag)], flags)
        self.assertIn(", into a running result", self.ok("simulate", *sizes, "--into", "--machine", "h200"))
        self.refused("--into does not apply here: --help lists what does", "run", "attention", "--into")

    def test_backward(self):
        backward = ["attention", "--backward", "--heads", "4", "--kv-heads", "2", "--seq", "70", "--head-dim", "16", "--causal"]
        result = self.json("run", *backward, "--dtype", "bf16", "--repeat", "3")
        self.assertEqual((result["problem"]["kind"], result["runs"]), ("attention-backward", 3))
        self.assertTrue(result["check"]["passed"])
        self.assertEqual(result["check"]["checked"], 4 * 70 + 2 * 2 * 70)
        self.assertEqual(self.json("run", "attention-backward", *backward[2:])["problem"]["kind"], "attention-backward")
        self.assertEqual(self.json("run", *backward, "--dtype", "bf16", "--repeat", "3", "--deterministic")["schedule"], result["schedule"])
        self.assertIn("attention backward", self.ok("simulate", *backward, "--machine", "h200"))
        rows = self.json("compare", *backward, "--device", "cpu", "--repeat", "1", "--dispatch", "static")["schedules"]
        self.assertTrue(all(row["measured"]["seconds"] > 0 for row in rows))
        plan = self.json("plan", *backward, "--machine", "gb10")
        self.assertGreater(plan["recommended"]["seconds"], 0)
        self.refused("--backward does not apply here: --help lists what does", "run", "gemm", "--backward")

    def test_backward_of_every_problem(self):
        """Every verb without a GPU: heads that share keys, masks, packed batches, scores; or a plain refusal."""
        for problem in (["--seq", "300", "--heads", "4", "--kv-heads", "2", "--causal"], ["--seq", "300", "--window", "64,0"],
                        ["--lengths", "100,0,170", "--heads", "2", "--causal"], ["--seq", "200", "--kv-seq", "300", "--causal", "--bottom-right"],
                        ["--seq", "300", "--chunk", "64", "--softcap", "5", "--sinks", "--alibi", "--dropout", "0.1"]):  # fmt: skip
            backward = ["attention", "--backward", "--head-dim", "64", "--dtype", "bf16", *problem]
            with self.subTest(problem=problem):
                self.assertTrue(self.json("run", *backward)["check"]["passed"])
                run = self.json("simulate", *backward, "--machine", "h200")
                self.assertEqual((run["problem"]["kind"], run["profile"]), ("attention-backward", "hopper-backward"))
                self.assertGreater(len(self.json("compare", *backward, "--machine", "h200")["schedules"]), 10)
                self.assertIn("waits %", self.ok("plan", *backward, "--machine", "h200"))
                self.assertIn("backward", self.ok("view", *backward, "--machine", "h200", "--text"))
                for verb in (["simulate", "--ours"], ["plan", "--cost", "model"]):
                    result = self.run_weft(verb[0], *backward, "--machine", "h200", *verb[1:])
                    self.assertEqual((result.returncode > 0, result.stdout), (True, ""))
                    self.assertEqual(result.stderr, "weft: the costs of hopper_backward kernels are not known\n")
                self.refused("adds that take turns make no trace: take a profile without in_turn", "simulate", *backward, "--machine", "h200",
                             "--trace-out", "-")  # fmt: skip
                self.ok("simulate", *backward, "--machine", "h200", "--profile", "flash-attention-3-backward", "--trace-out", "-")

    def test_seed_and_verbose(self):
        first, again, other = (
            self.json("run", "attention", "--seq", "32", "--seed", seed)["check"] for seed in ["1", "1", "2"]
        )
        self.assertEqual(first, again)
        self.assertNotEqual(first["max_error"], other["max_error"])
        self.assertIn("schedule   tile", self.ok("run", "attention", "--seq", "32", "--verbose"))
        self.assertIn("planned for this host", self.ok("run", "attention", "--seq", "32"))


class Simulate(Command):
    GB10 = ["attention", "--machine", "gb10", "--dtype", "fp16", "--order", "head-first"]

    def test_keys_and_exact_sectors(self):
        result = self.json("simulate", *self.GB10, "--seq", "32K", "--tile", "80x80", "--sweep", "forward", "--dispatch", "grid")
        self.assertEqual(result["machine"], "gb10")
        self.assertEqual(result["l2"]["sectors_from_sm"], 107741184)
        self.assertEqual(result["l2"]["hits"] + result["l2"]["misses"], result["l2"]["sectors"])
        self.assertEqual(result["compulsory_misses"], 16 * 32768)
        self.assertEqual(result["fabric"]["sectors"], 0)
        self.assertEqual(result["dram"]["write_bytes"], 32768 * 128)
        for key in ["problem", "schedule", "predicted", "elapsed_seconds", "seed"]:
            self.assertIn(key, result)
        self.assertGreater(result["predicted"]["tflops"], 0)

    def test_same_seed_same_result(self):
        runs = [
            self.json("simulate", "gemm", "--machine", "h100", "--m", "2K", "--n", "2K", "--k", "2K", "--seed", seed)["l2"]
            for seed in ["5", "5", "6"]
        ]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_domains_add_up(self):
        result = self.json("simulate", "attention", "--machine", "mi300x", "--heads", "16", "--seq", "2K", "--per-domain")
        self.assertEqual(len(result["domains"]), 8)
        self.assertEqual(sum(d["l2"]["misses"] for d in result["domains"]), result["l2"]["misses"])

    def test_curve(self):
        for machine in ["gb10", "h200"]:
            result = self.json("simulate", "attention", "--machine", machine, "--seq", "8K", "--curve")
            misses = [point["misses"] for point in result["curve"]]
            self.assertEqual(misses, sorted(misses, reverse=True))
        plot = self.ok("simulate", *self.GB10, "--seq", "128K", "--tile", "64x64", "--curve")
        self.assertIn("<- this machine", plot)

    def test_compare_on_this_host(self):
        rows = self.json("compare", "attention", "--device", "cpu", "--seq", "100", "--head-dim", "16", "--repeat", "1",
                         "--dispatch", "static")["schedules"]  # fmt: skip
        self.assertTrue(all(row["measured"]["seconds"] > 0 for row in rows))
        self.assertGreater(len(rows), 10)
        self.assertIn("measured ms", self.ok("compare", "gemm", "--device", "cpu", "--m", "64", "--n", "64", "--k", "64", "--repeat", "1"))

    def test_compare_and_plan(self):
        rows = self.json("compare", *self.GB10, "--seq", "128K", "--tile", "64x64", "--dispatch", "static")["schedules"]
        self.assertEqual(len(rows), 3)
        self.assertEqual(rows[0]["schedule"], "64x64 head-first sawtooth static")
        problem = ["attention", "--machine", "mi300x", "--heads", "16", "--seq", "4K", "--head-dim", "128", "--dtype", "bf16"]
        result = self.json("plan", *problem)
        self.assertGreater(result["searched"], 50)
        self.assertIn("head-first", self.json("plan", *problem, "--tile", "64x64")["recommended"]["schedule"]["order"])
        self.assertTrue(result["reason"])

    def test_refusals(self):
        for verb in ("simulate", "compare", "plan"):
            self.refused("the simulator takes one product", verb, "gemm", "--machine", "h100", "--batch", "2")
        self.refused("drift 2 is not at most 1", "simulate", "gemm", "--drift", "2")
        self.refused("stages 99 is not at most 16", "simulate", "gemm", "--stages", "99")
        self.refused("cluster 3x1 does not divide the grid of 8x8 tiles", "simulate", "gemm", "--machine", "h100", "--cluster", "3x1")
        self.refused("study gb10 is not known: sawtooth, cutile, tile-scheduling, spark-gemm, numa, h200, context-parallel, energy and all are", "reproduce", "gb10")
        self.refused("--seeds 1001 is more than 1000", "reproduce", "cutile", "--seeds", "1001")
        self.refused("--seeds 0 is not at least 1", "reproduce", "cutile", "--seeds", "0")
        self.refused("--output is for studies on a GPU: --device cuda", "reproduce", "cutile", "-o", "x.csv")
        self.refused("--seeds is for simulated studies, not for --device cuda", "reproduce", "cutile", "--seeds", "2", "--device", "cuda")
        self.refused("machine host has no rate for fp8: give it [rate] fp8", "simulate", "gemm", "--machine", "host", "--dtype", "fp8")
        for verb in ("run", "tune"):
            self.refused("fp8 is not supported by cpu yet: only the simulator takes it", verb, "gemm", "--dtype", "fp8")
        self.refused("fp8 is not supported by cpu yet: only the simulator takes it", "run", "attention", "--dtype", "fp8", "--machine", "gb10")
        self.refused(
            "more pieces than the simulator can number (1073741823): choose larger tiles",
            "simulate", "gemm", "--m", "512M", "--n", "512M", "--k", "64", "--tile", "64x64x64",
        )  # fmt: skip


class Backward(Command):
    """The sweeps that only a backward pass has, and its adds, at every verb."""

    PROBLEM = ["attention", "--backward", "--causal", "--seq", "512", "--heads", "2", "--dtype", "bf16", "--tile", "64x64"]
    SWEEPS = ["shift", "shift-causal", "descending", "fold-causal", "climb"]
    ADDED = 2 * 36 * 64 * 64 * 4 // 32  # heads, pairs of blocks under the mask, sectors of a block of fp32

    def test_every_verb_takes_them(self):
        for sweep in self.SWEEPS:
            self.assertIn("passed", self.ok("run", *self.PROBLEM[:-2], "--sweep", sweep))
            found = self.json("simulate", *self.PROBLEM, "--sweep", sweep, "--machine", "h100")
            self.assertEqual((found["added_sectors"], found["waited"], found["schedule"]["sweep"]), (self.ADDED, 0, sweep))
            self.assertIn(f" {sweep} ", self.ok("plan", *self.PROBLEM, "--sweep", sweep, "--machine", "h100"))
            self.assertIn("sectors added to sums", self.ok("view", *self.PROBLEM, "--schedules", sweep, "--machine", "h100", "--text"))
        compared = self.json("compare", *self.PROBLEM, "--order", "head-first", "--machine", "h100")
        self.assertEqual([row["added_sectors"] for row in compared["schedules"]], 8 * [self.ADDED])
        self.assertLessEqual(set(self.SWEEPS), {row["schedule"].split()[2] for row in compared["schedules"]})
        table = self.ok("simulate", *self.PROBLEM, "--sweep", "shift,forward", "--machine", "h100", "--csv").splitlines()
        self.assertTrue(table[0].endswith(",profile,added_sectors,waited") and table[1].endswith(f",{self.ADDED},0"))
        self.assertIn("adds M", self.ok("simulate", *self.PROBLEM, "--sweep", "shift,forward", "--machine", "h100"))

    def test_the_first_stores(self):
        """The kernel of an H200 takes turns, and whoever is first in a block of queries adds to nothing."""
        found = self.json("simulate", *self.PROBLEM, "--order", "head-first", "--machine", "h200")
        self.assertEqual(found["added_sectors"], self.ADDED * 28 // 36)
        self.assertGreater(found["waited"], 0)

    def test_waiting_for_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "in-turn.ini"
            path.write_text((ROOT / "profiles" / "generic.ini").read_text() + "\n[backward]\nin_turn = 1 | a test's\n")
            waited = {(sweep, dispatch): self.json("simulate", *self.PROBLEM, "--order", "head-first", "--sweep", sweep, "--dispatch",
                                                   dispatch, "--machine", "h200", "--profile", str(path))["waited"]
                      for sweep in ["forward", "shift"] for dispatch in ["grid", "dynamic"]}  # fmt: skip
        self.assertGreater(waited["forward", "grid"], 0.2)  # in the order in which they start
        self.assertLess(waited["forward", "dynamic"], 0.1)  # by a timetable
        self.assertLess(waited["shift", "dynamic"], 0.15)  # where tiles are to be two steps apart, some meet

    def test_others_refuse_them(self):
        for sweep in self.SWEEPS:
            for verb in ["run", "simulate", "plan", "compare"]:
                self.refused(f"sweep {sweep} is not for attention", verb, "attention", "--seq", "256", "--sweep", sweep)
            self.refused(f"sweep {sweep} is not for gemm", "simulate", "gemm", "--sweep", sweep)
        self.refused("sweep shift-causal needs a causal mask and no packed batch", "simulate", "attention", "--backward", "--seq", "256",
                     "--sweep", "shift-causal")  # fmt: skip


class Words(Command):
    """What texts and JSON call things."""

    SMALL = ["gemm", "--m", "64", "--n", "64", "--k", "64"]

    def test_kernel(self):
        kernel = self.json("run", *self.SMALL)["kernel"]
        self.assertNotEqual(kernel, "cpu")
        self.assertIn(f"{kernel} on cpu: ", self.ok("run", *self.SMALL))
        self.assertIn(f"kernel     cpu, {kernel}\n", self.ok("run", *self.SMALL, "--verbose"))

    def test_what_is_simulated_runs_no_kernel(self):
        self.assertNotIn("kernel", self.ok("simulate", *self.SMALL, "--machine", "gb10"))

    def test_rates_have_a_unit_that_suits_them(self):
        small = ("simulate", "gemm", "--m", "16", "--n", "16", "--k", "16", "--machine", "gb10")
        text, rate = self.ok(*small), self.json(*small)["predicted"]["tflops"]
        self.assertLess(rate, 9e-3)
        self.assertIn(f", {1e3 * rate:.2f} GFLOP/s\n", text)
        text = self.ok("compare", *self.SMALL, "--machine", "h100", "--order", "raster-n", "--sweep", "forward")
        self.assertRegex(text, r"ms  GFLOP/s\n.* \d+\.\d\d\n")

    def test_machines_in_any_case(self):
        for verb in ["simulate", "compare", "plan"]:
            self.assertEqual(self.json(verb, "gemm", "--m", "256", "--n", "256", "--machine", "H100")["machine"], "h100")


class Output(Command):
    """A file that cannot be written is refused before the work begins; work that fails leaves what was there."""

    def test_refused_at_once(self):
        never = ["--seq", "1M", "--heads", "64", "--tile", "64x64", "--machine", "h200"]  # days of simulation
        for arguments in [["report"], ["view", "attention", *never], ["machines", "probe"], ["tune", "--export"],
                          ["reproduce", "--device", "cuda"]]:  # fmt: skip
            path = "/nonexistent/x.html"
            self.refused(f"{path}: No such file or directory", *arguments, "-o", path, code=1)
            self.refused("/: Is a directory", *arguments, "-o", "/", code=1)

    def test_nothing_is_left_when_the_work_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, before in [("new.html", None), ("old.html", "before")]:
                path = os.path.join(folder, name)
                if before:
                    with open(path, "w") as file:
                        file.write(before)
                self.assertEqual(run("view", "gemm", "--m", "0", "-o", path).returncode, 2)
                self.assertEqual(run("report", "none", "-o", path).returncode, 2)
                self.assertEqual(os.path.exists(path), before is not None)
            with open(os.path.join(folder, "old.html")) as file:
                self.assertEqual(file.read(), "before")

    def test_a_file_is_replaced(self):
        view = ["view", "gemm", "--m", "256", "--n", "256", "--k", "64", "--svg", "-o"]
        with tempfile.TemporaryDirectory() as folder:
            path, link = os.path.join(folder, "a.svg"), os.path.join(folder, "link.svg")
            with open(path, "w") as file:
                file.write("before")
            os.chmod(path, 0o640)
            os.symlink("a.svg", link)
            for name in [path, link]:
                self.ok(*view, name)
                with open(path) as file:
                    self.assertTrue(file.read().startswith("<svg"))
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(sorted(os.listdir(folder)), ["a.svg", "link.svg"])


class Outputs(Command):
    """Where results go is looked at before the work: this work takes hours."""

    LONG = ["attention", "--machine", "h200", "--seq", "1M", "--heads", "64", "--batch", "64"]

    def test_paths_are_checked_first(self):
        for arguments in [["simulate", *self.LONG, "--trace-out"], ["view", *self.LONG, "-o"], ["compare", *self.LONG, "--svg", "-o"],
                          ["report", "all", "-o"], ["tune", "--export", "-o"]]:  # fmt: skip
            self.refused("/nowhere/file: No such file or directory", *arguments, "/nowhere/file", code=1)
            self.refused("/: Is a directory", *arguments, "/", code=1)

    def test_a_store_is_checked_first(self):
        self.environment = {**os.environ, "WEFT_TUNING_DB": "/nowhere/tuning.db"}
        result = self.run_weft("tune", "attention", "--seq", "64", "--seconds", "100")
        if "without SQLite" not in result.stderr:
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", "weft: /nowhere/tuning.db: No such file or directory\n"))

    def test_a_file_stays_when_the_work_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            with open(path, "w") as file:
                file.write("before")
            self.assertEqual(self.run_weft("view", "gemm", "--drift", "2", "-o", path).returncode, 2)
            self.assertEqual(self.run_weft("simulate", "gemm", "--batch", "2", "--machine", "h100", "--trace-out", path).returncode, 2)
            with open(path) as file:
                self.assertEqual(file.read(), "before")
            self.assertEqual(os.listdir(folder), ["page.html"])


class Doctor(Command):
    def test_findings(self):
        self.environment = {**os.environ, "WEFT_CUDA_DRIVER": "/none/libcuda.so.1", "WEFT_TUNING_DB": "/none/tuning.db"}
        found = self.json("doctor")
        self.assertEqual(found["version"], "0.3.0")
        findings = {(f["section"], f["name"]): f for f in found["findings"]}
        self.assertTrue(findings["this build", "version"]["works"])
        store = findings["this build", "tuning store"]
        self.assertEqual((store["works"], "WEFT_TUNING_DB" in store["advice"] or "sqlite" in store["advice"]), (False, True))
        gpu = findings["GPUs", "driver and GPU"]
        self.assertEqual((gpu["works"], gpu["advice"].startswith("install NVIDIA's driver")), (False, True))
        self.assertIn("/none/libcuda.so.1", gpu["text"])
        for operation in ["attention", "attention-backward", "gemm", "combine", "grouped-gemm"]:
            kernels = findings["this CPU", operation]
            self.assertTrue(kernels["works"])
            self.assertRegex(kernels["text"], r"^fp32 by \w+, fp16 by \w+, bf16 by \w+$")
        kernel = self.json("run", "gemm", "--m", "8", "--n", "8", "--k", "8")["kernel"]
        self.assertIn(f"fp32 by {kernel},", findings["this CPU", "gemm"]["text"])
        for finding in found["findings"]:
            self.assertIn(finding["works"], [True, False, None])
            if finding["works"] is False:
                self.assertTrue(finding["advice"], finding)

    OTHERS = "MPI, NCCL, NVIDIA's libraries, Python"

    def others(self, **environment):
        self.environment = {**os.environ, **environment}
        return {f["name"]: f for f in self.json("doctor")["findings"] if f["section"] == self.OTHERS}

    def test_libraries(self):
        missing = self.others(WEFT_MPI_LIBRARY="/none/mpi.so", WEFT_NCCL_LIBRARY="/none/nccl.so", WEFT_NVML="/none/nvml.so", WEFT_CUPTI="/none/cupti.so")
        for name, variable in [("MPI", "WEFT_MPI_LIBRARY"), ("NCCL", "WEFT_NCCL_LIBRARY"), ("NVML", "WEFT_NVML"), ("CUPTI", "WEFT_CUPTI")]:
            self.assertIs(missing[name]["works"], False)
            self.assertIn(f"/none/{name.lower()}.so", missing[name]["text"])
            self.assertIn(variable, missing[name]["advice"])
        mpi = os.path.join(os.path.dirname(os.path.abspath(WEFT)), "libweft_mpi.so")
        if os.path.exists(mpi):
            self.assertIs(self.others()["MPI"]["works"], True)
            self.assertRegex(self.others(WEFT_MPI_LIBRARY=mpi)["MPI"]["text"], r"MPI|MPICH")

    def test_python(self):
        """By python3 of the PATH: what it says is told, and a package that does not load is no trouble."""
        with tempfile.TemporaryDirectory() as folder:
            def python(text):
                with open(os.path.join(folder, "python3"), "w") as file:
                    file.write("#!/bin/sh\n" + text)
                os.chmod(file.name, 0o755)
                return self.others(PATH=folder + ":/usr/bin:/bin")
            found = python("echo '3.9.1, /here/python3'; echo 'weft yes 0.3.0 from /here/weft'; echo numpy yes 2.0; echo torch no not installed")
            self.assertEqual([found[name]["works"] for name in ("Python", "package weft", "numpy", "torch")], [True, True, True, None])
            self.assertEqual(found["package weft"]["text"], "0.3.0 from /here/weft")
            found = python("echo '3.9.1, /here/python3'; echo 'weft yes 0.2.0 from /here/weft'")["package weft"]
            self.assertEqual((found["works"], found["text"]), (False, "0.2.0 from /here/weft, which is not this command's version"))
            found = python("echo '3.9.1, /here/python3'; echo 'weft no the library is not there'")["package weft"]
            self.assertEqual((found["works"], found["text"], "pip install" in found["advice"]), (False, "the library is not there", True))
            self.assertIs(python("exit 1")["Python"]["works"], False)
            os.remove(os.path.join(folder, "python3"))
            self.environment["PATH"] = folder
            sound = {f["name"]: f["works"] for f in self.json("doctor")["findings"]}
            self.assertEqual((sound["Python"], sound["version"]), (False, True))
            os.symlink(sys.executable, os.path.join(folder, "python3"))
            os.mkdir(os.path.join(folder, "weft"))
            with open(os.path.join(folder, "weft", "__init__.py"), "w") as file:
                file.write("raise ImportError('no\\nlibrary')")
            found = self.others(PATH=folder + ":/usr/bin:/bin", PYTHONPATH=folder)
            self.assertTrue(found["Python"]["text"].startswith("%d.%d." % sys.version_info[:2]))
            self.assertEqual(found["package weft"]["text"], "no library")

    def test_text(self):
        text = self.ok("doctor", "--width", "80")
        self.assertEqual([line for line in text.splitlines() if re.match(r"\w", line)], ["this build", "this CPU", self.OTHERS, "GPUs"])
        self.assertLess(max(len(line) for line in text.splitlines()), 80)
        for finding in self.json("doctor")["findings"]:
            self.assertIn(f"{finding['name']}: {finding['text']}", self.ok("doctor"))


class Tables(Command):
    GEMM = ["compare", "gemm", "--machine", "gb10", "--m", "512", "--n", "512", "--k", "256", "--dispatch", "static"]

    def test_a_column_has_one_unit(self):
        for machine, unit, factor in [("gb10", "TFLOP/s", 1), ("host", "GFLOP/s", 1e3)]:
            compare = [*self.GEMM[:3], machine, *self.GEMM[4:], "--order", "raster-n", "--sweep", "forward"]
            head, row = self.ok(*compare, "--m", "32", "--k", "32").splitlines()
            rate = self.json(*compare, "--m", "32", "--k", "32")["schedules"][0]["tflops"]
            unit, factor = ("TFLOP/s", 1) if rate >= 1 else ("GFLOP/s", 1e3) if rate >= 1e-3 else ("MFLOP/s", 1e6)
            self.assertEqual(head.split()[-1], unit)
            self.assertAlmostEqual(float(row.split()[-1]), rate * factor, delta=0.01)

    def test_widths(self):
        whole = self.ok(*self.GEMM)
        self.assertRegex(whole, r"^schedule +hits %  misses M  fabric M  DRAM MB +ms  TFLOP/s\n")
        self.assertEqual(self.ok(*self.GEMM, "--width", "200"), whole)
        self.environment = {**os.environ, "COLUMNS": "40"}
        self.assertEqual(self.ok(*self.GEMM), whole, "a pipe gets every column")
        self.environment = None
        *table, last = self.ok(*self.GEMM, "--width", "80").splitlines()
        self.assertLess(max(len(line) for line in table), 80)
        self.assertEqual(len(table), len(whole.splitlines()))
        self.assertEqual([line.split()[:3] for line in table[1:]], [line.split()[:3] for line in whole.splitlines()[1:]])
        needed = re.fullmatch(r"left out: .*fabric M.* \(--width (\d+) shows them\)", last).group(1)
        self.assertEqual(self.ok(*self.GEMM, "--width", needed), whole)
        self.assertIn("left out: ", self.ok(*self.GEMM, "--width", str(int(needed) - 1)))
        self.assertNotIn(" \n", whole, "no line ends in blanks")

    def test_every_table_fits_a_terminal(self):
        for arguments in [self.GEMM, ["machines"], ["profiles"], ["plan", *self.GEMM[1:]], ["simulate", *self.GEMM[1:], "--m", "512,1K"],
                          ["reproduce", "cutile", "--seeds", "1"], ["simulate", *self.GEMM[1:], "--curve"]]:  # fmt: skip
            text = self.run_weft(*arguments, "--width", "80").stdout
            with self.subTest(arguments=arguments):
                self.assertLess(max(len(line) for line in text.splitlines()), 80)

    def test_lines_are_wrapped_on_a_terminal(self):
        for arguments in [["orders"], ["machines", "h200"], ["profiles", "tile-scheduling"], ["plan", *self.GEMM[1:]],
                          ["simulate", "attention", "--machine", "h100", "--seq", "1K"],
                          ["simulate", "attention", "--machine", "h100", "--seq", "64K", "--ranks", "8"],
                          ["run", "attention", "--seq", "256", "--verbose"], ["run", "attention", "--seq", "256", "--ranks", "2"]]:  # fmt: skip
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            process = subprocess.Popen([WEFT, *arguments], stdout=theirs, stderr=subprocess.DEVNULL)
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # how Linux says that the other end is closed
                while part := os.read(ours, 65536):
                    shown += part
            os.close(ours)
            with self.subTest(arguments=arguments):
                self.assertEqual(process.wait(), 0)
                self.assertLess(max(len(line) for line in shown.decode().splitlines()), 80)
                first = [re.sub(r"[\d.]+", "#", text).split()[:12] for text in (shown.decode(), self.ok(*arguments))]
                self.assertEqual(*first)


class Mistakes(Command):
    def test_messages(self):
        for expected, *arguments in [
            ("unknown verb frobnicate: 'weft --help' lists them", "frobnicate"),
            ("unknown verb order5: did you mean orders?", "order5"),
            ("run needs attention|gemm|combine|grouped-gemm: 'weft run --help' shows how", "run"),
            ("'run softmax' is not known: 'weft run attention', 'weft run gemm', 'weft run combine' and 'weft run grouped-gemm' are", "run", "softmax"),
            ("kv_heads 3 does not divide heads 8", "run", "attention", "--heads", "8", "--kv-heads", "3"),
            ("seq 0 is not between 1 and 2147483647", "run", "attention", "--seq", "0"),
            ("seq -1 is not between 1 and 2147483647", "run", "attention", "--seq", "-1"),
            ("kv_seq 0 is not between 1 and 2147483647", "run", "attention", "--kv-seq", "0"),
            ("seq 1099511627776 is not between 1 and 2147483647", "run", "attention", "--seq", "1024G"),
            ("m 1099511627776 is not between 1 and 2147483647", "run", "gemm", "--m", "1099511627776"),
            ("--seq 99999999999999999999 is not a whole number that fits (4096, 128K)",
             "run", "attention", "--seq", "99999999999999999999"),
            ("head dims of 577 and, for V, 577 are not between 1 and 576", "run", "attention", "--head-dim", "577"),
            ("--heads does not apply here: --help lists what does", "run", "gemm", "--heads", "2"),
            ("--offset needs --causal or --window", "run", "attention", "--offset", "2"),
            ("--scale 0 is not allowed: leave it out for 1 / sqrt(head dim)", "run", "attention", "--scale", "0"),
            ("tile_m 512 is larger than seq 100", "run", "attention", "--seq", "100", "--tile", "512x64"),
            ("order hilbert is not for attention", "run", "attention", "--order", "hilbert"),
            ("--device metal is not supported: choose cpu or cuda", "run", "attention", "--device", "metal"),
            ("--workers 0 is not at least 1", "run", "attention", "--workers", "0"),
            ("completion for tcsh is not known: bash, zsh and fish are", "completion", "tcsh"),
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.refused(expected, *arguments)

    def test_more_than_the_host_has(self):
        result = run("run", "attention", "--seq", "2000M", "--head-dim", "256")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^weft: the problem needs [\d.]+ GiB and this host has [\d.]+\n$")

    def test_help_and_version(self):
        self.assertEqual(self.ok("--version"), "weft 0.3.0\n")
        self.assertEqual(self.ok("-V"), self.ok("--version"))
        self.assertIn("usage: weft VERB", self.ok("--help"))
        for other in [["-h"], ["help"]]:
            self.assertEqual(self.ok(*other), self.ok("--help"))
        for other in [["help", "run"], ["run", "-h"], ["RUN", "--help"]]:
            self.assertEqual(self.ok(*other), self.ok("run", "--help"))
        for other in [["help", "run", "gemm"], ["run", "gemm", "-h"], ["run", "-h", "GEMM"]]:
            self.assertEqual(self.ok(*other), self.ok("run", "gemm", "--help"))
        self.assertIn("-o, --output FILE", self.ok("help", "view"))
        self.refused("unknown verb rum: did you mean run?", "help", "rum")
        self.assertIn("'weft help run SUBJECT' shows: attention, gemm, combine, grouped-gemm.", " ".join(self.ok("run", "--help").split()))
        self.assertIn("usage: weft VERB", run().stdout)
        self.assertEqual(run().returncode, 2)

    def test_completion(self):
        script = self.ok("completion", "bash")
        complete = lambda *words: subprocess.run(
            ["bash", "-c", script + "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _weft; echo ${COMPREPLY[*]}", "bash", "weft", *words],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        self.assertEqual(complete("vi"), ["view"])
        self.assertEqual(complete("hel"), ["help"])
        self.assertEqual(complete("help", "vi"), ["view"])
        self.assertEqual(complete("help", "view", ""), [])
        self.assertIn("-o", complete("view", "-"))
        self.assertEqual(complete("view", "at"), ["attention"])
        self.assertEqual(complete("view", "gemm", "--sch"), ["--schedule", "--schedules"])
        self.assertEqual(complete("view", "gemm", "--sv"), ["--svg"])
        self.assertEqual(complete("report", "t"), ["tile-scheduling"])
        self.assertEqual(complete("report", "--out"), ["--output"])
        self.assertEqual(complete("simulate", "gemm", "--sch"), ["--schedule"])

    def verbs(self):
        return re.findall(r"^  (\w+)", self.ok("--help").split("verbs:\n")[1].split("\n\n")[0], re.MULTILINE)

    def test_every_verb_has_help(self):
        verbs = self.verbs()
        self.assertIn("view", verbs)
        self.assertIn("report", verbs)
        for verb in verbs:
            for all_options in ["--help", "--help-all"]:
                text = self.ok(verb, all_options)
                self.assertIn(f"usage: weft {verb}", text)
                self.assertLess(max(len(line) for line in text.splitlines()), 80)
        self.assertIn("--schedules A,B,...", self.ok("view", "--help"))

    def test_help_has_the_options_of_its_subject(self):
        listed = lambda *words: set(re.findall(r"^  (?:-\w, )?--([\w-]+)", self.ok(*words), re.MULTILINE))
        self.assertLess(listed("run", "gemm", "--help"), listed("run", "gemm", "--help-all"))
        self.assertEqual(listed("run", "gemm", "--help-all") - listed("run", "gemm", "--help") & {"split", "json"}, {"split"})
        self.assertEqual({"kv-heads", "ranks", "backward"} & listed("run", "attention", "-h"), {"kv-heads", "ranks", "backward"})
        self.assertEqual({"kv-heads", "ranks", "m"} & listed("run", "gemm", "--help-all"), {"m"})
        self.assertEqual({"kv-heads", "m", "rows"} & listed("run", "--help"), set())
        self.assertEqual({"kv-heads", "m", "rows"} & listed("run", "--help-all"), {"kv-heads", "m", "rows"})
        self.assertEqual({"step-seconds", "order", "m", "svg", "trace-out"} & listed("simulate", "trace", "-h"), {"step-seconds"})
        self.assertEqual({"step-seconds", "order", "m", "svg"} & listed("view", "trace", "-h"), {"step-seconds", "svg"})
        self.assertNotIn("step-seconds", listed("simulate", "gemm", "--help-all"))
        self.refused("--curve does not apply here: --help lists what does", "compare", "gemm", "--curve")

    def test_every_example_runs(self):
        for verb in self.verbs():
            subjects = re.search(r"SUBJECT' shows: (.*?)\.", " ".join(self.ok(verb, "--help").split()))
            for subject in subjects.group(1).split(", ") if subjects else [None]:
                text = self.ok("help", verb, *([subject] if subject else []))
                examples = re.findall(r"^  weft (.*)", text.split("examples:\n")[1].split("\n\n")[0], re.MULTILINE)
                self.assertEqual(len(examples), 2, verb)
                for example in examples:
                    words = example.split()
                    self.assertEqual([word for word in words[: 3 if verb == "order" else 2] if word in (verb, subject)], [verb, subject] if subject else [verb])
                    self.ok(*words, "--help")  # its options are read
                    if verb in ("orders", "order", "profiles", "simulate") and subject != "trace":
                        self.ok(*words)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([WEFT, "orders"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "weft: could not write to standard output\n"))
        view = ["view", "gemm", "--m", "256", "--n", "256", "--k", "64"]
        for arguments in [["--help"], ["help", "run"], ["-V"], ["orders", "--json"], ["machines"], [*view, "--svg"], [*view, "--json"],
                          ["run", "gemm", "--m", "8", "--n", "8", "--k", "8"], ["completion", "bash"]]:  # fmt: skip
            with open("/dev/full", "w") as full:
                result = subprocess.run([WEFT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr), (1, "weft: could not write to standard output\n"), arguments)
        result = run("view", "gemm", "--m", "256", "--n", "256", "--k", "64", "-o", "/dev/full")
        self.assertEqual((result.returncode, result.stderr), (1, "weft: /dev/full: No space left on device\n"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
