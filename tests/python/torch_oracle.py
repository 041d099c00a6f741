# SPDX-License-Identifier: Apache-2.0
"""Attention in torch, differentiable and dense, with everything that weft.attention() takes. Masks and dropout are the oracle's."""

import numpy as np
import torch
from oracle import kept, seen, sequences


def attention(q, k, v, causal=False, scale=None, offset=None, layout="bshd", window=None, chunk=None, prefix=None, softcap=None,
              sinks=None, alibi=None, bias=None, dropout=None, seed=0, **lengths):  # fmt: skip
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    alibi = alibi.cpu() if torch.is_tensor(alibi) else alibi
    visible, distance = np.zeros(scores.shape, bool), np.zeros(scores.shape)
    rows = {name: np.asarray(x.cpu() if torch.is_tensor(x) else x) for name, x in lengths.items()}
    for i, (b, queries, keys) in enumerate(sequences(len(q), q.shape[2], k.shape[2], **rows)):
        mask, at = seen(queries.stop - queries.start, keys.stop - keys.start, causal, offset, window, chunk, prefix)
        visible[b, :, queries, keys] = mask
        if alibi is not None:
            slopes = np.asarray(alibi if np.ndim(alibi) == 1 else alibi[i])
            distance[b, :, queries, keys] = slopes[:, None, None] * np.abs(at - np.arange(mask.shape[1]))
    scores = scores - torch.from_numpy(distance).to(scores)
    visible = torch.from_numpy(visible).to(scores.device)
    if bias is not None:
        scores, visible = (scores, visible & bias) if bias.dtype == torch.bool else (scores + bias, visible)
    scores = scores.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores)[None, :, None, None].expand(*scores.shape[:3], 1)], 3)
    weights = torch.softmax(scores, 3)[..., : k.shape[2]]
    weights = torch.where(visible.any(3, keepdim=True), weights, weights.new_zeros(()))
    if dropout:
        weights = weights * torch.from_numpy(kept(dropout, seed, tuple(weights.shape))).to(weights)
    o = weights.nan_to_num() @ v
    return o.transpose(1, 2) if layout == "bshd" else o
