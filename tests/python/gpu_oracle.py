# SPDX-License-Identifier: Apache-2.0
"""Results on a GPU, held to fp64: the error may be twice that of the best that torch has for the same inputs and dtype."""

import pytest
import torch
import weft

ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # of an exact result to the dtype, relative
sdpa = torch.nn.functional.scaled_dot_product_attention


def on_hopper():
    return torch.cuda.get_device_capability() == (9, 0)


def run(function, *arrays, **options):
    """What weft computes. Its kernels for compute capability 9.0 must take everything; others may refuse."""
    try:
        return function(*arrays, **options)
    except weft.Unsupported as error:
        if on_hopper():
            raise
        pytest.skip(str(error))


def mask(q, k, causal, offset):
    """(seq, kv_seq), True where the query sees the key; None: everywhere."""
    shift = k.shape[2] - q.shape[2] if offset is None else offset
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(shift) if causal else None


def exact(q, k, v, causal=False, scale=None, offset=None):
    """(o, lse) in fp64 of (batch, heads, seq, head_dim) tensors with as many kv heads as heads."""
    scores = q.double() @ k.double().transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    seen = mask(q, k, causal, offset)
    scores = scores if seen is None else scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, 3)
    return torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0)[..., None]) @ v.double(), lse


def peer(q, k, v, causal=False, scale=None, offset=None):
    """The same by torch in the tensors' own dtype: cuDNN where it takes the problem. A query without keys gets zeros."""
    seen = mask(q, k, causal, offset)
    plain = causal and offset == 0 and q.shape[2] == k.shape[2]
    backends = torch.nn.attention.SDPBackend
    for backend in (backends.CUDNN_ATTENTION, backends.EFFICIENT_ATTENTION, backends.MATH):
        try:
            with torch.nn.attention.sdpa_kernel(backend):
                o = sdpa(q, k, v, attn_mask=None if plain else seen, is_causal=plain, scale=scale)
        except RuntimeError:
            continue
        if seen is not None:
            o = torch.where(seen.any(1)[:, None], o, torch.zeros((), dtype=o.dtype, device=o.device))
        if o.isfinite().all():
            return o
    raise AssertionError("torch has no attention that takes this problem")


def error_of(found, expected):
    return (found.double() - expected).abs().max().item()


def assert_within_twice(found, theirs, expected):
    """No worse than twice the peer's error, or than twice what rounding the exact result costs, whichever is more."""
    assert found.shape == expected.shape and found.dtype == theirs.dtype and found.isfinite().all()
    allowed = 2 * max(error_of(theirs, expected), ROUNDING[found.dtype] * expected.abs().max().item())
    assert error_of(found, expected) <= allowed


def check_attention(q, k, v, layout="bshd", **options):
    """Runs weft.attention() and holds o and lse to fp64."""
    o, lse = run(weft.attention, q, k, v, layout=layout, return_lse=True, **options)
    assert o.shape == q.shape and lse.dtype == torch.float32
    options.pop("schedule", None)
    q, k, v, o = (x.transpose(1, 2) if layout == "bshd" else x for x in (q, k, v, o))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    expected, sums = exact(q, k, v, **options)
    assert_within_twice(o, peer(q.contiguous(), k.contiguous(), v.contiguous(), **options), expected)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-5, atol=1e-4)
