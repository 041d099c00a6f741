# SPDX-License-Identifier: Apache-2.0
"""Arrays as the library sees them, and what weft asks of a framework that has arrays. Nothing is copied."""

from __future__ import annotations

from typing import Any, Collection, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import dlpack
from .dlpack import FLOATS
from .errors import Invalid


# Bytes of an element of a dtype, by weft's names.
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int32": 4, "int64": 8, "bool": 1}


class View(NamedTuple):
    """An array as the library sees it; strides are in elements, device is (kind, index)."""

    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: str
    device: Tuple[int, int]
    keep: Any

    def transposed(self) -> "View":
        """The same with its last two dimensions the other way round."""
        return self._replace(shape=(*self.shape[:-2], *self.shape[:-3:-1]), strides=(*self.strides[:-2], *self.strides[:-3:-1]))


class Framework:
    """What weft asks of a framework. Here are the answers of one whose arrays are in host memory."""

    name: str

    @property
    def maker(self) -> "Framework":
        """The framework of the arrays that empty() and empty_like() make."""
        return self

    def view(self, x: Any, name: str, dtypes: Tuple[str, ...] = FLOATS) -> View:
        """An array's view, which must be of one of the dtypes; `name` is the array's in messages."""
        raise NotImplementedError

    def writable(self, x: Any) -> bool:
        """Whether elements of an array may be written."""
        return True

    def integers(self, values: Sequence[int], like: Any) -> Any:
        """An array of int32 on the device of another."""
        raise NotImplementedError

    def form(self, x: Any) -> Optional[tuple]:
        """All that a plan depends on, cheaply, to find a plan again; None where only view() can tell."""
        return None

    def pointer(self, x: Any) -> int:
        """Where the elements are, of an array that view() would take."""
        return self.view(x, "an array").pointer

    def empty(self, like: Any, shape: Tuple[int, ...], fp32: bool = False) -> Any:
        """A packed array on the device and of the dtype of another, or of fp32."""
        raise NotImplementedError

    def empty_like(self, like: Any) -> Any:
        """An array laid out like another."""
        return self.empty(like, tuple(like.shape))

    def result(self, x: Any) -> Any:
        """What the caller gets for an array of the maker's."""
        return x

    def stream(self, device: Tuple[int, int]) -> int:
        """The stream that work is put on; 0: the default stream."""
        return 0

    def capturing(self, device: Tuple[int, int]) -> bool:
        """Whether what is put on the current stream goes into a CUDA graph."""
        return False


def alike(views: Mapping[str, View], fp32: Collection[str] = (), int32: Collection[str] = ()) -> None:
    """Checks that views share their device and their dtype, but for the dtypes of those that are always fp32 or int32."""
    name_of_first, first = next(iter(views.items()))
    for name, view in views.items():
        if name in fp32 and view.dtype != "fp32":
            raise Invalid(f"{name} is {view.dtype}, not fp32")
        if name not in fp32 and name not in int32 and view.dtype != first.dtype:
            raise Invalid(f"{name} is {view.dtype} and {name_of_first} is {first.dtype}: give arrays of one dtype")
        if view.device != first.device:
            raise Invalid(f"{name} and {name_of_first} are on different devices")


def transposed(x: Any) -> Any:
    """An array of a framework with strides, seen with its last two dimensions the other way round."""
    return x.T if len(x.shape) <= 2 else x.swapaxes(-1, -2)


def packed(shape: Tuple[int, ...], dtype: str, device: Tuple[int, int]) -> View:
    """The view of a packed array that has no memory yet."""
    return View(0, shape, dlpack.packed_strides(shape), dtype, device, None)
