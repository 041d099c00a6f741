"""weft on JAX arrays and weft.jax, on the CPU."""

import numpy as np
import pytest
import weft
from oracle import assert_close, attention

jax = pytest.importorskip("jax", reason="JAX is not importable here: its tests are skipped")
jnp = jax.numpy
import weft.jax  # noqa: E402


def arrays(dtype, *shapes):
    return [jnp.asarray(np.random.default_rng(i).standard_normal(shape), dtype) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_attention(dtype, layout):
    shapes = [(2, 19, 4, 24), (2, 30, 2, 24), (2, 30, 2, 24)]
    q, k, v = arrays(dtype, *([shape if layout == "bshd" else (shape[0], shape[2], shape[1], shape[3]) for shape in shapes]))
    options = dict(causal=True, layout=layout, return_lse=True)
    expected = attention(q, k, v, causal=True, layout=layout)
    jitted = jax.jit(lambda *x: weft.attention(*x, **options))
    for found in (weft.attention(q, k, v, **options), weft.jax.attention(q, k, v, **options), jitted(q, k, v)):
        assert isinstance(found[0], jax.Array) and found[0].dtype == q.dtype
        assert_close(found[0], expected[0], dtype)
        assert_close(found[1], expected[1], dtype)


def test_inside_a_larger_function_and_vmap():
    q, k = arrays("float32", (3, 1, 8, 2, 16), (3, 1, 9, 2, 16))
    inside = jax.jit(lambda q, k: jnp.tanh(weft.jax.attention(q + 1, k, k)).sum())
    assert_close(inside(q[0], k[0]), np.tanh(attention(q[0] + 1, k[0], k[0])[0]).sum(), "float32")
    found = jax.vmap(lambda q, k: weft.jax.attention(q, k, k))(q, k)
    assert_close(found, np.stack([attention(x, y, y)[0] for x, y in zip(q, k)]), "float32")


def test_matmul():
    a, b = arrays("float32", (5, 7), (7, 3))
    for found in (weft.matmul(a, b), jax.jit(weft.jax.matmul)(a, b), jax.jit(weft.matmul)(a, b), jax.jit(lambda b: weft.matmul(a, b))(b)):
        assert isinstance(found, jax.Array)
        assert_close(found, np.asarray(a, "d") @ np.asarray(b, "d"), "float32")


def test_refused():
    (q,) = arrays("float32", (1, 4, 2, 16))
    with pytest.raises(TypeError, match="q is an array of JAX and k one of NumPy"):
        weft.attention(q, np.asarray(q), q)
    with pytest.raises(weft.Invalid, match="q has 3 dimensions"):
        jax.jit(lambda x: weft.attention(x, x, x))(q[0])
