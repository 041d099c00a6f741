#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed batches of unlike lengths beside what their tiles, dealt to workers, allow.

usage: dealt.py --draw SEED [--rows N] [--seconds S] [--library LIBWEFT] [--csv FILE]

Each drawn batch is causal, bf16 and timed in a graph, its lengths in device memory (`weft`) and with the plan (`known`). What its tiles
allow: every tile has a cost, the longest go first, each to the worker that is free first (LPT), and the launch comes before. `mean` is what
all costs would take if tiles could be divided at will; LPT is at least that and at least the longest tile.

A tile's cost is linear in what it has: 1, its steps, those of its warpgroups in the mean, and of these the ones in which rows begin to see
keys. The factors of a variant are fitted to launches of equal lengths: of each length, the time of twice the heads less that of once, so
that neither the launch nor its end is in it, is what so many tiles cost, shared out to all workers. How far the fit is off is said, and so
is how far off it is on a batch of unlike lengths with many tiles a worker, which it was not fitted to. The launch is that of one tile
less its cost. All launches are timed in the same turns.
"""
import argparse, csv, heapq, itertools, json, math, random, statistics
from bisect import bisect_right

import torch
from masked import drawn_packed, log_uniform, of_weft, of_weft_known
from peers import MOST_DIFFERENCE, environment
from timing import geometric_mean, import_weft, interleave_graphs, largest_difference

ROWS_OF_A_WARPGROUP = 64
LENGTHS = (24, 60, 130, 200, 330, 520, 900, 1700, 3300, 8000)  # of the launches that costs are fitted to
TOKENS, HEADS = 24576, 8  # of each of those, about, and once; 8 tiles a worker, and 16
MOST_ROWS = 4_000_000  # of a drawn batch: queries times heads


def features(lengths, tile):
    """Of each tile of a head: what its cost is linear in. Rows are cut whatever sequences they are of, and keys lie as queries do."""
    starts, (rows, keys) = list(itertools.accumulate(lengths, initial=0)), tile
    start_of = lambda row: starts[bisect_right(starts, row) - 1]
    found = []
    for begin in range(0, starts[-1], rows):
        end = min(begin + rows, starts[-1])
        own = begins = 0
        for at in range(begin, end, ROWS_OF_A_WARPGROUP):
            last = min(at + ROWS_OF_A_WARPGROUP, end) - 1
            first_step, end_step = start_of(at) // keys, last // keys + 1
            own += end_step - first_step
            begins += min(-(-start_of(last) // keys), end_step) - first_step
        groups = rows / ROWS_OF_A_WARPGROUP
        found.append((1, end_step - start_of(begin) // keys, own / groups, begins / groups))
    return found


def deal(costs, workers):
    """When the last worker is done: the longest first, each to the worker that is free first."""
    free = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(free, free[0] + cost)
    return max(free)


class Launch:
    """A packed batch of so many heads by a variant, its lengths in device memory."""

    def __init__(self, weft, tensors, lengths, heads, kv_heads, tile):
        self.lengths, self.heads, self.tile, total = lengths, heads, tile, sum(lengths)
        q, k, v = tensors
        starts = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=q.device)
        arrays = q[:total, :heads], k[:total, :kv_heads], v[:total, :kv_heads]
        self.call = lambda: weft.attention(*arrays, causal=True, q_starts=starts, schedule={"tile": tile})

    def __call__(self):
        return self.call()


class Variant:
    """What the tiles of a variant cost."""

    def __init__(self, weft, head_dim, tile, device):
        self.name, self.tile = f"D={head_dim} {tile[0]}x{tile[1]}", tile
        heads = (2 * HEADS, HEADS, HEADS)
        tensors = [torch.randn(TOKENS + max(LENGTHS), h, head_dim, device=device).to(torch.bfloat16) for h in heads]
        unlike = log_uniform(random.Random(1), 20, 4000, 30)
        equal = [[length] * round(TOKENS / length) for length in LENGTHS]
        make = lambda lengths, heads: Launch(weft, tensors, lengths, heads, max(heads // 2, 1), tile)
        self.batches, self.one = [*equal, unlike], [tile[0] // 2] * 2
        self.launches = [make(self.one, 1), *(make(lengths, heads) for lengths in self.batches for heads in (HEADS, 2 * HEADS))]

    def fit(self, times, workers):
        """times: of `launches`. Least squares of relative errors, no factor below 0."""
        sums = [[sum(column) for column in zip(*features(lengths, self.tile))] for lengths in self.batches]
        costs = [(twice - once) * workers / HEADS for once, twice in zip(times[1::2], times[2::2])]
        a = torch.tensor([[x / cost for x in row] for row, cost in zip(sums, costs)], dtype=torch.float64)
        used, fitted = list(range(a.shape[1])), len(LENGTHS)
        while True:
            found = torch.linalg.lstsq(a[:fitted, used], torch.ones(fitted, 1, dtype=torch.float64)).solution[:, 0]
            if found.min() >= 0:
                break
            del used[int(found.argmin())]
        self.factors = [float(found[used.index(i)]) if i in used else 0.0 for i in range(a.shape[1])]
        off = [float(x) - 1 for x in a @ torch.tensor(self.factors, dtype=torch.float64)]
        self.off, self.off_unlike = off[:fitted], off[fitted]
        self.launch = max(times[0] - sum(self.costs(self.one)), 0.0)

    def costs(self, lengths):
        return [sum(x * factor for x, factor in zip(tile, self.factors)) for tile in features(lengths, self.tile)]

    def __str__(self):
        tile, step, own, begins = (1e9 * factor for factor in self.factors)
        rms = math.sqrt(statistics.mean(x * x for x in self.off))
        return (f"{self.name:14} ns: tile {tile:.0f}, step {step:.0f} + {own:.0f} by warpgroups, {begins:.0f} where rows begin; "
                f"launch {1e9 * self.launch:.0f}; off by {100 * rms:.1f} % (rms), {100 * max(map(abs, self.off)):.1f} % (most); "
                f"unlike lengths {100 * self.off_unlike:+.1f} %")  # fmt: skip


def drawn(seed, count):
    draw, rows = random.Random(seed), []
    while len(rows) < count:
        problem = drawn_packed(draw)
        if sum(problem.lengths) * problem.heads <= MOST_ROWS:
            rows.append(problem)
    return rows


def tile_of_last_call(weft):
    """What the plan of the latest new form of arrays took."""
    return tuple(next(reversed(weft.compute._ready.values())).plan.schedule.tile)


def checked(weft, problem, make):
    """The call, when it gave the right result, and its tile."""
    call = make(weft, problem)
    expected, part = problem.reference()
    difference = largest_difference(part(call()), expected)
    if difference > MOST_DIFFERENCE[problem.dtype]:
        raise SystemExit(f"dealt.py: {problem.name} differs by {difference:.1e}")
    return call, tile_of_last_call(weft)


def measure(weft, problems, device, workers, seconds):
    """The variants that were taken, and a row for each problem."""
    calls, tiles, variants = [], [], {}
    for problem in problems:
        problem.device = device
        problem.fill()
        for make in (of_weft, of_weft_known):
            call, tile = checked(weft, problem, make)
            calls.append(call)
            tiles.append(tile)
            variants.setdefault((problem.head_dim, tile), None)
    for key in variants:
        variants[key] = Variant(weft, *key, device)
    launches = [launch for variant in variants.values() for launch in variant.launches]
    times = list(map(statistics.median, interleave_graphs([*calls, *launches], seconds)))
    of_rows, of_launches = times[: len(calls)], iter(times[len(calls) :])
    for variant in variants.values():
        variant.fit(list(itertools.islice(of_launches, len(variant.launches))), workers)
    rows = []
    for i, problem in enumerate(problems):
        bounds = []
        for tile in tiles[2 * i : 2 * i + 2]:
            variant = variants[problem.head_dim, tile]
            costs = variant.costs(problem.lengths) * problem.heads
            bounds.append((variant.launch + deal(costs, workers), variant.launch + max(sum(costs) / workers, max(costs)), len(costs)))
        (allowed, mean, count), (known_allowed, _, _) = bounds
        weft_time, known_time = of_rows[2 * i : 2 * i + 2]
        rows.append({"problem": problem.name, "tile": "x".join(map(str, tiles[2 * i])), "tiles": count, "weft_seconds": weft_time,
                     "allowed_seconds": allowed, "mean_seconds": mean, "allowed_over_weft": allowed / weft_time,
                     "known_tile": "x".join(map(str, tiles[2 * i + 1])), "known_seconds": known_time,
                     "known_allowed_over_known": known_allowed / known_time})  # fmt: skip
    return variants.values(), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, metavar="SEED", required=True)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=30, help="for all turns")
    parser.add_argument("--library", help="a libweft.so, with the package of this tree; otherwise the installed package")
    parser.add_argument("--csv")
    options = parser.parse_args()
    options.device = "cuda"
    weft = import_weft(options.library)
    torch.manual_seed(1)
    said, workers = environment(weft, options), torch.cuda.get_device_properties().multi_processor_count
    with torch.no_grad():
        variants, rows = measure(weft, drawn(options.draw, options.rows), options.device, workers, options.seconds)
    for variant in variants:
        print(variant)
    print(f"\n{'':44}{'tile':>9}{'tiles':>7}{'weft':>9}{'allowed':>9}{'mean':>9} us  of it{'known':>9} us  of it")
    for row in rows:
        cells = "".join(f"{1e6 * row[name]:9.1f}" for name in ("weft_seconds", "allowed_seconds", "mean_seconds"))
        print(f"{row['problem']:44}{row['tile']:>9}{row['tiles']:7}{cells}   {row['allowed_over_weft']:6.3f}"
              f"{1e6 * row['known_seconds']:9.1f}   {row['known_allowed_over_known']:6.3f}")  # fmt: skip
    for name, of in (("weft", "allowed_over_weft"), ("known", "known_allowed_over_known")):
        print(f"{name}: {geometric_mean(row[of] for row in rows):.3f} of what is allowed, least {min(row[of] for row in rows):.3f}")
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            file.write(f"# {json.dumps({**said, 'variants': list(map(str, variants))})}\n")
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows({name: f"{x:.6g}" if isinstance(x, float) else x for name, x in row.items()} for row in rows)


if __name__ == "__main__":
    main()
