# SPDX-License-Identifier: Apache-2.0
"""The examples of the manuals and of the README run."""

import importlib.util
import os
import re

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name, printed", [("docs/python.md", "sawtooth"), ("docs/own-order.md", "(0, 1, 1)"), ("docs/own-kernel.md", "sectors="), ("docs/serving.md", "(9, 8, 64)"), ("docs/context-parallelism.md", "rank 3: 250 rows, True"), ("README.md", "sawtooth")])
def test_examples(name, printed, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write pictures
    names = {}
    found = blocks(name)
    assert found
    for block in found:
        needed = [package for package in ("torch", "jax") if f"import {package}" in block]
        if "from_pretrained" in block or not all(map(importlib.util.find_spec, needed)):
            continue
        exec(compile(block, name, "exec"), names)
    assert printed in capsys.readouterr().out


def test_runnable_example():
    path = os.path.join(ROOT, "examples", "05_python.py")
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "__main__"})
