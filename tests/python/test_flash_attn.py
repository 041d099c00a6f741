# SPDX-License-Identifier: Apache-2.0
"""weft.flash_attn: the signatures and the meaning of FlashAttention's interface, against dense attention in fp64."""

import inspect

import numpy as np
import pytest
import weft
from oracle import assert_close

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
import torch_oracle  # noqa: E402
import weft.flash_attn as flash_attn  # noqa: E402
import weft.flash_attn_3 as flash_attn_3  # noqa: E402

OPTIONS = ["dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic", "return_attn_probs"]
VARLEN = ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
SIGNATURES = {  # what may be given by place
    "flash_attn_func": ["q", "k", "v", *OPTIONS],
    "flash_attn_qkvpacked_func": ["qkv", *OPTIONS],
    "flash_attn_kvpacked_func": ["q", "kv", *OPTIONS],
    "flash_attn_varlen_func": ["q", "k", "v", *VARLEN, *OPTIONS, "block_table"],
    "flash_attn_varlen_qkvpacked_func": ["qkv", "cu_seqlens", "max_seqlen", *OPTIONS],
    "flash_attn_varlen_kvpacked_func": ["q", "kv", *VARLEN, *OPTIONS],
}
DEFAULTS = dict(dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                deterministic=False, return_attn_probs=False, block_table=None)  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    parameters = inspect.signature(getattr(flash_attn, name)).parameters
    assert [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD] == SIGNATURES[name]
    assert all(parameters[option].default == default for option, default in DEFAULTS.items() if option in parameters)


def normal(*shape, seed=0):
    made = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("f"))
    return made.requires_grad_()


SLOPES = [[0.1, 0.2, 0.3, 0.4], [0.5, 0, 0.1, 1]]
CASES = {
    "causal": (dict(causal=True), dict(causal=True)),
    "window": (dict(window_size=(3, 2)), dict(window=(3, 2))),
    "causal window": (dict(causal=True, window_size=(4, -1)), dict(causal=True, window=(4, 0))),
    "no window": (dict(window_size=torch.tensor([-1, -1])), {}),
    "softcap": (dict(softcap=2.0, softmax_scale=0.5), dict(softcap=2.0, scale=0.5)),
    "alibi": (dict(alibi_slopes=torch.tensor(SLOPES[0]), causal=True), dict(alibi=SLOPES[0], causal=True)),
    "alibi of each": (dict(alibi_slopes=torch.tensor(SLOPES)), dict(alibi=SLOPES)),
    "chunk": (dict(attention_chunk=5, causal=True), dict(chunk=5, causal=True)),
    "sinks": (dict(s_aux=torch.tensor([0.0, 1, -1, 2])), dict(sinks=torch.tensor([0.0, 1, -1, 2]))),
}  # fmt: skip


def assert_gradients(found, expected, mine, theirs):
    assert_close(found.detach(), expected.detach(), "float32")
    weight = torch.from_numpy(np.random.default_rng(9).standard_normal(expected.shape))
    for x, y in zip(torch.autograd.grad(found, mine, weight.float()), torch.autograd.grad(expected, theirs, weight)):
        assert_close(x, y, "float32")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dims", [(16, 16), (13, 9)])
def test_attention(name, dims):
    given, meant = CASES[name]
    leaves = normal(2, 9, 4, dims[0]), normal(2, 14, 2, dims[0], seed=1), normal(2, 14, 2, dims[1], seed=2)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    out, lse, probs = flash_attn.flash_attn_func(*leaves, **given, return_attn_probs=True)
    assert out.shape == (2, 9, 4, dims[1]) and lse.shape == (2, 4, 9) and probs is None
    assert_gradients(out, torch_oracle.attention(*doubles, **meant), leaves, doubles)


@pytest.mark.parametrize("name", [name for name in CASES if name != "no window"])
def test_packed_batches(name):
    given, meant = CASES[name]
    starts, k_starts = (torch.tensor(x, dtype=torch.int32) for x in ([0, 6, 11], [0, 4, 17]))
    leaves = normal(11, 4, 12), normal(17, 2, 12, seed=1), normal(17, 2, 12, seed=2)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    out, lse, _ = flash_attn.flash_attn_varlen_func(*leaves, starts, k_starts, 6, 13, **given, return_attn_probs=True)
    assert out.shape == (11, 4, 12) and lse.shape == (4, 11)
    meant = {**meant, "q_starts": starts, "kv_starts": k_starts}
    assert_gradients(out, torch_oracle.attention(*(x[None] for x in doubles), **meant)[0], leaves, doubles)
    used, k_used = (torch.tensor(x, dtype=torch.int32) for x in ([4, 5], [4, 10]))
    part = flash_attn.flash_attn_varlen_func(*leaves, starts, k_starts, 6, 13, **given, seqused_q=used, seqused_k=k_used)
    meant = {**meant, "q_used": used, "kv_used": k_used}
    assert_close(part.detach(), torch_oracle.attention(*(x[None] for x in doubles), **meant)[0].detach(), "float32")


def test_packed_forms():
    qkv = normal(2, 9, 3, 4, 16)
    q, k, v = qkv.unbind(2)
    expected = flash_attn.flash_attn_func(q, k, v, 0.0, None, True)
    kv = torch.stack([k, v], 2)
    together = qkv.flatten(2, 3)
    starts = torch.tensor([0, 9, 18], dtype=torch.int32)
    flat = qkv.flatten(0, 1)
    for found in (
        flash_attn.flash_attn_qkvpacked_func(qkv, causal=True), flash_attn.flash_attn_kvpacked_func(q, kv, causal=True),
        flash_attn.flash_attn_qkvpacked_func(together, causal=True, num_heads_q=4),
        flash_attn.flash_attn_varlen_qkvpacked_func(flat, starts, 9, causal=True).view(q.shape),
        flash_attn.flash_attn_varlen_kvpacked_func(q.flatten(0, 1), kv.flatten(0, 1), starts, starts, 9, 9, causal=True).view(q.shape),
    ):  # fmt: skip
        torch.testing.assert_close(found, expected)
    flash_attn.flash_attn_qkvpacked_func(qkv).sum().backward()
    assert qkv.grad.shape == qkv.shape


@pytest.mark.parametrize("packed", [False, True])
def test_dropout_shows_its_weights(packed):
    """out is what S_dmask says: its sign is what was dropped, its size the weight but for the sum."""
    q, k, v = normal(2, 9, 4, 16), normal(2, 14, 4, 16, seed=1), normal(2, 14, 4, 16, seed=2)
    torch.manual_seed(3)
    options = dict(dropout_p=0.4, causal=True, alibi_slopes=torch.rand(2, 4), return_attn_probs=True)
    if packed:
        starts, k_starts = torch.tensor([0, 9, 18], dtype=torch.int32), torch.tensor([0, 14, 28], dtype=torch.int32)
        out, _, probs = flash_attn.flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), starts, k_starts, 9, 14, **options)
        out = out.view(q.shape)
    else:
        out, _, probs = flash_attn.flash_attn_func(q, k, v, **options)
    weights = probs.double().abs()
    weights = weights / weights.sum(3, keepdim=True)
    expected = torch.where(probs >= 0, weights / 0.6, torch.zeros((), dtype=torch.double)) @ v.double().transpose(1, 2)
    assert_close(out.detach(), expected.transpose(1, 2).detach(), "float32")
    assert 0.2 < (probs < 0).float().mean() / (probs != 0).float().mean() < 0.6
    again = flash_attn.flash_attn_func(q, k, v, dropout_p=0.4)
    assert not torch.equal(again, flash_attn.flash_attn_func(q, k, v, dropout_p=0.4))  # another seed for each call


def test_tensors_are_copied_where_rows_have_gaps():
    q = normal(2, 16, 4, 9).transpose(1, 3)
    torch.testing.assert_close(flash_attn.flash_attn_func(q, q, q), flash_attn.flash_attn_func(*[q.contiguous()] * 3))


@pytest.mark.parametrize("name", ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"])
def test_queries_for_the_values(name):
    """qv is the rest of longer queries, whose keys are k and v; vLLM calls it q_v."""
    q, qv, k, v = normal(2, 7, 4, 16), normal(2, 7, 4, 40, seed=1), normal(2, 9, 2, 16, seed=2), normal(2, 9, 2, 40, seed=3)
    packed = name == "flash_attn_varlen_func"
    starts = [torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (7, 9)] if packed else []
    mine = [x.detach().flatten(0, 1) if packed else x.detach() for x in (q, k, v, qv)]
    with torch.no_grad():
        expected = torch_oracle.attention(torch.cat([q, qv], 3).double(), torch.cat([k, v], 3).double(), v.double(), causal=True)
    expected = expected.flatten(0, 1) if packed else expected
    for module, more in ((flash_attn, {}), (flash_attn_3, {}), *([(flash_attn, {"q_v": mine[3]})] if packed else [])):
        options = {"causal": True, **(more or {"qv": mine[3]})}
        function, lengths = getattr(module, name), [*starts, 7, 9] if packed else []
        assert_close(function(*mine[:3], *lengths, **options), expected, "float32")
        sums = "return_attn_probs" if module is flash_attn_3 or name == "flash_attn_func" else "return_softmax_lse"
        found = function(*mine[:3], *lengths, **options, **{"return_softmax_lse" if name.endswith("kvcache") else sums: True})
        assert found[1].shape == ((4, 14) if packed else (2, 4, 7))
        assert_close(found[0], expected, "float32")
    if not name.endswith("kvcache"):
        with pytest.raises(NotImplementedError, match="no dropout and no S_dmask with .*qv"):
            getattr(flash_attn, name)(*mine[:3], *lengths, qv=mine[3], dropout_p=0.5)
    mine[3].requires_grad_()
    with pytest.raises(NotImplementedError, match="has no gradient"):
        getattr(flash_attn, name)(*mine[:3], *lengths, qv=mine[3]).sum().backward()


def test_refused_by_name():
    q = normal(1, 4, 2, 16)
    for function in (flash_attn.flash_attn_func, flash_attn.flash_attn_varlen_func, flash_attn.flash_attn_with_kvcache):
        starts = [torch.tensor([0, 4], dtype=torch.int32)] * 2 + [4, 4] if function is flash_attn.flash_attn_varlen_func else []
        tensors = [q[0]] * 3 if starts else [q] * 3
        with pytest.raises(NotImplementedError, match="FP8, with q_descale, k_descale and v_descale"):
            function(*(x.detach().to(torch.float8_e4m3fn) for x in tensors), *starts, q_descale=q)
        with torch.no_grad():  # descales are for FP8
            torch.testing.assert_close(function(*tensors, *starts, k_descale=q), function(*tensors, *starts))
    for name in ("mask_mod", "block_sparse_tensors", "aux_tensors", "dynamic_causal", "output_scale", "cp_tot_seqused_k"):
        with pytest.raises(NotImplementedError, match=f"weft has no {name} "):
            flash_attn.flash_attn_varlen_func(*[q[0]] * 3, *[torch.tensor([0, 4], dtype=torch.int32)] * 2, 4, 4, **{name: q})
    with pytest.raises(weft.Invalid, match="qkv is"):
        flash_attn.flash_attn_qkvpacked_func(q)
