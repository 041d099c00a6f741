"""Weft in JAX: functions that can be traced, on the CPU and on NVIDIA GPUs, through XLA's foreign function interface.

XLA allocates the results and hands weft its own stream, so nothing is copied, and nothing is waited for: JAX has no current stream
that a caller could name, and none is needed. Without jax.ffi, which came with JAX 0.5, a callback does the work on the CPU.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Optional, Tuple

import jax
import numpy

from . import _c, arrays, compute, frameworks, plans, problems, schedules
from .arrays import View
from .errors import Invalid, Unsupported
from .operations import ATTENTION, GEMM, Operation, attention_options

_HANDLED = (ATTENTION, GEMM)


def _target(operation: Operation) -> str:
    """XLA's name of an operation."""
    return f"weft_{operation.problem.subject}"


@functools.lru_cache(maxsize=None)
def why_no_ffi() -> Optional[str]:
    """None once XLA knows weft's handlers, else why it does not."""
    if not hasattr(jax, "ffi"):
        return f"JAX {jax.__version__} has no jax.ffi, which came with 0.5"
    try:
        for operation in _HANDLED:
            for platform, suffix in (("cpu", "cpu"), ("CUDA", "cuda")):
                handler = ctypes.cast(getattr(_c.library, f"weft_xla_{operation.problem.subject}_{suffix}"), ctypes.c_void_p)
                jax.ffi.register_ffi_target(_target(operation), jax.ffi.pycapsule(handler), platform=platform)
    except Exception as error:  # XLA says in its own way that it does not know this version of the interface
        return f"XLA does not take weft's handlers: {error}"
    return None


def _view(x: Any, name: str, device: Tuple[int, int]) -> View:
    """A JAX array or tracer as the handlers will see it: packed."""
    dtype = frameworks.numpy_dtype(numpy.dtype(x.dtype))
    if dtype is None:
        raise Invalid(f"{name} has dtype {x.dtype}, not float32, float16 or bfloat16")
    return arrays.packed(x.shape, dtype, device)


def _words(structure: ctypes.Structure) -> numpy.ndarray:
    """A structure as an attribute of a call: int64s."""
    return numpy.frombuffer(bytes(structure), numpy.int64)


def _call(operation: Operation, options: Any, count: int, schedule: schedules.Schedule, device: Optional[Tuple[int, int]],
          *given: Any) -> Any:  # fmt: skip
    """A list of an operation's first `count` outputs, by its handler. Where the device is known, what it cannot do is raised here, as
    weft's own error; else by XLA."""
    where = device or (plans.CPU, 0)
    views = arrays.alike(operation.inputs, tuple(_view(x, name, where) for name, x in zip(operation.inputs, given)))
    outputs = operation.outputs_of(views, options)
    made = [arrays.packed(output.shape, views[0].dtype, where) for output in outputs[: operation.required_outputs]]
    problem = operation.problem_of((*views, *made), options)
    _c.call(_c.library.weft_problem_check, ctypes.byref(problem))
    chosen = schedules.to_c(schedule)
    if device is not None:
        plans.Plan(problem, schedule, None, device)
    results = [jax.ShapeDtypeStruct(x.shape, numpy.float32 if x.fp32 else given[0].dtype) for x in outputs[:count]]
    call = jax.ffi.ffi_call(_target(operation), results, vmap_method="sequential")
    return call(*given, problem=_words(problem), schedule=_words(chosen))


@functools.lru_cache(maxsize=256)
def _compiled(*options: Any) -> Any:
    """_call() for arrays that hold values; JAX keeps what it compiles for each of their shapes."""
    return jax.jit(functools.partial(_call, *options))


def _device_of(names: Tuple[str, ...], given: Tuple[Any, ...]) -> Optional[Tuple[int, int]]:
    """(kind, index) of arrays that hold values; None where they are spread over several devices."""
    places = [x.devices() for x in given]
    for name, place in zip(names, places):
        if place != places[0]:
            raise Invalid(f"{name} and {names[0]} are on different devices")
    if len(places[0]) != 1:
        return None
    (device,) = places[0]
    if device.platform not in ("cpu", "gpu", "cuda"):
        raise Unsupported(f"{names[0]} is on {device}: weft runs on the CPU and on NVIDIA GPUs")
    return (plans.CPU, 0) if device.platform == "cpu" else (plans.CUDA, device.local_hardware_id)


def _run(operation: Operation, options: Any, count: int, schedule: schedules.Schedule, *given: Any) -> Any:
    if any(isinstance(x, jax.core.Tracer) for x in given):
        return _call(operation, options, count, schedule, None, *given)
    return _compiled(operation, options, count, schedule, _device_of(operation.inputs, given))(*given)


def _callback(function: Any, results: Any, *given: Any) -> Any:
    """What jax.ffi would do, on values in host memory: viewed there, not copied."""
    if jax.default_backend() != "cpu":
        raise Unsupported(f"under jit on a GPU weft needs jax.ffi: {why_no_ffi()}")
    return jax.pure_callback(lambda *x: function(*map(numpy.asarray, x)), results, *given, vmap_method="sequential")


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """weft.attention() under jax.jit and jax.vmap. Shapes and options are the same; options are Python values, not traced.

    Runs where JAX runs: on the CPU or an NVIDIA GPU. It has no gradient.
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    if q.ndim != 4:
        raise Invalid(f"q has {q.ndim} dimensions, not the 4 of {layout}: {q.shape}")
    chosen = schedules.of(schedule)
    if why_no_ffi() is None:
        options = attention_options(causal, scale, offset, layout)
        results = _run(ATTENTION, options, 2 if return_lse else 1, chosen, q, k, v)
        return tuple(results) if return_lse else results[0]
    seq, head = problems.SEQ_AND_HEAD[layout]
    lse_shape = (q.shape[0], q.shape[head], q.shape[seq])
    shapes = (jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct(lse_shape, numpy.float32) if return_lse else None)

    def run(q: Any, k: Any, v: Any) -> Any:
        return compute.attention_forward(q, k, v, causal, scale, offset, layout, return_lse, chosen)

    o, lse = _callback(run, shapes, q, k, v)
    return (o, lse) if return_lse else o


def matmul(a: Any, b: Any, *, schedule: schedules.ScheduleLike = None) -> Any:
    """weft.matmul() under jax.jit and jax.vmap: a is (m, k), b is (k, n), the result (m, n). It has no gradient."""
    if a.ndim != 2 or b.ndim != 2:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: both must have 2 dimensions")
    chosen = schedules.of(schedule)
    if why_no_ffi() is None:
        return _run(GEMM, None, 1, chosen, a, b)[0]
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    return _callback(lambda a, b: compute.matmul_forward(a, b, chosen), shape, a, b)


why_no_ffi()  # so that a stored program finds the handlers
