# SPDX-License-Identifier: Apache-2.0
"""weft.attention on NumPy arrays against fp64."""

import concurrent.futures
import threading

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from oracle import assert_close, attention
from strategies import attentions, schedules


@settings(max_examples=150)
@given(attentions())
def test_random_problems(arguments):
    o, lse = weft.attention(**arguments, return_lse=True)
    expected, expected_lse = attention(**arguments)
    assert isinstance(o, np.ndarray) and o.dtype == arguments["q"].dtype and lse.dtype == np.float32
    assert_close(o, expected, o.dtype)
    assert_close(lse, expected_lse, o.dtype)


@settings(max_examples=60)
@given(attentions(dtypes=("float32",)), schedules())
def test_every_schedule_gives_the_same(arguments, schedule):
    schedule["tile"] = (min(16, arguments["q"].shape[1 if arguments["layout"] == "bshd" else 2]), 0)
    assert_close(weft.attention(**arguments, schedule=schedule), attention(**arguments)[0], "float32")


def test_results_are_new_and_inputs_stay():
    q, k, v = (np.random.default_rng(i).standard_normal((1, 20, 2, 16)).astype("f") for i in range(3))
    before = [x.copy() for x in (q, k, v)]
    o = weft.attention(q, k, v)
    assert not any(np.shares_memory(o, x) for x in (q, k, v))
    for x, y in zip((q, k, v), before):
        np.testing.assert_array_equal(x, y)


def test_read_only_and_broadcast_inputs():
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 9, 4, 16)).astype("f"), rng.standard_normal((1, 11, 1, 16)).astype("f")
    k = np.broadcast_to(k, (2, 11, 4, 16))
    q.setflags(write=False)
    assert_close(weft.attention(q, k, k), attention(q, k, k)[0], "float32")
    one = np.broadcast_to(q[:, :, :1], q.shape)
    assert_close(weft.attention(one, k, k), attention(one, k, k)[0], "float32")


def test_a_query_that_sees_nothing():
    q, k = np.ones((1, 4, 1, 8), "f"), np.ones((1, 2, 1, 8), "f")
    o, lse = weft.attention(q, k, k, causal=True, return_lse=True)
    np.testing.assert_array_equal(o[0, :, 0, 0], [0, 0, 1, 1])
    assert np.isneginf(lse[0, 0, :2]).all() and np.isfinite(lse[0, 0, 2:]).all()


def test_threads_share_plans():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 65, 4, 32)).astype("f")
    expected, wrong = attention(q, q, q)[0], []

    def work():
        for _ in range(20):
            try:
                assert_close(weft.attention(q, q, q), expected, "float32")
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_lock_is_let_go():
    """While one long attention runs, Python goes on counting in another thread."""
    q = np.random.default_rng(0).standard_normal((1, 2048, 4, 64)).astype("f")
    counted, done = [0], threading.Event()

    def work():
        weft.attention(q, q, q)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.0005):
        counted[0] += 1
    thread.join()
    assert counted[0] >= 3


def test_bfloat16_of_ml_dtypes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = (np.random.default_rng(i).standard_normal((1, 33, 2, 64)).astype(bfloat16) for i in range(3))
    o = weft.attention(q, k, v, causal=True)
    assert o.dtype == bfloat16
    assert_close(o, attention(q, k, v, causal=True)[0], "bfloat16")


def test_plans_are_kept(monkeypatch):
    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda *x, **y: made.append(x) or plan(*x, **y))
    q = np.ones((1, 6, 2, 40), "f")
    first = weft.attention(q, q, q)
    weft.attention(q.copy(), q, q)
    assert len(made) == 1
    weft.attention(q, q, q, scale=0.5)
    weft.attention(q, q[:, ::2], q[:, ::2])
    weft.attention(q, q, q, scale=0.5, schedule={"sweep": "sawtooth"})
    assert len(made) == 4
    np.testing.assert_array_equal(weft.attention(q, q, q), first)
    for i in range(weft.compute._MOST_READY + 5):
        weft.attention(q, q, q, causal=True, offset=i)
    assert len(weft.compute._ready) == weft.compute._MOST_READY


def test_arrays_of_a_known_form_are_looked_at_again():
    """What the form does not tell: where the elements are, and whether they can be written to."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 5, 2, 8)).astype("f")
    expected = weft.attention(q, q, q)
    locked = q.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(weft.attention(locked, locked, locked), expected)
    odd = np.frombuffer(bytearray(q.nbytes + 1), np.uint8)[1:].view("f").reshape(q.shape)
    with pytest.raises(weft.Invalid, match="q is not aligned to its elements of 4 bytes"):
        weft.attention(odd, q, q)
    with pytest.raises(weft.Invalid, match="v is not aligned to its elements of 4 bytes"):
        weft.attention(q, q, odd)


def test_threads_at_the_edge_of_what_is_kept():
    """More forms than are kept, from several threads at once."""
    q = np.random.default_rng(0).standard_normal((1, 40, 1, 8)).astype("f")
    expected = {i: weft.attention(q[:, :i], q, q) for i in range(1, 41)}

    def work(seed):
        for i in np.random.default_rng(seed).integers(1, 41, 60):
            scale = float(np.random.default_rng(seed).uniform(0.1, 0.2))
            weft.attention(q[:, :i], q, q, scale=scale)
            np.testing.assert_array_equal(weft.attention(q[:, :i], q, q), expected[i])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(32)))


def test_results_in_float32():
    q, k, v = (np.random.default_rng(i).standard_normal((2, 60, 2, 16)).astype("float16") for i in range(3))
    out, exact = np.empty((2, 60, 2, 16), "f"), attention(q, k, v)[0]
    assert weft.attention(q, k, v, out=out) is out
    rounded = weft.attention(q, k, v)
    assert rounded.dtype == np.float16 and abs(out - exact).max() < abs(rounded - exact).max() / 2
    problem = weft.Attention(60, 16, 2, 2, dtype="fp16", o_dtype="fp32")
    assert "fp16, fp32 out" in weft.plan(problem).text
    with pytest.raises(weft.Invalid, match=r"o_dtype 3 \(bf16\) is neither dtype \(fp16\) nor fp32"):
        weft.plan(weft.Attention(60, 16, dtype="fp16", o_dtype="bf16"))
