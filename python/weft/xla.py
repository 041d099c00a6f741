# SPDX-License-Identifier: Apache-2.0
"""Calls of weft's handlers by XLA, through its foreign function interface.

XLA allocates the results and hands weft its own stream, so nothing is copied, and nothing is waited for: JAX has no current stream
that a caller could name, and none is needed. Without jax.ffi, which came with JAX 0.5, a callback does the work on the CPU.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import jax
import numpy

from . import _c, arrays, compute, features, frameworks, plans, schedules
from .arrays import FLOATS, View
from .errors import Invalid, Unsupported, listed
from .frameworks import NUMPY_NAMES
from .operations import ATTENTION, ATTENTION_BACKWARD, GEMM, GROUPED_GEMM, Operation, Output

_PLATFORMS = {"cpu": "cpu", "CUDA": "cuda"}  # XLA's name, weft's
_HANDLED = (ATTENTION, ATTENTION_BACKWARD, GEMM, GROUPED_GEMM)


class Call(NamedTuple):
    """What a call does, in values that jit takes for constants."""

    operation: Operation
    options: Any
    wanted: Tuple[str, ...]
    schedule: schedules.Schedule
    device: Optional[Tuple[int, int]] = None  # None: not known
    beside: Tuple[str, ...] = ()  # arrays that follow the operation's inputs
    seed: int = 0
    transposed: Tuple[str, ...] = ()  # inputs whose last two dimensions are the other way round in memory

    @property
    def names(self) -> Tuple[str, ...]:
        """Those of its arrays."""
        return (*self.operation.inputs, *self.beside)


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
                name = _target(operation).replace("weft_", "weft_xla_", 1)
                handler = ctypes.cast(getattr(_c.library, f"{name}_{suffix}"), ctypes.c_void_p)
                jax.ffi.register_ffi_target(_target(operation), jax.ffi.pycapsule(handler), platform=platform)
    except Exception as error:  # XLA says in its own way that it does not know this version of the interface
        return f"XLA does not take weft's handlers: {error}"
    return None


def is_traced(*given: Any) -> bool:
    """Whether one of the arrays holds no values."""
    return any(isinstance(x, jax.core.Tracer) for x in given)


def _dtypes(what: Call, name: str) -> Tuple[str, ...]:
    """Those that an array of a call may have."""
    return features.ARRAYS[name] if name in what.beside else ("int32",) if name in what.operation.int32 else FLOATS


def _view(what: Call, name: str, x: Any) -> View:
    """A JAX array or tracer as the handlers will see it: packed."""
    dtype, allowed = frameworks.numpy_dtype(numpy.dtype(x.dtype)), _dtypes(what, name)
    if dtype not in allowed:
        raise Invalid(f"{name} has dtype {x.dtype}, not {listed([NUMPY_NAMES[dtype] for dtype in allowed])}")
    view = arrays.packed(x.shape, dtype, what.device or (plans.CPU, 0))
    return view.transposed() if name in what.transposed else view


def pose(what: Call, *given: Any) -> Tuple[_c.Structure, Dict[str, Output]]:
    """The problem of a call on arrays of these shapes, and its outputs by their names."""
    operation = what.operation
    views = {name: _view(what, name, x) for name, x in zip(what.names, given)}
    inputs = {name: views[name] for name in operation.inputs}
    arrays.alike(inputs, operation.fp32, operation.int32)
    outputs = dict(zip(operation.outputs, operation.outputs_of(views, what.options)))
    first = inputs[operation.inputs[0]]
    for name in operation.outputs[: operation.required_outputs]:
        views[name] = arrays.packed(outputs[name].shape, "fp32" if outputs[name].fp32 else first.dtype, first.device)
    return operation.problem_of(views, what.options), outputs


def _words(structure: ctypes.Structure) -> numpy.ndarray:
    """A structure as an attribute of a call: int64s."""
    return numpy.frombuffer(bytes(structure), numpy.int64)


def _by_handler(what: Call, problem: _c.Structure, results: List[Any], given: Tuple[Any, ...]) -> List[Any]:
    call = jax.ffi.ffi_call(_target(what.operation), results, vmap_method="sequential")
    seed = numpy.array([what.seed], numpy.uint64).view(numpy.int64)
    return call(*given, problem=_words(problem), schedule=_words(schedules.to_c(what.schedule)), seed=seed)


def _by_callback(what: Call, results: List[Any], given: Tuple[Any, ...]) -> List[Any]:
    """What the handler would do, on values in host memory: viewed there, not copied."""
    if jax.default_backend() != "cpu":
        raise Unsupported(f"under jit on a GPU weft needs jax.ffi: {why_no_ffi()}")
    numbers = getattr(what.options, "features", None)

    def function(*values: Any) -> List[Any]:
        views = dict(zip(what.names, map(numpy.asarray, values)))
        views.update({name: arrays.transposed(views[name]) for name in what.transposed})
        asked = numbers and features.Asked(numbers, {name: views[name] for name in what.beside}, what.seed)
        inputs = tuple(views[name] for name in what.operation.inputs)
        return compute.run(what.operation, inputs, what.options, what.schedule, None, what.wanted, asked)

    return jax.pure_callback(function, results, *given, vmap_method="sequential")


def _call(what: Call, *given: Any) -> List[Any]:
    """The outputs that are wanted of an operation. Where the device is known, what it cannot do is raised here, as weft's own error;
    else by XLA."""
    problem, outputs = pose(what, *given)
    _c.call(_c.library.weft_problem_check, ctypes.byref(problem))
    if what.device is not None:
        plans.Plan(problem, what.schedule, None, what.device, brings_workspace=True)
    results = [jax.ShapeDtypeStruct(outputs[x].shape, numpy.float32 if outputs[x].fp32 else given[0].dtype) for x in what.wanted]
    return _by_handler(what, problem, results, given) if why_no_ffi() is None else _by_callback(what, results, given)


@functools.lru_cache(maxsize=256)
def _compiled(what: Call) -> Any:
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


def run(what: Call, *given: Any) -> List[Any]:
    """The outputs that are wanted of an operation on arrays that are traced or hold values."""
    if is_traced(*given) or why_no_ffi() is not None:
        return _call(what, *given)
    given = tuple(x if isinstance(x, jax.Array) else jax.numpy.asarray(x) for x in given)
    return _compiled(what._replace(device=_device_of(what.names, given)))(*given)


why_no_ffi()  # so that a stored program finds the handlers
