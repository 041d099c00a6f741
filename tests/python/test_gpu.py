"""weft on torch tensors of an NVIDIA GPU, against torch's attention."""

import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
import weft.torch  # noqa: E402

DTYPE = st.sampled_from([torch.float16, torch.bfloat16])


def close(found, expected, dtype):
    tolerance = 4e-3 if dtype == torch.float16 else 3e-2
    assert (found.double() - expected.double()).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


@settings(max_examples=80)
@given(st.integers(1, 3), st.integers(1, 300), st.integers(1, 300), st.integers(1, 3), st.integers(1, 3),
       st.sampled_from([64, 128]), DTYPE, st.booleans(), st.sampled_from(["bshd", "bhsd"]))  # fmt: skip
def test_random_problems(batch, seq, kv_seq, kv_heads, group, head_dim, dtype, causal, layout):
    def tensor(length, heads):
        shape = (batch, length, heads, head_dim) if layout == "bshd" else (batch, heads, length, head_dim)
        return torch.randn(shape, device="cuda").to(dtype)

    q, k, v = tensor(seq, kv_heads * group), tensor(kv_seq, kv_heads), tensor(kv_seq, kv_heads)
    o = weft.attention(q, k, v, causal=causal, layout=layout)
    expected = weft.torch._torch_attention(*(x.double() for x in (q, k, v)), causal, None, None, layout)
    close(o, expected, dtype)


def test_current_stream_is_honoured():
    """The attention must wait for what its own stream does, and only the stream is waited for."""
    stream = torch.cuda.Stream()
    q = torch.randn(1, 512, 8, 64, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = q * 2
        o = weft.attention(late, q, q)
    assert not stream.query()  # nothing waited
    stream.synchronize()
    close(o, weft.torch._torch_attention(2 * q, q, q, False, None, None, "bshd"), torch.float16)


@pytest.mark.parametrize("schedule", [None, {"dispatch": "dynamic"}, {"table": True}])
def test_a_graph_replays(schedule):
    q, k = (torch.randn(1, 256, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    weft.attention(q, k, k, schedule=schedule)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = weft.attention(q, k, k, schedule=schedule)
    weft.compute._ready.clear()
    weft.compute._planned.cache_clear()
    q.copy_(torch.randn_like(q))
    graph.replay()
    torch.cuda.synchronize()
    close(o, weft.torch._torch_attention(q, k, k, False, None, None, "bshd"), torch.bfloat16)


def test_gradients_and_compile():
    leaves = [torch.randn(1, 128, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(lambda *x: weft.attention(*x, causal=True), fullgraph=True, backend="aot_eager")
    grads = torch.autograd.grad(compiled(*leaves).float().sum(), leaves)
    expected = torch.autograd.grad(weft.torch._torch_attention(*leaves, True, None, None, "bshd").float().sum(), leaves)
    for mine, theirs in zip(grads, expected):
        close(mine, theirs, torch.bfloat16)


def test_devices_are_not_mixed():
    q = torch.randn(1, 4, 2, 64, dtype=torch.float16)
    with pytest.raises(weft.Invalid, match="k and q are on different devices"):
        weft.attention(q.cuda(), q, q)
    with pytest.raises(weft.Unsupported, match="no CUDA kernel for a matrix product"):
        weft.matmul(q[0, 0].cuda(), q[0, 0].T.cuda())
