# SPDX-License-Identifier: Apache-2.0
"""weft tune and the modes of weft run, from the outside.

    test_tune.py PATH_TO_WEFT ON|OFF

The last word says whether this build has SQLite.
"""

import json
import os
import shutil
import sys
import tempfile
import unittest

from command import WEFT, Command

SQLITE = sys.argv.pop(1) == "ON"
SMALL = ["attention", "--heads", "2", "--seq", "64", "--head-dim", "16"]
QUICK = ["--seconds", "0.5"]


class Tune(Command):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "tuning.db")
        self.environment = {**os.environ, "WEFT_TUNING_DB": self.path}


@unittest.skipIf(SQLITE, "this build has SQLite")
class WithoutSqlite(Tune):
    def test_says_so(self):
        message = "this build of weft keeps no tunings: it was made without SQLite"
        self.refused(message, "tune", "--list")
        self.refused(message, "run", *SMALL, "--mode", "stored")
        result = self.run_weft("tune", *SMALL, *QUICK)
        self.assertEqual((result.returncode, result.stderr), (1, f"weft: not stored: {message}\n"))
        self.assertTrue(json.loads(self.ok("run", *SMALL, "--mode", "measure", "--json"))["check"]["passed"])


@unittest.skipUnless(SQLITE, "this build has no SQLite")
class Kept(Tune):
    def test_problem(self):
        result = self.json("tune", *SMALL, *QUICK)
        self.assertTrue(result["stored"] and result["whole"] and result["timed_now"])
        self.assertGreater(result["seconds"], 0)
        self.assertGreater(result["search"]["candidates"], 10)
        self.assertGreater(result["search"]["runs"], 0)
        self.assertGreater(result["estimate"]["seconds"], 0)
        self.assertEqual(result["problem"]["seq"], 64)
        self.assertGreater(result["tflops"], 0)
        again = self.json("tune", *SMALL, *QUICK)
        self.assertFalse(again["timed_now"])
        self.assertEqual(again["seconds"], result["seconds"])
        self.assertIn("tuned before", self.ok("tune", *SMALL))
        self.assertIn("the model's own choice", self.ok("tune", *SMALL, *QUICK, "--again"))

    def test_backward(self):
        result = self.json("tune", *SMALL, "--backward", *QUICK)
        self.assertEqual(result["problem"]["kind"], "attention-backward")
        self.assertTrue(result["stored"])
        self.assertTrue(self.json("run", *SMALL, "--backward", "--mode", "stored")["check"]["passed"])
        self.assertEqual(self.run_weft("run", *SMALL, "--mode", "stored").returncode, 2)  # that is another problem

    def test_gemm_and_given(self):
        result = self.json("tune", "gemm", "--m", "64", "--n", "64", "--k", "64", "--order", "hilbert", *QUICK)
        self.assertEqual(result["schedule"]["order"], "hilbert")
        self.assertEqual([row["given"] for row in self.json("tune", "--list")["rows"]], ["order=hilbert"])

    def test_all_and_also(self):
        rows = self.json("tune", *SMALL, *QUICK, "--all", "--also", "tile_m=11;tile_m=48 sweep=pair")["all"]
        self.assertEqual(sum(row["estimate"] for row in rows), 1)
        self.assertEqual(len([row for row in rows if row["also"]]), 2)
        self.assertTrue(any(row["words"] == "tile_m=11" and row["runs"] > 3 for row in rows))
        self.assertIn("the model's", self.ok("tune", *SMALL, *QUICK, "--all", "--again"))
        self.refused("a schedule has no order=spiral", "tune", *SMALL, "--also", "order=spiral")

    def test_modes_of_run(self):
        result = self.run_weft("run", *SMALL, "--mode", "stored")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr, "weft: nothing was tuned yet: there is no tuning store\n")
        self.assertTrue(self.json("run", *SMALL, "--mode", "measure")["check"]["passed"])
        self.assertTrue(self.json("run", *SMALL, "--mode", "stored")["check"]["passed"])
        self.assertTrue(self.json("run", *SMALL, "--mode", "estimate")["check"]["passed"])
        result = self.run_weft("run", "attention", "--seq", "640", "--mode", "stored")
        self.assertIn("nothing was tuned for: attention fp32", result.stderr)
        self.refused("a machine is given, and mode stored is for the device itself", "run", *SMALL, "--mode", "stored", "--machine", "gb10")
        self.refused("--mode fast is not supported: choose estimate, measure or stored", "run", *SMALL, "--mode", "fast")

    def test_list_export_import_forget(self):
        self.assertEqual(self.ok("tune", "--list"), f"nothing was tuned yet ({self.path})\n")
        self.assertEqual(self.ok("tune", "--forget"), "forgot 0 tunings\n")
        self.ok("tune", *SMALL, *QUICK)
        self.ok("tune", "gemm", "--m", "64", "--n", "64", "--k", "64", *QUICK)
        listed = self.json("tune", "--list")
        self.assertEqual(listed["store"], self.path)
        self.assertEqual([row["problem"].split()[0] for row in listed["rows"]], ["attention", "gemm"])
        text = self.ok("tune", "--list")
        for row in listed["rows"]:
            self.assertIn(row["problem"], text)
            self.assertIn(row["device"], text)
        exported = self.ok("tune", "--export")
        self.assertEqual(len(json.loads(exported)["rows"]), 2)
        other = os.path.join(self.folder, "tunings.json")
        self.assertEqual(self.ok("tune", "--export", "-o", other), "wrote 2 tunings\n")
        self.assertEqual(self.ok("tune", *SMALL, "--forget"), "forgot 1 tuning\n")
        self.assertEqual(self.ok("tune", "--import", other), "took 1 tuning\n")
        self.assertEqual(self.ok("tune", "--forget"), "forgot 2 tunings\n")
        self.assertEqual(self.json("tune", "--import", other), {"took": 2})
        self.assertEqual(self.ok("tune", "--import", "-", input=exported), "took 0 tunings\n")
        self.assertEqual(self.ok("tune", "--export"), exported)
        self.refused(f"{self.folder}/none.json: cannot be opened", "tune", "--import", f"{self.folder}/none.json")
        with open(other, "w") as file:
            file.write('{"weft_tunings": 1, "rows": [')
        result = self.run_weft("tune", "--import", other)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^weft: .*tunings\.json:1: .*\n$")
        result = self.run_weft("tune", "--export", "-o", f"{self.folder}/none/x.json")
        self.assertEqual((result.returncode, result.stderr), (1, f"weft: {self.folder}/none/x.json: No such file or directory\n"))

    def file(self, text):
        path = os.path.join(self.folder, "problems.csv")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_file(self):
        path = self.file("# of a model\nsubject, heads, seq, head-dim, causal, m, dtype\nattention, 2, 64, 16, 1,,bf16\n\n"
                         "attention,2,64,16,0,,\ngemm,,,,,32,fp32\n")  # fmt: skip
        results = self.json("tune", "--file", path, *QUICK, "--n", "64")["tuned"]
        self.assertEqual([r["problem"]["kind"] for r in results], ["attention", "attention", "gemm"])
        self.assertEqual([r["problem"].get("causal") for r in results], [True, False, None])
        self.assertEqual((results[2]["problem"]["m"], results[2]["problem"]["n"]), (32, 64))
        self.assertEqual(len(self.json("tune", "--list")["rows"]), 3)
        self.assertIn("tuned before", self.ok("tune", "--file", path, "--n", "64"))

    def test_wrong_files(self):
        for text, expected in [
            ("", ": no problems in it"),
            ("seq\n64\n", ":2: the subject is not attention or gemm"),
            ("subject,seq\nattention\n", ":2: 1 cells and not 2"),
            ("subject,seq\nattention,many\n", ":2: --seq many is not a whole number that fits (4096, 128K)"),
            ("subject,sek\nattention,64\n", ":2: unknown option --sek: did you mean --seq?"),
            ("subject,m\nattention,64\n", ":2: --m does not apply here: --help lists what does"),
            ("subject,causal\nattention,yes\n", ":2: causal yes is not 0 or 1"),
        ]:
            path = self.file(text)
            self.refused(path + expected, "tune", "--file", path)
        self.refused(f"{self.folder}/none.csv: No such file or directory", "tune", "--file", f"{self.folder}/none.csv")

    def test_refusals(self):
        for expected, *arguments in [
            ("tune needs attention or gemm, --file, --list, --export, --import or --forget", "tune"),
            ("'tune softmax' is not known: 'weft tune attention', 'weft tune gemm', 'weft tune combine' and 'weft tune grouped-gemm' are", "tune", "softmax"),
            ("--file, --list, --export, --import and --forget exclude each other", "tune", "--list", "--export"),
            ("--output is for --export", "tune", "--list", "-o", "x"),
            ("kv_heads 3 does not divide heads 8", "tune", "attention", "--heads", "8", "--kv-heads", "3"),
            ("--machine does not apply here: --help lists what does", "tune", "attention", "--machine", "gb10"),
            ("seconds -1 and behind 0 must be 0, or at least 0 and 1", "tune", "attention", "--seconds", "-1"),
        ]:
            with self.subTest(arguments=arguments):
                self.refused(expected, *arguments)


if __name__ == "__main__":
    unittest.main(verbosity=1)
