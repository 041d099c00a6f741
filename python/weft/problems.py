# SPDX-License-Identifier: Apache-2.0
"""Problems: what to compute, without the data. For weft.plan(), weft.simulate() and weft.compare(). Each is checked when it is made."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
from typing import Any, ClassVar, Dict, Mapping, Optional, Sequence, Tuple

from . import _c, notebook
from .errors import Invalid
from .schedules import whole

DTYPES = ("fp32", "fp16", "bf16", "fp8")  # in the order of enum weft_dtype
FRAMEWORKS_DTYPES = {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}
PRECISIONS = ("fp32", "bf16x3", "tf32")  # in the order of enum weft_precision
LAYOUTS = ("bshd", "bhsd")  # in the order of enum weft_layout
SEQ_AND_HEAD = {"bshd": (1, 2), "bhsd": (2, 1)}  # axes of a layout
MAX_HEAD_DIM = 576  # WEFT_MAX_HEAD_DIM
MASK_NONE, MASK_CAUSAL, MASK_BOTTOM_RIGHT, MASK_WINDOW, MASK_WINDOW_BOTTOM_RIGHT = range(5)  # enum weft_mask
Window = Optional[Tuple[int, int]]


def mask_of(causal: bool, offset: Optional[int], window: Window = None, chunk: int = 0) -> Dict[str, int]:
    """The fields that say which keys queries see. Without an offset the last query stands at the last key; causal is a window that
    ends there."""
    if not causal and offset is not None and window is None and not chunk:
        raise Invalid(f"offset {offset} is only for causal=True, windows and chunks")
    fields = {"offset": offset or 0, "chunk": chunk}
    if window is None and (causal or offset is None):
        return {**fields, "mask": MASK_NONE if not causal else MASK_BOTTOM_RIGHT if offset is None else MASK_CAUSAL}
    left, right = window or (-1, -1)
    return {**fields, "mask": MASK_WINDOW_BOTTOM_RIGHT if offset is None else MASK_WINDOW, "left": max(left, -1),
            "right": 0 if causal else max(right, -1)}  # fmt: skip


def window_of(window: Any) -> Window:
    """A window in plain numbers; None where it hides nothing."""
    if window is None:
        return None
    try:
        left, right = (whole("window", edge) for edge in window)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, Invalid) else Invalid(f"window {window!r} is not (left, right)") from None
    return None if left < 0 and right < 0 else (left, right)


def number_in(what: str, number: Any) -> float:
    """A number that the library checks."""
    try:
        return float(number)
    except (TypeError, ValueError):
        raise Invalid(f"{what} {number!r} is not a number") from None


def whole_numbers(name: str, values: Any) -> Tuple[int, ...]:
    """A list of whole numbers."""
    if not hasattr(values, "__iter__") or isinstance(values, str):
        raise Invalid(f"{name} {values!r} is not a list of whole numbers")
    return tuple(whole(name, value) for value in values)


def starts_of(lengths: Sequence[int]) -> Tuple[int, ...]:
    """Where sequences of these lengths begin, one behind the other, and the end of the last."""
    return (0, *itertools.accumulate(lengths))


def lengths_to_c(known: Mapping[str, Sequence[int]]) -> _c.Lengths:
    """Lengths that are known before the run, by their fields' names; ctypes keeps the arrays."""
    for name, values in known.items():
        if not all(0 <= value < 2**31 for value in values):
            raise Invalid(f"{name} has a number that is not between 0 and {2**31 - 1}")
    return _c.Lengths(**{name: (ctypes.c_int32 * len(values))(*values) for name, values in known.items()})


def scale_of(scale: Optional[float]) -> float:
    """The scale as the library takes it: 0 stands for 1 / sqrt(head_dim), and so cannot be asked for."""
    if scale is None:
        return 0.0
    try:
        number = float(scale)
    except (TypeError, ValueError):
        raise Invalid(f"scale {scale!r} is not a number") from None
    if number == 0 or not math.isfinite(number):
        raise Invalid(f"scale {scale} is not a finite number other than 0; None is 1 / sqrt(head_dim)")
    return number


def strides_of(shape: Sequence[int], strides: Sequence[int], name: str, layout: str) -> _c.Strides:
    """Strides of an array of 4 dimensions. A dimension of length 1 may have any; it gets one that keeps rows aligned."""
    if 0 in shape:
        return _c.Strides()  # packed; the library says which length is wrong
    if strides[3] != 1 and shape[3] != 1:
        raise Invalid(f"the last dimension of {name} has stride {strides[3]}, not 1: copy {name} to make it contiguous")
    batch, seq, head = (strides[axis] if shape[axis] != 1 else shape[3] for axis in (0, *SEQ_AND_HEAD[layout]))
    if batch == seq == head == 0:  # which would mean packed
        raise Invalid(f"{name} is one row, repeated: copy it to make it a whole array")
    return _c.Strides(batch, seq, head)


def number_of(what: str, name: str, names: tuple) -> int:
    if name not in names:
        raise Invalid(f"{what} {name!r} is not one of {', '.join(names)}")
    return names.index(name)


def dtype_named(dtype: Any) -> str:
    """The name of a dtype: "BF16", "bfloat16", torch.bfloat16 and numpy.float16 are understood, too."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
    return FRAMEWORKS_DTYPES.get(name.lower(), name.lower())


class Problem(notebook.Brief):
    """What every problem has: an operation, a form for C, a count of its work. A dataclass, checked by the library when it is made."""

    operation: ClassVar[int]  # enum weft_operation
    subject: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("dtype") and value is not None:
                object.__setattr__(self, field.name, dtype_named(value))
            elif not isinstance(value, str) and hasattr(value, "__iter__"):  # lengths: a caller's list or array may change later
                object.__setattr__(self, field.name, tuple(value))
        _c.call(_c.library.weft_problem_check, ctypes.byref(self.to_c()))

    def to_c(self) -> _c.Structure:
        raise NotImplementedError

    @property
    def flops(self) -> float:
        """Floating-point operations by the usual count, which the problem's class gives."""
        return _c.library.weft_problem_flops(ctypes.byref(self.to_c()))


def check(problem: Any) -> None:
    """Refuses what is no problem."""
    if not isinstance(problem, Problem):
        raise Invalid(f"problem is a {type(problem).__name__}, not a weft.Attention, a weft.AttentionBackward, a weft.Gemm, "
                      "a weft.Combine or a weft.GroupedGemm")  # fmt: skip


@dataclasses.dataclass(frozen=True, repr=False)
class Attention(Problem):
    """O = softmax(scale Q K^T) V for each batch and head: Q and O are (batch, seq, heads, head_dim), K and V
    (batch, kv_seq, kv_heads, head_dim), packed. kv_heads and kv_seq are heads and seq where they are left out.

    causal     query i sees keys 0 .. i + offset; offset None: the last query sees the last key
    scale      None: 1 / sqrt(head_dim)
    dtype      "fp32", "fp16", "bf16" or, to simulate, "fp8"; layout "bshd" or "bhsd"
    window, chunk, prefix, softcap, lengths, kv_lengths as for weft.attention(); seq and kv_seq are then those of a packed batch
    head_dim_v of V and O; None: head_dim
    page, append, kv_used  a KV cache: keys of a page (0: no pages), new keys of each sequence (packed: of all), keys that each
               has before; kv_seq is then the most keys of a sequence. To plan and to simulate
    qv         queries for the values, as for weft.attention(): True where there are some
    o_dtype    of results, O or gradients: "fp32", or None: as the others
    flops      4 batch heads seq kv_seq head_dim, halved when causal

    >>> weft.Attention(seq=4096, heads=8, head_dim=128, causal=True).flops / 1e9
    34.359738368
    >>> weft.Attention(seq=4096, heads=8, kv_heads=3)
    Traceback (most recent call last):
    weft.errors.Invalid: kv_heads 3 does not divide heads 8
    """

    seq: int
    head_dim: int = 64
    batch: int = 1
    heads: int = 1
    kv_heads: Optional[int] = None
    kv_seq: Optional[int] = None
    dtype: str = "fp32"
    causal: bool = False
    offset: Optional[int] = None
    scale: Optional[float] = None
    layout: str = "bshd"
    window: Window = None
    chunk: int = 0
    prefix: int = 0
    softcap: float = 0.0
    head_dim_v: Optional[int] = None
    lengths: Optional[Tuple[int, ...]] = None
    kv_lengths: Optional[Tuple[int, ...]] = None
    page: int = 0
    append: int = 0
    kv_used: Optional[Tuple[int, ...]] = None
    qv: bool = False
    o_dtype: Optional[str] = None

    operation: ClassVar[int] = _c.ATTENTION
    subject: ClassVar[str] = "attention"

    def of_each(self, name: str, values: Any, count: int = 1) -> Tuple[int, ...]:
        """Whole numbers of 32 bits, `count` for each sequence: a list of sequences, or of lists where there are several."""
        try:
            rows = [[value] if count == 1 and not hasattr(value, "__len__") else value for value in values]
            numbers = tuple(whole(name, value) for row in rows for value in row)
        except TypeError:
            raise Invalid(f"{name} is not a list of whole numbers for each sequence") from None
        sequences = self.batch if self.lengths is None else len(self.lengths)
        if len(rows) != sequences or len(numbers) != sequences * count:
            raise Invalid(f"{name} has not {count} for each of {sequences} sequences")
        if not all(-(2**31) <= number < 2**31 for number in numbers):
            raise Invalid(f"{name} has a number that is no int32")
        return numbers

    def to_c(self) -> _c.Attention:
        sizes = {"batch": self.batch, "heads": self.heads, "kv_heads": self.heads if self.kv_heads is None else self.kv_heads,
                 "seq": self.seq, "kv_seq": self.seq if self.kv_seq is None else self.kv_seq, "head_dim": self.head_dim,
                 "head_dim_v": self.head_dim_v or 0, "prefix": self.prefix}  # fmt: skip
        offset = None if self.offset is None else whole("offset", self.offset)
        given = {"q_starts": self.lengths, "kv_starts": self.kv_lengths}
        known = {name: starts_of(whole_numbers("lengths", lengths)) for name, lengths in given.items() if lengths is not None}
        if self.kv_used is not None:
            known["kv_used"] = self.of_each("kv_used", self.kv_used)
        return _c.problem(
            _c.Attention, self.operation, **{name: whole(name, size) for name, size in sizes.items()},
            dtype=number_of("dtype", self.dtype, DTYPES), scale=scale_of(self.scale), softcap=number_in("softcap", self.softcap),
            layout=number_of("layout", self.layout, LAYOUTS), lengths=lengths_to_c(known),
            sequences=0 if self.lengths is None else len(self.lengths), extras=_c.EXTRAS["qv"] if self.qv else 0,
            o_dtype=0 if self.o_dtype is None else 1 + number_of("o_dtype", self.o_dtype, DTYPES),
            cache=_c.KvCache(page=whole("page", self.page), append=whole("append", self.append)),
            **mask_of(self.causal, offset, window_of(self.window), whole("chunk", self.chunk)),
        )  # fmt: skip


class AttentionBackward(Attention):
    """The gradients of an attention: dQ, dK and dV from Q, K, V and dO, each laid out like the tensor it belongs to. The fields are
    those of weft.Attention; flops are 2.5 times as many. The CPU runs it.

    >>> backward = weft.AttentionBackward(seq=4096, dtype="bf16")
    >>> backward.flops / weft.Attention(seq=4096, dtype="bf16").flops
    2.5
    """

    operation: ClassVar[int] = _c.ATTENTION_BACKWARD
    subject: ClassVar[str] = "attention-backward"


@dataclasses.dataclass(frozen=True, repr=False)
class Gemm(Problem):
    """C = A B, with A (m, k), B (k, n) and C (m, n), row-major and packed. dtype is "fp32", "fp16", "bf16" or, to simulate, "fp8";
    precision is what a GPU makes of fp32, "fp32", "bf16x3" or "tf32", as for weft.matmul(); flops are 2 m n k.

    >>> weft.simulate(weft.Gemm(4096, 4096, 1024, "bf16"), {"order": "hilbert"}, "h100").schedule.order
    'hilbert'
    """

    m: int
    n: int
    k: int
    dtype: str = "fp32"
    precision: str = "fp32"

    operation: ClassVar[int] = _c.GEMM
    subject: ClassVar[str] = "gemm"

    def to_c(self) -> _c.Gemm:
        dtype = number_of("dtype", self.dtype, DTYPES)
        sizes = {name: whole(name, getattr(self, name)) for name in ("m", "n", "k")}
        return _c.problem(_c.Gemm, self.operation, **sizes, dtype=dtype, c_dtype=dtype, alpha=1.0, batch=1,
                          precision=number_of("precision", self.precision, PRECISIONS))  # fmt: skip


@dataclasses.dataclass(frozen=True, repr=False)
class Combine(Problem):
    """O of an attention from `parts` parts of it, each of the same queries over other keys, (batch, seq, heads, head_dim), packed. dtype
    is "fp32", "fp16", "bf16" or, to simulate, "fp8"; flops are 2 parts batch seq heads head_dim.

    o_dtype   of O; None: as the parts
    into      O and its LSE hold a part already, beside `parts` others
    sum       the parts are added up, without weights: half as many flops

    >>> weft.plan(weft.Combine(seq=64, head_dim=128, heads=8, parts=4)).subject
    'combine'
    """

    seq: int
    head_dim: int = 64
    batch: int = 1
    heads: int = 1
    parts: int = 2
    dtype: str = "fp32"
    layout: str = "bshd"
    o_dtype: Optional[str] = None
    into: bool = False
    sum: bool = False

    operation: ClassVar[int] = _c.COMBINE
    subject: ClassVar[str] = "combine"

    def to_c(self) -> _c.Combine:
        dtype = number_of("dtype", self.dtype, DTYPES)
        sizes = {name: whole(name, getattr(self, name)) for name in ("parts", "batch", "heads", "seq", "head_dim")}
        o_dtype = dtype if self.o_dtype is None else number_of("o_dtype", self.o_dtype, DTYPES)
        return _c.problem(_c.Combine, self.operation, **sizes, dtype=dtype, o_dtype=o_dtype, into=bool(self.into), sum=bool(self.sum),
                          layout=number_of("layout", self.layout, LAYOUTS))  # fmt: skip


@dataclasses.dataclass(frozen=True, repr=False)
class GroupedGemm(Problem):
    """C_g = A_g B_g for groups of unlike numbers of rows, as a mixture of experts has them, with B (groups, k, n), row-major and packed.

    group_rows  the rows of each group, one behind the other in A (rows, k) and C (rows, n)
    masked      each group has room for so many rows, of which the first ones count: A is (groups, masked, k), C (groups, masked, n)
    dtype       "fp32", "fp16", "bf16" or, to simulate, "fp8"
    flops       2 n k for each row of a group

    >>> weft.GroupedGemm((70, 0, 30), n=128, k=64).flops
    1638400.0
    """

    group_rows: Tuple[int, ...]
    n: int
    k: int
    dtype: str = "fp32"
    masked: Optional[int] = None

    operation: ClassVar[int] = _c.GROUPED_GEMM
    subject: ClassVar[str] = "grouped-gemm"

    def to_c(self) -> _c.GroupedGemm:
        dtype = number_of("dtype", self.dtype, DTYPES)
        counts = whole_numbers("group_rows", self.group_rows)
        if any(rows < 0 for rows in counts) or sum(counts) >= 2**31:
            raise Invalid(f"group_rows {self.group_rows} are not numbers from 0 on that add up to less than 2^31")
        if self.masked is None:
            starts = starts_of(counts)
            known = {"rows": starts[-1], "starts": (ctypes.c_int32 * len(starts))(*starts)}
        else:
            known = {"rows": whole("masked", self.masked), "layout": 1, "counts": (ctypes.c_int32 * len(counts))(*counts)}
        sizes = {"groups": len(counts), "n": whole("n", self.n), "k": whole("k", self.k)}
        return _c.problem(_c.GroupedGemm, self.operation, **sizes, dtype=dtype, c_dtype=dtype, alpha=1.0, **known)
