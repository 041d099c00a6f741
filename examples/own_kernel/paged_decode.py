# SPDX-License-Identifier: Apache-2.0
"""Decode over a paged KV cache whose sequences share prefixes, bf16.

Every sequence has one query. A block table maps its pages of 64 tokens to pages of the cache; sequences of one group have the same
prefix, and so the same pages. Keys are split across workers: a tile is one kv head, one sequence and 16 pages; a step is a page.
"""

import numpy as np
from common import columns, run

import weft

PAGE, SPLIT, HEAD_DIM, BYTES = 64, 16, 128, 2


def block_table(groups, members, prefix, own):
    """(sequences, pages): pages of the cache, those of a group's prefix shared, in no order."""
    rng = np.random.default_rng(0)
    shared = np.arange(groups * prefix).reshape(groups, 1, prefix).repeat(members, 1)
    private = groups * prefix + np.arange(groups * members * own).reshape(groups, members, own)
    table = np.concatenate([shared, private], 2).reshape(groups * members, prefix + own)
    return rng.permutation(int(table.max()) + 1)[table]


def trace(table, heads, queries, order):
    sequences, pages = table.shape
    splits = pages // SPLIT
    axes = {"sequence": sequences, "head": heads, "split": splits}
    index = dict(zip(order, np.mgrid[tuple(slice(axes[name]) for name in order)].reshape(3, -1)))
    sequence, head, split = (index[name][:, None] for name in ("sequence", "head", "split"))
    position, step = np.arange(sequence.size)[:, None], np.arange(SPLIT)
    tile = (sequence * heads + head) * splits + split
    page = table[sequence, split * SPLIT + step]
    query = sequence * heads + head
    parts = [
        (position, tile, -1, "Q", query, queries * HEAD_DIM * BYTES, "read"),
        (position, tile, step, "KV", page * heads + head, 2 * PAGE * HEAD_DIM * BYTES, "read"),
        (position, tile, SPLIT - 1, "partial", tile, queries * (HEAD_DIM + 2) * 4, "write"),
    ]
    return weft.Trace(**columns(*parts), flops=float(4 * sequences * heads * queries * pages * PAGE * HEAD_DIM))


def make(machine, small):
    groups, members, prefix, own, heads, queries = (2, 3, 32, 16, 2, 4) if small else (8, 16, 128, 32, 8, 8)
    table = block_table(groups, members, prefix, own)
    return {
        "sequence, head, split": trace(table, heads, queries, ("sequence", "head", "split")),
        "head, sequence, split": trace(table, heads, queries, ("head", "sequence", "split")),
        "head, split, sequence": trace(table, heads, queries, ("head", "split", "sequence")),
    }


if __name__ == "__main__":
    results = run("paged decode, shared prefixes", make)
