# SPDX-License-Identifier: Apache-2.0
"""Weft as an attention backend of vLLM, for models with a paged KV cache: `--attention-backend CUSTOM`.

vLLM loads weft as a plugin where both are installed, and then finds the classes here. Keys and values are written to the cache by
slot_mapping, before forward() reads them through the block table. One plan fits all steps of a batch of one size, so CUDA graphs
hold for all lengths.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadataBuilder,
    AttentionType,
)

from . import cascade, compute, problems
from .errors import Invalid, Unsupported
from .prepared import Prepared
from .torch import row_contiguous

_ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


class WeftBackend(AttentionBackend):
    """What weft can do, and who does it."""

    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]
    accept_output_buffer = True
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type:
        return WeftImpl

    @staticmethod
    def get_builder_cls() -> type:
        return WeftMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int,
                           cache_dtype_str: str = "auto") -> Tuple[int, ...]:  # fmt: skip
        """For versions of vLLM in which a backend says how its cache is laid out."""
        return 2, num_blocks, block_size, num_kv_heads, head_size

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 8 == 0 and head_size <= problems.MAX_HEAD_DIM

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in (AttentionType.DECODER, AttentionType.ENCODER_DECODER, *_ENCODERS)

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return capability.major >= 8


@dataclasses.dataclass
class WeftMetadata:
    """What the layers of a step share. Tensors are vLLM's own and stay where they are, so a CUDA graph may hold them."""

    num_actual_tokens: int
    query_start_loc: Tensor  # (requests + 1)
    seq_lens: Tensor  # (requests): keys of each, those of this step included
    block_table: Tensor  # (requests, blocks of each)
    slot_mapping: Tensor  # (tokens): where each token's key and value go; below 0: nowhere
    causal: bool
    one_each: bool  # whether every request has one query, as in decode: then queries are a batch, for which there are faster ways
    max_query_len: int  # queries of a request, at most
    common_prefix_len: int = 0  # keys that all requests begin with, in whole blocks, if they are to be read once; else 0
    suffix_kv_lens: Optional[Tensor] = None  # (requests): keys of each behind those
    prepared: Prepared = dataclasses.field(default_factory=Prepared)


class WeftMetadataBuilder(AttentionMetadataBuilder):
    _cudagraph_support = AttentionCGSupport.ALWAYS
    supports_update_block_table = True

    def __init__(self, kv_cache_spec: Any, layer_names: List[str], vllm_config: Any, device: torch.device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> WeftMetadata:
        common = common_attn_metadata
        if isinstance(common.causal, Tensor):
            raise Unsupported("weft has no causal mask for some sequences of a batch (causal as a tensor)")
        for name in ("mm_req_doc_ranges", "rswa_prefix_lens"):
            if getattr(common, name, None) is not None:
                raise Unsupported(f"weft's backend for vLLM has no {name} yet")
        suffixes = (common.seq_lens - common_prefix_len).clamp_(min=0) if common_prefix_len else None  # 0 where a request is padding
        return WeftMetadata(common.num_actual_tokens, common.query_start_loc, common.seq_lens, common.block_table_tensor,
                            common.slot_mapping, common.causal,
                            common.max_query_len == 1 and common.num_actual_tokens == common.num_reqs, common.max_query_len, common_prefix_len,
                            suffixes)  # fmt: skip

    def use_cascade_attention(self, common_prefix_len: int, query_lens: Any, num_query_heads: int = 0, num_kv_heads: int = 0,
                              use_alibi: bool = False, use_sliding_window: bool = False, use_local_attention: bool = False,
                              num_sms: int = 0, dcp_world_size: int = 1, **more: Any) -> bool:  # fmt: skip
        """Whether what requests share is worth two launches more: as much of it, and as many requests, as vLLM's own backend asks for."""
        by_position = use_alibi or use_sliding_window or use_local_attention
        return common_prefix_len >= 256 and len(query_lens) >= 8 and not by_position and dcp_world_size == 1

    def update_block_table(self, metadata: WeftMetadata, blk_table: Tensor, slot_mapping: Tensor) -> WeftMetadata:
        return dataclasses.replace(metadata, block_table=blk_table, slot_mapping=slot_mapping)


def keys_and_values(kv_cache: Tensor, head_size: int) -> Tuple[Tensor, Tensor]:
    """K and V (blocks, block, kv_heads, head_size) of a layer's cache, as views, in each of vLLM's layouts: (blocks, kv_heads, block,
    2 head_size), (2, blocks, block, kv_heads, head_size) and (blocks, 2, block, kv_heads, head_size)."""
    if kv_cache.dim() == 4 and kv_cache.shape[3] > head_size:
        both = kv_cache.transpose(1, 2)
        return both[..., :head_size], both[..., head_size:]
    if kv_cache.dim() == 5 and 2 in kv_cache.shape[:2]:
        k, v = kv_cache.unbind(0 if kv_cache.shape[0] == 2 else 1)
        return k, v
    raise Invalid(f"the KV cache is {tuple(kv_cache.shape)}, which is no layout of vLLM's that weft knows")


def write(k_cache: Tensor, v_cache: Tensor, key: Tensor, value: Tensor, slots: Tensor, layer: Any) -> None:
    """Writes keys and values (tokens, kv_heads, head_size) to their slots; those of slots below 0 are dropped."""
    if k_cache.is_cuda:  # in a CUDA graph nothing may depend on values
        from vllm._custom_ops import reshape_and_cache_flash

        reshape_and_cache_flash(key, value, k_cache, v_cache, slots, "auto", layer._k_scale, layer._v_scale)
        return
    kept = slots >= 0
    slots = slots[kept].long()
    at = (slots // k_cache.shape[1], slots % k_cache.shape[1])
    for cache, new in ((k_cache, key), (v_cache, value)):
        cache[at] = new[: kept.shape[0]][kept].to(cache.dtype)


class WeftImpl(AttentionImpl):
    """A layer's attention."""

    supports_dcp = False

    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: Optional[int] = None,
                 alibi_slopes: Optional[List[float]] = None, sliding_window: Optional[int] = None, kv_cache_dtype: str = "auto",
                 logits_soft_cap: Optional[float] = None, attn_type: Any = AttentionType.DECODER,
                 kv_sharing_target_layer_name: Optional[str] = None, sinks: Optional[Tensor] = None):  # fmt: skip
        if kv_cache_dtype not in WeftBackend.supported_kv_cache_dtypes:
            raise Unsupported(f"weft has no KV cache of {kv_cache_dtype} yet: start vLLM with --kv-cache-dtype auto")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.alibi_slopes = alibi_slopes
        self.sliding_window, self.kv_cache_dtype, self.attn_type = sliding_window, kv_cache_dtype, attn_type
        self.logits_soft_cap = logits_soft_cap or None
        self.kv_sharing_target_layer_name, self.sinks = kv_sharing_target_layer_name, sinks
        self._alibi: Optional[Tensor] = None

    def _slopes(self, like: Tensor) -> Optional[Tensor]:
        """ALiBi's slopes on the device of the queries: made at the first call, which is before any graph."""
        if self.alibi_slopes is not None and self._alibi is None:
            self._alibi = torch.tensor(self.alibi_slopes, dtype=torch.float32, device=like.device)
        return self._alibi

    def forward(self, layer: Any, query: Tensor, key: Optional[Tensor], value: Optional[Tensor], kv_cache: Tensor,
                attn_metadata: Optional[WeftMetadata], output: Tensor, output_scale: Optional[Tensor] = None,
                output_block_scale: Optional[Tensor] = None) -> Tensor:  # fmt: skip
        """Attention of query (tokens, heads, head_size) into output, shaped like it."""
        if output_scale is not None or output_block_scale is not None:
            raise Unsupported("weft has no output_scale (a quantized result) yet")
        if attn_metadata is None:  # vLLM measures how much memory a step takes
            return output.fill_(0)
        tokens, encoder = attn_metadata.num_actual_tokens, self.attn_type in _ENCODERS
        causal = attn_metadata.causal and not encoder
        window = None
        if self.sliding_window is not None:
            window = (self.sliding_window - 1, 0 if causal else self.sliding_window - 1)
        options = dict(causal=causal, scale=self.scale, window=window, softcap=self.logits_soft_cap,
                       alibi=self._slopes(query), sinks=None if self.sinks is None else self.sinks.detach().float(),
                       q_starts=attn_metadata.query_start_loc, q_most=attn_metadata.max_query_len)  # fmt: skip
        q, out = row_contiguous(query[:tokens]), output[:tokens].view(tokens, self.num_heads, -1)
        if encoder:
            k, v = key[:tokens], value[:tokens]
        else:
            k, v = keys_and_values(kv_cache, self.head_size)
            options.update(kv_used=attn_metadata.seq_lens, block_table=attn_metadata.block_table)
            if attn_metadata.one_each:
                q, out = q[:, None], out[:, None]
                del options["q_starts"], options["q_most"]
            if attn_metadata.common_prefix_len:
                self._cascade(q, k, v, out, attn_metadata, options)
                return output
        compute.attention(q, k, v, out=out, prepared=attn_metadata.prepared, **options)
        return output

    def _cascade(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, metadata: WeftMetadata, options: dict) -> None:
        """The blocks that all requests begin with once, for the queries of all together; then the others."""
        if options.pop("window") is not None or options.pop("alibi") is not None:
            raise Unsupported("weft has no cascades with a window or ALiBi")
        blocks, rest = divmod(metadata.common_prefix_len, k.shape[1])
        if rest:
            raise Invalid(f"common_prefix_len {metadata.common_prefix_len} is no whole number of blocks of {k.shape[1]} keys")
        both = {name: options.pop(name) for name in ("scale", "softcap")}
        shared = dict(k=k, v=v, block_table=metadata.block_table[:1, :blocks])
        options.update(k=k, v=v, block_table=metadata.block_table[:, blocks:], kv_used=metadata.suffix_kv_lens)
        cascade.combined(q, shared, options, out=out, **both)

    def do_kv_cache_update(self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor) -> None:
        if self.attn_type not in _ENCODERS:
            write(*keys_and_values(kv_cache, self.head_size), key, value, slot_mapping, layer)
