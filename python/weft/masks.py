# SPDX-License-Identifier: Apache-2.0
"""The masks of transformers as weft takes them: causal, windows, chunks, padding and packed sequences by numbers, all others dense.

transformers describes a mask by functions of indices. Here is what the known ones mean; each is tried out when this module is loaded, so
that one that means something else in another version of transformers counts as unknown. An unknown function is made into a dense mask.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from transformers import masking_utils
from transformers.masking_utils import sdpa_mask


class Mask:
    """What queries see, as arguments of weft.attention(). Whoever takes it for a tensor gets the dense mask."""

    def __init__(self, seen: Dict[str, Any], lengths: Tuple[int, int], dense: Callable[[], Tensor]):
        self.seen, self.lengths, self._dense = seen, lengths, dense

    @functools.cached_property
    def tensor(self) -> Tensor:
        return self._dense()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)

    def __getitem__(self, index: Any) -> Tensor:
        return self.tensor[index]

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, arguments: Any = (), options: Any = None) -> Any:
        plain = [x.tensor if isinstance(x, Mask) else x for x in arguments]
        return function(*plain, **{name: x.tensor if isinstance(x, Mask) else x for name, x in (options or {}).items()})


def _samples() -> Dict[Any, str]:
    """The known functions by their code, which all functions from one place share: the name of what each means."""
    zeros, halves = torch.zeros(1, dtype=torch.long), torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    known: List[Tuple[str, Callable[[], Any], Callable[[Tensor, Tensor], Tensor]]] = [
        ("causal", lambda: masking_utils.causal_mask_function, lambda q, k: k <= q),
        ("all", lambda: masking_utils.bidirectional_mask_function, lambda q, k: (k >= 0) & (q >= 0)),
        ("left", lambda: masking_utils.sliding_window_overlay(3), lambda q, k: k > q - 3),
        ("both", lambda: masking_utils.sliding_window_bidirectional_overlay(2), lambda q, k: (q - k).abs() <= 2),
        ("chunk", lambda: masking_utils.chunked_overlay(3, zeros), lambda q, k: q // 3 == k // 3),
        ("packed", lambda: masking_utils.packed_sequence_mask_function(halves), lambda q, k: (q < 3) == (k < 3)),
    ]
    q, k = torch.arange(8)[:, None], torch.arange(8)[None]
    found = {}
    for name, make, meaning in known:
        try:
            function = make()
            if torch.equal(function(torch.zeros((), dtype=torch.long), 0, q, k).expand(8, 8), meaning(q, k).expand(8, 8)):
                found[function.__code__] = name
        except (AttributeError, TypeError, RuntimeError):
            continue
    return found


def _remapping() -> Any:
    """The code of functions that look at positions within a packed sequence in place of those in the row; None: there is no such one."""
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    q, k = torch.arange(8)[:, None], torch.arange(8)[None]
    try:
        function = masking_utils.remap_positions_for_packed_sequence(masking_utils.causal_mask_function, positions)
        found = function(torch.zeros((), dtype=torch.long), 0, q, k)
        return function.__code__ if torch.equal(found, positions[0][k] <= positions[0][q]) else None
    except (AttributeError, TypeError, RuntimeError):
        return None


_KNOWN, _REMAPPED = _samples(), _remapping()
_AND = masking_utils.and_masks(masking_utils.causal_mask_function).__code__


def _parts(function: Any) -> Optional[Dict[str, Any]]:
    """A mask function taken apart: what is known of it by name, with the only number or tensor that it holds; None: it is not known."""
    code = getattr(function, "__code__", None)
    held = inspect.getclosurevars(function).nonlocals if code else {}
    if code is _AND:
        found: Dict[str, Any] = {}
        for part in held["mask_functions"]:
            parts = _parts(part)
            if parts is None or found.keys() & parts.keys():
                return None
            found.update(parts)
        return found
    if code is not None and code is _REMAPPED:  # within a sequence, distances are the same
        parts = _parts(held["mask_function"])
        return None if parts is None else {**parts, "remapped": None}
    if code not in _KNOWN:
        return None
    numbers = [x for name, x in held.items() if name != "left_padding" and isinstance(x, (int, Tensor))]
    return {_KNOWN[code]: numbers[0] if numbers else None}


def _runs(padding: Tensor) -> Optional[Tuple[Tensor, Tensor]]:
    """Where the keys that count begin and end in each row of a padding mask; None where they are not one run."""
    places = torch.arange(padding.shape[1], device=padding.device)
    count = padding.sum(1)
    first = torch.where(count > 0, padding.int().argmax(1), 0)
    end = first + count
    whole = padding == ((places >= first[:, None]) & (places < end[:, None]))
    return (first.int(), end.int()) if bool(whole.all()) else None


def _starts(indices: Tensor) -> Tensor:
    """Where the sequences of a row begin, and the end of the last, from the number of each token's sequence."""
    edges = (indices[1:] != indices[:-1]).nonzero().flatten() + 1
    ends = torch.tensor([0, indices.shape[0]], device=indices.device)
    return torch.cat([ends[:1], edges, ends[1:]]).int()


def _in_static_cache(batch: int, q_length: int, kv_length: int, q_offset: Tensor, parts: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """What queries see of a cache of a fixed length, of which q_offset + q_length keys are there: nobody has to wait for the number."""
    if "causal" not in parts or parts.keys() - {"causal", "left", "chunk"}:
        return None
    used = (q_offset.reshape(1) + q_length).clamp(max=kv_length).to(torch.int32).expand(batch).contiguous()
    seen: Dict[str, Any] = {"causal": True, "kv_used": used}
    if "left" in parts:
        seen["window"] = (parts["left"] - 1, -1)
    if "chunk" in parts:
        seen["chunk"] = parts["chunk"]
    return seen


def _seen(batch: int, q_length: int, kv_length: int, q_offset: Any, kv_offset: int, function: Any,
          padding: Optional[Tensor]) -> Optional[Dict[str, Any]]:  # fmt: skip
    """What queries see, as arguments of weft.attention(); None: only a dense mask says it."""
    parts = _parts(function)
    if isinstance(q_offset, Tensor) or isinstance(kv_offset, Tensor):
        if parts is not None and padding is None and isinstance(kv_offset, int) and kv_offset == 0 and q_offset.numel() == 1:
            return _in_static_cache(batch, q_length, kv_length, q_offset, parts)
        q_offset, kv_offset = int(q_offset), int(kv_offset)
    if parts is None or ("chunk" in parts and kv_offset % parts["chunk"]):
        return None
    offset, seen = q_offset - kv_offset, {}
    if "causal" in parts:
        seen["causal"] = True
    if "left" in parts:
        seen["window"] = (parts["left"] - 1, -1)
    if "both" in parts:
        seen["window"] = (parts["both"],) * 2
    if "chunk" in parts:
        seen["chunk"] = parts["chunk"]
    if parts.keys() >= {"left", "both"} or ("remapped" in parts and "packed" not in parts):
        return None
    placed = bool(seen)  # whether positions matter
    if "packed" in parts:
        if batch != 1 or padding is not None or offset or q_length != kv_length or "chunk" in parts:
            return None
        return {**seen, "q_starts": _starts(parts["packed"][0])}
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length]
        if not bool(padding.all()):
            runs = _runs(padding)
            if runs is None:
                return None
            first, end = runs
            seen["kv_used"] = end
            if not bool((first == 0).all()):  # positions count from each row's first key on, so they are given from the end
                if placed and bool((end - offset > q_length).any()):
                    return None
                return {**seen, "kv_pad": first, **({"q_used": (end - offset).clamp(min=0)} if placed else {})}
    return {**seen, "offset": offset} if placed else seen


def _hides_nothing(seen: Dict[str, Any], q_length: int, kv_length: int, causal: bool, everything: bool) -> bool:
    """Whether "no mask" says the same: a plain causal one or none, whichever a model takes it for."""
    if seen.get("window", (kv_length,))[0] + 1 < kv_length or "chunk" in seen or seen.keys() & {"kv_used", "kv_pad", "q_starts"}:
        return False
    if seen.get("causal"):
        return causal and (q_length, seen["offset"]) in ((kv_length, 0), (1, kv_length - 1))
    return everything


def make(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
         mask_function: Any = masking_utils.causal_mask_function, attention_mask: Optional[Tensor] = None,
         allow_is_causal_skip: bool = True, allow_is_bidirectional_skip: bool = False, **options: Any) -> Any:  # fmt: skip
    """transformers' mask function: a Mask, a dense mask, or None for one that an attention knows by itself."""
    given = dict(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                 mask_function=mask_function, attention_mask=attention_mask)  # fmt: skip
    seen = None
    if not torch.compiler.is_compiling():  # the values of tensors decide
        padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
        seen = _seen(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, padding)
    if seen is None:
        return sdpa_mask(**given, allow_is_causal_skip=allow_is_causal_skip, allow_is_bidirectional_skip=allow_is_bidirectional_skip,
                         **options)  # fmt: skip
    if _hides_nothing(seen, q_length, kv_length, allow_is_causal_skip, allow_is_bidirectional_skip):
        return None
    dense = functools.partial(sdpa_mask, **given, allow_is_causal_skip=False, allow_is_bidirectional_skip=False, **options)
    return Mask(seen, (q_length, kv_length), dense)
