"""The command with rights that its caller has not, as a set-user-ID program: it ignores the caller's variables.

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


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main()
