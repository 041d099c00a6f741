#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of docs/numbers.md is a test, and every test a row: numbers.py TEST..."""
import re
import subprocess
import sys
from pathlib import Path


def main(programs):
    text = (Path(__file__).resolve().parents[2] / "docs/numbers.md").read_text()
    rows = re.findall(r"^\| `((?:attention|gradient|gemm|grouped|combine)_\w+)` \|", text, re.M)
    lists = [subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split() for program in programs]
    tests = [name for names in lists for name in names]
    wrong = sorted(set(rows) ^ set(tests)) + sorted(name for name in set(rows + tests) if max(rows.count(name), tests.count(name)) > 1)
    print("\n".join(f"{name}: not one row and one test" for name in wrong) or f"{len(rows)} rows")
    return len(wrong) > 0 or not rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
