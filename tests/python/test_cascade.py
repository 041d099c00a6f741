# SPDX-License-Identifier: Apache-2.0
"""weft.cascade_attention(): the same as attention of whole sequences, of which the first keys are the same."""

import numpy as np
import pytest
import weft
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_close, attention

HEADS, KV_HEADS, DIM = 4, 2, 8


def normal(rng, *shape):
    return rng.standard_normal(shape).astype("f")


class Sequences:
    """Sequences that share their first keys, and what attention of them is."""

    def __init__(self, seed, shared, own, queries):
        rng = np.random.default_rng(seed)
        self.rng, self.own, self.queries = rng, own, queries
        self.shared = [normal(rng, shared, KV_HEADS, DIM) for _ in range(2)]
        self.tails = [[normal(rng, n, KV_HEADS, DIM) for _ in range(2)] for n in own]
        self.q = [normal(rng, n, HEADS, DIM) for n in queries]

    def expected(self, **options):
        made = []
        for q, tail in zip(self.q, self.tails):
            k, v = (np.concatenate([first, then])[None] for first, then in zip(self.shared, tail))
            made.append([x[0] for x in attention(q[None], k, v, **options)])
        return np.concatenate([o for o, _ in made]), np.concatenate([lse for _, lse in made], 1)

    def pages(self, page):
        """K and V in pages, of which nobody may read the rest, and lists in which sequences share pages."""
        shared = len(self.shared[0]) // page
        each = max(-(-n // page) for n in self.own)
        free = iter(self.rng.permutation(shared + each * len(self.own)))
        first = [next(free) for _ in range(shared)]
        table = np.array([first + [next(free) for _ in range(each)] for _ in self.own], np.int32)
        caches = [np.full((table.max() + 1, page, KV_HEADS, DIM), np.nan, "f") for _ in range(2)]
        for row, tail in zip(table, self.tails):
            for cache, begin, then in zip(caches, self.shared, tail):
                for i, x in enumerate(np.concatenate([begin, then])):
                    cache[row[i // page], i % page] = x
        return (*caches, table)


OPTIONS = [dict(causal=True), dict(causal=False, scale=0.3, softcap=5.0), dict(causal=True, sinks=np.array([0.5, -1, 0, 2], "f"))]


@given(st.integers(1, 5), st.sampled_from([1, 4, 16]), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=5),
       st.sampled_from(OPTIONS), st.integers(0, 2**32 - 1))  # fmt: skip
def test_pages_with_packed_queries(pages, page, lengths, options, seed):
    """A sequence has at least as many keys of its own as queries, as an engine has written them."""
    own, queries = [n + more for n, more in lengths], [n for _, n in lengths]
    s = Sequences(seed, pages * page, own, queries)
    k, v, table = s.pages(page)
    used = np.array(own, np.int32) + pages * page
    out = np.full((sum(queries), HEADS, DIM), np.nan, "f")
    o, lse = weft.cascade_attention(np.concatenate(s.q), k, v, pages * page, block_table=table, kv_used=used, lengths=queries,
                                    return_lse=True, out=out, **options)  # fmt: skip
    want, want_lse = s.expected(**options)
    assert o is out
    assert_close(o, want, "float32")
    assert_close(lse, want_lse, "float32")


@pytest.mark.parametrize("seq", [1, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=["causal", "softcap", "sinks"])
def test_a_pair_and_a_batch(seq, options):
    s = Sequences(seq, 21, [7, 7, 7], [seq] * 3)
    k, v = (np.stack([tail[i] for tail in s.tails]) for i in range(2))
    o, lse = weft.cascade_attention(np.stack(s.q), k, v, s.shared, return_lse=True, **options)
    want, want_lse = s.expected(**options)
    assert_close(o.reshape(want.shape), want, "float32")
    assert_close(lse.swapaxes(0, 1).reshape(HEADS, -1), want_lse, "float32")


def test_appends_behind_the_prefix():
    s = Sequences(5, 8, [6, 3], [1, 1])
    k, v, table = s.pages(4)
    new = [np.stack([tail[i][-1:] for tail in s.tails]) for i in range(2)]
    for row, n in zip(table, s.own):  # what is to be appended is not there yet
        at = 8 + n - 1
        k[row[at // 4], at % 4] = v[row[at // 4], at % 4] = np.nan
    used = np.array([8 + 5, 8 + 2], np.int32)
    o = weft.cascade_attention(np.stack(s.q), k, v, 8, block_table=table, kv_used=used, append=new)
    assert_close(o[:, 0], s.expected(causal=True)[0], "float32")
    assert not np.isnan(k[table[0, 3], 1]).any()


def test_what_is_refused():
    s = Sequences(0, 8, [3, 3], [1, 1])
    k, v, table = s.pages(4)
    q, used = np.stack(s.q), np.array([11, 11], np.int32)
    for prefix, more in ((6, {}), (0, {}), (12, {}), (8, dict(kv_used=None)), (8, dict(block_table=None))):
        with pytest.raises(weft.Invalid, match=f"prefix {prefix} is not a number of keys in whole pages"):
            weft.cascade_attention(q, k, v, prefix, **{"block_table": table, "kv_used": used, **more})
    with pytest.raises(weft.Invalid, match="prefix is not"):
        weft.cascade_attention(q, k, v, (s.shared[0][None], s.shared[1][None]))
    with pytest.raises(TypeError, match="alibi"):
        weft.cascade_attention(q, k, v, 8, block_table=table, kv_used=used, alibi=np.zeros(HEADS, "f"))
