# SPDX-License-Identifier: Apache-2.0
"""weft.attention() over KV caches: pages, appended keys, rotation; NumPy against fp64."""

import cache_oracle
import numpy as np
import pytest
import weft
from hypothesis import given, settings
from oracle import assert_close

RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def run(arguments):
    """(o, lse, k, v) of weft.attention(), which writes to copies of k and v that are laid out like them."""
    mine = dict(arguments)
    for name in ("k", "v"):
        whole = arguments[name].base if arguments[name].base is not None else arguments[name]
        copy = whole.copy()
        mine[name] = copy if whole is arguments[name] else copy[..., copy.shape[-1] // 2 :]
    return (*weft.attention(**mine, return_lse=True), mine["k"], mine["v"])


@settings(max_examples=200)
@given(cache_oracle.caches())
def test_random_caches(arguments):
    found, dtype = run(arguments), arguments["q"].dtype
    for mine, theirs in zip(found, cache_oracle.attention(**arguments)):
        assert_close(mine, theirs, dtype)


def test_only_new_keys_are_written():
    """Whatever is not a new key's place keeps its bits."""
    k, v = normal(5, 4, 2, 8), normal(5, 4, 2, 8)
    before = k.copy(), v.copy()
    table, used = np.array([[3, 1], [0, 4]], "int32"), np.array([3, 6], "int32")
    new = normal(2, 3, 2, 8), normal(2, 3, 2, 8)
    weft.attention(normal(2, 1, 4, 8), k, v, block_table=table, kv_used=used, append=new)
    for after, old, given_rows in zip((k, v), before, new):
        expected = old.copy()
        expected[3, 3], expected[1, 0], expected[1, 1] = given_rows[0]
        expected[4, 2], expected[4, 3] = given_rows[1, :2]  # there is no room for the third
        np.testing.assert_array_equal(after, expected)


def test_decoding_step_by_step_is_prefill():
    """A sequence that grows by one key a call gives each time what the whole gives at once."""
    q, k, v = normal(1, 9, 4, 16), normal(1, 9, 2, 16), normal(1, 9, 2, 16)
    whole = weft.attention(q, k, v, causal=True)
    pages = np.zeros((4, 3, 2, 16), "f"), np.zeros((4, 3, 2, 16), "f")
    table = np.array([[2, 0, 3]], "int32")
    for step in range(9):
        new = tuple(x[:, step : step + 1] for x in (k, v))
        one = weft.attention(q[:, step : step + 1], *pages, causal=True, block_table=table, kv_used=np.array([step], "int32"), append=new)
        assert_close(one, whole[:, step : step + 1], "float32")


def test_one_plan_fits_all_steps(monkeypatch):
    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda *x, **y: made.append(x) or plan(*x, **y))
    k, v, q = normal(6, 4, 2, 8), normal(6, 4, 2, 8), normal(2, 1, 4, 8)
    for step in range(4):
        table = RNG.permutation(6)[:4].astype("int32").reshape(2, 2)
        weft.attention(q, k, v, block_table=table, kv_used=np.array([step, 5], "int32"), scale=0.31)
    assert len(made) == 1


def test_lengths_may_be_known():
    q, k, v = normal(3, 4, 8), normal(5, 4, 2, 8), normal(5, 4, 2, 8)
    table = np.array([[3, 1], [0, 4]], "int32")
    known = weft.attention(q, k, v, causal=True, block_table=table, lengths=[2, 1], kv_used=[7, 3])
    arrays = dict(q_starts=np.array([0, 2, 3], "int32"), kv_used=np.array([7, 3], "int32"))
    np.testing.assert_array_equal(known, weft.attention(q, k, v, causal=True, block_table=table, **arrays))


def test_few_queries_of_each_sequence(monkeypatch):
    """Powers of 2 up to 64, so that few plans are made; they must hold what there is."""
    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda problem, *x, **y: made.append(problem.q_most) or plan(problem, *x, **y))
    q, k, v = normal(5, 4, 8), normal(5, 4, 2, 8), normal(5, 4, 2, 8)
    options = dict(causal=True, block_table=np.array([[3, 1], [0, 4]], "int32"), q_starts=np.array([0, 3, 5], "int32"),
                   kv_used=np.array([7, 3], "int32"), scale=0.123)  # fmt: skip
    expected = weft.attention(q, k, v, **options)
    for most in (3, 4, 65, 10**6, 64):
        np.testing.assert_array_equal(weft.attention(q, k, v, q_most=most, **options), expected)
    assert made == [0, 4, 64]
    with pytest.raises(weft.Invalid, match="q_starts of sequence 0: 3 queries, and q_most is 2"):
        weft.attention(q, k, v, q_most=2, **options)
    with pytest.raises(weft.Invalid, match="q_most 1.5 is not a whole number"):
        weft.attention(q, k, v, q_most=1.5, **options)


def test_the_result_may_be_written_to_an_array():
    q, k, v = normal(2, 5, 4, 8), normal(2, 7, 2, 8), normal(2, 7, 2, 6)
    expected = weft.attention(q, k, v)
    out = normal(2, 4, 5, 6).swapaxes(1, 2)
    assert weft.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, expected)
    again, lse = weft.attention(2 * q, k, v, out=out, return_lse=True)
    assert again is out and lse.shape == (2, 4, 5)
    np.testing.assert_array_equal(out, weft.attention(2 * q, k, v))
    for bad, message in ((out[:1], "out is"), (out.astype("float16"), "out is fp16"), (np.broadcast_to(out[:1], out.shape), "read-only")):
        with pytest.raises(weft.Invalid, match=message):
            weft.attention(q, k, v, out=bad)


Q, K, V, USED, TABLE = normal(2, 3, 4, 8), normal(5, 4, 2, 8), normal(5, 4, 2, 8), np.array([3, 6], "int32"), np.array([[3, 1], [0, 4]], "int32")
NEW, ROTARY = (normal(2, 2, 2, 8), normal(2, 2, 2, 8)), (normal(9, 4), normal(9, 4))
frozen = K.copy()
frozen.flags.writeable = False


@pytest.mark.parametrize("options, message", [
    (dict(block_table=TABLE[:1]), "block_table is"),
    (dict(block_table=TABLE[0]), "block_table is"),
    (dict(block_table=TABLE.astype("int64")), "block_table has dtype int64"),
    (dict(block_table=TABLE.T.copy().T), "block_table has strides"),
    (dict(block_table=np.array([[3, 1], [0, 5]], "int32")), "5"),
    (dict(block_table=np.array([[3, -1], [0, 4]], "int32"), kv_used=np.array([5, 1], "int32")), "-1"),
    (dict(block_table=TABLE, append=NEW[0]), "append is not"),
    (dict(block_table=TABLE, append=(NEW[0], None)), "append is not"),
    (dict(block_table=TABLE, append=(NEW[0], NEW[1][:, :1])), "append has"),
    (dict(block_table=TABLE, append=(NEW[0][..., :4], NEW[1])), "k_new of append is"),
    (dict(block_table=TABLE, append=tuple(x.astype("float16") for x in NEW)), "k_new is fp16"),
    (dict(block_table=TABLE, append=NEW, k=frozen), "k is read-only"),
    (dict(block_table=TABLE, append=NEW, rotary=ROTARY[0]), "rotary is not"),
    (dict(block_table=TABLE, append=NEW, rotary=(ROTARY[0], ROTARY[1][:3])), "sin of rotary is"),
    (dict(block_table=TABLE, append=NEW, rotary=(normal(9, 5), normal(9, 5))), "rotary"),
    (dict(block_table=TABLE, append=NEW, positions=USED), "positions"),
    (dict(block_table=TABLE, new_starts=USED), "new_starts"),
    (dict(block_table=TABLE, append=NEW, new_starts=np.array([0, 1, 2], "int32")), "new_starts"),
])  # fmt: skip
def test_refused(options, message):
    """What cannot be is said in a sentence, and nothing is written."""
    k, v = options.get("k", K.copy()), V.copy()
    with pytest.raises((weft.Invalid, weft.Unsupported), match=message):
        weft.attention(**{"q": Q, "v": v, "kv_used": USED, **options, "k": k})
    np.testing.assert_array_equal(v, V)
    np.testing.assert_array_equal(k, K)


def test_what_is_asked_for_has_names():
    assert weft.features.named(weft.features.asked(Q, block_table=TABLE, append=NEW, rotary=ROTARY)) == ("block_table", "append", "rotary")
