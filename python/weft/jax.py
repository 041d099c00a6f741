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

from . import _c, arrays, compute, dlpack, plans, problems, schedules
from .arrays import View
from .errors import Invalid, Unsupported

_HANDLERS = {"weft_attention": "weft_xla_attention", "weft_gemm": "weft_xla_gemm"}  # XLA's name: the library's, less its platform


@functools.lru_cache(maxsize=None)
def why_no_ffi() -> Optional[str]:
    """None once XLA knows weft's handlers, else why it does not."""
    if not hasattr(jax, "ffi"):
        return f"JAX {jax.__version__} has no jax.ffi, which came with 0.5"
    try:
        for target, name in _HANDLERS.items():
            for platform, suffix in (("cpu", "cpu"), ("CUDA", "cuda")):
                handler = ctypes.cast(getattr(_c.library, f"{name}_{suffix}"), ctypes.c_void_p)
                jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform=platform)
    except Exception as error:  # XLA says in its own way that it does not know this version of the interface
        return f"XLA does not take weft's handlers: {error}"
    return None


def _view(x: Any, name: str, device: Tuple[int, int]) -> View:
    """A JAX array or tracer as the handlers will see it: packed."""
    dtype = arrays.numpy_dtype(numpy.dtype(x.dtype))
    if dtype is None:
        raise Invalid(f"{name} has dtype {x.dtype}, not float32, float16 or bfloat16")
    return View(0, x.shape, dlpack.packed_strides(x.shape), dtype, device, None)


def _views(device: Tuple[int, int], **given: Any) -> Tuple[View, ...]:
    return arrays.alike(given, tuple(_view(x, name, device) for name, x in given.items()))


def _words(structure: ctypes.Structure) -> numpy.ndarray:
    """A structure as an attribute of a call: int64s."""
    return numpy.frombuffer(bytes(structure), numpy.int64)


def _call(target: str, results: Any, problem: ctypes.Structure, schedule: _c.Schedule, device: Optional[Tuple[int, int]],
          *given: Any) -> Any:  # fmt: skip
    """A call of a handler. Where the device is known, what it cannot do is raised here, as weft's own error; else by XLA."""
    if device is not None:
        plans.Plan(problem, schedule, None, device)
    call = jax.ffi.ffi_call(target, results, vmap_method="sequential")
    return call(*given, problem=_words(problem), schedule=_words(schedule))


def _attention(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
               return_lse: bool, schedule: schedules.Schedule, device: Optional[Tuple[int, int]] = None) -> Any:  # fmt: skip
    views = _views(device or (plans.CPU, 0), q=q, k=k, v=v)
    problem = compute.problem_of((*views, views[0]), causal, scale, offset, layout)
    _c.call(_c.library.weft_attention_check, ctypes.byref(problem))
    results = [jax.ShapeDtypeStruct(q.shape, q.dtype)]
    if return_lse:
        results.append(jax.ShapeDtypeStruct((problem.batch, problem.heads, problem.seq), numpy.float32))
    return _call("weft_attention", results, problem, schedules.to_c(schedule), device, q, k, v)


def _matmul(a: Any, b: Any, schedule: schedules.Schedule, device: Optional[Tuple[int, int]] = None) -> Any:
    views = _views(device or (plans.CPU, 0), a=a, b=b)
    problem = compute.gemm_of(*views)
    _c.call(_c.library.weft_gemm_check, ctypes.byref(problem))
    result = jax.ShapeDtypeStruct((problem.m, problem.n), a.dtype)
    return _call("weft_gemm", result, problem, schedules.to_c(schedule), device, a, b)


@functools.lru_cache(maxsize=256)
def _compiled(function: Any, device: Optional[Tuple[int, int]], options: Tuple[Any, ...]) -> Any:
    """A function for arrays that hold values; JAX keeps what it compiles for each of their shapes."""
    return jax.jit(lambda *given: function(*given, *options, device))


def _device_of(**given: Any) -> Optional[Tuple[int, int]]:
    """(kind, index) of arrays that hold values; None where they are spread over several devices."""
    places = {name: x.devices() for name, x in given.items()}
    first = next(iter(places))
    for name, place in places.items():
        if place != places[first]:
            raise Invalid(f"{name} and {first} are on different devices")
    if len(places[first]) != 1:
        return None
    (device,) = places[first]
    if device.platform not in ("cpu", "gpu", "cuda"):
        raise Unsupported(f"{first} is on {device}: weft runs on the CPU and on NVIDIA GPUs")
    return (plans.CPU, 0) if device.platform == "cpu" else (plans.CUDA, device.local_hardware_id)


def _run(function: Any, options: Tuple[Any, ...], **given: Any) -> Any:
    if any(isinstance(x, jax.core.Tracer) for x in given.values()):
        return function(*given.values(), *options)
    return _compiled(function, _device_of(**given), options)(*given.values())


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
        number = None if scale is None else problems.scale_of(scale)
        shift = None if offset is None else schedules.whole("offset", offset)
        results = _run(_attention, (bool(causal), number, shift, layout, bool(return_lse), chosen), q=q, k=k, v=v)
        return tuple(results) if return_lse else results[0]
    seq, head = (1, 2) if layout == "bshd" else (2, 1)
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
        return _run(_matmul, (chosen,), a=a, b=b)
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    return _callback(lambda a, b: compute.matmul(a, b, schedule=chosen), shape, a, b)


why_no_ffi()  # so that a stored program finds the handlers
