# SPDX-License-Identifier: Apache-2.0
"""weft.combine(): parts of an attention are the attention over all keys, whatever their number, dtype and layout."""

import numpy as np
import pytest
import weft
from hypothesis import given
from hypothesis import strategies as st
from oracle import TOLERANCE, assert_close, attention


def combined(outputs, lses):
    """(o, lse) in fp64 of outputs (rows, dim) and lses (rows) each."""
    outputs, lses = np.asarray(outputs, "d"), np.asarray(lses, "d")
    most = lses.max(0)
    with np.errstate(invalid="ignore"):
        weights = np.where(np.isneginf(lses), 0, np.exp(lses - most))
    total = weights.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        o = (np.where(np.isneginf(lses)[..., None], 0, outputs) * weights[..., None]).sum(0) / total[:, None]
        return np.where(total[:, None] == 0, 0, o), np.where(total == 0, -np.inf, most + np.log(total))


@given(st.integers(1, 16), st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.integers(1, 40), st.booleans(),
       st.sampled_from(["float32", "float16"]), st.booleans(), st.integers(0, 2**32 - 1))  # fmt: skip
def test_matches_fp64(parts, batch, seq, heads, dim, bhsd, dtype, to_fp32, seed):
    rng = np.random.default_rng(seed)
    shape = (batch, heads, seq, dim) if bhsd else (batch, seq, heads, dim)
    outputs = [rng.standard_normal(shape).astype(dtype) for _ in range(parts)]
    lses = [(10 * rng.standard_normal((batch, heads, seq))).astype("f") for _ in range(parts)]
    for lse in lses:
        lse[rng.random(lse.shape) < 0.3] = -np.inf
    for o, lse in zip(outputs, lses):  # what they hold does not count
        (o if bhsd else o.swapaxes(1, 2))[np.isneginf(lse)] = np.nan
    out = np.full(shape, np.nan, "f") if to_fp32 else None
    o, lse = weft.combine(outputs, lses, layout="bhsd" if bhsd else "bshd", return_lse=True, out=out)
    assert (o is out or not to_fp32) and o.dtype == ("float32" if to_fp32 else dtype) and lse.shape == (batch, heads, seq)
    rows = [(x if bhsd else x.swapaxes(1, 2)).reshape(-1, dim) for x in outputs]
    want_o, want_lse = combined(rows, [lse.reshape(-1) for lse in lses])
    got = (o if bhsd else o.swapaxes(1, 2)).reshape(-1, dim)
    assert np.abs(got - want_o).max(initial=0) <= TOLERANCE["float32" if to_fp32 and dtype == "float32" else dtype] * 4
    np.testing.assert_allclose(lse.reshape(-1), want_lse, rtol=1e-6, atol=1e-5)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype("f")


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_parts_of_the_keys_are_the_whole(cuts, seed):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(cuts)
    q, k, v = normal(rng, 2, 5, 4, 16), normal(rng, 2, ends[-1], 2, 16), normal(rng, 2, ends[-1], 2, 16)
    parts = [weft.attention(q, k[:, end - n : end], v[:, end - n : end], return_lse=True) for n, end in zip(cuts, ends)]
    rng.shuffle(parts)
    o, lse = weft.combine(*zip(*parts), return_lse=True)
    want_o, want_lse = attention(q, k, v)
    assert_close(o, want_o, "float32")
    assert_close(lse, want_lse, "float32")


def test_packed_parts():
    rng = np.random.default_rng(0)
    outputs, lses = [normal(rng, 7, 3, 8) for _ in range(2)], [normal(rng, 3, 7) for _ in range(2)]
    o, lse = weft.combine(outputs, lses, return_lse=True)
    assert o.shape == (7, 3, 8) and lse.shape == (3, 7)
    want, _ = combined([x.swapaxes(0, 1).reshape(-1, 8) for x in outputs], [x.reshape(-1) for x in lses])
    assert_close(o.swapaxes(0, 1).reshape(-1, 8), want, "float32")
    assert (o == weft.combine(outputs, lses)).all()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.booleans(), st.sampled_from(["float32", "float16"]),
       st.integers(0, 2**32 - 1))  # fmt: skip
def test_parts_come_one_by_one(parts, batch, seq, heads, bhsd, dtype, seed):
    rng = np.random.default_rng(seed)
    shape = (batch, heads, seq, 8) if bhsd else (batch, seq, heads, 8)
    outputs, lses = [normal(rng, *shape).astype(dtype) for _ in range(parts)], [normal(rng, batch, heads, seq) for _ in range(parts)]
    layout = "bhsd" if bhsd else "bshd"
    all_o = np.full((batch, heads, seq + 5, 8) if bhsd else (batch, seq + 5, heads, 8), np.nan, "f")  # some rows of it
    all_lse = np.full((batch, heads, seq + 5), -np.inf, "f")
    o, lse = (all_o[:, :, 2 : seq + 2] if bhsd else all_o[:, 2 : seq + 2]), all_lse[:, :, 2 : seq + 2]
    for output, of_output in zip(outputs, lses):
        assert weft.combine([output], [of_output], layout=layout, into=(o, lse)) == (o, lse)
    want_o, want_lse = weft.combine(outputs, lses, layout=layout, return_lse=True, out=np.empty(shape, "f"))
    assert_close(o, want_o, "float32")
    assert_close(lse, want_lse, "float32")
    assert np.isnan(all_o).sum() == 5 * batch * heads * 8 and np.isneginf(all_lse).sum() == 5 * batch * heads


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
    outputs = [torch.randn(2, 3, 4, 8).bfloat16() for _ in range(3)]
    lses = [torch.randn(2, 4, 3) for _ in range(3)]
    o, lse = weft.combine(outputs, lses, return_lse=True)
    weights = torch.softmax(torch.stack(lses), 0).permute(0, 1, 3, 2)[..., None]
    assert o.dtype == torch.bfloat16 and torch.allclose(lse, torch.logsumexp(torch.stack(lses), 0), atol=1e-5)
    assert torch.allclose(o.float(), (torch.stack(outputs).float() * weights).sum(0), atol=3e-2)
    running = torch.empty(2, 3, 4, 8), torch.full((2, 4, 3), -torch.inf)
    for output, of_output in zip(outputs, lses):
        weft.combine([output], [of_output], into=running)
    assert torch.allclose(running[1], lse, atol=1e-5) and torch.allclose(running[0], o.float(), atol=3e-2)
    with pytest.raises(weft.Unsupported, match="no gradient"):
        weft.combine([x.float().requires_grad_() for x in outputs], lses)


def test_what_is_refused():
    o, lse = np.zeros((1, 2, 3, 4), "f"), np.zeros((1, 3, 2), "f")
    for outputs, lses, message in [
        ([], [], "there are 0 outputs and 0 lses"),
        ([o, o], [lse], "there are 2 outputs and 1 lses"),
        ([o] * 17, [lse] * 17, "parts 17 are more than 16: combine some of them first"),
        ([o, o[:, :1]], [lse, lse], r"parts\[1\] is \(1, 1, 3, 4\)"),
        ([o], [lse[:, :2]], r"lses\[0\] is \(1, 2, 2\) with strides .* not \(1, 3, 2\) in one piece"),
        ([o], [np.zeros((1, 2, 3), "f").swapaxes(1, 2)], r"lses\[0\] is \(1, 3, 2\) .* in one piece"),
        ([o], [lse.astype("float16")], r"lses\[0\] is fp16, not fp32"),
        ([o[0, 0]], [lse], "a part has 2 dimensions"),
    ]:
        with pytest.raises(weft.Invalid, match=message):
            weft.combine(outputs, lses)
    for out, message in [(o[:, :1], r"out is \(1, 1, 3, 4\), and the result is \(1, 2, 3, 4\)"), (np.broadcast_to(o[:, :1], o.shape), "read-only")]:
        with pytest.raises(weft.Invalid, match=message):
            weft.combine([o], [lse], out=out)
    read_only = np.zeros_like(lse)
    read_only.flags.writeable = False
    for into, message in [
        ((o, read_only), "lse is read-only"), ((o, lse[:, :2]), r"the lse of into is \(1, 2, 2\), not \(1, 3, 2\)"),
        ((o, lse.astype("d")), "float64"), ((o[:, :1], lse), r"out is \(1, 1, 3, 4\)"),
        ((o, np.zeros((1, 2, 3), "f").swapaxes(1, 2)), r"the lse of into has strides \(6, 1, 3\)"),
        ((o, np.zeros((2, 3, 3), "f")[:, :, :2]), r"the lse of into is \(2, 3, 2\)"),
    ]:  # fmt: skip
        with pytest.raises((weft.Invalid, weft.Unsupported), match=message):
            weft.combine([o], [lse], into=into)
    with pytest.raises(weft.Invalid, match="leave out and return_lse out"):
        weft.combine([o], [lse], into=(o, lse), out=o)
