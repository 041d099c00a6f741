# SPDX-License-Identifier: Apache-2.0
"""weft.matmul on NumPy arrays against fp64."""

import math

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close

SIZE = st.integers(1, 90)


def matrix(rng, rows, cols, dtype, memory):
    if memory == "columns":
        return rng.standard_normal((cols, rows)).astype(dtype).T
    if memory == "sliced":
        return rng.standard_normal((rows, cols + 5)).astype(dtype)[:, 2 : cols + 2]
    return rng.standard_normal((rows, cols)).astype(dtype)


@settings(max_examples=150)
@given(SIZE, SIZE, SIZE, st.sampled_from(["float32", "float16"]), st.data())
def test_random_problems(m, n, k, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    memory = st.sampled_from(["rows", "columns", "sliced"])
    a, b = matrix(rng, m, k, dtype, data.draw(memory)), matrix(rng, k, n, dtype, data.draw(memory))
    order = data.draw(st.sampled_from([None, "raster-m", "hilbert", "group", "serpentine"]))
    c = weft.matmul(a, b, schedule={"order": order})
    assert c.dtype == a.dtype and c.flags.c_contiguous
    assert_close(c, a.astype("d") @ b.astype("d"), dtype)


@pytest.mark.parametrize("a, b, message", [
    (np.ones((2, 3), "f"), np.ones((4, 2), "f"), "a's columns must be b's rows"),
    (np.ones((2, 3, 4), "f"), np.ones((4, 2), "f"), "a has 3 dimensions"),
    (np.ones((4, 8), "f")[:, ::2], np.ones((4, 2), "f"), "copy it first"),
    (np.ones((2, 3), "f"), np.ones((3, 2), "e"), "b is fp16 and a is fp32"),
    (np.ones((2, 0), "f"), np.ones((0, 2), "f"), "k 0 is not between 1"),
])  # fmt: skip
def test_what_is_refused(a, b, message):
    with pytest.raises(weft.Invalid, match=message):
        weft.matmul(a, b)


def test_memory_is_given_back():
    a = np.ones((512, 512), "float32")
    first = weft.matmul(a, a)
    assert weft.release_memory() > 0
    assert weft.release_memory() == 0
    assert np.array_equal(weft.matmul(a, a), first)


def activate(name, z):
    """An activation of fp64."""
    if name == "relu":
        return np.maximum(z, 0)
    if name == "gelu":
        return z * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) / 2
    if name == "gelu_tanh":
        return z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2
    return z / (1 + np.exp(-z)) if name == "silu" else z


ACTIVATION = st.sampled_from(["identity", "relu", "gelu", "gelu_tanh", "silu"])


@settings(max_examples=150)
@given(SIZE, SIZE, SIZE, st.sampled_from(["float32", "float16"]), st.data())
def test_random_epilogues(m, n, k, dtype, data):
    rng, asked = np.random.default_rng(data.draw(st.integers(0, 2**32))), data.draw
    gated, name, fp32 = asked(st.booleans()), asked(ACTIVATION), asked(st.booleans())
    n += n % 2 if gated else 0
    columns, out = n // 2 if gated else n, "float32" if fp32 else dtype
    a, b = rng.standard_normal((m, k)).astype(dtype), matrix(rng, k, n, dtype, asked(st.sampled_from(["rows", "columns"])))
    vectors = {"row_scale": (m, "float32"), "column_scale": (n, "float32"), "bias": (n, asked(st.sampled_from([dtype, "float32"])))}
    options = {key: rng.standard_normal(length).astype(kind) for key, (length, kind) in vectors.items() if asked(st.booleans())}
    scale = asked(st.sampled_from([None, 0.5, np.array([-1.5], "float32"), np.array(2, "float32")]))
    residual = matrix(rng, m, columns, out, asked(st.sampled_from(["rows", "sliced"]))) if asked(st.booleans()) else None
    how = {"gate": name} if gated else {"activation": name}
    c, sums = weft.matmul(a, b, scale=scale, residual=residual, column_sums=True, fp32=fp32, **options, **how)
    z = a.astype("d") @ b.astype("d") * float(1 if scale is None else np.asarray(scale).reshape(()))
    z = z * options.get("row_scale", np.ones(m))[:, None].astype("d") * options.get("column_scale", np.ones(n)) + options.get("bias", 0)
    expected = activate(name, z[:, :columns]) * z[:, columns:] if gated else activate(name, z)
    expected = expected + (0 if residual is None else residual.astype("d"))
    assert c.dtype == out and c.shape == (m, columns) and sums.dtype == "float32"
    largest = max(1, np.abs(expected).max())
    assert_close(c / largest, expected / largest, out)
    np.testing.assert_allclose(sums / largest / m, expected.sum(0) / largest / m, atol=1e-5)
    alone = weft.matmul(a, b, scale=scale, residual=residual, fp32=fp32, **options, **how)
    assert np.array_equal(alone, c)


def test_linear():
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(shape).astype("f") for shape in ((2, 3, 8), (6, 8), (6,)))
    y = weft.linear(x, weight, bias, "relu")
    np.testing.assert_allclose(y, np.maximum(x @ weight.T + bias, 0), atol=1e-5)
    gated = weft.linear(x, weight, gate="silu", residual=np.ones((2, 3, 3), "f"))
    z = (x @ weight.T).astype("d")
    np.testing.assert_allclose(gated, activate("silu", z[..., :3]) * z[..., 3:] + 1, atol=1e-5)
    assert weft.linear(x[0, 0], weight).shape == (6,)


@pytest.mark.parametrize("precision", ["fp32", "bf16x3", "tf32"])
def test_the_cpu_multiplies_in_fp32(precision):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype("f") for shape in ((33, 70), (70, 20)))
    assert np.array_equal(weft.matmul(a, b, precision=precision), weft.matmul(a, b))
    assert np.array_equal(weft.linear(a, b.T, precision=precision), weft.matmul(a, b))
    assert weft.Gemm(8, 8, 8, precision=precision).flops == 1024


ONES = np.ones((4, 4), "f")


@pytest.mark.parametrize("options, message", [
    ({"activation": "tanh"}, "activation is 'tanh', not"),
    ({"activation": "relu", "gate": "relu"}, "both given"),
    ({"bias": np.ones(3, "f")}, r"bias is \(3,\)"),
    ({"bias": np.ones(4, "e")}, "bias is fp16 and a is fp32"),
    ({"row_scale": np.ones(4, "e")}, "row_scale is fp16, not fp32"),
    ({"residual": np.ones((4, 3), "f")}, r"residual is \(4, 3\)"),
    ({"residual": np.ones((4, 4), "f").T[:, ::-1]}, "residual"),
    ({"scale": np.ones(2, "f")}, "not one number"),
    ({"precision": "fp16"}, "precision 'fp16' is not one of fp32, bf16x3, tf32"),
])  # fmt: skip
def test_what_epilogues_refuse(options, message):
    with pytest.raises(weft.Invalid, match=message):
        weft.matmul(ONES, ONES, **options)


def test_gates_need_two_halves():
    with pytest.raises(weft.Invalid, match="3 columns"):
        weft.matmul(ONES, np.ones((4, 3), "f"), gate="silu")
    with pytest.raises(weft.Invalid, match="weight has 1 dimensions"):
        weft.linear(ONES, np.ones(4, "f"))
