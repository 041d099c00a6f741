"""Weft in JAX: functions that can be traced, on the CPU and on NVIDIA GPUs, through XLA's foreign function interface.

XLA allocates the results and hands weft its own stream, so nothing is copied, and nothing is waited for: JAX has no current stream
that a caller could name, and none is needed. Without jax.ffi, which came with JAX 0.5, a callback does the work on the CPU.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, List, NamedTuple, Optional, Tuple

import jax
import numpy

from . import _c, arrays, caches, compute, features, frameworks, plans, problems, schedules
from .arrays import FLOATS, View
from .errors import Invalid, Unsupported, listed
from .frameworks import JAX, NUMPY_NAMES
from .operations import ATTENTION, ATTENTION_BACKWARD, GEMM, AttentionOptions, Operation, attention_options

_PLATFORMS = {"cpu": "cpu", "CUDA": "cuda"}  # XLA's name, weft's
_HANDLED = (ATTENTION, ATTENTION_BACKWARD, GEMM)


class _Call(NamedTuple):
    """What a call does, in values that jit takes for constants."""

    operation: Operation
    options: Any
    wanted: Tuple[str, ...]
    schedule: schedules.Schedule
    device: Optional[Tuple[int, int]]  # None: not known
    beside: Tuple[str, ...] = ()  # arrays that follow the operation's inputs
    seed: int = 0


def _target(operation: Operation) -> str:
    """XLA's name of an operation."""
    return f"weft_{operation.problem.subject.replace('-', '_')}"


@functools.lru_cache(maxsize=None)
def why_no_ffi() -> Optional[str]:
    """None once XLA knows weft's handlers, else why it does not."""
    if not hasattr(jax, "ffi"):
        return f"JAX {jax.__version__} has no jax.ffi, which came with 0.5"
    try:
        for operation in _HANDLED:
            for platform, suffix in _PLATFORMS.items():
                name = _target(operation).replace("weft_", f"weft_xla_", 1)
                handler = ctypes.cast(getattr(_c.library, f"{name}_{suffix}"), ctypes.c_void_p)
                jax.ffi.register_ffi_target(_target(operation), jax.ffi.pycapsule(handler), platform=platform)
    except Exception as error:  # XLA says in its own way that it does not know this version of the interface
        return f"XLA does not take weft's handlers: {error}"
    return None


def _view(x: Any, name: str, device: Tuple[int, int], dtypes: Tuple[str, ...] = FLOATS) -> View:
    """A JAX array or tracer as the handlers will see it: packed."""
    dtype = frameworks.numpy_dtype(numpy.dtype(x.dtype))
    if dtype not in dtypes:
        raise Invalid(f"{name} has dtype {x.dtype}, not {listed([NUMPY_NAMES[dtype] for dtype in dtypes])}")
    return arrays.packed(x.shape, dtype, device)


def _words(structure: ctypes.Structure) -> numpy.ndarray:
    """A structure as an attribute of a call: int64s."""
    return numpy.frombuffer(bytes(structure), numpy.int64)


def _call(what: _Call, *given: Any) -> List[Any]:
    """The outputs that are wanted of an operation, by its handler. Where the device is known, what it cannot do is raised here, as
    weft's own error; else by XLA."""
    operation, where = what.operation, what.device or (plans.CPU, 0)
    views = {name: _view(x, name, where) for name, x in zip(operation.inputs, given)}
    arrays.alike(views, operation.fp32)
    for name, x in zip(what.beside, given[len(views) :]):
        views[name] = _view(x, name, where, features.ARRAYS[name])
    outputs = dict(zip(operation.outputs, operation.outputs_of(views, what.options)))
    first = next(iter(views.values()))
    made = {name: arrays.packed(outputs[name].shape, first.dtype, where) for name in operation.outputs[: operation.required_outputs]}
    problem = operation.problem_of({**views, **made}, what.options)
    _c.call(_c.library.weft_problem_check, ctypes.byref(problem))
    if what.device is not None:
        plans.Plan(problem, what.schedule, None, what.device, brings_workspace=True)
    results = [jax.ShapeDtypeStruct(outputs[x].shape, numpy.float32 if outputs[x].fp32 else given[0].dtype) for x in what.wanted]
    call = jax.ffi.ffi_call(_target(operation), results, vmap_method="sequential")
    seed = numpy.array([what.seed], numpy.uint64).view(numpy.int64)
    return call(*given, problem=_words(problem), schedule=_words(schedules.to_c(what.schedule)), seed=seed)


@functools.lru_cache(maxsize=256)
def _compiled(what: _Call) -> Any:
    """_call() for arrays that hold values; JAX keeps what it compiles for each of their shapes."""
    return jax.jit(functools.partial(_call, what))


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


def _run(what: _Call, *given: Any) -> List[Any]:
    if any(isinstance(x, jax.core.Tracer) for x in given):
        return _call(what, *given)
    return _compiled(what._replace(device=_device_of((*what.operation.inputs, *what.beside), given)))(*given)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(what: _Call, *given: Any) -> List[Any]:
    """q, k, v and what is beside them in, outputs out."""
    return _run(what, *given)


def _attention_forward(what: _Call, *given: Any) -> Any:
    perturbed = {name for name, x in zip(what.beside, given[3:]) if x.perturbed}
    if "alibi" in perturbed:
        raise Unsupported("JAX has no gradient of alibi yet: take jax.lax.stop_gradient of it")
    if "qv" in what.beside:
        raise Unsupported("an attention with qv has no gradient: take jax.lax.stop_gradient of its arrays")
    values = tuple(x.value for x in given)
    o, lse, *most = _run(what._replace(wanted=("o", "lse", *what.wanted[2:])), *values)
    # What is kept holds arrays only, but its structure is known while JAX traces.
    wants_bias = () if "bias" in perturbed else None
    return [o, lse, *most][: len(what.wanted)], (values, o, lse, wants_bias)


def _sum_to(x: Any, like: Any) -> Any:
    """The gradient of an array that was broadcast to the shape of x."""
    shape = (1,) * (x.ndim - like.ndim) + like.shape
    repeated = tuple(axis for axis, (n, given) in enumerate(zip(x.shape, shape)) if n != given)
    return x.sum(repeated, keepdims=True).reshape(like.shape).astype(like.dtype)


def _attention_backward(what: _Call, kept: Any, grads: List[Any]) -> Any:
    """The gradients of q, k, v, sinks and a bias; no one asks for those of the others."""
    for name, grad in zip(what.wanted[1:], grads[1:]):
        if not isinstance(grad, jax.custom_derivatives.SymbolicZero):
            raise Unsupported(f"the gradient of {name} is not there yet")
    given, o, lse, wants_bias = kept
    grad_o = jax.numpy.zeros(o.shape, o.dtype) if isinstance(grads[0], jax.custom_derivatives.SymbolicZero) else grads[0]
    beside = dict(zip(what.beside, given[3:]))
    wanted = ATTENTION_BACKWARD.outputs[: 4 if "sinks" in beside else 3] + (() if wants_bias is None else ("grad_bias",))
    options = what.options._replace(features=what.options.features and what.options.features._replace(max=False))
    back = what._replace(operation=ATTENTION_BACKWARD, options=options, wanted=wanted, schedule=schedules.of(None))
    found = dict(zip(wanted, _run(back, *given[:3], grad_o, o, lse, *given[3:])))
    if "grad_bias" in found:
        found["grad_bias"] = _sum_to(found["grad_bias"], beside["bias"])
    return tuple(found.get(f"grad_{name}") for name in ("q", "k", "v", *what.beside))


_attention.defvjp(_attention_forward, _attention_backward, symbolic_zeros=True)


def _callback(function: Any, results: Any, *given: Any) -> Any:
    """What jax.ffi would do, on values in host memory: viewed there, not copied."""
    if jax.default_backend() != "cpu":
        raise Unsupported(f"under jit on a GPU weft needs jax.ffi: {why_no_ffi()}")
    return jax.pure_callback(lambda *x: function(*map(numpy.asarray, x)), results, *given, vmap_method="sequential")


def _asked(q: Any, given: Optional[features.Asked]) -> Tuple[Optional[features.Features], Tuple[str, ...], Tuple[Any, ...], int]:
    """Features, names and arrays beside q, k and v, and the seed. A compiled program holds no lengths, so they become arrays."""
    if given is None:
        return None, (), (), 0
    if given.cache or given.out is not None:
        what = ", ".join((*caches.named(given.cache), *(() if given.out is None else ("out",))))
        raise Unsupported(f"weft has no {what} for JAX arrays, which cannot be written to: KV caches are for torch and NumPy")
    numbers = given.features
    beside = {**given.arrays, **{name: JAX.integers(values, q) for name, values in numbers.known}}
    names = tuple(name for name in features.ARRAYS if name in beside)
    return numbers._replace(known=()), names, tuple(beside[name] for name in names), given.seed


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None,
              asked: Optional[features.Asked] = None, **options: Any) -> Any:  # fmt: skip
    """weft.attention() under jax.jit, jax.vmap and jax.grad. Shapes and options are the same, window to return_max among
    them; sinks, alibi, bias, qv and lengths may be traced, the others are Python values.

    Runs where JAX runs: on the CPU or an NVIDIA GPU. q, k, v, sinks and an added bias have gradients; alibi has
    none, and neither has an attention with qv. That of a bias takes (batch, heads, seq, kv_seq) float32 for a while, as it is summed up behind the kernel.
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    numbers, beside, extra, seed = _asked(q, features.asked(q, **options) if options else asked)
    most = numbers is not None and numbers.max
    if q.ndim != 4 and not (q.ndim == 3 and "q_starts" in beside):
        raise Invalid(f"q has {q.ndim} dimensions, not the 4 of {layout}: {q.shape}")
    chosen, how = schedules.of(schedule), attention_options(causal, scale, offset, layout, numbers)
    if why_no_ffi() is None:
        wanted = ATTENTION.outputs[: 3 if most else 2 if return_lse else 1]
        o, *rest = _attention(_Call(ATTENTION, how, wanted, chosen, None, beside, seed), q, k, v, *extra)
        return compute.results(o, rest[0] if return_lse else None, rest[1] if most else None)
    return _attention_by_callback(q, k, v, how, return_lse, chosen, beside, extra, seed)


def _attention_by_callback(q: Any, k: Any, v: Any, how: AttentionOptions, return_lse: bool, chosen: schedules.Schedule,
                           beside: Tuple[str, ...], extra: Tuple[Any, ...], seed: int) -> Any:  # fmt: skip
    seq, head = problems.SEQ_AND_HEAD[how.layout]
    rows = (q.shape[0], q.shape[head], q.shape[seq]) if q.ndim == 4 else (q.shape[head - 1], q.shape[seq - 1])
    row, most = jax.ShapeDtypeStruct(rows, numpy.float32), how.features is not None and how.features.max
    shapes = (jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), q.dtype), row if return_lse else None, row if most else None)

    def run(q: Any, k: Any, v: Any, *extra: Any) -> Any:
        asked = None if how.features is None else features.Asked(how.features, dict(zip(beside, extra)), seed)
        return compute.attention_forward(q, k, v, *how[:4], return_lse, chosen, None, asked)

    return compute.results(*_callback(run, shapes, q, k, v, *extra))


def matmul(a: Any, b: Any, *, schedule: schedules.ScheduleLike = None) -> Any:
    """weft.matmul() under jax.jit and jax.vmap: a is (m, k), b is (k, n), the result (m, n). It has no gradient."""
    if a.ndim != 2 or b.ndim != 2:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: both must have 2 dimensions")
    chosen = schedules.of(schedule)
    if why_no_ffi() is None:
        return _run(_Call(GEMM, None, ("c",), chosen, None), a, b)[0]
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    return _callback(lambda a, b: compute.matmul_forward(a, b, chosen), shape, a, b)


why_no_ffi()  # so that a stored program finds the handlers
