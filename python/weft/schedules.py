# SPDX-License-Identifier: Apache-2.0
"""Orders, sweeps and dispatches by name, and schedules made of them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Mapping, Optional, Tuple, Union

from . import _c, custom, notebook
from .errors import Invalid

_AXES = ("n", "m")
_SUBJECTS = ("gemm", "attention", "any")  # by enum weft_grid_kind: what has such a grid


@dataclasses.dataclass(frozen=True)
class Order:
    """One order: its name, "gemm" or "attention", the fields of a schedule that it takes ("group", "domains"), a line about it.

    >>> [order.subject for order in weft.orders() if order.name == "reverse"]
    ['attention']
    """

    name: str
    subject: str
    parameters: Tuple[str, ...]
    text: str


@functools.lru_cache(maxsize=None)
def _orders() -> Tuple[Order, ...]:
    rows: List[Order] = []
    while _c.library.weft_order_describe(len(rows) + 1):  # 0 leaves the choice to the plan
        row = _c.library.weft_order_describe(len(rows) + 1).contents
        parameters = tuple(name for bit, name in ((1, "group"), (2, "domains")) if row.parameter & bit)
        rows.append(Order(row.name.decode(), _SUBJECTS[row.grid], parameters, row.text.decode()))
    return tuple(rows)


@functools.lru_cache(maxsize=None)
def _names(what: str) -> Tuple[str, ...]:
    if what == "order":
        return tuple(order.name for order in _orders())
    describe = getattr(_c.library, f"weft_{what}_describe")
    names: List[str] = []
    while describe(len(names) + 1):
        names.append(describe(len(names) + 1).contents.name.decode())
    return tuple(names)


def orders(subject: Optional[str] = None) -> List[Order]:
    """Every order that has a name of its own, or those for `subject`: "gemm" or "attention".

    >>> "hilbert" in [order.name for order in weft.orders("gemm")]
    True
    """
    if subject not in (None, *_SUBJECTS[:2]):
        raise Invalid(f'subject {subject!r} is not "gemm" or "attention"')
    return [order for order in _orders() if order.subject in (subject, *(_SUBJECTS[:2] if subject is None else ()))]


def sweeps() -> List[str]:
    """The paths that a tile takes through its steps: "forward", "sawtooth", "pair"; backward also "shift", "shift-causal", "descending", "fold-causal", "climb".

    >>> weft.sweeps()[:3]
    ['forward', 'sawtooth', 'pair']
    """
    return list(_names("sweep"))


def dispatches() -> List[str]:
    """How positions reach workers: "grid", "static", "dynamic".

    >>> weft.dispatches()
    ['grid', 'static', 'dynamic']
    """
    return list(_names("dispatch"))


def _number(what: str, name: Optional[str]) -> int:
    if name is None:
        return 0
    if name not in _names(what):
        raise Invalid(f"there is no {what} {name!r}: {', '.join(_names(what))}")
    return _names(what).index(name) + 1


def _name(what: str, number: int) -> Optional[str]:
    return None if number == 0 else _names(what)[number - 1]


@dataclasses.dataclass(frozen=True, repr=False)
class Schedule(notebook.Brief, notebook.Shown):
    """Tile shape, order, sweep, dispatch and cluster. What is left out, the plan chooses.

    tile     (queries, keys) of an attention, (rows, columns, k step) of a GEMM; a 0 is chosen
    order    a name from weft.orders(), or an order of your own: an array of tiles in the order of their visits, or a function
             that takes a position and the grid (batch, rows, columns) and gives the tile there. A tile is its number, row
             by row, or (row, column), or (batch, row, column)
    sweep    a name from weft.sweeps(); dispatch likewise
    table    the order comes from a table built by the plan instead of being computed
    workers  workers to use; group, axis ("n" or "m") and domains are for the orders that take them
    cluster  CTAs in a cluster, over rows x columns of the grid of tiles
    split    on a GPU: CTAs of a cluster that share out the steps of a tile; attention backward: 1 to 8
             parts, one for each CTA: of the heads that share keys as far as it divides them, then of each head's queries

    >>> weft.Schedule(tile=(64, 64), sweep="sawtooth")
    Schedule(tile=(64, 64), sweep='sawtooth')
    >>> backwards = weft.Schedule((128, 128, 64), lambda position, grid: grid[1] * grid[2] - 1 - position)
    >>> weft.plan(weft.Gemm(300, 300, 64), backwards).tiles(1)
    [(0, 2, 2)]
    """

    tile: Tuple[int, ...] = ()
    order: custom.OrderLike = None
    sweep: Optional[str] = None
    dispatch: Optional[str] = None
    table: bool = False
    workers: int = 0
    group: int = 0
    axis: Optional[str] = None
    domains: int = 0
    cluster: Tuple[int, ...] = ()
    split: int = 0

    def __post_init__(self) -> None:
        for name, most in (("tile", 3), ("cluster", 2)):
            object.__setattr__(self, name, _sizes(name, getattr(self, name), most))
        object.__setattr__(self, "order", custom.kept(self.order))
        to_c(dataclasses.replace(self, order=None) if custom.is_custom(self.order) else self)  # refuses unknown names

    def __str__(self) -> str:
        order = "custom" if custom.is_custom(self.order) else self.order
        parts = [part for part in (order, self.sweep, self.dispatch) if part]
        parts += ["tile " + "x".join(map(str, self.tile))] if self.tile else []
        parts += [f"{name} {getattr(self, name)}" for name in ("group", "domains", "workers") if getattr(self, name)]
        parts += ["cluster " + "x".join(map(str, self.cluster))] if self.cluster else []
        return ", ".join(parts) or "chosen by the plan"


ScheduleLike = Union[Schedule, Mapping[str, Any], None]


def _sizes(name: str, values: Any, most: int) -> Tuple[int, ...]:
    """At most `most` whole numbers, from any iterable of them."""
    try:
        sizes = tuple(whole(name, value) for value in values)
    except TypeError:
        raise Invalid(f"{name} {values!r} is not a tuple of sizes") from None
    if len(sizes) > most:
        raise Invalid(f"{name} {sizes} has more than {most} sizes")
    return sizes


def _padded(sizes: Tuple[int, ...], count: int) -> Tuple[int, ...]:
    return sizes + (0,) * (count - len(sizes))


def whole(name: str, value: Any) -> int:
    """`value` as an integer that C's int64_t holds; floats and text are refused rather than rounded or parsed."""
    try:
        number = value.__index__()
    except AttributeError:
        raise Invalid(f"{name} {value!r} is not a whole number") from None
    if not -(2**63) <= number < 2**63:
        raise Invalid(f"{name} {number} does not fit 64 bits")
    return number


def of(schedule: ScheduleLike) -> Schedule:
    """A Schedule from what a caller may give: one, a mapping of its fields, or None."""
    if schedule is None:
        return Schedule()
    if isinstance(schedule, Schedule):
        return schedule
    if not isinstance(schedule, Mapping):
        raise Invalid(f"schedule is a {type(schedule).__name__}, not a weft.Schedule or a dict of its fields")
    if "order_hash" in schedule:  # the library's own description of an order of the caller's: see weft_plan_json()
        if "order_table" not in schedule:
            raise Invalid("the schedule has no order_table: its order is too long for JSON, give it again")
        schedule = {**schedule, "order": schedule["order_table"]}
        del schedule["order_hash"], schedule["order_table"]
    known = {field.name for field in dataclasses.fields(Schedule)}
    unknown = sorted(set(schedule) - known)
    if unknown:
        raise Invalid(f"a schedule has no {unknown[0]!r}: {', '.join(sorted(known))}")
    return Schedule(**schedule)


def to_c(schedule: Schedule) -> _c.Schedule:
    if custom.is_custom(schedule.order):
        raise Invalid("an order of your own is for plans, not for tuning or jax.jit: its table fits one grid of tiles")
    tile, cluster = _padded(schedule.tile, 3), _padded(schedule.cluster, 2)
    if schedule.axis not in (None, *_AXES):
        raise Invalid(f'axis {schedule.axis!r} is not "n" or "m"')
    numbers = [whole(name, getattr(schedule, name)) for name in ("workers", "group")]
    return _c.Schedule(
        *tile, _number("order", schedule.order), _number("sweep", schedule.sweep),
        _number("dispatch", schedule.dispatch), int(bool(schedule.table)), *numbers, _AXES.index(schedule.axis) + 1 if schedule.axis else 0,
        whole("domains", schedule.domains), *cluster, whole("split", schedule.split),
    )  # fmt: skip


def from_c(c: _c.Schedule) -> Schedule:
    tile = (c.tile_m, c.tile_n, c.tile_k) if c.tile_k else (c.tile_m, c.tile_n)
    order = c.order_table[: c.order_count] if c.order_table else _name("order", c.order)
    return Schedule(
        tile, order, _name("sweep", c.sweep), _name("dispatch", c.dispatch), bool(c.table), c.workers,
        c.group, _AXES[c.axis - 1] if c.axis else None, c.domains, (c.cluster_m, c.cluster_n), c.split,
    )  # fmt: skip
