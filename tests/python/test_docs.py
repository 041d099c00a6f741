"""The examples of docs/python.md and of the README run."""

import importlib.util
import os
import re

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["docs/python.md", "README.md"])
def test_examples(name, capsys):
    names = {}
    found = blocks(name)
    assert found
    for block in found:
        needed = [package for package in ("torch", "jax") if f"import {package}" in block]
        if "from_pretrained" in block or not all(map(importlib.util.find_spec, needed)):
            continue
        exec(compile(block, name, "exec"), names)
    assert "sawtooth" in capsys.readouterr().out


def test_runnable_example():
    path = os.path.join(ROOT, "examples", "05_python.py")
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "__main__"})
