# SPDX-License-Identifier: Apache-2.0
"""Attention over a KV cache in NumPy and fp64: pages, appended keys, rotation. And random problems of that kind for hypothesis."""

import numpy as np
import oracle
from hypothesis import strategies as st


def rotated(x, cos, sin, positions, interleaved):
    """Rows x (n, heads, head_dim), each rotated by its position; beyond the last row of cos and sin that one counts."""
    at = np.minimum(positions, len(cos) - 1)
    cos, sin = (np.asarray(table, np.float64)[at][:, None] for table in (cos, sin))
    half, made = cos.shape[-1], np.asarray(x, np.float64).copy()
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    a, b = made[..., first].copy(), made[..., second].copy()
    made[..., first], made[..., second] = a * cos - b * sin, b * cos + a * sin
    return made.astype(x.dtype)


def attention(q, k, v, kv_used=None, block_table=None, append=None, q_starts=None, new_starts=None, rotary=None,
              rotary_interleaved=False, positions=None, kv_pad=None, layout="bshd", alibi=None, qv=None, **options):  # fmt: skip
    """(o, lse, k, v), k and v as they are afterwards; arguments are those of weft.attention(), arrays of NumPy."""
    packed, bhsd = q_starts is not None, layout == "bhsd"
    new = [] if append is None else list(append)
    q, k, v, *new = ([x.swapaxes(-3, -2) for x in (q, k, v, *new)] if bhsd else [q, k, v, *new])
    qv = qv.swapaxes(-3, -2) if bhsd and qv is not None else qv
    k, v = k.copy(), v.copy()
    sequences = len(q_starts) - 1 if packed else len(q)
    entries = 1 if block_table is None else block_table.shape[1]
    page = k.shape[1]
    o = np.zeros((*q.shape[:-1], v.shape[-1]))
    lse = np.zeros((q.shape[-2], q.shape[0]) if packed else (q.shape[0], q.shape[2], q.shape[1]))
    goes_by_positions = options.get("causal") or options.get("chunk") or max(options.get("window") or (-1, -1)) >= 0
    starts = q_starts if new_starts is None else new_starts
    for s in range(sequences):
        rows = slice(q_starts[s], q_starts[s + 1]) if packed else s
        pages = [s] if block_table is None else block_table[s]
        have = page * entries - (new[0].shape[1] if new else 0) if kv_used is None else min(kv_used[s], page * entries)
        queries, places = q[rows], [(pages[i // page], i % page) for i in range(page * entries)]
        first = have if positions is None else positions[s]
        if rotary is not None:
            steps = np.arange(len(queries)) if goes_by_positions else np.zeros(len(queries), int)
            queries = rotated(queries, *rotary, first + steps, rotary_interleaved)
        if new:
            k_new, v_new = (x[starts[s] : starts[s + 1]] if packed else x[s] for x in new)
            if rotary is not None:
                k_new = rotated(k_new, *rotary, first + np.arange(len(k_new)), rotary_interleaved)
            for row, value, place in zip(k_new, v_new, places[have:]):
                k[place], v[place] = row, value
            have = min(have + len(k_new), page * entries)
        at = tuple(np.array(places[:have], int).reshape(-1, 2).T)
        slopes = alibi if alibi is None or np.ndim(alibi) == 1 else alibi[s]
        one, sums = oracle.attention(queries[None], k[at][None], v[at][None], alibi=slopes, qv=None if qv is None else qv[rows][None],
                                     kv_pad=None if kv_pad is None else [min(kv_pad[s], have)], **options)  # fmt: skip
        o[rows] = one[0]
        if packed:
            lse[:, rows] = sums[0]
        else:
            lse[s] = sums[0]
    if bhsd:
        o, k, v = (x.swapaxes(-3, -2) for x in (o, k, v))
    return o, lse, k, v


@st.composite
def caches(draw, dtypes=("float32", "float16"), most=24):
    """Arguments of attention() with a KV cache: contiguous or in pages, queries packed or not, with and without new keys."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype, layout = draw(st.sampled_from(dtypes)), draw(st.sampled_from(["bshd", "bhsd"]))
    kv_heads, group, dim = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 24))
    dim_v = draw(st.one_of(st.just(dim), st.integers(1, 24)))
    sequences, page, entries = draw(st.integers(1, 4)), draw(st.integers(1, 20)), draw(st.integers(1, 4))
    paged = draw(st.booleans())
    packed = paged and draw(st.booleans())
    pages = sequences * entries + draw(st.integers(0, 3)) if paged else sequences
    entries = entries if paged else 1
    q_lengths = rng.integers(0, most, sequences) if packed else np.full(sequences, draw(st.integers(1, most)))
    q_lengths[-1] += packed
    append = draw(st.booleans())
    fewer = append and packed and draw(st.booleans())  # other numbers of new keys than of queries
    new_lengths = rng.integers(0, most, sequences) if fewer else q_lengths
    if append and not packed:  # a tensor of new keys has no more than there is room for
        new_lengths = np.full(sequences, min(new_lengths[0] if draw(st.booleans()) else draw(st.integers(1, most)), page * entries))
    new_lengths = new_lengths + np.eye(sequences, dtype=int)[0] * (new_lengths.sum() == 0)
    fewer = packed and (new_lengths != q_lengths).any()

    def array(first, length, heads, width, strided=False):
        shape = [*first, length, heads, width] if layout == "bshd" else [*first, heads, length, width]
        if strided and draw(st.booleans()):  # as K and V interleaved
            return rng.standard_normal([*shape[:-1], 2 * width]).astype(dtype)[..., width:]
        return rng.standard_normal(shape).astype(dtype)

    lead = () if packed else (sequences,)
    made = {"q": array(lead, q_lengths.sum() if packed else q_lengths[0], kv_heads * group, dim), "layout": layout}
    made["k"], made["v"] = array((pages,), page, kv_heads, dim, True), array((pages,), page, kv_heads, dim_v, True)
    made["kv_used"] = rng.integers(0, page * entries + 1, sequences).astype("int32")
    if paged:
        stride = draw(st.integers(0, 2))
        table = np.full((sequences, entries + stride), -7, "int32")
        table[:, :entries] = rng.permutation(pages)[: sequences * entries].reshape(sequences, entries)
        made["block_table"] = table[:, :entries]
    if packed:
        made["q_starts"] = np.cumsum([0, *q_lengths]).astype("int32")
    if append:
        count = new_lengths.sum() if packed else new_lengths[0]
        made["append"] = tuple(array(lead, count, kv_heads, width) for width in (dim, dim_v))
        if fewer:
            made["new_starts"] = np.cumsum([0, *new_lengths]).astype("int32")
    mask = draw(st.sampled_from(["none", "causal", "window", "chunk"]))
    made["causal"] = mask == "causal" or (mask == "chunk" and draw(st.booleans()))
    if mask == "window":
        made["window"] = (draw(st.integers(-1, most)), draw(st.integers(0, most)))
    if mask == "chunk":
        made["chunk"] = draw(st.integers(1, most))
    half = draw(st.integers(0, dim // 2)) if append else 0
    if half:
        angles = rng.uniform(0, 6.3, (draw(st.integers(1, page * entries + most)), half))
        made["rotary"] = (np.cos(angles).astype(dtype), np.sin(angles).astype(dtype))
        made["rotary_interleaved"] = draw(st.booleans())
        if draw(st.booleans()):
            made["positions"] = rng.integers(0, 9, sequences).astype("int32")
    if draw(st.booleans()):
        made["kv_pad"] = rng.integers(0, made["kv_used"] + 1).astype("int32")
    if draw(st.booleans()):
        made["softcap"] = draw(st.floats(0.5, 30))
    if draw(st.booleans()):
        made["sinks"] = rng.standard_normal(kv_heads * group).astype("f")
    if draw(st.booleans()):
        made["alibi"] = rng.random(kv_heads * group if draw(st.booleans()) else (sequences, kv_heads * group)).astype("f")
    if draw(st.booleans()):
        made["qv"] = array(made["q"].shape[:-3], made["q"].shape[-3 if layout == "bshd" else -2], kv_heads * group, dim_v, True)
    return made
