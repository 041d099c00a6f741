# SPDX-License-Identifier: Apache-2.0
"""weft.recommend(): the search behind `weft plan`."""

import pytest
import weft

GEMM = weft.Gemm(1408, 1152, 256, dtype="bf16")


def test_by_the_simulator():
    steps = []
    found = weft.recommend(GEMM, "h100", progress=lambda done, total: steps.append((done, total)))
    assert found.cost == "simulator" and found.machine == "h100" and "within 1 % of the fastest" in found.rule
    assert found.schedule == found.candidates[0].schedule and found.candidates[0].name in str(found)
    assert any(found.rule in sentence for sentence in found.why) and any("what binds" in sentence for sentence in found.why)
    assert steps and all(0 <= done <= total for done, total in steps)
    best, fastest = found.candidates[0], min(c.seconds for c in found.candidates)
    assert best.seconds <= 1.01 * fastest and best.model is None
    again = weft.simulate(GEMM, found.schedule, "h100")  # it can be taken back, and costs what it was said to
    assert (again.seconds, again.total.dram_read_bytes) == (best.seconds, best.dram_read_bytes)
    assert found.baseline.schedule != found.schedule and found.baseline.name in found.why[0]


def test_by_the_model():
    """What the H200's own chooser takes, with no H200 here."""
    problem = weft.Attention(seq=4096, heads=16, head_dim=128, dtype="bf16")
    found = weft.recommend(problem, "h200")
    assert (found.cost, found.schedule.tile) == ("model", (192, 80))
    assert found.candidates[0].dram_read_bytes > 0 and found.candidates[-1].seconds is None
    assert all(c.model > 0 for c in found.candidates)
    assert weft.recommend(problem, "h200", cost="simulator").cost == "simulator"
    host = weft.recommend(weft.Gemm(200, 100, 50))
    assert host.cost == "model" and host.schedule == weft.plan(weft.Gemm(200, 100, 50)).schedule


def test_elsewhere():
    said = weft.recommend(GEMM, "h100", schedule={"order": "group", "group": 8, "axis": "m"}).elsewhere
    assert set(said) == {"cutlass", "triton", "flash-attention"}
    assert "RasterOrderOptions::AlongN" in said["cutlass"] and "max_swizzle_size = 8" in said["cutlass"]
    assert "GROUP_SIZE_M = 8" in said["triton"]
    said = weft.recommend(GEMM, "h100", schedule={"order": "hilbert"}).elsewhere
    assert "cannot be set" in said["cutlass"] and "table" in said["triton"]


def test_refusals():
    with pytest.raises(weft.Invalid, match="cost 'guess'"):
        weft.recommend(GEMM, cost="guess")
    with pytest.raises(weft.Unsupported, match="not measured on h100"):
        weft.recommend(GEMM, "h100", cost="model")
    with pytest.raises(weft.Invalid, match="problem is a str"):
        weft.recommend("gemm")

    def fail(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        weft.recommend(GEMM, "h100", progress=fail)
