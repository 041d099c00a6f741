"""weft on JAX arrays and weft.jax: on the CPU, and on a GPU where JAX has one."""

import contextlib

import numpy as np
import pytest
import weft
from oracle import assert_close, attention

jax = pytest.importorskip("jax", reason="JAX is not importable here: its tests are skipped")
jnp = jax.numpy
import weft.jax  # noqa: E402


def devices():
    found = [jax.devices("cpu")[0]]
    with contextlib.suppress(RuntimeError):
        found += jax.devices("cuda")[:1]
    return found


@pytest.fixture(params=devices(), ids=lambda device: device.platform)
def device(request):
    with jax.default_device(request.param):
        yield request.param


def dtypes(device):
    """What weft computes there."""
    return ["float32", "float16", "bfloat16"] if device.platform == "cpu" else ["float16", "bfloat16"]


def arrays(dtype, *shapes):
    return [jnp.asarray(np.random.default_rng(i).standard_normal(shape), dtype) for i, shape in enumerate(shapes)]


def test_the_interface_of_xla_is_taken():
    assert hasattr(jax, "ffi") and weft.jax.why_no_ffi() is None


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
    "dropout": dict(dropout=0.3, seed=2**64 - 7),
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

    def loss(q, k, v, sinks=None):
        others = {**options, "sinks": sinks} if sinks is not None else options
        return (weft.attention(q, k, v, **others) * weight).sum()

    given = [q, k, v] + ([options["sinks"]] if name == "sinks" else [])
    grads = jax.jit(jax.grad(loss, argnums=tuple(range(len(given)))))(*given)
    rng = np.random.default_rng(1)
    for i, grad in enumerate(grads):
        for _ in range(4):
            place, sums = tuple(map(rng.integers, grad.shape)), []
            for step in (1e-4, -1e-4):
                moved = [np.asarray(x, np.float64).copy() for x in given]
                moved[i][place] += step
                others = {**plain, "sinks": moved[3]} if name == "sinks" else plain
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
            options = {x: y for x, y in arrayed(FEATURES[name]).items() if x != "bias"}  # its shape is of other tests
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


def test_gradients_that_are_not_there_on_cpu():
    (q,) = arrays("float32", (1, 6, 2, 8))
    slopes = jnp.ones(2, "float32")
    with pytest.raises(weft.Unsupported, match="JAX has no gradient of alibi"):
        jax.grad(lambda alibi: weft.attention(q, q, q, alibi=alibi).sum())(slopes)
    with pytest.raises(weft.Unsupported, match="gradient of lse"):
        jax.grad(lambda q: weft.attention(q, q, q, return_lse=True)[1].sum())(q)
    assert jax.grad(lambda q: weft.attention(q, q, q, alibi=slopes, return_lse=True)[0].sum())(q).shape == q.shape


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
        monkeypatch.setattr(weft.jax, "why_no_ffi", lambda: "it is old")
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

    def test_a_gpu_is_refused(self, monkeypatch):
        (q,) = arrays("float16", (1, 4, 2, 64))
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        with pytest.raises(weft.Unsupported, match="under jit on a GPU weft needs jax.ffi: it is old"):
            jax.jit(lambda x: weft.attention(x, x, x))(q)
        if len(devices()) > 1:
            on_gpu = jax.device_put(q, devices()[1])
            with pytest.raises(weft.Unsupported, match="weft needs jax.ffi"):
                weft.attention(on_gpu, on_gpu, on_gpu)
