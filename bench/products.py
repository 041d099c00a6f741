#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random products of weft's CPU backend in fp32 beside OpenBLAS (through NumPy), in one process.

usage: products.py LIBRARY... --draw SEED [--count N] [--threads N] [--seconds S] [--csv FILE]

m is drawn from 64 to 1024, n and k from 64 to 2048, evenly on a scale of logarithms; every third product has sizes that are no
multiples of 16. Several LIBRARYs, copies of libweft.so, are compared with each other, too. Each call of a product comes in
another order every round, about S seconds for each. A time is the least of five medians, each of a fifth of the rounds: others
use the machine, and noise only slows. With one thread it is time of the processor, with more of the clock on the wall.
"""

import argparse
import csv
import math
import os
import random
import statistics
import sys
import time


def drawn(seed, count):
    """(m, n, k) of each product."""
    rng = random.Random(seed)
    between = lambda low, high: math.exp(rng.uniform(math.log(low), math.log(high)))
    for i in range(count):
        sizes = [between(64, most) for most in (1024, 2048, 2048)]
        if i % 3 == 0:  # and one that is a multiple is moved
            yield tuple(int(x) + (int(x) % 16 == 0) for x in sizes)
        else:
            yield tuple(round(x / 16) * 16 for x in sizes)


class Library:
    """The C functions of a library, without the package, which has one library to a process."""

    def __init__(self, path, c):
        import ctypes

        self.c, self.ctypes, self.library = c, ctypes, ctypes.CDLL(os.path.abspath(path))
        self.library.weft_plan_text.restype = ctypes.c_size_t

    def bind(self, a, b, out):
        """A function without arguments that multiplies; its plan is made here."""
        ctypes, plan, message = self.ctypes, self.ctypes.c_void_p(), self.c.Message()
        problem = self.c.problem(self.c.Gemm, self.c.GEMM, m=a.shape[0], n=b.shape[1], k=a.shape[1], alpha=1.0, batch=1)
        if self.library.weft_plan_create(ctypes.byref(plan), ctypes.byref(problem), None, ctypes.byref(message)):
            sys.exit(message.text.decode())
        data = self.c.GemmData(*self.c.head(self.c.GemmData, self.c.GEMM), *(x.ctypes.data for x in (a, b, out)))
        run, where = self.library.weft_plan_run, ctypes.byref(data)
        return lambda: run(plan, where, None)


def best(times):
    """The least median of a fifth of the rounds."""
    size = max(1, len(times) // 5)
    return min(statistics.median(times[i : i + size]) for i in range(0, len(times) - size + 1, size))


def measured(calls, seconds, clock):
    """A time of each call, made in another order every round; a short call is repeated for a millisecond."""
    times, counts = [[] for _ in calls], []
    for call in calls:
        call()
        start = clock()
        call()
        counts.append(max(1, min(20, math.ceil(1e-3 / max(clock() - start, 1e-6)))))
    begin = time.perf_counter()
    while len(times[0]) < 15 or time.perf_counter() - begin < seconds * len(calls):
        for i in random.sample(range(len(calls)), len(calls)):
            calls[i]()
            start = clock()
            for _ in range(counts[i]):
                calls[i]()
            times[i].append((clock() - start) / counts[i])
    return [best(x) for x in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    parser.add_argument("--draw", type=int, required=True, metavar="SEED")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--csv")
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(given.threads)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # its threads spin 2^20 ticks after a call, not 2^26
    import numpy
    from timing import geometric_mean, import_weft

    libraries = [Library(path, import_weft(given.libraries[0])._c) for path in given.libraries]
    clock = time.process_time if given.threads == 1 else time.perf_counter
    rng, rows, failed = numpy.random.default_rng(given.draw), [], False
    names = [f"weft {i + 1}" if len(libraries) > 1 else "weft" for i in range(len(libraries))]
    print(f"{'m':>5} {'n':>5} {'k':>5} " + " ".join(f"{name:>8}" for name in (*names, "OpenBLAS")) + "  ratio, GFLOP/s")
    for m, n, k in drawn(given.draw, given.count):
        a, b = rng.standard_normal((m, k), numpy.float32), rng.standard_normal((k, n), numpy.float32)
        outs = [numpy.empty((m, n), numpy.float32) for _ in range(len(libraries) + 1)]
        calls = [library.bind(a, b, out) for library, out in zip(libraries, outs)]
        rates = [2e-9 * m * n * k / t for t in measured([*calls, lambda: numpy.matmul(a, b, out=outs[-1])], given.seconds, clock)]
        failed |= any(abs(out - outs[-1]).max() > 1e-5 * abs(outs[-1]).max() for out in outs)
        rows.append((m, n, k, *rates))
        print(f"{m:5} {n:5} {k:5} " + " ".join(f"{x:8.1f}" for x in rates) + "".join(f"  {x / rates[-1]:.2f}" for x in rates[:-1]), flush=True)
    for i, name in enumerate(names):
        ratios = [row[3 + i] / row[-1] for row in rows]
        print(f"{name}: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.2f}")
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            csv.writer(file).writerows([("m", "n", "k", *names, "OpenBLAS"), *rows])
    sys.exit("results disagree" if failed else 0)


if __name__ == "__main__":
    main()
