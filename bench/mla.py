#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention in decode on a GPU: few queries of many heads over a cache of 576 elements a token.

    mla.py --library libweft.so [--csv FILE] [--only heads,few,pages,queries,unlike]

bf16, pages of 64 keys in no order. A captured graph has several calls over caches of more than 300 MB together, so that no keys are in the
L2; graphs are replayed in turns, in random order, and medians count. TB/s are of the cache, read once; TFLOP/s of products with all heads.
Peers, if they are importable: FlashAttention-3 (flash_attn_interface) and FlashMLA (flash_mla). What is compared is checked first."""
import argparse, csv, json, random, sys

import timing
from decode import replayed

ROPE, LATENT = 64, 512
WIDTH = ROPE + LATENT
HEADS = [(batch, keys, 128) for keys in (4096, 8192) for batch in (1, 16, 64, 128)]
FEW = [(128, 8192, 16), (128, 8192, 32), (128, 8192, 64), (16, 8192, 16), (1, 32768, 16), (1, 131072, 16)]


class Bench:
    def __init__(self, weft, seconds):
        import torch

        self.weft, self.torch, self.seconds, self.rows = weft, torch, seconds, []

    def make(self, lengths, heads, queries, page):
        """A cache with its table, and queries."""
        torch, pages = self.torch, [-(-n // page) for n in lengths]
        table = torch.zeros(len(lengths), max(pages), dtype=torch.int32)
        for i, mine in enumerate(torch.randperm(sum(pages)).int().split(pages)):
            table[i, : len(mine)] = mine
        cache = torch.randn(sum(pages), page, 1, WIDTH, device="cuda").bfloat16()
        q = torch.randn(len(lengths), queries, heads, WIDTH, device="cuda").bfloat16()
        return q, cache, table.cuda(), torch.tensor(lengths, dtype=torch.int32, device="cuda")

    def call(self, q, cache, table, used):
        return self.weft.attention(q[..., LATENT:], cache[..., LATENT:], cache[..., :LATENT], qv=q[..., :LATENT], scale=WIDTH**-0.5,
                                   causal=q.shape[1] > 1, block_table=table, kv_used=used)  # fmt: skip

    def check(self, q, cache, table, used):
        """The first and the last sequence, in fp32."""
        torch, o = self.torch, self.call(q, cache, table, used).float()
        for i in {0, len(used) - 1}:
            keys = cache[table[i].long()].reshape(-1, WIDTH)[: int(used[i])].float()
            scores = torch.einsum("qhd,kd->hqk", q[i].float(), keys) * WIDTH**-0.5
            n, m = scores.shape[1:]
            hidden = torch.ones(n, m, dtype=torch.bool, device="cuda").triu(m - n + 1)
            want = torch.einsum("hqk,kd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), keys[:, :LATENT])
            assert timing.largest_difference(o[i], want) < 0.01, "weft is wrong"

    def peers(self, sets):
        found = {}
        try:
            from flash_attn_interface import flash_attn_with_kvcache

            def fa3(i):
                q, cache, table, used = sets[i]
                return lambda: flash_attn_with_kvcache(q[..., LATENT:], cache[..., LATENT:], cache[..., :LATENT], qv=q[..., :LATENT], cache_seqlens=used,
                                                       page_table=table, softmax_scale=WIDTH**-0.5, causal=True)  # fmt: skip

            found["fa3"] = fa3
        except ImportError:
            pass
        try:
            import flash_mla

            def mla(i):  # its queries have the latent part first, too
                q, cache, table, used = sets[i]
                plan = flash_mla.get_mla_metadata(used, q.shape[1] * q.shape[2], 1)
                return lambda: flash_mla.flash_mla_with_kvcache(q, cache, table, used, LATENT, *plan, softmax_scale=WIDTH**-0.5, causal=True)

            if sets[0][1].shape[1] == 64:
                found["flashmla"] = mla
        except ImportError:
            pass
        return found

    def row(self, group, name, lengths, heads, queries=1, page=64):
        read, flops = 2 * WIDTH * sum(lengths), 2 * (WIDTH + LATENT) * heads * queries * sum(lengths)
        copies = max(2, min(40, int(3e8 / read)))
        sets = [self.make(lengths, heads, queries, page) for _ in range(copies)]
        self.check(*sets[0])
        times = replayed({"weft": lambda i: lambda: self.call(*sets[i]), **self.peers(sets)}, copies, self.seconds)
        self.rows += [(group, name, library, f"{t:.4g}", f"{read / t / 1e12:.3f}", f"{flops / t / 1e12:.1f}") for library, t in times.items()]
        each = (f"{n} {1e6 * t:.1f} us {read / t / 1e12:.2f} TB/s {flops / t / 1e12:.0f} TFLOP/s" for n, t in times.items())
        print(f"{name:40}", *each, sep="  ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="libweft.so; without it, the installed package's")
    parser.add_argument("--draw", type=int, default=1, help="seed of lengths that are drawn")
    parser.add_argument("--only", default="heads,few,pages,queries,unlike")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--csv")
    args = parser.parse_args()
    bench, only, rng = Bench(timing.import_weft(args.library), args.seconds), args.only.split(","), random.Random(args.draw)
    for group, rows in (("heads", HEADS), ("few", FEW)):
        for batch, keys, heads in rows if group in only else ():
            bench.row(group, f"B={batch} N={keys} H={heads}", [keys] * batch, heads)
    for page in (1, 16, 64, 128) if "pages" in only else ():
        bench.row("pages", f"B=64 N=8192 H=16 pages of {page}", [8192] * 64, 16, page=page)
    for queries in (1, 2, 4) if "queries" in only else ():
        bench.row("queries", f"B=64 N=8192 H=64, {queries} queries", [8192] * 64, 64, queries)
    for heads in (16, 128) if "unlike" in only else ():
        lengths = [round(65536 ** rng.random()) for _ in range(64)]
        bench.row("unlike", f"64 of 1 to 64K, {sum(lengths)}, H={heads}", lengths, heads)
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            file.write("# " + json.dumps({"command": " ".join(["bench/mla.py", *sys.argv[1:]]), "device": bench.torch.cuda.get_device_name()}) + "\n")
            csv.writer(file).writerows([("group", "problem", "library", "median_seconds", "tb_per_second", "tflop_per_second"), *bench.rows])


if __name__ == "__main__":
    main()
