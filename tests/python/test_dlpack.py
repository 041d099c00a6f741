# SPDX-License-Identifier: Apache-2.0
"""Arrays that speak only DLPack and the array API."""

import ctypes
import math
import os
import random

import numpy as np
import pytest
import weft
from oracle import assert_close, attention
from weft import dlpack


class Array:
    """A NumPy array that hides everything but the two protocols."""

    device = "cpu"

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return Namespace


class Namespace:
    float32 = np.float32

    @staticmethod
    def empty(shape, dtype, device):
        assert device == "cpu"
        return Array(np.empty(shape, dtype))


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_of_views(versioned, dtype):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 20, 24)).astype(dtype).swapaxes(1, 2)
    k = rng.standard_normal((2, 30, 3, 32)).astype(dtype)[:, 3:25, 1:, 8:]
    o, lse = weft.attention(*(Array(x, versioned) for x in (q, k, k)), causal=True, return_lse=True)
    assert isinstance(o, Array)
    for found, expected in zip((o, lse), attention(q, k, k, causal=True)):
        assert_close(found.array, expected, dtype)


@pytest.mark.parametrize("versioned", [False, True])
def test_a_cache_is_written(versioned):
    rng = np.random.default_rng(0)
    q, new = rng.standard_normal((2, 1, 4, 16)).astype("f"), rng.standard_normal((2, 1, 2, 16)).astype("f")
    cache, table, used = rng.standard_normal((4, 3, 2, 16)).astype("f"), np.array([[3, 0], [1, 2]], "int32"), np.array([3, 1], "int32")
    copies = [cache.copy(), cache.copy()]
    expected = weft.attention(q, *copies, block_table=table, kv_used=used, append=(new, new))
    given = [Array(cache.copy(), versioned) for _ in range(2)]
    options = dict(block_table=Array(table, versioned), kv_used=Array(used, versioned), append=(Array(new, versioned),) * 2)
    found = weft.attention(Array(q, versioned), *given, **options)
    np.testing.assert_array_equal(found.array, expected)
    for mine, theirs in zip(given, copies):
        np.testing.assert_array_equal(mine.array, theirs)
    cache.flags.writeable = False
    if versioned and np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # NumPy before it exports no such array
        with pytest.raises(weft.Invalid, match="k is read-only"):
            weft.attention(Array(q), Array(cache), given[1], **options)


def test_matmul():
    a, b = Array(np.arange(6, dtype="f").reshape(2, 3)), Array(np.arange(12, dtype="f").reshape(4, 3).T)
    np.testing.assert_array_equal(weft.matmul(a, b).array, a.array @ b.array)


@pytest.mark.parametrize("versioned", [False, True])
def test_nothing_is_copied_or_leaked(versioned):
    import sys

    array = np.zeros((3, 5, 7), "f")[:, 1:, ::2]
    before = sys.getrefcount(array)
    read = dlpack.read(Array(array, versioned), "x")
    assert (read.pointer, read.shape, read.strides) == (array.ctypes.data, (3, 4, 4), (35, 7, 2))
    assert sys.getrefcount(array) == before + 1
    del read
    assert sys.getrefcount(array) == before


def capsule_of(tensor):
    """A capsule around a tensor of this test, which keeps it alive."""
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
    return new(ctypes.addressof(tensor), b"dltensor", None)


class Handmade:
    def __init__(self, code=2, bits=32, lanes=1, kind=1):
        self.shape, self.data = (ctypes.c_int64 * 1)(2), (ctypes.c_float * 4)(0, 0, 5, 6)
        self.tensor = dlpack._Tensor(ctypes.addressof(self.data), kind, 0, 1, code, bits, lanes, self.shape, None, 8)

    def __dlpack__(self, stream=None):
        return capsule_of(self.tensor)

    def __dlpack_device__(self):
        return self.tensor.device_type, 0


def test_byte_offset_and_absent_strides():
    x = Handmade()
    read = dlpack.read(x, "x")
    assert (read.pointer, read.strides, read.dtype) == (ctypes.addressof(x.data) + 8, (1,), "fp32")


def test_what_is_refused():
    for x in (Handmade(bits=64), Handmade(code=0), Handmade(lanes=4)):
        with pytest.raises(weft.Invalid, match="x has elements of"):
            dlpack.read(x, "x")
    with pytest.raises(weft.Unsupported, match="q is on DLPack device 10"):
        weft.attention(*[Handmade(kind=10)] * 3)


class Hostile:
    """A capsule that says anything; only where its memory is stays true, which nobody can check."""

    device, dtype = "cpu", np.float32
    SIZES = (0, 1, 2, 3, 2, 3, 2, 3, -1, 2**40, 2**62, -(2**63), 2**63 - 1)

    def __init__(self, generator):
        def numbers(count):
            return (ctypes.c_int64 * count)(*(generator.choice(self.SIZES if wild else self.SIZES[1:8]) for _ in range(count)))

        wild = generator.random() < 0.7
        self.data = (ctypes.c_float * 4096)()
        ndim = generator.choice((-1, 0, 1, 3, 4, 4, 4, 4, 5, 64, 65, 2**31 - 1, -(2**31))) if wild else 4
        self.lengths = numbers(64) if generator.random() < 0.95 else None
        self.steps = numbers(64) if generator.random() < 0.3 else None
        kind, dtype = generator.choice((1, 1, 1, 1, 2, 3, 10, -5)) if wild else 1, generator.choice(((2, 32), (2, 32), (2, 16), (4, 16), (0, 32), (6, 8), (9, 255)))
        data = ctypes.addressof(self.data) if generator.random() < 0.95 else None
        offset = generator.choice((0, 0, 0, 4, 3, 2**64 - 1)) if wild else 0
        tensor = dlpack._Tensor(data, kind, generator.choice((0, 0, -1, 9)), ndim, *dtype, generator.choice((1, 1, 1, 1, 0, 4)), self.lengths, self.steps, offset)
        self.versioned = dlpack._Versioned(generator.choice((1, 1, 1, 0, 2, 2**32 - 1)), 0, None, None, generator.choice((0, 0, 1, 2, 2**64 - 1)), tensor)
        self.name = generator.choice((b"dltensor", b"dltensor_versioned", b"dltensor_versioned", b"used_dltensor", b"other"))
        self.shape = tuple(self.lengths[:4]) if self.lengths else ()
        self.told = kind if generator.random() < 0.8 else 1

    def __dlpack__(self, **options):
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
        return new(ctypes.addressof(self.versioned if b"versioned" in self.name else self.versioned.tensor), self.name, None)

    def __dlpack_device__(self):
        return self.told, 0

    def __array_namespace__(self):
        return Namespace


def test_hostile_capsules_are_refused():
    rounds = 50 * int(os.environ.get("WEFT_TEST_ROUNDS") or 100)
    generator, read = random.Random(int(os.environ.get("WEFT_TEST_SEED") or 0)), 0
    run = 0  # of these, attentions that were computed
    for _ in range(rounds):
        x = Hostile(generator)
        try:
            found = dlpack.read(x, "x", dtypes=("fp32", "fp16", "bf16", "int32", "bool"))
        except weft.Error:
            continue
        read += 1
        tensor = x.versioned.tensor
        assert len(found.shape) == len(found.strides) == tensor.ndim <= dlpack.MOST_DIMENSIONS and min(found.shape, default=0) >= 0
        assert 0 <= found.pointer < 2**64 and (tensor.data or 0 in found.shape)
        # What is inside its memory is computed with, or refused.
        last = sum((length - 1) * stride for length, stride in zip(found.shape, found.strides))
        if last < 1000 and min((0, *found.strides)) >= 0 and 0 < math.prod(found.shape) < 4096 and tensor.byte_offset <= 8 and tensor.data:
            try:
                weft.attention(x, x, x)
                run += 1
            except weft.Error:
                pass
    assert read > rounds / 50 and run > rounds / 200
