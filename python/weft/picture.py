# SPDX-License-Identifier: Apache-2.0
"""Pictures for notebooks: the way an order goes over its grid. Plain HTML and SVG, no script."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Dict, Iterable, List, Tuple

from . import notebook
from .plans import Plan, plan
from .problems import Attention, Gemm, Problem
from .schedules import Schedule, orders

_CELL_WITH_NUMBER = 20  # pixels
_MOST_ROWS, _MOST_COLS = 64, 96  # positions drawn; the rest of a larger grid is said in words
_SAMPLES: Dict[str, Tuple[Problem, Tuple[int, ...]]] = {  # problem and tile with which a schedule is drawn, by its order's subject
    "attention": (Attention(18, 8, heads=11), (1, 1)),
    "gemm": (Gemm(11, 18, 1), (1, 1, 1)),
}


def _colour(share: float) -> str:
    """From deep blue at the first position to pale at the last."""
    return f"hsl(212 {70 - 25 * share:.0f}% {58 + 36 * share:.0f}%)"


def _path(tiles: Iterable[Tuple[int, int, int]], rows: int, cols: int, cell: float) -> str:
    """The line through the positions of the first batch that are in sight, broken where the order jumps."""
    parts: List[str] = []
    last = None
    for batch, row, col in tiles:
        if batch or row >= rows or col >= cols:
            last = None
            continue
        near = last is not None and abs(row - last[0]) + abs(col - last[1]) == 1
        parts.append(f"{'L' if near else 'M'}{(col + 0.5) * cell:g} {(row + 0.5) * cell:g}")
        last = row, col
    return "".join(parts)


def _numbers(positions: List[Tuple[int, int, int]], cell: float) -> str:
    """The number of each (position, row, column), where cells have room for it."""
    if cell < _CELL_WITH_NUMBER:
        return ""
    texts = (f'<text x="{(col + 0.5) * cell:g}" y="{(row + 0.5) * cell:g}">{i}</text>' for i, row, col in positions)
    style = f'font-size="{cell / 3:.1f}" font-family="sans-serif" text-anchor="middle" dominant-baseline="central"'
    return f'<g {style} fill="#1a1a1a">{"".join(texts)}</g>'


def order_svg(drawn: Plan) -> str:
    """The order of a plan: a cell for each position of the first batch, dark to pale in the order of visits, and the path."""
    _, all_rows, all_cols = drawn.grid
    rows, cols = min(all_rows, _MOST_ROWS), min(all_cols, _MOST_COLS)
    tiles = drawn.tiles(1 << 17)
    seen = [(i, row, col) for i, (batch, row, col) in enumerate(tiles) if batch == 0 and row < rows and col < cols]
    cell = max(6.0, min(24.0, 640.0 / cols))
    width, height = cols * cell, rows * cell
    cells = "".join(
        f'<rect x="{col * cell:g}" y="{row * cell:g}" width="{cell:g}" height="{cell:g}"'
        f' fill="{_colour(i / max(1, len(seen) - 1))}"/>'
        for i, (_, row, col) in enumerate(seen)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        f' role="img" aria-label="the order of {all_rows} x {all_cols} positions">{cells}'
        f'<path d="{_path(tiles, rows, cols, cell)}" fill="none" stroke="#f2a35e" stroke-width="{cell / 9:.2f}"'
        f' stroke-linejoin="round"/>{_numbers(seen, cell)}</svg>'
    )


def _fields(schedule: Schedule) -> str:
    rows = ((field.name, getattr(schedule, field.name)) for field in dataclasses.fields(schedule))
    said = [(name, " x ".join(map(str, value)) if isinstance(value, tuple) else value) for name, value in rows
            if value and (name != "axis" or schedule.group)]  # fmt: skip
    return ", ".join(f"{escape(name)} <b>{escape(str(value))}</b>" for name, value in said)


@notebook.html.register(Plan)
def _of_plan(drawn: Plan) -> str:
    """A plan: its schedule in words and its order as a picture."""
    batches, rows, cols = drawn.grid
    down, across = drawn.operation.axes
    more = ""
    if rows > _MOST_ROWS or cols > _MOST_COLS:
        more = f", of which {min(rows, _MOST_ROWS)} x {min(cols, _MOST_COLS)} are drawn"
    if batches > 1:
        more += f"; the first of {batches} batches"
    return (
        f'<figure style="margin:0"><figcaption>{drawn.subject} on {drawn.device}: {_fields(drawn.schedule)}<br>'
        f"{rows} {down} down, {cols} {across} across{more}</figcaption>{order_svg(drawn)}</figure>"
    )


@notebook.html.register(Schedule)
def _of_schedule(schedule: Schedule) -> str:
    """A schedule: in words, and its order over a sample grid where it names one."""
    words = f"<p>schedule: {_fields(schedule) or 'all chosen by the plan'}</p>"
    if schedule.order is None:
        return words
    (order,) = [order for order in orders() if order.name == schedule.order]
    problem, tile = _SAMPLES[order.subject]
    drawn = Schedule(tile, schedule.order, group=schedule.group, axis=schedule.axis, domains=schedule.domains)
    return f"<figure style='margin:0'><figcaption>{words}</figcaption>{order_svg(plan(problem, drawn))}</figure>"
