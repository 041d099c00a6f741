"""Arrays of every framework: where their elements are, and how to make another one.

NumPy arrays and torch tensors tell of themselves (NumPy cannot give bf16 or, before 2.1, read-only arrays to DLPack; torch
refuses tensors that need a gradient). Everything else speaks DLPack. Nothing is copied.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Iterable, NamedTuple, Optional, Tuple

from . import dlpack
from .errors import Invalid, Unsupported
from .plans import CPU, CUDA


class View(NamedTuple):
    """An array as the library sees it; strides are in elements, device is (kind, index)."""

    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: str
    device: Tuple[int, int]
    keep: Any


@functools.lru_cache(maxsize=64)
def numpy_dtype(dtype: Any) -> Optional[str]:
    """What weft calls a NumPy dtype; None where it has no name for it."""
    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    return names.get(dtype.name) if dtype.isnative else None


class Numpy:
    """numpy.ndarray, on the CPU."""

    name = "NumPy"

    def view(self, x: Any, name: str) -> View:
        dtype, size = numpy_dtype(x.dtype), x.dtype.itemsize
        if dtype is None:
            shown = x.dtype.name if x.dtype.isnative else x.dtype.str
            raise Invalid(f"{name} has dtype {shown}, not float32, float16 or bfloat16 of this host")
        if any(stride % size for stride in x.strides):
            raise Invalid(f"{name} has strides {x.strides} that are not whole elements of {size} bytes")
        pointer = self.pointer(x)
        if pointer % size:
            raise Invalid(f"{name} is not aligned to its elements of {size} bytes")
        return View(pointer, x.shape, tuple(stride // size for stride in x.strides), dtype, (CPU, 0), x)

    def form(self, x: Any) -> Optional[tuple]:
        """All that a plan depends on, cheaply, to find a plan again; None where only view() can tell."""
        return x.shape, x.strides, x.dtype

    def pointer(self, x: Any) -> int:
        """Where the elements are, of an array whose form is known."""
        try:  # the buffer protocol is three times as fast, for arrays that are packed and can be written to
            return ctypes.addressof(ctypes.c_char.from_buffer(x))
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

    def stream(self, device: Tuple[int, int]) -> int:
        return 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        """Whether what is put on the current stream goes into a CUDA graph."""
        return False

    def result(self, x: Any) -> Any:
        return x


class Torch(Numpy):
    """torch.Tensor, on the CPU or an NVIDIA GPU."""

    name = "torch"

    @functools.cached_property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    @functools.cached_property
    def _names(self) -> Any:
        torch = self._torch
        return {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

    @functools.cached_property
    def _current_stream(self) -> Any:
        """The stream's handle by a device's index: what Triton asks, where torch has it, or torch's public, slower way."""
        torch = self._torch
        return getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream)

    def view(self, x: Any, name: str) -> View:
        if x.dtype not in self._names:
            raise Invalid(f"{name} has dtype {x.dtype}, not torch.float32, torch.float16 or torch.bfloat16")
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

    def stream(self, device: Tuple[int, int]) -> int:
        return self._current_stream(device[1]) if device[0] == CUDA else 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        return device[0] == CUDA and self._torch.cuda.is_current_stream_capturing()


class Speaker(Numpy):
    """Any array that speaks DLPack and the array API, such as CuPy's."""

    def __init__(self, name: str):
        self.name = name

    def _namespace(self, x: Any) -> Any:
        if self.name == "cupy":
            return sys.modules["cupy"]
        try:
            return x.__array_namespace__()
        except AttributeError:
            raise Invalid(f"arrays of {self.name} have no __array_namespace__, so weft cannot make one") from None

    def view(self, x: Any, name: str) -> View:
        kind, index = x.__dlpack_device__()
        if kind not in (dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST):
            raise Unsupported(f"{name} is on DLPack device {int(kind)}: weft runs on the CPU and on NVIDIA GPUs")
        device = (CUDA, int(index)) if kind == dlpack.CUDA else (CPU, 0)
        # DLPack gives the legacy default stream, which CUDA calls 0, the number 1.
        stream = (self.stream(device) or 1) if device[0] == CUDA else None
        read = dlpack.read(x, name, stream)
        return View(read.pointer, read.shape, read.strides, read.dtype, device, read.capsule)

    def form(self, x: Any) -> Optional[tuple]:
        return None

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        namespace = self._namespace(like)
        where = {} if self.name == "cupy" else {"device": like.device}
        return namespace.empty(shape, dtype=namespace.float32 if fp32 else like.dtype, **where)

    def empty_like(self, like: Any) -> Any:
        return self.empty(like, tuple(like.shape))

    def stream(self, device: Tuple[int, int]) -> int:
        if device[0] == CUDA and self.name == "cupy":
            return sys.modules["cupy"].cuda.get_current_stream(device[1]).ptr
        return 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        return device[0] == CUDA and self.name == "cupy" and sys.modules["cupy"].cuda.get_current_stream().is_capturing()


class Jax(Speaker):
    """jax.Array, on the CPU, where there is no jax.ffi. They cannot be written to, so results are made by NumPy and handed over."""

    def __init__(self) -> None:
        super().__init__("JAX")

    def view(self, x: Any, name: str) -> View:
        view = super().view(x, name)
        if view.device[0] != CPU:
            raise Unsupported(f"{name} is a JAX array on a GPU, for which weft needs jax.ffi, which came with JAX 0.5")
        return view

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        return self._numpy.empty(shape, self._numpy.float32 if fp32 else like.dtype)

    def result(self, x: Any) -> Any:
        return sys.modules["jax"].numpy.asarray(x)


_numpy, _torch, _jax = Numpy(), Torch(), Jax()


@functools.lru_cache(maxsize=64)
def _framework_of_type(kind: type) -> Optional[Numpy]:
    for ancestor in kind.__mro__:
        root = ancestor.__module__.partition(".")[0]
        if (root, ancestor.__name__) == ("numpy", "MaskedArray"):
            return None  # its mask would be lost
        if (root, ancestor.__name__) == ("numpy", "ndarray"):
            return _numpy
        if (root, ancestor.__name__) == ("torch", "Tensor"):
            return _torch
        if root in ("jax", "jaxlib"):
            return _jax
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return Speaker(kind.__module__.partition(".")[0])
    return None


@functools.lru_cache(maxsize=256)
def _framework_of_types(names: Tuple[str, ...], kinds: Tuple[type, ...]) -> Numpy:
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


def framework_of(**arrays: Any) -> Numpy:
    """The one framework that all arrays are of."""
    return _framework_of_types(tuple(arrays), tuple(map(type, arrays.values())))


def result_view(framework: Numpy, x: Any, name: str) -> View:
    """The view of an array that framework.empty() made: for JAX, NumPy's."""
    return (_numpy if framework is _jax else framework).view(x, name)


def alike(names: Iterable[str], views: Tuple[View, ...]) -> Tuple[View, ...]:
    """The views, which must share their dtype and device."""
    first = views[0]
    for name, view in zip(names, views):
        if view.dtype != first.dtype:
            raise Invalid(f"{name} is {view.dtype} and {next(iter(names))} is {first.dtype}: give arrays of one dtype")
        if view.device != first.device:
            raise Invalid(f"{name} and {next(iter(names))} are on different devices")
    return views


def views_of(framework: Numpy, **arrays: Any) -> Tuple[View, ...]:
    """Views of arrays that must share their dtype and device."""
    return alike(arrays, tuple(framework.view(array, name) for name, array in arrays.items()))
