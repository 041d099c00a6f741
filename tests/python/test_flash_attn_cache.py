# SPDX-License-Identifier: Apache-2.0
"""weft.flash_attn over KV caches: signatures, and what upstream says they mean, against fp64."""

import inspect

import cache_oracle
import numpy as np
import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
import weft.flash_attn as flash_attn  # noqa: E402
import weft.flash_attn_3 as flash_attn_3  # noqa: E402

NEW = "q k_cache v_cache k v"
SIGNATURES = {  # what may be given by place
    flash_attn.flash_attn_with_kvcache: NEW + " rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table softmax_scale"
    " causal window_size softcap rotary_interleaved alibi_slopes num_splits return_softmax_lse",
    flash_attn_3.flash_attn_with_kvcache: NEW + " qv rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad page_table cu_seqlens_q"
    " cu_seqlens_k_new max_seqlen_q rotary_seqlens q_descale k_descale v_descale softmax_scale causal window_size attention_chunk softcap"
    " rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin return_softmax_lse",
    flash_attn_3.flash_attn_func: "q k v softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits"
    " pack_gqa deterministic sm_margin return_attn_probs",
    flash_attn_3.flash_attn_qkvpacked_func: "qkv softmax_scale causal q_descale k_descale v_descale window_size attention_chunk softcap"
    " deterministic num_heads_q sm_margin return_attn_probs",
    flash_attn_3.flash_attn_varlen_func: "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k seqused_q seqused_k softmax_scale causal"
    " qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits pack_gqa deterministic sm_margin return_attn_probs",
    flash_attn.get_scheduler_metadata: "batch_size max_seqlen_q max_seqlen_k num_heads_q num_heads_kv headdim cache_seqlens qkv_dtype"
    " headdim_v cu_seqlens_q cu_seqlens_k_new cache_leftpad page_size max_seqlen_k_new causal window_size attention_chunk has_softcap"
    " num_splits pack_gqa sm_margin",
}  # fmt: skip
VLLM = """max_seqlen_q cu_seqlens_q max_seqlen_k cu_seqlens_k seqused_k q_v dropout_p softmax_scale causal window_size softcap alibi_slopes
deterministic return_attn_probs block_table return_softmax_lse out scheduler_metadata q_descale k_descale v_descale num_splits output_scale
fa_version s_aux cp_world_size cp_rank cp_tot_seqused_k mask_mod block_sparse_tensors aux_tensors aux_tensor_leading_dims dynamic_causal"""


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: f"{function.__module__}.{function.__name__}")
def test_signatures(function):
    parameters = inspect.signature(function).parameters
    assert [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD] == SIGNATURES[function].split()
    for name, default in dict(causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, softmax_scale=None).items():
        assert name not in parameters or parameters[name].default == default


def test_vllm_s_arguments_are_known():
    assert set(VLLM.split()) <= set(inspect.signature(flash_attn.flash_attn_varlen_func).parameters)


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def as_numpy(x):
    return None if x is None else x.double().numpy() if x.is_floating_point() else x.numpy()


DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


@settings(max_examples=150)
@given(st.data())
def test_with_kvcache(data):
    """Upstream's cases: contiguous or paged, by cache_batch_idx, packed queries and keys, new keys, rotation, left padding."""
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 2**32)))
    rng, dtype = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.sampled_from(list(DTYPES)))
    batch, heads_k, group, dim = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 3)), 16
    page, entries = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    paged, indexed, packed, new = (draw(st.booleans()) for _ in range(4))
    seqlen_k, rows = page * entries, 2 * batch if indexed else batch
    seqlen_q = draw(st.integers(1, 6))
    seqlen_new = min(draw(st.integers(1, 6)), seqlen_k)
    k_cache, v_cache = (normal(rows * entries + 2 if paged else rows, page if paged else seqlen_k, heads_k, dim, dtype=dtype) for _ in range(2))
    table = torch.from_numpy(rng.permutation(rows * entries + 2)[: rows * entries].reshape(rows, entries).astype("int32")) if paged else None
    index = torch.from_numpy(rng.permutation(rows)[:batch].astype("int32")) if indexed else None
    used = torch.from_numpy(rng.integers(0, seqlen_k + 1 - (seqlen_new if new else 0), batch).astype("int32"))
    options = dict(causal=draw(st.booleans()), window_size=draw(st.sampled_from([(-1, -1), (3, 0), (2, 2)])))
    options["softcap"] = draw(st.sampled_from([0.0, 2.0]))
    options["alibi_slopes"] = draw(st.sampled_from([None, torch.rand(heads_k * group), torch.rand(batch, heads_k * group)]))
    options["cache_leftpad"] = torch.from_numpy(rng.integers(0, used.numpy() + 1).astype("int32")) if draw(st.booleans()) else None
    lengths = rng.integers(0, seqlen_q + 1, batch) if packed else np.full(batch, seqlen_q)
    new_lengths = rng.integers(0, seqlen_new + 1, batch) if packed else np.full(batch, seqlen_new)
    lengths[0], new_lengths[0] = seqlen_q, seqlen_new
    starts, new_starts = (torch.from_numpy(np.cumsum([0, *x]).astype("int32")) for x in (lengths, new_lengths))
    q = normal(lengths.sum(), heads_k * group, dim, dtype=dtype)
    k, v = (normal(new_lengths.sum(), heads_k, dim, dtype=dtype) for _ in range(2)) if new else (None, None)
    qv = normal(*q.shape, dtype=dtype) if draw(st.booleans()) else None
    rotary = (None, None)
    if new and draw(st.booleans()):
        angle = torch.rand(seqlen_k + 9, draw(st.sampled_from([4, 8]))) * 6.3
        rotary = angle.cos().to(dtype), angle.sin().to(dtype)
        options.update(rotary_interleaved=draw(st.booleans()), rotary_seqlens=draw(st.sampled_from([None, used // 2])))
    given_new = (k, v)
    if not packed:
        q, qv = (None if x is None else x.view(batch, seqlen_q, *x.shape[1:]) for x in (q, qv))
        k, v = (None if x is None else x.view(batch, seqlen_new, *x.shape[1:]) for x in (k, v))
        if new and draw(st.booleans()):  # only the new keys are packed
            options["cu_seqlens_k_new"], (k, v) = new_starts, given_new
    else:
        options.update(cu_seqlens_q=starts, max_seqlen_q=seqlen_q, cu_seqlens_k_new=new_starts if new else None)
    # What it means, as arguments of the oracle: everything packed and in pages.
    pages = table if paged else torch.arange(rows, dtype=torch.int32)[:, None]
    pages = pages if index is None else pages[index.long()]
    o, lse, k_after, v_after = cache_oracle.attention(
        as_numpy(q if packed else q.flatten(0, 1)), as_numpy(k_cache), as_numpy(v_cache), used.numpy(), pages.numpy(),
        None if not new else tuple(map(as_numpy, given_new)), starts.numpy(), new_starts.numpy(), None if rotary[0] is None else tuple(map(as_numpy, rotary)),
        options.get("rotary_interleaved", True), as_numpy(options.get("rotary_seqlens")), as_numpy(options["cache_leftpad"]),
        causal=options["causal"], window=options["window_size"], softcap=options["softcap"], alibi=as_numpy(options["alibi_slopes"]),
        qv=as_numpy(qv if packed or qv is None else qv.flatten(0, 1)),
    )  # fmt: skip
    module = draw(st.sampled_from([flash_attn, flash_attn_3])) if options["alibi_slopes"] is None else flash_attn
    if module is flash_attn_3:
        options.pop("alibi_slopes")
    name = "page_table" if module is flash_attn_3 or packed else "block_table"
    found, sums = module.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, rotary_cos=rotary[0], rotary_sin=rotary[1], cache_seqlens=used,
                                                 cache_batch_idx=index, return_softmax_lse=True, qv=qv, **{name: table}, **options)  # fmt: skip
    if not packed:
        o, lse = o.reshape(q.shape), lse.reshape(-1, batch, seqlen_q).swapaxes(0, 1)
    assert_close(found.float(), o, DTYPES[dtype])
    assert_close(sums, lse, DTYPES[dtype])
    assert_close(k_cache.float(), k_after, DTYPES[dtype])
    assert_close(v_cache.float(), v_after, DTYPES[dtype])


def test_lengths_as_a_number_or_none():
    q, k_cache, v_cache = normal(2, 3, 4, 16), normal(3, 9, 2, 16), normal(3, 9, 2, 16)
    part = flash_attn.flash_attn_func(q, k_cache[:2, :5], v_cache[:2, :5], causal=True)
    torch.testing.assert_close(flash_attn.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=5, causal=True), part)
    whole = flash_attn.flash_attn_func(q, k_cache[:2], v_cache[:2])
    torch.testing.assert_close(flash_attn.flash_attn_with_kvcache(q, k_cache, v_cache), whole)
    index = torch.tensor([2, 0], dtype=torch.int32)
    picked = flash_attn.flash_attn_func(q, k_cache[index.long()], v_cache[index.long()])
    torch.testing.assert_close(flash_attn.flash_attn_with_kvcache(q, k_cache, v_cache, cache_batch_idx=index), picked)


def test_there_is_no_gradient():
    """Results are there, and whoever asks for a gradient is told."""
    q, cache = normal(2, 3, 4, 16).requires_grad_(), normal(2, 9, 2, 16)
    table, starts, used = (torch.tensor(x, dtype=torch.int32) for x in ([[1], [0]], [0, 3, 6], [4, 9]))
    for out in (flash_attn.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=5),
                flash_attn.flash_attn_varlen_func(q.flatten(0, 1), cache, cache, starts, block_table=table, seqused_k=used)):  # fmt: skip
        with pytest.raises(weft.Unsupported, match="KV cache.* has no gradient"):
            out.sum().backward()
    with torch.no_grad():
        assert not flash_attn.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=5).requires_grad
    with pytest.raises(weft.Unsupported, match="block_table has no gradient"):
        weft.attention(q, cache, cache, block_table=table, kv_used=used)


def test_arguments_that_belong_together():
    q, cache = normal(2, 3, 4, 16), normal(2, 9, 2, 16)
    for options, message in ((dict(k=q[:, :, :2]), "k and v"), (dict(k=q[:, :, :2], v=q[:, :, :2]), "cache_seqlens"),
                             (dict(rotary_cos=q[0, 0], rotary_sin=q[0, 0]), "rotary_cos"), (dict(rotary_cos=q[0, 0]), "rotary_sin")):  # fmt: skip
        with pytest.raises(weft.Invalid, match=message):
            flash_attn.flash_attn_with_kvcache(q, cache, cache, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_varlen_over_pages_as_vllm_calls_it(dtype):
    """K and V interleaved in the cache, the result into a tensor that is given, sinks, a window as a list."""
    torch.manual_seed(1)
    starts, used = torch.tensor([0, 5, 6, 6, 9], dtype=torch.int32), torch.tensor([9, 7, 0, 3], dtype=torch.int32)
    cache = normal(9, 2, 4, 32, dtype=dtype)
    k, v = cache.transpose(1, 2).split(16, -1)
    table = torch.randperm(9, dtype=torch.int32)[:8].view(4, 2).repeat(1, 2)[:, :3]
    q, out, sinks = normal(9, 4, 16, dtype=dtype), torch.full((9, 4, 16), 7, dtype=dtype), normal(4, dtype=dtype)
    metadata = flash_attn.get_scheduler_metadata(batch_size=4, max_seqlen_q=5, max_seqlen_k=12, num_heads_q=4, num_heads_kv=2, headdim=16,
                                                 cache_seqlens=used, qkv_dtype=dtype, cu_seqlens_q=starts, page_size=4, causal=True)  # fmt: skip
    assert metadata.dtype == torch.int32 and metadata.numel() <= 1
    options = dict(max_seqlen_q=5, cu_seqlens_q=starts, max_seqlen_k=12, softmax_scale=0.2, causal=True, window_size=[4, 0],
                   softcap=3.0, block_table=table, scheduler_metadata=metadata, fa_version=3, num_splits=0, s_aux=sinks,
                   q_descale=None, k_descale=torch.ones(4, 2), v_descale=torch.ones(4, 2))  # fmt: skip
    found, lse = flash_attn.flash_attn_varlen_func(q=q, k=k, v=v, seqused_k=used, out=out, return_softmax_lse=True, **options)
    assert found is out and lse.shape == (4, 9)
    o, sums, _, _ = cache_oracle.attention(as_numpy(q), as_numpy(k), as_numpy(v), used.numpy(), table.numpy(), q_starts=starts.numpy(), scale=0.2,
                                           causal=True, window=(4, 0), softcap=3.0, sinks=as_numpy(sinks))  # fmt: skip
    assert_close(out.float(), o, DTYPES[dtype])
    assert_close(lse, sums, DTYPES[dtype])
    ends = torch.nn.functional.pad(used.cumsum(0, dtype=torch.int32), (1, 0))  # upstream's own way to say how many keys there are
    torch.testing.assert_close(flash_attn.flash_attn_varlen_func(q=q, k=k, v=v, cu_seqlens_k=ends, **options), out)
    plain = flash_attn.flash_attn_varlen_func(q, q, q, starts, starts, 5, 5, out=torch.empty_like(q), causal=True)
    torch.testing.assert_close(plain, flash_attn.flash_attn_varlen_func(q, q, q, starts, starts, 5, 5, causal=True))


def test_calls_share_what_metadata_holds(monkeypatch):
    """A copy of the tensor holds nothing, and calls are right without it."""
    k, v = normal(4, 8, 2, 16), normal(4, 8, 2, 16)
    q, used, table = normal(2, 1, 4, 16), torch.tensor([9, 14], dtype=torch.int32), torch.tensor([[2, 0], [3, 1]], dtype=torch.int32)
    metadata = flash_attn.get_scheduler_metadata(2, 1, 16, 4, 2, 16, used, torch.float32, page_size=8)
    seen, forward = [], weft.compute.attention_forward
    monkeypatch.setattr(weft.compute, "attention_forward", lambda *given: seen.append(given[-1].prepared) or forward(*given))
    want = flash_attn.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, block_table=table)
    starts = torch.tensor([0, 1, 2], dtype=torch.int32)
    for given in (metadata, metadata.clone()):
        found = (
            flash_attn.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, block_table=table, scheduler_metadata=given),
            flash_attn_3.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, page_table=table, scheduler_metadata=given),
            flash_attn.flash_attn_varlen_func(q[:, 0], k, v, starts, None, 1, 16, seqused_k=used, block_table=table,
                                              scheduler_metadata=given)[:, None],
        )  # fmt: skip
        for o in found:
            torch.testing.assert_close(o, want)
    assert isinstance(metadata.weft_prepared, weft.Prepared) and seen == [None, *[metadata.weft_prepared] * 3, *[None] * 3]


def test_compiled():
    """torch.compile sees that the cache is written."""
    k_cache, v_cache, k, v = normal(2, 9, 2, 16), normal(2, 9, 2, 16), normal(2, 1, 2, 16), normal(2, 1, 2, 16)
    q, used = normal(2, 1, 4, 16), torch.tensor([4, 8], dtype=torch.int32)

    def step(q, k_cache, v_cache, k, v, used):
        return flash_attn.flash_attn_with_kvcache(q * 2, k_cache, v_cache, k, v, cache_seqlens=used, causal=True) + 1

    mine = k_cache.clone(), v_cache.clone()
    expected = step(q, k_cache, v_cache, k, v, used)
    torch.testing.assert_close(torch.compile(step, backend="aot_eager")(q, *mine, k, v, used), expected)
    torch.testing.assert_close(mine, (k_cache, v_cache))
