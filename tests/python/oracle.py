"""Attention in NumPy and fp64, and the error that a dtype allows."""

import numpy as np

TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest value


def attention(q, k, v, causal=False, scale=None, offset=None, layout="bshd"):
    """(o, lse) of arrays (batch, seq, heads, head_dim); k and v have kv_heads, which divides heads."""
    if layout == "bhsd":
        o, lse = attention(*(x.swapaxes(1, 2) for x in (q, k, v)), causal, scale, offset)
        return o.swapaxes(1, 2), lse
    q, k, v = (np.asarray(x, np.float64).swapaxes(1, 2) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        shift = k.shape[2] - q.shape[2] if offset is None else offset
        seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + shift
        scores = np.where(seen, scores, -np.inf)
    most = scores.max(3, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    sums = weights.sum(3, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + np.where(np.isfinite(most), most, 0))[..., 0]
    return (weights / np.where(sums > 0, sums, 1) @ v).swapaxes(1, 2), lse


def assert_close(found, expected, dtype):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    most = np.abs(expected[finite]).max(initial=1.0)
    assert np.abs(found[finite] - expected[finite]).max(initial=0.0) <= TOLERANCE[str(dtype)] * most
