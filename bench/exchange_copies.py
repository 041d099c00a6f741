#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Microseconds of the copies around an exchange of heads, as MagiAttention's benchmark makes them with torch for Ulysses.

    bench/exchange_copies.py    (a CUDA GPU and torch; a line for 8, 16, 32 and 64 ranks of 8K rows, 64 heads over 8, bf16)

Before it, Q, K and V are transposed from (rows, heads) to (heads, rows); after it, to (rows, heads) of all rows, then gathered
by index. O is scattered by index into zeros, sent, and transposed. Where a rank has one head, a transpose is a view. The L2 is
overwritten before each; medians of 20. weft reproduce context-parallel takes the sums.
"""
import statistics

import torch

ROWS, HEADS, KV_HEADS, DIM, TURNS = 8192, 64, 8, 128, 20


def tensor(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def microseconds(copy):
    cold = torch.empty(1 << 26, dtype=torch.int32, device="cuda")
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(TURNS + 3)]
    for begin, end in pairs:
        cold.zero_()
        begin.record()
        copy()
        end.record()
    torch.cuda.synchronize()
    return 1e3 * statistics.median(begin.elapsed_time(end) for begin, end in pairs[3:])


def copies(ranks):
    kv_heads, rows = max(KV_HEADS, ranks), ROWS * ranks
    index = torch.arange(rows, device="cuda")
    every = lambda x: index[:, None, None].expand_as(x)
    out = {}
    for name, heads in (("q", HEADS), ("kv", kv_heads)):
        times = 1 if name == "q" else 2
        sent, come, mine = tensor(ROWS, heads, DIM), tensor(ranks, heads // ranks, ROWS, DIM), tensor(rows, heads // ranks, DIM)
        out[name + "_before"] = times * microseconds(lambda: sent.transpose(0, 1).contiguous())
        out[name + "_after"] = times * microseconds(lambda: come.transpose(1, 2).contiguous())
        out[name + "_gather"] = times * microseconds(lambda: torch.gather(mine, 0, every(mine)))
    heads = HEADS // ranks
    mine, lse, come = tensor(rows, heads, DIM), torch.randn(heads, rows, device="cuda"), tensor(ranks, ROWS, heads, DIM)
    out["o_scatter"] = microseconds(lambda: torch.zeros_like(mine).scatter_(0, every(mine), mine))
    out["lse_scatter"] = microseconds(lambda: torch.full_like(lse, -torch.inf).scatter_(1, index.expand_as(lse), lse))
    out["o_after"] = microseconds(lambda: come.transpose(0, 1).contiguous())
    return out


def main():
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}: microseconds")
    for ranks in (8, 16, 32, 64):
        out = copies(ranks)
        print(f"{ranks} ranks: {sum(out.values()):.0f};", ", ".join(f"{name} {value:.0f}" for name, value in out.items()))


if __name__ == "__main__":
    main()
