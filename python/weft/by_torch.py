"""What torch computes where weft does not: plain attention of other dtypes and devices, the gradient of a bias, weights for tests."""

from __future__ import annotations

from typing import Mapping, Optional

import torch
from torch import Tensor

from .features import Features

PLAIN = Features()


def heads_second(x: Tensor, layout: str) -> Tensor:
    return x.transpose(1, 2) if layout == "bshd" else x


def seen(q: Tensor, k: Tensor, causal: bool, offset: Optional[int], features: Features = PLAIN,
         lengths: Mapping[str, Tensor] = {}) -> Optional[Tensor]:  # fmt: skip
    """(batch or 1, 1, seq, kv_seq), True where the query sees the key; None: everywhere. q and k are (batch, heads, seq, head_dim);
    the batch is not packed."""
    left, right = features.window or (-1, -1)
    right = 0 if causal else right
    if left < 0 and right < 0 and not features.chunk and not lengths:
        return None
    used, kv_used, pad = (lengths[name][:, None, None] if name in lengths else n
                          for name, n in (("q_used", q.shape[2]), ("kv_used", k.shape[2]), ("kv_pad", 0)))  # fmt: skip
    row, key = torch.arange(q.shape[2], device=q.device)[None, :, None], torch.arange(k.shape[2], device=q.device)[None, None]
    at, near = row + (kv_used - pad - used if offset is None else offset), key - pad
    mask = torch.ones((1, q.shape[2], k.shape[2]), dtype=torch.bool, device=q.device)
    if right >= 0:
        mask = mask & (near <= at + right)
    if left >= 0:
        mask = mask & (near >= at - left)
    if features.chunk:
        mask = mask & (near // features.chunk == at // features.chunk)
    if features.prefix:
        mask = mask | (near < features.prefix)
    return (mask & (near >= 0) & (key < kv_used) & (row < used))[:, None]


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str) -> Tensor:
    """What weft.attention() computes: differentiable, zeros where a query sees no key."""
    q, k, v = (heads_second(x, layout) for x in (q, k, v))
    plain = causal and (offset == 0 or (offset is None and q.shape[2] == k.shape[2]))
    mask = None if plain else seen(q, k, causal, offset)
    grouped = q.shape[1] != k.shape[1]
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=plain, scale=scale, enable_gqa=grouped)
    if mask is not None:
        o = torch.where(mask.any(3, keepdim=True), o, torch.zeros((), dtype=o.dtype, device=o.device))
    return heads_second(o, layout)


def scores(q: Tensor, k: Tensor, scale: Optional[float]) -> Tensor:
    """(batch, heads, seq, kv_seq) in fp32, scaled."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return q.float() @ k.float().transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)


def lse(q: Tensor, k: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str) -> Tensor:
    """(batch, heads, seq): the logarithm of each query's sum of exponentials."""
    q, k = heads_second(q, layout), heads_second(k, layout)
    found, mask = scores(q, k, scale), seen(q, k, causal, offset)
    return torch.logsumexp(found if mask is None else found.masked_fill(~mask, float("-inf")), 3)


def bias_gradient(q: Tensor, k: Tensor, v: Tensor, grad_o: Tensor, o: Tensor, sums: Tensor, bias: Tensor, causal: bool,
                  scale: Optional[float], offset: Optional[int], layout: str, features: Features,
                  lengths: Mapping[str, Tensor]) -> Tensor:  # fmt: skip
    """The gradient of a bias, from what the forward pass gave: as large as all scores, as a bias itself may be."""
    q, k, v, grad_o, o = (heads_second(x, layout) for x in (q, k, v, grad_o, o))
    found = scores(q, k, scale)
    if features.softcap:
        found = features.softcap * torch.tanh(found / features.softcap)
    weights = torch.exp(found + bias - sums[..., None])
    mask = seen(q, k, causal, offset, features, lengths)
    weights = (weights if mask is None else weights.masked_fill(~mask, 0)).nan_to_num(0, 0, 0)
    grad_weights = grad_o.float() @ v.float().repeat_interleave(q.shape[1] // v.shape[1], 1).transpose(2, 3)
    grad = weights * (grad_weights - (grad_o.float() * o.float()).sum(3, keepdim=True))
    return grad.sum_to_size(bias.shape).to(bias.dtype)
