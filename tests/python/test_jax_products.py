# SPDX-License-Identifier: Apache-2.0
"""weft.matmul, weft.linear and weft.grouped_matmul on JAX arrays: called, under jit and vmap, differentiated. What is right comes from
NumPy in fp64, and from JAX's own derivatives of the plain formula in fp64."""

import numpy as np
import pytest
import weft
from jax_arrays import arrays, device, dtypes, jax, jnp, x64  # noqa: F401
from oracle import assert_close

import jax.test_util  # noqa: E402, F811
import weft.jax  # noqa: E402

ACTIVATIONS = {
    "identity": lambda z: z, "relu": lambda z: jnp.maximum(z, 0), "gelu": lambda z: z * jax.scipy.stats.norm.cdf(z),
    "gelu_tanh": lambda z: z * (1 + jnp.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3))) / 2, "silu": lambda z: z / (1 + jnp.exp(-z)),
}  # fmt: skip
KINDS = [dict(activation=name) for name in (None, *ACTIVATIONS)] + [dict(gate=name) for name in ACTIVATIONS]


def plain(a, b, activation=None, gate=None, bias=None, residual=None, row_scale=None, column_scale=None, scale=1, transpose_b=False):
    """C and the sums of its columns, as JAX differentiates them."""
    z = jnp.matmul(a, b.T if transpose_b else b, precision="highest") * jnp.reshape(scale, ())
    z = z * (1 if row_scale is None else row_scale[:, None]) * (1 if column_scale is None else column_scale)
    z = z if bias is None else z + bias
    half, act = z.shape[1] // 2, ACTIVATIONS[gate or activation or "identity"]
    c = (act(z[:, :half]) * z[:, half:] if gate else act(z)) + (0 if residual is None else residual)
    return c, c.sum(0)


def exact(x):
    return jnp.asarray(np.asarray(x, "d")) if isinstance(x, jax.Array) else x


def drawn(seed, dtype, kind):
    """Arguments of a product with some of an epilogue, ragged: those with gradients, the other arrays, and plain options."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, 70)) for _ in range(3))
    n += n % 2 if "gate" in kind else 0
    shapes = {"a": (m, k), "b": (k, n), "bias": (n,), "residual": (m, n // 2 if "gate" in kind else n)}
    scales = {"row_scale": (m,), "column_scale": (n,), "scale": (1,)}
    how = {**kind, "transpose_b": bool(rng.integers(2)), "fp32": bool(rng.integers(2))}
    if how["transpose_b"]:
        shapes["b"] = (n, k)
    given = {name: rng.standard_normal(shape) / (k**0.5 if name == "a" else 1) for name, shape in {**shapes, **scales}.items()
             if name in "ab" or rng.random() < 0.6}  # fmt: skip
    if "scale" not in given and rng.random() < 0.5:
        how["scale"] = -0.5
    kinds = {**dict.fromkeys(scales, "float32"), "bias": str(rng.choice([dtype, "float32"])), "residual": "float32" if how["fp32"] else dtype}
    cast = {name: jnp.asarray(x, kinds.get(name, dtype)) for name, x in given.items()}
    return {name: cast.pop(name) for name in shapes if name in cast}, cast, how


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_epilogues_and_their_gradients(device, number):  # noqa: F811
    """Called and under jit, with and without the sums of columns, which change no bits."""
    kind, dtype = KINDS[number], dtypes(device)[number % len(dtypes(device))]
    given, scales, how = drawn(number, dtype, kind)
    product = lambda given, scales: weft.matmul(**given, **scales, **how, column_sums=True)  # noqa: E731
    with x64():
        wide, wide_scales = jax.tree.map(exact, given), jax.tree.map(exact, scales)
        options = {name: x for name, x in how.items() if name != "fp32"}
        expected = plain(**wide, **wide_scales, **options)
        weights = [np.random.default_rng(i).standard_normal(x.shape) for i, x in enumerate(expected)]
        loss = lambda given: sum((x * y).sum() for x, y in zip(plain(**given, **wide_scales, **options), weights))  # noqa: E731
        slopes = {name: np.asarray(x) for name, x in jax.grad(loss)(wide).items()}
        expected = [np.asarray(x) for x in expected]

    def differentiated(given, scales):
        made, pull = jax.vjp(lambda given: product(given, scales), given)
        return made, pull(tuple(jnp.asarray(x, like.dtype) for x, like in zip(weights, made)))[0]

    made = product(given, scales)
    np.testing.assert_array_equal(np.asarray(weft.matmul(**given, **scales, **how), "f"), np.asarray(made[0], "f"))
    made_again, found = jax.jit(differentiated)(given, scales)
    for c, sums in (made, jax.jit(product)(given, scales), made_again):
        assert c.dtype == ("float32" if how["fp32"] else dtype) and sums.dtype == "float32" and c.devices() == {device}
        assert_close(c, expected[0], dtype)
        np.testing.assert_allclose(np.asarray(sums, "d") / len(c), expected[1] / len(c), atol=1e-5 if dtype == "float32" else 1e-2)
    for name, slope in slopes.items():
        assert found[name].dtype == given[name].dtype and found[name].shape == given[name].shape
        most = max(1, np.abs(slope).max())
        assert_close(np.asarray(found[name], "d") / most, slope / most, dtype)


@pytest.mark.parametrize("kind", [dict(), dict(activation="gelu"), dict(gate="silu")], ids=["plain", "gelu", "gated silu"])
def test_second_derivatives_on_cpu(kind):
    a, b, bias, residual = arrays("float32", (5, 4), (4, 6), (6,), (5, 3 if "gate" in kind else 6))
    product = jax.jit(lambda a, b, bias, residual: weft.matmul(a, b, bias=bias, residual=residual, scale=0.5, column_sums=True, **kind))
    jax.test_util.check_grads(product, (a, b, bias, residual), 2, modes=["rev"], eps=1e-2, atol=2e-2, rtol=2e-2)


def test_one_gradient_alone_on_cpu():
    """Of the result or of the sums of its columns, with respect to one array: products for the others are left out."""
    a, b, bias = arrays("float32", (9, 5), (5, 8), (8,))
    loss = lambda i: lambda *x: weft.matmul(*x[:2], bias=x[2], activation="relu", column_sums=True)[i].sum()  # noqa: E731
    for argument, calls in ((0, 2), (1, 2), (2, 1)):
        text = str(jax.make_jaxpr(jax.grad(loss(0), argnums=argument))(a, b, bias))
        assert text.count("weft_gemm") == calls
        np.testing.assert_allclose(*(jax.grad(loss(i), argnums=argument)(a, b, bias) for i in range(2)), rtol=1e-6)


def test_vmap(device):  # noqa: F811
    dtype = dtypes(device)[0]
    a, b, bias = arrays(dtype, (3, 10, 8), (8, 16), (16,))
    mapped = jax.vmap(lambda a: weft.matmul(a, b, bias=bias, gate="silu"))
    expected = np.stack([plain(*(jnp.asarray(x, "float32") for x in (x, b)), gate="silu", bias=bias.astype("float32"))[0] for x in a])
    for run in (mapped, jax.jit(mapped)):
        assert_close(run(a), expected, dtype)
    grads = jax.vmap(jax.grad(lambda a: weft.matmul(a, b, bias=bias, gate="silu").astype("float32").sum()))(a)
    alone = [jax.grad(lambda a: weft.matmul(a, b, bias=bias, gate="silu").astype("float32").sum())(x) for x in a]
    np.testing.assert_array_equal(np.asarray(grads, "f"), np.stack([np.asarray(x, "f") for x in alone]))


def test_linear(device):  # noqa: F811
    """Weights are taken as they are, and so are those of the backward pass: nothing is transposed in memory."""
    for dtype in dtypes(device):
        x, weight, bias, residual = arrays(dtype, (2, 3, 8), (10, 8), (10,), (2, 3, 5))
        layer = lambda x, weight: weft.linear(x, weight, bias, gate="silu", residual=residual)  # noqa: E731
        z = np.asarray(x, "d") @ np.asarray(weight, "d").T + np.asarray(bias, "d")
        expected = z[..., :5] / (1 + np.exp(-z[..., :5])) * z[..., 5:] + np.asarray(residual, "d")
        for run in (layer, jax.jit(layer)):
            assert_close(run(x, weight), expected, dtype)
        grad = jax.grad(lambda x, weight: layer(x, weight).astype("float32").sum(), argnums=(0, 1))
        assert "transpose" not in str(jax.make_jaxpr(grad)(x, weight))
        assert [y.shape for y in grad(x, weight)] == [x.shape, weight.shape]
    assert weft.linear(x[0, 0], weight).shape == (10,)


def test_a_layer_trains_on_cpu():
    """The loss of a small network falls as it does with JAX's own products."""
    x, w1, w2, target = arrays("float32", (64, 16), (64, 16), (4, 32), (64, 4))

    def trained(linear):
        loss = jax.jit(jax.value_and_grad(lambda w: ((linear(linear(x, w[0], gate="gelu"), w[1]) - target) ** 2).mean()))
        weights, losses = [w1 / 4, w2 / 6], []
        for _ in range(10):
            value, grads = loss(weights)
            losses.append(float(value))
            weights = [w - 0.3 * g for w, g in zip(weights, grads)]
        return losses

    mine = trained(weft.linear)
    np.testing.assert_allclose(mine, trained(lambda x, w, **how: plain(x, w, transpose_b=True, **how)[0]), rtol=1e-4)
    assert mine[-1] < 0.9 * mine[0]


def test_refused(device):  # noqa: F811
    (a,) = arrays(dtypes(device)[0], (4, 4))
    ones = jnp.ones(4, "float32")
    for name in ("scale", "row_scale", "column_scale"):
        factor = ones[:1] if name == "scale" else ones
        loss = lambda x: weft.matmul(a, a, **{name: x}).astype("float32").sum()  # noqa: B023, E731
        with pytest.raises(weft.Unsupported, match="scales of a product have no gradient: take jax.lax.stop_gradient"):
            jax.jit(jax.grad(loss))(factor)
        assert (jax.grad(lambda x: loss(jax.lax.stop_gradient(x)))(factor) == 0).all()  # noqa: B023
    for run in (lambda **x: weft.matmul(a, a, **x), lambda **x: jax.jit(lambda y: weft.matmul(a, a, **y))(x)):
        with pytest.raises(weft.Invalid, match=r"bias is \(3,\)"):
            run(bias=ones[:3])
        with pytest.raises(weft.Invalid, match="residual is fp32 and a is|residual is fp16 and a is"):
            run(residual=a.astype("float16" if a.dtype == "float32" else "float32"))
        with pytest.raises(weft.Invalid, match="row_scale is .*, not fp32"):
            run(row_scale=ones.astype("float16"))
    with pytest.raises(weft.Invalid, match="3 columns, and a gate needs two halves"):
        weft.matmul(a, a[:, :3], gate="silu")
    with pytest.raises(weft.Invalid, match="a has 3 dimensions, not 2"):
        jax.jit(weft.matmul)(a[None], a)
    with pytest.raises(TypeError, match="a is an array of JAX and bias one of NumPy"):
        weft.matmul(a, a, bias=np.ones(4, "f"))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda a: weft.matmul(a, a), (a,), (a,))


def grouped(a, b, bounds, masked, alpha=1.0):
    """The groups one by one, as JAX differentiates them; 0 in rows of no group."""
    c = jnp.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    for g, count in enumerate(bounds if masked else bounds[1:]):
        here = (g, slice(0, count)) if masked else slice(bounds[g], count)
        c = c.at[here].set(alpha * jnp.matmul(a[here], b[g], precision="highest"))
    return c


# Rows of groups, and rows in all, or of each group: empty groups, rows of no group, blocks of 128 rows that are filled or not.
GROUPS = {
    "few": ([2, 5, 5, 11], 14, False), "one": ([0, 3], 3, False), "none": ([4, 4, 4], 9, False), "many": ([0, 1, 300, 300, 428, 700], 701, False),
    "masked": ([3, 0, 9], 9, True), "masked, many": ([256, 1, 300], 300, True),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_groups_and_their_gradients(device, name):  # noqa: F811
    """Bounds are arrays, traced or not, or a list; rows of no group, which hold NaN here, are 0."""
    bounds, rows, masked = GROUPS[name]
    number, groups, keyword = list(GROUPS).index(name), len(bounds) - (not masked), "counts" if masked else "starts"
    dtype, transpose_b = dtypes(device)[number % len(dtypes(device))], number % 4 > 1
    a, b = arrays(dtype, (groups, rows, 24) if masked else (rows, 24), (groups, 24, 16))
    stored, array = b.swapaxes(1, 2) if transpose_b else b, jnp.asarray(bounds, "int32")
    row = np.arange(rows)
    counts = row < np.array(bounds)[:, None] if masked else (row >= bounds[0]) & (row < bounds[-1])
    dirty = jnp.where(counts[..., None], a, jnp.nan)
    with x64():
        weight = np.random.default_rng(9).standard_normal((*a.shape[:-1], 16))
        expected = np.asarray(grouped(exact(a), exact(b), bounds, masked, -0.5))
        slopes = jax.grad(lambda x: (grouped(*x, bounds, masked, -0.5) * weight).sum())((exact(a), exact(b)))
        slopes = [np.asarray(x) for x in slopes]
    weight = jnp.asarray(weight, "float32")
    product = lambda a, b, bounds: weft.grouped_matmul(a, b, **{keyword: bounds}, alpha=-0.5, transpose_b=transpose_b)  # noqa: E731
    for run in (product, jax.jit(product), lambda a, b, _: jax.jit(lambda a, b: product(a, b, bounds))(a, b)):
        c = run(dirty, stored, array)
        assert c.dtype == dtype and c.devices() == {device}
        assert_close(c, expected, dtype)
        assert (np.asarray(c, "f")[~counts] == 0).all()
    loss = lambda a, b, bounds: (product(a, b, bounds).astype("float32") * weight).sum()  # noqa: E731
    for run in (jax.jit(jax.grad(loss, (0, 1))), lambda a, b, _: jax.grad(loss, (0, 1))(a, b, bounds)):
        found = run(dirty, stored, array)
        found = found[0], found[1].swapaxes(1, 2) if transpose_b else found[1]
        for mine, slope in zip(found, slopes):
            most = max(1, np.abs(slope).max())
            assert mine.dtype == dtype
            assert_close(np.asarray(mine, "d") / most, slope / most, dtype)


@pytest.mark.parametrize("masked", [False, True], ids=["starts", "counts"])
def test_second_derivatives_of_groups_on_cpu(masked):
    bounds, rows, _ = GROUPS["masked" if masked else "few"]
    a, b = arrays("float32", (3, rows, 4) if masked else (rows, 4), (3, 5, 4))
    product = jax.jit(lambda a, b: weft.grouped_matmul(a, b, **{"counts" if masked else "starts": bounds}, alpha=0.5, transpose_b=True))
    jax.test_util.check_grads(product, (a, b), 2, modes=["rev"], eps=1e-2, atol=2e-2, rtol=2e-2)


def test_one_program_fits_all_bounds(device):  # noqa: F811
    """As experts are chosen: the same compiled step with other bounds."""
    dtype = dtypes(device)[0]
    a, b = arrays(dtype, (40, 16), (4, 24, 16))
    made = []
    step = jax.jit(lambda starts: made.append(0) or weft.grouped_matmul(a, b, starts=starts, transpose_b=True))
    for bounds in ([0, 10, 20, 30, 40], [0, 0, 40, 40, 40], [3, 7, 7, 8, 39]):
        assert_close(step(jnp.asarray(bounds, "int32")), grouped(a.astype("float32"), b.astype("float32").swapaxes(1, 2), bounds, False), dtype)
    assert len(made) == 1


def test_groups_are_mapped_on_cpu():
    a, b = arrays("float32", (2, 9, 8), (3, 8, 5))
    starts = jnp.asarray([[0, 4, 4, 9], [1, 2, 6, 7]], "int32")
    mapped = jax.vmap(lambda a, starts: weft.grouped_matmul(a, b, starts=starts))
    for run in (mapped, jax.jit(mapped)):
        assert_close(run(a, starts), np.stack([grouped(x, b, list(map(int, y)), False) for x, y in zip(a, starts)]), "float32")


def test_groups_that_are_refused_on_cpu():
    a, b = arrays("float32", (5, 4), (2, 4, 3))
    wrong = jnp.asarray([0, 3, 2], "int32")
    for bounds in (wrong, [0, 3, 2]):
        with pytest.raises(weft.Invalid, match=r"starts\[2\] 2 is not between 3 and 5"):
            weft.grouped_matmul(a, b, starts=bounds)
    with pytest.raises(weft.Invalid, match=r"starts\[2\] 2 is not between 3 and 5"):
        jax.jit(lambda a: weft.grouped_matmul(a, b, starts=[0, 3, 2]))(a)
    with pytest.raises(Exception, match=r"starts\[2\] 2 is not between 3 and 5"):  # XLA's own, with weft's message
        jax.jit(lambda starts: weft.grouped_matmul(a, b, starts=starts))(wrong).block_until_ready()
    for run in (weft.grouped_matmul, jax.jit(weft.grouped_matmul)):
        with pytest.raises(weft.Invalid, match=r"starts is \(2,\), not \(3,\)"):
            run(a, b, starts=wrong[:2])
        with pytest.raises(weft.Invalid, match="starts has dtype float32, not int32"):
            run(a, b, starts=wrong.astype("float32"))
        with pytest.raises(weft.Invalid, match="b has 2 dimensions, not 3"):
            run(a, b[0], starts=wrong)
        with pytest.raises(weft.Unsupported, match="no out for JAX arrays, which cannot be written to"):
            run(a, b, starts=wrong, out=a)


class TestWithoutTheInterface:
    """An old JAX: values go through DLPack, traced arrays through a callback, both on the CPU."""

    @pytest.fixture(autouse=True)
    def old(self, monkeypatch):
        monkeypatch.setattr(weft.xla, "why_no_ffi", lambda: "it is old")
        with jax.default_device(jax.devices("cpu")[0]):
            yield

    def test_values(self):
        a, b, bias = arrays("float32", (6, 8), (10, 8), (10,))
        c = weft.linear(a, b, bias, gate="silu")
        assert isinstance(c, jax.Array)
        assert_close(c, plain(a, b, gate="silu", bias=bias, transpose_b=True)[0], "float32")
        c = weft.grouped_matmul(a, b[None], starts=jnp.asarray([0, 6], "int32"), transpose_b=True)
        assert_close(c, a @ b.T, "float32")

    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="JAX has a GPU here")
    def test_traced(self):
        a, b, bias = arrays("float32", (6, 8), (10, 8), (10,))
        loss = lambda layer: lambda a, b: (layer(a, b) ** 2).sum()  # noqa: E731
        mine = lambda a, b: weft.linear(a, b, bias, gate="gelu")  # noqa: E731
        theirs = lambda a, b: plain(a, b, gate="gelu", bias=bias, transpose_b=True)[0]  # noqa: E731
        assert_close(jax.jit(mine)(a, b), theirs(a, b), "float32")
        for x, y in zip(jax.jit(jax.grad(loss(mine), (0, 1)))(a, b), jax.grad(loss(theirs), (0, 1))(a, b)):
            assert_close(x, y, "float32")
        starts = [0, 2, 5]
        mine = jax.jit(jax.grad(lambda a, b, starts: (weft.grouped_matmul(a, b, starts=starts) ** 2).sum(), (0, 1)))
        theirs = jax.grad(lambda a, b: (grouped(a, b, starts, False) ** 2).sum(), (0, 1))
        b = jnp.stack([b.T, 2 * b.T])
        for x, y in zip(mine(a, b, jnp.asarray(starts, "int32")), theirs(a, b)):
            assert_close(x, y, "float32")
