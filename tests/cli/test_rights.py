# SPDX-License-Identifier: Apache-2.0
"""What the command may touch: with rights that its caller has not, as a set-user-ID program, it ignores the caller's variables;
and it writes the files that it is asked to write and no others.

    test_rights.py PATH_TO_WEFT
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from command import WEFT

NOBODY = 65534


class Rights(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        self.environment = {**os.environ, "WEFT_TUNING_DB": "/none/named.db", "XDG_CACHE_HOME": "/none/cache", "HOME": "/none/home",
                            "WEFT_CUDA_DRIVER": "/none/libnamed.so", "LC_ALL": "C"}  # fmt: skip

    def copy(self, program, is_foreign):
        """A copy of the program, which runs as another user where it is foreign."""
        path = os.path.join(self.folder, f"{os.path.basename(program)}{is_foreign}")
        shutil.copyfile(program, path)
        if is_foreign:
            os.chown(path, NOBODY, NOBODY)
        os.chmod(path, 0o755 | (stat.S_ISUID if is_foreign else 0))
        return path

    def findings(self, is_foreign):
        result = subprocess.run([self.copy(WEFT, is_foreign), "doctor", "--json"], capture_output=True, text=True, env=self.environment)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return {finding["name"]: finding["text"] for finding in json.loads(result.stdout)["findings"]}

    def test_own(self):
        own = self.findings(False)
        self.assertIn("/none/libnamed.so", own["driver and GPU"])
        self.assertIn("/none/named.db", own["tuning store"])

    def test_foreign(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a program that runs as another user")
        who = subprocess.run([self.copy(shutil.which("id"), True)], capture_output=True, text=True)
        if f"euid={NOBODY}" not in who.stdout:
            self.skipTest("no program runs as another user here")
        foreign = self.findings(True)
        self.assertNotIn("/none", foreign["driver and GPU"])
        self.assertEqual(foreign["tuning store"], "there is no place for it")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("home", "tmp", "here"):
            os.mkdir(os.path.join(self.folder, name))
        self.environment = {name: value for name, value in os.environ.items() if name not in ("WEFT_TUNING_DB", "XDG_CACHE_HOME")}
        self.environment.update(HOME=os.path.join(self.folder, "home"), TMPDIR=os.path.join(self.folder, "tmp"))

    def written(self, *arguments):
        """Files below the folder of which home, temporary files and the current folder are a part, after a command; and their modes."""
        os.umask(0o022)
        result = subprocess.run([WEFT, *arguments], capture_output=True, text=True, env=self.environment, cwd=os.path.join(self.folder, "here"))
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        found = [os.path.join(parent, name) for parent, _, names in os.walk(self.folder) for name in names]
        return {os.path.relpath(path, self.folder): oct(os.stat(path).st_mode & 0o777) for path in found}

    def test_nothing(self):
        problem = ["gemm", "--m", "64", "--n", "64", "--k", "64"]
        for words in (["orders"], ["machines", "h100"], ["doctor"], ["run", *problem],
                      ["simulate", *problem, "--machine", "h100"], ["plan", *problem, "--machine", "h100"], ["tune", "--list"]):  # fmt: skip
            self.assertEqual(self.written(*words), {}, words)

    def test_what_is_asked(self):
        self.assertEqual(self.written("machines", "h100", "-o", "mine.ini"), {"here/mine.ini": "0o644"})
        page = ["view", "gemm", "--m", "256", "--n", "256", "--k", "256", "--machine", "h100", "-o", "page.html"]
        self.assertEqual(self.written(*page), {"here/mine.ini": "0o644", "here/page.html": "0o644"})

    def test_store(self):
        if "without SQLite" in subprocess.run([WEFT, "tune", "--list"], capture_output=True, text=True, env=self.environment).stderr:
            self.skipTest("this build has no SQLite")
        files = self.written("tune", "gemm", "--m", "16", "--n", "16", "--k", "16", "--seconds", "0.1")
        self.assertIn("home/.cache/weft/tuning.db", files)
        for path, mode in files.items():
            self.assertEqual((path.startswith("home/.cache/weft/tuning.db"), mode), (True, "0o600"))
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, "home/.cache/weft")).st_mode), 0o700)


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main()
