#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file names its license in its first line, or behind `#!` in its second, as SPDX has it.

    spdx.py            names the files that do not
    spdx.py --write    adds the line to them
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = "SPDX-License-Identifier: Apache-2.0"
COMMENTS = {
    f"/* {TAG} */": ".c .h .cpp .cu .cuh .inc .def .c.in .css .js",
    f"// {TAG}": ".rs",
    f"# {TAG}": ".py .sh .cmake .toml .yml CMakeLists.txt Makefile debian/rules .ci/run",
}
BUILT = (".git/", "build/")  # in a tarball, which git does not know


def files():
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        return [name for name in listing.decode().split("\0") if name and (ROOT / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        names = (path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*")) if path.is_file())
        return [name for name in names if not name.startswith(BUILT)]


def comment_of(name):
    """The line that a file should have; None: it is no source file."""
    return next((line for line, ends in COMMENTS.items() if name.endswith(tuple(ends.split()))), None)


def split(text):
    """A file's `#!` line, if it has one, and the rest."""
    first, end, rest = text.partition("\n")
    return (first + end, rest) if first.startswith("#!") else ("", text)


def main(writes):
    sources = [(name, line) for name in files() if (line := comment_of(name))]
    lacking = [(name, line) for name, line in sources if not split((ROOT / name).read_text())[1].startswith(f"{line}\n")]
    for name, line in lacking if writes else []:
        head, rest = split((ROOT / name).read_text())
        (ROOT / name).write_text(f"{head}{line}\n{rest}")
    for name, line in [] if writes else lacking:
        print(f"{name}: its first line is not '{line}': tests/lint/spdx.py --write adds it")
    print(f"{len(sources)} source files{f', {len(lacking)} changed' if writes else ''}")
    return not writes and (len(lacking) > 0 or len(sources) < 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--write"]))
