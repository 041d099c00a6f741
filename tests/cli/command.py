# SPDX-License-Identifier: Apache-2.0
"""The command under test, the first argument of a test, and what tests ask of it."""

import json
import os
import subprocess
import sys
import unittest

WEFT = os.path.abspath(sys.argv.pop(1))


def run(*arguments, **options):
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, **options)


class Command(unittest.TestCase):
    environment = None  # the command's; None: the test's own

    def run_weft(self, *arguments, **options):
        return run(*arguments, env=self.environment, **options)

    def ok(self, *arguments, **options):
        result = self.run_weft(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def json(self, *arguments):
        text = self.ok(*arguments, "--json")
        self.assertEqual(text.count("\n"), 1, "one object on one line")
        return json.loads(text)

    def refused(self, expected, *arguments, code=2):
        result = self.run_weft(*arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (code, "", f"weft: {expected}\n"), arguments)
