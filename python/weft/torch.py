"""Weft in torch: an operator with a fake kernel and a gradient, and transformers' attention.

The operator torch.ops.weft.attention is opaque to torch.compile, which sees its shapes through the fake kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import warnings
from typing import Any, Optional, Set, Tuple

import torch
from torch import Tensor

from . import compute, frameworks, problems, schedules, transformers
from .errors import Invalid, NotFound, Unsupported

_announced: Set[str] = set()


@torch.compiler.assume_constant_result  # under torch.compile: said while it compiles
def announce(reason: str) -> None:
    """Says once for each reason that torch does the work."""
    if reason not in _announced:
        _announced.add(reason)
        warnings.warn(f"weft leaves an attention to torch: {reason}", RuntimeWarning, stacklevel=3)


def _why_not(q: Tensor) -> Optional[str]:
    """Why weft cannot take tensors like q, where that is plain before anything is tried."""
    if q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"dtype {q.dtype} is not float32, float16 or bfloat16"
    if q.dim() == 4 and (q.shape[3] % 8 or q.shape[3] > 256):
        return f"head_dim {q.shape[3]} is not a multiple of 8 between 8 and 256"
    if q.device.type not in ("cpu", "cuda"):
        return f"weft does not run on {q.device.type}"
    return None


def _row_contiguous(x: Tensor) -> Tensor:
    """x, or a copy where its last dimension is not contiguous, it is one row repeated, or a GPU could not read whole vectors."""
    if x.stride(-1) != 1 or not any(x.stride()[:-1]):
        return x.contiguous()
    return x.clone() if x.is_cuda and x.data_ptr() % 16 else x


def _dense(x: Tensor) -> Tensor:
    """x, or a copy where it has gaps or repeats itself: a gradient is laid out like it."""
    return x if x.is_contiguous() or x.transpose(1, 2).is_contiguous() else x.contiguous()


def _heads_second(x: Tensor, layout: str) -> Tensor:
    return x.transpose(1, 2) if layout == "bshd" else x


def _bias(q: Tensor, k: Tensor, causal: bool, offset: Optional[int]) -> Optional[Tensor]:
    """(seq, kv_seq), True where the query sees the key; None: everywhere. q and k are (batch, heads, seq, head_dim)."""
    if not causal:
        return None
    seq, kv_seq = q.shape[2], k.shape[2]
    shift = kv_seq - seq if offset is None else offset
    return torch.ones(seq, kv_seq, dtype=torch.bool, device=q.device).tril(shift)


def _torch_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], offset: Optional[int],
                     layout: str) -> Tensor:  # fmt: skip
    """What weft.attention() computes, by torch: differentiable, zeros where a query sees no key."""
    q, k, v = (_heads_second(x, layout) for x in (q, k, v))
    plain = causal and (offset == 0 or (offset is None and q.shape[2] == k.shape[2]))
    seen = None if plain else _bias(q, k, causal, offset)
    grouped = q.shape[1] != k.shape[1]
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=plain, scale=scale, enable_gqa=grouped)
    if seen is not None:
        o = torch.where(seen.any(1)[:, None], o, torch.zeros((), dtype=o.dtype, device=o.device))
    return _heads_second(o, layout)


def _torch_lse(q: Tensor, k: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str) -> Tensor:
    """(batch, heads, seq): the logarithm of each query's sum of exponentials, by torch."""
    q, k = _heads_second(q, layout).float(), _heads_second(k, layout).float()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    seen = _bias(q, k, causal, offset)
    return torch.logsumexp(scores if seen is None else scores.masked_fill(~seen, float("-inf")), 3)


def _empty_results(q: Tensor, layout: str, lse: bool) -> Tuple[Tensor, Tensor]:
    """What the operator returns, unfilled: o laid out like q, lse (batch, heads, seq), or (0,) where it is not wanted."""
    seq, head = problems.SEQ_AND_HEAD[layout]
    shape = (q.shape[0], q.shape[head], q.shape[seq]) if lse else (0,)
    return torch.empty_like(q), q.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("weft::attention", mutates_args=())
def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
               lse: bool, schedule: str, fallback: bool) -> Tuple[Tensor, Tensor]:  # fmt: skip
    reason = _why_not(q) if fallback else None
    if reason is None:
        try:
            x, y, z = (_row_contiguous(x) for x in (q, k, v)) if fallback else (q, k, v)
            chosen = json.loads(schedule) if schedule else None
            o, sums = compute.attention_forward(x, y, z, causal, scale, offset, layout, lse, chosen)
            # The layout that the fake kernel promised.
            like = torch.empty_like(q) if o.stride() != torch.empty_like(q, device="meta").stride() else None
            return o if like is None else like.copy_(o), q.new_empty((0,), dtype=torch.float32) if sums is None else sums
        except (Unsupported, NotFound) as error:
            if not fallback:
                raise
            reason = str(error)
    announce(reason)
    o, sums = _empty_results(q, layout, lse)
    o.copy_(_torch_attention(q, k, v, causal, scale, offset, layout))
    return o, sums.copy_(_torch_lse(q, k, causal, scale, offset, layout)) if lse else sums


@_attention.register_fake
def _(q, k, v, causal, scale, offset, layout, lse, schedule, fallback):
    return _empty_results(q, layout, lse)


@torch.library.custom_op("weft::attention_backward", mutates_args=())
def _attention_backward(q: Tensor, k: Tensor, v: Tensor, grad_o: Tensor, o: Tensor, lse: Tensor, causal: bool,
                        scale: Optional[float], offset: Optional[int], layout: str) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k and v on the CPU, each packed."""
    q, k, v, o = (_dense(x) for x in (q, k, v, o))
    if grad_o.stride() != o.stride():
        grad_o = torch.empty_like(o).copy_(grad_o)
    grads = compute.attention_backward(q, k, v, grad_o, o, lse, causal, scale, offset, layout)
    grad_q, grad_k, grad_v = (x.contiguous() for x in grads)
    return grad_q, grad_k, grad_v


@_attention_backward.register_fake
def _(q, k, v, grad_o, o, lse, causal, scale, offset, layout):
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _keep(ctx, inputs, output):
    q, k, v, *ctx.rest = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx, grad_o, grad_lse):
    if grad_lse is not None:
        raise Unsupported("the gradient of lse is not there yet")
    q, k, v, o, lse = ctx.saved_tensors
    if grad_o is None:
        return (None,) * 10
    options = ctx.rest[:4]
    if q.device.type == "cpu" and _why_not(q) is None:
        return (*_attention_backward(q, k, v, grad_o, o, lse, *options), *(None,) * 7)
    # Outside of an operator, as torch keeps no gradients inside of one.
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        forward = _torch_attention(*leaves, *options)
    return (*torch.autograd.grad(forward, leaves, grad_o), *(None,) * 7)


_attention.register_autograd(_backward, setup_context=_keep)


@torch.compiler.assume_constant_result
def _text_of(schedule: schedules.ScheduleLike) -> str:
    """A schedule as the operator takes it: JSON."""
    fields = dataclasses.asdict(schedules.of(schedule))
    if callable(fields["order"]):
        raise Invalid("order is a function: a torch operator takes an array of tiles")
    return json.dumps(fields)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None,
              offset: Optional[int] = None, layout: str = "bshd", return_lse: bool = False,
              schedule: schedules.ScheduleLike = None, fallback: bool = True) -> Any:  # fmt: skip
    """weft.attention() as a torch operator, for torch.compile and autograd.

    Shapes and options are those of weft.attention(). With `fallback`, torch computes what weft cannot, which a warning says once
    for each reason, and a tensor whose last dimension is not contiguous is copied; without it, both raise.
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    problems.mask_of(causal, offset)
    if q.dim() != 4:
        raise Invalid(f"q has {q.dim()} dimensions, not the 4 of {layout}: {tuple(q.shape)}")
    text = "" if schedule is None else _text_of(schedule)
    needs_grad = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    o, lse = torch.ops.weft.attention(
        q, k, v, causal, scale, offset, layout, return_lse or (needs_grad and q.device.type == "cpu"), text, fallback
    )
    return (o, lse) if return_lse else o


def _matmul(a: Tensor, b: Tensor, schedule: schedules.ScheduleLike) -> Tensor:
    if frameworks.needs_grad((a, b)):
        raise Unsupported("a matrix product has no gradient yet: detach a and b, or use torch.no_grad()")
    return compute.matmul_forward(a, b, schedule)


# What weft.attention() and weft.matmul() call for tensors that torch differentiates or compiles.
OPERATORS = types.SimpleNamespace(attention=functools.partial(attention, fallback=False), matmul=_matmul)


def register_with_transformers(name: str = "weft") -> None:
    """Makes attn_implementation="weft" known to Hugging Face transformers."""
    transformers.register(name, attention, announce)
