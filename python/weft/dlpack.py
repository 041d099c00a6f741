# SPDX-License-Identifier: Apache-2.0
"""Reading DLPack capsules, without copying what they hold.

The capsule is not consumed: it is kept as long as the memory is used, and its producer's destructor does the rest.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple, Sequence, Tuple

from .errors import Invalid, Unsupported, listed

CPU, CUDA, CUDA_HOST = 1, 2, 3  # DLDeviceType
MOST_DIMENSIONS = 64  # as many as arrays have anywhere
FLOATS = ("fp32", "fp16", "bf16")  # what Q, K and V are made of
# Elements by DLDataTypeCode and bits; a bool may come as any whole number of 8 bits.
_DTYPES = {(2, 32): "fp32", (2, 16): "fp16", (4, 16): "bf16", (0, 32): "int32", (6, 8): "bool", (1, 8): "bool"}


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]  # fmt: skip


class _Versioned(Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("tensor", _Tensor),
    ]  # fmt: skip


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, c_char_p], c_int
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes, _get_pointer.restype = [ctypes.py_object, c_char_p], c_void_p


class Read(NamedTuple):
    """What a capsule says. Strides are in elements; `capsule` keeps the memory alive."""

    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: str
    device: Tuple[int, int]
    capsule: Any


def packed_strides(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """Strides of a packed array, the last dimension contiguous."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _capsule_of(array: Any, stream: Any) -> Any:
    """Asks for a versioned capsule first; older producers do not know the question."""
    arguments = {} if stream is None else {"stream": stream}
    try:
        return array.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:
        return array.__dlpack__(**arguments)


def is_read_only(array: Any) -> bool:
    """Whether an array says that it may not be written to, or gives a copy of itself, which only versioned capsules can."""
    capsule = _capsule_of(array, None)
    if not _is_valid(capsule, b"dltensor_versioned"):
        return False
    managed = ctypes.cast(_get_pointer(capsule, b"dltensor_versioned"), POINTER(_Versioned)).contents
    if managed.major != 1:
        raise Unsupported(f"an array comes as DLPack {managed.major}.{managed.minor}, and weft reads 1.x")
    return bool(managed.flags & 3)  # DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_FLAG_BITMASK_IS_COPIED


def _dtype_name(tensor: _Tensor, name: str, dtypes: Sequence[str]) -> str:
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype not in dtypes:
        raise Invalid(f"{name} has elements of {tensor.bits} bits of DLPack kind {tensor.code}, not {listed(dtypes)}")
    return str(dtype)


def read(array: Any, name: str, stream: Any = None, dtypes: Sequence[str] = FLOATS) -> Read:
    """Reads an array's capsule, of one of the dtypes. `stream` is the consumer's, as the array API's __dlpack__ takes it."""
    capsule = _capsule_of(array, stream)
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_get_pointer(capsule, b"dltensor_versioned"), POINTER(_Versioned)).contents
        if managed.major != 1:
            raise Unsupported(f"{name} comes as DLPack {managed.major}.{managed.minor}, and weft reads 1.x")
        tensor = managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = ctypes.cast(_get_pointer(capsule, b"dltensor"), POINTER(_Tensor)).contents
    else:
        raise Invalid(f"{name} gives a capsule that holds no DLPack tensor")
    if not 0 <= tensor.ndim <= MOST_DIMENSIONS or (tensor.ndim > 0 and not tensor.shape):
        raise Invalid(f"{name} has {tensor.ndim} dimensions{'' if tensor.shape else ' and no shape'}")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim > 0 else ()
    if any(length < 0 for length in shape):
        raise Invalid(f"{name} has the shape {shape}")
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides and shape else packed_strides(shape)
    pointer = (tensor.data or 0) + tensor.byte_offset
    if pointer >= 1 << 8 * ctypes.sizeof(c_void_p) or not (tensor.data or 0 in shape):
        raise Invalid(f"{name} has no memory")
    return Read(pointer, shape, strides, _dtype_name(tensor, name, dtypes), (tensor.device_type, tensor.device_id), capsule)
