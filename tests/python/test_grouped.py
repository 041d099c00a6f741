# SPDX-License-Identifier: Apache-2.0
"""weft.grouped_matmul(): each group is the product that it is, on NumPy arrays against fp64, and on torch where there is one."""

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close

SIZE = st.integers(1, 60)


def weights(rng, groups, k, n, dtype, transposed):
    if transposed:  # as linear layers have them
        return rng.standard_normal((groups, n, k)).astype(dtype).swapaxes(1, 2)
    return rng.standard_normal((groups, k, n)).astype(dtype)


@settings(max_examples=120)
@given(st.lists(st.integers(0, 70), min_size=1, max_size=9), SIZE, SIZE, st.sampled_from(["float32", "float16"]), st.booleans(),
       st.booleans(), st.data())  # fmt: skip
def test_random_groups(rows, n, k, dtype, masked, transposed, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    b = weights(rng, len(rows), k, n, dtype, transposed)
    order = data.draw(st.sampled_from([None, "raster-m", "raster-n", "hilbert", "group", "serpentine"]))
    alpha = data.draw(st.sampled_from([1.0, -0.5]))
    before = data.draw(st.integers(0, 3))  # rows of no group
    starts = np.cumsum([before, *rows]).astype("int32")
    room = max(max(rows), 1) if masked else max(int(starts[-1]) + before, 1)
    a = rng.standard_normal((len(rows), room, k + 2) if masked else (room, k + 2)).astype(dtype)[..., 1:-1]
    out = np.full((*a.shape[:-1], n), 77, dtype)
    bounds = {"counts": np.array(rows, "int32")} if masked else {"starts": starts}
    c = weft.grouped_matmul(a, b, **bounds, alpha=alpha, out=out, schedule={"order": order})
    assert c is out
    if data.draw(st.booleans()):  # bounds that are known beforehand, and an array of weft's
        other = weft.grouped_matmul(a, b, **{name: list(map(int, x)) for name, x in bounds.items()}, alpha=alpha, schedule={"order": order})
        assert other.shape == out.shape and other.dtype == a.dtype
    else:
        other = out
    left = np.ones(out.shape[:-1], bool)
    for g, count in enumerate(rows):
        here = (g, slice(0, count)) if masked else slice(starts[g], starts[g + 1])
        left[here] = False
        if count:
            assert_close(c[here], alpha * (a[here].astype("d") @ b[g].astype("d")), dtype)
            assert np.array_equal(c[here], other[here])
    assert (c[left] == 77).all()


A, B, S = np.ones((5, 4), "f"), np.ones((2, 4, 3), "f"), np.array([0, 2, 5], "int32")


@pytest.mark.parametrize("a, b, bounds, message", [
    (A, B, {}, "give starts, or counts"),
    (A, B, {"starts": S, "counts": S[:2]}, "give starts, or counts"),
    (A, B, {"starts": S[:2]}, r"starts is \(2,\), not \(3,\)"),
    (A, B, {"starts": S.astype("int64")}, "starts has dtype int64, not int32"),
    (A, B, {"starts": np.arange(6, dtype="int32")[::2]}, "in one piece"),
    (A, B, {"starts": [0, 2, -5]}, "starts has what is not a whole number"),
    (A, B, {"starts": [0, 3, 2]}, r"starts\[2\] 2 is not between 3 and 5"),
    (A, B, {"starts": [0, 3, 6]}, r"starts\[2\] 6 is not between 3 and 5"),
    (A, B, {"counts": S[:2]}, "a has 2 dimensions, not 3"),
    (A[None], B, {"counts": S[:2]}, "as many groups"),
    (np.stack([A, A]), B, {"counts": np.array([6, 1], "int32")}, r"counts\[0\] 6 is not between 0 and 5"),
    (A, B[:, :3], {"starts": S}, "a's last dimension must be b's second"),
    (A, B[0], {"starts": S}, "b has 2 dimensions, not 3"),
    (A, B.astype("e"), {"starts": S}, "b is fp16 and a is fp32"),
    (np.asfortranarray(A), B, {"starts": S}, "its rows are not contiguous"),
    (A, np.broadcast_to(B[:1], (2, 4, 3)), {"starts": S}, "one matrix, repeated"),
    (A, B, {"starts": S, "alpha": "x"}, "alpha 'x' is not a number"),
])  # fmt: skip
def test_what_is_refused(a, b, bounds, message):
    with pytest.raises(weft.Invalid, match=message):
        weft.grouped_matmul(a, b, **bounds)


def test_weights_as_linear_layers_have_them():
    a, b = np.arange(20, dtype="f").reshape(5, 4), np.arange(24, dtype="f").reshape(2, 3, 4)
    c = weft.grouped_matmul(a, b, starts=S, transpose_b=True)
    assert np.array_equal(c, weft.grouped_matmul(a, b.swapaxes(1, 2), starts=S))
    assert np.array_equal(weft.matmul(a, b[0], transpose_b=True), a @ b[0].T)
    with pytest.raises(weft.Invalid, match="b has 2 dimensions, not 3"):
        weft.grouped_matmul(a, b[0], starts=S, transpose_b=True)


def test_problems_are_simulated():
    even = weft.simulate(weft.GroupedGemm((512,) * 8, 1024, 1024, "bf16"), None, "h200").total
    one = weft.simulate(weft.GroupedGemm((4096, 0, 0, 0, 0, 0, 0, 0), 1024, 1024, "bf16"), None, "h200").total
    assert even.dram_read_bytes > 2 * one.dram_read_bytes  # eight matrices B, not one
    with pytest.raises(weft.Invalid, match="add up"):
        weft.GroupedGemm((3, -1), 8, 8).to_c()


def test_torch_and_its_gradients():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    rows, starts = (3, 0, 9, 5), [0, 3, 3, 12, 17]
    for masked in (False, True):
        a = torch.randn((4, 9, 8) if masked else (20, 8), dtype=torch.float32, requires_grad=True)
        weight = torch.randn((4, 6, 8), requires_grad=True)  # (groups, n, k)
        bounds = {"counts": torch.tensor(rows, dtype=torch.int32)} if masked else {"starts": torch.tensor(starts, dtype=torch.int32)}
        c = weft.grouped_matmul(a, weight.transpose(1, 2), **bounds, alpha=0.5)
        assert torch.equal(c, weft.grouped_matmul(a, weight, **bounds, alpha=0.5, transpose_b=True))
        want = torch.zeros_like(c)
        for g, count in enumerate(rows):
            here = (g, slice(0, count)) if masked else slice(starts[g], starts[g + 1])
            want[here] = 0.5 * a[here] @ weight[g].t()
        assert torch.allclose(c, want, atol=1e-5)
        grad = torch.randn_like(c)
        got = torch.autograd.grad(c, (a, weight), grad)
        for x, y in zip(got, torch.autograd.grad(want, (a, weight), grad)):
            assert torch.allclose(x, y, atol=1e-5)
        with torch.no_grad():
            plain = weft.grouped_matmul(a, weight.transpose(1, 2), **bounds, alpha=0.5, out=torch.zeros_like(c))
        assert torch.equal(plain, c)
        compiled = torch.compile(lambda a, w: weft.grouped_matmul(a, w.transpose(1, 2), **bounds, alpha=0.5), backend="eager", fullgraph=True)
        assert torch.equal(compiled(a, weight), c)
        with pytest.raises(weft.Unsupported, match="out has no gradient"):
            weft.grouped_matmul(a, weight.transpose(1, 2), **bounds, out=torch.zeros_like(c))
