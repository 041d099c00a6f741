# SPDX-License-Identifier: Apache-2.0
"""Attention over ranks: threads here, processes by torch and by MPI in dist_ranks.py."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy
import pytest
import weft
from weft import compute, dist, ranks

HERE = pathlib.Path(__file__).resolve().parent
SEQ = 53


def on_threads(size, function, failing=False):
    """What function(group) gives at each rank; failing: or raises."""
    threads, results = dist.Threads(size), [None] * size

    def run(rank):
        try:
            results[rank] = function(threads.rank(rank))
        except Exception as error:
            results[rank] = error

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    errors = [result for result in results if isinstance(result, Exception)]
    if errors and not failing:
        raise min(errors, key=lambda error: isinstance(error, weft.Failed))  # the others wait for who has failed
    return results


def draw(*shapes):
    generator = numpy.random.default_rng(1)
    return [generator.standard_normal(shape, dtype=numpy.float32) for shape in shapes]


def near(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert numpy.abs(a - b).max() <= 2e-6 * max(1, numpy.abs(b).max())


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_simple_calls(size, layout):
    axis = weft.problems.SEQ_AND_HEAD[layout][0]
    shapes = [(2, SEQ, 4, 16), (2, SEQ, 2, 16), (2, SEQ, 2, 8)]
    q, k, v = draw(*(shape if axis == 1 else (shape[0], shape[2], shape[1], shape[3]) for shape in shapes))

    def run(group):
        mine = [dist.split(x, group, axis=axis) for x in (q, k, v)]
        o, lse = dist.attention(*mine, group=group, causal=True, seq=SEQ, kv_seq=SEQ, layout=layout, return_lse=True)
        return dist.join(o, group, axis=axis, seq=SEQ), dist.join(lse, group, axis=2, seq=SEQ)

    want = weft.attention(q, k, v, causal=True, layout=layout, return_lse=True)
    for result in on_threads(size, run):
        near(result[0], want[0])
        near(result[1], want[1])


PROBLEMS = [
    ({"causal": True}, {}), ({"window": (5, 2)}, {"exchange": "all-gather"}), ({"chunk": 9, "causal": True}, {"cut": "contiguous"}),
    ({"prefix": 7, "causal": True}, {"order": "zigzag"}), ({"softcap": 3.0}, {"cut": "striped"}),
    ({"lengths": (20, 1, 32), "causal": True, "batch": 1}, {"cut": "balanced"}), ({}, {"exchange": "heads"}),
    ({"causal": True}, {"sweep": "forward", "most_keys": 11}), ({"causal": True}, {"head_ranks": 2}),
]  # fmt: skip


@pytest.mark.parametrize("options, how", PROBLEMS)
def test_problems(options, how):
    """Forward and backward, against one process, with as many bytes as expected."""
    options = dict(options)
    batch = options.pop("batch", 2)
    q, k, v, grad_o = draw((batch, SEQ, 4, 16), (batch, SEQ, 2, 16), (batch, SEQ, 2, 16), (batch, SEQ, 4, 16))
    sinks = draw((4,))[0]
    problem = weft.Attention(seq=SEQ, head_dim=16, batch=batch, heads=4, kv_heads=2, **options)

    def run(group):
        made = dist.Attention(problem, group, **how)
        mine = [made.pick(x, of) for x, of in ((q, "q"), (k, "k"), (v, "v"), (grad_o, "o"))]
        o, lse = made(*mine[:3], sinks=sinks, return_lse=True)
        assert made.counted() == made.expected()
        grads = made.backward(mine[3], *mine[:3], o, lse, sinks=sinks)
        assert len(grads) == 4
        counted, expected = made.counted(backward=True), made.expected(backward=True)
        # On paper nobody knows of the sinks, whose gradients all send to all.
        assert counted.sent == expected.sent + (made.size - 1) * 4 * 4 and counted.messages == expected.messages + made.size - 1
        again = numpy.full_like(q, 7)
        for rank in range(made.size):
            made.put(again, made.pick(q, "q", rank), "q", rank)
        assert (again == q).all()
        return [made.join(x, of) for x, of in zip((o, *grads[:3]), "oqkv")], grads[3]

    packed = options.pop("lengths", None)
    if packed:
        options["lengths"] = list(packed)
    asked = weft.features.asked(q, sinks=sinks, **{name: x for name, x in options.items() if name != "causal"})
    causal = options.get("causal", False)
    o, lse, _ = compute.attention_forward(q, k, v, causal, None, None, "bshd", True, None, None, asked)
    grads = compute.attention_backward(q, k, v, grad_o, o, lse, causal, None, None, "bshd", asked)
    for results, sink_grads in on_threads(4, run):
        for got, want in zip(results, (o, *grads[:3])):
            near(got, want)
        near(sink_grads, grads[3])


def test_slopes_and_biases():
    q, k, v, bias = draw((2, SEQ, 4, 8), (2, SEQ, 4, 8), (2, SEQ, 4, 8), (2, 4, SEQ, SEQ))
    alibi, hidden = numpy.abs(draw((2, 4))[0]), bias > 0

    def run(group, given):
        made = dist.Attention(weft.Attention(seq=SEQ, head_dim=8, batch=2, heads=4), group, cut="zigzag")
        mine = dict(given)
        if "bias" in mine:
            rows = [row for chunk in made.rows() for row in chunk]
            mine["bias"] = numpy.ascontiguousarray(mine["bias"][:, :, rows])
        return made.join(made(*(made.pick(x) for x in (q, k, v)), **mine))

    for given in ({"alibi": alibi}, {"alibi": alibi[0]}, {"bias": bias}, {"bias": hidden}):
        for result in on_threads(3, lambda group, given=given: run(group, given)):
            near(result, weft.attention(q, k, v, **given))


def test_wrong_calls():
    q = draw((1, 8, 2, 8))[0]
    group = dist.Threads(2).rank(0)
    wrong = [
        ("group is weft.dist.Threads", lambda: dist.attention(q, q, q, group=dist.Threads(2))),
        ("group is a str", lambda: dist.attention(q, q, q, group="all")),
        ("q is (1, 8, 2, 8), and of rank 0 it is (1, 5, 2, 8)", lambda: dist.attention(q, q, q, group=group, seq=10, kv_seq=10)),
        ("there is no cut 'diagonal' across ranks: contiguous, striped, zigzag, balanced", lambda: dist.Attention(weft.Attention(seq=8), group, cut="diagonal")),
        ("there is no exchange 'mail' across ranks: ring, all-gather, heads", lambda: dist.Attention(weft.Attention(seq=8), group, exchange="mail")),
        ("there is no order 'up' across ranks: ring, ", lambda: dist.Attention(weft.Attention(seq=8), group, order="up")),
        ("a balanced one depends on the mask", lambda: dist.split(q, group, cut="balanced")),
        ("q has 3 dimensions", lambda: dist.attention(q[0], q, q, group=group)),
        ("of 'x' is not", lambda: dist.Attention(weft.Attention(seq=8), group).rows("x")),
        ("rank 2 is not one of 2", lambda: dist.Attention(weft.Attention(seq=8), group).rows("q", 2)),
        ("part has 8 rows, and rank 0 has 5", lambda: dist.join(q, group, seq=10)),
        ("dtype float64", lambda: dist.attention(q.astype("float64"), q, q, group=group)),
        ("more than seq 1", lambda: dist.Attention(weft.Attention(seq=1), group)),
    ]  # fmt: skip
    for words, call in wrong:
        with pytest.raises((weft.Invalid, TypeError)) as caught:
            call()
        assert words in str(caught.value)


def test_a_rank_that_does_not_come_is_named():
    q = draw((1, 30, 2, 8))[0]

    def run(group):
        if group.rank == 1:
            return None
        mine = dist.split(q, group)
        return dist.attention(mine, mine, mine, group=group, seconds=1)

    results = on_threads(3, run, failing=True)
    for rank in (0, 2):
        assert isinstance(results[rank], weft.Failed) and str(results[rank]).startswith("rank 1 has not answered for 1 s")


def test_a_join_that_is_alone_ends():
    group = dist.Threads(2).rank(0)
    with pytest.raises(weft.Failed, match=r"ranks \[1\] have not answered for 0.1 s"):
        dist.join(draw((1, 4, 1, 8))[0], group, seconds=0.1)


class Broken(ranks.Torch):
    """Callbacks that raise: nothing of torch is needed for that."""

    def __init__(self, size, error):
        self._error, self._requests = error, {}
        callbacks = (ranks._BEGIN(self._guarded(self._raise)), ranks._BEGIN(self._guarded(self._raise)), ranks._TEST(self._guarded(self._raise)),
                     ranks._CANCEL(self._cancel))  # fmt: skip
        self._callbacks = callbacks
        words = (ranks.cast(callback, ranks.c_void_p).value for callback in callbacks)
        ranks.Group.__init__(self, weft._c.Transport(None, 0, size, 0, *words))

    def _raise(self, *_):
        raise self._error


def test_exceptions_do_not_cross_the_library():
    q = draw((1, 8, 2, 8))[0]
    for error, kind in ((RuntimeError("the line is cut"), weft.Failed), (KeyboardInterrupt(), KeyboardInterrupt)):
        with pytest.raises(kind) as caught:
            dist.attention(q, q, q, group=Broken(2, error))
        if kind is weft.Failed:
            assert "RuntimeError: the line is cut" in str(caught.value) and caught.value.__cause__ is error


# ---- processes ----


def command(*arguments):
    return [sys.executable, str(HERE / "dist_ranks.py"), *map(str, arguments)]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_torch_processes(size, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(command("torch", rank, size, tmp_path / "meeting"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=environment) for rank in range(size)]  # fmt: skip
    said = [process.communicate()[0] for process in started]
    assert [(process.returncode, text.splitlines()[-1:]) for process, text in zip(started, said)] == [(0, ["well"])] * size, "\n".join(said)


def why_no_mpi():
    if importlib.util.find_spec("mpi4py") is None or not shutil.which("mpirun"):
        return "no mpi4py or no mpirun"
    try:
        ranks._mpi_library()
    except weft.NotFound as error:
        return str(error)
    return None


@pytest.mark.skipif(why_no_mpi() is not None, reason=str(why_no_mpi()))
@pytest.mark.parametrize("size", [1, 4])
def test_mpi_processes(size):
    ran = subprocess.run([HERE.parent / "dist" / "mpirun.sh", "-n", str(size), *command("mpi")], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.count("well") == size, ran.stdout + ran.stderr


# ---- products ----

M, N, K = 37, 29, 41


@pytest.mark.parametrize("cut", ["m", "k"])
@pytest.mark.parametrize("how", [{}, {"exchange": "all-gather"}, {"order": "zigzag"}, {"most_rows": 5}, {"columns": 2, "order": "mesh-cycle"}])
@pytest.mark.parametrize("transposed", [False, True])
def test_products(cut, how, transposed):
    """Against one process, with as many bytes as expected; also more ranks than there are lines."""
    a, b, bias = draw((M, K), (K, N), (N,))

    def run(group):
        made = dist.Matmul(weft.Gemm(M, N, K), group, cut=cut, **how)
        mine = [made.pick(a, "a"), made.pick(b, "b")]
        mine = [numpy.asfortranarray(x) if transposed else x for x in mine]
        own = made.pick(numpy.broadcast_to(bias, (M, N)), "c")[0].copy() if cut == "m" else bias
        c = made(*mine, bias=own)
        assert made.counted() == made.expected()
        return made.join(c)

    for got in on_threads(4, run):
        near(got, weft.matmul(a, b, bias=bias))


@pytest.mark.parametrize("cut", ["m", "k"])
def test_product_with_few_lines(cut):
    a, b = draw((3, 2), (2, 3))

    def run(group):
        made = dist.Matmul(weft.Gemm(3, 3, 2), group, cut=cut)
        return made.join(made(made.pick(a, "a"), made.pick(b, "b")))

    for got in on_threads(5, run):
        near(got, weft.matmul(a, b))


@pytest.mark.parametrize("cut", ["m", "k"])
def test_product_gradients(cut):
    torch = pytest.importorskip("torch")
    a, b, grad = (torch.from_numpy(x) for x in draw((M, K), (K, N), (M, N)))
    axes = {"m": {"a": 0, "b": 1, "c": 1}, "k": {"a": 1, "b": 0, "c": 0}}[cut]

    def run(group):
        pick = {of: dist.split(x, group, cut="contiguous", axis=axes[of]) for of, x in (("a", a), ("b", b), ("c", grad))}
        mine = [pick[of].clone().requires_grad_() for of in "ab"]
        c = dist.matmul(*mine, cut=cut, group=group, m=M, n=N, k=K)
        c.backward(pick["c"])
        return [(x.grad, dist.split(whole, group, cut="contiguous", axis=axes[of]))
                for x, of, whole in zip(mine, "ab", (grad @ b.T, a.T @ grad))]  # fmt: skip

    for result in on_threads(3, run):
        for got, want in result:
            near(got.numpy(), want.numpy())


def test_products_refuse():
    a, b = draw((4, 5), (5, 6))

    def run(group):
        with pytest.raises(weft.Invalid, match="'zigzag' of a product is not"):
            dist.matmul(a, b, cut="zigzag", group=group)
        with pytest.raises(weft.Invalid, match=r"b is \(5, 6\), and of rank 0 it is \(5, 3\)"):
            dist.Matmul(weft.Gemm(4, 3, 5), group, cut="m")(a, b)
        with pytest.raises(weft.Invalid, match="neither its rows nor its columns"):
            dist.matmul(numpy.zeros((8, 10), "float32")[::2, ::2], b, cut="m", group=group)

    on_threads(1, run)
