# SPDX-License-Identifier: Apache-2.0
from abc import ABC


class AttentionBackend(ABC):
    def init_forward_metadata(self, forward_batch):
        self.init_forward_metadata_out_graph(forward_batch)
        self.init_forward_metadata_in_graph(forward_batch)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False): ...

    def init_forward_metadata_in_graph(self, forward_batch): ...

    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        mode = forward_batch.forward_mode
        if mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        forward = self.forward_decode if mode.is_decode() else self.forward_extend
        return forward(q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs)
