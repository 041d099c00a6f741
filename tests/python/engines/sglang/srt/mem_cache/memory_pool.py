# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Optional

import torch


@dataclasses.dataclass
class KVWriteLoc:
    loc: torch.Tensor
    swa_loc: Optional[torch.Tensor] = None


class MHATokenToKVPool:
    def __init__(self, size, page_size, dtype, head_num, head_dim, layer_num, v_head_dim=None):
        shape = (size + page_size, head_num)
        self.k_buffer = [torch.full((*shape, head_dim), float("nan"), dtype=dtype) for _ in range(layer_num)]
        self.v_buffer = [torch.full((*shape, v_head_dim or head_dim), float("nan"), dtype=dtype) for _ in range(layer_num)]

    def get_kv_buffer(self, layer_id):
        return self.k_buffer[layer_id], self.v_buffer[layer_id]

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None):
        for buffer, new in ((self.k_buffer, cache_k), (self.v_buffer, cache_v)):
            buffer[layer.layer_id][loc_info.loc] = new.view(-1, *buffer[layer.layer_id].shape[1:])


class MLATokenToKVPool:
    def __init__(self, size, page_size, dtype, kv_lora_rank, qk_rope_head_dim, layer_num):
        self.kv_lora_rank = kv_lora_rank
        self.kv_buffer = [torch.full((size + page_size, 1, kv_lora_rank + qk_rope_head_dim), float("nan"), dtype=dtype) for _ in range(layer_num)]

    def get_kv_buffer(self, layer_id):
        return self.kv_buffer[layer_id], self.kv_buffer[layer_id][..., : self.kv_lora_rank]

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, layer_id_override=None):
        assert layer_id_override is None
        self.kv_buffer[layer.layer_id][loc_info.loc] = cache_k
