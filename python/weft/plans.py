# SPDX-License-Identifier: Apache-2.0
"""Plans: a problem, a machine, a schedule and a kernel, ready to run or to simulate."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import _c, custom, machines, notebook, operations, problems, schedules
from ._c import CPU, CUDA
from .errors import Invalid, NoMemory
from .problems import Problem, number_of

_enqueue, _prepare = _c.library.weft_plan_enqueue, _c.library.weft_plan_prepare
MODES = ("estimate", "measure", "stored")  # enum weft_mode
_on_gpus: "weakref.WeakSet[Plan]" = weakref.WeakSet()


def device_of(name: str) -> Tuple[int, int]:
    """(kind, index) of "cpu", "cuda" or "cuda:1"."""
    kind, _, index = str(name).partition(":")
    if kind == "cpu" and not index:
        return CPU, 0
    if kind == "cuda" and (not index or index.isdecimal()):
        return CUDA, int(index or 0)
    raise Invalid(f'device {name!r} is not "cpu", "cuda" or "cuda:" and a number')


class Plan(notebook.Shown):
    """A plan of the library, from weft.plan().

    >>> plan = weft.plan(weft.Gemm(300, 300, 64), {"order": "raster-n", "tile": (128, 128, 64)})
    >>> plan.grid, plan.tiles(2), plan.device
    ((1, 3, 3), [(0, 0, 0), (0, 0, 1)], 'cpu')
    """

    def __init__(self, problem: _c.Structure, schedule: schedules.Schedule, machine: Optional[_c.Machine], device: Tuple[int, int],
                 kernel: Optional[str] = None, mode: int = 0, brings_workspace: bool = False):  # fmt: skip
        self._handle = ctypes.c_void_p()
        self._made_from = (problem, schedule, machine, device, kernel)
        self.operation = operations.BY_NUMBER[problem.operation]
        where = _c.Device(*device, kernel=None if kernel is None else str(kernel).encode(), mode=mode)
        own = custom.is_custom(schedule.order)
        given = schedules.to_c(dataclasses.replace(schedule, order=None) if own else schedule)
        options = _c.PlanOptions(ctypes.pointer(given), machine and ctypes.pointer(machine), ctypes.pointer(where),
                                 brings_workspace)  # fmt: skip
        if own:
            grid = _c.Grid()
            _c.call(_c.library.weft_plan_positions, ctypes.byref(problem), ctypes.byref(options), ctypes.byref(grid))
            table = custom.table(schedule.order, (grid.batch, grid.rows, grid.cols))
            given.order_table, given.order_count = table, len(table)
        _c.call(_c.library.weft_plan_create, ctypes.byref(self._handle), ctypes.byref(problem), ctypes.byref(options))
        if device[0] == CUDA:
            _on_gpus.add(self)

    def __del__(self):
        if getattr(self, "_handle", None) and _c is not None:
            _c.library.weft_plan_destroy(self._handle)

    def packer(self, names: Tuple[str, ...]) -> Callable[..., bytes]:
        """What makes the operation's data of the pointers to arrays of these names."""
        return _c.packer(self.operation.data, self.operation.problem.operation, names)

    def enqueue(self, data: bytes, stream: int = 0) -> None:
        """Puts a run on a stream; on the CPU it has run when this returns."""
        _c.call(_enqueue, self._handle, data, stream or None)

    def prepare(self, data: bytes, stream: int = 0) -> None:
        """Puts on a stream what runs with the same lengths and workspace have in common; those then have `prepared` = 1 in their data."""
        _c.call(_prepare, self._handle, data, stream or None)

    def check(self) -> None:
        """Raises weft.Invalid for what a run has found wrong on a GPU since somebody was last told; see weft.check_runs()."""
        _c.call(_c.library.weft_plan_check, self._handle)

    @property
    def workspace(self) -> int:
        """Bytes of device memory that a run takes beside its arrays."""
        return _c.library.weft_plan_workspace(self._handle)

    @property
    def subject(self) -> str:
        """The operation: "attention", "attention-backward", "gemm", "combine" or "grouped-gemm"."""
        return self.operation.problem.subject

    @property
    def device(self) -> str:
        """Where it runs: "cpu" or "cuda:0"."""
        kind, index = self._made_from[3]
        return "cpu" if kind == CPU else f"cuda:{index}"

    @property
    def schedule(self) -> schedules.Schedule:
        """The schedule with every choice made."""
        return schedules.from_c(_c.library.weft_plan_schedule(self._handle))

    def _described(self, function) -> str:
        text = ctypes.create_string_buffer(function(self._handle, None, 0) + 1)
        if function(self._handle, text, len(text)) == 0:
            raise NoMemory("no memory to describe a plan")
        return text.value.decode()

    @property
    def text(self) -> str:
        """The plan in words."""
        return self._described(_c.library.weft_plan_text)

    @property
    def json(self) -> Dict[str, Any]:
        """The plan as a dict: problem, schedule, machine."""
        return json.loads(self._described(_c.library.weft_plan_json))

    def _order(self) -> _c.Order:
        """The plan's own, valid as long as it."""
        return _c.library.weft_plan_walk(self._handle, ctypes.sizeof(_c.Walk)).contents.order

    @property
    def grid(self) -> Tuple[int, int, int]:
        """The grid of positions: (batch, rows, columns), with a position a tile, or a cluster or pair of them. Rows and
        columns are m and n of a GEMM, heads and query blocks of an attention."""
        grid = self._order().grid
        return grid.batch, grid.rows, grid.cols

    def tiles(self, count: Optional[int] = None) -> List[Tuple[int, int, int]]:
        """(batch, row, column) at positions 0, 1, 2, ...: the order itself, or its first `count` positions."""
        problem, schedule, *where = self._made_from
        plan = Plan(problem, dataclasses.replace(schedule, table=True), *where)
        order = plan._order()
        rows, cols = order.grid.rows, order.grid.cols
        indices = order.table[: order.count if count is None else min(count, order.count)]
        return [(index // (rows * cols), index // cols % rows, index % cols) for index in indices]

    def __repr__(self) -> str:
        return f"<weft.Plan {self.subject} on {self.device}: {self.schedule}>"


def plan(problem: Problem, schedule: schedules.ScheduleLike = None, machine: machines.MachineLike = None, *,
         device: str = "cpu", kernel: Optional[str] = None, mode: str = "estimate") -> Plan:  # fmt: skip
    """Makes a plan, with every choice made that `schedule` leaves open.

    problem   a weft.Attention, a weft.AttentionBackward, a weft.Gemm, a weft.Combine or a weft.GroupedGemm
    schedule  a weft.Schedule, a dict of its fields, or None: all chosen
    machine   a weft.Machine, a name, a path, or None: this host, or the GPU
    device    "cpu", "cuda" or "cuda:1"
    kernel    on a GPU, the family of kernels to take, as "study", or None: the best that fits; options for studies
              follow a colon: "study:precise,no-prefetch,ctas=2"
    mode      how to choose what is open: "estimate" by the model, "measure" as it was tuned before or else by timing candidates
              for some seconds, "stored" as it was tuned before or weft.NotFound

    >>> weft.plan(weft.Attention(seq=4096, dtype="fp16"), {"sweep": "sawtooth"}, "gb10").schedule.sweep
    'sawtooth'
    """
    problems.check(problem)
    made = machines.of(machine)
    return Plan(problem.to_c(), schedules.of(schedule), None if made is None else made._c, device_of(device), kernel,
                number_of("mode", mode, MODES))  # fmt: skip


def check_runs() -> None:
    """Raises weft.Invalid for what runs on a GPU have found wrong since somebody was last told: an entry of a block_table that is needed
    and names no page, a kv_used below 0 or beyond the table. A call tells of the calls before it that had arrays of the same form; who
    replays CUDA graphs asks here. Waits for nothing: what is still under way may be told later.

    >>> weft.check_runs()  # nothing was wrong
    """
    for made in list(_on_gpus):
        made.check()


_pinned: Set[Plan] = set()


def pin(plan_in_capture: Plan) -> None:
    """Keeps a plan for good: a CUDA graph that captured a run of it may be replayed at any time."""
    _pinned.add(plan_in_capture)
