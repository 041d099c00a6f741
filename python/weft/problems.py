"""Problems: what to compute, without the data. For weft.plan(), weft.simulate() and weft.compare()."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any, ClassVar, Optional

from . import _c
from .errors import Invalid
from .schedules import whole

DTYPES = ("fp32", "fp16", "bf16", "fp8")  # in the order of enum weft_dtype
LAYOUTS = ("bshd", "bhsd")  # in the order of enum weft_layout
SEQ_AND_HEAD = {"bshd": (1, 2), "bhsd": (2, 1)}  # axes of a layout
MASK_NONE, MASK_CAUSAL, MASK_BOTTOM_RIGHT = 0, 1, 2  # enum weft_mask


def mask_of(causal: bool, offset: Optional[int]) -> int:
    """The mask: with causal and no offset, the last query sees the last key."""
    if not causal and offset is not None:
        raise Invalid(f"offset {offset} is only for causal=True")
    return MASK_NONE if not causal else MASK_BOTTOM_RIGHT if offset is None else MASK_CAUSAL


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


def number_of(what: str, name: str, names: tuple) -> int:
    if name not in names:
        raise Invalid(f"{what} {name!r} is not one of {', '.join(names)}")
    return names.index(name)


class Problem:
    """What every problem has: an operation, a form for C, a count of its work."""

    operation: ClassVar[int]  # enum weft_operation
    subject: ClassVar[str]

    def to_c(self) -> _c.Structure:
        raise NotImplementedError

    @property
    def flops(self) -> float:
        """Floating-point operations by the usual count, which the problem's class gives."""
        return _c.library.weft_problem_flops(ctypes.byref(self.to_c()))


def check(problem: Any) -> None:
    """Refuses what is no problem."""
    if not isinstance(problem, Problem):
        raise Invalid(f"problem is a {type(problem).__name__}, not a weft.Attention, a weft.AttentionBackward or a weft.Gemm")


@dataclasses.dataclass(frozen=True)
class Attention(Problem):
    """O = softmax(scale Q K^T) V for each batch and head: Q and O are (batch, seq, heads, head_dim), K and V
    (batch, kv_seq, kv_heads, head_dim), packed. kv_heads and kv_seq are heads and seq where they are left out.

    causal  query i sees keys 0 .. i + offset; offset None: the last query sees the last key
    scale   None: 1 / sqrt(head_dim)
    dtype   "fp32", "fp16", "bf16" or, to simulate, "fp8"; layout "bshd" or "bhsd"
    flops   4 batch heads seq kv_seq head_dim, halved when causal
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

    operation: ClassVar[int] = _c.ATTENTION
    subject: ClassVar[str] = "attention"

    def to_c(self) -> _c.Attention:
        sizes = {"batch": self.batch, "heads": self.heads, "kv_heads": self.heads if self.kv_heads is None else self.kv_heads,
                 "seq": self.seq, "kv_seq": self.seq if self.kv_seq is None else self.kv_seq, "head_dim": self.head_dim}  # fmt: skip
        return _c.problem(
            _c.Attention, self.operation, **{name: whole(name, size) for name, size in sizes.items()},
            dtype=number_of("dtype", self.dtype, DTYPES), mask=mask_of(self.causal, self.offset),
            offset=whole("offset", self.offset or 0), scale=scale_of(self.scale), layout=number_of("layout", self.layout, LAYOUTS),
        )  # fmt: skip


class AttentionBackward(Attention):
    """The gradients of an attention: dQ, dK and dV from Q, K, V and dO, each laid out like the tensor it belongs to. The fields are
    those of weft.Attention; flops are 2.5 times as many. The CPU runs it."""

    operation: ClassVar[int] = _c.ATTENTION_BACKWARD
    subject: ClassVar[str] = "attention-backward"


@dataclasses.dataclass(frozen=True)
class Gemm(Problem):
    """C = A B, with A (m, k), B (k, n) and C (m, n), row-major and packed. dtype is "fp32", "fp16", "bf16" or, to simulate, "fp8"; flops are 2 m n k."""

    m: int
    n: int
    k: int
    dtype: str = "fp32"

    operation: ClassVar[int] = _c.GEMM
    subject: ClassVar[str] = "gemm"

    def to_c(self) -> _c.Gemm:
        dtype = number_of("dtype", self.dtype, DTYPES)
        sizes = {name: whole(name, getattr(self, name)) for name in ("m", "n", "k")}
        return _c.problem(_c.Gemm, self.operation, **sizes, dtype=dtype, c_dtype=dtype, alpha=1.0, batch=1)
