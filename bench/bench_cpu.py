#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weft's CPU backend beside PyTorch and OpenBLAS (through NumPy), interleaved in one process.

usage: bench_cpu.py BUILD [--quick] [--part NAME ...] [--only TEXT ...] [--seconds S] [--csv FILE]

BUILD is a build folder with libweft.so and bench/bench_peak. Every row is the median of repetitions A B A B ..., on random
normal inputs, after a check that the results agree. `share` is the part of the processor's peak, as bench_peak measures it by
the multiplying instruction alone (for decode: of the memory bandwidth, by a plain loop that reads). Exits 1 where results
disagree; the targets are printed, not judged.
"""
import argparse, ctypes, json, math, os, subprocess, sys

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # its threads spin 2^20 ticks after a call, not 2^26: see interleave()

import numpy
import torch

from timing import geometric_mean, import_weft, interleave, largest_difference, medians

PARTS = ["forward", "backward", "gemm", "decode"]
DTYPES = {"fp32": (0, torch.float32), "fp16": (1, torch.float16), "bf16": (2, torch.bfloat16)}


def pointers(*tensors):
    return [None if t is None else t.data_ptr() for t in tensors]


class Weft:
    """The C functions themselves, so that no time of Python's is in the small rows."""

    def __init__(self, path):
        self.c = import_weft(path)._c

    def bind(self, name, problem, data):
        """A function without arguments, with as little of Python in it as can be."""
        function, arguments = getattr(self.c.library, name), (ctypes.byref(problem), ctypes.byref(data))
        self.c.call(function, *arguments)  # says what is wrong, if something is

        def call():
            if function(*arguments, None):
                sys.exit(f"{name} failed")

        return call

    def make(self, structure, operation, *fields):
        """A problem of an operation, or its data."""
        return structure(*self.c.head(structure, operation), *fields)


class Table:
    def __init__(self, measure, seconds, only):
        self.measure, self.peaks, self.seconds, self.only, self.rows, self.failed = measure, measure(), seconds, only, [], False
        print("{threads} threads; peaks: fp32 {fp32_gflops} GFLOP/s, bf16 {bf16_gflops} GFLOP/s, reading {read_gbs} GB/s".format(**self.peaks))
        print(f"{'':58}{'weft':>9} {'peer':>9}  {'ratio':>6}  {'share':>6}")

    def wants(self, name):
        return not self.only or any(text in name for text in self.only)

    def add(self, group, name, calls, amount, unit, peak, difference, most):
        """amount over time gives the rate; calls are weft's and the peer's, or weft's alone."""
        times = medians(interleave(calls, self.seconds))
        rates = [amount / t / 1e9 for t in times] + [math.nan]
        ratio, share = rates[0] / rates[1], rates[0] / peak if peak else math.nan
        wrong = not difference <= most
        self.failed |= wrong
        self.rows.append((group, name, rates[0], rates[1], ratio, share))
        print(f"{name:58}{rates[0]:9.1f} {rates[1]:9.1f}  {ratio:6.2f}  {share:6.1%} {unit}"
              + (f"  DIFFERS by {difference:.1e}" if wrong else ""), flush=True)

    def summary(self, group, target):
        ratios = [row[4] for row in self.rows if row[0] == group]
        if not ratios:
            return
        mean = geometric_mean(ratios)
        print(f"  {group}: geometric mean {mean:.2f}, least {min(ratios):.2f} (wanted: {target})\n", flush=True)


def attention_rows(weft, table, sizes, backward):
    group = "attention backward" if backward else "attention forward"
    for name in ("fp32", "bf16"):
        code, dtype = DTYPES[name]
        for dim in (64, 128):
            for seq, heads in sizes:
                for causal in (False, True):
                    text = f"{group} {name} D={dim} S={seq} H={heads}{' causal' if causal else ''}"
                    if not table.wants(text):
                        continue
                    q, k, v, g = [torch.randn(1, heads, seq, dim).to(dtype) for _ in range(4)]
                    o, lse = torch.empty_like(q), torch.empty(1, heads, seq)
                    sizes_and_types = 1, heads, heads, seq, seq, dim, code, int(causal), 0, 0.0, 1
                    problem = weft.make(weft.c.Attention, weft.c.ATTENTION, *sizes_and_types)
                    data = weft.make(weft.c.AttentionData, weft.c.ATTENTION, *pointers(q, k, v, o, lse))
                    forward = weft.bind("weft_attention_forward", problem, data)
                    flops = 4.0 * heads * seq * seq * dim / (2 if causal else 1)
                    sdpa = torch.nn.functional.scaled_dot_product_attention
                    most = 1e-5 if name == "fp32" else 3e-2
                    if not backward:
                        difference = largest_difference(o, sdpa(q, k, v, is_causal=causal))
                        calls = [forward, lambda: sdpa(q, k, v, is_causal=causal)]
                    else:
                        flops *= 2.5
                        grads = [torch.empty_like(t) for t in (q, k, v)]
                        leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
                        theirs = sdpa(*leaves, is_causal=causal)
                        problem = weft.make(weft.c.Attention, weft.c.ATTENTION_BACKWARD, *sizes_and_types)
                        gradients = weft.make(weft.c.AttentionGradients, weft.c.ATTENTION_BACKWARD, *pointers(q, k, v, g, *grads, o, lse))
                        ours = weft.bind("weft_attention_backward", problem, gradients)
                        peer = lambda: torch.autograd.grad(theirs, leaves, g, retain_graph=True)
                        difference = max(largest_difference(x, y) for x, y in zip(grads, peer()))
                        calls = [ours, peer]
                    table.add(group, text, calls, flops, "GFLOP/s", table.peaks[name + "_gflops"], difference, most)
    table.summary(group, "1.2" if backward else "1.5, least above 1")


def gemm_rows(weft, table, sizes):
    for name, peer in (("fp32", "OpenBLAS"), ("bf16", "PyTorch"), ("fp32", "PyTorch")):
        code, dtype = DTYPES[name]
        group = f"GEMM {name} beside {peer}"
        for n in sizes:
            if not table.wants(f"{group} {n}^3"):
                continue
            a, b = [torch.randn(n, n).to(dtype) for _ in range(2)]
            c = torch.empty(n, n, dtype=dtype)
            problem = weft.make(weft.c.Gemm, weft.c.GEMM, n, n, n, code, code, 0, 0, 0, 0, 0, 0, 1.0, 0.0, 1)
            data = weft.make(weft.c.GemmData, weft.c.GEMM, *pointers(a, b, c))
            ours = weft.bind("weft_gemm_multiply", problem, data)
            x, y = (a.numpy(), b.numpy()) if peer == "OpenBLAS" else (a, b)
            theirs = (lambda: numpy.matmul(x, y)) if peer == "OpenBLAS" else (lambda: torch.matmul(x, y))
            difference = largest_difference(c, torch.matmul(a, b))
            table.add(group, f"{group} {n}^3", [ours, theirs], 2.0 * n**3, "GFLOP/s", table.peaks[name + "_gflops"], difference,
                      1e-5 if name == "fp32" else 2e-2)
        table.summary(group, "1.0" if name == "bf16" else "0.95" if peer == "OpenBLAS" else "-")


def decode_rows(weft, table, keys):
    group = "decode"
    table.peaks["read_gbs"] = table.measure()["read_gbs"]  # anew: other programs use the memory, too
    print(f"reading {table.peaks['read_gbs']} GB/s")
    for name, dim, kv_heads, heads in (("bf16", 128, 8, 8), ("bf16", 64, 8, 8), ("fp32", 128, 8, 8), ("bf16", 128, 8, 32)):
        text = f"decode {name} D={dim} S={keys} H={heads}/{kv_heads}"
        if not table.wants(text):
            continue
        code, dtype = DTYPES[name]
        q = torch.randn(1, heads, 1, dim).to(dtype)
        k, v = [torch.randn(1, kv_heads, keys, dim).to(dtype) for _ in range(2)]
        o = torch.empty_like(q)
        problem = weft.make(weft.c.Attention, weft.c.ATTENTION, 1, heads, kv_heads, 1, keys, dim, code, 0, 0, 0.0, 1)
        data = weft.make(weft.c.AttentionData, weft.c.ATTENTION, *pointers(q, k, v, o, None))
        ours = weft.bind("weft_attention_forward", problem, data)
        sdpa = torch.nn.functional.scaled_dot_product_attention
        theirs = lambda: sdpa(q, k, v, enable_gqa=heads != kv_heads)
        difference = largest_difference(o, theirs())
        table.add(group, text, [ours, theirs],
                  2.0 * k.numel() * k.element_size(), "GB/s", table.peaks["read_gbs"], difference, 1e-5 if name == "fp32" else 3e-2)
    table.summary(group, "share of bandwidth 80 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help="rows to measure: all of them")
    parser.add_argument("--only", nargs="+", help="rows whose name has one of these in it")
    parser.add_argument("--seconds", type=float, help="for each row: 1.5, or 0.5 when quick")
    parser.add_argument("--csv")
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, NumPy {numpy.__version__}")
    weft = Weft(os.path.join(options.build, "libweft.so"))
    measure = lambda: json.loads(subprocess.check_output([os.path.join(options.build, "bench", "bench_peak")]))
    table = Table(measure, options.seconds or (0.5 if options.quick else 1.5), options.only)
    if "forward" in options.part:
        attention_rows(weft, table, [(512, 8), (2048, 8)] + ([] if options.quick else [(8192, 2)]), False)
    if "backward" in options.part:
        attention_rows(weft, table, [(512, 4)] + ([] if options.quick else [(1024, 4), (2048, 2)]), True)
    if "gemm" in options.part:
        gemm_rows(weft, table, (512, 1024, 2048) if options.quick else (512, 1024, 2048, 3072, 4096))
    if "decode" in options.part:
        decode_rows(weft, table, 32768)
    if options.csv:
        with open(options.csv, "w") as file:
            file.write(f"# bench_cpu.py on {os.uname().machine}: {json.dumps(table.peaks)}, PyTorch {torch.__version__}, NumPy {numpy.__version__}\n")
            file.write("group,row,weft,peer,ratio,share\n")
            for row in table.rows:
                file.write(",".join([*row[:2], *(f"{x:.4g}" for x in row[2:])]) + "\n")
    sys.exit(1 if table.failed else 0)


if __name__ == "__main__":
    main()
