# SPDX-License-Identifier: Apache-2.0
"""The simulator: what a schedule costs in cache traffic and time, before a kernel exists."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _c, machines, notebook, plans, profiles, schedules
from .errors import Invalid
from .problems import Attention, Problem


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What a profiler counts, for one domain or for all.

    sectors            looked up in the L2, 32 bytes each on most machines; sectors_from_sm of them asked for by workers
    hits, misses       of the sectors looked up; hit_rate is the share of hits
    fabric_sectors     that crossed between domains
    llc_hits           misses that the last-level cache served
    dram_read_bytes, dram_write_bytes
    added, waited      attention backward: sectors added to sums; nanoseconds that a worker waits for its turns, in the mean

    >>> ran = weft.simulate(weft.Attention(seq=4096, dtype="fp16"), None, "h200")
    >>> sum(domain.misses for domain in ran.domains) == ran.total.misses
    True
    """

    sectors: int
    sectors_from_sm: int
    hits: int
    misses: int
    fabric_sectors: int
    llc_hits: int
    dram_read_bytes: int
    dram_write_bytes: int
    added: int = 0
    waited: int = 0

    @property
    def hit_rate(self) -> float:
        """Hits over the sectors looked up."""
        return self.hits / self.sectors if self.sectors else 0.0


def _traffic(c: _c.Traffic) -> Traffic:
    return Traffic(*(getattr(c, field.name) for field in dataclasses.fields(Traffic)))


@dataclasses.dataclass(frozen=True)
class Simulation(notebook.Shown):
    """What weft.simulate() predicts.

    seconds, tflops    predicted; rate is the latter in words, in a unit that suits it
    efficiency         the rate over the machine's rate of matrix products in the dtype; None where that is not known, and of a trace
    misses, hits, hit_rate, sectors, dram_read_bytes, dram_write_bytes  of `total`, the traffic of all domains; `domains` has that of each
    compulsory_misses  what an infinite cache would miss
    bound              what the prediction is bound by: "compute", "DRAM", "L2", "turns" (workers wait to add to sums), or "latency",
                       where none of them takes most of the time; "" of a trace
    bounds             the seconds that each of these needs by itself: "compute" (the busiest worker's steps), "DRAM", "L2", "turns"
    schedule           with every choice made; a trace has none, and no tflops unless it says how much it computes
    simulated          the share of the steps that was simulated; 1 without a limit
    profile, seed, piece_visits, elapsed_seconds  the kernel's profile, the seed, how often a worker asked for a piece, what the
                       simulation took

    >>> ran = weft.simulate(weft.Attention(seq=32768, dtype="fp16"), {"tile": (64, 64)}, "gb10")
    >>> ran.misses, ran.compulsory_misses
    (524288, 524288)
    >>> print(f"{ran.rate}, {ran.efficiency:.0%} of the machine's")
    69.8 TFLOP/s, 56% of the machine's
    >>> ran.bound, weft.simulate(weft.Gemm(64, 8192, 8192, "bf16"), None, "gb10").bound
    ('compute', 'DRAM')
    >>> ran.bounds["compute"] > ran.bounds["DRAM"]
    True
    """

    machine: str
    schedule: Optional[schedules.Schedule]
    total: Traffic
    domains: Tuple[Traffic, ...]
    compulsory_misses: int
    piece_visits: int
    seconds: float
    tflops: float
    elapsed_seconds: float
    seed: int
    simulated: float
    profile: str
    peak_tflops: Optional[float] = None  # of the machine, in the problem's dtype
    bounds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    sectors = property(lambda self: self.total.sectors)
    hits = property(lambda self: self.total.hits)
    misses = property(lambda self: self.total.misses)
    hit_rate = property(lambda self: self.total.hit_rate)
    dram_read_bytes = property(lambda self: self.total.dram_read_bytes)
    dram_write_bytes = property(lambda self: self.total.dram_write_bytes)

    @property
    def bound(self) -> str:
        # As on the pages of `weft view`: steps overlap with all else, DRAM and the L2 are never busy without a gap.
        for name, share in (("compute", 0.9), ("DRAM", 0.8), ("L2", 0.8), ("turns", 0.1)):
            if self.bounds and self.bounds[name] >= share * self.seconds:
                return name
        return "latency" if self.bounds else ""

    @property
    def rate(self) -> str:
        return _c.library.weft_rate_text(self.tflops).text.decode()

    @property
    def efficiency(self) -> Optional[float]:
        return self.tflops / self.peak_tflops if self.peak_tflops else None

    def __repr__(self) -> str:
        of = "a trace" if self.schedule is None else str(self.schedule)
        rate = f", {self.rate}" if self.tflops else ""
        return (f"<weft.Simulation on {self.machine}: {of}\n  {self.seconds * 1e3:.4g} ms{rate}, {self.misses:,} L2 misses, "
                f"{self.hit_rate:.2%} hits, {self.dram_read_bytes / 1e9:.4g} GB read from DRAM>")  # fmt: skip


def options(profile: profiles.ProfileLike, drift: Optional[float], seed: int, stages: Optional[int], limit: int):
    if drift is not None and drift < 0:
        raise Invalid(f"drift {drift} is negative; None is the profile's")
    numbers = {"seed": seed, "stages": 1 if stages is None else stages, "limit": limit}
    for name, number in numbers.items():
        if schedules.whole(name, number) < 0:
            raise Invalid(f"{name} {number} is negative")
    # In C, 0 is the default and a negative number is none.
    spread, ahead = 0.0 if drift is None else drift or -1.0, 0 if stages is None else stages or -1
    kernel = profiles.of(profile)
    return _c.SimulateOptions(spread, seed, ahead, limit, None, None, kernel and ctypes.pointer(kernel._c))


def _pages(problem: Problem, table: Sequence[Sequence[int]]):
    """A list of pages for each sequence, as the library takes it."""
    page = getattr(problem, "page", 0)
    if not isinstance(problem, Attention) or page < 1:
        raise Invalid("page_table is only for an attention with pages")
    entries = problem.of_each("page_table", table, (problem.seq if problem.kv_seq is None else problem.kv_seq) // page)
    return (ctypes.c_int32 * len(entries))(*entries)


def _bounds(machine: machines.Machine, out: _c.Simulation, plan: _c.Bounds) -> Mapping[str, float]:
    """The seconds of each resource. A step takes as long as its products or its loads, so that steps may be the L2's."""
    moved = out.total.dram_read_bytes + out.total.dram_write_bytes
    l2 = max(plan.l2, out.total.sectors * machine.l2_sector / machine.l2_bandwidth) * plan.waves
    compute = plan.steps if l2 < 0.97 * plan.steps else min(plan.steps, max(plan.products, plan.exponentials) * plan.waves)
    waiting = _c.library.weft_waiting_share(ctypes.byref(out)) * out.seconds
    return {"compute": compute, "L2": l2, "DRAM": moved / machine.dram_bandwidth, "turns": waiting}


def result(machine: machines.Machine, schedule: Optional[schedules.Schedule], out: _c.Simulation, domains,
           dtype: Optional[str] = None, bounds: Optional[_c.Bounds] = None) -> Simulation:  # fmt: skip
    """What the library gave, as a Simulation; bounds: of the plan, where there is one."""
    peak = getattr(machine, f"matrix_{dtype}") / 1e12 if dtype else 0
    return Simulation(
        machine.name, schedule, _traffic(out.total), tuple(map(_traffic, domains[: machine.domains])),
        out.compulsory_misses, out.piece_visits, out.seconds, out.tflops, out.elapsed_seconds, out.seed, out.simulated,
        out.profile.decode(), peak or None, _bounds(machine, out, bounds) if bounds else {},
    )  # fmt: skip


def simulate(problem: Problem, schedule: schedules.ScheduleLike = None, machine: machines.MachineLike = None, *,
             profile: profiles.ProfileLike = None, drift: Optional[float] = None, seed: int = 1,
             stages: Optional[int] = None, limit: int = 0,
             page_table: Optional[Sequence[Sequence[int]]] = None) -> Simulation:  # fmt: skip
    """Predicts the L2 and DRAM traffic and the time of a problem under a schedule on a machine.

    problem   a weft.Attention, a weft.AttentionBackward or a weft.Gemm
    schedule  a weft.Schedule, a dict of its fields, or None: chosen
    machine   a weft.Machine, a name such as "h200", a path, or None: this host
    profile   the kernel: a weft.Profile, a name such as "flash-attention-3", a path, or None: the machine's usual one
    drift     relative spread of step times between workers; None: the profile's
    stages    steps that a worker requests ahead of the one it computes; None: the profile's
    limit     start no tile after this many steps, and scale what was counted; 0: simulate all
    page_table  an attention with pages: the pages of each sequence, kv_seq / page of them; None: all apart, and nobody shares one

    >>> weft.simulate(weft.Attention(seq=32768, dtype="fp16"), {"tile": (64, 64), "sweep": "sawtooth"}, "gb10").misses
    524288
    """
    where = machines.of(machine) or machines.Machine.host()
    plan = plans.plan(problem, schedule, where)
    out, domains = _c.Simulation(), _c.array(_c.Traffic, max(1, where.domains))
    given = options(profile, drift, seed, stages, limit)
    if page_table is not None:
        given.page_table = _pages(problem, page_table)
    _c.call(_c.library.weft_simulate, plan._handle, ctypes.byref(given), ctypes.byref(out), domains)
    bounds = _c.Bounds()
    _c.call(_c.library.weft_simulate_bounds, plan._handle, ctypes.byref(given), ctypes.byref(bounds))
    return result(where, plan.schedule, out, domains, problem.dtype, bounds)


def curve_points(count: int):
    """Room for a curve."""
    if not 2 <= schedules.whole("count", count) <= 1 << 20:
        raise Invalid(f"count {count} is not between 2 and {1 << 20}")
    return (_c.CurvePoint * count)()


def curve(problem: Problem, schedule: schedules.ScheduleLike = None, machine: machines.MachineLike = None, *,
          count: int = 64) -> List[Tuple[int, int]]:  # fmt: skip
    """(bytes of one domain's L2, misses) for `count` sizes of the L2, from almost nothing to all of the data.

    >>> points = weft.curve(weft.Gemm(4096, 4096, 512, "bf16"), {"order": "raster-n"}, "h100", count=4)
    >>> [misses for _, misses in points] == sorted((misses for _, misses in points), reverse=True)
    True
    """
    plan, points = plans.plan(problem, schedule, machine), curve_points(count)
    _c.call(_c.library.weft_simulate_curve, plan._handle, None, points, count)
    return [(point.l2_bytes, point.misses) for point in points]


@dataclasses.dataclass(frozen=True)
class Comparison(notebook.Shown):
    """One problem under several schedules on one machine: (name, simulation) for each, in the order they were given.

    >>> comparison = weft.compare(weft.Gemm(4096, 4096, 512, "bf16"), [{"order": "raster-n"}, {"order": "hilbert"}], "h100")
    >>> [name for name, simulation in comparison.rows]
    ['raster-n', 'hilbert']
    >>> comparison.best[1].seconds == min(simulation.seconds for _, simulation in comparison.rows)
    True
    """

    problem: Problem
    machine: str
    rows: Tuple[Tuple[str, Simulation], ...]

    @property
    def best(self) -> Tuple[str, Simulation]:
        """The row with the least predicted time."""
        return min(self.rows, key=lambda row: row[1].seconds)

    def __repr__(self) -> str:
        name, best = self.best
        return f"<weft.Comparison of {len(self.rows)} schedules on {self.machine}: the fastest is {name}, {best.seconds * 1e3:.4g} ms>"

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows)
        lines = [f"{'':{width}}  {'ms':>10} {'TFLOP/s':>8} {'misses':>14} {'hits':>7} {'DRAM GB':>9}"]
        for name, s in self.rows:
            lines.append(
                f"{name:{width}}  {s.seconds * 1e3:10.3f} {s.tflops:8.1f} {s.misses:14,} {s.hit_rate:7.1%}"
                f" {s.dram_read_bytes / 1e9:9.3f}"
            )
        return "\n".join(lines)


Schedules = Union[Mapping[str, schedules.ScheduleLike], Iterable[schedules.ScheduleLike]]


def compare(problem: Problem, candidates: Schedules, machine: machines.MachineLike = None, **options) -> Comparison:
    """Simulates a problem under several schedules: a dict of them by name, or a list. Options are those of weft.simulate().

    >>> print(weft.compare(weft.Attention(seq=4096, dtype="fp16"), {"up": {"sweep": "forward"}}, "gb10"))
                ms  TFLOP/s         misses    hits   DRAM GB
    up ...
    """
    where = machines.of(machine) or machines.Machine.host()
    named = candidates.items() if isinstance(candidates, Mapping) else [(str(schedules.of(s)), s) for s in candidates]
    rows = tuple((name, simulate(problem, schedule, where, **options)) for name, schedule in named)
    if not rows:
        raise Invalid("there is no schedule to compare")
    return Comparison(problem, where.name, rows)
