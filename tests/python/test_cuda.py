# SPDX-License-Identifier: Apache-2.0
"""The way to a GPU without one: arrays of a made-up CuPy on the fake driver of tests/cuda, whose device memory is the host's."""

import ctypes
import functools
import os
import sys
import threading
import types

import numpy as np
import pytest
import weft
from oracle import assert_close, attention

FAKE = os.environ.get("WEFT_FAKE_CUDA")

pytestmark = pytest.mark.skipif(not FAKE, reason="WEFT_FAKE_CUDA names no fake driver: run.sh runs these in a process of their own")


class ndarray:
    """An array that says it is on a GPU."""

    __module__ = "cupy"

    def __init__(self, array, device=0):
        self.array, self.index, self.asked = array, device, []
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, stream=None, **options):
        self.asked.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return 2, self.index

    def __getitem__(self, key):
        return ndarray(self.array[key], self.index)


class Stream:
    ptr = 0
    capturing = False

    def is_capturing(self):
        return self.capturing


def on_device(shape, dtype):
    """A NumPy array in the fake device's memory, which lasts as long as the process."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    address = ctypes.c_uint64()
    assert ctypes.CDLL(FAKE).cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address.value), dtype).reshape(shape)


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.setenv("WEFT_CUDA_DRIVER", FAKE)
    stream = Stream()
    module = types.ModuleType("cupy")
    module.float32 = np.float32
    module.empty = lambda shape, dtype: ndarray(on_device(shape, dtype))
    module.cuda = types.SimpleNamespace(get_current_stream=lambda device=None: stream)
    module.stream = stream
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def array(seed, *shape, dtype=np.float16):
    x = on_device(shape, dtype)
    x[...] = np.random.default_rng(seed).standard_normal(shape)
    return ndarray(x)


@pytest.mark.parametrize("dispatch", [None, "static", "dynamic"])
def test_attention(cupy, dispatch):
    q, k, v = array(0, 2, 70, 4, 64), array(1, 2, 90, 2, 64), array(2, 2, 90, 2, 64)
    o, lse = weft.attention(q, k, v, causal=True, return_lse=True, schedule={"dispatch": dispatch})
    assert isinstance(o, ndarray) and isinstance(lse, ndarray)
    for found, expected in zip((o, lse), attention(q.array, k.array, v.array, causal=True)):
        assert_close(found.array, expected, "float16")


@pytest.mark.parametrize("options", [{}, {"sinks": None, "dropout": 0.3, "seed": 5}], ids=["plain", "features"])
def test_gradients(cupy, options):
    """With a workspace of the framework's own, so that a capture takes the run; as the CPU has them."""
    q, k, v, grad_o = array(0, 1, 70, 4, 64), array(1, 1, 90, 2, 64), array(2, 1, 90, 2, 64), array(3, 1, 70, 4, 64)
    if options:
        sinks = on_device((4,), np.float32)
        sinks[...] = 0.5
        options = {**options, "sinks": ndarray(sinks)}
    o, lse = weft.attention(q, k, v, return_lse=True, **options)
    on_cpu = {name: x.array if name == "sinks" else x for name, x in options.items()}
    asked, asked_on_cpu = (weft.features.asked(q, **x) if x else None for x in (options, on_cpu))
    numbers = (False, None, None, "bshd")
    for cupy.stream.capturing in (False, True):
        found = weft.compute.attention_backward(q, k, v, grad_o, o, lse, *numbers, asked)
        expected = weft.compute.attention_backward(*(x.array for x in (q, k, v, grad_o, o, lse)), *numbers, asked_on_cpu)
        assert len(found) == len(expected) == (4 if options else 3)
        for mine, theirs in zip(found, expected):
            assert_close(mine.array, theirs, "float16")


def test_the_stream_goes_both_ways(cupy, monkeypatch):
    enqueued = []
    call = weft._c.call
    monkeypatch.setattr(weft._c, "call", lambda f, *x: (enqueued.append(x[-1]) if "enqueue" in f.__name__ else None) or call(f, *x))
    for pointer, to_producer, to_weft in ((0, 1, None), (0x7000, 0x7000, 0x7000)):
        cupy.stream.ptr = pointer
        q = array(0, 1, 8, 1, 64)
        weft.attention(q, q, q)
        assert q.asked == [to_producer] * 3 and enqueued[-1] == to_weft


def test_a_plan_in_a_capture_is_kept(cupy):
    before = len(weft.plans._pinned)
    q = array(0, 1, 24, 1, 64)
    weft.attention(q, q, q)
    assert len(weft.plans._pinned) == before
    cupy.stream.capturing = True
    weft.attention(q, q, q)
    assert len(weft.plans._pinned) == before + 1


@pytest.fixture
def products(monkeypatch):
    """The fake driver has no kernels for products: plans for its GPU run on the CPU. Gives (device, stream) of each product."""
    seen, Plan, call = [], weft.plans.Plan, weft._c.call

    def plan(problem, schedule, machine, device, kernel, brings_workspace):
        seen.append([device])
        return Plan(problem, schedule, machine, (weft.plans.CPU, 0), kernel)

    def without_stream(function, *arguments):
        if function.__name__ == "weft_plan_enqueue":
            seen[-1].append(arguments[-1])
            arguments = (*arguments[:-1], None)
        return call(function, *arguments)

    monkeypatch.setattr(weft.plans, "Plan", plan)
    monkeypatch.setattr(weft._c, "call", without_stream)
    weft.compute._planned.cache_clear()
    yield seen
    weft.compute._planned.cache_clear()


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_matmul(cupy, products, turned):
    a, b = array(0, 40, 24), array(1, 24, 56)
    a, b = (ndarray(x.array.T.copy().T if turn else x.array) for x, turn in zip((a, b), turned))
    cupy.stream.ptr = 0x7000
    c = weft.matmul(a, b)
    assert isinstance(c, ndarray) and c.shape == (40, 56)
    assert_close(c.array, a.array.astype("d") @ b.array.astype("d"), "float16")
    assert products == [[(weft.plans.CUDA, 0), 0x7000]] and a.asked == b.asked == [0x7000]


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("bf16x3", 1e-3), ("tf32", 3e-2)])
def test_fp32(cupy, precision, tolerance):
    """Of any sizes and layouts; a launch before the product's writes what it reads to a workspace of the framework's."""
    for seed, (m, n, k) in enumerate(((40, 56, 24), (37, 61, 33), (1, 5, 1), (70, 3, 100))):
        a, b = array(2 * seed, m, k, dtype=np.float32), array(2 * seed + 1, *((n, k) if seed % 2 else (k, n)), dtype=np.float32)
        b = ndarray(b.array.T) if seed % 2 else b
        exact = a.array.astype("d") @ b.array.astype("d")
        for options in ({}, {"activation": "relu", "column_sums": True}):
            c = weft.matmul(a, b, precision=precision, **options)
            c, expected = (c[0], np.maximum(exact, 0)) if options else (c, exact)
            assert c.array.shape == (m, n) and c.array.dtype == np.float32
            np.testing.assert_allclose(c.array, expected, atol=tolerance)
    kernels = {"fp32": "gemm_bf16_kk", "bf16x3": "gemm_bf16_kk", "tf32": "gemm_tf32_kk"}
    plan = weft.plan(weft.Gemm(512, 512, 512, precision=precision), device="cuda")
    assert kernels[precision] in plan.text and plan.json["problem"].get("precision", "fp32") == precision


def test_epilogues(cupy):
    """By the fake's own products: what a launch is told of an epilogue, and the launch behind it that adds up columns."""
    a, b, residual = array(0, 40, 24), array(1, 24, 64), array(2, 40, 32)
    bias, rows = (ndarray(on_device(n, "float32")) for n in (64, 40))
    bias.array[:], rows.array[:] = np.linspace(-1, 1, 64), np.linspace(0, 2, 40)
    c, sums = weft.matmul(a, b, bias=bias, row_scale=rows, gate="relu", residual=residual, scale=0.5, column_sums=True)
    z = 0.5 * rows.array[:, None].astype("d") * (a.array.astype("d") @ b.array.astype("d")) + bias.array
    expected = np.maximum(z[:, :32], 0) * z[:, 32:] + residual.array
    assert isinstance(c, ndarray) and c.shape == (40, 32) and sums.shape == (32,)
    assert_close(c.array / 10, expected / 10, "float16")
    np.testing.assert_allclose(sums.array, expected.sum(0), atol=1e-3)


def test_a_product_in_a_capture_is_kept(cupy, products):
    a = array(0, 16, 16)
    before = len(weft.plans._pinned)
    weft.matmul(a, a)
    assert len(weft.plans._pinned) == before
    cupy.stream.capturing = True
    weft.matmul(a, a)
    assert len(weft.plans._pinned) == before + 1


def test_refused(cupy):
    q = array(0, 1, 8, 1, 64)
    with pytest.raises(weft.Invalid, match="k and q are on different devices"):
        weft.attention(q, ndarray(q.array, 1), q)
    with pytest.raises(weft.NotFound, match="GPU|device"):
        weft.attention(*[ndarray(q.array, 7)] * 3)
    with pytest.raises(weft.Invalid, match="aligned to 16 bytes"):
        weft.attention(*[ndarray(array(0, 1, 8, 1, 72).array[..., 1:65])] * 3)
    with pytest.raises(weft.Unsupported, match="dtype fp32"):
        weft.attention(*[ndarray(q.array.astype("f"))] * 3)
    with pytest.raises(weft.Invalid, match="b and a are on different devices"):
        weft.matmul(array(0, 8, 8), ndarray(array(1, 8, 8).array, 1))


def test_plan_and_machine(cupy):
    plan = weft.plan(weft.Attention(300, 64, heads=2, dtype="bf16"), {"order": "reverse"}, device="cuda")
    assert plan.device == "cuda:0" and len(plan.tiles()) == len(set(plan.tiles())) == np.prod(plan.grid)
    assert weft.Machine.gpu(0).workers >= 1


def test_combines_parts(cupy):
    parts, lses = [array(i, 2, 5, 3, 16) for i in range(2)], []
    for i in range(2):
        lses.append(ndarray(on_device((2, 3, 5), np.float32)))
        lses[i].array[...] = np.random.default_rng(i).standard_normal((2, 3, 5))
    o, lse = weft.combine(parts, lses, return_lse=True)
    weights = np.exp(np.stack([x.array for x in lses]).swapaxes(2, 3))[..., None]
    want = (np.stack([x.array for x in parts]) * weights).sum(0) / weights.sum(0)
    assert_close(o.array, want, "float16")
    assert_close(lse.array, np.log(weights.sum(0))[..., 0].swapaxes(1, 2), "float32")
    running = ndarray(on_device((2, 5, 3, 16), np.float32)), ndarray(on_device((2, 3, 5), np.float32))
    running[1].array[...] = -np.inf
    for part, of_part in zip(parts, lses):
        weft.combine([part], [of_part], into=running)
    assert_close(running[0].array, want, "float16")
    assert_close(running[1].array, lse.array, "float32")


@pytest.mark.parametrize("masked", [False, True])
def test_groups(cupy, masked):
    rows, starts = (5, 0, 9), [0, 5, 5, 14]
    a, b = array(0, 3, 9, 16) if masked else array(0, 14, 16), array(1, 3, 16, 24)
    bounds = ndarray(on_device((3 if masked else 4,), np.int32))
    bounds.array[...] = rows if masked else starts
    c = weft.grouped_matmul(a, b, **{"counts" if masked else "starts": bounds})
    for g, count in enumerate(rows):
        here = (g, slice(0, count)) if masked else slice(starts[g], starts[g + 1])
        assert_close(c.array[here], a.array[here].astype("d") @ b.array[g].astype("d"), "float16")


def test_tells_of_pages_that_are_none(cupy):
    q, k, v = array(0, 1, 1, 2, 64), array(1, 3, 4, 2, 64), array(2, 3, 4, 2, 64)
    table, used = (ndarray(on_device(shape, np.int32)) for shape in ((1, 2), (1,)))
    table.array[...], used.array[...] = [[2, 7]], 5
    weft.attention(q, k, v, block_table=table, kv_used=used)
    with pytest.raises(weft.Invalid, match="in an earlier run cache.table of sequence 0, entry 1 was 7, and there are 3 pages"):
        weft.attention(q, k, v, block_table=table, kv_used=used)
    weft.attention(q, k, v, block_table=table, kv_used=used)
    with pytest.raises(weft.Invalid, match="entry 1 was 7"):
        weft.check_runs()
    weft.check_runs()
    used.array[...] = 9
    table.array[...] = 1
    weft.attention(q, k, v, block_table=table, kv_used=used)
    with pytest.raises(weft.Invalid, match="lengths.kv_used of sequence 0 was 9, not between 0 and 8"):
        weft.check_runs()


def test_prepared(cupy, monkeypatch):
    """The first of the calls that share a weft.Prepared prepares the others; the fake kernel looks whether it was."""
    prepared, data, call = [], [], weft._c.call

    def seen(function, *arguments):
        if function.__name__ == "weft_plan_prepare":
            prepared.append(arguments[0])
        if function.__name__ == "weft_plan_enqueue":
            data.append(weft._c.AttentionData.from_buffer_copy(arguments[1]).prepared)
        return call(function, *arguments)

    monkeypatch.setattr(weft._c, "call", seen)
    q, k, v = array(0, 3, 1, 4, 64), array(1, 15, 64, 2, 64), array(2, 15, 64, 2, 64)
    table, used, others = (ndarray(on_device(shape, np.int32)) for shape in ((3, 5), (3,), (3,)))
    table.array[...], used.array[...], others.array[...] = np.arange(15).reshape(3, 5), [300, 7, 0], [1, 320, 2]

    def attention(lengths=used, **options):
        return weft.attention(q, k, v, block_table=table, kv_used=lengths, **options).array

    want = attention()
    assert (len(prepared), data) == (0, [0])
    shared = weft.Prepared()
    for _ in range(3):
        assert np.array_equal(attention(prepared=shared), want)
    assert (len(prepared), data) == (1, [0, 1, 1, 1])
    for options in ({"window": (100, 0)}, {"lengths": others}, {}):  # another plan, other lengths, and the first ones again
        for _ in range(2):
            assert np.array_equal(attention(prepared=shared, **options), attention(**options))
    assert len(prepared) == 4
    for cupy.stream.capturing in (True, False):
        for _ in range(2):
            assert np.array_equal(attention(prepared=shared), want)
    assert len(prepared) == 6
    packed, new = array(0, 3, 4, 64), (array(3, 4, 2, 64), array(4, 4, 2, 64))
    for starts in ((0, 1, 2, 3), (0, 0, 4, 4)):  # where new keys begin tells lengths, too
        new_starts = ndarray(on_device((4,), np.int32))
        new_starts.array[...] = starts
        options = dict(block_table=table, kv_used=used, lengths=[1, 1, 1], q_most=1, append=new, new_starts=new_starts)
        for _ in range(2):
            both = [weft.attention(packed, k, v, prepared=x, **options).array for x in (shared, None)]
            assert np.array_equal(*both)
    assert len(prepared) == 8


# ---- ranks ----


def on_ranks(groups, function):
    """What function(group) gives at each rank, which are threads; groups are called to be made."""
    results = [None] * len(groups)

    def run(rank):
        try:
            results[rank] = function(groups[rank]())
        except Exception as error:
            results[rank] = error

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(len(groups))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def ranks_by(how, size):
    """Ways for ranks to talk: by the host, and by the fake NCCL of tests/dist with words or without."""
    threads = weft.dist.Threads(size)
    if how == "staged":
        return [functools.partial(threads.rank, rank) for rank in range(size)]
    known = weft.dist.nccl_id()
    return [lambda rank=rank: weft.dist.Nccl(rank, size, known, words=threads.rank(rank) if how == "words" else None) for rank in range(size)]


@pytest.mark.parametrize("how", ["staged", "nccl", "words"])
def test_ranks_with_a_gpu_each(cupy, how):
    """Forward and backward, as one GPU has them; each rank's rows are whatever arrays the caller picks by rows()."""
    size, seq = 3, 50
    if how != "staged" and not os.environ.get("WEFT_NCCL_LIBRARY"):
        pytest.skip("WEFT_NCCL_LIBRARY names no fake NCCL")
    problem = weft.problems.Attention(seq=seq, head_dim=32, batch=1, heads=4, kv_heads=2, causal=True, dtype="fp16")
    whole = [np.random.default_rng(n).standard_normal((1, seq, heads, 32)).astype(np.float16) for n, heads in enumerate((4, 2, 2, 4))]

    def rows_of(x, rows):
        part = on_device((1, len(rows), *x.shape[2:]), np.float16)
        part[...] = x[:, rows]
        return ndarray(part)

    def run(group):
        attention = weft.dist.Attention(problem, group, cut="zigzag")
        rows = [row for chunk in attention.rows() for row in chunk]
        q, k, v, grad_o = (rows_of(x, rows) for x in whole)
        o, lse = attention(q, k, v, return_lse=True)
        grads = attention.backward(grad_o, q, k, v, o, lse)
        assert attention.counted() == attention.expected()
        return rows, [o.array, *(grad.array for grad in grads)]

    o, lse = weft.attention(*whole[:3], causal=True, return_lse=True)
    expected = [o, *weft.compute.attention_backward(*whole, o, lse, True, None, None, "bshd", None)]
    for rows, found in on_ranks(ranks_by(how, size), run):
        for mine, theirs in zip(found, expected):
            assert_close(mine, theirs[:, rows], "float16")


@pytest.mark.parametrize("how", ["staged", "words"])
@pytest.mark.parametrize("cut", ["m", "k"])
def test_products_over_ranks_with_a_gpu_each(cupy, how, cut):
    size, m, n, k = 3, 50, 96, 72
    if how != "staged" and not os.environ.get("WEFT_NCCL_LIBRARY"):
        pytest.skip("WEFT_NCCL_LIBRARY names no fake NCCL")
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float16) for seed, shape in enumerate(((m, k), (k, n))))
    expected = a.astype(np.float32) @ b

    def part_of(x, axis, lines):
        x = x.take(lines, axis)
        part = on_device(x.shape, np.float16)
        part[...] = x
        return ndarray(part)

    def run(group):
        made = weft.dist.Matmul(weft.Gemm(m, n, k, "fp16"), group, cut=cut)
        c = made(*(part_of(x, *made._lines(of, None)) for of, x in (("a", a), ("b", b))))
        assert made.counted() == made.expected()
        return made._lines("c", None), c.array

    for (axis, lines), found in on_ranks(ranks_by(how, size), run):
        assert_close(found, expected.take(lines, axis), "float16")


def test_ranks_on_gpus_refuse(cupy, monkeypatch):
    q = array(0, 1, 8, 2, 32)
    group = weft.dist.Threads(1).rank(0)
    with pytest.raises(weft.Unsupported, match="picked from torch tensors only"):
        weft.dist.split(q, group)
    with pytest.raises(weft.Unsupported, match="join.. of arrays of cupy on a GPU"):
        weft.dist.join(q, group)
    with pytest.raises(weft.Invalid, match="k and q are on different devices"):
        weft.dist.attention(q, ndarray(q.array, 1), q, group=group)
    x = on_device((8, 8), np.float16)
    with pytest.raises(weft.Invalid, match="b and a are on different devices"):
        weft.dist.matmul(ndarray(x), ndarray(x, 1), cut="m", group=group)
    with pytest.raises(weft.Invalid, match="id has 3 bytes"):
        weft.dist.Nccl(0, 1, b"abc")
    if os.environ.get("WEFT_NCCL_LIBRARY"):
        alone = weft.dist.Nccl(0, 1, weft.dist.nccl_id())
        with pytest.raises(weft.Invalid, match="the transport sends a GPU's memory, and the rank computes on the CPU"):
            weft.dist.attention(*[np.zeros((1, 8, 2, 32), "float32")] * 3, group=alone)
        with pytest.raises(weft.Unsupported, match="give it words"):
            weft.dist.join(np.zeros((1, 8), "float32"), alone)
