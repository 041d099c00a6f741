# SPDX-License-Identifier: Apache-2.0
"""What the tests of JAX share: its devices, arrays on them, fp64."""

import contextlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not importable here: its tests are skipped")
jnp = jax.numpy


def devices():
    found = [jax.devices("cpu")[0]]
    with contextlib.suppress(RuntimeError):
        found += jax.devices("cuda")[:1]
    return found


@pytest.fixture(params=devices(), ids=lambda device: device.platform)
def device(request):
    with jax.default_device(request.param):
        yield request.param


def x64():
    """A context in which JAX has fp64."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # as it was called before

    return enable_x64()


def dtypes(device):
    """What weft computes there."""
    return ["float32", "float16", "bfloat16"] if device.platform == "cpu" else ["float16", "bfloat16"]


def arrays(dtype, *shapes):
    return [jnp.asarray(np.random.default_rng(i).standard_normal(shape), dtype) for i, shape in enumerate(shapes)]
