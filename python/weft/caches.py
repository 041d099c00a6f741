# SPDX-License-Identifier: Apache-2.0
"""KV caches: keys and values in pages that lists name, new ones that a call appends, and the rotation of queries and new keys.

A cache's arrays come with the data of a run, so a plan fits all their values: the pages, the lengths and the new keys of every step.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from . import _c
from .arrays import FLOATS, View
from .errors import Invalid
from .problems import SEQ_AND_HEAD, strides_of

# The arrays by name, and the dtypes that each may have; floats are of the dtype of q.
ARRAYS: Dict[str, Tuple[str, ...]] = {
    "block_table": ("int32",), "k_new": FLOATS, "v_new": FLOATS, "new_starts": ("int32",), "cos": FLOATS, "sin": FLOATS,
    "positions": ("int32",),
}  # fmt: skip
WORDS = {"block_table": "table"}  # what the library calls those that it calls otherwise
_ARGUMENTS = {"k_new": "append", "v_new": "append", "cos": "rotary", "sin": "rotary"}  # of weft.attention()


def _pair(name: str, meaning: str, given: Any) -> Tuple[Any, Any]:
    if given is None:
        return None, None
    if not isinstance(given, (tuple, list)) or len(given) != 2 or any(x is None for x in given):
        raise Invalid(f"{name} is not {meaning}: two arrays")
    return given[0], given[1]


def given(block_table: Any, append: Any, new_starts: Any, rotary: Any, positions: Any) -> Dict[str, Any]:
    """The arrays that weft.attention()'s arguments bring, by their names here."""
    values = (block_table, *_pair("append", "(k_new, v_new)", append), new_starts, *_pair("rotary", "(cos, sin)", rotary), positions)
    found = {name: x for name, x in zip(ARRAYS, values) if x is not None}
    if "new_starts" in found and append is None:
        raise Invalid("new_starts says where new keys begin, and there is no append")
    if "positions" in found and rotary is None:
        raise Invalid("positions are those of a rotation, and there is no rotary")
    return found


def named(cache: Mapping[str, Any]) -> Tuple[str, ...]:
    """What a call brings, by the names of weft.attention()'s arguments."""
    return tuple(dict.fromkeys(_ARGUMENTS.get(name, name) for name in cache))


def _table_stride(view: View, sequences: int) -> int:
    """Entries from a sequence's list of pages to the next."""
    if len(view.shape) != 2 or view.shape[0] != sequences or view.shape[1] == 0:
        raise Invalid(f"block_table is {view.shape}, not (sequences, pages of each) with {sequences} sequences")
    if (view.strides[1] != 1 and view.shape[1] > 1) or (view.strides[0] < view.shape[1] and sequences > 1):
        raise Invalid(f"block_table has strides {view.strides}: its rows must be in one piece each, and apart; copy it first")
    return view.strides[0] if sequences > 1 else view.shape[1]


def _new(views: Mapping[str, View], packed: bool, layout: str) -> Dict[str, Any]:
    """The fields of new keys and values: (batch, new, kv_heads, head_dim), or packed (new, kv_heads, head_dim)."""
    seq, head = SEQ_AND_HEAD[layout]
    fields: Dict[str, Any] = {}
    for name in ("k_new", "v_new"):
        view, cache = views[name], views[name[0]]
        shape, strides = view.shape, view.strides
        if packed and len(shape) == 3:
            shape, strides = (1, *shape), (0, *strides)
        batch = 1 if packed else views["q"].shape[0]
        if len(shape) != 4 or shape[0] != batch or (shape[head], shape[3]) != (cache.shape[head], cache.shape[3]):
            expected = ["new", cache.shape[head]] if seq == 1 else [cache.shape[head], "new"]
            expected = [*([] if packed else [batch]), *expected, cache.shape[3]]
            raise Invalid(f"{name} of append is {view.shape}, not ({', '.join(map(str, expected))})")
        if fields.setdefault("append", shape[seq]) != shape[seq] or not shape[seq]:
            raise Invalid(f"append has {fields['append']} new keys and {shape[seq]} new values: as many of both, and at least 1")
        fields[f"{name}_strides"] = strides_of(shape, strides, name, layout)
    return fields


def _rotary(views: Mapping[str, View], interleaved: bool) -> Dict[str, Any]:
    """The fields of a rotation: cos and sin are (positions, rotary_dim / 2), packed."""
    cos, sin = views["cos"], views["sin"]
    for name, view in (("cos", cos), ("sin", sin)):
        if len(view.shape) != 2 or view.shape != cos.shape or 0 in view.shape:
            raise Invalid(f"{name} of rotary is {view.shape}, not (positions, rotary_dim / 2) like {cos.shape}")
        rows = view.shape[0] == 1 or view.strides[0] == view.shape[1]
        if not rows or (view.shape[1] > 1 and view.strides[1] != 1):
            raise Invalid(f"{name} of rotary has strides {view.strides}: copy it to make it contiguous")
    return {"rotary_dim": 2 * cos.shape[1], "rotary_rows": cos.shape[0], "rotary_interleaved": int(interleaved)}


def _vector(name: str, view: View, length: int) -> None:
    if view.shape != (length,) or (view.strides != (1,) and length > 1):
        raise Invalid(f"{name} is {view.shape} with strides {view.strides}, not ({length},) in one piece")


def to_c(views: Mapping[str, View], packed: bool, sequences: int, layout: str, interleaved: bool) -> Tuple[int, int, _c.KvCache]:
    """The most keys of a sequence, the columns of scores, and the fields of a cache; Q, K and V are of 4 dimensions here."""
    seq, _ = SEQ_AND_HEAD[layout]
    k, fields = views["k"], {}
    for name in filter(views.__contains__, ARRAYS):
        if ARRAYS[name] == FLOATS and views[name].dtype != views["q"].dtype:
            raise Invalid(f"{name} is {views[name].dtype} and q is {views['q'].dtype}: give arrays of one dtype")
    kv_seq = columns = k.shape[seq]
    if "block_table" in views:
        stride = _table_stride(views["block_table"], sequences)
        fields.update(page=kv_seq, pages=k.shape[0], table_stride=stride)
        kv_seq = min(kv_seq * views["block_table"].shape[1], 2**62)  # the library says how many are too many
        columns = sequences * stride * k.shape[seq] if packed else kv_seq
    if "k_new" in views:
        fields.update(_new(views, packed, layout))
    if "new_starts" in views:
        if not packed:
            raise Invalid("new_starts is for a packed batch: give q_starts or lengths, too")
        _vector("new_starts", views["new_starts"], sequences + 1)
    if "cos" in views:
        fields.update(_rotary(views, interleaved))
    if "positions" in views:
        _vector("positions", views["positions"], sequences)
    return kv_seq, columns, _c.KvCache(**fields)


def check_writable(framework: Any, name: str, x: Any, view: View) -> None:
    """Refuses an array that a call would write to and cannot, or whose elements overlap."""
    if not framework.writable(x):
        raise Invalid(f"{name} is read-only, and the call writes to it")
    if any(stride == 0 and length > 1 for length, stride in zip(view.shape, view.strides)):
        raise Invalid(f"{name} repeats itself: it has strides {view.strides}, and the call writes to it")
