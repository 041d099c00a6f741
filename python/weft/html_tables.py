# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks: what was simulated, recommended and swept, and machines. Plain HTML with a notebook's own style."""

from __future__ import annotations

import base64
import dataclasses
from html import escape
from typing import Any, Iterable, Sequence, Tuple

from . import notebook
from .machines import Machine
from .plots import Plot
from .recommendation import Recommendation
from .simulation import Comparison, Simulation
from .tables import Table

_MOST_ROWS = 100  # of a sweep; the rest is said in words


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of texts, the first of each row on the left."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption>" + (f"<thead><tr>{head}</tr></thead>" if heads else "") + f"<tbody>{body}</tbody></table>"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _bar(value: float, most: float, text: str) -> str:
    share = 100 * value / most if most else 0
    return (
        '<td style="text-align:right;min-width:9em;background:linear-gradient(90deg,#a5c8f0 '
        f'{share:.1f}%,transparent {share:.1f}%)">{escape(text)}</td>'
    )


@notebook.html.register(Comparison)
def _of_comparison(comparison: Comparison) -> str:
    """A table: a row for each schedule, bars for the predicted time, the misses and the hits."""
    rows = comparison.rows
    slowest = max(s.seconds for _, s in rows)
    missed = max(s.misses for _, s in rows)
    best = comparison.best[0]
    lines = []
    for name, s in rows:
        bars = _bar(s.seconds, slowest, f"{s.seconds * 1e3:.3f} ms") + _bar(s.misses, missed, f"{s.misses:,}")
        bars += _bar(s.hit_rate, 1, f"{s.hit_rate:.1%}")
        shown = f"<b>{escape(name)}</b>" if name == best else escape(name)
        lines.append(f'<tr><td style="text-align:left">{shown}</td>{bars}</tr>')
    given = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(comparison.problem).items() if value)
    head = "".join(f"<th>{title}</th>" for title in ("schedule", "predicted time", "L2 misses", "L2 hits"))
    return (
        f"<table><caption>{comparison.problem.subject}, {escape(given)}, on {escape(comparison.machine)}: simulated</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


@notebook.html.register(Simulation)
def _of_simulation(s: Simulation) -> str:
    rows: Sequence[Tuple[str, str]] = [
        ("schedule", "of a trace" if s.schedule is None else str(s.schedule)), ("predicted time", _milliseconds(s.seconds)),
        *([("predicted rate", s.rate)] if s.tflops else []), *([("of the machine's rate", f"{s.efficiency:.1%}")] if s.efficiency else []),
        ("L2 misses", f"{s.misses:,} of {s.sectors:,} sectors"), ("L2 hits", f"{s.hit_rate:.2%}"),
        ("compulsory misses", f"{s.compulsory_misses:,}"),
        ("DRAM", f"{s.dram_read_bytes / 1e9:.4g} GB read, {s.dram_write_bytes / 1e9:.4g} GB written"), ("kernel profile", s.profile),
        *([("simulated", f"{s.simulated:.1%} of the steps")] if s.simulated < 1 else []),
    ]  # fmt: skip
    return _table(f"simulated on {s.machine}", (), rows)


@notebook.html.register(Recommendation)
def _of_recommendation(found: Recommendation) -> str:
    """Why in sentences, and the first candidates."""
    why = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.why)
    rows = [(c.name, "" if c.seconds is None else _milliseconds(c.seconds), "" if c.misses is None else f"{c.misses:,}") for c in found.candidates[:5]]
    return _table(f"recommended on {found.machine}: {found.schedule}", ("schedule", "predicted time", "L2 misses"), rows) + f"<ul>{why}</ul>"


@notebook.html.register(Machine)
def _of_machine(machine: Machine) -> str:
    rates = {name: getattr(machine, f"matrix_{name}") for name in ("fp32", "bf16", "fp16", "fp8")}
    rows = [
        ("workers", machine.workers), ("L2", f"{machine.domains} x {machine.l2_bytes / 2**20:g} MiB"),
        ("DRAM", f"{machine.dram_bandwidth / 1e9:,.0f} GB/s"), ("clock", f"{machine.clock / 1e9:.3g} GHz"),
        *((f"matrix products, {name}", f"{rate / 1e12:,.4g} TFLOP/s") for name, rate in rates.items() if rate),
    ]  # fmt: skip
    return _table(f"{machine.name}: {machine.title}", (), rows)


@notebook.html.register(Table)
def _of_table(table: Table) -> str:
    names = [*table.axes, "seconds", "tflops", "misses", "hit_rate", "dram_read_bytes"]
    count = len(table.rows)
    cells = [[f"{row[name]:,}" if name in ("misses", "dram_read_bytes") else f"{row[name]:.4g}" if isinstance(row[name], float) else row[name]
              for name in names] for row in table.rows[:_MOST_ROWS]]  # fmt: skip
    more = f", of which {_MOST_ROWS} are shown" if count > _MOST_ROWS else ""
    return _table(f"{table.title}: {count} rows{more}", names, cells)


@notebook.html.register(Plot)
def _of_plot(plot: Plot) -> str:
    """As an image, whose style cannot reach the page."""
    data = base64.b64encode(plot.svg.encode()).decode()
    return f'<img alt="{escape(repr(plot))}" src="data:image/svg+xml;base64,{data}">'
