#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The environment is read in one place, src/base/environment.c, and in python/weft/_c.py; docs/command.md has a row for every
variable, which says whether it loads code."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_READS = re.compile(r"\b(?:secure_)?getenv(?:_s)?\s*\(|\bextern\s+char\s*\*\*\s*environ\b|\b__environ\b")
PYTHON_READS = re.compile(r"\bos\.(?:environ|getenv)\b")
ROW = re.compile(r'^WEFT_VARIABLE\(\w+,\s+"(\w+)",\s+([01]),\s+".+"\)$', re.M)


def readers(pattern, folders, endings, home):
    """Lines outside of `home` that read the environment."""
    files = [f for folder in folders for f in sorted((ROOT / folder).rglob("*")) if f.suffix in endings]
    lines = [(f.relative_to(ROOT), n, line) for f in files for n, line in enumerate(f.read_text().splitlines(), 1)]
    found = [(file, n, line) for file, n, line in lines if pattern.search(line)]
    assert any(str(file) == home for file, _, _ in found), f"{home} does not read the environment: this test looks for the wrong words"
    return [f"{file}:{n}: {line.strip()}" for file, n, line in found if str(file) != home]


def documented():
    """{name: whether the manual says that it loads code}"""
    text = (ROOT / "docs/command.md").read_text()
    table = re.search(r"\| variable \| is \| loads code \|\n\|[- |]+\|\n((?:\|.*\n)+)", text)[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {name: loads == "yes" for names, _, loads in rows for name in re.findall(r"`(\w+)`", names)}


def main():
    wrong = readers(C_READS, ("src", "cli", "mpi", "include"), (".c", ".h", ".cu", ".cuh"), "src/base/environment.c")
    wrong += readers(PYTHON_READS, ("python",), (".py",), "python/weft/_c.py")
    known = {name: loads == "1" for name, loads in ROW.findall((ROOT / "src/base/environment.def").read_text())}
    assert known, "no rows in src/base/environment.def"
    text = "".join(f.read_text() for f in sorted((ROOT / "python").rglob("*.py")))
    known |= {name: True for name in re.findall(r'\bvariable\("(\w+)"\)', text)}
    said = documented()
    wrong += [f"docs/command.md has another row for {name}, or none" for name in known if said.get(name) != known[name]]
    wrong += [f"docs/command.md has a row for {name}, which nothing reads" for name in said if name not in known]
    print("\n".join(wrong) or f"{len(known)} variables")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
