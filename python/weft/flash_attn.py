"""The interface of FlashAttention on weft: `import weft.flash_attn as flash_attn`.

Functions, arguments and results are those of flash_attn 2; what FlashAttention-3 has beyond that are keywords. causal is aligned to the
bottom right, and a window of (-1, -1) hides nothing. Tensors are on the CPU or an NVIDIA GPU, of any head dim; on the CPU also fp32.
On a GPU, gradients are there for head dims up to 256. Paged caches, FP8 and `qv` are refused by name.
Every result is deterministic, so `deterministic` changes nothing; `num_splits`, `pack_gqa` and `sm_margin` tune other kernels.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import by_torch, features
from .errors import Invalid, Unsupported
from .torch import OPERATORS, row_contiguous

__all__ = [
    "flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func", "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache",
]  # fmt: skip
_MEANING = {
    "block_table": "a paged KV cache", "page_table": "a paged KV cache", "qv": "queries for the values", "q_descale": "FP8",
    "k_descale": "FP8", "v_descale": "FP8",
}  # fmt: skip


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise Unsupported(f"weft has no {name} ({_MEANING[name]}) yet")


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
    return features.asked(q, window=tuple(window), chunk=chunk, softcap=max(softcap, 0.0), alibi=alibi, sinks=sinks, dropout=dropout,
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

    alibi_slopes is (heads,) or (batch, heads), s_aux (heads,): sinks. Gives out (batch, seqlen_q, heads, head_dim of v); with
    return_attn_probs (out, softmax_lse (batch, heads, seqlen_q), S_dmask), where S_dmask is None without dropout.
    """
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    return _attention(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, attention_chunk, s_aux,
                      return_attn_probs)  # fmt: skip


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                              alibi_slopes=None, deterministic=False, return_attn_probs=False, *, q_descale=None, k_descale=None,
                              v_descale=None, attention_chunk=0, num_heads_q=None, sm_margin=0):  # fmt: skip
    """flash_attn_func() of qkv (batch, seqlen, 3, heads, head_dim); with num_heads_q, of (batch, seqlen, heads + 2 heads_k, head_dim)."""
    _refuse(q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
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
    """flash_attn_func() of q (batch, seqlen_q, heads, head_dim) and kv (batch, seqlen_k, 2, heads_k, head_dim)."""
    return _attention(q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, 0, None,
                      return_attn_probs)  # fmt: skip


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                           causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                           return_attn_probs=False, block_table=None, *, seqused_q=None, seqused_k=None, qv=None, q_descale=None,
                           k_descale=None, v_descale=None, attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0,
                           s_aux=None):  # fmt: skip
    """Attention of sequences that lie one behind the other: q (total_q, heads, head_dim), k and v (total_k, heads_k, head_dim).

    cu_seqlens_q and cu_seqlens_k (sequences + 1), int32, say where sequences begin and where the last one ends; of each, the first
    seqused_q queries and seqused_k keys count. alibi_slopes is (heads,) or (sequences, heads). Gives out (total_q, heads, head_dim of
    v); with return_attn_probs (out, softmax_lse (heads, total_q), S_dmask).
    """
    _refuse(block_table=block_table, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    return _varlen(q, k, v, (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k), dropout_p, softmax_scale, causal, window_size,
                   softcap, alibi_slopes, attention_chunk, s_aux, return_attn_probs, (seqused_q, seqused_k))  # fmt: skip


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
                                     softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False):  # fmt: skip
    """flash_attn_varlen_func() of qkv (total, 3, heads, head_dim)."""
    return _varlen(*qkv.unbind(1), (cu_seqlens, cu_seqlens), (max_seqlen, max_seqlen), dropout_p, softmax_scale, causal, window_size,
                   softcap, alibi_slopes, 0, None, return_attn_probs)  # fmt: skip


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                                    causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                    return_attn_probs=False):  # fmt: skip
    """flash_attn_varlen_func() of q (total_q, heads, head_dim) and kv (total_k, 2, heads_k, head_dim)."""
    return _varlen(q, *kv.unbind(1), (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k), dropout_p, softmax_scale, causal,
                   window_size, softcap, alibi_slopes, 0, None, return_attn_probs)  # fmt: skip


def flash_attn_with_kvcache(q, k_cache, v_cache, *arguments, **options):
    """Not there yet."""
    raise Unsupported("weft has no flash_attn_with_kvcache (a KV cache that a call adds to) yet")
