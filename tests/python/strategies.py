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
def schedules(draw):
    """Schedules of an attention, as dicts."""
    order = draw(st.sampled_from([None, "head-first", "block-first", "reverse", "head-first-swizzled", "longest-first"]))
    fields = {"order": order, "sweep": draw(st.sampled_from([None, "forward", "sawtooth", "pair"])),
              "dispatch": draw(st.sampled_from([None, "grid", "static", "dynamic"])), "table": draw(st.booleans())}  # fmt: skip
    return {**fields, "domains": 3} if order == "head-first-swizzled" else fields
