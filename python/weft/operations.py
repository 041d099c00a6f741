"""Operations: a row for each, which says what its arrays are called and how they pose a problem. A new one is a row more."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Collection, NamedTuple, Optional, Sequence, Tuple, Type

from . import _c
from .arrays import Framework, View
from .errors import Invalid
from .problems import DTYPES, LAYOUTS, SEQ_AND_HEAD, Attention, AttentionBackward, Gemm, Problem, mask_of, number_of, scale_of
from .schedules import whole


class Output(NamedTuple):
    """An output that is to be allocated."""

    shape: Tuple[int, ...]
    like: Optional[int] = None  # the input whose layout it has; None: packed
    fp32: bool = False
    row: Optional[int] = None  # of a matrix, elements from a row to the next; None: packed

    def allocate(self, framework: Framework, given: Sequence[Any]) -> Any:
        if self.like is not None:
            return framework.empty_like(given[self.like])
        return framework.empty(given[0], self.shape if self.row is None else (self.shape[0], self.row), self.fp32)

    def cut(self, x: Any) -> Any:
        """The allocated array without what is between its rows."""
        return x if self.row is None else x[:, : self.shape[1]]


AttentionOptions = Tuple[bool, Optional[float], Optional[int], str]


def attention_options(causal: Any, scale: Any, offset: Any, layout: str) -> AttentionOptions:
    """The options of weft.attention() in plain numbers, so that equal ones find the same plan."""
    return (bool(causal), None if scale is None else scale_of(scale), None if offset is None else whole("offset", offset),
            layout)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """A row. Functions take the views of the arrays in the order of their names, and the operation's options."""

    problem: Type[Problem]
    data: Type[_c.Structure]  # a pointer for each array: inputs, outputs, optional inputs
    inputs: Tuple[str, ...]  # those that are optional last
    outputs: Tuple[str, ...]  # those that are optional last
    axes: Tuple[str, str]  # what the rows and the columns of the grid are
    outputs_of: Callable[[Tuple[View, ...], Any], Tuple[Output, ...]]  # from the inputs
    problem_of: Callable[[Tuple[View, ...], Any], _c.Structure]  # from the inputs and the outputs that are not optional
    optional: Collection[str] = ()
    fp32: Collection[str] = ()  # inputs that are of fp32 whatever the others are

    @functools.cached_property
    def required_inputs(self) -> int:
        return sum(name not in self.optional for name in self.inputs)

    @functools.cached_property
    def required_outputs(self) -> int:
        return sum(name not in self.optional for name in self.outputs)


def _attention_outputs(views: Tuple[View, ...], options: AttentionOptions) -> Tuple[Output, ...]:
    layout = options[3]
    number_of("layout", layout, LAYOUTS)
    for name, view in zip("qkv", views):
        if len(view.shape) != 4:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not the 4 of {layout}: {view.shape}")
    q, k, v = views
    if k.shape != v.shape:
        raise Invalid(f"k is {k.shape} and v is {v.shape}: they must be alike")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise Invalid(f"q is {q.shape} and k is {k.shape}: batch and head_dim must be alike")
    seq, head = SEQ_AND_HEAD[layout]
    # An o laid out like a q that repeats itself would write over itself.
    o = Output(q.shape, like=None if 0 in q.strides else 0)
    return o, Output((q.shape[0], q.shape[head], q.shape[seq]), fp32=True)


def _strides(view: View, name: str, layout: str) -> _c.Strides:
    """Strides of a 4-D view. A dimension of length 1 may have any; it gets one that keeps rows aligned."""
    if 0 in view.shape:
        return _c.Strides()  # packed; the library says which length is wrong
    if view.strides[3] != 1 and view.shape[3] != 1:
        raise Invalid(f"the last dimension of {name} has stride {view.strides[3]}, not 1: copy {name} to make it contiguous")
    batch, seq, head = (view.strides[axis] if view.shape[axis] != 1 else view.shape[3] for axis in (0, *SEQ_AND_HEAD[layout]))
    if batch == seq == head == 0:  # which would mean packed
        raise Invalid(f"{name} is one row, repeated: copy it to make it a whole array")
    return _c.Strides(batch, seq, head)


def _attention_problem(views: Tuple[View, ...], options: AttentionOptions, operation: int = _c.ATTENTION) -> _c.Attention:
    (q, k), (causal, scale, offset, layout) = views[:2], options
    seq, head = SEQ_AND_HEAD[layout]
    strides = {f"{name}_strides": _strides(view, name, layout) for name, view in zip("qkvo", views)}
    return _c.problem(
        _c.Attention, operation, batch=q.shape[0], heads=q.shape[head], kv_heads=k.shape[head], seq=q.shape[seq], kv_seq=k.shape[seq],
        head_dim=q.shape[3], dtype=DTYPES.index(q.dtype), mask=mask_of(causal, offset), offset=offset or 0,
        scale=scale_of(scale), layout=LAYOUTS.index(layout), **strides,
    )  # fmt: skip


def _backward_outputs(views: Tuple[View, ...], options: AttentionOptions) -> Tuple[Output, ...]:
    _attention_outputs(views[:3], options)
    return tuple(Output(view.shape, like=i) for i, view in enumerate(views[:3]))


def _backward_problem(views: Tuple[View, ...], options: AttentionOptions) -> _c.Attention:
    named = dict(zip((*ATTENTION_BACKWARD.inputs, *ATTENTION_BACKWARD.outputs), views))
    for name in "qkvo":
        tensor, gradient = named[name], named[f"grad_{name}"]
        if (tensor.shape, tensor.strides) != (gradient.shape, gradient.strides):
            raise Invalid(f"{name} is {tensor.shape} with strides {tensor.strides} and its gradient {gradient.shape} with strides "
                          f"{gradient.strides}: they must be laid out alike")  # fmt: skip
    return _attention_problem(tuple(named[name] for name in "qkvo"), options, _c.ATTENTION_BACKWARD)


def _gemm_outputs(views: Tuple[View, ...], options: None) -> Tuple[Output, ...]:
    a, b = views
    for name, view in (("a", a), ("b", b)):
        if len(view.shape) != 2:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not 2: {view.shape}")
    if a.shape[1] != b.shape[0]:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: a's columns must be b's rows")
    (m, _), (_, n) = a.shape, b.shape
    # A GPU writes rows of C in whole vectors of 16 bytes.
    padded = a.device[0] == _c.CUDA and a.dtype != "fp32" and n % 8
    return (Output((m, n), row=-(-n // 8) * 8 if padded else None),)


def _major(view: View, name: str) -> Tuple[int, int]:
    """(major, leading dimension) of a 2-D view."""
    (rows, cols), (down, along) = view.shape, view.strides
    if 0 in view.shape:
        return 0, 0  # packed; the library says which length is wrong
    # One row or column has any leading dimension: it gets one that keeps vectors aligned.
    if rows == 1 and (along == 1 or cols == 1):
        return 0, -(-cols // 8) * 8
    if cols == 1 and down == 1:
        return 1, -(-rows // 8) * 8
    if (along == 1 or cols == 1) and down >= cols:
        return 0, down
    if (down == 1 or rows == 1) and along >= rows:
        return 1, along
    raise Invalid(f"{name} has strides {view.strides}: neither its rows nor its columns are contiguous and apart; copy it first")


def _gemm_problem(views: Tuple[View, ...], options: None) -> _c.Gemm:
    a, b, c = views
    (a_major, lda), (b_major, ldb), dtype = _major(a, "a"), _major(b, "b"), DTYPES.index(a.dtype)
    return _c.problem(
        _c.Gemm, _c.GEMM, m=a.shape[0], n=b.shape[1], k=a.shape[1], dtype=dtype, c_dtype=dtype, a_major=a_major, b_major=b_major,
        lda=lda, ldb=ldb, ldc=c.shape[1], alpha=1.0, batch=1,
    )  # fmt: skip


ATTENTION = Operation(
    Attention, _c.AttentionData, ("q", "k", "v"), ("o", "lse"), ("heads", "query blocks"), _attention_outputs, _attention_problem,
    optional=("lse",),
)  # fmt: skip
ATTENTION_BACKWARD = Operation(
    AttentionBackward, _c.AttentionGradients, ("q", "k", "v", "grad_o", "o", "lse"), ("grad_q", "grad_k", "grad_v"),
    ("heads", "query blocks"), _backward_outputs, _backward_problem, optional=("o", "lse"), fp32=("lse",),
)  # fmt: skip
GEMM = Operation(
    Gemm, _c.GemmData, ("a", "b"), ("c",), ("rows of tiles", "columns of tiles"), _gemm_outputs, _gemm_problem,
)  # fmt: skip
BY_NUMBER = {row.problem.operation: row for row in (ATTENTION, ATTENTION_BACKWARD, GEMM)}
