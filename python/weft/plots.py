# SPDX-License-Identifier: Apache-2.0
"""Plots: lines over one axis, drawn by the library as an SVG picture. Nothing else is needed to draw or to see one."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Any, Mapping, Sequence, Tuple, Union

from . import _c, notebook

_TICKS = 16  # names at most on the x axis


def _shortened(number: float) -> str:
    """131072 as 128K."""
    for unit in ("", "K", "M", "G"):
        if not number or number % 1024 or unit == "G":
            return f"{number:g}{unit}"
        number /= 1024
    raise AssertionError


def _spans(values: Sequence[float], factor: float) -> bool:
    """Whether values lie so far apart that a logarithmic axis shows more."""
    return min(values) > 0 and max(values) >= factor * min(values)


@dataclasses.dataclass(frozen=True, repr=False)
class Plot(notebook.Shown):
    """Lines by their names, each a list of (x, y); x is a number, or a word that stands at its place among `words`.

    svg, save(path)  the picture, for light and dark pages. A notebook shows it

    >>> plot = weft.sweep([weft.Gemm(n, n, 512) for n in (512, 1024)], machines="h100").plot("misses")
    >>> plot
    <weft.Plot of gemm: L2 misses (millions of sectors), 1 line over m>
    >>> plot.svg[:4]
    '<svg'
    """

    title: str
    x_name: str
    y_name: str
    lines: Mapping[str, Sequence[Tuple[Any, float]]]
    words: Tuple[str, ...] = ()
    y_may_be_log: bool = False

    def __repr__(self) -> str:
        count = len(self.lines)
        return f"<weft.Plot of {self.title}: {self.y_name}, {count} {'line' if count == 1 else 'lines'} over {self.x_name}>"

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the picture as an SVG file; one that is there is replaced once the new one is whole."""
        at = {word: float(i) for i, word in enumerate(self.words)}
        lines = {name: sorted((at.get(x, x) if self.words else x, y) for x, y in points) for name, points in self.lines.items()}
        xs = sorted({x for points in lines.values() for x, _ in points})
        ys = [y for points in lines.values() for _, y in points]
        shown = xs[:: -(-len(xs) // _TICKS)]
        ticks = (_c.PlotTick * len(shown))(*((x, (self.words[int(x)] if self.words else _shortened(x)).encode()) for x in shown))
        drawn = (_c.PlotLine * len(lines))()
        for line, (name, points) in zip(drawn, lines.items()):
            numbers = [(ctypes.c_double * len(points))(*values) for values in zip(*points)]
            line.name, line.x, line.y, line.count = name.encode(), *numbers, len(points)
        widens = len(xs) > 2 and xs[-1] - xs[-2] > 2 * (xs[1] - xs[0])
        plot = _c.Plot(f"{self.title}: {self.y_name}".encode(), self.x_name.encode(), self.y_name.encode(), ticks, len(ticks), drawn, len(drawn),
                       not self.words and widens and _spans(xs, 8), self.y_may_be_log and _spans(ys, 50))  # fmt: skip
        _c.call(_c.library.weft_plot_write, ctypes.byref(plot), os.fsencode(path))

    @property
    def svg(self) -> str:
        """The picture as text."""
        import tempfile  # takes longer than the rest of the package

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plot.svg")
            self.save(path)
            with open(path, encoding="utf-8") as file:
                return file.read()
