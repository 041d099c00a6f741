# SPDX-License-Identifier: Apache-2.0
"""Cascades: attention of sequences that share their first keys. The shared keys are read once, for the queries of all sequences
together; what follows them is read for each sequence; weft.combine() makes one attention of both."""

from __future__ import annotations

from typing import Any, Optional

from . import compute
from .errors import Invalid


def _less(kv_used: Any, shared: int) -> Any:
    """Keys of each sequence behind those that are shared; of one that is empty, as padding is, none."""
    if isinstance(kv_used, (list, tuple)):
        return [max(used - shared, 0) for used in kv_used]
    return (kv_used - shared) * (kv_used > shared)


def _contiguous(x: Any) -> Any:
    return x.contiguous() if hasattr(x, "contiguous") else x.copy()


def combined(q: Any, shared: dict, own: dict, return_lse: bool = False, out: Any = None, **both: Any) -> Any:
    """Attention of q (batch, seq, heads, head_dim), or packed (total, heads, head_dim), over what sequences share and what each has for
    itself. `shared` and `own` are the arguments of weft.attention() for the two, `both` what they have in common."""
    rows = q.reshape(1, -1, *q.shape[-2:])  # of one sequence, so that keys are read once
    prefix, prefix_lse = compute.attention(rows, return_lse=True, **shared, **both)
    suffix, suffix_lse = compute.attention(q, return_lse=True, **own, **both)
    if len(q.shape) == 3:
        prefix_lse = prefix_lse[0]
    else:  # (heads, batch, seq) so far
        batch, seq, heads = q.shape[:3]
        prefix_lse = _contiguous(prefix_lse.reshape(heads, batch, seq).swapaxes(0, 1))
    parts = (prefix.reshape(suffix.shape), suffix)
    return compute.combine(parts, (prefix_lse, suffix_lse), return_lse=return_lse, out=out)


def cascade_attention(q: Any, k: Any, v: Any, prefix: Any, *, causal: bool = True, scale: Optional[float] = None,
                      softcap: Optional[float] = None, sinks: Any = None, kv_used: Any = None, block_table: Any = None,
                      append: Any = None, lengths: Any = None, q_starts: Any = None, new_starts: Any = None, return_lse: bool = False,
                      out: Any = None) -> Any:  # fmt: skip
    """Attention of sequences whose first keys are the same.

    q       (batch, seq, heads, head_dim), or packed (total, heads, head_dim) with q_starts or lengths
    prefix  what they share: (k, v), each (keys, kv_heads, head_dim); or, with block_table, how many keys: whole pages, which are
            those that the list of the first sequence begins with
    k, v    with such a pair, the keys that follow it; else the pages of the whole sequences

    kv_used counts the keys in k and v that are a sequence's: with a pair those that follow it, else all of them. Queries see all of the
    prefix. causal is about the keys behind it: the last query sees the last key. The other arguments are those of weft.attention(). What
    goes by positions (windows, chunks, ALiBi, rotation) is not for cascades: rotate queries before the call. There is no gradient.

    >>> q = rng.standard_normal((3, 1, 8, 64), dtype=np.float32)  # a token of each of three sequences
    >>> k, v = (rng.standard_normal((3, 20, 2, 64), dtype=np.float32) for _ in range(2))
    >>> prefix = tuple(rng.standard_normal((100, 2, 64), dtype=np.float32) for _ in range(2))
    >>> weft.cascade_attention(q, k, v, prefix).shape
    (3, 1, 8, 64)
    """
    own = dict(k=k, v=v, causal=causal, sinks=sinks, kv_used=kv_used, block_table=block_table, append=append, lengths=lengths,
               q_starts=q_starts, new_starts=new_starts)  # fmt: skip
    if isinstance(prefix, (tuple, list)):
        if len(prefix) != 2 or any(len(x.shape) != 3 for x in prefix):
            raise Invalid("prefix is not (k, v), each (keys, kv_heads, head_dim)")
        shared = dict(zip("kv", (x[None] for x in prefix)))
    else:
        pages, rest = divmod(prefix, k.shape[1]) if block_table is not None and kv_used is not None else (0, 1)
        if rest or not 0 < pages < block_table.shape[1]:
            raise Invalid(f"prefix {prefix} is not a number of keys in whole pages that leaves some of each sequence's, with block_table "
                          "and kv_used")  # fmt: skip
        shared = dict(k=k, v=v, block_table=block_table[:1, :pages])
        own.update(block_table=block_table[:, pages:], kv_used=_less(kv_used, prefix))
    return combined(q, shared, {name: x for name, x in own.items() if x is not None}, return_lse, out, scale=scale, softcap=softcap)
