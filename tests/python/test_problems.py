# SPDX-License-Identifier: Apache-2.0
"""Problems and schedules are checked when they are made, by the library and with its messages."""

import dataclasses

import numpy as np
import pytest
import weft


@pytest.mark.parametrize("make, message", [
    (lambda: weft.Attention(seq=0), "seq 0 is not between 1 and 2147483647"),
    (lambda: weft.Attention(seq=8, heads=8, kv_heads=3), "kv_heads 3 does not divide heads 8"),
    (lambda: weft.Attention(seq=8, head_dim=577), "not between 1 and 576"),
    (lambda: weft.Attention(seq=8, dtype="fp64"), "dtype 'fp64' is not one of fp32, fp16, bf16, fp8"),
    (lambda: weft.Attention(seq=8, window=(1,)), "window .* is not"),
    (lambda: weft.Attention(seq=8, offset=3), "offset 3 is only for causal=True"),
    (lambda: weft.Attention(seq=8, softcap=-1.0), "softcap"),
    (lambda: weft.Attention(seq=8, lengths=5), "lengths 5 is not a list of whole numbers"),
    (lambda: weft.Attention(seq=8, lengths=[4, 5]), "q_starts"),
    (lambda: weft.AttentionBackward(seq=8, layout="bsdh"), "layout 'bsdh' is not one of"),
    (lambda: weft.Gemm(1, 2, 0), "k 0 is not between 1 and 2147483647"),
    (lambda: weft.Gemm(1, 2.5, 3), "n 2.5 is not a whole number"),
    (lambda: weft.Combine(seq=4, parts=40), "parts 40 are more than 16"),
    (lambda: weft.GroupedGemm(5, 3, 2), "group_rows 5 is not a list of whole numbers"),
    (lambda: weft.GroupedGemm([5, 9], 3, 2, masked=8), "9"),
    (lambda: weft.Schedule(order="cake"), "there is no order 'cake': raster-m"),
    (lambda: weft.Schedule(sweep="away"), "there is no sweep 'away'"),
    (lambda: weft.Schedule(axis="k"), "axis 'k' is not"),
    (lambda: dataclasses.replace(weft.Gemm(1, 2, 3), m=-1), "m -1 is not between"),
])  # fmt: skip
def test_bad_ones_are_refused_at_once(make, message):
    with pytest.raises(weft.Invalid, match=message):
        make()


@pytest.mark.parametrize("dtype", ["bf16", "BF16", "bfloat16", type("bfloat16", (), {})])
def test_dtypes_may_be_a_frameworks(dtype):
    assert weft.Gemm(1, 2, 3, dtype=dtype) == weft.Gemm(1, 2, 3, dtype="bf16")
    assert weft.Attention(seq=8, dtype="bf16", o_dtype=np.float32).o_dtype == "fp32"
    assert weft.Attention(seq=8, dtype=np.dtype("float16")).dtype == "fp16"


def test_what_is_checked_does_not_change():
    lengths = [3, 5]
    packed = weft.Attention(seq=8, lengths=lengths, kv_lengths=np.array([3, 5]))
    lengths.append(100)
    assert packed.lengths == packed.kv_lengths == (3, 5)
    assert {packed: 1}[weft.Attention(seq=8, lengths=(3, 5), kv_lengths=(3, 5))] == 1


def test_brief():
    assert repr(weft.Attention(1024, causal=True)) == "Attention(seq=1024, causal=True)"
    assert repr(weft.AttentionBackward(1024)) == "AttentionBackward(seq=1024)"
    assert repr(weft.Schedule(tile=[64, 64], sweep="pair")) == "Schedule(tile=(64, 64), sweep='pair')"
    assert repr(weft.Schedule(order=range(1000))) == "Schedule(order=<1,000 values>)"
    for problem in (weft.Attention(7, 8, 2, 6, window=(3, 0)), weft.Gemm(4, 5, 6, "bf16"), weft.GroupedGemm([1, 0, 3], 8, 8), weft.Combine(9)):
        assert eval(repr(problem), vars(weft)) == problem
