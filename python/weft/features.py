# SPDX-License-Identifier: Apache-2.0
"""What an attention may have beside Q, K and V: masks, soft caps, sinks, slopes, biases, dropout, sequences of any length, KV caches.

Numbers are part of the plan. Arrays come with its data: a plan fits all their values. Lengths may be either: as a list, or an array of
the host beside arrays on a GPU, they are known when the plan is made.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from . import _c, blocks, caches
from .arrays import FLOATS, View
from .errors import Invalid
from .prepared import Prepared
from .problems import SEQ_AND_HEAD, Window, lengths_to_c, mask_of, number_in, starts_of, strides_of, window_of
from .schedules import whole

LENGTHS = ("q_starts", "kv_starts", "q_used", "kv_used", "kv_pad")
# The arrays by name, and the dtypes that each may have; of a bias, not fp16 beside bf16; of qv that of q.
ARRAYS: Dict[str, Tuple[str, ...]] = {
    "sinks": ("fp32",), "alibi": ("fp32",), "bias": (*FLOATS, "bool"), **dict.fromkeys(LENGTHS, ("int32",)),
    **dict.fromkeys(blocks.ARRAYS, ("int32",)), "tree": ("int64",), "qv": FLOATS,
}  # fmt: skip


class Features(NamedTuple):
    """Those of a plan: numbers, so that equal ones find the same plan."""

    window: Window = None
    chunk: int = 0
    prefix: int = 0
    softcap: float = 0.0
    dropout: float = 0.0
    max: bool = False  # whether data.max is written
    known: Tuple[Tuple[str, Tuple[int, ...]], ...] = ()  # lengths by their names
    block_mask: Tuple[int, ...] = ()  # batch, heads, seq and kv_seq of the mask; queries and keys of a block
    rotary_interleaved: bool = False  # of a cache
    q_most: int = 0  # queries of a sequence of a packed batch, at most; 0: many, or not known


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a call asks for: features, arrays by their names in the order of ARRAYS, the seed of dropout, what a KV cache brings by the
    names of caches.ARRAYS, the array that the result is written to, and what it has in common with other calls."""

    features: Features
    arrays: Mapping[str, Any]
    seed: int = 0
    cache: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    out: Any = None
    prepared: Optional[Prepared] = None


def _is_known(lengths: Any, q: Any) -> bool:
    """Whether lengths are values of the host rather than an array such as q."""
    return isinstance(lengths, (list, tuple)) or (type(lengths).__module__ == "numpy" and type(q).__module__ != "numpy")


def _whole_numbers(name: str, values: Any) -> Tuple[int, ...]:
    if not hasattr(values, "__iter__"):
        raise Invalid(f"{name} {values!r} is not a list of whole numbers")
    return tuple(whole(name, value) for value in values)


def _seed(seed: Any) -> int:
    """A seed as the word that it is; torch's are signed."""
    if hasattr(seed, "__index__") and 2**63 <= seed.__index__() < 2**64:
        return seed.__index__()
    return whole("seed", seed) & (2**64 - 1)


def _few(q_most: Optional[int]) -> int:
    """A power of 2 up to 64 that is at least so many, so that few plans fit all numbers; 0: more, or not known."""
    most = whole("q_most", q_most or 0)
    return 0 if not 0 < most <= 64 else 1 << (most - 1).bit_length()


def asked(q: Any, *, window: Any = None, chunk: Optional[int] = None, prefix: Optional[int] = None, softcap: Optional[float] = None,
          sinks: Any = None, alibi: Any = None, bias: Any = None, lengths: Any = None, kv_lengths: Any = None, q_starts: Any = None,
          kv_starts: Any = None, q_used: Any = None, kv_used: Any = None, kv_pad: Any = None, dropout: Optional[float] = None,
          seed: int = 0, block_mask: Any = None, tree: Any = None, return_max: bool = False, block_table: Any = None, append: Any = None,
          new_starts: Any = None, rotary: Any = None, rotary_interleaved: bool = False, positions: Any = None, out: Any = None,
          qv: Any = None, q_most: Optional[int] = None, prepared: Optional[Prepared] = None, **unknown: Any) -> Optional[Asked]:  # fmt: skip
    """What a call of weft.attention() asks for by these arguments of it; None: nothing."""
    if unknown:
        raise TypeError(f"attention() got an unexpected keyword argument {next(iter(unknown))!r}")
    arrays = dict(zip(ARRAYS, (sinks, alibi, bias, q_starts, kv_starts, q_used, kv_used, kv_pad)))
    given = {name: x for name, x in arrays.items() if x is not None}
    shape: Tuple[int, ...] = ()
    if block_mask is not None:
        mask = blocks.block_mask_of(block_mask)
        shape = (*mask.shape, *mask.block_size)
        given.update(mask.arrays(q))
    if tree is not None:
        given["tree"] = blocks.tree_of(tree, q)
    if qv is not None:
        given["qv"] = qv
    known = {}
    for name, starts, values in (("lengths", "q_starts", lengths), ("kv_lengths", "kv_starts", kv_lengths)):
        if values is not None:
            if starts in given:
                raise Invalid(f"{name} and {starts} say the same: give one of them")
            known[starts] = starts_of(_whole_numbers(name, values))
    known.update({name: _whole_numbers(name, given.pop(name)) for name in LENGTHS if name in given and _is_known(given[name], q)})
    features = Features(
        window_of(window), whole("chunk", chunk or 0), whole("prefix", prefix or 0), number_in("softcap", softcap or 0),
        number_in("dropout", dropout or 0), bool(return_max), tuple(sorted(known.items())), shape,
        bool(rotary_interleaved) and rotary is not None, _few(q_most),
    )  # fmt: skip
    cache = caches.given(block_table, append, new_starts, rotary, positions)
    if not given and not cache and out is None and features == Features():
        return None
    return Asked(features, given, _seed(seed), cache, out, prepared)


def named(what: Asked) -> Tuple[str, ...]:
    """What a call asks for, by the names of weft.attention()'s arguments."""
    known = dict(what.features.known)
    numbers = (name for name, value in what.features._asdict().items() if value and name != "known")
    return (*numbers, *(name for name in what.arrays if name not in blocks.ARRAYS), *known, *caches.named(what.cache))


def _vector(name: str, view: View, lengths: Tuple[int, ...]) -> None:
    """Refuses what is not a packed vector of one of these lengths; an empty tuple allows any."""
    if len(view.shape) != 1 or (lengths and view.shape[0] not in lengths):
        expected = f"({' or '.join(map(str, lengths))},)" if lengths else "a vector"
        raise Invalid(f"{name} is {view.shape}, not {expected}")
    if view.strides[0] != 1 and view.shape[0] > 1:
        raise Invalid(f"{name} has stride {view.strides[0]}, not 1: copy it to make it contiguous")


def is_packed(features: Optional[Features], names: Any) -> bool:
    """Whether a batch is packed: sequences lie one behind the other. `names` are those of the arrays."""
    return "q_starts" in names or (features is not None and any(name == "q_starts" for name, _ in features.known))


def _bias_fields(view: View, shape: Tuple[int, ...], dtype: str) -> Dict[str, Any]:
    if len(view.shape) > 4 or any(have not in (1, want) for have, want in zip(view.shape[::-1], shape[::-1])):
        raise Invalid(f"bias is {view.shape}, which does not broadcast to (batch, heads, seq, kv_seq) {shape}")
    strides = [0] * (4 - len(view.shape)) + [s if n > 1 else 0 for n, s in zip(view.shape, view.strides)]
    if not any(strides) and shape != (1, 1, 1, 1):  # which would mean packed
        raise Invalid("bias is one value for all scores: repeat it over the keys")
    if view.dtype not in (dtype, "fp32", "bool"):
        raise Invalid(f"bias is {view.dtype}, not {dtype}, fp32 or bool")
    kinds = {"bool": _c.BIAS_BOOL, "fp32": _c.BIAS_FP32, dtype: _c.BIAS_DTYPE}
    batch, head, seq, key = strides
    return {"bias_type": kinds[view.dtype], "bias_strides": _c.Strides(batch, seq, head),
            "bias_key_stride": key}  # fmt: skip


def _alibi_stride(view: View, sequences: int, heads: int) -> int:
    if view.shape not in ((heads,), (sequences, heads)) or (view.strides[-1] != 1 and heads > 1):
        raise Invalid(f"alibi is {view.shape} with strides {view.strides}, not ({heads},) or ({sequences}, {heads}) with rows in one piece")
    if len(view.shape) == 1 or sequences == 1:
        return 0
    if view.strides[0] < heads:
        raise Invalid(f"rows of alibi are {view.strides[0]} elements apart, and there are {heads} heads")
    return view.strides[0]


def _block_fields(views: Mapping[str, View], numbers: Tuple[int, ...], shape: Tuple[int, ...]) -> Dict[str, Any]:
    *of, rows, columns = numbers
    if tuple(of[2:]) != shape[2:] or of[0] not in (1, shape[0]) or of[1] not in (1, shape[1]):
        raise Invalid(f"block_mask is {tuple(of)}, which does not broadcast to (batch, heads, seq, kv_seq) {shape}")
    lists = -(-of[2] // rows)
    for name in blocks.ARRAYS:
        _vector(name, views[name], ())
    return {
        "block_rows": rows, "block_columns": columns, "block_head_stride": lists if of[1] > 1 else 0,
        "block_batch_stride": lists * of[1] if of[0] > 1 else 0, "block_entries": views["block_list"].shape[0],
        "block_bitmaps": views["block_bits"].shape[0] // (rows * columns // 32),
    }  # fmt: skip


def _qv_strides(view: View, q: View, v: View, layout: str, packed: bool) -> _c.Strides:
    shape, strides = view.shape, view.strides
    if packed and len(shape) == 3:
        shape, strides = (1, *shape), (0, *strides)
    if shape != (*q.shape[:3], v.shape[3]):
        raise Invalid(f"qv is {view.shape}, not shaped like q but with v's head_dim: {(*q.shape[4 - len(view.shape) : 3], v.shape[3])}")
    if view.dtype != q.dtype:
        raise Invalid(f"qv is {view.dtype} and q is {q.dtype}: give arrays of one dtype")
    return strides_of(shape, strides, "qv", layout)


def to_c(features: Optional[Features], views: Mapping[str, View], causal: bool, offset: Optional[int], layout: str) -> Dict[str, Any]:
    """The fields of an attention that say what it has, from the views of its arrays; Q and K are of 4 dimensions here."""
    q, (seq, head) = views["q"], SEQ_AND_HEAD[layout]
    if features is None:
        return {**mask_of(causal, offset), "kv_seq": views["k"].shape[seq]}
    heads, known = q.shape[head], dict(features.known)
    packed = is_packed(features, views)
    if packed:
        sequences = len(known["q_starts"]) - 1 if "q_starts" in known else views["q_starts"].shape[0] - 1
        if sequences < 1:
            raise Invalid("q_starts is empty: it has the first row of each sequence, and the end of the last")
    else:
        sequences = q.shape[0]
    kv_seq, columns, cache = caches.to_c(views, packed, sequences, layout, features.rotary_interleaved)
    fields: Dict[str, Any] = {"cache": cache, "kv_seq": kv_seq}
    extras = _c.EXTRAS["max"] if features.max else 0
    for name in filter(views.__contains__, ARRAYS):
        extras |= _c.EXTRAS.get(name, 0)  # the arrays of a block mask come together
        if name in LENGTHS:
            _vector(name, views[name], (sequences + 1 if name.endswith("starts") else sequences,))
        elif name == "sinks":
            _vector(name, views[name], (heads,))
        elif name == "tree":
            if views[name].shape != (q.shape[0], q.shape[seq]):
                raise Invalid(f"tree has {views[name].shape[1]} tokens, and there are {q.shape[seq]} queries")
        elif name == "block_starts":
            fields.update(_block_fields(views, features.block_mask, (q.shape[0], heads, q.shape[seq], columns)))
        elif name == "alibi":
            fields["alibi_stride"] = _alibi_stride(views[name], sequences, heads)
        elif name == "bias":
            fields.update(_bias_fields(views[name], (q.shape[0], heads, q.shape[seq], columns), q.dtype))
        elif name == "qv":
            fields["qv_strides"] = _qv_strides(views[name], q, views["v"], layout, packed)
    for name, values in features.known:
        if len(values) != sequences + name.endswith("starts"):
            raise Invalid(f"{name} has {len(values)} numbers for {sequences} sequences, not {sequences + name.endswith('starts')}")
    return {
        **mask_of(causal, offset, features.window, features.chunk), **fields, "prefix": features.prefix, "softcap": features.softcap,
        "dropout": features.dropout, "extras": extras, "lengths": lengths_to_c(known), "sequences": sequences if packed else 0,
        "q_most": features.q_most if packed else 0,
    }  # fmt: skip
