# SPDX-License-Identifier: Apache-2.0
"""The interface of FlashAttention-3 on weft, whose module is flash_attn_interface: arguments in its order, results as it gives them.

What arguments mean, and what is refused, weft.flash_attn says.
"""

from __future__ import annotations

from . import flash_attn
from .flash_attn import get_scheduler_metadata

__all__ = ["flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "get_scheduler_metadata"]


def flash_attn_func(q, k, v, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
                    window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0,
                    return_attn_probs=False):  # fmt: skip
    """weft.flash_attn.flash_attn_func(); with return_attn_probs (out, softmax_lse).

    >>> q, k, v = (torch.randn(2, 30, 4, 64) for _ in range(3))
    >>> flash_attn_3.flash_attn_func(q, k, v, causal=True).shape
    torch.Size([2, 30, 4, 64])
    """
    found = flash_attn.flash_attn_func(q, k, v, 0.0, softmax_scale, causal, window_size, softcap, return_attn_probs=return_attn_probs,
                                       qv=qv, attention_chunk=attention_chunk)  # fmt: skip
    return found[:2] if return_attn_probs else found


def flash_attn_qkvpacked_func(qkv, softmax_scale=None, causal=False, q_descale=None, k_descale=None, v_descale=None,
                              window_size=(-1, -1), attention_chunk=0, softcap=0.0, deterministic=False, num_heads_q=None, sm_margin=0,
                              return_attn_probs=False):  # fmt: skip
    """weft.flash_attn.flash_attn_qkvpacked_func(); with return_attn_probs (out, softmax_lse).

    >>> flash_attn_3.flash_attn_qkvpacked_func(torch.randn(2, 30, 3, 4, 64), causal=True).shape
    torch.Size([2, 30, 4, 64])
    """
    found = flash_attn.flash_attn_qkvpacked_func(qkv, 0.0, softmax_scale, causal, window_size, softcap,
                                                 return_attn_probs=return_attn_probs, attention_chunk=attention_chunk,
                                                 num_heads_q=num_heads_q)  # fmt: skip
    return found[:2] if return_attn_probs else found


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None,
                           softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
                           window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False,
                           sm_margin=0, return_attn_probs=False):  # fmt: skip
    """weft.flash_attn.flash_attn_varlen_func(); with return_attn_probs (out, softmax_lse).

    >>> q, starts = torch.randn(50, 4, 64), torch.tensor([0, 20, 50], dtype=torch.int32)
    >>> flash_attn_3.flash_attn_varlen_func(q, q, q, starts, starts, 30, 30, causal=True).shape
    torch.Size([50, 4, 64])
    """
    return flash_attn.flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0, softmax_scale, causal,
                                             window_size, softcap, seqused_q=seqused_q, seqused_k=seqused_k, qv=qv,
                                             attention_chunk=attention_chunk, return_softmax_lse=return_attn_probs)  # fmt: skip


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                            max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None, softmax_scale=None,
                            causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0, rotary_interleaved=True,
                            scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False):  # fmt: skip
    """weft.flash_attn.flash_attn_with_kvcache().

    >>> q, k, cache = torch.randn(2, 1, 4, 64), torch.randn(2, 1, 4, 64), torch.zeros(2, 100, 4, 64)
    >>> used = torch.tensor([10, 0], dtype=torch.int32)
    >>> flash_attn_3.flash_attn_with_kvcache(q, cache, cache.clone(), k, k, cache_seqlens=used, causal=True).shape
    torch.Size([2, 1, 4, 64])
    >>> torch.equal(cache[0, 10], k[0, 0])  # it was appended
    True
    """
    return flash_attn.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx, cache_leftpad, page_table, softmax_scale, causal,
        window_size, softcap, rotary_interleaved, return_softmax_lse=return_softmax_lse, qv=qv, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k_new=cu_seqlens_k_new, max_seqlen_q=max_seqlen_q, rotary_seqlens=rotary_seqlens, attention_chunk=attention_chunk,
        scheduler_metadata=scheduler_metadata,
    )  # fmt: skip
