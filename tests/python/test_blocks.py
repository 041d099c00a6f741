# SPDX-License-Identifier: Apache-2.0
"""Block masks and tree masks against dense masks in NumPy, and against torch's flex_attention."""

import importlib.util

import numpy as np
import pytest
import weft

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")


def dense(q, k, v, mask):
    """Attention of (batch, seq, heads, head_dim) in float64 under a mask (batch, heads, seq, kv_seq)."""
    q, k, v = (x.astype("float64").swapaxes(1, 2) for x in (q, k, v))
    k, v = (x.repeat(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = np.where(mask, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]), -np.inf)
    top = scores.max(3, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(3, keepdims=True)
    return (weights / np.where(total == 0, 1, total) @ v).swapaxes(1, 2)


def arrays(random, batch, seq, kv_seq, heads=4, kv_heads=2, head_dim=16):
    shapes = (batch, seq, heads, head_dim), (batch, kv_seq, kv_heads, head_dim), (batch, kv_seq, kv_heads, head_dim)
    return tuple(random.standard_normal(shape).astype("float32") for shape in shapes)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize("size", [(16, 32), (32, 64), (128, 128), 64])
def test_dense_masks(shape, size):
    random = np.random.default_rng(7)
    q, k, v = arrays(random, 2, 100, 150)
    mask = random.random((*shape, 100, 150)) < 0.5
    mask[..., :40, 64:] = False
    mask[..., 32:64, :64] = True
    mask[:, :, 90:] = False  # queries that see nothing
    blocks = weft.BlockMask(mask, size)
    o, lse = weft.attention(q, k, v, block_mask=blocks, return_lse=True)
    assert np.allclose(o, dense(q, k, v, mask), atol=1e-5)
    assert np.isneginf(lse[:, :, 90:]).all() and np.isfinite(lse[:, :, 32:64]).all()
    band = np.arange(150) <= np.arange(100)[:, None] + 50
    o = weft.attention(q, k, v, block_mask=blocks, causal=True, softcap=0.0, schedule={"sweep": "sawtooth"})
    assert np.allclose(o, dense(q, k, v, mask & band), atol=1e-5)


def test_blocks_share_bits():
    causal = weft.BlockMask(np.tri(1024, dtype=bool), 128)
    assert repr(causal) == "BlockMask(1x1x1024x1024, 36 blocks of 128x128)"
    assert causal.arrays(np.zeros(1))["block_bits"].size == 128 * 128 // 32
    whole = weft.BlockMask(np.ones((3, 5), bool), 128)
    assert whole.arrays(np.zeros(1))["block_bits"].size == 0


def test_no_block_is_seen():
    q, k, v = arrays(np.random.default_rng(1), 1, 20, 40)
    assert not weft.attention(q, k, v, block_mask=weft.BlockMask(np.zeros((20, 40), bool), 32)).any()


def ancestors(parents):
    seen = np.zeros((len(parents),) * 2, bool)
    for i, parent in enumerate(parents):
        seen[i] = seen[parent] if parent >= 0 else False
        seen[i, i] = True
    return seen


@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_trees(tokens):
    random = np.random.default_rng(tokens)
    q, k, v = arrays(random, 2, tokens, 200)
    parents = np.array([[random.integers(-1, i) if i else -1 for i in range(tokens)] for _ in range(2)])
    seen = np.stack([ancestors(row) for row in parents])
    mask = np.ones((2, 1, tokens, 200), bool)
    mask[:, 0, :, 200 - tokens :] = seen
    want = dense(q, k, v, mask)
    assert np.allclose(weft.attention(q, k, v, tree=parents), want, atol=1e-5)
    assert np.allclose(weft.attention(q, k, v, tree=seen), want, atol=1e-5)
    assert np.allclose(weft.attention(q, k, v, tree=parents.astype("int32"), causal=True), want, atol=1e-5)
    one = weft.attention(q, k, v, tree=list(parents[0]))
    mask[1] = mask[0]
    assert np.allclose(one, dense(q, k, v, mask), atol=1e-5)


def test_refusals():
    q, k, v = arrays(np.random.default_rng(1), 2, 70, 80)
    for mask, said in (
        (np.ones((70, 81), bool), "does not broadcast"), (np.ones((3, 1, 70, 80), bool), "does not broadcast"),
    ):  # fmt: skip
        with pytest.raises(weft.Invalid, match=said):
            weft.attention(q, k, v, block_mask=weft.BlockMask(mask, 32))
    with pytest.raises(weft.Invalid, match="not a weft.BlockMask or torch's"):
        weft.attention(q, k, v, block_mask=np.ones((70, 80), bool))
    with pytest.raises(weft.Invalid, match="multiples of 16 and of 32"):
        weft.BlockMask(np.ones((70, 80), bool), 24)
    with pytest.raises(weft.Invalid, match="of bools"):
        weft.BlockMask(np.ones((70, 80)), 32)
    with pytest.raises(weft.Invalid, match="at most 64"):
        weft.attention(q, k, v, tree=np.arange(70) - 1)
    with pytest.raises(weft.Invalid, match="7 tokens, and there are 70 queries"):
        weft.attention(q, k, v, tree=np.arange(7) - 1)
    with pytest.raises(weft.Invalid, match="does not come before it"):
        weft.attention(q[:, :2], k, v, tree=[1, 0])
    with pytest.raises(weft.Invalid, match="3 batches"):
        weft.attention(q[:, :2], k, v, tree=np.zeros((3, 2), int) - 1)
    with pytest.raises(weft.Unsupported, match="not for packed"):
        weft.attention(q[0, :2], k[0, :2], v[0, :2], lengths=[2], tree=[-1, 0])
    with pytest.raises(weft.Invalid, match="tile_m 48 does not divide the 32"):
        weft.attention(q, k, v, block_mask=weft.BlockMask(np.ones((70, 80), bool), 32), schedule={"tile": (48, 32)})


def _documents(torch):
    document = torch.tensor([0] * 90 + [1] * 150 + [2] * 60)

    def seen(b, h, q, k):
        return (q >= k) & (document[q] == document[k])

    return seen


@needs_torch
@pytest.mark.parametrize("kind", ["causal", "documents", "heads", "all"])
@pytest.mark.parametrize("seq", [256, 300])
def test_flex_attention(kind, seq):
    import torch
    from torch.nn.attention import flex_attention as flex

    functions = {
        "causal": lambda b, h, q, k: q >= k, "documents": _documents(torch),
        "heads": lambda b, h, q, k: (q - k).abs() <= 40 * (h + 1) + 30 * b, "all": lambda b, h, q, k: q >= 0,
    }  # fmt: skip
    torch.manual_seed(3)
    shapes = (2, 4, seq, 32), (2, 2, seq, 32), (2, 2, seq, 32)
    q, k, v = (torch.randn(shape, requires_grad=True) for shape in shapes)
    own = (2, 4) if kind == "heads" else (None, None)
    mask = flex.create_block_mask(functions[kind], *own, seq, seq, device="cpu", BLOCK_SIZE=64 if kind == "heads" else 128)
    o = weft.attention(q, k, v, block_mask=mask, layout="bhsd")
    with torch.no_grad():  # flex_attention has no gradients on a CPU, and needs the operator as little as weft does
        want = flex.flex_attention(q.detach(), k.detach(), v.detach(), block_mask=mask, enable_gqa=True)
        assert torch.allclose(o, want, atol=2e-5)
        assert torch.allclose(weft.attention(q, k, v, block_mask=mask, layout="bhsd"), want, atol=2e-5)
    shown = flex.create_mask(functions[kind], *(n or 1 for n in own), seq, seq, device="cpu")
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=shown, enable_gqa=True)
    grad = torch.randn_like(o)
    ours, theirs = (torch.autograd.grad(x, (q, k, v), grad) for x in (o, want))
    for x, y in zip(ours, theirs):
        assert torch.allclose(x, y, atol=1e-4)


@needs_torch
def test_tree_of_tensors():
    import torch

    q, k, v = (torch.randn(1, n, 2, 16, requires_grad=True) for n in (5, 30, 30))
    parents = torch.tensor([-1, 0, 0, 1, 2])
    bias = torch.ones(5, 30, dtype=torch.bool)
    bias[:, 25:] = torch.from_numpy(ancestors(parents.tolist()))
    o, want = weft.attention(q, k, v, tree=parents), weft.attention(q, k, v, bias=bias)
    assert torch.allclose(o, want, atol=1e-6)
    for x, y in zip(*(torch.autograd.grad(x.sum(), (q, k, v)) for x in (o, want))):
        assert torch.allclose(x, y, atol=1e-5)
