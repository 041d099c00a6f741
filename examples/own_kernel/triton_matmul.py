# SPDX-License-Identifier: Apache-2.0
"""The matmul of Triton's tutorial, traced from its index arithmetic, beside weft's own plan of the same kernel, bf16.

The kernel is launched as a grid of programs. Each maps its id to a tile (GROUP_SIZE_M rows of tiles at a time), and in step k loads
the blocks that begin at a_ptr + pid_m * BLOCK_M * stride_am + k * BLOCK_K * stride_ak and at the like of b_ptr. A block is named by
that address: numbers of blocks need not be dense.
"""

import numpy as np
from common import columns, run, step_seconds

import weft

BLOCK_M, BLOCK_N, BLOCK_K, BYTES = 128, 128, 64, 2
PROFILE = "generic"  # nothing is known of the compiled kernel


def programs(m, n, group_m):
    """(programs) pid_m and pid_n of every program id."""
    pid, tiles_m, tiles_n = np.arange(-(-m // BLOCK_M) * -(-n // BLOCK_N)), -(-m // BLOCK_M), -(-n // BLOCK_N)
    group, within = np.divmod(pid, group_m * tiles_n)
    rows = np.minimum(tiles_m - group * group_m, group_m)
    return group * group_m + within % rows, within // rows


def trace(machine, m, n, k, group_m):
    pid_m, pid_n = (column[:, None] for column in programs(m, n, group_m))
    tiles_n, step = -(-n // BLOCK_N), np.arange(k // BLOCK_K)
    stride_am, stride_ak, stride_bk, stride_bn = k, 1, 1, k  # A by rows, B by columns
    a = (pid_m * BLOCK_M * stride_am + step * BLOCK_K * stride_ak) * BYTES
    b = (pid_n * BLOCK_N * stride_bn + step * BLOCK_K * stride_bk) * BYTES
    c = (pid_m * BLOCK_M * n + pid_n * BLOCK_N) * BYTES
    position, tile = np.arange(pid_m.size)[:, None], pid_m * tiles_n + pid_n
    parts = [
        (position, tile, step, "A", a, BLOCK_M * BLOCK_K * BYTES, "read"),
        (position, tile, step, "B", b, BLOCK_K * BLOCK_N * BYTES, "read"),
        (position, tile, step.size - 1, "C", c, BLOCK_M * BLOCK_N * BYTES, "write"),
    ]
    return weft.Trace(**columns(*parts), time=step_seconds(machine, 2 * BLOCK_M * BLOCK_N * BLOCK_K),
                      grid=(-(-m // BLOCK_M), tiles_n), dispatch="grid", flops=2.0 * m * n * k)  # fmt: skip


def size(small):
    return (1024, 1024, 512) if small else (8192, 8192, 8192)


def make(machine, small):
    return {f"GROUP_SIZE_M = {group}": trace(machine, *size(small), group) for group in (1, 8, 16)}


def plan(machine, small, group):
    """The same kernel as one of weft's own plans."""
    m, n, k = size(small)
    schedule = weft.Schedule((BLOCK_M, BLOCK_N, BLOCK_K), "group", "forward", "grid", group=group, axis="m")
    return weft.simulate(weft.Gemm(m, n, k, dtype="bf16"), schedule, machine, profile=PROFILE)


if __name__ == "__main__":
    import sys

    results = run("Triton's matmul", make, "h100")
    for group in (1, 8, 16):
        own = plan("h100", "--small" in sys.argv, group)
        print(f"{f'weft plan, group {group}':24} {'':10} {own.total.hit_rate:7.1%} {own.total.dram_read_bytes / 1e9:9.3f}"
              f" {'':9} {own.seconds * 1e3:8.3f} {own.tflops:8.1f}")  # fmt: skip
