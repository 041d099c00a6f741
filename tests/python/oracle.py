# SPDX-License-Identifier: Apache-2.0
"""Attention in NumPy and fp64, and the error that a dtype allows."""

import numpy as np

TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest value


def philox(key, counter):
    """Philox 4x32-10 of arrays of counters: four arrays of 32-bit words."""
    low, high, mask = key & 0xFFFFFFFF, key >> 32, np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(low), b & mask, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(high), a & mask]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return c


def kept(dropout, seed, shape):
    """What dropout multiplies the weights (batch, heads, seq, kv_seq) by."""
    batch, heads, seq, kv_seq = shape
    line, query, key = np.meshgrid(np.arange(batch * heads), np.arange(seq), np.arange(kv_seq), indexing="ij")
    words = np.stack(philox(seed, (key // 4, query, line, 0 * line)))
    word = np.take_along_axis(words, (key % 4)[None], 0)[0]
    return np.where(word < int(dropout * 2**32), 0, 1 / (1 - dropout)).reshape(shape)


def seen(queries, keys, causal=False, offset=None, window=None, chunk=None, prefix=None):
    """(queries, keys) of one sequence: which keys each query sees; and the positions of the queries."""
    at = np.arange(queries)[:, None] + (keys - queries if offset is None else offset)
    key = np.arange(keys)[None]
    left, right = window or (-1, -1)
    mask = np.ones((queries, keys), bool)
    if causal or right >= 0:
        mask &= key <= at + (0 if causal else right)
    if left >= 0:
        mask &= key >= at - left
    if chunk:
        mask &= key // chunk == at // chunk
    if prefix:
        mask |= key < prefix
    return mask, at


def sequences(batch, seq, kv_seq, q_starts=None, kv_starts=None, q_used=None, kv_used=None, kv_pad=None):
    """(batch, rows, keys) of each sequence: ranges of the rows that count."""
    kv_starts = q_starts if kv_starts is None else kv_starts
    for i in range(batch if q_starts is None else len(q_starts) - 1):
        row, end = (0, seq) if q_starts is None else q_starts[i : i + 2]
        key, key_end = (0, kv_seq) if q_starts is None else kv_starts[i : i + 2]
        end = end if q_used is None else row + q_used[i]
        key_end = key_end if kv_used is None else key + kv_used[i]
        key += 0 if kv_pad is None else min(kv_pad[i], key_end - key)
        yield (i if q_starts is None else 0), slice(row, end), slice(key, key_end)


def attention(q, k, v, causal=False, scale=None, offset=None, layout="bshd", window=None, chunk=None, prefix=None, softcap=None,
              sinks=None, alibi=None, bias=None, dropout=None, seed=0, return_max=False, qv=None, **lengths):  # fmt: skip
    """(o, lse), with return_max (o, lse, max), of arrays (batch, seq, heads, head_dim); k and v have kv_heads, which divides heads.
    Arguments are those of weft.attention(), lengths q_starts, kv_starts, q_used, kv_used and kv_pad."""
    if qv is not None:  # the rest of longer queries, whose keys are K and V
        q, k = np.concatenate([q, qv], 3), np.concatenate([k, v], 3)
    if layout == "bshd":
        q, k, v = (np.asarray(x, np.float64).swapaxes(1, 2) for x in (q, k, v))
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    hidden = np.ones(scores.shape, bool)
    for i, (b, rows, keys) in enumerate(sequences(len(q), q.shape[2], k.shape[2], **lengths)):
        mask, at = seen(rows.stop - rows.start, keys.stop - keys.start, causal, offset, window, chunk, prefix)
        hidden[b, :, rows, keys] = ~mask
        if alibi is not None:
            slopes = np.broadcast_to(np.asarray(alibi), (i + 1, q.shape[1]) if np.ndim(alibi) == 1 else np.shape(alibi))[i]
            scores[b, :, rows, keys] -= slopes[:, None, None] * np.abs(at - np.arange(mask.shape[1]))
    if bias is not None:
        bias = np.asarray(bias)
        scores = np.where(bias, scores, -np.inf) if bias.dtype == bool else scores + bias.astype(np.float64)
    scores = np.where(hidden, -np.inf, scores)
    most = scores.max(3, keepdims=True, initial=-np.inf)
    top = most if sinks is None else np.maximum(most, np.asarray(sinks, np.float64)[:, None, None])
    top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(scores - top)
    sums = weights.sum(3, keepdims=True)
    if sinks is not None:
        sums = sums + np.exp(np.asarray(sinks, np.float64)[:, None, None] - top)
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + top)[..., 0]
    weights = weights / np.where(sums > 0, sums, 1)
    o = (weights if not dropout else weights * kept(dropout, seed, weights.shape)) @ v
    o = o.swapaxes(1, 2) if layout == "bshd" else o
    return (o, lse, most[..., 0]) if return_max else (o, lse)


def assert_close(found, expected, dtype):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    most = np.abs(expected[finite]).max(initial=1.0)
    assert np.abs(found[finite] - expected[finite]).max(initial=0.0) <= TOLERANCE[str(dtype)] * most
