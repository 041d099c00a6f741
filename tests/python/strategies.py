# SPDX-License-Identifier: Apache-2.0
"""Problems for hypothesis: small, ragged, grouped, causal with any offset, in any layout and memory order."""

import numpy as np
from hypothesis import strategies as st

SEQ = st.integers(1, 70)


@st.composite
def attentions(draw, dtypes=("float32", "float16")):
    """Arguments of attention(): a dict of q, k, v and options. Arrays may be transposed or sliced views."""
    batch, kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    seq, kv_seq, head_dim = draw(SEQ), draw(SEQ), 8 * draw(st.integers(1, 9))
    dtype, layout, causal = draw(st.sampled_from(dtypes)), draw(st.sampled_from(["bshd", "bhsd"])), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def array(length, heads):
        memory = draw(st.sampled_from(["packed", "transposed", "sliced"]))
        shape = [batch, length, heads] if layout == "bshd" else [batch, heads, length]
        if memory == "transposed":
            return rng.standard_normal((shape[0], shape[2], shape[1], head_dim)).astype(dtype).swapaxes(1, 2)
        if memory == "sliced":
            return rng.standard_normal((shape[0], 2 * shape[1], shape[2] + 1, head_dim + 8)).astype(dtype)[:, ::2, 1:, 8:]
        return rng.standard_normal((*shape, head_dim)).astype(dtype)

    arguments = {"q": array(seq, kv_heads * group), "k": array(kv_seq, kv_heads), "v": array(kv_seq, kv_heads)}
    offset = draw(st.one_of(st.none(), st.integers(-seq - 1, kv_seq + 1))) if causal else None
    scale = draw(st.one_of(st.none(), st.floats(0.01, 1.0)))
    return {**arguments, "causal": causal, "offset": offset, "scale": scale, "layout": layout}


@st.composite
def features(draw, dtypes=("float32", "float16"), most=40, qv=False):
    """Arguments of attention() with one to three of everything that it may have beside Q, K and V, among them `qv` where that is to be;
    lengths are arrays."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype, layout = draw(st.sampled_from(dtypes)), draw(st.sampled_from(["bshd", "bhsd"]))
    kv_heads, group, dim = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 40))
    heads, dim_v = kv_heads * group, draw(st.one_of(st.just(dim), st.integers(1, 40)))
    names = draw(st.sets(st.sampled_from(["window", "chunk", "prefix", "softcap", "sinks", "alibi", "bias", "dropout", "packed", "used",
                                          "pad", *(["qv"] if qv else [])]), min_size=1, max_size=3))  # fmt: skip
    packed = "packed" in names
    sequences = draw(st.integers(1, 4))
    lengths, kv_lengths = (rng.integers(0 if packed else most, most + 1, sequences) for _ in range(2))
    if packed:
        lengths[0] = kv_lengths[-1] = 1 + rng.integers(most)
    batch, seq, kv_seq = 1, lengths.sum(), kv_lengths.sum()
    if not packed:
        batch, seq, kv_seq = sequences, draw(st.integers(1, most)), draw(st.integers(1, most))
    made = {}
    arrays = {"q": (seq, heads, dim), "k": (kv_seq, kv_heads, dim), "v": (kv_seq, kv_heads, dim_v), "qv": (seq, heads, dim_v)}
    for name, (length, count, width) in arrays.items():
        if name == "qv" and "qv" not in names:
            continue
        shape = (batch, length, count, width) if layout == "bshd" else (batch, count, length, width)
        made[name] = rng.standard_normal(shape).astype(dtype)
    causal = draw(st.booleans())
    made.update(causal=causal, layout=layout, offset=draw(st.one_of(st.none(), st.integers(-5, 9))) if causal else None)
    if not packed:
        lengths, kv_lengths = np.full(batch, seq), np.full(batch, kv_seq)
    if packed:
        made["q_starts"], made["kv_starts"] = (np.cumsum([0, *x]).astype("int32") for x in (lengths, kv_lengths))
    if "window" in names:
        made["window"] = (draw(st.integers(-1, most)), draw(st.integers(-1, most)))
    if "chunk" in names:
        made["chunk"] = draw(st.integers(1, most))
    if "prefix" in names and causal and not {"chunk", "window"} & names:
        made["prefix"] = draw(st.integers(1, most))
    if "softcap" in names:
        made["softcap"] = draw(st.floats(0.5, 30))
    if "sinks" in names:
        made["sinks"] = rng.standard_normal(heads).astype("f")
    if "alibi" in names:
        made["alibi"] = rng.random(heads if draw(st.booleans()) else (sequences, heads)).astype("f")
    if "bias" in names and not packed:
        kind = draw(st.sampled_from([dtype, "float32", "bool"]))
        shape = [n if draw(st.booleans()) else 1 for n in (batch, heads, seq)] + [kv_seq]
        shape = shape if max(shape) > 1 else [batch, heads, seq, kv_seq]  # one value for all scores is refused
        made["bias"] = rng.random(shape) < 0.7 if kind == "bool" else rng.standard_normal(shape).astype(kind)
    if "dropout" in names:
        made.update(dropout=draw(st.floats(0.05, 0.9)), seed=draw(st.integers(0, 2**64 - 1)))
    if "used" in names:
        made["q_used"], made["kv_used"] = (rng.integers(0, x + 1).astype("int32") for x in (lengths, kv_lengths))
    if "pad" in names:
        made["kv_pad"] = rng.integers(0, kv_lengths + 1).astype("int32")
    return made


@st.composite
def schedules(draw):
    """Schedules of an attention, as dicts."""
    order = draw(st.sampled_from([None, "head-first", "block-first", "reverse", "head-first-swizzled", "longest-first"]))
    fields = {"order": order, "sweep": draw(st.sampled_from([None, "forward", "sawtooth", "pair"])),
              "dispatch": draw(st.sampled_from([None, "grid", "static", "dynamic"])), "table": draw(st.booleans())}  # fmt: skip
    return {**fields, "domains": 3} if order == "head-first-swizzled" else fields
