# SPDX-License-Identifier: Apache-2.0
"""Sweeps: problems under schedules on machines, simulated, as a table."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import notebook, plots, problems, simulation
from .errors import Invalid
from .machines import Machine
from .machines import of as machine_of
from .schedules import Schedule
from .schedules import of as schedule_of

_COUNTS = ("seconds", "tflops", "efficiency", "misses", "hits", "hit_rate", "sectors", "dram_read_bytes", "dram_write_bytes",
           "compulsory_misses", "bound", "simulated", "profile")  # fmt: skip
# What a plot calls a column, what it multiplies it by, and whether a wide range of it takes a logarithmic axis.
_PLOTTED = {
    "seconds": ("predicted time (ms)", 1e3, True), "tflops": ("predicted rate (TFLOP/s)", 1.0, False),
    "efficiency": ("share of the machine's rate (%)", 100.0, False), "misses": ("L2 misses (millions of sectors)", 1e-6, True),
    "hit_rate": ("L2 hits (%)", 100.0, False), "dram_read_bytes": ("DRAM reads (GB)", 1e-9, True),
}  # fmt: skip


class Table(dict, notebook.Shown):
    """A dict of columns, each a list with an element for each row; `axes` names those that were varied. pandas.DataFrame() takes it.

    >>> table = weft.sweep([weft.Gemm(n, n, 512) for n in (512, 1024)], machines=["h100", "gb10"])
    >>> table["m"], table["machine"]
    ([512, 512, 1024, 1024], ['h100', 'gb10', 'h100', 'gb10'])
    >>> table.rows[0]["misses"] == table["misses"][0]
    True
    >>> print(table.csv().splitlines()[0][:40])
    m,n,machine,schedule,resolved,seconds,tf
    """

    def __init__(self, title: str, axes: Sequence[str], rows: Sequence[Mapping[str, Any]]):
        super().__init__({name: [row[name] for row in rows] for name in (rows[0] if rows else axes)})
        self.title, self.axes = title, tuple(axes)

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """The rows, a dict of each."""
        return [dict(zip(self, values)) for values in zip(*self.values())]

    def __repr__(self) -> str:
        count = len(next(iter(self.values())))
        return f"<weft.Table of {self.title}: {count} rows by {', '.join(self.axes)}; columns {', '.join(name for name in self if name not in self.axes)}>"

    def __str__(self) -> str:
        """The axes and what matters most, in columns."""
        names = [*self.axes, "seconds", "tflops", "misses", "hit_rate", "dram_read_bytes"]
        lines = [names, *([_cell(row[name]) for name in names] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)

    def csv(self) -> str:
        """The table as comma-separated values, with the names of columns in the first line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self)
        writer.writerows(zip(*self.values()))
        return text.getvalue()

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes csv() to a file."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(self.csv())

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Needs pandas."""
        import pandas

        return pandas.DataFrame(dict(self))

    def plot(self, y: str = "seconds", x: Optional[str] = None) -> plots.Plot:
        """A plot of a column of numbers over an axis; what else was varied makes lines. x None: the first axis of numbers, or the first."""
        for name in (y, *([] if x is None else [x])):
            if name not in self:
                raise Invalid(f"the table has no {name!r}: {', '.join(self)}")
        if not all(map(_is_number, self[y])):
            raise Invalid(f"{y} is not a number in every row, so there is nothing to plot")
        x = x or next((name for name in self.axes if all(map(_is_number, self[name]))), self.axes[0])
        # An axis that has one value for each x, as n has where m and n are equal, tells no lines apart.
        others = [name for name in self.axes if name != x and len(set(zip(self[x], map(str, self[name])))) > len(set(self[x]))]
        label, factor, may_be_log = _PLOTTED.get(y, (y, 1.0, False))
        words = () if all(map(_is_number, self[x])) else tuple(dict.fromkeys(map(_cell, self[x])))
        lines: Dict[str, List[Tuple[Any, float]]] = {}
        for row in self.rows:
            named = (f"{name} {row[name]}" if _is_number(row[name]) else _cell(row[name]) for name in others)
            lines.setdefault(", ".join(named) or y, []).append((_cell(row[x]) if words else row[x], factor * row[y]))
        return plots.Plot(self.title, x, label, lines, words, may_be_log)


_FIELDS = {field.name for field in dataclasses.fields(Schedule)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _named(what: str, values: Any, one: Any, name: Callable[[Any], str]) -> Dict[str, Any]:
    """What was given, by name: a dict, or one, or several of type `one`. A dict may also be the fields of one schedule."""
    if isinstance(values, Mapping) and not (one is Schedule and values and set(values) <= _FIELDS):
        found = dict(values)
    else:
        several = [values] if values is None or isinstance(values, (one, Mapping, str, os.PathLike)) else list(values)
        found = {name(value): value for value in several}
        if len(found) != len(several):
            raise Invalid(f"two {what} are alike, or have one name: give a dict of them by names that differ")
    if not found:
        raise Invalid(f"there are no {what}")
    return found


def _machine_name(machine: Any) -> str:
    found = machine_of(machine)
    return "host" if found is None else found.name


def _differing(several: Sequence[problems.Problem]) -> List[str]:
    """The fields that all problems have, and by which they differ."""
    names = [field.name for field in dataclasses.fields(several[0])]  # type: ignore[arg-type]
    shared = (name for name in names if all(hasattr(problem, name) for problem in several))
    return [name for name in shared if len({getattr(problem, name) for problem in several}) > 1]


def sweep(problem: Any, schedules: Any = None, machines: Any = None, *, progress: Optional[Callable[[int, int], None]] = None,
          **options: Any) -> Table:  # fmt: skip
    """Simulates every problem under every schedule on every machine: a table with a row for each, which plots itself.

    problem    a problem, a list of them, or a dict of them by name
    schedules  a weft.Schedule, a dict of its fields, or None: chosen; a list of these, or a dict of them by name
    machines   a weft.Machine, a name, a path, or None: this host; a list of these, or a dict of them by name
    progress   called with the rows that are done and with all of them
    options    those of weft.simulate(), such as limit

    Columns: `problem`, where names were given or operations differ, and the fields by which problems differ; machine; schedule, as given;
    resolved, the schedule with every choice made; and what weft.Simulation has.

    >>> sizes = [weft.Attention(seq=seq, dtype="fp16") for seq in (16384, 32768, 65536)]
    >>> table = weft.sweep(sizes, {"up": {"sweep": "forward"}, "up and down": {"sweep": "sawtooth"}}, "gb10", limit=20000)
    >>> print(table["seq"][::2], table["schedule"][:2])
    [16384, 32768, 65536] ['up', 'up and down']
    >>> table.plot("hit_rate")
    <weft.Plot of attention: L2 hits (%), 2 lines over seq>
    """
    posed = _named("problems", problem, problems.Problem, repr)
    for one in posed.values():
        problems.check(one)
    given = _named("schedules", schedules, Schedule, lambda one: str(schedule_of(one)))
    where = {name: machine_of(one) or Machine.host() for name, one in _named("machines", machines, Machine, _machine_name).items()}
    differing, subjects = _differing(list(posed.values())), list(dict.fromkeys(one.subject for one in posed.values()))
    by_name = isinstance(problem, Mapping) or len(subjects) > 1
    rows: List[Dict[str, Any]] = []
    for name, one in posed.items():
        about = {**({"problem": name} if by_name else {}), **{field: getattr(one, field) for field in differing}}
        for machine, at in where.items():
            for schedule, fields in given.items():
                ran = simulation.simulate(one, fields, at, **options)
                counts = {count: getattr(ran, count) for count in _COUNTS}
                rows.append({**about, "machine": machine, "schedule": schedule, "resolved": str(ran.schedule), **counts})
                if progress:
                    progress(len(rows), len(posed) * len(where) * len(given))
    axes = [*about, *(name for name, several in (("machine", where), ("schedule", given)) if len(several) > 1)]
    return Table(", ".join(subjects), axes or ["schedule"], rows)
