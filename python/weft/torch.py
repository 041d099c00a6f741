# SPDX-License-Identifier: Apache-2.0
"""Weft in torch: an operator with a fake kernel and a gradient, and transformers' attention.

The operator torch.ops.weft.attention is opaque to torch.compile, which sees its shapes through the fake kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import warnings
from typing import Any, Dict, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from . import by_torch, caches, compute, features, frameworks, grouped, operations, problems, products, schedules, transformers
from .arrays import transposed
from .errors import Invalid, NotFound, Unsupported
from .frameworks import TORCH

__all__ = ["attention", "register_with_transformers"]

_announced: Set[str] = set()
_STRIDED = ("bias", "qv")  # of what is beside q, k and v, what may have any strides and dtype
_DTYPES = {dtype: getattr(torch, name) for dtype, name in frameworks.NUMPY_NAMES.items()}


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
    if q.dim() == 4 and q.shape[3] > problems.MAX_HEAD_DIM:
        return f"head_dim {q.shape[3]} is above {problems.MAX_HEAD_DIM}"
    if q.device.type not in ("cpu", "cuda"):
        return f"weft does not run on {q.device.type}"
    return None


@torch.compiler.assume_constant_result
def _is_capable(index: Optional[int]) -> bool:
    """Whether a GPU is of compute capability 8.0 or later."""
    return torch.cuda.get_device_capability(index) >= (8, 0)


def _has_gradient(q: Tensor, v: Tensor) -> bool:
    """Whether weft differentiates an attention of tensors like these: on a GPU, of 16 bits and head dims up to 256."""
    if q.device.type != "cuda":
        return q.device.type == "cpu"
    return q.dtype in (torch.float16, torch.bfloat16) and max(q.shape[-1], v.shape[-1]) <= 256 and _is_capable(q.device.index)


def row_contiguous(x: Tensor) -> Tensor:
    """x, or a copy where its last dimension is not contiguous, it is one row repeated, or a GPU could not read whole vectors."""
    if x.stride(-1) != 1 or not any(x.stride()[:-1]):
        return x.contiguous()
    return x.clone() if x.is_cuda and x.data_ptr() % 16 else x


def _dense(x: Tensor) -> Tensor:
    """x, or a copy where it has gaps or repeats itself: a gradient is laid out like it."""
    return x if x.is_contiguous() or (x.dim() == 4 and x.transpose(1, 2).is_contiguous()) else x.contiguous()


def _empty_results(q: Tensor, v: Tensor, layout: str, packed: bool, lse: bool, most: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """What the operator returns, unfilled: o laid out like q, lse and max (batch, heads, seq), or (0,) where they are not wanted."""
    seq, head = problems.SEQ_AND_HEAD[layout]
    rows = (q.shape[head - 1], q.shape[seq - 1]) if packed and q.dim() == 3 else (q.shape[0], q.shape[head], q.shape[seq])
    o = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, *(q.new_empty(rows if wanted else (0,), dtype=torch.float32) for wanted in (lse, most))


def _asked(arrays: Sequence[Optional[Tensor]], window: Optional[Sequence[int]], block_mask: Optional[Sequence[int]], chunk: int,
           prefix: int, softcap: float, dropout: float, seed: int, most: bool) -> Optional[features.Asked]:  # fmt: skip
    """What the operator's arguments ask for; None: nothing."""
    given = {name: x if name in _STRIDED else x.contiguous() for name, x in zip(features.ARRAYS, arrays) if x is not None}
    numbers = features.Features(None if window is None else tuple(window), chunk, prefix, softcap, dropout, most,
                                block_mask=tuple(block_mask or ()))  # fmt: skip
    return features.Asked(numbers, given, seed & (2**64 - 1)) if given or numbers != features.Features() else None


@torch.library.custom_op("weft::attention", mutates_args=())
def _attention(q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor], alibi: Optional[Tensor], bias: Optional[Tensor],
               q_starts: Optional[Tensor], kv_starts: Optional[Tensor], q_used: Optional[Tensor], kv_used: Optional[Tensor],
               kv_pad: Optional[Tensor], block_starts: Optional[Tensor], block_list: Optional[Tensor],
               block_bits_at: Optional[Tensor], block_bits: Optional[Tensor], tree: Optional[Tensor], qv: Optional[Tensor],
               causal: bool, scale: Optional[float], offset: Optional[int], layout: str, window: Optional[Sequence[int]],
               block_mask: Optional[Sequence[int]], chunk: int, prefix: int, softcap: float, dropout: float, seed: int, lse: bool,
               most: bool, schedule: str, fallback: bool) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    arrays = (sinks, alibi, bias, q_starts, kv_starts, q_used, kv_used, kv_pad, block_starts, block_list, block_bits_at, block_bits, tree,
              row_contiguous(qv) if fallback and qv is not None else qv)  # fmt: skip
    asked = _asked(arrays, window, block_mask, chunk, prefix, softcap, dropout, seed, most)
    plain = fallback and asked is None
    reason = _why_not(q) if plain else None
    if reason is None:
        try:
            x, y, z = (row_contiguous(x) for x in (q, k, v)) if fallback else (q, k, v)
            chosen = json.loads(schedule) if schedule else None
            o, sums, largest = compute.attention_forward(x, y, z, causal, scale, offset, layout, lse, chosen, None, asked)
            # The layout that the fake kernel promised.
            if o.shape == q.shape and o.stride() != torch.empty_like(q, device="meta").stride():
                o = torch.empty_like(q).copy_(o)
            return o, *(q.new_empty((0,), dtype=torch.float32) if x is None else x for x in (sums, largest))
        except (Unsupported, NotFound) as error:
            if not plain:
                raise
            reason = str(error)
    announce(reason)
    o, sums, largest = _empty_results(q, v, layout, False, lse, False)
    o.copy_(by_torch.attention(q, k, v, causal, scale, offset, layout))
    return o, sums.copy_(by_torch.lse(q, k, causal, scale, offset, layout)) if lse else sums, largest


@_attention.register_fake
def _(q, k, v, sinks, alibi, bias, q_starts, kv_starts, q_used, kv_used, kv_pad, block_starts, block_list, block_bits_at, block_bits, tree,
      qv, causal, scale, offset, layout, window, block_mask, chunk, prefix, softcap, dropout, seed, lse, most, schedule, fallback):  # fmt: skip
    return _empty_results(q, v, layout, q_starts is not None, lse, most)


@torch.library.custom_op("weft::attention_backward", mutates_args=())
def _attention_backward(q: Tensor, k: Tensor, v: Tensor, grad_o: Tensor, o: Tensor, lse: Tensor, sinks: Optional[Tensor],
                        alibi: Optional[Tensor], bias: Optional[Tensor], q_starts: Optional[Tensor], kv_starts: Optional[Tensor],
                        q_used: Optional[Tensor], kv_used: Optional[Tensor], kv_pad: Optional[Tensor],
                        block_starts: Optional[Tensor], block_list: Optional[Tensor], block_bits_at: Optional[Tensor],
                        block_bits: Optional[Tensor], tree: Optional[Tensor], causal: bool, scale: Optional[float],
                        offset: Optional[int], layout: str, window: Optional[Sequence[int]], block_mask: Optional[Sequence[int]],
                        chunk: int, prefix: int, softcap: float, dropout: float, seed: int,
                        wants_bias: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k and v, each packed, of sinks, (0,) without them, and of a bias before it is broadcast, (0,) unless wanted."""
    arrays = (sinks, alibi, bias, q_starts, kv_starts, q_used, kv_used, kv_pad, block_starts, block_list, block_bits_at, block_bits, tree)
    asked = _asked(arrays, window, block_mask, chunk, prefix, softcap, dropout, seed, False)
    q, k, v, o = (row_contiguous(_dense(x)) for x in (q, k, v, o))
    if grad_o.stride() != o.stride() or (grad_o.is_cuda and grad_o.data_ptr() % 16):
        grad_o = torch.empty_like(o).copy_(grad_o)
    grads = compute.attention_backward(q, k, v, grad_o, o, lse, causal, scale, offset, layout, asked, wants_bias)
    grad_q, grad_k, grad_v, *others = (x.contiguous() for x in grads)
    none = (q.new_empty((0,), dtype=torch.float32) for _ in range(2))
    grad_sinks = next(none) if sinks is None else others[0]
    return grad_q, grad_k, grad_v, grad_sinks, others[-1] if wants_bias else next(none)


@_attention_backward.register_fake
def _(q, k, v, grad_o, o, lse, sinks, alibi, bias, q_starts, *rest):
    layout, wants_bias = rest[-9], rest[-1]
    seq, head = problems.SEQ_AND_HEAD[layout]
    apart = 4 - q.dim()  # a packed batch may leave out the first dimension
    pairs = (q.shape[0] if q.dim() == 4 else 1, q.shape[head - apart], q.shape[seq - apart], k.shape[seq - apart])
    grads = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return (*grads, q.new_empty((0,) if sinks is None else sinks.shape, dtype=torch.float32),
            q.new_empty(pairs if wants_bias else (0,), dtype=torch.float32))  # fmt: skip


_NO_SECOND = "an attention has no second derivatives"


def _second(ctx, *grads):
    raise Unsupported(_NO_SECOND)


_attention_backward.register_autograd(_second)


def _keep(ctx, inputs, output):
    count = 3 + len(features.ARRAYS)
    ctx.rest = inputs[count:]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:count], *output[:2])


def _by_weft(tensors: Sequence[Tensor], grad_o: Tensor, needs: Dict[str, bool], numbers: Sequence[Any],
             inputs: Sequence[Optional[Tensor]]) -> Sequence[Optional[Tensor]]:  # fmt: skip
    """The gradients of q, k, v and what is beside them; tensors: q, k, v, o and lse."""
    q, k, v, o, lse = tensors
    *grads, grad_sinks, grad_bias = _attention_backward(q, k, v, grad_o, o, lse, *inputs[:-1], *numbers, needs["bias"])  # without qv
    given = {"sinks": grad_sinks if needs["sinks"] else None}
    if needs["bias"]:
        bias = dict(zip(features.ARRAYS, inputs))["bias"]
        given["bias"] = grad_bias.sum_to_size(bias.shape).to(bias.dtype)
    return (*grads, *(given.get(name) for name in features.ARRAYS))


def _backward(ctx, grad_o, grad_lse, grad_max):
    if grad_lse is not None or grad_max is not None:
        raise Unsupported("the gradient of lse is not there yet" if grad_max is None else "the gradient of max is not there")
    *inputs, o, lse = ctx.saved_tensors
    (q, k, v), arrays, numbers = inputs[:3], dict(zip(features.ARRAYS, inputs[3:])), ctx.rest[:11]
    none, fallback = (None,) * len(ctx.rest), ctx.rest[-1]
    if grad_o is None:
        return (*(None,) * len(inputs), *none)
    needs = dict(zip(features.ARRAYS, ctx.needs_input_grad[3:]))
    if needs["alibi"]:
        raise Unsupported("the gradient of alibi is not there")
    if arrays["qv"] is not None:
        raise Unsupported("an attention with qv has no gradient")
    asked = _asked(inputs[3:], *numbers[4:], False)
    if _has_gradient(q, v) and (asked is not None or _why_not(q) is None):
        try:
            return (*_by_weft((q, k, v, o, lse), grad_o, needs, numbers, inputs[3:]), *none)
        except (Unsupported, NotFound) as error:  # as the forward pass did: a build without kernels for the GPU
            if asked is not None or not fallback:
                raise
            announce(str(error))
    if asked is not None:
        raise Unsupported(f"on {q.device.type}, the gradient of an attention with {', '.join(features.named(asked))} is there for float16 "
                          f"and bfloat16 with head dims up to 256, not for {q.dtype} with {max(q.shape[-1], v.shape[-1])}")  # fmt: skip
    if torch.is_grad_enabled():  # to create a graph, of which the gradients below would be no part
        raise Unsupported(_NO_SECOND)
    # Outside of an operator, as torch keeps no gradients inside of one.
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        forward = by_torch.attention(*leaves, *numbers[:4])
    return (*torch.autograd.grad(forward, leaves, grad_o), *(None,) * len(arrays), *none)


_attention.register_autograd(_backward, setup_context=_keep)


# An attention that writes to its arguments: to k and v, which are a KV cache, and its result to `out`. It has no gradient.
_IN_PLACE = f"""(Tensor q, Tensor(a!) k, Tensor(b!) v, Tensor(c!) out,
{', '.join(f'Tensor? {name}' for name in (*features.ARRAYS, *caches.ARRAYS))},
bool causal, float? scale, int? offset, str layout, int[]? window, int[]? block_mask, int chunk, int prefix, float softcap,
float dropout, int seed, int q_most, bool interleaved, bool lse, bool most, str schedule) -> (Tensor, Tensor)"""


def _attention_in_place(q, k, v, out, *rest, prepared=None):
    arrays, (causal, scale, offset, layout, window, block_mask, chunk, prefix, softcap, dropout, seed, q_most, interleaved, lse,
             most, schedule) = rest[:-16], rest[-16:]  # fmt: skip
    beside = _asked(arrays[: len(features.ARRAYS)], window, block_mask, chunk, prefix, softcap, dropout, seed, most)
    numbers = (beside.features if beside else features.Features())._replace(rotary_interleaved=interleaved, q_most=q_most)
    cache = {name: x for name, x in zip(caches.ARRAYS, arrays[len(features.ARRAYS) :]) if x is not None}
    asked = features.Asked(numbers, beside.arrays if beside else {}, seed & (2**64 - 1), cache, out, prepared)
    chosen = json.loads(schedule) if schedule else None
    _, *others = compute.attention_forward(q, k, v, causal, scale, offset, layout, lse, chosen, None, asked)
    sums, largest = (q.new_empty((0,), dtype=torch.float32) if x is None else x for x in others)
    return sums, largest


_in_place = torch.library.custom_op("weft::attention_in_place", _attention_in_place, mutates_args=("k", "v", "out"), schema=_IN_PLACE)


@_in_place.register_fake
def _(q, k, v, out, *rest):
    starts, layout, lse, most = dict(zip(features.ARRAYS, rest))["q_starts"], rest[-13], rest[-3], rest[-2]
    return _empty_results(q, v, layout, starts is not None, lse, most)[1:]


def _apply_in_place(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
                    return_lse: bool, text: str, asked: features.Asked) -> Any:  # fmt: skip
    """weft.attention() with a KV cache or `out`."""
    tensors, numbers = _tensors(q, asked), asked.features
    given = (q, k, v, *asked.cache.values(), *filter(lambda x: x is not None, (*tensors.values(), asked.out)))
    if frameworks.needs_grad(given):
        what = ", ".join((*caches.named(asked.cache), *(() if asked.out is None else ("out",))))
        raise Unsupported(f"an attention with {what} has no gradient: use torch.no_grad() or torch.inference_mode()")
    out = _empty_results(q, v, layout, True, False, False)[0] if asked.out is None else asked.out
    run = torch.ops.weft.attention_in_place
    if asked.prepared is not None and not torch.compiler.is_compiling():  # an operator takes tensors and numbers only
        run = functools.partial(_attention_in_place, prepared=asked.prepared)
    lse, most = run(
        q, k, v, out, *tensors.values(), *(asked.cache.get(name) for name in caches.ARRAYS), causal, scale, offset, layout, numbers.window,
        numbers.block_mask, numbers.chunk, numbers.prefix, numbers.softcap, numbers.dropout, asked.seed - (asked.seed >> 63 << 64),
        numbers.q_most, numbers.rotary_interleaved, return_lse, numbers.max, text,
    )  # fmt: skip
    return compute.results(out, lse if return_lse else None, most if numbers.max else None)


@torch.compiler.assume_constant_result
def _text_of(schedule: schedules.ScheduleLike) -> str:
    """A schedule as the operator takes it: JSON."""
    fields = dataclasses.asdict(schedules.of(schedule))
    if callable(fields["order"]):
        raise Invalid("order is a function: a torch operator takes an array of tiles")
    return json.dumps(fields)


def _tensors(q: Tensor, asked: Optional[features.Asked]) -> Dict[str, Optional[Tensor]]:
    """The operator's tensors beside q, k and v, each of the dtype that weft takes."""
    given = {} if asked is None else {**asked.arrays, **{name: TORCH.integers(values, q) for name, values in asked.features.known}}
    for name, x in given.items():
        wanted = x.dtype if name in _STRIDED else _DTYPES[features.ARRAYS[name][0]]
        if name == "bias" and x.dtype not in (torch.bool, torch.float32, q.dtype):
            wanted = q.dtype
        given[name] = x if x.dtype == wanted else x.to(wanted)
    return {name: given.get(name) for name in features.ARRAYS}


def _apply(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
           layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None,
           asked: Optional[features.Asked] = None, fallback: bool = False) -> Any:  # fmt: skip
    problems.number_of("layout", layout, problems.LAYOUTS)
    numbers = features.Features() if asked is None else asked.features
    problems.mask_of(causal, offset, numbers.window, numbers.chunk)
    text = "" if schedule is None else _text_of(schedule)
    if asked is not None and (asked.cache or asked.out is not None):
        return _apply_in_place(q, k, v, causal, scale, offset, layout, return_lse, text, asked)
    tensors = _tensors(q, asked)
    if q.dim() != 4 and not (q.dim() == 3 and tensors["q_starts"] is not None):
        raise Invalid(f"q has {q.dim()} dimensions, not the 4 of {layout}: {tuple(q.shape)}")
    width, qv = v.shape[-1], tensors["qv"]
    if q.device.type == "cuda" and (q.shape[-1] % 8 or width % 8):  # a GPU reads whole vectors
        scale = (q.shape[-1] + (0 if qv is None else width)) ** -0.5 if scale is None else scale
        q, k, v, tensors["qv"] = (x if x is None else torch.nn.functional.pad(x, (0, -x.shape[-1] % 8)) for x in (q, k, v, qv))
    needs_grad = frameworks.needs_grad((q, k, v, *filter(lambda x: x is not None, tensors.values())))
    if needs_grad and qv is not None:
        raise Unsupported("an attention with qv has no gradient: use torch.no_grad() or torch.inference_mode()")
    seed = 0 if asked is None else asked.seed - (asked.seed >> 63 << 64)
    o, lse, most = torch.ops.weft.attention(
        q, k, v, *tensors.values(), causal, scale, offset, layout, numbers.window, numbers.block_mask, numbers.chunk,
        numbers.prefix, numbers.softcap, numbers.dropout, seed, return_lse or (needs_grad and _has_gradient(q, v)), numbers.max, text, fallback,
    )  # fmt: skip
    return compute.results(o if o.shape[-1] == width else o[..., :width], lse if return_lse else None, most if numbers.max else None)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None,
              offset: Optional[int] = None, layout: str = "bshd", return_lse: bool = False,
              schedule: schedules.ScheduleLike = None, fallback: bool = True, **options: Any) -> Any:  # fmt: skip
    """weft.attention() as a torch operator, for torch.compile and autograd.

    Shapes and options are those of weft.attention(), window to return_max among them; sinks, alibi and lengths may be of any dtype.
    sinks and a bias get gradients, too; with qv there are none. With `fallback`, torch computes what weft cannot, as far as it is plain, which a warning says
    once for each reason, and a tensor whose last dimension is not contiguous is copied; without it, both raise.

    >>> q, k, v = (torch.randn(1, 128, 4, 64, requires_grad=True) for _ in range(3))
    >>> weft.torch.attention(q, k, v, causal=True).sum().backward()
    >>> q.grad.shape
    torch.Size([1, 128, 4, 64])
    """
    asked = features.asked(q, **options) if options else None
    return _apply(q, k, v, causal, scale, offset, layout, return_lse, schedule, asked, fallback)


_ACTIVATIONS: Dict[str, Any] = {
    "identity": lambda z: z,
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def _matrix(x: Tensor) -> Tensor:
    """x, or a copy where neither its rows nor its columns are contiguous and apart."""
    rows, cols = x.shape
    by_rows, by_cols = x.stride(1) == 1 and x.stride(0) >= cols, x.stride(0) == 1 and x.stride(1) >= rows
    return x if (by_rows or by_cols) and not (x.is_cuda and x.data_ptr() % 16) else x.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("weft::matmul", mutates_args=())
def _product(a: Tensor, b: Tensor, bias: Optional[Tensor], residual: Optional[Tensor], scale: Optional[Tensor],
             row_scale: Optional[Tensor], column_scale: Optional[Tensor], activation: str, gated: bool, alpha: float, fp32: bool,
             column_sums: bool, precision: str, schedule: str) -> Tuple[Tensor, Tensor]:  # fmt: skip
    """C, packed, and the sums of its columns, (0,) where they are not wanted."""
    given = zip(operations.GEMM_ARRAYS, (bias, residual, scale, row_scale, column_scale))
    arrays = {name: x if name == "residual" else x.contiguous() for name, x in given if x is not None}
    options = operations.GemmOptions(activation, gated, alpha, fp32, column_sums, precision)
    made = compute.matmul_forward(_matrix(a), _matrix(b), json.loads(schedule) if schedule else None, arrays,
                                  None if options == operations.PLAIN else options)  # fmt: skip
    c, sums = made if column_sums else (made, a.new_empty((0,), dtype=torch.float32))
    return c.contiguous(), sums


@_product.register_fake
def _(a, b, bias, residual, scale, row_scale, column_scale, activation, gated, alpha, fp32, column_sums, precision, schedule):
    columns = b.shape[1] // 2 if gated else b.shape[1]
    return (a.new_empty((a.shape[0], columns), dtype=torch.float32 if fp32 else a.dtype),
            a.new_empty((columns if column_sums else 0,), dtype=torch.float32))  # fmt: skip


def _keep_product(ctx, inputs, output):
    a, b, bias, _, *scales, _, _, ctx.alpha, _, _, ctx.precision, _ = inputs
    ctx.save_for_backward(a, b, bias, *scales)


def _maths(precision: str) -> products.Maths:
    """For gradients of a product of that precision."""
    how = operations.PLAIN._replace(precision=precision)

    def multiply(left: products.Matrix, right: products.Matrix) -> Tensor:
        a, b = (x.array.t() if x.transposed else x.array for x in (left, right))
        return _product(a, b, None, None, None, None, None, *how, "")[0]

    return products.Maths(multiply, lambda x, like: x.to(like.dtype), lambda x: x.sum(0, dtype=torch.float32))


def _product_backward(ctx, grad, grad_sums):
    a, b, *others = ctx.saved_tensors
    beside = {name: x for name, x in zip(("bias", *products.SCALES), others) if x is not None}
    wanted = [name for name, needed in zip(("a", "b", "bias"), ctx.needs_input_grad) if needed]
    found = products.gradients(_maths(ctx.precision), products.Matrix(a), products.Matrix(b), beside, ctx.alpha, grad, wanted)
    return *(found.get(name) for name in ("a", "b", "bias")), *(None,) * 11


_product.register_autograd(_product_backward, setup_context=_keep_product)


def _matmul(a: Tensor, b: Tensor, transpose_b: bool, schedule: schedules.ScheduleLike, arrays: Dict[str, Tensor],
            options: Optional[operations.GemmOptions]) -> Any:  # fmt: skip
    """weft.matmul() of tensors that torch differentiates or compiles. Where it differentiates, z is kept for the backward pass, so that
    torch passes it through the activation, and adds the residual."""
    how, given, b = options or operations.PLAIN, dict(arrays), transposed(b) if transpose_b else b
    text = "" if schedule is None else _text_of(schedule)
    differentiates = frameworks.needs_grad((a, b, *given.values()))
    if differentiates and frameworks.needs_grad([given[name] for name in products.SCALES if name in given]):
        raise Unsupported("scales of a product have no gradient: detach them")
    residual = given.pop("residual", None) if differentiates else None
    done = products.linear_part(how) if differentiates else how
    c, sums = torch.ops.weft.matmul(a, b, *(given.get(name) for name in operations.GEMM_ARRAYS), *done, text)
    if differentiates:
        c = products.activated(c, how, _ACTIVATIONS)
        c = c if residual is None else c + residual
        sums = c.sum(0, dtype=torch.float32) if how.column_sums else sums
    return (c, sums) if how.column_sums else c


@torch.library.custom_op("weft::grouped_matmul", mutates_args=())
def _grouped(a: Tensor, b: Tensor, bounds: Tensor, known: Optional[Sequence[int]], masked: bool, alpha: float, schedule: str) -> Tensor:
    out = a.new_zeros((*a.shape[:-1], b.shape[-1]))  # rows of no group are 0
    return grouped.forward(row_contiguous(a), b, bounds, masked, alpha, json.loads(schedule) if schedule else None, out)


@_grouped.register_fake
def _(a, b, bounds, known, masked, alpha, schedule):
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


def _aligned(x: Tensor) -> Tensor:
    """x, or a copy where a GPU could not read whole vectors."""
    return x.clone() if x.is_cuda and x.data_ptr() % 16 else x


@torch.library.custom_op("weft::grouped_matmul_weights", mutates_args=())
def _grouped_weights(a: Tensor, grad: Tensor, bounds: Tensor, known: Optional[Sequence[int]], groups: int, masked: bool,
                     alpha: float) -> Tensor:  # fmt: skip
    """The gradient of b: A_g^T times that of C_g, a product for each group."""
    numbers = bounds.tolist() if known is None else known
    result = a.new_zeros((groups, a.shape[-1], grad.shape[-1]))
    for g in range(groups):
        rows = slice(0, numbers[g]) if masked else slice(numbers[g], numbers[g + 1])
        x, y = (of[g, rows] if masked else of[rows] for of in (a, grad))
        if x.shape[0] > 0:
            result[g] = compute.matmul_forward(_aligned(row_contiguous(x)).t(), _aligned(row_contiguous(y)), None)
    return result if alpha == 1 else result.mul_(alpha)


@_grouped_weights.register_fake
def _(a, grad, bounds, known, groups, masked, alpha):
    return a.new_empty((groups, a.shape[-1], grad.shape[-1]))


def _keep_groups(ctx, inputs, output):
    a, b, bounds, ctx.known, ctx.masked, ctx.alpha, _ = inputs
    ctx.save_for_backward(a, b, bounds)


def _grouped_backward(ctx, grad):
    a, b, bounds = ctx.saved_tensors
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = _grouped(grad, b.transpose(1, 2), bounds, ctx.known, ctx.masked, ctx.alpha, "")
    if ctx.needs_input_grad[1]:
        grad_b = _grouped_weights(a, grad, bounds, ctx.known, b.shape[0], ctx.masked, ctx.alpha)
    return grad_a, grad_b, None, None, None, None, None


_grouped.register_autograd(_grouped_backward, setup_context=_keep_groups)


def _apply_grouped(a: Tensor, b: Tensor, transpose_b: bool, bounds: Tensor, known: Optional[Sequence[int]], masked: bool, alpha: float,
                   schedule: schedules.ScheduleLike, out: Optional[Tensor]) -> Tensor:  # fmt: skip
    if out is not None:
        raise Unsupported("a grouped product with out has no gradient, and torch does not compile it: use torch.no_grad()")
    if a.is_cuda and known is None and frameworks.needs_grad((b,)):
        raise Unsupported("on a GPU, the gradient of b needs the rows of each group: give starts or counts as a list, or detach b")
    b = transposed(b) if transpose_b else b
    return torch.ops.weft.grouped_matmul(a, b, bounds, known, masked, alpha, "" if schedule is None else _text_of(schedule))


# What weft.attention(), weft.matmul() and weft.grouped_matmul() call for tensors that torch differentiates or compiles.
OPERATORS = types.SimpleNamespace(attention=_apply, matmul=_matmul, grouped_matmul=_apply_grouped)


def register_with_transformers(name: str = "weft") -> None:
    """Makes attn_implementation="weft" known to Hugging Face transformers.

    Continuous batching (generate_batch) takes no names but transformers' own. With the name "paged|eager", weft takes the place of
    transformers' function there.

    >>> weft.torch.register_with_transformers()  # doctest: +SKIP
    >>> model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="weft")  # doctest: +SKIP
    """
    transformers.register(name, attention)
