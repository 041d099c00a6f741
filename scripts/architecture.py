#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/architecture.svg: the layers of the source tree, and the way of one problem through them.

    scripts/architecture.py tests/lint/layers.txt docs/architecture.svg

Boxes bring their own background, so that the picture is readable on light and dark pages.
"""

import sys
from html import escape

# What a layer is for, by one of its members.
CAPTIONS = {
    "base": "helpers that everything may use",
    "order": "which tile is next",
    "problem": "what to compute, and where",
    "plan": "how to compute it",
    "sim": "run, simulate or judge plans",
    "tune": "built on plans",
    "registry": "names backends and tuner",
    "cli": "front ends",
}
WAY = [
    ("problem and options", "what the caller fills in; zero means: choose for me", "input"),
    ("draft", "copies and checks them, with the operation's functions", "stage"),
    ("choose", "the backend and its cost decide what is open", "stage"),
    ("walk", "order, sweep and dispatch over the grid of tiles", "stage"),
    ("place", "device memory: order tables, tile counters", "stage"),
    ("plan", "never changes again; any number of threads may use it", "result"),
]
ENDS = [
    ("run, enqueue", "a kernel's workers", "ask for visits"),
    ("simulate", "simulated workers", "ask for visits"),
    ("describe", "text, JSON,", "pictures"),
]
COLOURS = {
    "layer": ("#dbeafe", "#1d4ed8"),
    "input": ("#fef3c7", "#b45309"),
    "stage": ("#dbeafe", "#1d4ed8"),
    "result": ("#dcfce7", "#15803d"),
    "end": ("#f3f4f6", "#4b5563"),
}
INK, QUIET = "#111827", "#7d8590"  # text in boxes; text and arrows on the page
WIDTH, LEFT, RIGHT, SPLIT, TOP, ROW, BOX = 980, 20, 960, 500, 56, 62, 34


def text(x, y, words, size=13, colour=INK, anchor="middle", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')  # fmt: skip


def box(x, y, width, height, kind):
    fill, stroke = COLOURS[kind]
    return (f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" '
            f'fill="{fill}" stroke="{stroke}"/>')  # fmt: skip


def arrow(x, from_y, to_y):
    return (f'<line x1="{x:.0f}" y1="{from_y:.0f}" x2="{x:.0f}" y2="{to_y:.0f}" stroke="{QUIET}" '
            f'stroke-width="1.5" marker-end="url(#tip)"/>')  # fmt: skip


def read(path):
    """The layers, from the top to the bottom: lists of names."""
    with open(path, encoding="utf-8") as file:
        found = [line.split()[1:] for line in file if line.startswith("layer ")]
    return [names + ["python"] if "cli" in names else names for names in reversed(found)]


def caption(names):
    return next((CAPTIONS[name] for name in names if name in CAPTIONS), "")


def layers(found):
    out = [text(LEFT, 24, "Layers: each uses only what is below it", 15, QUIET, "start", "bold")]
    width = SPLIT - 50 - LEFT
    for row, names in enumerate(found):
        y, gap, x = TOP + row * ROW, 8, LEFT
        letter = (width - gap * (len(names) - 1)) / sum(len(name) + 3 for name in names)
        out.append(text(LEFT, y - 5, caption(names), 11, QUIET, "start"))
        for name in names:
            each = letter * (len(name) + 3)
            size = 13 if len(names) < 5 else 12
            out += [box(x, y, each, BOX, "layer"), text(x + each / 2, y + 22, name, size, weight="bold")]
            x += each + gap
        if row:
            out.append(arrow(LEFT + width / 2, y - ROW + BOX + 2, y - 3))
    return out


def way():
    out = [text(SPLIT, 24, "The way of one problem", 15, QUIET, "start", "bold")]
    width = RIGHT - SPLIT
    for row, (name, says, kind) in enumerate(WAY):
        y = TOP + row * ROW
        out.append(box(SPLIT, y - 6, width, BOX + 12, kind))
        out += [text(SPLIT + width / 2, y + 12, name, weight="bold"), text(SPLIT + width / 2, y + 30, says, 12)]
        if row:
            out.append(arrow(SPLIT + width / 2, y - ROW + BOX + 8, y - 9))
    y, gap = TOP + len(WAY) * ROW + 16, 12
    each = (width - gap * (len(ENDS) - 1)) / len(ENDS)
    for column, (name, *lines) in enumerate(ENDS):
        x = SPLIT + column * (each + gap)
        out += [arrow(x + each / 2, y - ROW + BOX - 8, y - 9), box(x, y - 6, each, 66, "end")]
        out.append(text(x + each / 2, y + 13, name, weight="bold"))
        out += [text(x + each / 2, y + 31 + 16 * i, line, 12) for i, line in enumerate(lines)]
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: architecture.py LAYERS.txt FILE.svg")
    found = read(sys.argv[1])
    height = TOP + max(len(found), len(WAY) + 2) * ROW
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">']
    out.append("<title>The layers of weft, and the way of one problem through them</title>")
    out.append('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
               'markerWidth="6" markerHeight="6" orient="auto">'
               f'<path d="M0 0L8 4L0 8z" fill="{QUIET}"/></marker></defs>')  # fmt: skip
    out += layers(found) + way() + ["</svg>"]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
