#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A soak on a GPU: random problems of every operation, back to back on several streams.

    bench/soak.py [SECONDS] [--seed N] [--streams N] [--small] [--json FILE]

Some problems live at a time. What a problem gives first is held to fp64, in a sample of its heads, sequences or rows. Every later run
is on a random stream, beside the others, and must give the same bits in every element. A line is printed for each tenth of the time:
elements so far, what one and the same problem takes on an idle GPU, and the memory of the process and of the GPU without torch's.
It ends with 1 at the first wrong element, and says which problem it was. tests/python/gpu.sh says what Python needs."""

import argparse
import dataclasses
import json
import os
import random
import statistics
import sys
import time
from typing import Callable, Tuple

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "python"))
import torch_oracle  # noqa: E402
import weft  # noqa: E402

Tensors = Tuple[torch.Tensor, ...]
TOLERANCE = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6, torch.float32: 2.0**-12}  # of the largest value
LIVE, RUNS = 6, 60  # problems at a time, and runs until one is replaced
BITS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


@dataclasses.dataclass
class Problem:
    name: str
    run: Callable[[], Tensors]
    check: Callable[[Tensors], None]  # holds the first results to fp64
    first: Tensors = ()


class Draw(random.Random):
    """What problems are drawn from. limit: elements of a result, at most; pairs: of queries and keys that are held to fp64."""

    def __init__(self, seed, limit, pairs):
        super().__init__(seed)
        self.limit, self.pairs, self.values = limit, pairs, torch.Generator("cuda").manual_seed(seed)

    def size(self, most, least=1):
        """As likely to be between 10 and 20 as between 1000 and 2000; often a multiple of 64."""
        size = round(least * (most / least) ** self.random())
        return max(size // 64 * 64, least) if self.random() < 0.4 else size

    def normal(self, *shape, dtype=torch.float32):
        return torch.randn(shape, device="cuda", generator=self.values).to(dtype)

    def dtype(self):
        return self.choice([torch.float16, torch.bfloat16])

    def heads(self):
        kv_heads = self.choice([1, 2, 4, 8])
        return kv_heads * self.choice([1, 1, 2, 4, 7, 8]), kv_heads

    def head_dim(self, most=256):
        return min(self.choice([64, 64, 96, 128, 128, 128, 192, 256, 8 * self.randint(1, 32)]), most)

    def lengths(self, count, most):
        return [self.size(most) for _ in range(count)]


def near(found, exact, what, least=1e-2):
    """Whether a result is what it should be, but for rounding. least: of values whose terms may cancel, how large terms are."""
    assert found.shape == exact.shape, f"{what}: {tuple(found.shape)} in place of {tuple(exact.shape)}"
    error, largest = (found.double() - exact).abs().max().item(), exact.abs().max().item()
    assert error <= TOLERANCE[found.dtype] * max(largest, least), f"{what} is off by {error}, where values are up to {largest}"


def scores_and_masks(draw, heads):
    """Options of attention that every form takes."""
    options = {"causal": draw.random() < 0.6}
    extra = draw.choice(["", "", "", "window", "softcap", "sinks", "alibi", "chunk", "prefix"])
    if extra == "window":
        options["window"] = (draw.size(2000), draw.choice([0, -1, 50]))
    if extra in ("chunk", "prefix"):
        options[extra] = draw.size(1000)
    if extra == "softcap":
        options["softcap"] = 20.0
    if extra == "sinks":
        options["sinks"] = draw.normal(heads)
    if extra == "alibi":
        options["alibi"] = draw.normal(heads).abs() * 0.1
    return options, extra


def of_head(options, heads):
    """The options of some heads."""
    return {name: x[heads] if name in ("sinks", "alibi") else x for name, x in options.items()}


def attention(draw, gradients=False):
    heads, kv_heads = draw.heads()
    dtype, dim, seq = draw.dtype(), draw.head_dim(), draw.size(4096)
    most = draw.pairs // (heads // kv_heads if gradients else 1)
    kv_seq = draw.choice([seq, seq, draw.size(8192)])
    while seq * kv_seq > most:
        seq, kv_seq = (seq + 1) // 2, (kv_seq + 1) // 2
    batch = max(1, min(draw.size(32), draw.limit // (2 * seq * heads * dim)))
    options, extra = scores_and_masks(draw, heads)
    leaves = [draw.normal(batch, n, h, dim, dtype=dtype) for n, h in ((seq, heads), (kv_seq, kv_heads), (kv_seq, kv_heads))]
    grad_o = draw.normal(batch, seq, heads, dim, dtype=dtype) if gradients else None

    def run():
        if not gradients:
            return weft.attention(*leaves, return_lse=True, **options)
        x = [t.detach().requires_grad_() for t in leaves]
        return torch.autograd.grad(weft.attention(*x, **options), x, grad_o)

    def check(results):
        for b, h in {(draw.randrange(batch), draw.randrange(kv_heads)) for _ in range(2)}:
            group = heads // kv_heads
            of_h = slice(h * group, h * group + group) if gradients else slice(h * group, h * group + 1)
            x = [t[b : b + 1, :, s].double().requires_grad_(gradients) for t, s in zip(leaves, (of_h, slice(h, h + 1), slice(h, h + 1)))]
            exact = torch_oracle.attention(*x, **of_head(options, of_h))
            if not gradients:
                near(results[0][b : b + 1, :, of_h], exact, "o")
                continue
            wanted = torch.autograd.grad(exact, x, grad_o[b : b + 1, :, of_h].double())
            of_kv = slice(h, h + 1)
            for name, t, right, s, terms in zip(("dq", "dk", "dv"), results, wanted, (of_h, of_kv, of_kv), (kv_seq, seq, seq)):
                # A weight is about 1 / kv_seq; near the end of a window or chunk 1, and what it adds is 0 but for rounding.
                near(t[b : b + 1, :, s], right, name, max(4 * terms**0.5 / kv_seq, 2 * (extra in ("window", "chunk"))))

    kind = "gradients" if gradients else "attention"
    return Problem(f"{kind} {batch}x{heads}/{kv_heads}x{seq}x{kv_seq}x{dim} {dtype} {options['causal']} {extra}", run, check)


def packed(draw):
    heads, kv_heads = draw.heads()
    dtype, dim = draw.dtype(), draw.head_dim()
    lengths = draw.lengths(draw.size(40), 2000)
    while sum(lengths) * heads * dim > draw.limit:
        lengths.pop()
    lengths = lengths or [draw.size(200)]
    options, extra = scores_and_masks(draw, heads)
    q, k, v = (draw.normal(sum(lengths), h, dim, dtype=dtype) for h in (heads, kv_heads, kv_heads))
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()

    def check(results):
        for s in {draw.randrange(len(lengths)) for _ in range(3)}:
            rows, h = slice(int(starts[s]), int(starts[s + 1])), draw.randrange(heads)
            one = slice(h, h + 1), slice(h * kv_heads // heads, h * kv_heads // heads + 1)
            x = (q[None, rows, one[0]], k[None, rows, one[1]], v[None, rows, one[1]])
            near(results[0][None, rows, one[0]], torch_oracle.attention(*(t.double() for t in x), **of_head(options, one[0])), "o")

    def run():
        return weft.attention(q, k, v, q_starts=starts, return_lse=True, **options)

    return Problem(f"packed {heads}/{kv_heads} {lengths} {dim} {dtype} {options['causal']} {extra}", run, check)


def cache(draw, latent=False):
    """Keys in pages; latent: of which a part are the values of all heads."""
    heads, kv_heads = (draw.choice([16, 64, 128]), 1) if latent else draw.heads()
    dtype, dim, page = draw.dtype(), 64 if latent else draw.head_dim(), draw.choice([16, 64, 128])
    queries = draw.choice([1, 1, 1, 2, 5, 16])
    used = draw.lengths(draw.size(64), 8000)
    while sum(used) * kv_heads * dim > draw.limit:
        used.pop()
    used = used or [draw.size(200)]
    pages = [-(-n // page) for n in used]
    numbers = list(range(sum(pages)))
    draw.shuffle(numbers)
    table = torch.zeros(len(used), max(pages), dtype=torch.int32)
    for i, count in enumerate(pages):
        table[i, :count] = torch.tensor([numbers.pop() for _ in range(count)])
    table, lengths = table.cuda(), torch.tensor(used, dtype=torch.int32, device="cuda")
    if latent:
        memory = draw.normal(sum(pages), page, 1, 576, dtype=dtype)
        k, v, q, qv = memory[..., 512:], memory[..., :512], *(draw.normal(len(used), queries, heads, d, dtype=dtype) for d in (64, 512))
        options, extra = {"causal": True, "scale": 192**-0.5, "qv": qv}, "latent"
    else:
        k, v = (draw.normal(sum(pages), page, kv_heads, dim, dtype=dtype) for _ in range(2))
        q = draw.normal(len(used), queries, heads, dim, dtype=dtype)
        options, extra = scores_and_masks(draw, heads)
        options["causal"] = True

    def check(results):
        for s in {draw.randrange(len(used)) for _ in range(3)}:
            mine, of_all = table[s, : pages[s]].long(), dict(options)
            keys, values = (t[mine].flatten(0, 1)[None, : used[s]].double() for t in (k, v))
            query = q[s : s + 1].double()
            if latent:
                query, keys = torch.cat([query, of_all.pop("qv")[s : s + 1].double()], 3), torch.cat([keys, values], 3)
            near(results[0][s : s + 1], torch_oracle.attention(query, keys, values, **of_all), "o")

    def run():
        return weft.attention(q, k, v, block_table=table, kv_used=lengths, return_lse=True, **options)

    return Problem(f"cache {queries}x{heads}/{kv_heads} {used} {dim} pages of {page} {dtype} {extra}", run, check)


def combine(draw):
    dtype, dim, heads, parts = draw.dtype(), draw.head_dim(), draw.size(32), draw.randint(2, 8)
    seq = draw.size(min(16384, draw.limit // (heads * dim)))
    outputs = [draw.normal(1, seq, heads, dim, dtype=dtype) for _ in range(parts)]
    lses = [3 * draw.normal(1, heads, seq) for _ in range(parts)]

    def check(results):
        weights = torch.softmax(torch.stack(lses).double(), 0).transpose(2, 3)[..., None]
        near(results[0], (weights * torch.stack(outputs)).sum(0), "o")
        near(results[1], torch.logsumexp(torch.stack(lses).double(), 0), "lse")

    return Problem(f"combine {parts} of {seq}x{heads}x{dim} {dtype}", lambda: weft.combine(outputs, lses, return_lse=True), check)


def product(draw):
    m, n, k, precision = draw.size(8192), draw.size(8192), draw.size(8192), draw.choice([None, None, None, "fp32", "bf16x3"])
    m = min(m, draw.limit // n)
    dtype = torch.float32 if precision else draw.dtype()
    a, b = draw.normal(m, k, dtype=dtype), draw.normal(n, k, dtype=dtype).T if draw.random() < 0.5 else draw.normal(k, n, dtype=dtype)
    options = {"precision": precision} if precision else {}
    extra = draw.choice(["", "", "bias", "activation", "residual", "row_scale"]) if not precision else ""
    if extra == "bias":
        options["bias"] = draw.normal(n, dtype=dtype)
    if extra == "activation":
        options["activation"] = draw.choice(["relu", "gelu", "silu"])
    if extra == "residual":
        options["residual"] = draw.normal(m, n, dtype=dtype)
    if extra == "row_scale":
        options["row_scale"] = draw.normal(m)

    def check(results):
        rows = torch.randint(0, m, (min(m, 64),), device="cuda")
        c = a[rows].double() @ b.double()
        c = c * options["row_scale"][rows, None] if extra == "row_scale" else c
        c = c + options["bias"] if extra == "bias" else c
        c = getattr(torch.nn.functional, options["activation"])(c) if extra == "activation" else c
        near(results[0][rows], c + options["residual"][rows] if extra == "residual" else c, "c", 0.1 * k**0.5)

    return Problem(f"product {m}x{n}x{k} {dtype} {precision} {extra}", lambda: (weft.matmul(a, b, **options),), check)


def groups(draw):
    rows, n, k, dtype = draw.lengths(draw.size(64), 2000), draw.size(4096, 8), draw.size(4096, 8), draw.dtype()
    n, k = n // 8 * 8, k // 8 * 8
    while sum(rows) * n > draw.limit or len(rows) * n * k > 1 << 30:
        rows.pop()
    rows = rows or [1]
    a, b = draw.normal(sum(rows), k, dtype=dtype), draw.normal(len(rows), n, k, dtype=dtype).transpose(1, 2)
    starts = torch.tensor([0, *rows], device="cuda").cumsum(0).int()

    def check(results):
        for g in {draw.randrange(len(rows)) for _ in range(3)}:
            of_g = slice(int(starts[g]), int(starts[g + 1]))
            near(results[0][of_g][:64], a[of_g][:64].double() @ b[g].double(), "c")

    return Problem(f"groups {rows} x{n}x{k} {dtype}", lambda: (weft.grouped_matmul(a, b, starts=starts),), check)


KINDS = [attention, lambda draw: attention(draw, True), packed, cache, lambda draw: cache(draw, True), combine, product, groups]

def begin(draw):
    """A problem whose first results are right; or None and why, where this GPU's kernels refuse it by name."""
    problem = draw.choice(KINDS)(draw)
    try:
        problem.first = problem.run()
    except weft.Unsupported as error:
        return None, f"{problem.name}: {error}"
    try:
        problem.check(problem.first)
    except AssertionError as error:
        sys.exit(f"wrong: {problem.name}: {error}")
    return problem, ""


def turn(draw, live, streams):
    """Runs what lives, in random order on random streams. Returns the number of elements."""
    elements, counts = 0, []
    for _ in range(RUNS):
        problem = draw.choice(live)
        with torch.cuda.stream(draw.choice(streams)):
            for i, (x, y) in enumerate(zip(problem.run(), problem.first)):
                differ = x.view(BITS[x.dtype]) != y.view(BITS[y.dtype])
                counts.append((problem, i, differ.count_nonzero()))
                elements += x.numel()
    torch.cuda.synchronize()
    for (problem, i, _), count in zip(counts, torch.stack([count for _, _, count in counts]).tolist()):
        if count:
            sys.exit(f"{count} of {problem.first[i].numel()} elements of result {i} differ from the first run's: {problem.name}")
    return elements


class Canary:
    """How long one and the same problem takes on an idle GPU, in ms."""

    def __init__(self):
        self.x = [torch.randn(4, 2048, 16, 128, device="cuda").bfloat16() for _ in range(3)]

    def time(self):
        times = []
        for _ in range(30):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            weft.attention(*self.x, causal=True)
            events[1].record()
            torch.cuda.synchronize()
            times.append(events[0].elapsed_time(events[1]))
        return statistics.median(times)


def memory():
    """Of the process, and of the GPU without what torch has, in MB."""
    with open("/proc/self/status") as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1000
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return dict(resident_mb=round(resident), gpu_mb=round((total - free - torch.cuda.memory_reserved()) / 1e6))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("WEFT_TEST_SEED", 1)))
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--small", action="store_true", help="results of at most 2^16 elements, for sanitizers")
    parser.add_argument("--json", help="a file for the lines")
    given = parser.parse_args()
    limit, pairs = (1 << 16, 1 << 18) if given.small else (1 << 26, 1 << 25)
    draw, streams = Draw(given.seed, limit, pairs), [torch.cuda.Stream() for _ in range(given.streams)]
    canary, live, lines, refused = Canary(), [], [], []
    began, problems, elements = time.monotonic(), 0, 0
    while (now := time.monotonic() - began) < given.seconds or problems == 0:
        if now >= len(lines) * given.seconds / 10:
            live.clear()  # what is left of memory is weft's
            lines.append(dict(seconds=round(now), problems=problems, elements=elements, refused=len(refused), canary_ms=canary.time(), **memory()))
            print(json.dumps(lines[-1]), flush=True)
        problem, why = begin(draw)
        if problem is None:
            refused.append(why)
            continue
        problems, live = problems + 1, [problem, *live][:LIVE]
        torch.cuda.synchronize()  # inputs are there, for all streams
        elements += turn(draw, live, streams)
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"seed": given.seed, "streams": given.streams, "lines": lines, "refused": refused}, file, indent=1)
    print(f"{elements:.3g} elements of {problems} problems: all right")


main()
