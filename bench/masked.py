# SPDX-License-Identifier: Apache-2.0
"""Attentions with masks, packed batches and changed scores, for peers.py: weft beside FlashAttention-3, and beside itself without what a
score is changed by."""
import importlib, math, random

import torch


class Masked:
    """One batch of bf16 sequences, packed where `lengths` has several. Rates are over the pairs that see each other."""

    def __init__(self, group, head_dim, lengths, heads, kv_heads=None, window=None, softcap=None, alibi=False, sinks=False, batch=1,
                 chunk=None, causal=True):  # fmt: skip
        self.group, self.head_dim, self.lengths, self.heads, self.batch = group, head_dim, lengths, heads, batch
        self.kv_heads, self.window, self.softcap, self.alibi, self.sinks = kv_heads or heads, window, softcap, alibi, sinks
        self.chunk, self.causal = chunk, causal
        self.dtype, self.unit, self.packed = "bf16", "TFLOP/s", len(lengths) > 1
        sizes = f"{len(lengths)} x {min(lengths)}..{max(lengths)}" if self.packed else f"S={lengths[0]}"
        extras = "".join(["" if causal else " full", f" window {window}" if window else "", f" softcap {softcap:g}" if softcap else "",
                          " alibi" if alibi else "", " sinks" if sinks else "", f" chunk {chunk}" if chunk else ""])  # fmt: skip
        self.name = f"D={head_dim} B={batch} H={heads}/{self.kv_heads} {sizes}{extras}"
        self.amount = 4e-12 * batch * heads * head_dim * sum(map(self.pairs, lengths))

    def pairs(self, n):
        if not self.causal:
            return n * n
        seen = min(n, (self.window or n) + 1)
        return seen * (seen + 1) // 2 + (n - seen) * seen

    def fill(self):
        total = sum(self.lengths)
        shape = (lambda heads: (total, heads, self.head_dim)) if self.packed else (lambda heads: (self.batch, total, heads, self.head_dim))
        self.tensors = [torch.randn(*shape(h), device=self.device).to(torch.bfloat16) for h in (self.heads, self.kv_heads, self.kv_heads)]
        self.starts = torch.tensor([0, *torch.tensor(self.lengths).cumsum(0)], dtype=torch.int32, device=self.device)
        self.slopes = torch.rand(self.heads, device=self.device) / 8
        self.logits = torch.randn(self.heads, device=self.device)

    def reference(self):
        """Of the longest sequence's last queries and the first kv head, in fp32."""
        which = max(range(len(self.lengths)), key=lambda i: self.lengths[i])
        begin, n, group = sum(self.lengths[:which]), self.lengths[which], self.heads // self.kv_heads
        last = min(n, 256)
        q, k, v = (x[begin : begin + n].float() if self.packed else x[0].float() for x in self.tensors)
        scores = torch.einsum("qhd,kd->hqk", q[-last:, :group], k[:, 0]) / math.sqrt(self.head_dim)
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        at, keys = torch.arange(n - last, n, device=q.device)[:, None], torch.arange(n, device=q.device)[None]
        if self.alibi:
            scores -= self.slopes[:group, None, None] * (at - keys).abs()
        hidden = ((keys > at) & self.causal) | (at - keys > (self.window or n))
        scores = scores.masked_fill(hidden, -math.inf)
        if self.sinks:
            scores = torch.cat([scores, self.logits[:group, None, None].expand(-1, last, 1)], -1)
        weights = scores.softmax(-1)[..., :n]
        o = torch.einsum("hqk,kd->qhd", weights, v[:, 0])
        end = begin + n
        return o, (lambda x: x[end - last : end, :group]) if self.packed else (lambda x: x[0, -last:, :group])


def of_weft(weft, p):
    extras = dict(window=(p.window, 0) if p.window else None, chunk=p.chunk, softcap=p.softcap, alibi=p.slopes if p.alibi else None,
                  sinks=p.logits if p.sinks else None, q_starts=p.starts if p.packed else None)  # fmt: skip
    return lambda: weft.attention(*p.tensors, causal=p.causal, **extras)


def of_weft_plain(weft, p):
    """The same sequences with scores as they are: what a change of scores costs is seen beside it. It gives another result."""
    if p.packed or p.window or p.chunk or not (p.softcap or p.alibi or p.sinks):
        raise RuntimeError("only beside changed scores")
    return lambda: weft.attention(*p.tensors, causal=p.causal)


def of_weft_known(weft, p):
    """Lengths that the plan knows, so that its longest tiles come first."""
    if not p.packed:
        raise RuntimeError("only packed batches have lengths")
    return lambda: weft.attention(*p.tensors, causal=True, window=(p.window, 0) if p.window else None, softcap=p.softcap, lengths=p.lengths)


def of_fa3(weft, p):
    if p.alibi or p.sinks or p.chunk:
        raise RuntimeError("takes neither slopes nor, as built, sinks and chunks")
    fa3v = importlib.import_module("fa3v")
    window, softcap = (p.window, 0) if p.window else (-1, -1), p.softcap or 0.0
    if p.packed:
        most = max(p.lengths)
        call = fa3v.Varlen(*p.tensors, p.starts, p.starts, most, most, causal=p.causal, window=window, softcap=softcap)
    else:
        call = fa3v.Dense(*p.tensors, causal=p.causal, window=window, softcap=softcap)
    return lambda: call()[0]


Masked.makers = {"cuda": {"weft": of_weft, "plain": of_weft_plain, "known": of_weft_known, "fa3": of_fa3},
                 "cpu": {"weft": of_weft, "plain": of_weft_plain}}  # fmt: skip


def log_uniform(draw, low, high, count):
    return [round(low * (high / low) ** draw.random()) for _ in range(count)]


def tuned():
    """The rows that FlashAttention-3 was measured on, and dense ones beside them."""
    draw = random.Random(7)
    for window in (None, 1024, 4096):
        yield Masked("window", 128, [32768], 16, window=window)
    yield Masked("packed", 128, [round(draw.uniform(200, 4000)) for _ in range(16)], 16)
    yield Masked("packed", 128, log_uniform(draw, 20, 9000, 32), 32, 8)
    short = log_uniform(draw, 16, 512, 256)
    yield Masked("packed", 128, short, 32)
    yield Masked("packed", 64, short, 32)
    yield Masked("packed", 128, [2048] * 8, 16)
    yield Masked("packed", 128, [2048], 16, batch=8)
    yield Masked("packed", 128, [34] * 8192, 4)
    yield Masked("packed", 128, [34], 4, batch=8192)
    yield Masked("packed", 128, log_uniform(draw, 500, 8000, 24), 16, window=1024)
    yield Masked("scores", 128, [8192], 16, batch=2, chunk=8192)  # no more is hidden than without: what masks themselves cost
    for extras in ({}, {"softcap": 30.0}, {"alibi": True}, {"sinks": True}):
        yield Masked("scores", 128, [8192], 16, batch=2, **extras)


def drawn_scores(draw):
    """Each of eight problems with scores changed in three ways. Half are causal, and of each half one at least has as many kv heads."""
    for i in range(8):
        n, kv = round(1024 * 16 ** draw.random()), draw.choice([4, 8])
        shape = dict(head_dim=draw.choice([64, 128]), lengths=[n], heads=kv * (1 if i < 2 else draw.choice([1, 2, 4])), kv_heads=kv,
                     batch=draw.choice([1, 2]), causal=i % 2 == 0)  # fmt: skip
        for name, value in (("softcap", draw.choice([20.0, 30.0, 50.0])), ("alibi", True), ("sinks", True)):
            yield Masked(f"drawn {name}", **shape, **{name: value})


def drawn_packed(draw):
    """Causal, 16 to 256 sequences, whose lengths are log-uniform."""
    low = round(16 * 32 ** draw.random())
    lengths = log_uniform(draw, low, low * draw.uniform(4, 64), round(16 * 16 ** draw.random()))
    kv = draw.choice([4, 8])
    return Masked("drawn packed", draw.choice([64, 128, 128]), lengths, kv * draw.choice([1, 2, 4]), kv)


def drawn(seed):
    """Windows, packed batches and changed scores that nothing was tuned on."""
    draw = random.Random(seed)
    for _ in range(6):
        n, kv = round(4096 * 16 ** draw.random()), draw.choice([2, 4, 8])
        yield Masked("drawn window", 128, [n], kv * draw.choice([1, 2, 4]), kv, window=round(n / draw.uniform(3, 24)))
    for _ in range(10):
        yield drawn_packed(draw)
    yield from drawn_scores(draw)
