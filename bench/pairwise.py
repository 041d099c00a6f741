# SPDX-License-Identifier: Apache-2.0
"""Attentions whose masks or biases are data, for peers.py: block masks beside torch's FlexAttention, dense biases beside torch's SDPA."""
import functools, math, random

import torch


class Pairwise:
    """A batch of bf16 sequences, and what each query sees of its keys: `shows` of query, key and the number of each token's document."""

    def __init__(self, group, what, head_dim, seq, heads, kv_heads=None, batch=1, bias=None, documents=None, seed=0):
        self.group, self.what, self.head_dim, self.seq, self.heads, self.batch = group, what, head_dim, seq, heads, batch
        self.kv_heads, self.bias_shape, self.seed, self.documents = kv_heads or heads, bias, seed, documents or max(seq // 900, 2)
        self.dtype, self.unit = "bf16", "TFLOP/s"
        self.name = f"D={head_dim} B={batch} H={heads}/{self.kv_heads} S={seq} {what}"
        draw = random.Random(seed)
        self.cuts = sorted(draw.sample(range(1, seq), self.documents - 1))
        self.amount = 4e-12 * batch * heads * head_dim * self.pairs()

    def shows(self, query, key, document):
        if self.what.startswith("window"):
            return (query >= key) & (query - key <= int(self.what.split()[1]))
        if self.what.startswith("prefix"):
            return (query >= key) | (key < int(self.what.split()[1]))
        return (query >= key) & (document[query] == document[key]) if self.what == "documents" else query >= key

    def pairs(self):
        if self.bias_shape:
            return self.seq * self.seq
        if self.what == "documents":
            return sum(n * (n + 1) // 2 for n in (b - a for a, b in zip([0, *self.cuts], [*self.cuts, self.seq])))
        size = int(self.what.split()[1]) if " " in self.what else 0
        triangle = self.seq * (self.seq + 1) // 2
        rest = self.seq - size - 1
        return triangle - rest * (rest + 1) // 2 if self.what.startswith("window") else triangle + size * (size - 1) // 2

    def fill(self):
        shape = lambda heads: (self.batch, self.seq, heads, self.head_dim)
        self.tensors = [torch.randn(*shape(h), device=self.device).to(torch.bfloat16) for h in (self.heads, self.kv_heads, self.kv_heads)]
        ends = torch.tensor(self.cuts, device=self.device)
        self.document = torch.bucketize(torch.arange(self.seq, device=self.device), ends, right=True)
        if self.bias_shape:
            size = tuple({"b": self.batch, "h": self.heads, "1": 1}[c] for c in self.bias_shape)
            self.bias = torch.randn(*size, self.seq, self.seq, device=self.device)
            self.bias = self.bias > -1 if self.what.endswith("bool") else self.bias.to(torch.bfloat16)

    @functools.cached_property
    def block_mask(self):
        from torch.nn.attention.flex_attention import create_block_mask

        shows = lambda b, h, query, key: self.shows(query, key, self.document)
        return create_block_mask(shows, None, None, self.seq, self.seq, device=self.device)

    def reference(self):
        """Of the first batch, the last queries and the first kv head, in fp32."""
        group, last = self.heads // self.kv_heads, min(self.seq, 256)
        q, k, v = (x[0].float() for x in self.tensors)
        scores = torch.einsum("qhd,kd->hqk", q[-last:, :group], k[:, 0]) / math.sqrt(self.head_dim)
        if self.bias_shape:
            bias = self.bias[0, :group, -last:]
            scores = scores.masked_fill(~bias, -math.inf) if bias.dtype == torch.bool else scores + bias.float()
        else:
            query, key = torch.arange(self.seq - last, self.seq, device=q.device)[:, None], torch.arange(self.seq, device=q.device)[None]
            scores = scores.masked_fill(~self.shows(query, key, self.document), -math.inf)
        return torch.einsum("hqk,kd->qhd", scores.softmax(-1), v[:, 0]), lambda x: x[0, -last:, :group]


def of_weft(weft, p):
    extras = dict(bias=p.bias) if p.bias_shape else dict(block_mask=p.block_mask)
    return lambda: weft.attention(*p.tensors, **extras)


@functools.lru_cache(None)
def compiled_flex():
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def of_flex(weft, p):
    if p.bias_shape:
        raise RuntimeError("a bias is SDPA's")
    q, k, v = (x.transpose(1, 2) for x in p.tensors)
    flex, mask, grouped = compiled_flex(), p.block_mask, p.heads != p.kv_heads
    return lambda: flex(q, k, v, block_mask=mask, enable_gqa=grouped).transpose(1, 2)


def of_sdpa(backend):
    def make(weft, p):
        if not p.bias_shape:
            raise RuntimeError("block masks are FlexAttention's")
        q, k, v = (x.transpose(1, 2) for x in p.tensors)
        kind = getattr(torch.nn.attention.SDPBackend, backend)

        def call():
            with torch.nn.attention.sdpa_kernel(kind):
                sdpa = torch.nn.functional.scaled_dot_product_attention
                return sdpa(q, k, v, attn_mask=p.bias, enable_gqa=p.heads != p.kv_heads).transpose(1, 2)

        return call

    return make


Pairwise.makers = {"cuda": {"weft": of_weft, "flex": of_flex, "cudnn": of_sdpa("CUDNN_ATTENTION"), "efficient": of_sdpa("EFFICIENT_ATTENTION")},
                   "cpu": {"weft": of_weft}}  # fmt: skip


def tuned():
    for what in ("causal", "window 1024", "documents", "prefix 2048"):
        yield Pairwise("blocks", what, 128, 16384, 16)
    yield Pairwise("blocks", "documents", 64, 16384, 16)
    yield Pairwise("blocks", "causal", 128, 4096, 32, 8, batch=4)
    for head_dim in (64, 128):
        yield Pairwise("bias", "bias", head_dim, 4096, 16, bias="1h")
    yield Pairwise("bias", "bias of all heads", 128, 4096, 16, bias="11")
    yield Pairwise("bias", "bool", 128, 4096, 16, bias="1h")


def drawn(seed):
    draw = random.Random(seed)
    for i in range(8):
        seq, kv = round(2048 * 12 ** draw.random()), draw.choice([2, 4, 8])
        what = draw.choice(["causal", f"window {round(seq / draw.uniform(4, 20))}", "documents", f"prefix {seq // draw.randint(3, 9)}"])
        yield Pairwise("drawn blocks", what, draw.choice([64, 128, 128]), seq, kv * draw.choice([1, 2, 4]), kv, seed=draw.random())
    for i in range(6):
        yield Pairwise("drawn bias", "bias", draw.choice([64, 128]), 8 * round(64 * 12 ** draw.random()), draw.choice([4, 8, 16]),
                       batch=draw.choice([1, 2]), bias=draw.choice(["1h", "bh", "b1", "11"]))  # fmt: skip
