# SPDX-License-Identifier: Apache-2.0
"""The frameworks whose arrays weft takes, none of which is imported here.

NumPy arrays and torch tensors are read directly: NumPy exports no bf16 and, before 2.1, no read-only array to DLPack, and torch
exports no tensor that needs a gradient. All others are read through DLPack.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, Optional, Sequence, Tuple

from . import dlpack
from ._c import CPU, CUDA
from .arrays import FLOATS, Framework, View
from .errors import Invalid, Unsupported, listed


# What NumPy, torch and JAX call weft's dtypes.
NUMPY_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int32": "int32", "int64": "int64", "bool": "bool"}
_address_of, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


@functools.lru_cache(maxsize=64)
def numpy_dtype(dtype: Any) -> Optional[str]:
    """What weft calls a NumPy dtype; None where it has no name for it."""
    return next((name for name, numpy in NUMPY_NAMES.items() if numpy == dtype.name), None) if dtype.isnative else None


class Numpy(Framework):
    """numpy.ndarray, on the CPU."""

    name = "NumPy"

    def view(self, x: Any, name: str, dtypes: Tuple[str, ...] = FLOATS) -> View:
        dtype, size = numpy_dtype(x.dtype), x.dtype.itemsize
        if dtype not in dtypes:
            shown = x.dtype.name if x.dtype.isnative else x.dtype.str
            raise Invalid(f"{name} has dtype {shown}, not {listed([NUMPY_NAMES[dtype] for dtype in dtypes])} of this host")
        if any(stride % size for stride in x.strides):
            raise Invalid(f"{name} has strides {x.strides} that are not whole elements of {size} bytes")
        pointer = self.pointer(x)
        if pointer % size:
            raise Invalid(f"{name} is not aligned to its elements of {size} bytes")
        return View(pointer, x.shape, tuple(stride // size for stride in x.strides), dtype, (CPU, 0), x)

    def form(self, x: Any) -> Optional[tuple]:
        return x.shape, x.strides, x.dtype

    def writable(self, x: Any) -> bool:
        return bool(x.flags.writeable)

    def pointer(self, x: Any) -> int:
        try:  # the buffer protocol is three times as fast, for arrays that are packed and can be written to
            return _address_of(_from_buffer(x))
        except (BufferError, TypeError, ValueError):
            return x.__array_interface__["data"][0]

    @functools.cached_property
    def _numpy(self) -> Any:
        import numpy

        return numpy

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        return self._numpy.empty(shape, self._numpy.float32 if fp32 else like.dtype)

    def empty_like(self, like: Any) -> Any:
        return self._numpy.empty_like(like, subok=False)

    def integers(self, values: Sequence[int], like: Any) -> Any:
        return self._numpy.asarray(values, "int32")


class Traced(Framework):
    """A framework that has to see some calls, to differentiate, compile or trace them: functions of its own then take the call."""

    load: Callable[[], Any]  # gives these functions; see register()


class Torch(Traced):
    """torch.Tensor, on the CPU or an NVIDIA GPU."""

    name = "torch"

    @functools.cached_property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    @functools.cached_property
    def _names(self) -> Any:
        torch = self._torch
        return {getattr(torch, name): dtype for dtype, name in NUMPY_NAMES.items()}

    @functools.cached_property
    def _current_stream(self) -> Any:
        """The stream's handle by a device's index: what Triton asks, where torch has it, or torch's public, slower way."""
        torch = self._torch
        return getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream)

    def view(self, x: Any, name: str, dtypes: Tuple[str, ...] = FLOATS) -> View:
        if self._names.get(x.dtype) not in dtypes:
            raise Invalid(f"{name} has dtype {x.dtype}, not {listed([f'torch.{NUMPY_NAMES[dtype]}' for dtype in dtypes])}")
        where = x.device
        if where.type not in ("cpu", "cuda") or (where.type == "cuda" and self._torch.version.cuda is None):
            raise Unsupported(f"{name} is on {where}: weft runs on the CPU and on NVIDIA GPUs")
        if x.layout is not self._torch.strided:
            raise Invalid(f"{name} has layout {x.layout}, not torch.strided")
        device = (CPU, 0) if where.type == "cpu" else (CUDA, where.index or 0)
        return View(x.data_ptr(), tuple(x.shape), x.stride(), self._names[x.dtype], device, x)

    def form(self, x: Any) -> Optional[tuple]:
        return (x.shape, x.stride(), x.dtype, x.device) if x.layout is self._torch.strided else None

    def pointer(self, x: Any) -> int:
        return x.data_ptr()

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        return like.new_empty(shape, dtype=self._torch.float32 if fp32 else like.dtype)

    def empty_like(self, like: Any) -> Any:
        return self._torch.empty_like(like)

    def integers(self, values: Sequence[int], like: Any) -> Any:
        return self._torch.tensor(values, dtype=self._torch.int32, device=like.device)

    def stream(self, device: Tuple[int, int]) -> int:
        return self._current_stream(device[1]) if device[0] == CUDA else 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        return device[0] == CUDA and self._torch.cuda.is_current_stream_capturing()

    def operators(self, given: Sequence[Any]) -> Optional[Any]:
        """Dynamo does not see through ctypes, and only an operator has a gradient and knows kinds of tensors without memory."""
        torch = sys.modules["torch"]
        plain = type(given[0]) in (torch.Tensor, torch.nn.Parameter)
        return self.load() if not plain or torch.compiler.is_compiling() or needs_grad(given) else None


class Dlpack(Framework):
    """Any array with DLPack and the array API, such as CuPy's."""

    def __init__(self, name: str):
        self.name = name

    def _namespace(self, x: Any) -> Any:
        if self.name == "cupy":
            return sys.modules["cupy"]
        try:
            return x.__array_namespace__()
        except AttributeError:
            raise Invalid(f"arrays of {self.name} have no __array_namespace__, so weft cannot make one") from None

    def view(self, x: Any, name: str, dtypes: Tuple[str, ...] = FLOATS) -> View:
        kind, index = x.__dlpack_device__()
        if kind not in (dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST):
            raise Unsupported(f"{name} is on DLPack device {int(kind)}: weft runs on the CPU and on NVIDIA GPUs")
        device = (CUDA, int(index)) if kind == dlpack.CUDA else (CPU, 0)
        # DLPack gives the legacy default stream, which CUDA calls 0, the number 1.
        stream = (self.stream(device) or 1) if device[0] == CUDA else None
        read = dlpack.read(x, name, stream, dtypes)
        if kind != dlpack.CUDA and read.device[0] not in (dlpack.CPU, dlpack.CUDA_HOST):  # a plan for a GPU asks the driver
            raise Invalid(f"{name} says that it is on DLPack device {int(kind)}:{int(index)}, and its capsule is on {read.device[0]}:{read.device[1]}")
        return View(read.pointer, read.shape, read.strides, read.dtype, device, read.capsule)

    def writable(self, x: Any) -> bool:
        return not dlpack.is_read_only(x)

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        namespace = self._namespace(like)
        where = {} if self.name == "cupy" else {"device": like.device}
        return namespace.empty(shape, dtype=namespace.float32 if fp32 else like.dtype, **where)

    def integers(self, values: Sequence[int], like: Any) -> Any:
        namespace = self._namespace(like)
        where = {} if self.name == "cupy" else {"device": like.device}
        return namespace.asarray(values, dtype=namespace.int32, **where)

    def stream(self, device: Tuple[int, int]) -> int:
        if device[0] == CUDA and self.name == "cupy":
            return sys.modules["cupy"].cuda.get_current_stream(device[1]).ptr
        return 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        return device[0] == CUDA and self.name == "cupy" and sys.modules["cupy"].cuda.get_current_stream().is_capturing()


class Jax(Traced, Dlpack):
    """jax.Array, on the CPU, where there is no jax.ffi. They cannot be written to, so results are made by NumPy and handed over."""

    def __init__(self) -> None:
        super().__init__("JAX")

    @property
    def maker(self) -> Framework:
        return NUMPY

    def view(self, x: Any, name: str, dtypes: Tuple[str, ...] = FLOATS) -> View:
        view = super().view(x, name, dtypes)
        if view.device[0] != CPU:
            raise Unsupported(f"{name} is a JAX array on a GPU, for which weft needs jax.ffi, which came with JAX 0.5")
        return view

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        return NUMPY.empty(like, shape, fp32)

    def integers(self, values: Sequence[int], like: Any) -> Any:
        return sys.modules["jax"].numpy.asarray(values, "int32")

    def writable(self, x: Any) -> bool:
        return False

    def result(self, x: Any) -> Any:
        return sys.modules["jax"].numpy.asarray(x)

    def operators(self, given: Sequence[Any]) -> Optional[Any]:
        """XLA takes what is traced, and what holds values where it knows weft's handlers."""
        operators = self.load()
        traced = any(isinstance(x, sys.modules["jax"].core.Tracer) for x in given)
        return operators if traced or operators.takes_values() else None


NUMPY, TORCH, JAX = Numpy(), Torch(), Jax()


def register(framework: Traced, load: Callable[[], Any]) -> None:
    """Names what gives the functions that a framework can trace: their attention() and matmul() are called as weft's are."""
    framework.load = load  # type: ignore[method-assign]


def needs_grad(tensors: Sequence[Any]) -> bool:
    """Whether torch is to differentiate with respect to one of these."""
    for x in tensors:
        if getattr(x, "requires_grad", False):
            return sys.modules["torch"].is_grad_enabled()
    return False


def _is_of(kind: type, package: str) -> bool:
    module = kind.__module__
    return module == package or module.startswith(package + ".")


@functools.lru_cache(maxsize=64)
def _framework_of_type(kind: type) -> Optional[Framework]:
    for ancestor in kind.__mro__:
        root = ancestor.__module__.partition(".")[0]
        if (root, ancestor.__name__) == ("numpy", "MaskedArray"):
            return None  # its mask would be lost
        if (root, ancestor.__name__) == ("numpy", "ndarray"):
            return NUMPY
        if (root, ancestor.__name__) == ("torch", "Tensor"):
            return TORCH
        if root in ("jax", "jaxlib"):
            return JAX
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return Dlpack(kind.__module__.partition(".")[0])
    return None


@functools.lru_cache(maxsize=256)
def framework_of(names: Tuple[str, ...], kinds: Tuple[type, ...]) -> Framework:
    """The one framework that arrays of these types are of."""
    first, framework = "", None
    for name, kind in zip(names, kinds):
        mine = _framework_of_type(kind)
        if mine is None:
            raise TypeError(f"{name} is a {kind.__name__}, not an array of NumPy, torch, JAX, CuPy or one with __dlpack__")
        if framework is not None and mine.name != framework.name:
            raise TypeError(f"{first} is an array of {framework.name} and {name} one of {mine.name}: give arrays of one framework")
        first, framework = first or name, framework or mine
    assert framework is not None
    return framework


@functools.lru_cache(maxsize=256)
def _goes_to_jax(kinds: Tuple[type, ...]) -> bool:
    """Whether one of these types is JAX's without values, or all are JAX's."""
    traced = any(_is_of(kind, "jax") and issubclass(kind, sys.modules["jax"].core.Tracer) for kind in kinds)
    return traced or all(_framework_of_type(kind) is JAX for kind in kinds)


def is_torch(x: Any) -> bool:
    return _is_of(type(x), "torch")


def operators(given: Tuple[Any, ...]) -> Optional[Any]:
    """The functions to call in place of weft's, where a framework has to see a call with these arrays; None: weft's own."""
    module = type(given[0]).__module__  # nothing that is cached comes before this: Dynamo sees it
    if module == "torch" or module.startswith("torch."):
        return TORCH.operators(given)
    return JAX.operators(given) if "jax" in sys.modules and _goes_to_jax(tuple(map(type, given))) else None
