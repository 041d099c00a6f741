# SPDX-License-Identifier: Apache-2.0
"""The interface of FlashAttention on weft: `import weft.flash_attn as flash_attn`.

Functions, arguments and results are those of flash_attn 2; what FlashAttention-3 and vLLM's build of it have beyond that are keywords.
weft.flash_attn_3 has the order of arguments of FlashAttention-3. causal is aligned to the bottom right, and a window of (-1, -1) hides
nothing. Tensors are on the CPU or an NVIDIA GPU, of any head dim; on the CPU also fp32. On a GPU, gradients are there for head dims up
to 256, and without `qv`. FP8 is refused by name; descales are for FP8, so they change nothing of other tensors. Every result is
deterministic, so `deterministic` changes nothing; `num_splits`, `pack_gqa`, `sm_margin` and `fa_version` tune or choose other kernels.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import by_torch, compute, features
from .errors import Invalid, Unsupported
from .prepared import Prepared
from .torch import OPERATORS, row_contiguous

__all__ = [
    "flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func", "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache", "get_scheduler_metadata",
]  # fmt: skip
_MEANING = {
    "output_scale": "a quantized result", "mask_mod": "a mask by a function",
    "score_mod": "scores by a function", "aux_tensors": "arguments of a function for scores or masks",
    "block_sparse_tensors": "a block mask", "dynamic_causal": "a causal mask for some sequences",
    "cp_world_size": "keys on several devices", "cp_tot_seqused_k": "keys on several devices",
}  # fmt: skip


def _refuse(*given: Tensor, **arguments: Any) -> None:
    """Refuses what weft lacks: arguments that are not None, and tensors of FP8."""
    for name, value in arguments.items():
        if value is not None:
            raise Unsupported(f"weft has no {name} ({_MEANING[name]}) yet")
    for x in given:
        if x is not None and x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            raise Unsupported(f"weft has no {x.dtype} (FP8, with q_descale, k_descale and v_descale) yet")


def _run(q: Tensor, k: Tensor, v: Tensor, scale: Optional[float], causal: bool, probs: bool,
         asked: Optional[features.Asked]) -> Any:  # fmt: skip
    """(out, softmax_lse) on whichever device; softmax_lse only where `probs` or a gradient needs it."""
    q, k, v = (row_contiguous(x) for x in (q, k, v))
    o = OPERATORS.attention(q, k, v, causal=causal, scale=scale, return_lse=probs, asked=asked)
    return o if probs else (o, None)


def _weights(q: Tensor, k: Tensor, scale: Optional[float], causal: bool, numbers: features.Features, alibi: Optional[Tensor]) -> Tensor:
    """(batch, heads, seq, kv_seq): exponentials of scores less their largest."""
    asked = by_torch.Asked(scale, causal, None, numbers, {} if alibi is None else {"alibi": alibi})
    scores = by_torch.scores(q.transpose(1, 2), k.transpose(1, 2), asked)
    return torch.exp(scores - scores.amax(3, keepdim=True)).nan_to_num(0, 0, 0).to(q.dtype)


def _seed(dropout: float) -> int:
    """The seed of a call with dropout, by torch's generator of the host."""
    return int(torch.randint(2**63 - 1, ())) if dropout else 0


def _asked(q: Tensor, dropout: float, window: Any, chunk: int, softcap: float, alibi: Any, sinks: Any,
           **lengths: Any) -> Optional[features.Asked]:  # fmt: skip
    return features.asked(q, window=None if window is None else tuple(window), chunk=chunk, softcap=max(softcap, 0.0), alibi=alibi, sinks=sinks, dropout=dropout,
                          seed=_seed(dropout), **lengths)  # fmt: skip


def _attention(q: Tensor, k: Tensor, v: Tensor, dropout: float, scale: Optional[float], causal: bool, window: Any, softcap: float,
               alibi: Optional[Tensor], chunk: int, sinks: Optional[Tensor], probs: bool) -> Any:  # fmt: skip
    """One batch of equal lengths."""
    asked = _asked(q, dropout, window, chunk, softcap, alibi, sinks)
    out, lse = _run(q, k, v, scale, causal, probs, asked)
    if not probs:
        return out
    if not dropout:
        return out, lse, None
    with torch.no_grad():
        weights = _weights(q, k, scale, causal, asked.features, alibi)
        return out, lse, torch.where(by_torch.dropped(weights.shape, dropout, asked.seed, q.device), -weights, weights)


def _packed_weights(q: Tensor, k: Tensor, starts: Tuple[Tensor, Tensor], most: Tuple[int, int], scale: Optional[float], causal: bool,
                    asked: features.Asked) -> Tensor:  # fmt: skip
    """(sequences, heads, max_seqlen_q, max_seqlen_k): weights of each sequence, negative where dropped, 0 beyond its end."""
    shape = torch.Size((1, q.shape[1], q.shape[0], k.shape[0]))
    dropped, alibi = by_torch.dropped(shape, asked.features.dropout, asked.seed, q.device)[0], asked.arrays.get("alibi")
    q_starts, k_starts = (x.tolist() for x in starts)
    made = q.new_zeros((len(q_starts) - 1, q.shape[1], *most))
    for i, (row, end, key, key_end) in enumerate(zip(q_starts, q_starts[1:], k_starts, k_starts[1:])):
        if row == end or key == key_end:
            continue
        slopes = alibi if alibi is None or alibi.dim() == 1 else alibi[i]
        weights = _weights(q[None, row:end], k[None, key:key_end], scale, causal, asked.features, slopes)[0]
        made[i, :, : end - row, : key_end - key] = torch.where(dropped[:, row:end, key:key_end], -weights, weights)
    return made


def _varlen(q: Tensor, k: Tensor, v: Tensor, starts: Tuple[Tensor, Tensor], most: Tuple[int, int], dropout: float, scale: Optional[float],
            causal: bool, window: Any, softcap: float, alibi: Optional[Tensor], chunk: int, sinks: Optional[Tensor], probs: bool,
            used: Tuple[Optional[Tensor], Optional[Tensor]] = (None, None)) -> Any:  # fmt: skip
    """A packed batch."""
    asked = _asked(q, dropout, window, chunk, softcap, alibi, sinks, q_starts=starts[0], kv_starts=starts[1], q_used=used[0],
                   kv_used=used[1])  # fmt: skip
    out, lse = _run(q, k, v, scale, causal, probs, asked)
    if not probs:
        return out
    with torch.no_grad():
        return out, lse, _packed_weights(q, k, starts, most, scale, causal, asked) if dropout else None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False, *, qv=None, q_descale=None, k_descale=None, v_descale=None,
                    attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0, s_aux=None):  # fmt: skip
    """Attention of q (batch, seqlen_q, heads, head_dim) over k and v (batch, seqlen_k, heads_k, head_dim), heads_k dividing heads.

    alibi_slopes is (heads,) or (batch, heads), s_aux (heads,): sinks. qv (batch, seqlen_q, heads, head_dim of v) are queries for the
    values: their products with v count as scores, too, and softmax_scale is 1 / sqrt(both head dims) by default. Gives out (batch, seqlen_q, heads, head_dim of v); with
    return_attn_probs (out, softmax_lse (batch, heads, seqlen_q), S_dmask), where S_dmask is None without dropout.

    >>> q, k, v = (torch.randn(2, 30, 4, 64) for _ in range(3))
    >>> flash_attn.flash_attn_func(q, k, v, causal=True).shape
    torch.Size([2, 30, 4, 64])
    """
    _refuse(q, k, v)
    if qv is not None:
        _without_probs("qv", dropout_p, False)
        found = _over_cache(q, k, v, softmax_scale, causal, window_size, softcap, return_attn_probs, alibi=alibi_slopes, sinks=s_aux,
                            chunk=attention_chunk, qv=qv)  # fmt: skip
        return (*found, None) if return_attn_probs else found
    return _attention(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, attention_chunk, s_aux,
                      return_attn_probs)  # fmt: skip


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                              alibi_slopes=None, deterministic=False, return_attn_probs=False, *, q_descale=None, k_descale=None,
                              v_descale=None, attention_chunk=0, num_heads_q=None, sm_margin=0):  # fmt: skip
    """flash_attn_func() of qkv (batch, seqlen, 3, heads, head_dim); with num_heads_q, of (batch, seqlen, heads + 2 heads_k, head_dim).

    >>> flash_attn.flash_attn_qkvpacked_func(torch.randn(2, 30, 3, 4, 64), causal=True).shape
    torch.Size([2, 30, 4, 64])
    """
    _refuse(qkv)
    return _attention(*_unpacked(qkv, num_heads_q), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
                      attention_chunk, None, return_attn_probs)  # fmt: skip


def _unpacked(qkv: Tensor, heads: Optional[int]) -> Any:
    if qkv.dim() == 5:
        return qkv.unbind(2)
    if heads is None or qkv.dim() != 4 or (qkv.shape[2] - heads) % 2:
        raise Invalid(f"qkv is {tuple(qkv.shape)}, not (batch, seqlen, 3, heads, head_dim), or with num_heads_q of 4 dimensions")
    keys = (qkv.shape[2] - heads) // 2
    return qkv.split([heads, keys, keys], 2)


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                             alibi_slopes=None, deterministic=False, return_attn_probs=False):  # fmt: skip
    """flash_attn_func() of q (batch, seqlen_q, heads, head_dim) and kv (batch, seqlen_k, 2, heads_k, head_dim).

    >>> flash_attn.flash_attn_kvpacked_func(torch.randn(2, 30, 4, 64), torch.randn(2, 50, 2, 2, 64)).shape
    torch.Size([2, 30, 4, 64])
    """
    return _attention(q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, 0, None,
                      return_attn_probs)  # fmt: skip


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                           return_attn_probs=False, block_table=None, *, seqused_q=None, seqused_k=None, qv=None, q_v=None,
                           q_descale=None, k_descale=None, v_descale=None, attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0,
                           s_aux=None, return_softmax_lse=False, out=None, scheduler_metadata=None, fa_version=None, output_scale=None,
                           cp_world_size=1, cp_rank=0, cp_tot_seqused_k=None, mask_mod=None, block_sparse_tensors=None,
                           aux_tensors=None, aux_tensor_leading_dims=None, dynamic_causal=None):  # fmt: skip
    """Attention of sequences that lie one behind the other: q (total_q, heads, head_dim), k and v (total_k, heads_k, head_dim).

    cu_seqlens_q and cu_seqlens_k (sequences + 1), int32, say where sequences begin and where the last one ends; of each, the first
    seqused_q queries and seqused_k keys count. alibi_slopes is (heads,) or (sequences, heads). Gives out (total_q, heads, head_dim of
    v); with return_attn_probs (out, softmax_lse (heads, total_q), S_dmask), with return_softmax_lse (out, softmax_lse).

    With block_table (sequences, pages of each), int32, k and v are a paged cache (pages, page, heads_k, head_dim) of any page size and
    any strides. seqused_k says how many keys each sequence has; without it, cu_seqlens_k does. The result has no gradient then.
    `out` is the tensor that the result is written to. qv, which vLLM calls q_v, (total_q, heads, head_dim of v) is as in
    flash_attn_func().

    >>> q, starts = torch.randn(50, 4, 64), torch.tensor([0, 20, 50], dtype=torch.int32)
    >>> flash_attn.flash_attn_varlen_func(q, q, q, starts, starts, 30, 30, causal=True).shape
    torch.Size([50, 4, 64])
    """
    qv = q_v if qv is None else qv
    _refuse(q, k, v, output_scale=output_scale, mask_mod=mask_mod, block_sparse_tensors=block_sparse_tensors,
            aux_tensors=aux_tensors, dynamic_causal=dynamic_causal, cp_tot_seqused_k=cp_tot_seqused_k,
            cp_world_size=None if cp_world_size == 1 else cp_world_size)  # fmt: skip
    if block_table is not None or out is not None or qv is not None:
        _without_probs("block_table, out or qv", dropout_p, return_attn_probs)
        if seqused_k is None and block_table is not None:
            seqused_k = _lengths_between(cu_seqlens_k)
        return _over_cache(q, k, v, softmax_scale, causal, window_size, softcap, return_softmax_lse, alibi=alibi_slopes, sinks=s_aux,
                           chunk=attention_chunk, q_starts=cu_seqlens_q, kv_starts=None if block_table is not None else cu_seqlens_k,
                           q_used=seqused_q, kv_used=seqused_k, block_table=block_table, out=out, qv=qv, q_most=max_seqlen_q,
                           prepared=_prepared(scheduler_metadata))  # fmt: skip
    if cu_seqlens_k is None:
        raise Invalid("cu_seqlens_k is None: only a cache with block_table goes without it")
    found = _varlen(q, k, v, (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k), dropout_p, softmax_scale, causal, window_size,
                    softcap, alibi_slopes, attention_chunk, s_aux, return_attn_probs or return_softmax_lse, (seqused_q, seqused_k))  # fmt: skip
    return found[:2] if return_softmax_lse and not return_attn_probs else found


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
                                     softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False):  # fmt: skip
    """flash_attn_varlen_func() of qkv (total, 3, heads, head_dim).

    >>> starts = torch.tensor([0, 20, 50], dtype=torch.int32)
    >>> flash_attn.flash_attn_varlen_qkvpacked_func(torch.randn(50, 3, 4, 64), starts, 30).shape
    torch.Size([50, 4, 64])
    """
    return _varlen(*qkv.unbind(1), (cu_seqlens, cu_seqlens), (max_seqlen, max_seqlen), dropout_p, softmax_scale, causal, window_size,
                   softcap, alibi_slopes, 0, None, return_attn_probs)  # fmt: skip


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                                    causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                    return_attn_probs=False):  # fmt: skip
    """flash_attn_varlen_func() of q (total_q, heads, head_dim) and kv (total_k, 2, heads_k, head_dim).

    >>> starts = torch.tensor([0, 20, 50], dtype=torch.int32)
    >>> flash_attn.flash_attn_varlen_kvpacked_func(torch.randn(50, 4, 64), torch.randn(50, 2, 2, 64), starts, starts, 30, 30).shape
    torch.Size([50, 4, 64])
    """
    return _varlen(q, *kv.unbind(1), (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k), dropout_p, softmax_scale, causal,
                   window_size, softcap, alibi_slopes, 0, None, return_attn_probs)  # fmt: skip


def _lengths_between(starts: Optional[Tensor]) -> Tensor:
    if starts is None:
        raise Invalid("seqused_k and cu_seqlens_k are None: one of them says how many keys a sequence has")
    return starts.diff()


def _without_probs(beside: str, dropout: float, probs: bool) -> None:
    if dropout or probs:
        raise Unsupported(f"weft has no dropout and no S_dmask with {beside}")


class _WithoutGradient(torch.autograd.Function):
    """A result that has no gradient, which is said where one is asked for."""

    @staticmethod
    def forward(ctx, out, *inputs):
        return out.detach()

    @staticmethod
    def backward(ctx, grad):
        raise Unsupported("an attention over a KV cache, or with out or qv, has no gradient")


def _over_cache(q: Tensor, k: Tensor, v: Tensor, scale: Optional[float], causal: bool, window: Any, softcap: float, return_lse: bool,
                **options: Any) -> Any:  # fmt: skip
    """out, or (out, softmax_lse), over keys and values that are not copied, whatever their strides."""
    options = {name: x for name, x in options.items() if x is not None}
    if "sinks" in options:
        options["sinks"] = options["sinks"].float()
    if "qv" in options:
        options["qv"] = row_contiguous(options["qv"])
    with torch.no_grad():
        found = compute.attention(row_contiguous(q), k, v, causal=causal, scale=scale, return_lse=return_lse,
                                  window=None if window is None else tuple(window), softcap=max(softcap or 0.0, 0.0), **options)  # fmt: skip
    inputs = [x for x in (q, k, v, options.get("qv")) if x is not None and x.requires_grad]
    if not torch.is_grad_enabled() or not inputs:
        return found
    return (_WithoutGradient.apply(found[0], *inputs), found[1]) if return_lse else _WithoutGradient.apply(found, *inputs)


def _equal_starts(batch: int, each: int, like: Tensor) -> Tensor:
    """Where sequences of one length begin, and the end of the last."""
    return torch.arange(0, (batch + 1) * each, each, dtype=torch.int32, device=like.device)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False, *, qv=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                            max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None, attention_chunk=0,
                            scheduler_metadata=None, pack_gqa=None, sm_margin=0, s_aux=None, sinks=None, score_mod=None,
                            aux_tensors=None, out=None, ver=None):  # fmt: skip
    """Attention over a KV cache, which the call may add to. There is no gradient.

    q              (batch, seqlen_q, heads, head_dim), or packed (total_q, heads, head_dim) with cu_seqlens_q (batch + 1)
    k_cache        (batch_cache, seqlen_cache, heads_k, head_dim), or pages (pages, page, heads_k, head_dim) with block_table, which
                   FlashAttention-3 calls page_table: (batch, pages of each), int32; a page has any number of keys
    v_cache        as k_cache, but for its head_dim
    k, v           new keys and values (batch, seqlen_new, heads_k, head_dim), or packed with cu_seqlens_k_new: written to the cache
                   behind the cache_seqlens keys of each sequence before any query sees them
    rotary_cos, rotary_sin  (positions, rotary_dim / 2): q and k are rotated, beginning at position cache_seqlens, or rotary_seqlens;
                   without a mask that goes by positions, every query by that first one
    cache_seqlens  an int, or (batch,) int32: keys in the cache before the call; None: all, where there is no k
    cache_batch_idx  (batch,) int32: which sequence of the cache, or which row of page_table, each of q's has
    cache_leftpad  (batch,) int32: where keys begin that count
    qv             queries for the values, shaped like q but for their head_dim, which is that of v_cache; as in flash_attn_func(). A
                   cache of latent vectors is both: v_cache its first part, k_cache the rotated rest

    Gives out (batch, seqlen_q, heads, head_dim of v), or packed as q is; with return_softmax_lse (out, softmax_lse), where
    softmax_lse is (batch, heads, seqlen_q), or packed (heads, total_q). scheduler_metadata is what get_scheduler_metadata() gave for these
    cache_seqlens.

    >>> q, k, cache = torch.randn(2, 1, 4, 64), torch.randn(2, 1, 4, 64), torch.zeros(2, 100, 4, 64)
    >>> used = torch.tensor([10, 0], dtype=torch.int32)
    >>> flash_attn.flash_attn_with_kvcache(q, cache, cache.clone(), k, k, cache_seqlens=used, causal=True).shape
    torch.Size([2, 1, 4, 64])
    >>> torch.equal(cache[0, 10], k[0, 0])  # it was appended
    True
    """
    _refuse(q, k_cache, v_cache, score_mod=score_mod, aux_tensors=aux_tensors)
    if (k is None) != (v is None) or (rotary_cos is None) != (rotary_sin is None):
        raise Invalid("k and v come together, and so do rotary_cos and rotary_sin")
    if k is not None and cache_seqlens is None:
        raise Invalid("cache_seqlens is None: with k and v it says where they are written")
    if k is None and rotary_cos is not None:
        raise Invalid("rotary_cos is for a call with k and v, which it rotates, too")
    table = block_table if page_table is None else page_table
    batch, shape = (q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1), q.shape
    if cu_seqlens_q is None and k is not None and cu_seqlens_k_new is not None:  # then the queries are packed, too
        q, qv, cu_seqlens_q = q.flatten(0, 1), None if qv is None else qv.flatten(0, 1), _equal_starts(batch, q.shape[1], q)
        out = None if out is None else out.view(q.shape[0], *out.shape[2:])
    packed = cu_seqlens_q is not None
    if packed and k is not None and k.dim() == 4:
        cu_seqlens_k_new = _equal_starts(batch, k.shape[1], q)
        k, v = k.flatten(0, 1), v.flatten(0, 1)
    if table is None:
        if cache_batch_idx is not None:
            table = cache_batch_idx[:, None]
        elif packed:
            table = torch.arange(batch, dtype=torch.int32, device=q.device)[:, None]
        else:
            k_cache, v_cache = k_cache[:batch], v_cache[:batch]
    elif cache_batch_idx is not None:
        table = table.index_select(0, cache_batch_idx)
    if cache_seqlens is None and table is not None:
        cache_seqlens = k_cache.shape[1] * table.shape[1]
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
    found = _over_cache(q, k_cache, v_cache, softmax_scale, causal, window_size, softcap, return_softmax_lse, alibi=alibi_slopes,
                        sinks=sinks if s_aux is None else s_aux, chunk=attention_chunk, q_starts=cu_seqlens_q, kv_used=cache_seqlens,
                        kv_pad=cache_leftpad, block_table=table, append=None if k is None else (row_contiguous(k), row_contiguous(v)),
                        new_starts=None if k is None else cu_seqlens_k_new, rotary_interleaved=rotary_interleaved,
                        rotary=None if rotary_cos is None else (rotary_cos.contiguous(), rotary_sin.contiguous()),
                        positions=None if rotary_cos is None else rotary_seqlens, out=out, qv=qv,
                        q_most=max_seqlen_q if packed else None, prepared=_prepared(scheduler_metadata))  # fmt: skip
    if q.shape == shape:
        return found
    o, lse = found if return_softmax_lse else (found, None)
    o = o.view(*shape[:-1], o.shape[-1])
    return o if lse is None else (o, lse.view(shape[2], batch, shape[1]).transpose(0, 1))


def get_scheduler_metadata(batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, cache_seqlens,
                           qkv_dtype=torch.bfloat16, headdim_v=None, cu_seqlens_q=None, cu_seqlens_k_new=None, cache_leftpad=None,
                           page_size=None, max_seqlen_k_new=0, causal=False, window_size=(-1, -1), attention_chunk=0,
                           has_softcap=False, num_splits=0, pack_gqa=None, sm_margin=0):  # fmt: skip
    """What engines hand to the calls of a step as scheduler_metadata: an empty tensor, int32, on the device of cache_seqlens.

    With it goes a weft.Prepared: the first of these calls deals out the keys of all sequences, and the others, with the same cache_seqlens,
    do not do it again. Where lengths change it is to be made anew. A copy of the tensor changes nothing, and neither does one of other
    arguments.

    >>> used = torch.tensor([10, 20], dtype=torch.int32)
    >>> flash_attn.get_scheduler_metadata(2, 1, 100, 4, 2, 64, used).dtype
    torch.int32
    """
    metadata = cache_seqlens.new_empty((0,), dtype=torch.int32)
    metadata.weft_prepared = Prepared()
    return metadata


def _prepared(metadata: Optional[Tensor]) -> Optional[Prepared]:
    return getattr(metadata, "weft_prepared", None)
