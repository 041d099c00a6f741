"""Attention and matrix products on arrays of any framework."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Optional, Tuple

from . import _c, arrays, plans, problems, schedules
from .arrays import View
from .errors import Invalid, Unsupported


def _strides(view: View, name: str, layout: str) -> Tuple[int, int, int]:
    """(batch, seq, head) strides of a 4-D view. A dimension of length 1 may have any; it gets one that keeps rows aligned."""
    if 0 in view.shape:
        return 0, 0, 0  # packed; the library says which length is wrong
    if view.strides[3] != 1 and view.shape[3] != 1:
        raise Invalid(f"the last dimension of {name} has stride {view.strides[3]}, not 1: copy {name} to make it contiguous")
    seq, head = (1, 2) if layout == "bshd" else (2, 1)
    batch, seq, head = (view.strides[axis] if view.shape[axis] != 1 else view.shape[3] for axis in (0, seq, head))
    if batch == seq == head == 0:  # which would mean packed
        raise Invalid(f"{name} is one row, repeated: copy it to make it a whole array")
    return batch, seq, head


def problem_of(views: Tuple[View, ...], causal: bool, scale: Optional[float], offset: Optional[int],
               layout: str) -> _c.Attention:  # fmt: skip
    """The problem that q, k, v and o pose."""
    q, k, v, o = views
    number = problems.number_of("layout", layout, problems.LAYOUTS)
    for name, view in (("q", q), ("k", k), ("v", v)):
        if len(view.shape) != 4:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not the 4 of {layout}: {view.shape}")
    seq, head = (1, 2) if layout == "bshd" else (2, 1)
    if k.shape != v.shape:
        raise Invalid(f"k is {k.shape} and v is {v.shape}: they must be alike")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise Invalid(f"q is {q.shape} and k is {k.shape}: batch and head_dim must be alike")
    strides = [_c.Strides(*_strides(view, name, layout)) for name, view in (("q", q), ("k", k), ("v", v), ("o", o))]
    return _c.Attention(
        ctypes.sizeof(_c.Attention), q.shape[0], q.shape[head], k.shape[head], q.shape[seq], k.shape[seq], q.shape[3],
        problems.DTYPES.index(q.dtype), problems.mask_of(causal, offset),
        0 if offset is None else schedules.whole("offset", offset), problems.scale_of(scale), number, *strides,
    )  # fmt: skip


@functools.lru_cache(maxsize=512)
def _planned(forms: Tuple[tuple, ...], causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
             schedule: schedules.Schedule, kernel: Optional[str]) -> Tuple[plans.Plan, Tuple[int, int, int]]:  # fmt: skip
    """The plan for views of these forms (their shape, strides, dtype and device), and the shape of their lse; kept for the next
    call."""
    problem = problem_of(tuple(View(0, *form, None) for form in forms), causal, scale, offset, layout)
    plan = plans.Plan(problem, schedules.to_c(schedule), None, forms[0][3], kernel)
    return plan, (problem.batch, problem.heads, problem.seq)


@functools.lru_cache(maxsize=512)
def _planned_gemm(m: int, n: int, k: int, dtype: str, a: Tuple[int, int], b: Tuple[int, int],
                  schedule: schedules.Schedule) -> plans.Plan:  # fmt: skip
    """The plan for a product of matrices whose majors and leading dimensions are a and b; kept for the next call."""
    number = problems.DTYPES.index(dtype)
    size = ctypes.sizeof(_c.Gemm)
    problem = _c.Gemm(size, m, n, k, number, number, a[0], b[0], 0, a[1], b[1], n, 1.0, 0.0)
    return plans.Plan(problem, schedules.to_c(schedule), None, (plans.CPU, 0))


def attention_forward(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
                      return_lse: bool, schedule: schedules.ScheduleLike, kernel: Optional[str] = None) -> Tuple[Any, Any]:  # fmt: skip
    """(o, lse) of arrays that hold values; lse is None unless asked for. `kernel` is as for weft.plan()."""
    framework = arrays.framework_of(q=q, k=k, v=v)
    views = arrays.views_of(framework, q=q, k=k, v=v)
    if len(views[0].shape) != 4:
        raise Invalid(f"q has {len(views[0].shape)} dimensions, not the 4 of {layout}: {views[0].shape}")
    # Where q repeats itself, o cannot be laid out like it.
    o = framework.empty(q, views[0].shape) if 0 in views[0].strides else framework.empty_like(q)
    o_view = arrays.result_view(framework, o, "o")
    number = None if scale is None else problems.scale_of(scale)
    shift = None if offset is None else schedules.whole("offset", offset)
    forms = (views[0][1:5], views[1][1:5], views[2][1:5], o_view[1:5])
    plan, lse_shape = _planned(forms, bool(causal), number, shift, layout, schedules.of(schedule), kernel)
    device = views[0].device
    lse = lse_view = None
    if return_lse:
        lse = framework.empty(q, lse_shape, fp32=True)
        lse_view = arrays.result_view(framework, lse, "lse")
    data = _c.AttentionData(*(view.pointer for view in (*views, o_view)), lse_view and lse_view.pointer)
    if framework.capturing(device):
        plans.pin(plan)
    enqueue = _c.library.weft_plan_enqueue_attention
    _c.call(enqueue, plan._handle, ctypes.byref(data), framework.stream(device) or None)
    return framework.result(o), None if lse is None else framework.result(lse)


def _is_of(x: Any, package: str) -> bool:
    return type(x).__module__.partition(".")[0] == package


def _needs_grad(*tensors: Any) -> bool:
    return sys.modules["torch"].is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def _is_traced(*arrays: Any) -> bool:
    """Whether one of them is a JAX array without values."""
    return "jax" in sys.modules and any(_is_of(x, "jax") and isinstance(x, sys.modules["jax"].core.Tracer) for x in arrays)


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """O = softmax(scale Q K^T) V for each batch and head, on the device that the arrays are on.

    q            (batch, seq, heads, head_dim), or (batch, heads, seq, head_dim) with layout="bhsd"
    k, v         (batch, kv_seq, kv_heads, head_dim) likewise; kv_heads divides heads; head_dim is a multiple of 8, at most 256
    causal       query i sees keys 0 .. i + offset; offset None: the last query sees the last key (offset=0 is torch's is_causal)
    scale        None: 1 / sqrt(head_dim)
    return_lse   also return (batch, heads, seq) float32: the natural logarithm of each query's sum of exponentials
    schedule     a weft.Schedule, a dict of its fields, or None: chosen

    Arrays are fp32, fp16 or bf16, all of one framework, dtype and device; any strides, the last one 1; nothing is copied. The
    result is an array of that framework, shaped like q. On a GPU the work is put on the framework's current stream. A query
    that sees no key gets zeros and an LSE of -inf. torch tensors that need gradients get them; JAX arrays may be traced.
    """
    if _is_of(q, "torch"):
        torch = sys.modules["torch"]
        # Dynamo does not see through ctypes, and only the operator has a gradient and knows kinds of tensors without memory.
        if torch.compiler.is_compiling() or _needs_grad(q, k, v) or type(q) not in (torch.Tensor, torch.nn.Parameter):
            from . import torch as weft_torch

            return weft_torch.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout,
                                        return_lse=return_lse, schedule=schedule, fallback=False)  # fmt: skip
    elif _is_traced(q, k, v):
        from . import jax as weft_jax

        return weft_jax.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout,
                                  return_lse=return_lse, schedule=schedule)  # fmt: skip
    o, lse = attention_forward(q, k, v, causal, scale, offset, layout, return_lse, schedule)
    return (o, lse) if return_lse else o


def _major(view: View, name: str) -> Tuple[int, int]:
    """(major, leading dimension) of a 2-D view."""
    if len(view.shape) != 2:
        raise Invalid(f"{name} has {len(view.shape)} dimensions, not 2: {view.shape}")
    rows, cols = view.shape
    if 0 in view.shape:
        return 0, 0  # packed; the library says which length is wrong
    if (view.strides[1] == 1 or cols == 1) and (view.strides[0] >= cols or rows == 1):
        return 0, max(view.strides[0], cols) if rows != 1 else cols
    if (view.strides[0] == 1 or rows == 1) and (view.strides[1] >= rows or cols == 1):
        return 1, max(view.strides[1], rows) if cols != 1 else rows
    raise Invalid(f"{name} has strides {view.strides}: neither its rows nor its columns are contiguous and apart; copy it first")


def matmul(a: Any, b: Any, *, schedule: schedules.ScheduleLike = None) -> Any:
    """C = A B, accumulated in fp32.

    a         (m, k), row-major or column-major, with any leading dimension; a transposed view is taken as it is
    b         (k, n) likewise
    schedule  a weft.Schedule, a dict of its fields, or None: chosen

    Returns C (m, n), packed, row-major, an array of the caller's framework and dtype. On the CPU.
    """
    if _is_traced(a, b):
        from . import jax as weft_jax

        return weft_jax.matmul(a, b, schedule=schedule)
    if _is_of(a, "torch") and _needs_grad(a, b):
        raise Unsupported("a matrix product has no gradient yet: detach a and b, or use torch.no_grad()")
    framework = arrays.framework_of(a=a, b=b)
    views = arrays.views_of(framework, a=a, b=b)
    a_order, b_order = _major(views[0], "a"), _major(views[1], "b")
    if views[0].device[0] != plans.CPU:
        raise Unsupported("there is no CUDA kernel for a matrix product yet")
    if views[0].shape[1] != views[1].shape[0]:
        raise Invalid(f"a is {views[0].shape} and b is {views[1].shape}: a's columns must be b's rows")
    (m, k), n = views[0].shape, views[1].shape[1]
    plan = _planned_gemm(m, n, k, views[0].dtype, a_order, b_order, schedules.of(schedule))
    c = framework.empty(a, (m, n))
    data = _c.GemmData(views[0].pointer, views[1].pointer, arrays.result_view(framework, c, "c").pointer)
    _c.call(_c.library.weft_plan_run_gemm, plan._handle, ctypes.byref(data))
    return framework.result(c)
