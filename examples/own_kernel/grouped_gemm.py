# SPDX-License-Identifier: Apache-2.0
"""The grouped GEMM of a mixture of experts: each expert multiplies the tokens that were routed to it by its own weights, bf16.

Tokens are sorted by expert. A tile is 128 tokens times 128 columns of the expert's weights; a step takes 64 of the hidden dimension.
"""

import numpy as np
from common import columns, run, step_seconds

import weft

TILE, DEPTH, BYTES = 128, 64, 2


def route(tokens, experts, chosen):
    """How many tokens each expert gets: some are popular."""
    rng = np.random.default_rng(0)
    weights = rng.permutation(1.0 / np.arange(1, experts + 1) ** 0.5)
    return rng.multinomial(tokens * chosen, weights / weights.sum())


def trace(machine, counts, hidden, width, order):
    cols, steps = width // TILE, hidden // DEPTH
    rows = -(-counts // TILE)
    first = np.cumsum(rows) - rows  # the first row of tiles of an expert
    expert = np.repeat(np.arange(counts.size), rows * cols)
    within = np.concatenate([np.arange(n * cols) for n in rows])
    row, col = np.divmod(within, cols)
    keys = {  # what is walked innermost stands first
        "tokens": (row, col, expert),
        "weights": (col, row, expert),
        "experts": (expert, col, row),
    }[order]
    order = np.lexsort(keys)
    expert, row, col = (column[order, None] for column in (expert, row, col))
    position, step = np.arange(order.size)[:, None], np.arange(steps)
    tile = (first[expert] + row) * cols + col
    parts = [
        (position, tile, step, "tokens", (first[expert] + row) * steps + step, TILE * DEPTH * BYTES, "read"),
        (position, tile, step, "weights", (expert * cols + col) * steps + step, DEPTH * TILE * BYTES, "read"),
        (position, tile, steps - 1, "out", tile, TILE * TILE * BYTES, "write"),
    ]
    flops = 2 * TILE * TILE * DEPTH
    return weft.Trace(**columns(*parts), time=step_seconds(machine, flops), grid=(int(rows.sum()), cols),
                      flops=float(2 * counts.sum() * hidden * width))  # fmt: skip


def make(machine, small):
    counts = route(512, 4, 2) if small else route(8192, 64, 4)
    hidden, width = (256, 256) if small else (2048, 2816)
    return {
        "experts innermost": trace(machine, counts, hidden, width, "experts"),
        "weights innermost": trace(machine, counts, hidden, width, "weights"),
        "tokens innermost": trace(machine, counts, hidden, width, "tokens"),
    }


if __name__ == "__main__":
    results = run("grouped GEMM, mixture of experts", make)
