"""Attention and matrix products on arrays of any framework."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _c, arrays, plans, problems, schedules
from .arrays import View
from .errors import Invalid, Unsupported

_enqueue_attention = _c.library.weft_plan_enqueue_attention
_enqueue_gemm = _c.library.weft_plan_enqueue_gemm


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


def _major(view: View, name: str) -> Tuple[int, int]:
    """(major, leading dimension) of a 2-D view."""
    if len(view.shape) != 2:
        raise Invalid(f"{name} has {len(view.shape)} dimensions, not 2: {view.shape}")
    (rows, cols), (down, along) = view.shape, view.strides
    if 0 in view.shape:
        return 0, 0  # packed; the library says which length is wrong
    # One row or column has any leading dimension: it gets one that keeps vectors aligned.
    if rows == 1 and (along == 1 or cols == 1):
        return 0, -(-cols // 8) * 8
    if cols == 1 and down == 1:
        return 1, -(-rows // 8) * 8
    if (along == 1 or cols == 1) and down >= cols:
        return 0, down
    if (down == 1 or rows == 1) and along >= rows:
        return 1, along
    raise Invalid(f"{name} has strides {view.strides}: neither its rows nor its columns are contiguous and apart; copy it first")


def gemm_of(a: View, b: View) -> _c.Gemm:
    """The problem that a and b pose; C is packed and row-major."""
    (a_major, lda), (b_major, ldb) = _major(a, "a"), _major(b, "b")
    if a.shape[1] != b.shape[0]:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: a's columns must be b's rows")
    (m, k), n, number = a.shape, b.shape[1], problems.DTYPES.index(a.dtype)
    return _c.Gemm(ctypes.sizeof(_c.Gemm), m, n, k, number, number, a_major, b_major, 0, lda, ldb, n, 1.0, 0.0, 1)


@functools.lru_cache(maxsize=512)
def _planned_gemm(a: tuple, b: tuple, schedule: schedules.Schedule) -> Tuple[plans.Plan, Tuple[int, int], int]:
    """The plan for a product of views of these forms, the shape of its result and the distance of its rows; kept for the next call."""
    left, right = View(0, *a, None), View(0, *b, None)
    problem = gemm_of(left, right)
    # A GPU writes rows of C in whole vectors of 16 bytes.
    row = problem.n if left.device[0] == plans.CPU or left.dtype == "fp32" else -(-problem.n // 8) * 8
    problem.ldc = row
    return plans.Plan(problem, schedules.to_c(schedule), None, left.device), (problem.m, problem.n), row


class _ReadyGemm(NamedTuple):
    """What a product of matrices of a known form needs."""

    plan: plans.Plan
    shape: Tuple[int, int]
    row: int  # distance of the rows of C
    device: Tuple[int, int]
    size: int  # bytes of an element


class _Ready(NamedTuple):
    """What an attention of arrays of a known form needs."""

    plan: plans.Plan
    lse_shape: Tuple[int, ...]
    device: Tuple[int, int]
    o_like_q: bool
    size: int  # bytes of an element


_ready: Dict[tuple, Any] = {}  # by the forms of the arrays and the options; the newest last
_MOST_READY = 512


_remembering = threading.Lock()


def _remember(key: Optional[tuple], ready: Any) -> None:
    if key is not None:
        with _remembering:
            _ready[key] = ready
            if len(_ready) > _MOST_READY:
                del _ready[next(iter(_ready))]


def _make_ready(framework: arrays.Numpy, q: Any, k: Any, v: Any, options: tuple, schedule: schedules.Schedule,
                kernel: Optional[str]) -> Tuple[_Ready, Tuple[View, ...], Any]:  # fmt: skip
    """The plan, the views of q, k, v and o, and o, from arrays of a form that is new."""
    views = arrays.views_of(framework, q=q, k=k, v=v)
    if len(views[0].shape) != 4:
        raise Invalid(f"q has {len(views[0].shape)} dimensions, not the 4 of {options[3]}: {views[0].shape}")
    # Where q repeats itself, o cannot be laid out like it.
    o_like_q = 0 not in views[0].strides
    o = framework.empty_like(q) if o_like_q else framework.empty(q, views[0].shape)
    views = (*views, arrays.result_view(framework, o, "o"))
    plan, lse_shape = _planned(tuple(view[1:5] for view in views), *options, schedule, kernel)
    return _Ready(plan, lse_shape, views[0].device, o_like_q, 4 if views[0].dtype == "fp32" else 2), views, o


def attention_forward(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
                      return_lse: bool, schedule: schedules.ScheduleLike, kernel: Optional[str] = None) -> Tuple[Any, Any]:  # fmt: skip
    """(o, lse) of arrays that hold values; lse is None unless asked for. `kernel` is as for weft.plan()."""
    framework = arrays.framework_of(q=q, k=k, v=v)
    chosen = schedules.of(schedule)
    options = (bool(causal), None if scale is None else problems.scale_of(scale),
               None if offset is None else schedules.whole("offset", offset), layout)  # fmt: skip
    forms = framework.form(q), framework.form(k), framework.form(v)
    key = None if None in forms else (framework.name, forms, options, chosen, kernel)
    ready = None if key is None else _ready.get(key)
    if ready is not None:
        pointers = [framework.pointer(q), framework.pointer(k), framework.pointer(v)]
        if (pointers[0] | pointers[1] | pointers[2]) % ready.size:
            ready = None  # not aligned, which view() refuses
    if ready is not None:
        o = framework.empty_like(q) if ready.o_like_q else framework.empty(q, tuple(q.shape))
        pointers.append(framework.pointer(o))
    else:
        ready, views, o = _make_ready(framework, q, k, v, options, chosen, kernel)
        pointers = [view.pointer for view in views]
        _remember(key, ready)
    lse = lse_view = None
    if return_lse:
        lse = framework.empty(q, ready.lse_shape, fp32=True)
        lse_view = arrays.result_view(framework, lse, "lse")
    if framework.capturing(ready.device):
        plans.pin(ready.plan)
    data = _c.AttentionData(*pointers, lse_view and lse_view.pointer)
    _c.call(_enqueue_attention, ready.plan._handle, ctypes.byref(data), framework.stream(ready.device) or None)
    return framework.result(o), None if lse is None else framework.result(lse)


def _is_of(kind: type, package: str) -> bool:
    return kind.__module__.partition(".")[0] == package


def _needs_grad(*tensors: Any) -> bool:
    for x in tensors:
        if getattr(x, "requires_grad", False):
            return sys.modules["torch"].is_grad_enabled()
    return False


@functools.lru_cache(maxsize=256)
def _is_traced(*kinds: type) -> bool:
    """Whether arrays of one of these types are JAX's without values."""
    return any(_is_of(kind, "jax") and issubclass(kind, sys.modules["jax"].core.Tracer) for kind in kinds)


def _has_ffi() -> bool:
    """Whether JAX arrays go through XLA."""
    from . import jax as weft_jax

    return weft_jax.why_no_ffi() is None


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
    if _is_of(type(q), "torch"):
        torch = sys.modules["torch"]
        # Dynamo does not see through ctypes, and only the operator has a gradient and knows kinds of tensors without memory.
        if torch.compiler.is_compiling() or _needs_grad(q, k, v) or type(q) not in (torch.Tensor, torch.nn.Parameter):
            from . import torch as weft_torch

            return weft_torch.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout,
                                        return_lse=return_lse, schedule=schedule, fallback=False)  # fmt: skip
    elif _is_traced(type(q), type(k), type(v)):
        from . import jax as weft_jax

        return weft_jax.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout,
                                  return_lse=return_lse, schedule=schedule)  # fmt: skip
    elif _is_of(type(q), "jaxlib") and arrays.framework_of(q=q, k=k, v=v) and _has_ffi():
        return sys.modules["weft.jax"].attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout,
                                                 return_lse=return_lse, schedule=schedule)  # fmt: skip
    o, lse = attention_forward(q, k, v, causal, scale, offset, layout, return_lse, schedule)
    return (o, lse) if return_lse else o


def matmul(a: Any, b: Any, *, schedule: schedules.ScheduleLike = None) -> Any:
    """C = A B, accumulated in fp32.

    a         (m, k), row-major or column-major, with any leading dimension; a transposed view is taken as it is
    b         (k, n) likewise
    schedule  a weft.Schedule, a dict of its fields, or None: chosen

    Returns C (m, n), row-major, an array of the caller's framework and dtype; packed, but for a GPU where n is not a multiple of 8:
    there its rows lie apart. On a GPU the work is put on the framework's current stream.
    """
    if _is_traced(type(a), type(b)):
        from . import jax as weft_jax

        return weft_jax.matmul(a, b, schedule=schedule)
    if _is_of(type(a), "torch") and _needs_grad(a, b):
        raise Unsupported("a matrix product has no gradient yet: detach a and b, or use torch.no_grad()")
    framework = arrays.framework_of(a=a, b=b)
    if _is_of(type(a), "jaxlib") and _has_ffi():
        return sys.modules["weft.jax"].matmul(a, b, schedule=schedule)
    chosen = schedules.of(schedule)
    forms = framework.form(a), framework.form(b)
    key = None if None in forms else (framework.name, forms, chosen)
    ready = None if key is None else _ready.get(key)
    if ready is not None:
        pointers = [framework.pointer(a), framework.pointer(b)]
        if (pointers[0] | pointers[1]) % ready.size:
            ready = None  # not aligned, which view() refuses
    if ready is None:
        views = arrays.views_of(framework, a=a, b=b)
        pointers = [view.pointer for view in views]
        plan, shape, row = _planned_gemm(views[0][1:5], views[1][1:5], chosen)
        ready = _ReadyGemm(plan, shape, row, views[0].device, 4 if views[0].dtype == "fp32" else 2)
        _remember(key, ready)
    (m, n), row = ready.shape, ready.row
    c = framework.empty(a, (m, row))
    where = framework.pointer(c) if key is not None else arrays.result_view(framework, c, "c").pointer
    if framework.capturing(ready.device):
        plans.pin(ready.plan)
    data = _c.GemmData(*pointers, where)
    _c.call(_enqueue_gemm, ready.plan._handle, ctypes.byref(data), framework.stream(ready.device) or None)
    return framework.result(c if row == n else c[:, :n])


def release_memory() -> int:
    """Gives back what the CPU keeps for the next call, up to 128 MiB, and returns how many bytes that were. For any thread, at any
    time."""
    return _c.library.weft_release_memory()
