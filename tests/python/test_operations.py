# SPDX-License-Identifier: Apache-2.0
"""The rows of operations.py, and backward attention, which is a plan like any other."""

import numpy as np
import pytest
import weft
from oracle import attention
from weft import _c, caches, compute, features, operations

OPTIONS = (True, None, 2, "bshd")


@pytest.mark.parametrize("row", operations.BY_NUMBER.values(), ids=lambda row: row.problem.subject)
def test_rows_name_the_fields_of_their_data(row):
    plain = {_c.GemmData: (), _c.CombineData: (), _c.GroupedGemmData: ("counts",)}  # of masked groups, in place of starts
    beside = plain.get(row.data, (*features.ARRAYS, "dropout_seed", "workspace"))
    if row is operations.ATTENTION_BACKWARD:
        beside = tuple(name for name in beside if name != "qv")  # it has no gradient
    beside += (*operations.GEMM_ARRAYS, "function", "user", "workspace") if row is operations.GEMM else ()
    beside += ("prepared", *(caches.WORDS.get(name, name) for name in caches.ARRAYS)) if row is operations.ATTENTION else ()
    assert sorted((*row.inputs, *row.outputs, *beside)) == sorted(_c.words(row.data))
    assert set(row.optional) == set(row.outputs[row.required_outputs :])
    assert set(row.fp32) <= set(row.inputs)
    assert operations.BY_NUMBER[row.problem.operation] is row


@pytest.mark.parametrize("problem, flops", [
    (weft.Attention(32, 8, 2, 3, kv_seq=10), 4 * 2 * 3 * 32 * 10 * 8), (weft.Gemm(3, 5, 7), 2 * 3 * 5 * 7),
    (weft.AttentionBackward(32, 8, 2, 3, kv_seq=10), 10 * 2 * 3 * 32 * 10 * 8), (weft.Combine(32, 8, 2, 3, 5), 2 * 5 * 2 * 3 * 32 * 8),
    (weft.Combine(32, 8, 2, 3, 5, "bf16", o_dtype="fp32", into=True), 2 * 6 * 2 * 3 * 32 * 8), (weft.Combine(32, 8, 2, 3, 5, sum=True), 5 * 2 * 3 * 32 * 8),
    (weft.GroupedGemm((3, 0, 5), 7, 9), 2 * 8 * 7 * 9), (weft.GroupedGemm((3, 0, 5), 7, 9, masked=6), 2 * 8 * 7 * 9),
])  # fmt: skip
def test_every_problem_has_a_plan_and_a_simulation(problem, flops):
    plan = weft.plan(problem)
    assert plan.subject == problem.subject and plan.subject in repr(plan) and plan.schedule.tile
    assert problem.flops == flops and weft.simulate(problem, None, "gb10").total.sectors > 0
    tiles = plan.tiles()
    assert len(tiles) == len(set(tiles)) == np.prod(plan.grid)
    assert f"{plan.grid[1]} {plan.operation.axes[0]} down, {plan.grid[2]} {plan.operation.axes[1]} across" in plan._repr_html_()


def inputs(kv_heads=1):
    """q, k, v and the gradient of o, with o and lse by weft."""
    rng = np.random.default_rng(0)
    q, grad_o = (rng.standard_normal((2, 5, 2, 8)).astype("f") for _ in range(2))
    k, v = (rng.standard_normal((2, 7, kv_heads, 8)).astype("f") for _ in range(2))
    return q, k, v, grad_o, *weft.attention(q, k, v, causal=True, offset=2, return_lse=True)


def test_backward_gives_the_gradients():
    """Against differences of the oracle's sum of o times grad_o, in fp64."""
    q, k, v, grad_o, o, lse = inputs()
    grads = compute.attention_backward(q, k, v, grad_o, o, lse, *OPTIONS)
    doubles = [x.astype("d") for x in (q, k, v)]
    rng = np.random.default_rng(1)
    for i, grad in enumerate(grads):
        for _ in range(8):
            place, sums = tuple(map(rng.integers, grad.shape)), []
            for step in (1e-4, -1e-4):
                moved = [x.copy() for x in doubles]
                moved[i][place] += step
                sums.append((attention(*moved, causal=True, offset=2)[0] * grad_o).sum())
            assert abs(grad[place] - (sums[0] - sums[1]) / 2e-4) < 1e-4


def test_backward_gives_the_gradient_of_a_bias():
    """One number for each score, though the bias repeats itself: against differences of the oracle with a bias that does not."""
    q, k, v, grad_o, _, _ = inputs()
    rng = np.random.default_rng(2)
    bias = rng.standard_normal((2, 1, 1, 7)).astype("f")
    asked = features.asked(q, bias=bias, softcap=2.0)
    o, lse = weft.attention(q, k, v, causal=True, offset=2, bias=bias, softcap=2.0, return_lse=True)
    *_, grad = compute.attention_backward(q, k, v, grad_o, o, lse, *OPTIONS, asked, True)
    assert grad.shape == (2, 2, 5, 7) and grad.dtype == np.float32
    doubles = [x.astype("d") for x in (q, k, v)]
    for place in [(0, 0, 0, 6), *(tuple(map(rng.integers, grad.shape)) for _ in range(16))]:
        sums = []
        for step in (1e-4, -1e-4):
            moved = np.broadcast_to(bias, grad.shape).astype("d")
            moved[place] += step
            sums.append((attention(*doubles, causal=True, offset=2, bias=moved, softcap=2.0)[0] * grad_o).sum())
        assert abs(grad[place] - (sums[0] - sums[1]) / 2e-4) < 1e-4
    assert grad[0, 0, 0, 6] == 0  # it is hidden


def test_backward_plans_are_kept(monkeypatch):
    given = inputs()
    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda *x, **y: made.append(x) or plan(*x, **y))
    first = compute.attention_backward(*given, True, 0.3, 2, "bshd")
    again = compute.attention_backward(*(x.copy() for x in given), True, 0.3, 2, "bshd")
    assert len(made) == 1 and all(np.array_equal(x, y) for x, y in zip(first, again))


def test_backward_mistakes():
    q, k, v, grad_o, o, lse = inputs()
    with pytest.raises(weft.Invalid, match="o is .* and its gradient .*: they must be laid out alike"):
        compute.attention_backward(q, k, v, grad_o.swapaxes(1, 2).copy().swapaxes(1, 2), o, lse, *OPTIONS)
    with pytest.raises(weft.Invalid, match="lse is fp16, not fp32"):
        compute.attention_backward(q, k, v, grad_o, o, lse.astype("e"), *OPTIONS)
    with pytest.raises(weft.Invalid, match="k is fp16 and q is fp32"):
        compute.attention_backward(q, k.astype("e"), v, grad_o, o, lse, *OPTIONS)
    with pytest.raises(weft.Invalid, match=r"o is \(2, 5, 2, 8\) .* and its gradient \(5, 2, 8\)"):
        compute.attention_backward(q, k, v, grad_o[0], o, lse, *OPTIONS)
