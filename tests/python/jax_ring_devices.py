# SPDX-License-Identifier: Apache-2.0
"""weft.jax.ring_attention() on four devices of the CPU, beside weft.attention() of the whole. A process of its own: JAX counts devices once."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
import weft
import weft.jax

MESH = jax.sharding.Mesh(jax.devices(), ("context",))
# Options, the dtype, and how often keys and values go on to the next device that needs them.
CASES = [(dict(), "float32", 3), (dict(causal=True), "bfloat16", 3), (dict(causal=True, layout="bhsd", scale=0.3), "float32", 3),
         (dict(window=(3, 1), softcap=5.0), "float32", 2)]  # fmt: skip


def check(options, dtype, hops):
    axis = 2 if options.get("layout") == "bhsd" else 1
    shape = (2, 4, 48, 32) if axis == 2 else (2, 48, 4, 32)
    fewer = tuple(2 if n == 4 else n for n in shape)
    q, k, v, g = (jax.random.normal(jax.random.key(i), fewer if i in (1, 2) else shape, dtype) for i in range(4))
    rows = jax.sharding.PartitionSpec(*(None,) * axis, "context")
    ring = jax.shard_map(lambda *x: weft.jax.ring_attention(*x, "context", **options), mesh=MESH, in_specs=rows, out_specs=rows)
    (of_ring, found), (of_whole, expected) = (
        (jax.jit(f), jax.jit(jax.value_and_grad(lambda *x: (f(*x) * g).astype("float32").sum(), (0, 1, 2))))
        for f in (ring, lambda *x: weft.attention(*x, **options))
    )
    close = dict(rtol=0, atol=3e-2 if dtype == "bfloat16" else 1e-5)
    np.testing.assert_allclose(np.asarray(of_ring(q, k, v), "f"), np.asarray(of_whole(q, k, v), "f"), **close)
    for mine, theirs in zip(found(q, k, v)[1], expected(q, k, v)[1]):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(mine, "f"), np.asarray(theirs, "f"), **close)
    assert of_ring.lower(q, k, v).as_text().count("collective_permute") == 2 * hops
    print(options, dtype)


def check_refusals():
    rows = jax.sharding.PartitionSpec(None, "context")
    q, k = (jax.numpy.zeros((1, seq, 2, 32)) for seq in (16, 32))
    for given, message in (((q, k, k), "q has 4 rows, k 8"), ((q[:, :, 0],) * 3, "q has 3 dimensions")):
        try:
            jax.shard_map(lambda *x: weft.jax.ring_attention(*x, "context"), mesh=MESH, in_specs=rows, out_specs=rows)(*given)
        except weft.Invalid as error:
            assert message in str(error), error
        else:
            raise AssertionError(message)


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    for case in CASES:
        check(*case)
    check_refusals()
    print("all")
