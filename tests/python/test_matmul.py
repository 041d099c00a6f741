"""weft.matmul on NumPy arrays against fp64."""

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close

SIZE = st.integers(1, 90)


def matrix(rng, rows, cols, dtype, memory):
    if memory == "columns":
        return rng.standard_normal((cols, rows)).astype(dtype).T
    if memory == "sliced":
        return rng.standard_normal((rows, cols + 5)).astype(dtype)[:, 2 : cols + 2]
    return rng.standard_normal((rows, cols)).astype(dtype)


@settings(max_examples=150)
@given(SIZE, SIZE, SIZE, st.sampled_from(["float32", "float16"]), st.data())
def test_random_problems(m, n, k, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    memory = st.sampled_from(["rows", "columns", "sliced"])
    a, b = matrix(rng, m, k, dtype, data.draw(memory)), matrix(rng, k, n, dtype, data.draw(memory))
    order = data.draw(st.sampled_from([None, "raster-m", "hilbert", "group", "serpentine"]))
    c = weft.matmul(a, b, schedule={"order": order})
    assert c.dtype == a.dtype and c.flags.c_contiguous
    assert_close(c, a.astype("d") @ b.astype("d"), dtype)


@pytest.mark.parametrize("a, b, message", [
    (np.ones((2, 3), "f"), np.ones((4, 2), "f"), "a's columns must be b's rows"),
    (np.ones((2, 3, 4), "f"), np.ones((4, 2), "f"), "a has 3 dimensions"),
    (np.ones((4, 8), "f")[:, ::2], np.ones((4, 2), "f"), "copy it first"),
    (np.ones((2, 3), "f"), np.ones((3, 2), "e"), "b is fp16 and a is fp32"),
    (np.ones((2, 0), "f"), np.ones((0, 2), "f"), "k 0 is not between 1"),
])  # fmt: skip
def test_what_is_refused(a, b, message):
    with pytest.raises(weft.Invalid, match=message):
        weft.matmul(a, b)


def test_memory_is_given_back():
    a = np.ones((512, 512), "float32")
    first = weft.matmul(a, a)
    assert weft.release_memory() > 0
    assert weft.release_memory() == 0
    assert np.array_equal(weft.matmul(a, a), first)
