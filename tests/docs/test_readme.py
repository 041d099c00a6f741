"""README.md tells the truth: its commands print what it shows, its C program compiles and runs, its links lead somewhere.

    test_readme.py PATH_TO_WEFT PATH_TO_SHARED_LIBRARY
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(2))
WEFT = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


class Readme(unittest.TestCase):
    def weft(self, line):
        with tempfile.TemporaryDirectory() as folder:  # some write a page
            environment = {**os.environ, "WEFT_TUNING_DB": os.path.join(folder, "tuning.db")}
            result = subprocess.run([WEFT, *line.split()], capture_output=True, text=True, cwd=folder, env=environment)
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        return result.stdout

    def test_shown_outputs(self):
        shown = [block.split("\n", 1) for kind, block in BLOCKS if block.startswith("$ weft ")]
        self.assertTrue(shown)
        for command, output in shown:
            self.assertEqual(self.weft(command[len("$ weft ") :]), output)

    def test_listed_commands_run(self):
        lines = [line for _, block in BLOCKS for line in block.splitlines() if line.startswith("weft ")]
        self.assertGreaterEqual(len(lines), 5)
        for line in lines:
            self.weft(re.split(r" {2,}", line[len("weft ") :])[0])

    def test_program(self):
        (program,) = [block for kind, block in BLOCKS if kind == "c"]
        self.assertLessEqual(len(program.splitlines()), 12)
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "demo.c"), os.path.join(folder, "demo")
            with open(source, "w") as file:
                file.write(program)
            flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}/include"]
            subprocess.run(["gcc", *flags, source, "-o", binary, LIBRARY], check=True)
            environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(LIBRARY)}
            output = subprocess.run([binary], env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(output.split()), sorted(f"{m}{n}" for m in range(3) for n in range(4)))

    def test_links(self):
        links = re.findall(r"\]\(([^)#]+)\)", README)
        self.assertTrue(links)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(ROOT, link)), link)


if __name__ == "__main__":
    unittest.main()
