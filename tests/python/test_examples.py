# SPDX-License-Identifier: Apache-2.0
"""Every public name has a docstring with an example, and the examples run."""

import doctest
import importlib
import importlib.util

import numpy as np
import pytest
import weft

SUBMODULES = {"dist": None, "flash_attn": "torch", "flash_attn_3": "torch", "torch": "torch", "jax": "jax"}  # and what each needs


def public():
    """(module, name) of everything public that can be imported here."""
    found = [("weft", name) for name in weft.__all__ if name != "dist"]
    for name, needed in SUBMODULES.items():
        if needed is None or importlib.util.find_spec(needed):
            found += [(f"weft.{name}", inside) for inside in importlib.import_module(f"weft.{name}").__all__]
    return found


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Where examples tune, they do not change what the caller has tuned."""
    monkeypatch.setenv("WEFT_TUNING_DB", str(tmp_path / "tuning.db"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("module, name", public(), ids=lambda value: value)
def test_an_example_runs(module, name, store):
    value = getattr(importlib.import_module(module), name)
    names = {"np": np, "weft": weft, "rng": np.random.default_rng(0)}
    needed = SUBMODULES.get(module.partition(".")[2])
    if needed:
        names[needed] = importlib.import_module(needed)
    if needed == "torch":
        names.update((name, importlib.import_module(f"weft.{name}")) for name in ("flash_attn", "flash_attn_3"))
    (test,) = doctest.DocTestFinder(recurse=False).find(value, name, globs=names)
    assert test.examples, f"{module}.{name} has no example in its docstring"
    if module == "weft" and name in ("tune", "Tuned"):
        try:
            weft.plan(weft.Gemm(3, 3, 3), mode="stored")
        except weft.Unsupported as error:  # a build without SQLite
            pytest.skip(str(error))
        except weft.NotFound:
            pass
    said = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not results.failed, "".join(said)


def test_modules_name_what_they_bring():
    assert weft.__doc__ and "import numpy as np" in weft.__doc__
    assert all(hasattr(weft, name) for name in weft.__all__) and len(weft.__all__) == len(set(weft.__all__))
