# SPDX-License-Identifier: Apache-2.0
"""What an attention may have beside Q, K and V: masks, soft caps, sinks, slopes, biases, dropout, lengths; NumPy against fp64."""

import inspect

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from oracle import assert_close, attention
from strategies import features

RNG = np.random.default_rng(0)
Q, K, V = (RNG.standard_normal((2, 12, heads, 16)).astype("f") for heads in (4, 2, 2))
LENGTHS = ("q_starts", "kv_starts", "q_used", "kv_used", "kv_pad")


@settings(max_examples=120)
@given(features(qv=True))
def test_random_features(arguments):
    found = weft.attention(**arguments, return_lse=True, return_max=True)
    expected = attention(**arguments, return_max=True)
    for mine, theirs in zip(found, expected):
        assert_close(mine, theirs, arguments["q"].dtype)


@settings(max_examples=30)
@given(features(dtypes=("float32",)))
def test_lengths_that_are_known_give_the_same(arguments):
    known = {name: x.tolist() if name in LENGTHS else x for name, x in arguments.items()}
    np.testing.assert_array_equal(weft.attention(**arguments), weft.attention(**known))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_a_packed_batch_may_have_three_dimensions(layout):
    arrays = [x[0] if layout == "bshd" else x[0].swapaxes(0, 1).copy() for x in (Q, K, V)]
    options = dict(causal=True, layout=layout, return_lse=True, return_max=True)
    o, lse, most = weft.attention(*arrays, lengths=[5, 0, 7], kv_lengths=(4, 2, 6), **options)
    assert o.shape == arrays[0].shape and lse.shape == most.shape == (4, 12)
    starts = dict(q_starts=[0, 5, 5, 12], kv_starts=[0, 4, 6, 12])
    for mine, theirs in zip((o, lse, most), attention(*(x[None] for x in arrays), causal=True, layout=layout, return_max=True, **starts)):
        assert_close(mine, theirs[0], "float32")
    np.testing.assert_array_equal(o, weft.attention(*arrays, **starts, **options)[0])


def test_results_that_are_asked_for():
    o = weft.attention(Q, K, V)
    assert isinstance(o, np.ndarray)
    assert [x.shape for x in weft.attention(Q, K, V, return_max=True)] == [Q.shape, (2, 4, 12)]
    assert [x.shape for x in weft.attention(Q, K, V, return_lse=True, return_max=True)] == [Q.shape, (2, 4, 12), (2, 4, 12)]
    assert weft.attention(Q, K, V[..., :5]).shape == (2, 12, 4, 5)


def test_plans_fit_all_values(monkeypatch):
    """Arrays are not part of a plan; numbers and lists are."""
    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda *x, **y: made.append(x) or plan(*x, **y))
    for seed in range(3):
        used = np.array([seed, 11], "int32")
        found = weft.attention(Q, K, V, kv_used=used, dropout=0.5, seed=seed, scale=0.77)
        assert_close(found, attention(Q, K, V, kv_used=used, dropout=0.5, seed=seed, scale=0.77)[0], "float32")
    assert len(made) == 1
    weft.attention(Q, K, V, kv_used=[3, 4], scale=0.77)
    weft.attention(Q, K, V, kv_used=[3, 5], scale=0.77)
    assert len(made) == 3


def test_dropout_repeats_with_its_seed():
    first, again, other = (weft.attention(Q, K, V, dropout=0.5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(weft.attention(Q, K, V, dropout=0), weft.attention(Q, K, V))
    largest = 2**64 - 1
    assert_close(weft.attention(Q, K, V, dropout=0.5, seed=largest), attention(Q, K, V, dropout=0.5, seed=largest)[0], "float32")
    np.testing.assert_array_equal(*(weft.attention(Q, K, V, dropout=0.5, seed=seed) for seed in (largest, -1)))


@pytest.mark.parametrize("change, message", [
    ({"window": 3}, r"window 3 is not \(left, right\)"),
    ({"window": (1, 2, 3)}, r"window \(1, 2, 3\) is not"),
    ({"window": (1.5, 2)}, "window 1.5 is not a whole number"),
    ({"chunk": -1}, "chunk -1"),
    ({"chunk": "x"}, "chunk 'x' is not a whole number"),
    ({"prefix": 3, "causal": True, "window": (1, 1)}, "prefix 3 goes with no"),
    ({"softcap": -1.0}, "softcap -1 is not"),
    ({"softcap": "x"}, "softcap 'x' is not a number"),
    ({"dropout": 1.0}, "dropout 1 is not"),
    ({"seed": 0.5, "dropout": 0.1}, "seed 0.5 is not a whole number"),
    ({"seed": 2**64, "dropout": 0.1}, "seed 18446744073709551616 does not fit 64 bits"),
    ({"sinks": np.zeros(3, "f")}, r"sinks is \(3,\), not \(4,\)"),
    ({"sinks": np.zeros(4, "d")}, "sinks has dtype float64, not float32"),
    ({"sinks": np.zeros(8, "f")[::2]}, "sinks has stride 2"),
    ({"alibi": np.zeros((3, 4), "f")}, r"alibi is \(3, 4\)"),
    ({"alibi": np.zeros((2, 8), "f")[:, ::2]}, "with rows in one piece"),
    ({"bias": np.zeros((3, 1, 12, 12), "f")}, "does not broadcast"),
    ({"bias": np.zeros((1, 2, 1, 1, 12), "f")}, "does not broadcast"),
    ({"bias": np.zeros((12, 12), "e")}, "bias is fp16, not fp32"),
    ({"bias": np.zeros((1, 1), "f")}, "one value for all scores"),
    ({"bias": np.zeros((12, 12), "i")}, "bias has dtype int32"),
    ({"kv_used": np.zeros(2, "q")}, "kv_used has dtype int64, not int32"),
    ({"kv_used": np.zeros(3, "i")}, r"kv_used is \(3,\), not \(2,\)"),
    ({"kv_used": [1, 2, 3]}, "kv_used has 3 numbers for 2 sequences, not 2"),
    ({"kv_used": [1, 13]}, "kv_used of sequence 1 is 13"),
    ({"kv_used": np.array([1, 13], "i")}, "kv_used of sequence 1 is 13"),
    ({"kv_used": [1, 2**31]}, "kv_used has a number that is not between"),
    ({"kv_pad": [-1, 2]}, "kv_pad has a number that is not between"),
    ({"kv_starts": [0, 1, 12]}, "kv_starts needs q_starts"),
    ({"q_starts": [0, 12], "lengths": [12]}, "lengths and q_starts say the same"),
    ({"lengths": 12}, "lengths 12 is not a list"),
    ({"lengths": [12]}, "batch 2 of a packed batch is not 1"),
    ({"q_starts": []}, "q_starts is empty"),
    ({"qv": Q[:, :11]}, r"qv is \(2, 11, 4, 16\), not shaped like q but with v's head_dim: \(2, 12, 4, 16\)"),
    ({"qv": Q[..., :8]}, r"qv is \(2, 12, 4, 8\), not shaped"),
    ({"qv": Q[0]}, r"qv is \(12, 4, 16\), not shaped"),
    ({"qv": Q.astype("e")}, "qv is fp16 and q is fp32"),
    ({"qv": Q[..., ::-1]}, "the last dimension of qv has stride -1"),
])  # fmt: skip
def test_invalid(change, message):
    with pytest.raises(weft.Invalid, match=message) as caught:
        weft.attention(Q, K, V, **change)
    assert "\n" not in str(caught.value)


def test_a_latent_cache_is_keys_and_values():
    """Multi-head latent attention: K and V are slices of one array, and so are the queries."""
    cache, q = (RNG.standard_normal((2, 9, heads, 576)).astype("f") for heads in (1, 8))
    v, k, qv, rest = cache[..., :512], cache[..., 512:], q[..., :512], q[..., 512:]
    for options in ({}, {"scale": 0.1, "causal": True, "kv_used": np.array([9, 5], "int32")}):
        found, lse = weft.attention(rest, k, v, qv=qv, return_lse=True, **options)
        expected, sums = attention(q, cache, v, **options)
        assert_close(found, expected, "float32")
        assert_close(lse, sums, "float32")
    with pytest.raises(weft.Invalid, match="head dims of 72 and, for V, 512 are more than 576 together"):
        weft.attention(q[..., :72], cache[..., :72], v, qv=qv)


def test_arrays_of_one_framework():
    with pytest.raises(TypeError, match="sinks is a float"):
        weft.attention(Q, K, V, sinks=1.0)


def test_arguments_are_known_by_name():
    with pytest.raises(TypeError, match=r"^attention\(\) got an unexpected keyword argument 'softcup'"):
        weft.attention(Q, K, V, softcup=3.0)
    names = list(inspect.signature(weft.attention).parameters)
    assert names[:4] == ["q", "k", "v", "causal"] and {"window", "softcap", "lengths", "return_max"} < set(names)
    assert {"block_mask", *weft.features.ARRAYS} - set(names) == set(weft.blocks.ARRAYS)


def test_problems_have_them():
    problem = weft.Attention(48, 64, window=(8, 0), causal=True, head_dim_v=32, softcap=20.0)
    assert weft.plan(problem).json["problem"]["window"] == [8, 0]
    assert problem.flops == weft.Attention(48, 64, window=(8, 4), causal=True, head_dim_v=32).flops  # causal: none behind
    packed = weft.Attention(48, 64, lengths=(16, 0, 32), causal=True)
    assert packed.flops < weft.Attention(48, 64, causal=True).flops
    with pytest.raises(weft.Invalid, match="q_starts of sequence 1"):
        weft.plan(weft.Attention(48, 64, lengths=(16, 33)))
