#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
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


class Lengths(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("q_starts", "kv_starts", "q_used", "kv_used", "kv_pad")]


class Attention(ctypes.Structure):
    _fields_ = HEAD + [("batch", I64), ("heads", I64), ("kv_heads", I64), ("seq", I64),
                ("kv_seq", I64), ("head_dim", I64), ("dtype", ENUM), ("mask", ENUM), ("offset", I64),
                ("scale", DOUBLE), ("layout", ENUM), ("q_strides", Strides), ("k_strides", Strides),
                ("v_strides", Strides), ("o_strides", Strides), ("left", I64), ("right", I64), ("chunk", I64), ("prefix", I64),
                ("head_dim_v", I64), ("softcap", DOUBLE), ("dropout", DOUBLE), ("extras", ctypes.c_int32),
                ("bias_type", ctypes.c_int32), ("bias_strides", Strides), ("bias_key_stride", I64), ("alibi_stride", I64),
                ("sequences", I64), ("lengths", Lengths)]


TAIL = [("lengths", Lengths), ("dropout_seed", ctypes.c_uint64)]


class AttentionData(ctypes.Structure):
    _fields_ = HEAD + [(name, POINTER) for name in ("q", "k", "v", "o", "lse", "sinks", "alibi", "bias", "max")] + TAIL


class AttentionGradients(ctypes.Structure):
    _fields_ = HEAD + [(name, POINTER) for name in ("q", "k", "v", "grad_o", "grad_q", "grad_k", "grad_v", "o", "lse", "sinks",
                                                    "alibi", "bias", "grad_sinks")] + TAIL


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


def attention(q, k, v, visible, scale, grad_o, cap=0, bias=0, sinks=None, kept=1):
    """All (batch, heads, seq, head_dim), K and V repeated to as many heads. Returns o, lse, the largest scores, the three
    gradients and that of the sinks."""
    products = scale * q @ k.swapaxes(-1, -2)
    tanh = np.tanh(products / cap) if cap else 0
    scores = np.where(visible, (cap * tanh if cap else products) + bias, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    sink = -np.inf if sinks is None else sinks.astype(np.float64)[:, None, None]
    shift = np.maximum(largest, sink)
    shift = np.where(np.isfinite(shift), shift, 0)
    weights, sink_weight = np.exp(scores - shift), np.exp(sink - shift)
    total = weights.sum(axis=-1, keepdims=True) + sink_weight
    with np.errstate(divide="ignore"):
        lse = (shift + np.log(total))[..., 0]
    total = np.where(total == 0, 1, total)
    weights = weights / total
    o = (kept * weights) @ v
    delta = (grad_o * o).sum(axis=-1, keepdims=True)
    grad_scores = scale * (1 - tanh * tanh) * weights * (kept * (grad_o @ v.swapaxes(-1, -2)) - delta)
    return (o, lse, largest[..., 0], grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, (kept * weights).swapaxes(-1, -2) @ grad_o,
            -(sink_weight / total * delta).sum(axis=(0, 2, 3)))


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
    compare(what + ": grad_q", by_head(grad_q), want[3], dtype, terms=8, roundings=4)
    compare(what + ": grad_k", by_head(grad_k), fold(want[4]), dtype, terms=8, roundings=4)
    compare(what + ": grad_v", by_head(grad_v), fold(want[5]), dtype, terms=8)


FEATURES = ("chunk", "prefix", "packed", "used", "padded", "softcap", "sinks", "alibi", "bias", "boolean", "dropout", "max", "dims")
SINKS, ALIBI, BIAS, STARTS, Q_USED, KV_USED, KV_PAD, KV_STARTS, MAX = (1 << bit for bit in range(9))


def philox(seed, counter):
    """Philox 4x32-10 of four arrays of counters."""
    word = [np.asarray(c, np.uint64) for c in counter]
    low, high, mask = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * word[0], np.uint64(0xCD9E8D57) * word[2]
        shift = np.uint64(32)
        word = [(b >> shift) ^ word[1] ^ np.uint64(low), b & mask, (a >> shift) ^ word[3] ^ np.uint64(high), a & mask]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return word


def kept_of(seed, dropout, batch, heads, seq, kv_seq):
    line, query, key = np.meshgrid(np.arange(batch * heads), np.arange(seq), np.arange(kv_seq), indexing="ij")
    words = np.choose(key % 4, philox(seed, (key // 4, query, line, np.zeros_like(line))))
    return np.where(words < int(dropout * 2 ** 32), 0, 1 / (1 - dropout)).reshape(batch, heads, seq, kv_seq)


def draw_lengths(rng, features, batch, seq, kv_seq):
    """The sequences of a batch: (batch, queries, used queries, keys that count) each, and the arrays that say so."""
    arrays, whole = {}, [(b, (0, seq), (0, kv_seq)) for b in range(batch)]
    if "packed" in features:
        count = int(rng.integers(1, 6))
        starts, kv_starts = (np.sort(np.append(rng.integers(0, n + 1, count), 0)).astype(np.int32) for n in (seq, kv_seq))
        arrays = {"q_starts": starts, "kv_starts": kv_starts}
        whole = [(0, tuple(starts[i:i + 2].tolist()), tuple(kv_starts[i:i + 2].tolist())) for i in range(count)]
    draw = {name: np.array([rng.integers(0, last - first + 1) for _, queries, keys in whole
                            for first, last in [queries if name == "q_used" else keys]], np.int32)
            for name, feature in (("q_used", "used"), ("kv_used", "used"), ("kv_pad", "padded")) if feature in features}
    arrays.update(draw)
    found = []
    for n, (b, queries, keys) in enumerate(whole):
        used = queries[0] + int(draw["q_used"][n]) if "used" in features else queries[1]
        end = keys[0] + int(draw["kv_used"][n]) if "used" in features else keys[1]
        found.append((b, queries, used, (min(keys[0] + int(draw["kv_pad"][n]), end) if "padded" in features else keys[0], end)))
    return found, arrays


def check_features(weft, rng, dtype, mask, features):
    """Rows behind the last sequence are not touched."""
    batch, kv_heads, group, seq, kv_seq = (int(rng.integers(1, n)) for n in (4, 3, 3, 24, 30))
    batch, heads = 1 if "packed" in features else batch, kv_heads * group
    head_dim, dim_v = (int(n) for n in rng.integers(1, 70, 2)) if "dims" in features else (16, 16)
    if "packed" in features:
        features = features - {"bias", "boolean"}
    sequences, arrays = draw_lengths(rng, features, batch, seq, kv_seq)
    problem = Attention(struct_size=ctypes.sizeof(Attention), operation=ATTENTION, batch=batch, heads=heads, kv_heads=kv_heads,
                        seq=seq, kv_seq=kv_seq, head_dim=head_dim, head_dim_v=dim_v, dtype=dtype, mask=mask,
                        sequences=len(sequences) if "packed" in features else 0)
    problem.offset = int(rng.integers(-seq, kv_seq)) if mask == CAUSAL else 0
    problem.chunk = int(rng.integers(1, kv_seq + 1)) if "chunk" in features else 0
    problem.prefix = int(rng.integers(1, kv_seq + 1)) if "prefix" in features and not problem.chunk else 0
    problem.softcap = float(rng.uniform(0.5, 5)) if "softcap" in features else 0
    problem.dropout = float(rng.uniform(0.1, 0.9)) if "dropout" in features else 0
    what = f"attention dtype {dtype} mask {mask} {'+'.join(sorted(features))} {batch}x{heads}/{kv_heads}x{seq}x{kv_seq}"

    visible, away = np.zeros((batch, 1, seq, kv_seq), bool), np.zeros((batch, heads, seq, kv_seq))
    slopes = rng.uniform(0, 0.3, (len(sequences), heads)).astype(np.float32)
    for n, (b, queries, used, keys) in enumerate(sequences):
        for i, j in itertools.product(range(queries[0], used), range(*keys)):
            own = i - queries[0] + (problem.offset if mask == CAUSAL else keys[1] - keys[0] - used + queries[0])
            key = j - keys[0]
            visible[b, 0, i, j] = (mask == NONE or key <= own) and (not problem.chunk or key // problem.chunk == own // problem.chunk)
            visible[b, 0, i, j] |= key < problem.prefix
            away[b, :, i, j] = slopes[n] * abs(own - key)

    fields, bias, seed = {}, 0, int(rng.integers(0, 2 ** 63))
    if "sinks" in features:
        problem.extras |= SINKS
        fields["sinks"] = rng.standard_normal(heads).astype(np.float32)
    if "alibi" in features:
        problem.extras |= ALIBI
        problem.alibi_stride, fields["alibi"], bias = heads, slopes, -away
    if "bias" in features or "boolean" in features:
        problem.extras |= BIAS
        problem.bias_type = 2 if "boolean" in features else 1
        fields["bias"] = (rng.integers(0, 3, (batch, heads, seq, kv_seq)).astype(np.uint8) if problem.bias_type == 2
                          else rng.standard_normal((batch, heads, seq, kv_seq)).astype(np.float32))
        bias = bias + (np.where(fields["bias"], 0, -np.inf) if problem.bias_type == 2 else fields["bias"])
    late = Lengths()
    for name, array in arrays.items():
        bit = {"q_starts": STARTS, "kv_starts": KV_STARTS, "q_used": Q_USED, "kv_used": KV_USED, "kv_pad": KV_PAD}[name]
        is_late = rng.integers(0, 2)
        problem.extras |= bit if is_late else 0
        setattr(late if is_late else problem.lengths, name, address(array))

    q, grad_o = (rng.standard_normal((batch, seq, heads, dim)).astype(NUMPY_DTYPE[dtype]) for dim in (head_dim, dim_v))
    k, v = (rng.standard_normal((batch, kv_seq, kv_heads, dim)).astype(NUMPY_DTYPE[dtype]) for dim in (head_dim, dim_v))
    o, grad_q, grad_k, grad_v = (np.full_like(like, np.nan) for like in (grad_o, q, k, v))
    lse, largest = (np.full((batch, heads, seq), np.nan, np.float32) for _ in range(2))
    grad_sinks = np.full(heads, np.nan, np.float32)
    shared = {name: address(array) for name, array in fields.items()}
    shared.update(q=address(q), k=address(k), v=address(v), o=address(o), lse=address(lse), lengths=late, dropout_seed=seed)
    problem.extras |= MAX if "max" in features else 0
    call(weft.weft_attention_forward, problem, AttentionData(struct_size=ctypes.sizeof(AttentionData), operation=ATTENTION,
                                                             max=address(largest) if "max" in features else None, **shared))
    problem.extras &= ~MAX
    call(weft.weft_attention_backward, problem,
         AttentionGradients(struct_size=ctypes.sizeof(AttentionGradients), operation=BACKWARD, grad_o=address(grad_o),
                            grad_q=address(grad_q), grad_k=address(grad_k), grad_v=address(grad_v),
                            grad_sinks=address(grad_sinks) if "sinks" in features else None, **shared))

    def by_head(array, repeat=1):
        return array.swapaxes(1, 2).astype(np.float64).repeat(repeat, axis=1)

    def fold(array):
        return array.reshape(batch, kv_heads, group, *array.shape[2:]).sum(axis=2)

    kept = kept_of(seed, problem.dropout, batch, heads, seq, kv_seq) if problem.dropout else 1
    want = attention(by_head(q), by_head(k, group), by_head(v, group), visible, head_dim ** -0.5, by_head(grad_o), problem.softcap,
                     bias, fields.get("sinks"), kept)
    rows = max(queries[1] for _, queries, _, _ in sequences)
    keys = int(arrays["kv_starts"][-1]) if "packed" in features else kv_seq
    terms = 16 / (1 - problem.dropout)
    for name, got, right, end, of, more in (("o", by_head(o), want[0], rows, dtype, 2), ("lse", lse, want[1], rows, FP32, 4),
                                            ("grad_q", by_head(grad_q), want[3], rows, dtype, terms),
                                            ("grad_k", by_head(grad_k), fold(want[4]), keys, dtype, terms),
                                            ("grad_v", by_head(grad_v), fold(want[5]), keys, dtype, terms)):
        compare(f"{what}: {name}", got[:, :, :end], right[:, :, :end], of, terms=more, roundings=0 if name == "lse" else more)
        if not np.isnan(got[:, :, end:]).all():
            raise AssertionError(f"{what}: {name} is written behind the last sequence")
    if "max" in features:
        compare(f"{what}: max", largest[:, :, :rows], want[2][:, :, :rows], FP32, terms=2)
    if "sinks" in features:
        compare(f"{what}: grad_sinks", grad_sinks, want[6], dtype, terms=terms * seq, roundings=terms)


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
        for i, pair in enumerate(itertools.combinations_with_replacement(FEATURES, 2)):  # alone and in pairs
            check_features(weft, rng, dtypes[i % 2], (NONE, CAUSAL, BOTTOM_RIGHT)[i % 3], set(pair))
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
