#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the README's chart of attention on an H200 from the CSV of bench/peers.py.

    scripts/chart.py docs/results/peers/h200.csv docs/h200.svg
"""

import csv
import re
import sys

PANELS = [(64, False), (64, True), (128, False), (128, True)]
LINES = [("weft", "weft", "#1f6feb"), ("fa3", "FlashAttention-3", "#d97706"), ("cudnn", "cuDNN", "#6b7280")]
WIDTH, HEIGHT, LEFT, TOP, GAP = 200, 150, 46, 52, 26
MOST = 900  # TFLOP/s


def read(path):
    """{(head dim, causal): {library: {length: TFLOP/s}}} of the groups by head dim, queries and keys of one length."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            match = re.fullmatch(r"bf16 D=(\d+) B=(\d+) H=(\d+)/\3 S=(\d+)/\4( causal)?", row["problem"])
            if match and row["group"] == f"D={match[1]}" and int(match[1]) * int(match[3]) == 2048:
                panel = found.setdefault((int(match[1]), bool(match[5])), {})
                panel.setdefault(row["library"], {})[int(match[4])] = float(row["rate"])
    return found


def panel_svg(x, title, lines):
    lengths = sorted({length for line in lines.values() for length in line})
    place = {length: x + (i + 0.5) * WIDTH / len(lengths) for i, length in enumerate(lengths)}

    def y(rate):
        return TOP + HEIGHT * (1 - rate / MOST)

    out = [f'<text x="{x + WIDTH / 2:.0f}" y="{TOP - 10}" text-anchor="middle" font-weight="bold">{title}</text>']
    for rate in range(0, MOST + 1, 300):
        out.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{y(rate):.0f}" y2="{y(rate):.0f}" stroke="#8884"/>')
        if x == LEFT:
            out.append(f'<text x="{x - 6}" y="{y(rate) + 4:.0f}" text-anchor="end">{rate}</text>')
    for length in lengths:
        name = f"{length // 1024}K" if length >= 1024 else str(length)
        out.append(f'<text x="{place[length]:.0f}" y="{TOP + HEIGHT + 15}" text-anchor="middle">{name}</text>')
    for library, _, colour in LINES:
        points = [(place[length], y(rate)) for length, rate in sorted(lines.get(library, {}).items())]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>' for px, py in points]
    return out


def main():
    source, target = sys.argv[1:]
    found = read(source)
    missing = [panel for panel in PANELS if panel not in found]
    if missing:
        sys.exit(f"chart.py: {source} has no rows for head dim {missing[0][0]}, causal {missing[0][1]}")
    width, height = LEFT + len(PANELS) * (WIDTH + GAP), TOP + HEIGHT + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" fill="#57606a">']  # fmt: skip
    out.append("<title>Attention forward on an H200, bf16, TFLOP/s by sequence length</title>")
    for i, (_, name, colour) in enumerate(LINES):
        out.append(f'<rect x="{LEFT + i * 140}" y="8" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + i * 140 + 15}" y="17">{name}</text>')
    for i, (head_dim, causal) in enumerate(PANELS):
        title = f"head dim {head_dim}{', causal' if causal else ''}"
        out += panel_svg(LEFT + i * (WIDTH + GAP), title, found[head_dim, causal])
    out.append(f'<text x="{LEFT}" y="{height - 6}">TFLOP/s by sequence length, bf16, forward; all libraries in one process, in random order</text>')  # fmt: skip
    out.append("</svg>")
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
