#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The corpora of the fuzzers as text: a file for each fuzzer, a line for each input, in base64.

    corpus.py pack FOLDER FILE      inputs of a folder, the shortest first, into a file
    corpus.py unpack FILE FOLDER    and back
"""
import base64
import os
import sys

HEAD = "# SPDX-License-Identifier: Apache-2.0\n"


def pack(folder, file):
    inputs = []
    for entry in os.scandir(folder):
        with open(entry.path, "rb") as one:
            inputs.append(one.read())
    with open(file, "w", encoding="ascii") as to:
        to.write(HEAD)
        to.writelines(base64.b64encode(one).decode() + "\n" for one in sorted(set(inputs), key=lambda one: (len(one), one)) if one)


def unpack(file, folder):
    os.makedirs(folder, exist_ok=True)
    with open(file, encoding="ascii") as lines:
        inputs = [base64.b64decode(line) for line in lines if not line.startswith("#")]
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    for number, one in enumerate(inputs):
        with open(os.path.join(folder, f"{number:04}"), "wb") as to:
            to.write(one)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    (pack if sys.argv[1] == "pack" else unpack)(*sys.argv[2:])
