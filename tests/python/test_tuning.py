# SPDX-License-Identifier: Apache-2.0
"""Tuning, and plans that take what was tuned."""

import pytest
import weft

PROBLEM = weft.Attention(seq=80, heads=2, head_dim=16)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_TUNING_DB", str(tmp_path / "tuning.db"))
    with pytest.raises((weft.NotFound, weft.Unsupported)) as error:
        weft.plan(weft.Attention(seq=5, head_dim=8), mode="stored")  # what this process knows of PROBLEM, it does not forget
    if isinstance(error.value, weft.Unsupported):
        pytest.skip(str(error.value))
    return tmp_path


def test_tuned_plans(store):
    said = []
    tuned = weft.tune(PROBLEM, seconds=0.5, progress=lambda elapsed, left: said.append((elapsed, left)))
    assert tuned.whole and tuned.seconds > 0 and tuned.runs > 0 and tuned.estimate_seconds > 0
    assert all(elapsed >= 0 and left >= 0 for elapsed, left in said)
    assert weft.tune(PROBLEM) == weft.Tuned(**{**vars(tuned), "estimate_seconds": None})
    plan = weft.plan(weft.Attention(seq=87, heads=2, head_dim=16), mode="stored")  # the same class
    assert plan.schedule.tile[0] <= 87
    assert weft.plan(PROBLEM, mode="measure").subject == "attention"
    assert (store / "tuning.db").exists()


def test_given_schedules(store):
    tuned = weft.tune(weft.Gemm(40, 50, 60), {"order": "hilbert"}, seconds=0.3)
    assert tuned.schedule.order in ("hilbert", None)
    assert weft.plan(weft.Gemm(40, 50, 60), {"order": "hilbert"}, mode="stored").schedule.order == "hilbert"


def test_backward_is_tuned_by_itself(store):
    backward, forward = weft.AttentionBackward(72, 16), weft.Attention(72, 16)
    assert weft.tune(backward, seconds=0.3).runs > 0
    assert weft.plan(backward, mode="stored").subject == "attention-backward"
    with pytest.raises(weft.NotFound):
        weft.plan(forward, mode="stored")


def test_mistakes(store):
    with pytest.raises(weft.Invalid, match="mode 'fast' is not one of estimate, measure, stored"):
        weft.plan(PROBLEM, mode="fast")
    with pytest.raises(weft.Invalid, match="a machine is given"):
        weft.plan(PROBLEM, machine="gb10", mode="measure")
    with pytest.raises(weft.Invalid, match="problem is a int"):
        weft.tune(3)

    def stop(elapsed, left):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        weft.tune(weft.Attention(seq=1000, heads=4, head_dim=64), progress=stop)
