# SPDX-License-Identifier: Apache-2.0
"""weft on torch and CuPy arrays of an NVIDIA GPU, against fp64 and torch's own kernels. JAX arrays are in test_jax.py."""

import itertools
import math
import threading

import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
import weft.torch  # noqa: E402
from weft import by_torch  # noqa: E402
from gpu_oracle import assert_within_twice, check_attention, run, sdpa  # noqa: E402

DTYPES = [torch.float16, torch.bfloat16]
HEAD_DIMS = range(56, 257, 8)


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 300), st.integers(1, 300), st.integers(1, 3), st.integers(1, 3), st.sampled_from(HEAD_DIMS),
       st.sampled_from(DTYPES), st.booleans(), st.sampled_from(["bshd", "bhsd"]), st.sampled_from([None, 0.05, 0.3]))  # fmt: skip
def test_random_problems(batch, seq, kv_seq, kv_heads, group, head_dim, dtype, causal, layout, scale):
    def tensor(length, heads):
        shape = (length, heads) if layout == "bshd" else (heads, length)
        return normal(batch, *shape, head_dim, dtype=dtype)

    q, k, v = tensor(seq, kv_heads * group), tensor(kv_seq, kv_heads), tensor(kv_seq, kv_heads)
    check_attention(q, k, v, layout, causal=causal, scale=scale)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_dim(head_dim):
    for dtype in DTYPES:
        q, k, v = normal(1, 260, 4, head_dim, dtype=dtype), *(normal(1, 390, 2, head_dim, dtype=dtype) for _ in range(2))
        check_attention(q, k, v, causal=dtype == torch.bfloat16)


@pytest.mark.parametrize("offset", [-150, -129, -1, 0, 1, 63, 200, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_offsets(head_dim, dtype, offset):
    """From one where no query sees a key to one where all see all."""
    q, k, v = (normal(1, n, 2, head_dim, dtype=dtype) for n in (150, 190, 190))
    check_attention(q, k, v, causal=True, offset=offset)


STEERED = {
    "rising": lambda key: key / 2,
    "falling": lambda key: 1e4 - 40 * key,
    "jump": lambda key: 1e4 * (key > 300),
    "one key": lambda key: torch.where(key == 100, 1e4, -1e4),
    "low": lambda key: -1e4 + 0 * key,
    "equal": None,
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("scores", STEERED)
def test_scores(scores, head_dim, dtype, causal):
    """Scores that grow along the keys, jump, are of the order of 1e4, or are all the same."""
    q, k, v = (normal(1, 700, 2, head_dim, dtype=dtype) for _ in range(3))
    if STEERED[scores]:
        q[..., 0] = 1
        k[..., 0] = STEERED[scores](torch.arange(700.0, device="cuda"))[:, None]
    else:
        k[:] = 0.25
    check_attention(q, k, v, causal=causal, offset=0 if causal else None, scale=1)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_negative_scale(head_dim):
    check_attention(*(normal(1, 100, 2, head_dim) for _ in range(3)), scale=-0.1, causal=True)


def test_a_cache_of_keys():
    """Few queries at the end of many keys, 8 heads to each of K and V."""
    cache = normal(2, 1024, 2, 2, 128)  # (batch, room, K and V, kv heads, head_dim)
    for seq in (1, 3, 17):
        for used in (1000, 1024):
            k, v = cache[:, :used].unbind(2)
            check_attention(normal(2, seq, 16, 128), k, v, causal=True)


def test_views():
    packed = normal(2, 100, 3, 4, 64)  # as a layer's projection gives them: (batch, seq, q and k and v, heads, head_dim)
    check_attention(*packed.unbind(2), causal=True)
    check_attention(*(x.transpose(1, 2) for x in packed.unbind(2)), layout="bhsd")
    wide = normal(2, 60, 4, 96)
    check_attention(wide[..., 32:], wide[:, ::2, :, :64], wide[:, 1::2, :, :64])
    shared = normal(1, 60, 4, 64).expand(2, 60, 4, 64)
    check_attention(normal(2, 60, 4, 64), shared, shared)
    check_attention(normal(2, 1, 4, 64).expand(2, 60, 4, 64), shared, shared)


@pytest.mark.parametrize("dispatch", ["grid", "static", "dynamic"])
@pytest.mark.parametrize("sweep", ["forward", "sawtooth"])
def test_schedules(sweep, dispatch):
    q = normal(2, 700, 4, 128)
    for order in ("head-first", "block-first", "reverse", "longest-first"):
        check_attention(q, q, q, causal=True, schedule={"sweep": sweep, "dispatch": dispatch, "order": order})


def test_current_stream_is_honoured():
    """The work must wait for what its own stream does, and only the stream is waited for."""
    stream = torch.cuda.Stream()
    q, a = normal(1, 512, 8, 64), normal(512, 512)
    weft.attention(q * 2, q, q), run(weft.matmul, a * 2, a)  # all that is loaded when it is first needed
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late, later = q * 2, a * 2
        o, c = weft.attention(late, q, q), weft.matmul(later, a)
    assert not stream.query()  # nothing waited
    stream.synchronize()
    torch.testing.assert_close(o, weft.attention(2 * q, q, q), rtol=0, atol=0)
    torch.testing.assert_close(c, weft.matmul(2 * a, a), rtol=0, atol=0)


@pytest.mark.parametrize("schedule", [None, {"dispatch": "dynamic"}, {"table": True}])
def test_a_graph_replays(schedule):
    q, k, a = normal(1, 256, 4, 64), normal(1, 256, 4, 64), normal(256, 256)
    weft.attention(q, k, k, schedule=schedule), run(weft.matmul, a, a, schedule=schedule)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, c = weft.attention(q, k, k, schedule=schedule), weft.matmul(a, a, schedule=schedule)
    for cache in (weft.compute._ready.clear, weft.compute._planned.cache_clear):
        cache()
    q.copy_(torch.randn_like(q)), a.copy_(torch.randn_like(a))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(o, weft.attention(q, k, k, schedule=schedule), rtol=0, atol=0)
    torch.testing.assert_close(c, weft.matmul(a, a, schedule=schedule), rtol=0, atol=0)


def test_gradients_and_compile():
    leaves = [normal(1, 128, 4, 64).requires_grad_() for _ in range(3)]
    compiled = torch.compile(lambda *x: weft.attention(*x, causal=True), fullgraph=True, backend="aot_eager")
    grads = torch.autograd.grad(compiled(*leaves).float().sum(), leaves)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    exact = torch.autograd.grad(by_torch.attention(*doubles, True, None, None, "bshd").sum(), doubles)
    peer = torch.autograd.grad(by_torch.attention(*leaves, True, None, None, "bshd").float().sum(), leaves)
    for mine, theirs, right in zip(grads, peer, exact):
        assert_within_twice(mine, theirs, right)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
def test_gradients_are_as_exact_as_cudnn(head_dim):
    """The root mean squares of errors are at most cuDNN's, in the mean, and nowhere more than 1.1 times as much."""
    over = []
    for kv_heads, causal, dtype in itertools.product([2, 8], [False, True], DTYPES):
        leaves = [normal(1, n, 1000, head_dim, dtype=dtype).requires_grad_() for n in (8, kv_heads, kv_heads)]
        grad, doubles = normal(1, 8, 1000, head_dim, dtype=dtype), [x.detach().double().requires_grad_() for x in leaves]
        mine = torch.autograd.grad(weft.attention(*leaves, causal=causal, layout="bhsd"), leaves, grad)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            theirs = torch.autograd.grad(sdpa(*leaves, is_causal=causal, enable_gqa=True), leaves, grad)
        exact = torch.autograd.grad(by_torch.attention(*doubles, causal, None, None, "bhsd"), doubles, grad.double())
        over += [((x - right).norm() / (y - right).norm()).item() for x, y, right in zip(mine, theirs, exact)]
    assert max(over) < 1.1 and math.prod(over) < 1, over


@pytest.mark.parametrize("head_dim,heads,kv_heads,seq,causal", [(128, 8, 8, 2048, False), (128, 16, 4, 2048, True), (64, 16, 16, 1024, True)])
def test_gradients_repeat_under_load(head_dim, heads, kv_heads, seq, causal):
    leaves = [normal(1, seq, n, head_dim).requires_grad_() for n in (heads, kv_heads, kv_heads)]
    o, grad = weft.attention(*leaves, causal=causal), normal(1, seq, heads, head_dim)
    first, load, side = torch.autograd.grad(o, leaves, grad, retain_graph=True), normal(3000, 3000), torch.cuda.Stream()
    for _ in range(1000):
        with torch.cuda.stream(side):
            load @ load
        again = torch.autograd.grad(o, leaves, grad, retain_graph=True)
        assert all(torch.equal(x, y) for x, y in zip(first, again))


def matrix(rows, cols, dtype, memory):
    if memory == "columns":
        return normal(cols, rows, dtype=dtype).T
    if memory == "sliced":
        return normal(rows, -(-cols // 8) * 8 + 24, dtype=dtype)[:, 16 : 16 + cols]
    return normal(rows, -(-cols // 8) * 8, dtype=dtype)[:, :cols]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("a_memory", ["rows", "columns", "sliced"])
@pytest.mark.parametrize("b_memory", ["rows", "columns", "sliced"])
def test_matmul(a_memory, b_memory, dtype):
    for m, n, k in ((256, 256, 128), (120, 72, 8), (8, 1000, 2048), (1024, 8, 200), (1000, 520, 264), (2048, 2304, 512)):
        a, b = matrix(m, k, dtype, a_memory), matrix(k, n, dtype, b_memory)
        assert_within_twice(run(weft.matmul, a, b), a @ b, a.double() @ b.double())


@pytest.mark.parametrize("m, n, k", [(1, 1, 8), (37, 61, 64), (129, 1, 24), (1, 300, 40), (255, 257, 264)])
def test_ragged_products(m, n, k):
    a, b = matrix(m, k, torch.bfloat16, "rows"), matrix(k, n, torch.bfloat16, "columns")
    c = run(weft.matmul, a, b)
    assert c.shape == (m, n)
    assert_within_twice(c, a @ b, a.double() @ b.double())


@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (1000, 520, 264), (37, 60, 64), (130, 34, 40), (300, 72, 33)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gated", [False, True])
def test_epilogues(gated, dtype, m, n, k):
    """On Hopper by its own kernels, but for those that copy less than 16 bytes at a time."""
    x, weight, bias = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype), normal(n, dtype=dtype)
    residual, rows = normal(m, n // 2 if gated else n, dtype=dtype), torch.rand(m, device="cuda")
    silu = torch.nn.functional.silu

    def expected(kind):
        z = rows.to(kind)[:, None] * (x.to(kind) @ weight.to(kind).T) + bias.to(kind)
        return (silu(z[:, : n // 2]) * z[:, n // 2 :] if gated else silu(z)) + residual.to(kind)

    how = {"gate": "silu"} if gated else {"activation": "silu"}
    c, sums = run(weft.matmul, x, weight.T, bias=bias, residual=residual, row_scale=rows, column_sums=True, **how)
    exact = expected(torch.float64)
    assert_within_twice(c, expected(torch.float32).to(dtype), exact)
    assert (sums - exact.sum(0)).abs().max() <= 1e-4 * exact.abs().sum(0).max()
    again = run(weft.matmul, x, weight.T, bias=bias, residual=residual, row_scale=rows, column_sums=True, **how)
    assert torch.equal(c, again[0]) and torch.equal(sums, again[1])


@pytest.mark.parametrize("m, n, k", [(64, 64, 33), (300, 70, 258), (129, 131, 7)])
def test_misaligned_products(m, n, k):
    """Lines of A and B that begin anywhere: 2 or 4 bytes are copied at a time."""
    a, b = normal(m, k), normal(k, n)
    assert_within_twice(run(weft.matmul, a, b), a @ b, a.double() @ b.double())


# What a product may be off by of the sum of the products of absolute values, beside what a sum in fp32 is.
SHARES = {"fp32": 2**-24, "bf16x3": 2**-15, "tf32": 2**-9}


@pytest.mark.parametrize("precision", list(SHARES))
@pytest.mark.parametrize("m, n, k", [(256, 256, 128), (37, 61, 33), (1, 300, 40), (1000, 520, 264), (130, 34, 1), (2048, 2304, 4096)])
def test_fp32(m, n, k, precision, capsys):
    """Of matrices that lie anyhow, beside torch's products in fp32 and by TF32, all against fp64."""
    for a_memory, b_memory in itertools.product(("rows", "columns", "sliced"), repeat=2):
        a, b = matrix(m, k, torch.float32, a_memory), matrix(k, n, torch.float32, b_memory)
        exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        c = run(weft.matmul, a, b, precision=precision)
        errors = {"weft": (c - exact).abs()}
        for name in ("highest", "high"):
            torch.set_float32_matmul_precision(name)
            errors[name] = (a @ b - exact).abs()
        torch.set_float32_matmul_precision("highest")
        with capsys.disabled():
            told = ", ".join(f"{name} {error.max() / size.max():.1e}" for name, error in errors.items())
            print(f"\n{m}x{n}x{k} {a_memory} {b_memory} by {precision}: {told}", end="")
        # Tensor cores cut sums off once in sixteen terms; torch's plain kernel rounds them.
        allowed = SHARES[precision] * size + (k / 8 + 8) * 2**-23 * size
        assert (errors["weft"] <= allowed).all()
        again = run(weft.matmul, a, b, precision=precision)
        assert torch.equal(c, again)


def test_gradients_of_fp32():
    a, b = normal(200, 72, dtype=torch.float32).requires_grad_(), normal(72, 130, dtype=torch.float32).requires_grad_()
    grad = torch.randn(200, 130, device="cuda")
    got = torch.autograd.grad(weft.matmul(a, b, activation="silu"), (a, b), grad)
    want = torch.autograd.grad(torch.nn.functional.silu(a.double() @ b.double()), (a, b), grad.double())
    for x, y in zip(got, want):
        torch.testing.assert_close(x.double(), y.double(), rtol=1e-4, atol=1e-4)


def test_fp32_in_a_graph():
    """A captured run has a workspace of its own."""
    a, b = normal(300, 200, dtype=torch.float32), normal(200, 400, dtype=torch.float32)
    weft.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = weft.matmul(a, b)
    a.copy_(normal(300, 200, dtype=torch.float32))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("order", ["raster-m", "raster-n", "group", "serpentine", "hilbert"])
def test_orders_of_products(order):
    a, b = normal(1100, 264), normal(264, 1304)
    for dispatch in ("grid", "static", "dynamic"):
        c = run(weft.matmul, a, b, schedule={"order": order, "dispatch": dispatch})
        assert_within_twice(c, a @ b, a.double() @ b.double())


def draw_groups(masked, seed, k, n, dtype, transposed):
    """Experts of unlike numbers of rows: a, b, the bounds on the GPU, and where each group is."""
    rows = [int(x) for x in torch.randint(0, 400, (9,), generator=torch.Generator().manual_seed(seed))]
    rows[3], rows[5] = 0, 1
    starts = [0, *itertools.accumulate(rows)]
    a = normal(9, max(rows), k, dtype=dtype) if masked else normal(starts[-1] + 11, k, dtype=dtype)
    b = normal(9, n, k, dtype=dtype).transpose(1, 2) if transposed else normal(9, k, n, dtype=dtype)
    here = [(g, slice(0, rows[g])) if masked else slice(starts[g], starts[g + 1]) for g in range(9)]
    bounds = torch.tensor(rows if masked else starts, dtype=torch.int32, device="cuda")
    return a, b, {"counts" if masked else "starts": bounds}, here


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_groups(masked, dtype):
    for seed, (k, n) in enumerate(((256, 512), (200, 72), (1024, 1000), (67, 35), (2048, 2304))):
        for transposed in (False, True):
            a, b, bounds, here = draw_groups(masked, seed, k, n, dtype, transposed)
            c = weft.grouped_matmul(a, b, **bounds, out=torch.full((*a.shape[:-1], n), 7, dtype=dtype, device="cuda"))
            left = torch.ones(c.shape[:-1], dtype=torch.bool, device="cuda")
            for g, rows in enumerate(here):
                left[rows] = False
                if c[rows].numel():
                    assert_within_twice(c[rows], a[rows] @ b[g], a[rows].double() @ b[g].double())
            assert (c[left] == 7).all()


def test_groups_in_a_graph():
    """A capture reads bounds when it is replayed, and nothing waits for them."""
    a, b, bounds, _ = draw_groups(False, 1, 512, 768, torch.bfloat16, True)
    _, _, other, here = draw_groups(False, 2, 512, 768, torch.bfloat16, True)
    a = normal(4096, 512)
    out = torch.zeros(4096, 768, dtype=torch.bfloat16, device="cuda")
    weft.grouped_matmul(a, b, **bounds, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weft.grouped_matmul(a, b, **bounds, out=out)
    bounds["starts"].copy_(other["starts"])
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    for g, rows in enumerate(here):
        if out[rows].numel():
            assert_within_twice(out[rows], a[rows] @ b[g], a[rows].double() @ b[g].double())
    bounds["starts"].copy_(torch.randint(-(2**31), 2**31 - 1, (10,)))  # wrong ones do no harm
    graph.replay()
    torch.cuda.synchronize()


def test_gradients_of_groups():
    a, b, bounds, here = draw_groups(False, 3, 128, 192, torch.bfloat16, True)
    a, b, starts = a.requires_grad_(), b.detach().requires_grad_(), bounds["starts"].tolist()
    c = weft.grouped_matmul(a, b, starts=starts)
    want = torch.cat([a[rows] @ b[g] for g, rows in enumerate(here)])
    grad = torch.randn_like(c)
    got, exact = torch.autograd.grad(c, (a, b), grad), torch.autograd.grad(want, (a, b), grad[: len(want)])
    for x, y in zip(got, exact):
        torch.testing.assert_close(x, y, rtol=2e-2, atol=2e-1)
    with pytest.raises(weft.Unsupported, match="give starts or counts as a list"):
        weft.grouped_matmul(a, b, **bounds)


def test_refused():
    q = torch.randn(1, 4, 2, 64, dtype=torch.float16)
    with pytest.raises(weft.Invalid, match="k and q are on different devices"):
        weft.attention(q.cuda(), q, q)
    with pytest.raises(weft.Invalid, match="b and a are on different devices"):
        weft.matmul(q[0, 0].cuda(), q[0, 0].T)
    with pytest.raises(weft.Unsupported, match="dtype fp32|not fp32"):
        weft.attention(*[q.float().cuda()] * 3)
    with pytest.raises(weft.Unsupported, match="not fp32"):
        weft.grouped_matmul(torch.ones(8, 8, device="cuda"), torch.ones(2, 8, 8, device="cuda"), starts=[0, 4, 8])
    with pytest.raises(weft.Invalid, match="aligned to 16 bytes"):
        weft.attention(*[normal(1, 8, 2, 72)[..., 1:65]] * 3)
    with pytest.raises(weft.Invalid, match="the last dimension of q has stride 2"):
        weft.attention(*[normal(1, 8, 2, 128)[..., ::2]] * 3)
    weft.torch._announced.clear()
    with pytest.warns(RuntimeWarning, match="weft leaves an attention to torch"):
        weft.torch.attention(*[q.float().cuda()] * 3)


class TestCupy:
    @pytest.fixture
    def cupy(self):
        return pytest.importorskip("cupy", reason="CuPy is not importable here")

    def test_attention(self, cupy):
        q, k = normal(2, 70, 4, 64, dtype=torch.float16), normal(2, 90, 2, 64, dtype=torch.float16)
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            torch.cuda.synchronize()
            with stream:
                x, y = (cupy.from_dlpack(t) for t in (q, k))
                o, lse = weft.attention(x * 2, y, y, causal=True, return_lse=True)
                stream.synchronize()
            assert isinstance(o, cupy.ndarray) and o.dtype == x.dtype and lse.dtype == cupy.float32
            expected = weft.attention(q * 2, k, k, causal=True, return_lse=True)
            for found, right in zip((o, lse), expected):
                torch.testing.assert_close(torch.from_dlpack(found), right, rtol=0, atol=0)

    def test_matmul(self, cupy):
        a, b = (cupy.from_dlpack(normal(64, 64, dtype=torch.float16)) for _ in range(2))
        c = run(weft.matmul, a, b.T)
        assert isinstance(c, cupy.ndarray)
        mine, left, right = (torch.from_dlpack(x) for x in (c, a, b))
        assert_within_twice(mine, left @ right.T, left.double() @ right.double().T)

    def test_a_graph_replays(self, cupy):
        q, stream = cupy.from_dlpack(normal(1, 64, 2, 64, dtype=torch.float16)), cupy.cuda.Stream(non_blocking=True)
        torch.cuda.synchronize()
        with stream:
            expected = weft.attention(q, q, q)
            weft.attention(q, q, q)  # leaves CuPy's pool memory for the next: none can be allocated in a capture
            stream.begin_capture()
            o = weft.attention(q, q, q)
            graph = stream.end_capture()
            o.fill(0)
            graph.launch(stream)
            stream.synchronize()
        assert torch.equal(torch.from_dlpack(o), torch.from_dlpack(expected))

    def test_frameworks_are_not_mixed(self, cupy):
        with pytest.raises(TypeError, match="q is an array of torch and k one of cupy"):
            weft.attention(normal(1, 4, 2, 64), *[cupy.zeros((1, 4, 2, 64), "e")] * 2)


def test_ranks_on_one_gpu():
    """Ranks that are threads share the GPU and stage their messages; NCCL has one rank."""
    q, k, v, grad_o = (normal(1, 1000, heads, 128) for heads in (8, 2, 2, 8))
    sinks = normal(8, dtype=torch.float32)

    def leaves():
        return [x.clone().requires_grad_() for x in (q, k, v, sinks)]

    def pass_over(group):
        *rows, mine_of_all = leaves()
        mine = [weft.dist.split(x, group) for x in rows]
        for x in mine:
            x.retain_grad()
        o = weft.dist.attention(*mine, group=group, causal=True, sinks=mine_of_all)
        with torch.autograd.set_multithreading_enabled(False):
            o.backward(weft.dist.split(grad_o, group))
        return [*(weft.dist.join(x, group) for x in (o.detach(), *(x.grad for x in mine))), mine_of_all.grad]

    whole = leaves()
    o = weft.attention(*whole[:3], causal=True, sinks=whole[3])
    o.backward(grad_o)
    wanted = [o.detach(), *(x.grad for x in whole)]
    threads, found = weft.dist.Threads(4), [None] * 5
    started = [threading.Thread(target=lambda rank=rank: found.__setitem__(rank, pass_over(threads.rank(rank)))) for rank in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    try:
        found[4] = pass_over(weft.dist.Nccl(0, 1, weft.dist.nccl_id(), words=weft.dist.Threads(1).rank(0)))
    except weft.NotFound:
        found.pop()  # no NCCL here
    for got in found:
        for mine, theirs in zip(got, wanted):
            assert (mine.float() - theirs.float()).abs().max() <= 0.02 * max(1, theirs.float().abs().max().item())


@pytest.mark.parametrize("cut", ["m", "k"])
def test_products_of_ranks_on_one_gpu(cut):
    """Ranks that are threads share the GPU and stage their messages."""
    a, b = normal(384, 512), normal(512, 1024)
    wanted = a.float() @ b.float()
    threads, found = weft.dist.Threads(4), [None] * 4

    def run(rank):
        made = weft.dist.Matmul(weft.Gemm(384, 1024, 512, "bf16"), threads.rank(rank), cut=cut)
        found[rank] = made.join(made(made.pick(a, "a"), made.pick(b, "b")))

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for got in found:
        assert (got.float() - wanted).abs().max() <= 0.02 * wanted.abs().max()
