# SPDX-License-Identifier: Apache-2.0
"""Weft as an attention backend of SGLang, for models with a paged KV cache: `--attention-backend weft`.

SGLang loads weft as a plugin where both are installed; `import weft.sglang` does the same. Keys and values are written by SGLang's pool.
Tables of pages have one of few widths, powers of 2, so that one plan fits many steps; in a CUDA graph they have the width of the longest
context.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch
from sglang.srt.layers.attention.attention_registry import register_attention_backend
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from torch import Tensor

from . import compute
from .errors import Unsupported
from .prepared import Prepared
from .torch import row_contiguous


@dataclasses.dataclass
class _Metadata:
    """What the layers of a step share."""

    q_starts: Optional[Tensor]  # (requests + 1), int32; None: one query each, as in decode
    used: Tensor  # (requests), int32: keys of each, those of this step included
    table: Tensor  # (requests, pages of each), int32
    prepared: Prepared = dataclasses.field(default_factory=Prepared)


def _write_location(location: Tensor) -> Any:
    """A place in the pool as set_kv_buffer() takes it."""
    try:
        from sglang.srt.mem_cache.memory_pool import KVWriteLoc
    except ImportError:  # an SGLang before it
        return location
    return KVWriteLoc(location)


class WeftAttentionBackend(AttentionBackend):
    def __init__(self, model_runner: Any):
        super().__init__()
        pool, self.is_latent = model_runner.token_to_kv_pool, model_runner.use_mla_backend  # MLA: rows of the cache are both key and value
        self._has_qv = True  # until a device is found to have no kernel for it
        if hasattr(pool, "translate_loc_from_full_to_swa"):
            raise Unsupported("weft's backend for SGLang has no memory of its own for sliding windows yet: start with "
                              "--disable-hybrid-swa-memory")  # fmt: skip
        self.token_to_kv_pool, self.req_to_token = pool, model_runner.req_to_token_pool.req_to_token
        self.page_size, self.device = model_runner.page_size, model_runner.device
        self.max_pages = -(-min(model_runner.model_config.context_len, self.req_to_token.shape[1]) // self.page_size)
        self.chunk = getattr(model_runner, "attention_chunk_size", None)
        self.forward_metadata: Optional[_Metadata] = None
        self._in_graphs: Optional[_Metadata] = None  # for the largest batch; a graph has the first rows of it

    # What a step needs beside its tensors.

    def _pages(self, forward_batch: Any, width: int) -> Tensor:
        """(requests, width): the pages of each request's tokens. Those behind its last token are never read."""
        tokens = self.req_to_token[:, : width * self.page_size : self.page_size]
        return tokens.index_select(0, forward_batch.req_pool_indices) // self.page_size

    def _q_starts(self, forward_batch: Any) -> Optional[Tensor]:
        mode = forward_batch.forward_mode
        if mode.is_decode_or_idle():
            return None
        if mode.is_target_verify() or mode.is_draft_extend_v2():
            raise Unsupported(f"weft's backend for SGLang has no speculative decoding ({mode.name}) yet")
        ends = torch.cumsum(forward_batch.extend_seq_lens, 0, dtype=torch.int32)
        return torch.nn.functional.pad(ends, (1, 0))

    def init_forward_metadata(self, forward_batch: Any) -> None:
        longest = forward_batch.seq_lens_cpu.max().item() if forward_batch.seq_lens_cpu is not None else self.max_pages * self.page_size
        width = min(1 << (max(-(-int(longest) // self.page_size), 1) - 1).bit_length(), self.max_pages)
        self.forward_metadata = _Metadata(self._q_starts(forward_batch), forward_batch.seq_lens.to(torch.int32),
                                          self._pages(forward_batch, width).to(torch.int32))  # fmt: skip

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)

        self._in_graphs = _Metadata(zeros(max_bs + 1), zeros(max_bs), zeros(max_bs, self.max_pages))

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Fills the tensors that a captured graph reads."""
        if self._in_graphs is None:
            return self.init_forward_metadata(forward_batch)
        batch, held = forward_batch.batch_size, self._in_graphs
        starts = self._q_starts(forward_batch)
        if starts is not None:
            held.q_starts[: batch + 1].copy_(starts)
        held.used[:batch].copy_(forward_batch.seq_lens[:batch])
        held.table[:batch].copy_(self._pages(forward_batch, self.max_pages)[:batch])
        self.forward_metadata = _Metadata(None if starts is None else held.q_starts[: batch + 1], held.used[:batch], held.table[:batch])

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    # A layer's attention.

    def _attention(self, q: Tensor, k: Optional[Tensor], v: Optional[Tensor], layer: Any, forward_batch: Any, save_kv_cache: bool,
                   sinks: Optional[Tensor]) -> Tensor:  # fmt: skip
        if layer.is_cross_attention:
            raise Unsupported("weft's backend for SGLang has no cross attention yet")
        if getattr(layer, "xai_temperature_len", -1) > 0:
            raise Unsupported("weft's backend for SGLang has no xai_temperature_len yet")
        if k is not None and save_kv_cache:
            scales = () if self.is_latent else (layer.k_scale, layer.v_scale)
            self.token_to_kv_pool.set_kv_buffer(layer, _write_location(forward_batch.out_cache_loc), k, v, *scales)
        k_cache, v_cache = self.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        k_cache, v_cache = (x.unflatten(0, (-1, self.page_size)) for x in (k_cache, v_cache))
        causal = layer.attn_type not in (AttentionType.ENCODER_ONLY, getattr(AttentionType, "DECODER_BIDIRECTIONAL", None))
        window, size = None, layer.sliding_window_size
        if size is not None and size > -1:
            window = (size, 0 if causal else size)
        rows = row_contiguous(q.view(-1, layer.tp_q_head_num, layer.qk_head_dim))
        given, held = getattr(forward_batch, "_attn_output", None), self.forward_metadata
        out = q.new_empty((rows.shape[0], layer.tp_q_head_num * layer.v_head_dim)) if given is None else given.view(rows.shape[0], -1)
        into = out.view(rows.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        if held.q_starts is None:  # rows behind the batch's are there to fill it up
            count = held.used.shape[0]
            rows, into = rows[:count, None], into[:count, None]
        options = dict(causal=causal, scale=layer.scaling, window=window, softcap=layer.logit_cap or None,
                       chunk=self.chunk if getattr(layer, "use_irope", False) else None,
                       sinks=None if sinks is None else sinks.detach().float(), q_starts=held.q_starts, out=into,
                       prepared=held.prepared)  # fmt: skip
        if self.is_latent and layer.qk_head_dim != k_cache.shape[-1]:
            self._prefill(rows, k, v, layer, forward_batch, options)
        elif self.is_latent:
            self._latent(rows, k_cache, v_cache, dict(kv_used=held.used, block_table=held.table, **options))
        else:
            compute.attention(rows, k_cache, v_cache, kv_used=held.used, block_table=held.table, **options)
        return out

    def _latent(self, q: Tensor, k: Tensor, v: Tensor, options: dict) -> None:
        """Absorbed weights: a row of the cache is a key, and its first part the value. Kernels that have qv read it once."""
        dim = v.shape[-1]
        if self._has_qv:
            try:
                compute.attention(q[..., dim:], k[..., dim:], v, qv=q[..., :dim], **options)
                return
            except Unsupported:  # told before anything runs
                self._has_qv = False
        compute.attention(q, k, v, **options)

    def _prefill(self, q: Tensor, k: Tensor, v: Tensor, layer: Any, forward_batch: Any, options: dict) -> None:
        """A model with MLA that attends to a step's own keys and values, as each head has them."""
        if self.forward_metadata.q_starts is None or getattr(forward_batch, "attn_attend_prefix_cache", None) or any(
            getattr(forward_batch, "extend_prefix_lens_cpu", None) or ()
        ):
            raise Unsupported("weft's backend for SGLang has no heads of their own over a latent cache (MLA) yet")
        k, v = (row_contiguous(x.reshape(-1, layer.tp_k_head_num, n)) for x, n in ((k, layer.qk_head_dim), (v, layer.v_head_dim)))
        compute.attention(q, k, v, **options)

    def forward_extend(self, q: Tensor, k: Optional[Tensor], v: Optional[Tensor], layer: Any, forward_batch: Any,
                       save_kv_cache: bool = True, sinks: Optional[Tensor] = None, **others: Any) -> Tensor:  # fmt: skip
        for name, value in others.items():
            if value is not None:
                raise Unsupported(f"weft's backend for SGLang has no {name} yet")
        return self._attention(q, k, v, layer, forward_batch, save_kv_cache, sinks)

    forward_decode = forward_extend

    def support_triton(self) -> bool:
        return True


@register_attention_backend("weft")
def create_weft_backend(runner: Any) -> WeftAttentionBackend:
    return WeftAttentionBackend(runner)


def _allow_on_the_command_line() -> None:
    try:
        from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices
    except ImportError:  # an SGLang that takes any name
        return
    if "weft" not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices(["weft"])


_allow_on_the_command_line()
