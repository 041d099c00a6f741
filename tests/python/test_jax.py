# SPDX-License-Identifier: Apache-2.0
"""weft on JAX arrays and weft.jax: on the CPU, and on a GPU where JAX has one."""

import numpy as np
import pytest
import weft
from jax_arrays import arrays, device, devices, dtypes, jax, jnp, x64  # noqa: F401
from oracle import assert_close, attention, seen, sequences

import weft.jax  # noqa: E402


def test_the_interface_of_xla_is_taken():
    assert hasattr(jax, "ffi") and weft.xla.why_no_ffi() is None


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_attention(device, layout):
    for dtype in dtypes(device):
        shapes = [(2, 19, 4, 64), (2, 30, 2, 64), (2, 30, 2, 64)]
        q, k, v = arrays(dtype, *([shape if layout == "bshd" else (shape[0], shape[2], shape[1], shape[3]) for shape in shapes]))
        options = dict(causal=True, layout=layout, return_lse=True)
        expected = attention(q, k, v, causal=True, layout=layout)
        jitted = jax.jit(lambda *x: weft.attention(*x, **options))
        for found in (weft.attention(q, k, v, **options), weft.jax.attention(q, k, v, **options), jitted(q, k, v)):
            assert isinstance(found[0], jax.Array) and found[0].dtype == q.dtype and found[0].devices() == {device}
            assert_close(found[0], expected[0], dtype)
            assert_close(found[1], expected[1], dtype)


def test_options(device):
    q, k, v = arrays("bfloat16", (1, 40, 2, 64), (1, 70, 2, 64), (1, 70, 2, 64))
    for options in (dict(scale=0.3), dict(causal=True, offset=-3), dict(causal=True, offset=7), dict(causal=np.True_, offset=np.int32(4))):
        found = jax.jit(lambda *x: weft.attention(*x, **options))(q, k, v)
        assert_close(found, attention(q, k, v, **options)[0], "bfloat16")
        np.testing.assert_array_equal(np.asarray(weft.attention(q, k, v, **options), "f"), np.asarray(found, "f"))
    found = weft.attention(q, k, v, schedule={"sweep": "sawtooth", "dispatch": "dynamic"})
    assert_close(found, attention(q, k, v)[0], "bfloat16")


def test_inside_a_larger_function_and_vmap(device):
    dtype = dtypes(device)[0]
    q, k = arrays(dtype, (3, 1, 8, 2, 64), (3, 1, 9, 2, 64))
    inside = jax.jit(lambda q, k: jnp.tanh(weft.jax.attention(q + 1, k, k)) * 2)
    assert_close(inside(q[0], k[0]), 2 * np.tanh(attention(q[0] + 1, k[0], k[0])[0]), dtype)
    mapped = jax.vmap(lambda q, k: weft.jax.attention(q, k, k))
    for found in (mapped(q, k), jax.jit(mapped)(q, k)):
        assert_close(found, np.stack([attention(x, y, y)[0] for x, y in zip(q, k)]), dtype)


def test_work_before_and_after_is_in_order(device):
    """Each step needs the one before it, and no value is waited for in between."""
    (q,) = arrays("bfloat16", (1, 256, 4, 64))
    many = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: weft.attention(y * 2, y, y), x))
    found, steps = many(q), [q]
    for _ in range(20):
        steps.append(weft.attention(steps[-1] * 2, steps[-1], steps[-1]))
    np.testing.assert_array_equal(np.asarray(found, "f"), np.asarray(steps[-1], "f"))
    for before, after in zip(steps, steps[1:]):
        assert_close(after, attention(before * 2, before, before)[0], "bfloat16")


def test_matmul(device):
    for dtype in dtypes(device):
        a, b = arrays(dtype, (40, 72), (72, 24))
        found = [weft.matmul(a, b), jax.jit(weft.jax.matmul)(a, b), jax.jit(weft.matmul)(a, b)]
        for c in (*found, jax.jit(lambda b: weft.matmul(a, b))(b), jax.jit(lambda a, b: weft.matmul(a, b.T))(a, b.T)):
            assert isinstance(c, jax.Array) and c.dtype == a.dtype and c.devices() == {device}
            assert_close(c, np.asarray(a, "d") @ np.asarray(b, "d"), dtype)


def test_a_compiled_program_can_be_stored():
    """A call carries its problem by value, so that what was serialized runs anywhere."""
    pytest.importorskip("flatbuffers", reason="JAX stores programs with flatbuffers, which is not importable here")
    from jax import export

    with jax.default_device(jax.devices("cpu")[0]):
        (q,) = arrays("float32", (1, 12, 2, 16))
        function = jax.jit(lambda q: weft.attention(q, q, q, causal=True))
        allowed = [export.DisabledSafetyCheck.custom_call("weft_attention")]
        stored = export.export(function, disabled_checks=allowed, platforms=["cpu"])(q).serialize()
        np.testing.assert_array_equal(export.deserialize(stored).call(q), function(q))


def test_refused(device):
    (q,) = arrays(dtypes(device)[0], (1, 4, 2, 64))
    with pytest.raises(TypeError, match="q is an array of JAX and k one of NumPy"):
        weft.attention(q, np.asarray(q), q)
    for run in (weft.attention, jax.jit(weft.attention)):
        with pytest.raises(weft.Invalid, match="q has 3 dimensions"):
            run(q[0], q[0], q[0])
        with pytest.raises(weft.Invalid, match="q is .* and k is .*: batch and head_dim must be alike"):
            run(q, q[..., :12], q)
        with pytest.raises(weft.Invalid, match="q has dtype int32"):
            run(*[q.astype("int32")] * 3)
        with pytest.raises(weft.Invalid, match="v is bf16 and q is"):
            run(q, q, q.astype("bfloat16"))
    with pytest.raises(weft.Invalid, match="kv_heads 2 does not divide heads 1"):
        weft.attention(q[:, :, :1], q, q)
    with pytest.raises(weft.Invalid, match="a's columns must be b's rows"):
        weft.matmul(q[0, 0], q[0, 0])
    many = {"tile": (1 << 20, 64)}
    with pytest.raises(weft.Error, match="tile"):
        weft.attention(q, q, q, schedule=many)
    with pytest.raises(Exception, match="tile"):  # XLA's own, with weft's message
        jax.jit(lambda q: weft.attention(q, q, q, schedule=many))(q).block_until_ready()


FEATURES = {
    "window": dict(window=(3, 1)), "chunk": dict(chunk=5, causal=True), "prefix": dict(prefix=4, causal=True), "softcap": dict(softcap=2.0),
    "sinks": dict(sinks=[0.5, 0, -1, 2]), "alibi": dict(alibi=[0.1, 0.2, 0.3, 0.4]), "bias": dict(bias=[[0.5] * 6 + [-1.0] * 6]),
    "bool bias": dict(bias=[[True] * 7 + [False] * 5]), "used": dict(kv_used=[7, 12], q_used=[10, 3]), "pad": dict(kv_pad=[2, 0]),
    "dropout": dict(dropout=0.3, seed=2**64 - 7), "bias, sinks, dropout": dict(bias=[[0.5] * 6 + [-1.0] * 6], sinks=[0.5, 0, -1, 2], dropout=0.3),
}  # fmt: skip
DTYPES = dict.fromkeys(("sinks", "alibi"), "float32") | dict.fromkeys(("kv_used", "q_used", "kv_pad", "q_starts"), "int32")


def arrayed(options):
    """Lists as arrays of JAX, but for window."""
    return {name: jnp.asarray(x, DTYPES.get(name)) if isinstance(x, list) else x for name, x in options.items()}


@pytest.mark.parametrize("name", FEATURES)
def test_features_on_cpu(name):
    """Called, under jit with traced arrays, and their gradients, against differences of fp64."""
    q, k, v, weight = arrays("float32", (2, 10, 4, 8), (2, 12, 2, 8), (2, 12, 2, 5), (2, 10, 4, 5))
    options = arrayed(FEATURES[name])
    traced = {x: y for x, y in options.items() if isinstance(y, jax.Array)}
    static = {x: y for x, y in options.items() if x not in traced}
    plain = {x: np.asarray(y) if x in traced else y for x, y in options.items()}
    expected = attention(q, k, v, return_max=True, **plain)
    jitted = jax.jit(lambda q, k, v, traced: weft.attention(q, k, v, **static, **traced, return_lse=True, return_max=True))
    for found in (weft.attention(q, k, v, **options, return_lse=True, return_max=True), jitted(q, k, v, traced)):
        for mine, theirs in zip(found, expected):
            assert_close(mine, theirs, "float32")

    beside = [x for x, y in traced.items() if x in ("sinks", "bias") and y.dtype != bool]

    def loss(q, k, v, *arrays):
        return (weft.attention(q, k, v, **{**options, **dict(zip(beside, arrays))}) * weight).sum()

    given = [q, k, v, *(options[x] for x in beside)]
    grads = jax.jit(jax.grad(loss, argnums=tuple(range(len(given)))))(*given)
    rng = np.random.default_rng(1)
    for i, grad in enumerate(grads):
        for _ in range(4):
            place, sums = tuple(map(rng.integers, grad.shape)), []
            for step in (1e-4, -1e-4):
                moved = [np.asarray(x, np.float64).copy() for x in given]
                moved[i][place] += step
                others = {**plain, **dict(zip(beside, moved[3:]))}
                sums.append((attention(*moved[:3], **others)[0] * np.asarray(weight)).sum())
            assert abs(grad[place] - (sums[0] - sums[1]) / 2e-4) < 1e-3


@pytest.mark.skipif(len(devices()) < 2, reason="JAX has no GPU here")
@pytest.mark.parametrize("name", FEATURES)
def test_gradients_on_a_gpu(name):
    """Under jit, beside those of the CPU in fp32 from the same numbers."""
    found = []
    for place, dtype in zip(devices(), ("float32", "bfloat16")):
        with jax.default_device(place):
            q, k, v, weight = (x.astype("bfloat16").astype(dtype) for x in
                               arrays("float32", (2, 70, 4, 64), (2, 90, 2, 64), (2, 90, 2, 64), (2, 70, 4, 64)))  # fmt: skip
            given = dict(q=q, k=k, v=v)
            options = arrayed(FEATURES[name])
            bias = options.pop("bias", None)
            if bias is not None:  # of this shape
                bias = jnp.resize(bias, (4, 1, 90))
                options.update(bias=bias) if bias.dtype == bool else given.update(bias=bias.astype(dtype))
            loss = lambda given: (weft.attention(**given, **options) * weight).sum().astype("float32")  # noqa: E731
            found.append({x: np.asarray(y, "f") for x, y in jax.jit(jax.grad(loss))(given).items()})
    for x, right in found[0].items():
        assert np.abs(found[1][x] - right).max() <= 2**-5 * max(np.abs(right).max(), 1)


def test_packed_batches_on_cpu():
    q, k, v = arrays("float32", (11, 4, 8), (17, 2, 8), (17, 2, 8))
    starts = dict(q_starts=[0, 6, 11], kv_starts=[0, 4, 17])
    expected = attention(*(np.asarray(x)[None] for x in (q, k, v)), causal=True, **starts)[0][0]
    for given in (starts, {name: jnp.asarray(x, "int32") for name, x in starts.items()}, dict(lengths=[6, 5], kv_lengths=(4, 13))):
        assert_close(weft.attention(q, k, v, causal=True, **given), expected, "float32")
        assert_close(jax.jit(lambda *x: weft.attention(*x, causal=True, **given))(q, k, v), expected, "float32")


def test_queries_for_the_values_on_cpu():
    q, k, v, qv = arrays("float32", (2, 6, 4, 8), (2, 9, 2, 8), (2, 9, 2, 5), (2, 6, 4, 5))
    expected = attention(q, k, v, causal=True, qv=qv)[0]
    for run in (weft.attention, jax.jit(weft.attention, static_argnames="causal")):
        assert_close(run(q, k, v, qv=qv, causal=True), expected, "float32")
    with pytest.raises(weft.Unsupported, match="an attention with qv has no gradient"):
        jax.grad(lambda q: weft.attention(q, k, v, qv=qv).sum())(q)


def test_gradients_that_are_not_there_on_cpu():
    (q,) = arrays("float32", (1, 6, 2, 8))
    slopes = jnp.ones(2, "float32")
    with pytest.raises(weft.Unsupported, match="JAX has no gradient of alibi"):
        jax.grad(lambda alibi: weft.attention(q, q, q, alibi=alibi).sum())(slopes)
    with pytest.raises(weft.Unsupported, match="gradient of lse"):
        jax.grad(lambda q: weft.attention(q, q, q, return_lse=True)[1].sum())(q)
    assert jax.grad(lambda q: weft.attention(q, q, q, alibi=slopes, return_lse=True)[0].sum())(q).shape == q.shape


def plain_formula(q, k, v, bias, sinks, seen, alibi=None, softcap=None, scale=None):
    """Attention (batch, seq, heads, head_dim) as JAX differentiates it; seen is (batch, 1, seq, kv_seq)."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * jnp.tanh(scores / softcap)
    scores = scores + bias
    if alibi is not None:
        at = jnp.arange(scores.shape[2])[:, None] + scores.shape[3] - scores.shape[2]
        scores -= alibi[:, None, None] * abs(at - jnp.arange(scores.shape[3]))
    weights = jnp.where(seen, jnp.exp(jnp.where(seen, scores, 0)), 0)
    sums = weights.sum(3, keepdims=True) + (0 if sinks is None else jnp.exp(sinks)[:, None, None])
    return jnp.einsum("bhqk,bkhd->bqhd", weights / jnp.where(sums > 0, sums, 1), v)


def drawn_problem(rng, dtype):
    """Arguments of weft.attention() with a bias, those that JAX differentiates apart, and which keys each query sees: ragged, grouped."""
    batch, kv_heads, group, seq, kv_seq = (int(rng.integers(1, n)) for n in (4, 3, 4, 40, 50))
    heads, dim, dim_v = kv_heads * group, int(rng.integers(1, 40)), int(rng.integers(1, 40))
    shape = [n if rng.random() < 0.6 else 1 for n in (batch, heads, seq)] + [kv_seq if rng.random() < 0.8 or seq == 1 else 1]
    if max(shape) == 1:  # weft refuses a single number
        shape[3] = kv_seq
    while shape[0] == 1 and len(shape) > 1 and rng.random() < 0.5:
        shape = shape[1:]
    shapes = dict(q=(batch, seq, heads, dim), k=(batch, kv_seq, kv_heads, dim), v=(batch, kv_seq, kv_heads, dim_v), bias=tuple(shape))
    if rng.random() < 0.3:
        shapes["sinks"] = (heads,)
    given = {name: rng.standard_normal(x).astype("f") for name, x in shapes.items()}
    options = {"causal": bool(rng.integers(2))}
    if rng.random() < 0.3:
        options["window"] = (int(rng.integers(0, kv_seq)), -1 if options["causal"] else int(rng.integers(-1, kv_seq)))
    scores = {}
    if rng.random() < 0.3:
        scores["softcap"] = float(rng.uniform(0.5, 5))
    if rng.random() < 0.3:
        scores["alibi"] = rng.random(heads).astype("f")
    lengths = {"kv_used": rng.integers(0, kv_seq + 1, batch).astype("int32")} if rng.random() < 0.3 else {}
    mask = np.zeros((batch, 1, seq, kv_seq), bool)
    for i, rows, keys in sequences(batch, seq, kv_seq, **lengths):
        mask[i, 0, rows, keys] = seen(rows.stop - rows.start, keys.stop - keys.start, **options)[0]
    if lengths:  # positions count from the last key that is used, which the formula does not know
        scores.pop("alibi", None)
    narrow = {name: jnp.asarray(x, "float32" if name == "sinks" or (name == "bias" and rng.random() < 0.5) else dtype)
              for name, x in given.items()}  # fmt: skip
    return narrow, options, scores, lengths, mask


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(12))
def test_gradient_of_a_bias_on_cpu(seed, dtype):
    """Under jit, beside JAX's own derivative of the plain formula in fp64: a bias that repeats itself gets the sum, in its dtype."""
    given, options, scores, lengths, mask = drawn_problem(np.random.default_rng(seed), dtype)
    out = (*given["q"].shape[:3], given["v"].shape[3])
    (weight,) = arrays(dtype, out)
    traced = {name: jnp.asarray(x) for name, x in (scores | lengths).items() if isinstance(x, np.ndarray)}
    static = {name: x for name, x in (options | scores).items() if name not in traced}

    def loss(given, traced):
        return (weft.attention(**given, **traced, **static) * weight).astype("float32").sum()

    found = jax.jit(jax.grad(loss))(given, traced)
    with x64():
        exact = {name: jnp.asarray(np.asarray(x, "d")) for name, x in given.items()}
        plain = {name: np.asarray(x, "d") if isinstance(x, np.ndarray) else x for name, x in scores.items()}
        weights = np.asarray(weight, "d")
        plain_loss = lambda x: (plain_formula(**{"sinks": None, **x}, seen=mask, **plain) * weights).sum()  # noqa: E731
        expected = {name: np.asarray(x) for name, x in jax.grad(plain_loss)(exact).items()}
        whole = jnp.broadcast_to(exact["bias"], (mask.shape[0], given["q"].shape[2], *mask.shape[2:]))
        terms = float(weft.jax._sum_to(abs(jax.grad(plain_loss)({**exact, "bias": whole})["bias"]), exact["bias"]).max())
    assert expected["bias"].dtype == "float64" and set(found) == set(expected)
    for name, grad in found.items():
        assert grad.dtype == given[name].dtype and grad.shape == given[name].shape
        most = max(1, terms) if name == "bias" else 1  # its terms may cancel: they do over the keys of a query without sinks
        assert_close(np.asarray(grad, "d") / most, expected[name] / most, dtype)


def test_gradient_of_a_bias_alone_on_cpu():
    """Called without jit, mapped, and with heads before queries, beside differences of fp64."""
    q, k, bias = arrays("float32", (2, 4, 9, 8), (2, 2, 13, 8), (3, 4, 1, 13))
    one = lambda bias: jnp.tanh(weft.attention(q, k, k, bias=bias * 2, layout="bhsd", causal=True)).sum()  # noqa: E731
    loose = [jax.grad(one)(x) for x in bias]
    for run in (jax.vmap(jax.grad(one)), jax.jit(jax.vmap(jax.grad(one)))):
        assert_close(run(bias), np.stack(loose), "float32")
    value, grads = jax.value_and_grad(one)(bias[0])
    np.testing.assert_array_equal(grads, loose[0])
    rng = np.random.default_rng(2)
    for _ in range(4):
        place, sums = tuple(map(rng.integers, bias[0].shape)), []
        for step in (1e-4, -1e-4):
            moved = np.asarray(bias[0], "d")
            moved[place] += step
            sums.append(np.tanh(attention(q, k, k, bias=moved * 2, layout="bhsd", causal=True)[0]).sum())
        assert abs(grads[place] - (sums[0] - sums[1]) / 2e-4) < 1e-3
    assert abs(value - np.tanh(attention(q, k, k, bias=bias[0] * 2, layout="bhsd", causal=True)[0]).sum()) < 1e-4


def test_a_bias_that_is_not_differentiated_on_cpu():
    """Its gradient is as large as all scores, so it is asked for only where it is wanted."""
    q, bias = arrays("float32", (1, 6, 2, 8), (6, 6))
    whole = "f32[1,2,6,6]"
    of_q = jax.make_jaxpr(jax.grad(lambda q, bias: weft.attention(q, q, q, bias=bias).sum()))(q, bias)
    of_bias = jax.make_jaxpr(jax.grad(lambda q, bias: weft.attention(q, q, q, bias=bias).sum(), argnums=1))(q, bias)
    assert whole not in str(of_q) and whole in str(of_bias)
    stopped = jax.grad(lambda bias: weft.attention(q, q, q, bias=jax.lax.stop_gradient(bias)).sum())(bias)
    np.testing.assert_array_equal(stopped, np.zeros((6, 6), "f"))
    hidden = jax.grad(lambda q: weft.attention(q, q, q, bias=bias > 0).sum())(q)
    assert hidden.shape == q.shape


def test_biases_that_are_refused_on_cpu():
    q, bias = arrays("float32", (1, 6, 2, 8), (6, 6))
    loss = lambda bias: weft.attention(q, q, q, bias=bias).sum()  # noqa: E731
    for run in (jax.grad(loss), jax.jit(jax.grad(loss))):
        with pytest.raises(weft.Invalid, match="bias is .* does not broadcast to"):
            run(bias[:5])
        with pytest.raises(weft.Invalid, match="bias is fp16, not fp32, fp32 or bool"):
            run(bias.astype("float16"))
        with pytest.raises(weft.Invalid, match="bias is one value for all scores"):
            run(bias[:1, :1])
    with pytest.raises(TypeError, match="q is an array of JAX and bias one of NumPy"):
        weft.attention(q, q, q, bias=np.asarray(bias))
    with pytest.raises(Exception, match="cannot be differentiated"):
        jax.grad(lambda bias: jax.grad(loss)(bias).sum())(bias)


@pytest.mark.skipif(len(devices()) < 2, reason="JAX has no GPU here")
def test_devices():
    cpu, gpu = devices()
    on_cpu, on_gpu = (jax.device_put(np.zeros((1, 4, 2, 64), "e"), device) for device in (cpu, gpu))
    with pytest.raises(weft.Invalid, match="k and q are on different devices"):
        weft.attention(on_gpu, on_cpu, on_gpu)
    with pytest.raises(weft.Unsupported, match="dtype fp32"):
        weft.attention(*[on_gpu.astype("float32")] * 3)
    with pytest.raises(Exception, match="dtype fp32"):
        jax.jit(lambda x: weft.attention(x, x, x))(on_gpu.astype("float32")).block_until_ready()


class TestWithoutTheInterface:
    """An old JAX: values go through DLPack, traced arrays through a callback, both on the CPU."""

    @pytest.fixture(autouse=True)
    def old(self, monkeypatch):
        monkeypatch.setattr(weft.xla, "why_no_ffi", lambda: "it is old")
        with jax.default_device(jax.devices("cpu")[0]):
            yield

    def test_values(self):
        q, k = arrays("float32", (2, 9, 4, 24), (2, 13, 2, 24))
        o, lse = weft.attention(q, k, k, return_lse=True)
        for found, expected in zip((o, lse, weft.matmul(q[0, 0], k[0, 0].T)), (*attention(q, k, k), q[0, 0] @ k[0, 0].T)):
            assert isinstance(found, jax.Array)
            assert_close(found, expected, "float32")

    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="JAX has a GPU here")
    def test_traced(self):
        q, k = arrays("float32", (3, 1, 8, 2, 16), (3, 1, 9, 2, 16))
        o, lse = jax.jit(lambda q, k: weft.attention(q, k, k, return_lse=True))(q[0], k[0])
        for found, expected in zip((o, lse), attention(q[0], k[0], k[0])):
            assert_close(found, expected, "float32")
        found = jax.vmap(lambda q, k: weft.jax.attention(q, k, k))(q, k)
        assert_close(found, np.stack([attention(x, y, y)[0] for x, y in zip(q, k)]), "float32")
        a, b = q[0, 0, 0], k[0, 0, 0].T
        assert_close(jax.jit(weft.matmul)(a, b), a @ b, "float32")

    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="JAX has a GPU here")
    def test_gradients(self, monkeypatch):
        q, k, sinks = arrays("float32", (1, 8, 4, 16), (1, 9, 2, 16), (4,))
        used = jnp.asarray([7], "int32")
        loss = lambda q, k, sinks: jnp.tanh(weft.attention(q, k, k, sinks=sinks, kv_used=used)).sum()  # noqa: E731
        found = jax.jit(jax.grad(loss, (0, 1, 2)))(q, k, sinks)
        monkeypatch.undo()
        for mine, theirs in zip(found, jax.jit(jax.grad(loss, (0, 1, 2)))(q, k, sinks)):
            np.testing.assert_array_equal(mine, theirs)

    def test_a_gpu_is_refused(self, monkeypatch):
        (q,) = arrays("float16", (1, 4, 2, 64))
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        with pytest.raises(weft.Unsupported, match="under jit on a GPU weft needs jax.ffi: it is old"):
            jax.jit(lambda x: weft.attention(x, x, x))(q)
        if len(devices()) > 1:
            on_gpu = jax.device_put(q, devices()[1])
            with pytest.raises(weft.Unsupported, match="weft needs jax.ffi"):
                weft.attention(on_gpu, on_gpu, on_gpu)


def test_caches_are_refused_by_name():
    q, table, used = jnp.ones((1, 2, 2, 8)), jnp.zeros((1, 1), "int32"), jnp.ones((1,), "int32")
    for call in (weft.attention, jax.jit(weft.attention)):
        with pytest.raises(weft.Unsupported, match="no block_table for JAX arrays"):
            call(q, q, q, block_table=table, kv_used=used)
