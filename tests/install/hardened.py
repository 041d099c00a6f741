#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed has the protections that cmake/hardening.cmake asks for: hardened.py FILE..."""
import re
import subprocess
import sys


def readelf(what, path):
    return subprocess.run(["readelf", "--wide", what, path], check=True, capture_output=True, text=True).stdout


def lacks(path):
    """The protections that a file has not."""
    header, dynamic, symbols = readelf("--file-header", path), readelf("--dynamic", path), readelf("--dyn-syms", path)
    segments = re.findall(r"^ +(\w+)(?: +0x[0-9a-f]+){5} +([RWE ]{3})", readelf("--program-headers", path), re.M)
    flags = dict(segments)  # the last of each type
    shared = ".so" in path
    promises = {
        "loads at any address": re.search(r"Type: +DYN", header) and (shared or "PIE" in dynamic),
        "read-only relocations": "GNU_RELRO" in flags,
        "everything bound when it is loaded": re.search(r"\(FLAGS_1\).*\bNOW\b", dynamic),
        "no executable stack": "E" not in flags.get("GNU_STACK", "E"),
        "nothing both written and executed": not any("W" in f and "E" in f for kind, f in segments if kind == "LOAD"),
        "no relocations of code": "TEXTREL" not in dynamic,
        "no search path of its own": "RPATH" not in dynamic and "RUNPATH" not in dynamic,
        "canaries on the stack": "__stack_chk_fail" in symbols,
        "checked copies": re.search(r"\b__(mem|str|v?s?n?printf|read)\w*_chk\b", symbols),
    }
    return [what for what, kept in promises.items() if not kept]


def main(paths):
    missing = {path: lacks(path) for path in paths}
    for path, what in missing.items():
        print(f"{path}: {'; '.join(what) if what else 'hardened'}")
    return any(missing.values()) or not paths


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
