# SPDX-License-Identifier: Apache-2.0
"""What all kinds of shared work have in common: names, rows of ranks, a weft_dist, and arrays put together."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from ctypes import byref, c_void_p
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from . import _c, arrays, dlpack, frameworks, problems, schedules
from .errors import Invalid, Unsupported
from .ranks import Group, Part, group_of
from .schedules import whole


class Traffic(NamedTuple):
    """What a rank sends and receives: bytes, and how many messages it sends.

    >>> weft.dist.Attention(weft.Attention(seq=64), weft.dist.Threads(1).rank(0)).expected()
    Traffic(sent=0, received=0, messages=0)
    """

    sent: int
    received: int
    messages: int


def number(what: str, name: Optional[str]) -> int:
    """The number of a cut, an exchange or an order across ranks."""
    if name is None:
        return 0
    found = getattr(_c.library, {"cut": "weft_rank_cut_find", "exchange": "weft_exchange_find", "order": "weft_rank_order_find"}[what])(
        str(name).encode())  # fmt: skip
    if found == 0:
        raise Invalid(f"there is no {what} {name!r} across ranks: {', '.join(names(what))}")
    return found


@functools.lru_cache(maxsize=None)
def names(what: str) -> Tuple[str, ...]:
    names: List[str] = []
    while True:
        i = len(names) + 1
        if what == "order":
            row = _c.library.weft_rank_order_describe(i)
            name = row.contents.name if row else None
        else:
            name = (_c.library.weft_rank_cut_name if what == "cut" else _c.library.weft_exchange_name)(i)
        if not name:
            return tuple(names)
        names.append(name.decode())


class Dist:
    """A weft_dist."""

    def __init__(self, problem: Any, ranks: _c.Ranks, group: Optional[Group], seconds: float, schedule: Optional[_c.Schedule],
                 device: Tuple[int, int] = (_c.CPU, 0)):  # fmt: skip
        self._handle, self._group = c_void_p(), group  # which it talks over as long as it is there
        transport = None if group is None else ctypes.pointer(group.transport)
        on = ctypes.pointer(_c.Device(*device)) if device[0] != _c.CPU else None
        options = _c.DistOptions(ctypes.pointer(ranks), transport, on, schedule and ctypes.pointer(schedule), seconds)
        _c.call(_c.library.weft_dist_create, byref(self._handle), byref(problem), byref(options))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and _c is not None:
            _c.library.weft_dist_destroy(self._handle)

    @property
    def ranks(self) -> _c.Ranks:
        return _c.library.weft_dist_ranks(self._handle)

    @property
    def kept(self) -> int:
        return _c.library.weft_dist_kept(self._handle)

    def chunks(self, rank: int, kind: int) -> List[range]:
        found, chunk = [], _c.Chunk()
        while _c.library.weft_dist_chunk(self._handle, rank, kind, len(found), byref(chunk)):
            found.append(range(chunk.begin, chunk.begin + chunk.count * chunk.stride, chunk.stride))
        return found

    def run(self, data: bytes, kept: int, stream: int = 0) -> None:
        assert self._group is not None
        self._group.call(_c.library.weft_dist_run, self._handle, data, byref(_c.DistRunOptions(stream or None, kept or None)))

    def expected(self, rank: int, kept: bool) -> Traffic:
        traffic = _c.DistTraffic()
        _c.call(_c.library.weft_dist_expect, self._handle, rank, int(kept), byref(traffic))
        return Traffic(traffic.sent, traffic.received, traffic.messages)

    def counted(self) -> Traffic:
        traffic = _c.DistTraffic()
        _c.library.weft_dist_counted(self._handle, byref(traffic))
        return Traffic(traffic.sent, traffic.received, traffic.messages)


def counted(made: Iterable[Dist]) -> Traffic:
    of_each = [dist.counted() for dist in made]
    return Traffic(*(sum(numbers) for numbers in zip(*of_each))) if of_each else Traffic(0, 0, 0)


class Shared:
    """What attentions and products have in common that the ranks of a group compute together."""

    def __init__(self, problem: Any, group: Any, seconds: float, schedule: schedules.ScheduleLike, cut: Optional[str],
                 exchange: Optional[str], order: Optional[str], sweep: Optional[str], head_ranks: int, columns: int,
                 **most: int):  # fmt: skip
        problems.check(problem)
        self.problem, self.group, self._seconds = problem, group_of(group), float(seconds)
        self._schedule = None if schedule is None else schedules.to_c(schedules.of(schedule))
        (name, rows), = most.items()  # of a message: most_keys or most_rows
        self._ranks = _c.Ranks(self.group.size, number("cut", cut), number("exchange", exchange), number("order", order),
                               schedules._number("sweep", sweep), whole("head_ranks", head_ranks), whole("columns", columns),
                               whole(name, rows))  # fmt: skip
        self._made: Dict[tuple, Dist] = {}
        self._paper = self._on_paper()

    def _on_paper(self, operation: Optional[int] = None) -> Dist:
        """What can be asked and not run."""
        problem = self.problem.to_c()
        if operation is not None:
            problem.operation = operation
        return Dist(problem, self._ranks, None, self._seconds, None)

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def cut(self) -> str:
        """The cut, as it was chosen; `exchange` likewise."""
        return names("cut")[self._paper.ranks.cut - 1]

    @property
    def exchange(self) -> str:
        return names("exchange")[self._paper.ranks.exchange - 1]

    def _rank_of(self, rank: Optional[int]) -> int:
        """That rank, or this one."""
        chosen = self.rank if rank is None else whole("rank", rank)
        if not 0 <= chosen < self.size:
            raise Invalid(f"rank {chosen} is not one of {self.size}")
        return chosen


def take(x: Any, axis: int, rows: Sequence[int]) -> Any:
    """Some rows of an array, packed."""
    if frameworks.is_torch(x):
        return x.index_select(axis, x.new_tensor(rows, dtype=sys.modules["torch"].int64))
    if getattr(x, "__dlpack_device__", lambda: (dlpack.CPU, 0))()[0] == dlpack.CUDA:
        raise Unsupported("rows of arrays on a GPU are picked from torch tensors only: pick them by what weft.dist.Attention.rows() says")
    import numpy

    return x.take(numpy.asarray(rows, dtype="int64"), axis=axis)


def whole_rows(rows: Sequence[range]) -> List[int]:
    return [row for chunk in rows for row in chunk]


def join_rows(ranks: Group, part: Any, axis: int, rows: Sequence[Sequence[int]], seconds: float) -> Any:
    if frameworks.needs_grad((part,)):
        raise Unsupported("weft.dist.join() has no gradient: use torch.no_grad(), or detach")
    if frameworks.is_torch(part) and part.is_cuda:
        return join_rows(ranks, part.cpu(), axis, rows, seconds).to(part.device)
    framework = frameworks.framework_of(("part",), (type(part),))
    maker, shape = framework.maker, list(part.shape)
    if shape[axis] != len(rows[ranks.rank]):
        raise Invalid(f"part has {shape[axis]} rows, and rank {ranks.rank} has {len(rows[ranks.rank])}")
    if framework.view(part, "part", tuple(arrays.BYTES)).device[0] != _c.CPU:
        raise Unsupported(f"weft.dist.join() of arrays of {framework.name} on a GPU is not there: give torch tensors, or copies on the host")
    parts = [maker.empty(part, (*shape[:axis], len(of_rank), *shape[axis + 1 :])) for of_rank in rows]
    parts[ranks.rank][...] = part
    views = [maker.view(x, "part", tuple(arrays.BYTES)) for x in parts]
    sizes = [math.prod(view.shape) * arrays.BYTES[view.dtype] for view in views]
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    ranks.trade([Part(views[ranks.rank].pointer, sizes[ranks.rank], rank) for rank in others],
                [Part(views[rank].pointer, sizes[rank], rank) for rank in others], seconds)  # fmt: skip
    whole_array = maker.empty(part, (*shape[:axis], sum(map(len, rows)), *shape[axis + 1 :]))
    for of_rank, x in zip(rows, parts):
        whole_array[(slice(None),) * axis + (list(of_rank),)] = x
    return framework.result(whole_array)
