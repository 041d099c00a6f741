# SPDX-License-Identifier: Apache-2.0
"""Recommending a schedule: the search behind `weft plan`."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Callable, Dict, Optional, Tuple

from . import _c, machines, notebook, plans, problems, schedules
from .errors import Invalid

COSTS = ("simulator", "model")  # enum weft_search_cost, from 1 on; 0: the model where there is one
_ALL = 1  # enum weft_search_space


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A schedule that was ranked. What was not simulated has None for seconds and what follows.

    >>> first = weft.recommend(weft.Gemm(1408, 1152, 256, "bf16"), "h100").candidates[0]
    >>> first.seconds < 1e-3 and first.simulated == 1
    True
    """

    name: str
    schedule: schedules.Schedule
    model: Optional[float]  # time by the model of the kernels, in seconds on a GPU; comparable within one recommendation
    seconds: Optional[float]  # predicted by the simulator
    dram_read_bytes: Optional[int]
    sectors: Optional[int]
    misses: Optional[int]
    simulated: float  # the share of the steps that was simulated


@dataclasses.dataclass(frozen=True)
class Recommendation(notebook.Shown):
    """What weft.recommend() found.

    schedule    what to take, with every choice made; weft.plan(), weft.simulate() and weft.attention() take it
    why         sentences: what it gains, what binds it, the rule, what ranked how many schedules
    elsewhere   what to set in "cutlass", "triton" and "flash-attention" to get it
    cost        what ranked: "model" of the kernels here, or "simulator"
    candidates  in the order of the rule; the first is the recommended one
    baseline    the plain schedule of the same tile, or the next best; None where there is no other

    >>> found = weft.recommend(weft.Gemm(1408, 1152, 256, "bf16"), "h100")
    >>> found.schedule == found.candidates[0].schedule and len(found.why) >= 3
    True
    >>> sorted(found.elsewhere)
    ['cutlass', 'flash-attention', 'triton']
    """

    machine: str
    schedule: schedules.Schedule
    why: Tuple[str, ...]
    elsewhere: Dict[str, str]
    cost: str
    rule: str
    candidates: Tuple[Candidate, ...]
    baseline: Optional[Candidate]

    def __repr__(self) -> str:
        return f"<weft.Recommendation on {self.machine}, of {len(self.candidates)} schedules: {self.candidates[0].name}\n  {self.why[0]}>"

    def __str__(self) -> str:
        return "\n".join([f"{self.candidates[0].name} on {self.machine}", *(f"  {sentence}" for sentence in self.why)])


def _text(function, *arguments) -> str:
    """What a function writes as snprintf() does."""
    text = ctypes.create_string_buffer(function(*arguments, None, 0) + 1)
    function(*arguments, text, len(text))
    return text.value.decode()


def _candidate(row: _c.Ranked) -> Candidate:
    sim = row.simulation
    counted = (sim.seconds, sim.total.dram_read_bytes, sim.total.sectors, sim.total.misses) if sim.seconds > 0 else (None,) * 4
    name = _text(_c.library.weft_search_name, ctypes.byref(row))
    return Candidate(name, schedules.from_c(row.schedule), row.model or None, *counted, sim.simulated)


class _Search:
    """A search of the library, released when it is left."""

    def __init__(self, problem, options: _c.PlanOptions, search: _c.SearchOptions):
        self.handle = ctypes.c_void_p()
        _c.call(_c.library.weft_search_run, ctypes.byref(self.handle), ctypes.byref(problem), ctypes.byref(options), ctypes.byref(search))

    def __enter__(self) -> _Search:
        return self

    def __exit__(self, *_) -> None:
        _c.library.weft_search_destroy(self.handle)

    def summary(self) -> _c.SearchSummary:
        summary = _c.SearchSummary()
        _c.call(_c.library.weft_search_summarize, self.handle, ctypes.byref(summary))
        return summary

    def row(self, number: Optional[int]) -> Candidate:
        """By number; None: the baseline."""
        row = _c.Ranked(simulation=_c.Simulation(total=_c.Traffic()), schedule=_c.Schedule(), given=_c.Schedule())
        if number is None:
            _c.call(_c.library.weft_search_baseline, self.handle, ctypes.byref(row))
        else:
            _c.call(_c.library.weft_search_row, self.handle, number, ctypes.byref(row))
        return _candidate(row)

    def why(self) -> Tuple[str, ...]:
        sentences = []
        while _c.library.weft_search_why(self.handle, len(sentences), None, 0):
            sentences.append(_text(_c.library.weft_search_why, self.handle, len(sentences)))
        return tuple(sentences)

    def elsewhere(self) -> Dict[str, str]:
        programs = []
        while _c.library.weft_elsewhere_name(len(programs)):
            programs.append(_c.library.weft_elsewhere_name(len(programs)))
        return {program.decode(): _text(_c.library.weft_search_elsewhere, self.handle, program) for program in programs}


def recommend(problem: problems.Problem, machine: machines.MachineLike = None, *, schedule: schedules.ScheduleLike = None,
              device: str = "cpu", cost: Optional[str] = None, seed: int = 1,
              progress: Optional[Callable[[int, int], None]] = None) -> Recommendation:  # fmt: skip
    """Searches tiles, orders, groups, sweeps and dispatches, and recommends a schedule: what `weft plan` prints.

    problem   a weft.Attention, a weft.AttentionBackward or a weft.Gemm
    machine   a weft.Machine, a name such as "h200", a path, or None: the device
    schedule  what is not open in it stays as it is
    device    "cpu" or "cuda", for machine=None: its kernels are ranked by the model that plans and the tuner go by
    cost      "simulator" or "model"; None: the model where the kernels here were measured on the machine, else the simulator
    progress  called with steps simulated so far and in all, about

    >>> found = weft.recommend(weft.Attention(seq=4096, heads=16, head_dim=128, dtype="bf16"), "h200")
    >>> found.schedule.tile, found.cost
    ((192, 80), 'model')
    >>> print(found.why[1])
    what binds: products (...
    """
    problems.check(problem)
    if cost not in (None, *COSTS):
        raise Invalid(f'cost {cost!r} is not "simulator" or "model"')
    where, given, on = machines.of(machine), schedules.to_c(schedules.of(schedule)), _c.Device(*plans.device_of(device))
    simulate = _c.SimulateOptions(seed=schedules.whole("seed", seed))
    raised = []

    def told(_, done: int, total: int) -> None:
        try:
            if progress and not raised:
                progress(done, total)
        except BaseException as error:  # it cannot pass through C
            raised.append(error)

    search = _c.SearchOptions(space=_ALL, simulate=ctypes.pointer(simulate), cost=COSTS.index(cost) + 1 if cost else 0)
    callback = _c.PROGRESS(told)
    if progress:
        search.progress = ctypes.cast(callback, ctypes.c_void_p)
    options = _c.PlanOptions(ctypes.pointer(given), where and ctypes.pointer(where._c), ctypes.pointer(on))
    with _Search(problem.to_c(), options, search) as found:
        if raised:
            raise raised[0]
        summary = found.summary()
        candidates = tuple(found.row(i) for i in range(summary.count))
        baseline = found.row(None) if summary.has_baseline else None
        return Recommendation(
            where.name if where else "this host" if device == "cpu" else device, candidates[0].schedule, found.why(),
            found.elsewhere(), COSTS[summary.cost - 1], summary.rule.decode(), candidates, baseline,
        )  # fmt: skip
