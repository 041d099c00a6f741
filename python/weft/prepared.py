# SPDX-License-Identifier: Apache-2.0
"""What calls with the same lengths have in common, done once for all of them: the layers of a step of a model."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple


def _version(x: Any) -> int:
    """How often an array was written to, where its framework counts that."""
    try:
        return x._version
    except (AttributeError, RuntimeError):  # torch does not count under inference_mode()
        return 0


class Prepared:
    """The `prepared` of calls of weft.attention() with the same lengths, such as those of all layers in a step of a model.

    On a GPU the first of these calls also deals out the keys of all sequences to the SMs, which later ones do not do again. Make a new one
    when lengths change, for each step or each CUDA graph: a graph that captured the first call deals out anew whenever it is replayed. A
    call with other arrays of lengths, of another form or on another stream is prepared by itself. Results are the same bits as without.

    >>> q, k, v = (rng.standard_normal((1, 128, 4, 64), dtype=np.float32) for _ in range(3))
    >>> layers, used = weft.Prepared(), np.array([100], np.int32)
    >>> for layer in range(2):
    ...     o = weft.attention(q, k, v, kv_used=used, prepared=layers)
    """

    def __init__(self) -> None:
        # Of each plan: what it was prepared for, the workspace, and the lengths, so that others cannot come to lie where they are.
        self._held: Dict[Any, Tuple[tuple, Any, Sequence[Any]]] = {}

    def take(self, plan: Any, lengths: Sequence[Any], where: tuple, make: Callable[[], Any]) -> Tuple[Any, bool]:
        """The workspace for a run of a plan, and whether it is yet to be prepared. `where` tells lengths and streams apart."""
        key = (*where, *map(_version, lengths))
        held = self._held.get(plan)
        if held is not None and held[0] == key:
            return held[1], False
        workspace = make()
        self._held[plan] = key, workspace, lengths
        return workspace, True
