# SPDX-License-Identifier: Apache-2.0
"""What torch computes where weft does not: plain attention of other dtypes and devices, weights for tests.
Tensors are (batch, heads, seq, head_dim) but for attention() and lse(); batches are not packed."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from .features import Features

PLAIN = Features()


class Asked(NamedTuple):
    """What scores depend on beside q and k. `arrays` may have alibi, bias, q_used, kv_used and kv_pad."""

    scale: Optional[float]
    causal: bool
    offset: Optional[int]
    features: Features = PLAIN
    arrays: Mapping[str, Tensor] = {}


def heads_second(x: Tensor, layout: str) -> Tensor:
    return x.transpose(1, 2) if layout == "bshd" else x


class _Places(NamedTuple):
    """Where queries and keys are: rows and columns of scores, and positions among the keys that count."""

    row: Tensor
    column: Tensor
    at: Tensor  # of queries
    key: Tensor  # of keys


def _ends(q: Tensor, k: Tensor, asked: Asked) -> tuple:
    """(queries, keys, padding) that count, each a number or (batch, 1, 1)."""
    lengths = {"q_used": q.shape[2], "kv_used": k.shape[2], "kv_pad": 0}
    return tuple(asked.arrays[name][:, None, None] if name in asked.arrays else number for name, number in lengths.items())


def _places(q: Tensor, k: Tensor, asked: Asked) -> _Places:
    used, kv_used, pad = _ends(q, k, asked)
    row, column = torch.arange(q.shape[2], device=q.device)[None, :, None], torch.arange(k.shape[2], device=q.device)[None, None]
    return _Places(row, column, row + (kv_used - pad - used if asked.offset is None else asked.offset), column - pad)


def seen(q: Tensor, k: Tensor, asked: Asked) -> Optional[Tensor]:
    """(batch or 1, 1, seq, kv_seq), True where the query sees the key; None: everywhere."""
    features = asked.features
    left, right = features.window or (-1, -1)
    right = 0 if asked.causal else right
    used, kv_used, _ = _ends(q, k, asked)
    row, column, at, key = _places(q, k, asked)
    if left < 0 and right < 0 and not features.chunk and not {"q_used", "kv_used", "kv_pad"} & set(asked.arrays):
        return None
    mask = torch.ones((1, q.shape[2], k.shape[2]), dtype=torch.bool, device=q.device)
    if right >= 0:
        mask = mask & (key <= at + right)
    if left >= 0:
        mask = mask & (key >= at - left)
    if features.chunk:
        mask = mask & (key // features.chunk == at // features.chunk)
    if features.prefix:
        mask = mask | (key < features.prefix)
    return (mask & (key >= 0) & (column < kv_used) & (row < used))[:, None]


def scores(q: Tensor, k: Tensor, asked: Asked) -> Tensor:
    """(batch, heads, seq, kv_seq) in fp32, as they are before the softmax; -inf where a query does not see a key."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    found = q.float() @ k.float().transpose(2, 3) * (q.shape[3] ** -0.5 if asked.scale is None else asked.scale)
    if asked.features.softcap:
        found = asked.features.softcap * torch.tanh(found / asked.features.softcap)
    if "alibi" in asked.arrays:
        places = _places(q, k, asked)
        found = found - asked.arrays["alibi"].view(-1, q.shape[1], 1, 1) * (places.at - places.key).abs()[:, None]
    bias = asked.arrays.get("bias")
    if bias is not None:
        found = found.masked_fill(~bias, float("-inf")) if bias.dtype == torch.bool else found + bias
    mask = seen(q, k, asked)
    return found if mask is None else found.masked_fill(~mask, float("-inf"))


def dropped(shape: torch.Size, dropout: float, seed: int, device: torch.device) -> Tensor:
    """(batch, heads, seq, kv_seq), True where dropout takes a weight: Philox 4x32-10, as src/problem/dropout.h has it. Products of
    32-bit words wrap around in int64, and keep their bits."""
    batch, heads, seq, kv_seq = shape
    low32 = 0xFFFFFFFF
    line, query, key = torch.meshgrid(*(torch.arange(n, device=device) for n in (batch * heads, seq, kv_seq)), indexing="ij")
    words, low, high = [key // 4, query, line, line >> 32], seed & low32, seed >> 32 & low32
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(b >> 32 & low32) ^ words[1] ^ low, b & low32, (a >> 32 & low32) ^ words[3] ^ high, a & low32]
        low, high = low + 0x9E3779B9 & low32, high + 0xBB67AE85 & low32
    word = torch.stack(words).gather(0, (key % 4)[None])[0]
    return (word < int(dropout * 2**32)).view(shape)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str) -> Tensor:
    """What weft.attention() computes: differentiable, zeros where a query sees no key."""
    q, k, v = (heads_second(x, layout) for x in (q, k, v))
    plain = causal and (offset == 0 or (offset is None and q.shape[2] == k.shape[2]))
    mask = None if plain else seen(q, k, Asked(scale, causal, offset))
    grouped = q.shape[1] != k.shape[1]
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=plain, scale=scale, enable_gqa=grouped)
    if mask is not None:
        o = torch.where(mask.any(3, keepdim=True), o, torch.zeros((), dtype=o.dtype, device=o.device))
    return heads_second(o, layout)


def lse(q: Tensor, k: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str) -> Tensor:
    """(batch, heads, seq): the logarithm of each query's sum of exponentials."""
    return torch.logsumexp(scores(heads_second(q, layout), heads_second(k, layout), Asked(scale, causal, offset)), 3)
