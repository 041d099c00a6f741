#!/usr/bin/env python3
"""Compares libweft with NumPy in float64: check_numpy.py PATH_TO_LIBWEFT

Exit status: 0 when all agree, 1 when something does not, 2 on bad usage, 77 when NumPy is missing.
"""
import ctypes
import itertools
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

I64, DOUBLE, POINTER, ENUM = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p, ctypes.c_int
FP32, FP16 = 0, 1
BSHD, BHSD = 0, 1
NONE, CAUSAL, BOTTOM_RIGHT, WINDOW, WINDOW_BOTTOM_RIGHT = range(5)
ROW, COL = 0, 1
NUMPY_DTYPE = {FP32: np.float32, FP16: np.float16}
# One rounding to the dtype, and a little for results near zero.
TOLERANCE = {FP32: (2e-6, 2e-6), FP16: (1e-3, 2e-4)}


ATTENTION, BACKWARD, GEMM = 1, 2, 3  # operations
HEAD = [("struct_size", ctypes.c_size_t), ("operation", ctypes.c_int32)]


class Strides(ctypes.Structure):
    _fields_ = [("batch", I64), ("seq", I64), ("head", I64)]


class Attention(ctypes.Structure):
    _fields_ = HEAD + [("batch", I64), ("heads", I64), ("kv_heads", I64), ("seq", I64),
                ("kv_seq", I64), ("head_dim", I64), ("dtype", ENUM), ("mask", ENUM), ("offset", I64),
                ("scale", DOUBLE), ("layout", ENUM), ("q_strides", Strides), ("k_strides", Strides),
                ("v_strides", Strides), ("o_strides", Strides), ("left", I64), ("right", I64)]


class AttentionData(ctypes.Structure):
    _fields_ = HEAD + [(name, POINTER) for name in ("q", "k", "v", "o", "lse")]


class AttentionGradients(ctypes.Structure):
    _fields_ = HEAD + [(name, POINTER) for name in ("q", "k", "v", "grad_o", "grad_q", "grad_k", "grad_v", "o", "lse")]


class Gemm(ctypes.Structure):
    _fields_ = HEAD + [("m", I64), ("n", I64), ("k", I64), ("dtype", ENUM),
                ("c_dtype", ENUM), ("a_major", ENUM), ("b_major", ENUM), ("c_major", ENUM), ("lda", I64), ("ldb", I64),
                ("ldc", I64), ("alpha", DOUBLE), ("beta", DOUBLE), ("batch", I64), ("a_stride", I64), ("b_stride", I64),
                ("c_stride", I64)]


class GemmData(ctypes.Structure):
    _fields_ = HEAD + [(name, POINTER) for name in ("a", "b", "c")]


class Message(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 256)]


def call(function, problem, data):
    message = Message()
    function.restype = ENUM
    if function(ctypes.byref(problem), ctypes.byref(data), ctypes.byref(message)) != 0:
        raise RuntimeError(f"{function.__name__}: {message.text.decode()}")


def compare(what, got, want, dtype, terms=1, roundings=0):
    """`terms` is how many products of numbers near 1 were summed in fp32, `roundings` how many of them were rounded to the
    dtype first: a backward pass takes the output as the forward pass rounded it."""
    relative, absolute = TOLERANCE[dtype]
    absolute += 1e-6 * terms + relative * roundings
    if not np.allclose(got.astype(np.float64), want, rtol=relative, atol=absolute):
        worst = np.abs(got.astype(np.float64) - want).max()
        raise AssertionError(f"{what}: differs by up to {worst:.3g}")


def address(array):
    return array.ctypes.data


def attention(q, k, v, visible, scale, grad_o):
    """All (batch, heads, seq, head_dim), K and V repeated to as many heads. Returns o, lse and the three gradients."""
    scores = np.where(visible, scale * q @ k.swapaxes(-1, -2), -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(largest), largest, 0) + np.log(total))[..., 0]
    weights = weights / np.where(total == 0, 1, total)
    o = weights @ v
    grad_scores = scale * weights * (grad_o @ v.swapaxes(-1, -2) - (grad_o * o).sum(axis=-1, keepdims=True))
    return o, lse, grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad_o


def check_attention(weft, rng, dtype, mask, layout, group):
    batch, kv_heads, head_dim = (int(n) for n in (rng.integers(1, 4), rng.integers(1, 4), 8 * rng.integers(1, 5)))
    heads, seq, kv_seq = kv_heads * group, int(rng.integers(1, 40)), int(rng.integers(1, 40))
    offset = int(rng.integers(-seq, kv_seq)) if mask in (CAUSAL, WINDOW) else 0
    left, right = (int(n) for n in rng.integers(-1, kv_seq, 2)) if mask in (WINDOW, WINDOW_BOTTOM_RIGHT) else (0, 0)
    problem = Attention(struct_size=ctypes.sizeof(Attention), operation=ATTENTION, batch=batch, heads=heads, kv_heads=kv_heads, seq=seq,
                        kv_seq=kv_seq, head_dim=head_dim, dtype=dtype, mask=mask, offset=offset, layout=layout, left=left, right=right)
    what = f"attention dtype {dtype} mask {mask} offset {offset} window {left},{right} layout {layout} {batch}x{heads}/{kv_heads}x{seq}x{kv_seq}"

    def shape(length, count):
        return (batch, length, count, head_dim) if layout == BSHD else (batch, count, length, head_dim)

    def by_head(array):  # (batch, heads, seq, head_dim) in float64
        return (array.swapaxes(1, 2) if layout == BSHD else array).astype(np.float64)

    def fold(array):  # sums over the query heads that share a kv head
        return array.reshape(batch, kv_heads, group, kv_seq, head_dim).sum(axis=2)

    q, grad_o = (rng.standard_normal(shape(seq, heads)).astype(NUMPY_DTYPE[dtype]) for _ in range(2))
    k, v = (rng.standard_normal(shape(kv_seq, kv_heads)).astype(NUMPY_DTYPE[dtype]) for _ in range(2))
    o, grad_q, grad_k, grad_v = (np.full_like(like, np.nan) for like in (q, q, k, v))
    lse = np.full((batch, heads, seq), np.nan, np.float32)
    call(weft.weft_attention_forward, problem, AttentionData(ctypes.sizeof(AttentionData), ATTENTION, *map(address, (q, k, v, o, lse))))
    call(weft.weft_attention_backward, problem,
         AttentionGradients(ctypes.sizeof(AttentionGradients), BACKWARD, *map(address, (q, k, v, grad_o, grad_q, grad_k, grad_v, o, lse))))

    shift = kv_seq - seq if mask in (BOTTOM_RIGHT, WINDOW_BOTTOM_RIGHT) else offset
    behind = np.arange(kv_seq) - np.arange(seq)[:, None] - shift  # how far behind a query's own position
    visible = behind <= 0 if mask in (CAUSAL, BOTTOM_RIGHT) else behind < kv_seq + seq + abs(shift)
    if mask in (WINDOW, WINDOW_BOTTOM_RIGHT):
        visible &= ((behind >= -left) | (left < 0)) & ((behind <= right) | (right < 0))
    want = attention(by_head(q), by_head(k).repeat(group, axis=1), by_head(v).repeat(group, axis=1), visible,
                     head_dim ** -0.5, by_head(grad_o))
    compare(what + ": o", by_head(o), want[0], dtype)
    compare(what + ": lse", lse, want[1], FP32)
    compare(what + ": grad_q", by_head(grad_q), want[2], dtype, terms=8, roundings=4)
    compare(what + ": grad_k", by_head(grad_k), fold(want[3]), dtype, terms=8, roundings=4)
    compare(what + ": grad_v", by_head(grad_v), fold(want[4]), dtype, terms=8)


def check_gemm(weft, rng, dtype, c_dtype, majors, beta):
    m, n, k = (int(size) for size in rng.integers(1, 80, 3))
    alpha = float(rng.standard_normal())

    def matrix(rows, cols, major, of):
        values = rng.standard_normal((rows, cols)).astype(NUMPY_DTYPE[of])
        return np.asfortranarray(values) if major == COL else values

    a, b, c = matrix(m, k, majors[0], dtype), matrix(k, n, majors[1], dtype), matrix(m, n, majors[2], c_dtype)
    want = alpha * (a.astype(np.float64) @ b.astype(np.float64)) + beta * c.astype(np.float64)
    if beta == 0:
        c.fill(np.nan)
    problem = Gemm(struct_size=ctypes.sizeof(Gemm), operation=GEMM, m=m, n=n, k=k, dtype=dtype, c_dtype=c_dtype, a_major=majors[0],
                   b_major=majors[1], c_major=majors[2], alpha=alpha, beta=beta, batch=1)
    call(weft.weft_gemm_multiply, problem, GemmData(ctypes.sizeof(GemmData), GEMM, *map(address, (a, b, c))))
    compare(f"gemm dtype {dtype} c_dtype {c_dtype} majors {majors} beta {beta} {m}x{n}x{k}", c, want, c_dtype, k)


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    weft = ctypes.CDLL(sys.argv[1])
    rng = np.random.default_rng(1)
    dtypes = (FP32, FP16)
    count = 0
    try:
        for case in itertools.product(dtypes, (NONE, CAUSAL, BOTTOM_RIGHT, WINDOW, WINDOW_BOTTOM_RIGHT), (BSHD, BHSD), (1, 3)):
            check_attention(weft, rng, *case)
            count += 1
        for case in itertools.product(dtypes, dtypes, itertools.product((ROW, COL), repeat=3), (0.0, -0.5)):
            check_gemm(weft, rng, *case)
            count += 1
    except (AssertionError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{count} problems agree with NumPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
