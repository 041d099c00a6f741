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
        with pytest.raises(weft.Invalid, match="head_dim 12 is not a multiple of 8"):
            run(*[q[..., :12]] * 3)
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
