# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention, for peers.py: dQ, dK and dV from dO, beside FlashAttention-3 and cuDNN."""
import math, random

import torch


class Gradients:
    """bf16. FLOPs are 2.5 times those of the forward pass."""

    dtype, unit = "bf16", "TFLOP/s"

    def __init__(self, group, head_dim, seq, heads, kv_heads=None, batch=1, causal=False):
        self.group, self.head_dim, self.seq, self.heads, self.batch, self.causal = group, head_dim, seq, heads, batch, causal
        self.kv_heads = kv_heads or heads
        self.name = f"D={head_dim} B={batch} H={heads}/{self.kv_heads} S={seq}" + (" causal" if causal else "")
        self.amount = 10e-12 * batch * heads * seq * seq * head_dim / (2 if causal else 1)

    def fill(self):
        shapes = [(self.batch, self.seq, h, self.head_dim) for h in (self.heads, self.kv_heads, self.kv_heads, self.heads)]
        self.tensors = [torch.randn(*shape, device=self.device).to(torch.bfloat16) for shape in shapes]

    def reference(self):
        """dQ of the first batch, the last queries and the first kv head, in fp32."""
        group, last, scale = self.heads // self.kv_heads, min(self.seq, 256), 1 / math.sqrt(self.head_dim)
        q, k, v, grad_o = (x[0].float() for x in self.tensors)
        q, grad_o, k, v = q[-last:, :group], grad_o[-last:, :group], k[:, 0], v[:, 0]
        scores = torch.einsum("qhd,kd->hqk", q, k) * scale
        if self.causal:
            seen = torch.ones(last, self.seq, dtype=torch.bool, device=q.device).tril(self.seq - last)
            scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(-1)
        grads = torch.einsum("qhd,kd->hqk", grad_o, v)
        grads = weights * (grads - (weights * grads).sum(-1, keepdim=True))
        return torch.einsum("hqk,kd->qhd", grads, k) * scale, lambda found: found[0][0, -last:, :group]


def of_weft(weft, p):
    from weft import compute

    q, k, v, grad_o = p.tensors
    o, lse = weft.attention(q, k, v, causal=p.causal, return_lse=True)
    return lambda: compute.attention_backward(q, k, v, grad_o, o, lse, p.causal, None, None, "bshd")


def of_fa3(deterministic):
    def make(weft, p):
        try:
            import fa3  # behind plain C entry points, with its buffers allocated once
        except ImportError as error:
            raise RuntimeError(str(error)) from None
        q, k, v, grad_o = p.tensors
        forward = fa3.Forward(q, k, v, p.causal)
        forward()
        return fa3.Backward(forward, grad_o, deterministic)

    return make


def of_cudnn(weft, p):
    *inputs, grad_o = p.tensors
    inputs = [x.detach().requires_grad_() for x in inputs]
    with torch.enable_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        sdpa = torch.nn.functional.scaled_dot_product_attention
        o = sdpa(*(x.transpose(1, 2) for x in inputs), is_causal=p.causal, enable_gqa=p.heads != p.kv_heads).transpose(1, 2)
    return lambda: torch.autograd.grad(o, inputs, grad_o, retain_graph=True)


Gradients.makers = {"cuda": {"weft": of_weft, "fa3": of_fa3(False), "fa3-det": of_fa3(True), "cudnn": of_cudnn}, "cpu": {"weft": of_weft}}


def tuned():
    for head_dim, heads in ((64, 32), (128, 16)):
        for causal in (False, True):
            for seq, batch in ((1024, 16), (4096, 4), (16384, 1)):
                yield Gradients("gradients", head_dim, seq, heads, batch=batch, causal=causal)
    for seq in (8192, 16384):
        yield Gradients("gradients", 128, seq, 64, 8, causal=True)
    for head_dim in (192, 256):
        for causal in (False, True):
            for seq, batch in ((4096, 4), (16384, 1)):
                yield Gradients("wide gradients", head_dim, seq, 8, batch=batch, causal=causal)


def drawn(seed):
    draw = random.Random(seed)
    for i in range(20):
        kv, group = draw.choice([2, 4, 8, 16]), draw.choice([1, 1, 2, 4, 8])
        seq = round(512 * 32 ** draw.random())
        batch = max(1, round(32768 / seq / draw.choice([1, 2, 4])))
        yield Gradients("drawn gradients", draw.choice([64, 128, 128]), seq, kv * group, kv, batch, causal=i % 2 == 0)
    for i in range(12):
        kv, group = draw.choice([1, 2, 4, 8]), draw.choice([1, 1, 2, 4])
        seq = round(512 * 32 ** draw.random())
        batch = max(1, round(16384 / seq))
        yield Gradients("drawn wide gradients", draw.choice([144, 160, 192, 256, 256]), seq, kv * group, kv, batch, causal=i % 2 == 0)
