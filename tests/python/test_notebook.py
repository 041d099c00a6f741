# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/ run from top to bottom, and show what a notebook shows."""

import ast
import glob
import json
import os

import pytest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def shown(value):
    """What a notebook shows of the last expression of a cell."""
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


@pytest.mark.parametrize("path", glob.glob(os.path.join(FOLDER, "*.ipynb")), ids=os.path.basename)
def test_runs(path, capsys):
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4 and len(cells) >= 3
    assert not any(cell.get("outputs") for cell in notebook["cells"]), "outputs are not committed: they would grow old"
    names, pages = {}, []
    for number, cell in enumerate(cells):
        *before, last = ast.parse(cell).body
        where = f"{os.path.basename(path)} cell {number}"
        exec(compile(ast.Module(before, []), where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            pages += [] if value is None else [shown(value)]
        else:
            exec(compile(ast.Module([last], []), where, "exec"), names)
    said = capsys.readouterr().out
    assert sum(page.startswith("<table>") for page in pages) >= 3 and any(page.startswith("<img") for page in pages), pages
    assert "times fewer misses" in said and "largest difference: " in said
    assert names["sawtooth"].misses < 0.7 * names["forward"].misses and abs(names["plain"] - names["swept"]).max() < 1e-5


def test_there_is_one():
    assert glob.glob(os.path.join(FOLDER, "*.ipynb"))
