# SPDX-License-Identifier: Apache-2.0
"""What an attention may have beside Q, K and V on an NVIDIA GPU, through the torch operator and weft.flash_attn, against fp64."""

import random

import pytest
import weft

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
import torch_oracle  # noqa: E402
import weft.flash_attn as flash_attn  # noqa: E402
import weft.torch  # noqa: E402

TOLERANCE = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}  # of the largest value
LENGTHS = ("q_starts", "kv_starts", "q_used", "kv_used", "kv_pad")


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def integers(*values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def check(q, k, v, **options):
    """Runs it or skips, with the name of what this GPU's kernels do not have."""
    try:
        o, lse = weft.attention(q, k, v, return_lse=True, **options)
    except weft.Unsupported as error:
        pytest.skip(str(error))
    expected = torch_oracle.attention(*(x.double() for x in (q, k, v)), **options)
    assert (o.double() - expected).abs().max() <= TOLERANCE[q.dtype] * expected.abs().max().clamp(min=1)
    assert lse.dtype == torch.float32 and not lse.isnan().any()


CASES = {
    "window": lambda: dict(window=(100, 30)),
    "causal window": lambda: dict(causal=True, window=(64, 0)),
    "window with offset": lambda: dict(window=(64, 10), offset=37),
    "chunk": lambda: dict(chunk=96, causal=True),
    "prefix": lambda: dict(prefix=150, causal=True),
    "softcap": lambda: dict(softcap=15.0),
    "sinks": lambda: dict(sinks=normal(4, dtype=torch.float32)),
    "alibi": lambda: dict(alibi=torch.rand(2, 4, device="cuda") * 0.3, causal=True),
    "bias": lambda: dict(bias=normal(1, 4, 300, 410)),
    "bool bias": lambda: dict(bias=torch.rand(2, 1, 300, 410, device="cuda") < 0.7),
    "used": lambda: dict(q_used=integers(300, 17), kv_used=integers(410, 260), causal=True),
    "pad": lambda: dict(kv_pad=integers(0, 111), causal=True),
    "dropout": lambda: dict(dropout=0.2, seed=5),
    "softcap, window and sinks": lambda: dict(softcap=9.0, window=(70, 0), sinks=normal(4, dtype=torch.float32)),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim, head_dim_v", [(64, 64), (128, 128), (192, 128)])
@pytest.mark.parametrize("name", CASES)
def test_features(name, head_dim, head_dim_v, dtype):
    options = CASES[name]()
    if "bias" in options and options["bias"].dtype != torch.bool:
        options["bias"] = options["bias"].to(dtype)
    q, k, v = (normal(*shape, dtype=dtype) for shape in ((2, 300, 4, head_dim), (2, 410, 2, head_dim), (2, 410, 2, head_dim_v)))
    check(q, k, v, **options)


@pytest.mark.parametrize("options", [{}, dict(causal=True), dict(window=(50, 20)), dict(causal=True, softcap=10.0)], ids=str)
@pytest.mark.parametrize("known", [False, True])
def test_packed_batches(options, known):
    starts, kv_starts = [0, 70, 70, 71, 400, 650], [0, 5, 105, 300, 301, 800]
    q, k, v = normal(1, 650, 4, 128), normal(1, 800, 2, 128), normal(1, 800, 2, 128)
    lengths = dict(q_starts=starts, kv_starts=kv_starts)
    check(q, k, v, **options, **(lengths if known else {name: integers(*x) for name, x in lengths.items()}))


def test_a_graph_replays_with_other_lengths():
    """A plan for the most that tensors hold: lengths are read when the graph runs."""
    q, k, v, used = normal(2, 64, 4, 128), normal(2, 500, 2, 128), normal(2, 500, 2, 128), integers(500, 20)
    try:
        weft.attention(q, k, v, kv_used=used, causal=True)
    except weft.Unsupported as error:
        pytest.skip(str(error))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = weft.attention(q, k, v, kv_used=used, causal=True)
    for lengths in ((500, 20), (64, 65), (0, 400)):
        used.copy_(integers(*lengths))
        graph.replay()
        expected = torch_oracle.attention(*(x.double() for x in (q, k, v)), kv_used=used, causal=True)
        assert (o.double() - expected).abs().max() <= TOLERANCE[q.dtype] * 2


@pytest.mark.parametrize("queries, length", [(1, 37), (1, 5003), (3, 5003)])
def test_the_same_bits_in_any_batch(queries, length):
    """One sequence of a paged cache, in 1,000 random batches."""
    page, most, rng = 16, 6000, random.Random(length)
    k, v = normal(2000, page, 2, 128), normal(2000, page, 2, 128)
    table, q = torch.randint(2000, (16, -(-most // page)), device="cuda").int(), normal(16, queries, 16, 128)
    mine, expected = table[0].clone(), None
    for _ in range(1000):
        count = rng.randint(1, 16)
        at, lengths = rng.randrange(count), [round(most ** rng.random()) for _ in range(count)]
        lengths[at], rows = length, table[torch.randperm(16)[:count].cuda()]
        rows[at] = mine
        queries_of = q[:count].roll(at, 0)  # the first is at its place
        o = weft.attention(queries_of, k, v, block_table=rows, kv_used=integers(*lengths), causal=True)[at]
        expected = o if expected is None else expected
        assert torch.equal(o, expected)


@pytest.mark.parametrize("head_dim", [59, 111])
def test_head_dims_that_no_vector_holds(head_dim):
    q, k = normal(2, 130, 4, head_dim), normal(2, 200, 2, head_dim)
    expected = torch_oracle.attention(*(x.double() for x in (q, k, k)), causal=True)
    for found in (weft.torch.attention(q, k, k, causal=True), flash_attn.flash_attn_func(q, k, k, causal=True)):
        assert found.shape == q.shape and (found.double() - expected).abs().max() <= TOLERANCE[q.dtype] * expected.abs().max()


def check_gradients(attend, expected, given, weight):
    """The gradients of tensors of a dict by weft, and of the same in fp64 by torch."""
    mine = {name: x.clone().requires_grad_() for name, x in given.items()}
    theirs = {name: x.double().requires_grad_() for name, x in given.items()}
    found = torch.autograd.grad(attend(**mine), list(mine.values()), weight)
    right = torch.autograd.grad(expected(**theirs), list(theirs.values()), weight.double())
    for name, x, y in zip(given, found, right):
        y = y.nan_to_num()
        assert x.dtype == given[name].dtype and x.shape == given[name].shape and x.isfinite().all(), name
        assert (x.double() - y).abs().max() <= 2 * TOLERANCE[weight.dtype] * y.abs().max().clamp(min=1), name


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim, head_dim_v", [(64, 64), (128, 128), (192, 128), (256, 256), (40, 72)])
@pytest.mark.parametrize("name", ["none", "causal", *CASES])
def test_gradients(name, head_dim, head_dim_v, dtype):
    options = CASES[name]() if name in CASES else dict(causal=name == "causal")
    q, k, v = (normal(*shape, dtype=dtype) for shape in ((2, 300, 4, head_dim), (2, 410, 2, head_dim), (2, 410, 2, head_dim_v)))
    given = dict(q=q, k=k, v=v)
    for extra in ("sinks", "bias"):
        if extra in options and options[extra].dtype != torch.bool:
            given[extra] = options.pop(extra).to(torch.float32 if extra == "sinks" else dtype)
    check_gradients(lambda **x: weft.attention(**x, **options), lambda **x: torch_oracle.attention(**x, **options), given,
                    normal(2, 300, 4, head_dim_v, dtype=dtype))  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_gradients_of_packed_batches(dtype):
    starts = dict(q_starts=integers(0, 70, 70, 300), kv_starts=integers(0, 200, 260, 410))
    given = dict(q=normal(300, 4, 64, dtype=dtype), k=normal(410, 2, 64, dtype=dtype), v=normal(410, 2, 64, dtype=dtype))
    right = lambda q, k, v: torch_oracle.attention(q[None], k[None], v[None], causal=True, **starts)[0]  # noqa: E731
    weight = normal(300, 4, 64, dtype=dtype)
    check_gradients(lambda **x: weft.attention(**x, causal=True, **starts), right, given, weight)
    flash = lambda q, k, v: flash_attn.flash_attn_varlen_func(q, k, v, *starts.values(), 230, 200, causal=True)  # noqa: E731
    check_gradients(flash, right, given, weight)


def test_gradients_of_block_masks():
    mask = torch.rand(1, 4, 300, 410) < 0.6
    given = dict(q=normal(1, 300, 4, 64), k=normal(1, 410, 2, 64), v=normal(1, 410, 2, 64))
    blocks = weft.BlockMask(mask.numpy(), (64, 64))
    shown = mask.cuda()
    check_gradients(lambda **x: weft.attention(**x, block_mask=blocks), lambda **x: torch_oracle.attention(**x, bias=shown), given,
                    normal(1, 300, 4, 64))  # fmt: skip


@pytest.mark.parametrize("options", [dict(causal=True), dict(window=(60, 0), softcap=20.0)], ids=str)
def test_gradients_are_the_same_bits_every_time(options):
    leaves = [normal(2, 500, 4, 128).requires_grad_() for _ in range(3)]
    weight = normal(2, 500, 4, 128)
    first = torch.autograd.grad(weft.attention(*leaves, **options), leaves, weight)
    for _ in range(20):
        for x, y in zip(first, torch.autograd.grad(weft.attention(*leaves, **options), leaves, weight)):
            assert torch.equal(x, y)


def test_gradients_in_a_graph():
    """A captured backward pass has a workspace of its own."""
    leaves = [normal(1, 200, 2, 64).requires_grad_() for _ in range(3)]
    weight = normal(1, 200, 2, 64)
    run = lambda: torch.autograd.grad(weft.attention(*leaves, causal=True), leaves, weight)  # noqa: E731
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    weight.copy_(normal(1, 200, 2, 64))
    graph.replay()
    for x, y in zip(found, run()):
        assert torch.equal(x, y)


def test_gradients_that_are_not_there():
    q = normal(1, 64, 2, 264).requires_grad_()
    with pytest.raises(weft.Unsupported, match="not for torch.bfloat16 with 264"):
        weft.attention(q, q, q, window=(9, 0)).sum().backward()
    with pytest.raises(weft.Unsupported, match="gradient of alibi"):
        slopes = torch.rand(2, device="cuda", requires_grad=True)
        weft.attention(q[..., :64], q[..., :64], q[..., :64], alibi=slopes).sum().backward()


@pytest.mark.parametrize("extras", [{}, dict(causal=True, softcap=10.0)], ids=str)
@pytest.mark.parametrize("size", [(128, 128), (64, 64)])
def test_block_masks(size, extras):
    mask = torch.rand(1, 4, 300, 410) < 0.6
    mask[..., :128, 256:] = False
    mask[..., 128:256, :256] = True
    q, k, v = normal(2, 300, 4, 64), normal(2, 410, 2, 64), normal(2, 410, 2, 64)
    o = weft.attention(q, k, v, block_mask=weft.BlockMask(mask.numpy(), size), **extras)
    expected = torch_oracle.attention(*(x.double() for x in (q, k, v)), bias=mask.cuda(), **extras)
    assert (o.double() - expected).abs().max() <= TOLERANCE[q.dtype] * expected.abs().max().clamp(min=1)


def test_trees():
    parents, kv_seq = [-1, 0, 0, 1, 1, 2, 5], 333
    seen = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        seen[node] |= seen[parent] if parent >= 0 else False
    mask = torch.cat([torch.ones(len(parents), kv_seq - len(parents), dtype=torch.bool), seen], 1)
    q, k, v = normal(2, len(parents), 8, 128), normal(2, kv_seq, 2, 128), normal(2, kv_seq, 2, 128)
    o = weft.attention(q, k, v, tree=parents)
    expected = torch_oracle.attention(*(x.double() for x in (q, k, v)), bias=mask.expand(2, 1, -1, -1).cuda())
    assert (o.double() - expected).abs().max() <= TOLERANCE[q.dtype] * expected.abs().max().clamp(min=1)
