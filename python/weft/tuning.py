# SPDX-License-Identifier: Apache-2.0
"""Tuning: timing candidates for a problem on a device, and keeping the best for plans in mode "measure" or "stored"."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Callable, Optional

from . import _c, plans, problems, schedules


@dataclasses.dataclass(frozen=True)
class Tuned:
    """A schedule that was timed. What is open in it depends on the length: a plan chooses it.

    >>> tuned = weft.tune(weft.Gemm(64, 64, 64), seconds=0.2)
    >>> tuned.seconds > 0 and tuned.runs > 0
    True
    """

    schedule: schedules.Schedule
    seconds: float  # of a run, the median
    spread: float  # between the quartiles of the runs, relative to the median
    runs: int  # that were timed
    date: int  # in seconds since 1970
    whole: bool  # whether every candidate was timed as often as it deserved
    estimate_seconds: Optional[float]  # of the schedule that mode "estimate" takes; None where nothing was timed now


def tune(problem: problems.Problem, schedule: schedules.ScheduleLike = None, *, device: str = "cpu", seconds: float = 10.0,
         again: bool = False, progress: Optional[Callable[[float, float], bool]] = None) -> Tuned:  # fmt: skip
    """Times candidates for a problem, which stands for its class, and stores the best.

    problem   a weft.Attention, a weft.AttentionBackward or a weft.Gemm
    schedule  what is not open in it stays as it is
    device    "cpu", "cuda" or "cuda:1"
    seconds   to spend at most, about
    again     time even what was tuned before
    progress  called with the seconds so far and those that remain; when it returns True, tuning stops, and what was measured is kept

    >>> schedule = weft.tune(weft.Gemm(64, 64, 64), seconds=0.2).schedule
    >>> weft.plan(weft.Gemm(64, 64, 64), mode="stored").subject
    'gemm'
    """
    problems.check(problem)
    raised = []

    def on_progress(_, address):
        try:
            state = _c.TuneState.from_address(address)
            return int(bool(progress and progress(state.elapsed, state.left)))
        except BaseException as error:  # it cannot pass through C
            raised.append(error)
            return 1

    where = _c.Device(*plans.device_of(device))
    options = _c.TuneOptions(seconds=float(seconds), again=int(bool(again)))
    options.progress = _c.TUNE_PROGRESS(on_progress)
    tuned, state = _c.Tuned(), _c.TuneState()
    _c.call(_c.library.weft_tune, ctypes.byref(problem.to_c()), ctypes.byref(schedules.to_c(schedules.of(schedule))), ctypes.byref(where),
            ctypes.byref(options), ctypes.byref(tuned), ctypes.byref(state))  # fmt: skip
    if raised:
        raise raised[0]
    return Tuned(schedules.from_c(tuned.schedule), tuned.seconds, tuned.spread, tuned.runs, tuned.date, bool(tuned.whole),
                 state.estimate or None)  # fmt: skip
