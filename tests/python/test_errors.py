# SPDX-License-Identifier: Apache-2.0
"""Bad arguments: the right exception, one clear message."""

import numpy as np
import pytest
import weft

X = np.ones((1, 4, 2, 16), "f")


@pytest.mark.parametrize("change, message", [
    ({"q": X[0]}, "q has 3 dimensions"),
    ({"k": X[..., :8]}, "must be alike"),
    ({"v": X[:, :2]}, "k is .* and v is"),
    ({"q": X.astype("d")}, "q has dtype float64"),
    ({"q": X.astype("i")}, "q has dtype int32"),
    ({"q": X.astype(">f4")}, "q has dtype >f4"),
    ({"k": X.astype("e"), "v": X.astype("e")}, "k is fp16 and q is fp32"),
    ({"q": np.ones((1, 4, 2, 32), "f")[..., ::2]}, "last dimension of q has stride 2"),
    ({name: np.broadcast_to(np.ones(16, "f"), (2, 4, 2, 16)) for name in "qkv"}, "q is one row, repeated"),
    ({"q": X[:, ::-1]}, "q_strides are negative"),
    ({"k": np.ones((1, 4, 3, 16), "f"), "v": np.ones((1, 4, 3, 16), "f")}, "kv_heads 3 does not divide heads 2"),
    ({"q": np.ones((1, 4, 2, 577), "f"), "k": np.ones((1, 4, 2, 577), "f")}, "head dims of 577 and, for V, 16 are not between 1 and 576"),
    ({"q": X[:, :0]}, "seq 0 is not between 1"),
    ({"layout": "sbhd"}, "layout 'sbhd' is not one of"),
    ({"offset": 1}, "offset 1 is only for causal"),
    ({"causal": True, "offset": 1.5}, "offset 1.5 is not a whole number"),
    ({"causal": True, "offset": 2**70}, "does not fit 64 bits"),
    ({"scale": 0}, "scale 0 is not"),
    ({"scale": float("nan")}, "scale nan is not"),
    ({"scale": "x"}, "scale 'x' is not a number"),
    ({"schedule": {"order": "spiral"}}, "there is no order 'spiral'"),
    ({"schedule": {"order": "hilbert"}}, "hilbert"),
    ({"schedule": {"speed": 1}}, "a schedule has no 'speed'"),
    ({"schedule": {"tile": 64}}, "tile 64 is not a tuple"),
    ({"schedule": {"tile": (1, 2, 3, 4)}}, "more than 3"),
    ({"schedule": {"axis": "k"}}, "axis 'k' is not"),
    ({"schedule": 7}, "schedule is a int"),
])  # fmt: skip
def test_invalid(change, message):
    with pytest.raises(weft.Invalid, match=message) as caught:
        weft.attention(**{"q": X, "k": X, "v": X, **change})
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, weft.Error)
    assert caught.value.status == "invalid" and "\n" not in str(caught.value)


def test_not_arrays_and_unlike_arrays():
    with pytest.raises(TypeError, match="q is a list"):
        weft.attention([1.0], X, X)
    with pytest.raises(TypeError, match="q is a MaskedArray"):
        weft.attention(np.ma.masked_array(X), X, X)
    with pytest.raises(TypeError, match="v is a NoneType"):
        weft.attention(X, X, None)

    class Silent:
        __dlpack__ = __dlpack_device__ = None

    with pytest.raises(TypeError, match="q is an array of NumPy and k one of test_errors"):
        weft.attention(X, Silent(), X)


def test_not_found():
    with pytest.raises(weft.NotFound, match="no machine") as caught:
        weft.Machine("abacus")
    assert isinstance(caught.value, LookupError) and caught.value.status == "not found"


def test_statuses_are_the_library_s():
    library = weft._c.library
    library.weft_status_name.restype = weft._c.c_char_p
    for number, kind in weft.errors.BY_STATUS.items():
        assert kind.status == library.weft_status_name(number).decode()
