# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/own-kernel.md run, small, and say what the page says of them."""

import os
import runpy
import sys

import pytest
import weft

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "own_kernel")


def example(name, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [name, "--small", *arguments])
    monkeypatch.setattr(sys, "path", [FOLDER, *sys.path])
    return runpy.run_path(os.path.join(FOLDER, f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", ["convolution", "grouped_gemm", "paged_decode", "triton_matmul"])
def test_examples(name, monkeypatch, tmp_path, capsys):
    ran = example(name, monkeypatch, "--machine", "gb10", "-o", str(tmp_path))
    lines, results = capsys.readouterr().out.splitlines(), ran["results"]
    assert len(results) == 3 == len(list(tmp_path.iterdir()))
    assert len({found.total.sectors_from_sm for found in results.values()}) >= 1 and len(lines) >= 8
    for path in tmp_path.iterdir():  # what was written is what was simulated
        found = weft.Trace.read(path).simulate("gb10")
        assert any(found.total == other.total and found.seconds == other.seconds for other in results.values())
    assert len({found.compulsory_misses for found in results.values()}) == 1  # the order changes nothing of that


def test_triton_is_the_plan(monkeypatch):
    """Blocks have other numbers, so other victims are drawn; where everything fits nothing is drawn."""
    ran = example("triton_matmul", monkeypatch)
    machine = weft.Machine("h100")
    for group in (1, 8, 16):
        own, found = ran["plan"](machine, True, group), ran["results"][f"GROUP_SIZE_M = {group}"]
        assert found.total == own.total and found.seconds == pytest.approx(own.seconds, rel=1e-12)
        pid_m, pid_n = ran["programs"](1024, 1024, group)
        assert sorted(zip(pid_m, pid_n)) == [(m, n) for m in range(8) for n in range(8)]
