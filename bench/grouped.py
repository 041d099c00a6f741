#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products of groups of unlike numbers of rows on a GPU, as a mixture of experts has them.

    grouped.py --library libweft.so [--csv FILE] [--only long,short,decode,masked] [--seconds 0.5]

bf16, weights (groups, n, k). Rows are dealt out to experts at random, unevenly. A captured graph has several calls over other matrices, more
than the L2 holds; graphs are replayed in turns, in random order, and medians count. Peers: a loop of torch.matmul over the groups, which knows
the rows on the host, and torch._grouped_mm where torch has it. What is compared is checked first."""
import argparse, csv, json, random, sys

import timing
from decode import replayed

# (experts, rows in the mean, n, k)
LONG = [(8, 2048, 14336, 4096), (8, 2048, 4096, 14336), (16, 1024, 6144, 4096), (64, 512, 4096, 2048), (128, 256, 1536, 4096)]
SHORT = [(64, 128, 2816, 2048), (128, 64, 1536, 4096), (256, 64, 4096, 7168), (256, 32, 7168, 2048)]
DECODE = [(8, 16, 14336, 4096), (64, 4, 2816, 2048), (128, 8, 1536, 4096), (256, 2, 4096, 7168)]


class Bench:
    def __init__(self, weft, seconds, rng):
        import torch

        self.weft, self.torch, self.seconds, self.rng, self.rows = weft, torch, seconds, rng, []

    def split(self, groups, mean):
        """Rows of each group: some have several times as many as others, and a few none."""
        weights = [self.rng.expovariate(1) for _ in range(groups)]
        counts = [round(groups * mean * w / sum(weights)) for w in weights]
        counts[0] += groups * mean - sum(counts)
        return [max(count, 0) for count in counts]

    def make(self, counts, n, k, masked):
        torch, starts = self.torch, [sum(counts[:i]) for i in range(len(counts) + 1)]
        shape = (len(counts), max(counts), k) if masked else (starts[-1], k)
        a, b = (torch.randn(x, device="cuda").bfloat16() for x in (shape, (len(counts), n, k)))
        bounds = torch.tensor(counts if masked else starts, dtype=torch.int32, device="cuda")
        out = torch.zeros(*shape[:-1], n, dtype=torch.bfloat16, device="cuda")
        here = [(g, slice(0, counts[g])) if masked else slice(starts[g], starts[g + 1]) for g in range(len(counts))]
        return a, b.transpose(1, 2), bounds, out, here

    def call(self, a, b, bounds, out, masked):
        return self.weft.grouped_matmul(a, b, **{"counts" if masked else "starts": bounds}, out=out)

    def peers(self, sets, masked):
        torch = self.torch

        def loop(i):
            a, b, _, out, here = sets[i]
            parts = [(a[rows], b[g], out[rows]) for g, rows in enumerate(here) if a[rows].shape[0]]
            return lambda: [torch.matmul(x, w, out=y) for x, w, y in parts]

        found = {"loop": loop}
        if hasattr(torch, "_grouped_mm") and not masked:

            def grouped_mm(i):
                a, b, bounds, _, _ = sets[i]
                return lambda: torch._grouped_mm(a, b, offs=bounds[1:])

            found["_grouped_mm"] = grouped_mm
        return found

    def row(self, kind, groups, mean, n, k, masked=False):
        counts = self.split(groups, mean)
        total, used = sum(counts), sum(count > 0 for count in counts)
        flops, read = 2 * total * n * k, 2 * (total * (k + n) + used * n * k)
        copies = max(1, min(20, int(3e8 / read)))
        sets = [self.make(counts, n, k, masked) for _ in range(copies)]
        a, b, bounds, out, here = sets[0]
        self.call(a, b, bounds, out, masked)
        for g, rows in enumerate(here):
            if a[rows].shape[0]:
                want = a[rows].float() @ b[g].float()
                assert timing.largest_difference(out[rows], want) < 0.01, "weft is wrong"
        times = replayed({"weft": lambda i: lambda: self.call(*sets[i][:4], masked), **self.peers(sets, masked)}, copies, self.seconds)
        name = f"{groups} experts, {total} rows, n={n} k={k}{' masked' if masked else ''}"
        self.rows += [(kind, name, library, f"{t:.4g}", f"{flops / t / 1e12:.1f}", f"{read / t / 1e12:.3f}") for library, t in times.items()]
        each = (f"{library} {1e6 * t:.1f} us {flops / t / 1e12:.0f} TFLOP/s {read / t / 1e12:.2f} TB/s" for library, t in times.items())
        print(f"{name:48}", *each, sep="  ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="libweft.so; without it, the installed package's")
    parser.add_argument("--draw", type=int, default=1, help="seed of the rows that are drawn")
    parser.add_argument("--only", default="long,short,decode,masked")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--csv")
    args = parser.parse_args()
    bench, only = Bench(timing.import_weft(args.library), args.seconds, random.Random(args.draw)), args.only.split(",")
    for kind, rows in (("long", LONG), ("short", SHORT), ("decode", DECODE)):
        for problem in rows if kind in only else ():
            bench.row(kind, *problem)
    for problem in (*SHORT[:2], *DECODE[:2]) if "masked" in only else ():
        bench.row("masked", *problem, masked=True)
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            file.write("# " + json.dumps({"command": " ".join(["bench/grouped.py", *sys.argv[1:]]), "device": bench.torch.cuda.get_device_name()}) + "\n")
            csv.writer(file).writerows([("kind", "problem", "library", "median_seconds", "tflop_per_second", "tb_per_second"), *bench.rows])


if __name__ == "__main__":
    main()
