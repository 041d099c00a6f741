#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode on a GPU: one query a sequence over long caches, weft beside cuDNN and, if it is importable, FlashAttention-3.

    decode.py --library libweft.so [--draw SEED] [--csv FILE] [--only known,drawn,paged,unlike] [--layers N] [--ways]

bf16. A captured graph has N calls or more (8) over tensors of more than 300 MB together, so that no K and V are in the L2; graphs are replayed in
turns, in random order, and medians count. Rates are of K and V, read once. FlashAttention-3 is the module fa3v: Decode(q, k, v, lengths,
page_table). What is compared is checked first. With --ways the known and drawn rows are also timed by each option of the decode kernel."""
import argparse, csv, json, math, random, sys

import timing

KNOWN = [(1, 1024, 64, 8, 128), (1, 8192, 64, 8, 128), (1, 32768, 64, 8, 128), (1, 131072, 64, 8, 128), (16, 8192, 64, 8, 128),
         (32, 4096, 64, 8, 128), (64, 4096, 32, 8, 128), (128, 8192, 8, 1, 128), (1, 65536, 32, 1, 64)]  # fmt: skip


def drawn(seed, count=12):
    """(batch, keys, heads, kv heads, head dim): K and V of 2 MB to 1.2 GB."""
    rng, rows = random.Random(seed), []
    while len(rows) < count:
        kv, group, head_dim = rng.choice([1, 2, 4, 8]), rng.choice([1, 4, 8, 16]), rng.choice([64, 128, 128, 128])
        row = (rng.choice([1, 1, 4, 16, 64, 128]), round(1024 * 128 ** rng.random()), kv * group, kv, head_dim)
        rows += [row] if 2e6 < 4 * row[0] * row[1] * kv * head_dim < 1.2e9 else []
    return rows


def replayed(makers, copies, seconds):
    """Seconds of a call of each library; `makers` has a function of a copy's number for each."""
    import torch

    graphs, calls = {}, []
    for name, make in makers.items():
        try:
            mine = [make(i) for i in range(copies)]
            with torch.cuda.stream(torch.cuda.Stream()):
                for call in mine:
                    call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for call in mine:
                    call()
        except RuntimeError as error:
            print(f"  left out: {name}: {str(error).splitlines()[0]}")
            continue
        graphs[name] = graph
        calls.append(mine)  # a graph does not own what its calls do
    times = timing.in_random_turns([lambda g=g: timing.seconds_on_gpu(g.replay) / copies for g in graphs.values()], seconds, 5, 25)
    return dict(zip(graphs, timing.medians(times)))


class Bench:
    def __init__(self, weft, seconds, layers, ways):
        import torch
        from weft import compute

        try:
            import fa3v
        except ImportError:
            fa3v = None
        self.weft, self.torch, self.fa3v, self.seconds, self.layers, self.rows = weft, torch, fa3v, seconds, layers, []
        self.ways, self.forward = ways, compute.attention_forward

    def tensors(self, *shape):
        return self.torch.randn(*shape, device="cuda").bfloat16()

    def add(self, group, name, bytes_read, times):
        self.rows += [(group, name, library, f"{t:.4g}", f"{bytes_read / t / 1e12:.3f}", f"{t / times['weft']:.3f}") for library, t in times.items()]
        print(f"{name:34}", *(f"{n} {1e6 * t:.1f} us {bytes_read / t / 1e12:.2f} TB/s" for n, t in times.items()), sep="  ", flush=True)

    def plain(self, group, batch, keys, heads, kv, dim):
        torch, weft, read = self.torch, self.weft, 4 * batch * keys * kv * dim
        copies = max(2, min(40, int(3e8 / read)))
        sets = [(self.tensors(batch, 1, heads, dim), self.tensors(batch, keys, kv, dim), self.tensors(batch, keys, kv, dim)) for _ in range(copies)]
        lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")

        def cudnn(i):
            q, k, v = (x.transpose(1, 2) for x in sets[i % copies])

            def call():
                with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=heads != kv)

            return call

        def kept(i):
            return lambda: self.forward(*sets[i % copies], False, None, None, "bshd", False, None, "decode:keep-keys")[0]

        makers = {"weft": lambda i: lambda: weft.attention(*sets[i % copies]), "cudnn": cudnn, **({"kept": kept} if self.ways else {})}
        if self.fa3v:
            makers["fa3"] = lambda i: self.fa3v.Decode(*sets[i % copies], lengths)
        assert timing.largest_difference(weft.attention(*sets[0]), cudnn(0)().transpose(1, 2)) < 0.01
        self.add(group, f"B={batch} N={keys} H={heads}/{kv} D={dim}", read, replayed(makers, max(copies, self.layers), self.seconds))

    def paged(self, page, batch=16, keys=8192, heads=64, kv=8, dim=128):
        """The same keys in pages that lie in no order; page 0: with lengths alone."""
        torch, weft = self.torch, self.weft
        lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
        q, k, v = self.tensors(batch, 1, heads, dim), self.tensors(batch, keys, kv, dim), self.tensors(batch, keys, kv, dim)
        more, fa3 = {"kv_used": lengths}, None
        want = weft.attention(q, k, v, **more)
        if page:
            table = torch.randperm(batch * keys // page, device="cuda").int()
            places = torch.empty_like(table).long()
            places[table.long()] = torch.arange(len(table), device="cuda")
            k, v = (x.reshape(-1, page, kv, dim)[places] for x in (k, v))
            more["block_table"] = table.reshape(batch, -1)
            assert torch.equal(weft.attention(q, k, v, **more), want)  # to the bit
            fa3 = {"page_table": more["block_table"]}
        makers = {"weft": lambda i: lambda: weft.attention(q, k, v, **more)}
        if self.fa3v and page != 1:
            makers["fa3"] = lambda i: self.fa3v.Decode(q, k, v, lengths, **(fa3 or {}))
        self.add("paged", f"page {page}" if page else "lengths", 4 * batch * keys * kv * dim, replayed(makers, self.layers, self.seconds))

    def unlike(self, seed, count=32, page=64, heads=64, kv=8, dim=128):
        """The calls of a graph that are `prepared` deal out the keys once."""
        torch, rng, shared = self.torch, random.Random(seed), self.weft.Prepared()
        keys = [round(65536 ** rng.random()) for _ in range(count)]
        pages = [-(-n // page) for n in keys]
        numbers, table = torch.randperm(sum(pages)).int().split(pages), torch.zeros(count, max(pages), dtype=torch.int32)
        for i, mine in enumerate(numbers):
            table[i, : len(mine)] = mine
        table, lengths = table.cuda(), torch.tensor(keys, dtype=torch.int32, device="cuda")
        q, k, v = self.tensors(count, 1, heads, dim), self.tensors(sum(pages), page, kv, dim), self.tensors(sum(pages), page, kv, dim)
        more = {"block_table": table, "kv_used": lengths}
        makers = {"weft": lambda i: lambda: self.weft.attention(q, k, v, **more),
                  "prepared": lambda i: lambda: self.weft.attention(q, k, v, prepared=shared, **more)}  # fmt: skip
        assert torch.equal(makers["weft"](0)(), makers["prepared"](0)())  # to the bit
        if self.fa3v:
            makers["fa3"] = lambda i: self.fa3v.Decode(q, k, v, lengths, page_table=table)
        self.add("unlike", f"{count} of 1 to 64K, {sum(keys)}", 4 * sum(keys) * kv * dim, replayed(makers, self.layers, self.seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="libweft.so; without it, the installed package's")
    parser.add_argument("--draw", type=int, default=1, help="seed of what is drawn")
    parser.add_argument("--only", default="known,drawn,paged,unlike")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--layers", type=int, default=8, help="calls in a graph, at least")
    parser.add_argument("--ways", action="store_true", help="also each option of the decode kernel")
    parser.add_argument("--csv")
    args = parser.parse_args()
    bench, only = Bench(timing.import_weft(args.library), args.seconds, args.layers, args.ways), args.only.split(",")
    for group, rows in (("known", KNOWN), ("drawn", drawn(args.draw))):
        for row in rows if group in only else ():
            bench.plain(group, *row)
    for page in (0, 1, 16, 64, 256) if "paged" in only else ():
        bench.paged(page)
    for i in range(4) if "unlike" in only else ():
        bench.unlike(args.draw + i)
    for group in only:
        for peer in ("cudnn", "fa3", "prepared", "kept"):
            ratios = [float(r[5]) for r in bench.rows if r[0] == group and r[2] == peer]
            if ratios:
                print(f"{group}: weft over {peer} {timing.geometric_mean(ratios):.2f} ({min(ratios):.2f}) in {len(ratios)} rows")
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            file.write("# " + json.dumps({"command": " ".join(["bench/decode.py", *sys.argv[1:]]), "device": bench.torch.cuda.get_device_name()}) + "\n")
            csv.writer(file).writerows([("group", "problem", "library", "median_seconds", "tb_per_second", "weft_over_it"), *bench.rows])


if __name__ == "__main__":
    main()
