"""Attention and matrix products on arrays of any framework."""

from __future__ import annotations

import functools
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _c, arrays, frameworks, operations, plans, schedules
from ._c import CUDA
from .arrays import Framework, View
from .operations import Operation, Output, attention_options


class _Ready(NamedTuple):
    """What a run on arrays of a known form needs."""

    plan: plans.Plan
    outputs: Tuple[Output, ...]
    device: Tuple[int, int]
    size: int  # bytes of an element
    maker: Framework  # of the outputs
    plain: bool  # whether the outputs are the results as they are
    absent: Tuple[int, ...]  # null pointers, for outputs that are not asked for


_ready: Dict[tuple, _Ready] = {}  # by the forms of the arrays and the options; the newest last
_MOST_READY = 512
_remembering = threading.Lock()


def _remember(key: Optional[tuple], ready: _Ready) -> None:
    if key is not None:
        with _remembering:
            _ready[key] = ready
            if len(_ready) > _MOST_READY:
                del _ready[next(iter(_ready))]


@functools.lru_cache(maxsize=512)
def _planned(operation: Operation, forms: Tuple[tuple, ...], options: Any, schedule: Optional[schedules.Schedule],
             kernel: Optional[str]) -> plans.Plan:  # fmt: skip
    """The plan for views of these forms (their shape, strides, dtype and device), kept for the next call."""
    problem = operation.problem_of(tuple(View(0, *form, None) for form in forms), options)
    return plans.Plan(problem, schedules.of(schedule), None, forms[0][3], kernel)


def _make_ready(operation: Operation, framework: Framework, given: Tuple[Any, ...], views: Tuple[View, ...], options: Any,
                schedule: Optional[schedules.Schedule], kernel: Optional[str], count: int) -> Tuple[_Ready, List[Any]]:  # fmt: skip
    """What arrays of a form that is new need, and the outputs that had to be allocated for it: only then their strides are known."""
    outputs = operation.outputs_of(views, options)
    made = [output.allocate(framework, given) for output in outputs[: operation.required_outputs]]
    forms = [view[1:5] for view in (*views, *map(framework.maker.view, made, operation.outputs))]
    plan = _planned(operation, tuple(forms), options, schedule, kernel)
    plain = framework.maker is framework and all(output.row is None for output in outputs)
    size = 4 if views[0].dtype == "fp32" else 2
    absent = (0,) * (len(outputs) - count)
    return _Ready(plan, outputs[:count], views[0].device, size, framework.maker, plain, absent), made


def run(operation: Operation, given: Tuple[Any, ...], options: Any, schedule: schedules.ScheduleLike, kernel: Optional[str],
        count: int) -> List[Any]:  # fmt: skip
    """The first `count` outputs of an operation on arrays that hold values."""
    framework = frameworks.framework_of(operation.inputs, tuple(map(type, given)))
    chosen = None if schedule is None else schedules.of(schedule)
    forms = tuple(map(framework.form, given))
    key = None if None in forms else (operation, framework, forms, options, chosen, kernel, count)
    ready = None if key is None else _ready.get(key)
    made: List[Any] = []
    if ready is not None:
        pointers, bits = list(map(framework.pointer, given)), 0
        for pointer in pointers:
            bits |= pointer
        if bits % ready.size:
            ready = None  # not aligned, which view() refuses
    if ready is None:
        views = arrays.alike(operation.inputs, tuple(map(framework.view, given, operation.inputs)), operation.fp32)
        pointers = [view.pointer for view in views]
        ready, made = _make_ready(operation, framework, given, views, options, chosen, kernel, count)
        _remember(key, ready)
    plan, outputs, device, _, maker, plain, absent = ready
    for output in outputs[len(made) :]:
        made.append(output.allocate(framework, given))
    place = operation.required_inputs
    pointers[place:place] = (*map(maker.pointer, made), *absent)
    stream = 0
    if device[0] == CUDA:
        stream = framework.stream(device)
        if framework.capturing(device):
            plans.pin(plan)
    plan.enqueue(pointers, stream)
    return made if plain else [framework.result(output.cut(x)) for output, x in zip(outputs, made)]


def attention_forward(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
                      return_lse: bool, schedule: schedules.ScheduleLike, kernel: Optional[str] = None) -> Tuple[Any, Any]:  # fmt: skip
    """(o, lse) of arrays that hold values; lse is None unless asked for. `kernel` is as for weft.plan()."""
    results = run(operations.ATTENTION, (q, k, v), attention_options(causal, scale, offset, layout), schedule, kernel,
                  2 if return_lse else 1)  # fmt: skip
    return results[0], results[1] if return_lse else None


def attention_backward(q: Any, k: Any, v: Any, grad_o: Any, o: Any, lse: Any, causal: bool, scale: Optional[float],
                       offset: Optional[int], layout: str) -> List[Any]:  # fmt: skip
    """The gradients of q, k and v, each laid out like it, from the gradient of o, which is laid out like o."""
    return run(operations.ATTENTION_BACKWARD, (q, k, v, grad_o, o, lse), attention_options(causal, scale, offset, layout), None, None, 3)


def matmul_forward(a: Any, b: Any, schedule: schedules.ScheduleLike) -> Any:
    """A B of arrays that hold values."""
    return run(operations.GEMM, (a, b), None, schedule, None, 1)[0]


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
    operators = frameworks.operators((q, k, v))
    if operators is not None:
        return operators.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout, return_lse=return_lse,
                                   schedule=schedule)  # fmt: skip
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
    operators = frameworks.operators((a, b))
    return matmul_forward(a, b, schedule) if operators is None else operators.matmul(a, b, schedule=schedule)


def release_memory() -> int:
    """Gives back what the CPU keeps for the next call, up to 128 MiB, and returns how many bytes that were. For any thread, at any
    time."""
    return _c.library.weft_release_memory()
