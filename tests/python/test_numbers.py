# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/numbers.md that hold on a GPU, too, with torch's tensors: the tests of that name in tests/cpu have all of the rows."""

import math

import pytest
import weft

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here"))]
DTYPES = [torch.float16, torch.bfloat16]
INF, NAN = math.inf, math.nan
pytestmark = [pytest.mark.parametrize("device", DEVICES), pytest.mark.parametrize("dtype", DTYPES)]
forms = pytest.mark.parametrize("seq, kv_seq, head_dim", [(300, 410, 64), (300, 410, 128), (1, 2000, 128)])


def normal(device, dtype, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)


def tensors(device, dtype, seq, kv_seq, head_dim):
    return normal(device, dtype, 1, seq, 2, head_dim), *(normal(device, dtype, 1, kv_seq, 2, head_dim) for _ in range(2))


def attention(q, k, v, **options):
    return weft.attention(q, k, v, return_lse=True, **options)


def same(x, y):
    return torch.equal(x.nan_to_num(7e4), y.nan_to_num(7e4))


def near(x, y):
    """NaN in the same places, and elsewhere the same bits on a CPU; a GPU may take another way for the rows beside."""
    assert torch.equal(x.isnan(), y.isnan())
    assert same(x, y) if x.device.type == "cpu" else (x - y).nan_to_num().abs().max() <= 2.0**-6 * y.nan_to_num().abs().max()


@forms
def test_attention_query_nan(device, dtype, seq, kv_seq, head_dim):
    q, k, v = tensors(device, dtype, seq, kv_seq, head_dim)
    clean, clean_lse = attention(q, k, v)
    q[0, seq // 2, 1, 5] = NAN
    o, lse = attention(q, k, v)
    clean[0, seq // 2, 1], clean_lse[0, 1, seq // 2] = NAN, NAN
    near(o, clean)
    near(lse, clean_lse)


@forms
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_attention_value_nonfinite(device, dtype, seq, kv_seq, head_dim, value):
    q, k, v = tensors(device, dtype, seq, kv_seq, head_dim)
    clean, clean_lse = attention(q, k, v, scale=0.01)
    v[0, 11, 1, 7] = value
    o, lse = attention(q, k, v, scale=0.01)
    column = o[0, :, 1, 7]
    assert column.isnan().all() if math.isnan(value) else (column == value).all()
    o[0, :, 1, 7] = clean[0, :, 1, 7]
    assert (o - clean).abs().max() <= 2.0**-6
    near(lse, clean_lse)


@forms
def test_attention_score_minus_infinity(device, dtype, seq, kv_seq, head_dim):
    q, k, v = tensors(device, dtype, seq, kv_seq, head_dim)
    q[:], k[:] = 1, -INF
    o, lse = attention(q, k, v)
    assert (o == 0).all() and torch.isneginf(lse).all()


@forms
def test_attention_score_plus_infinity(device, dtype, seq, kv_seq, head_dim):
    q, k, v = tensors(device, dtype, seq, kv_seq, head_dim)
    q[:], k[:] = 1, 0.5
    k[0, 3, 1, 0] = INF
    o, _ = attention(q, k, v)
    assert o[:, :, 1].isnan().all() and o[:, :, 0].isfinite().all()


def test_gemm_nan(device, dtype):
    a, b = normal(device, dtype, 130, 264), normal(device, dtype, 264, 200)
    clean = weft.matmul(a, b)
    spoilt = a.clone()
    spoilt[5, 7] = NAN
    expected = clean.clone()
    expected[5] = NAN
    assert same(weft.matmul(spoilt, b), expected)
    spoilt = b.clone()
    spoilt[7, 5] = NAN
    expected = clean.clone()
    expected[:, 5] = NAN
    assert same(weft.matmul(a, spoilt), expected)


def test_gemm_infinity(device, dtype):
    a, b = normal(device, dtype, 130, 264), normal(device, dtype, 264, 200)
    a[5, 7] = -INF
    b[7, :100], b[7, 100:] = 0.5, 0
    c = weft.matmul(a, b)
    assert torch.isneginf(c[5, :100]).all() and c[5, 100:].isnan().all()
    assert torch.cat([c[:5], c[6:]]).isfinite().all()


def test_gemm_overflow(device, dtype):
    a = torch.full((128, 128), torch.finfo(dtype).max, dtype=dtype, device=device)
    b = torch.full((128, 128), 1.0, dtype=dtype, device=device)
    if dtype == torch.float16:
        assert torch.isposinf(weft.matmul(a, b)).all()
        b[:] = torch.tensor([1.0, -1.0], device=device).repeat(64)[:, None]
        assert (weft.matmul(a, b) == 0).all()  # sums are in fp32
    else:
        assert not weft.matmul(a, -b).isfinite().any()


def test_combine_lse(device, dtype):
    parts = [torch.full((1, 7, 1, 8), n + 1.0, dtype=dtype, device=device) for n in range(2)]
    first = torch.tensor([3, -INF, 1e30, -1e30, NAN, NAN, INF], device=device)
    second = torch.tensor([-INF, -INF, -1e30, -2e30, 0, -INF, 0], device=device)
    parts[1][0, 0] = NAN  # of a part that saw no key
    o, lse = weft.combine(parts, [x.reshape(1, 1, 7) for x in (first, second)], return_lse=True)
    assert same(lse.ravel(), torch.tensor([3, -INF, 1e30, -1e30, NAN, NAN, NAN], device=device))
    assert same(o[0, :, 0, 0].float(), torch.tensor([1, 0, 1, 1, NAN, NAN, NAN], device=device))
