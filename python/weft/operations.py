# SPDX-License-Identifier: Apache-2.0
"""Operations: a row for each, which says what its arrays are called and how they pose a problem. A new one is a row more."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Collection, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from . import _c
from .arrays import Framework, View
from .errors import Invalid
from .features import Features, is_packed, to_c
from .problems import DTYPES, LAYOUTS, PRECISIONS, SEQ_AND_HEAD, Attention, AttentionBackward, Combine, Gemm, GroupedGemm, Problem, number_of, scale_of, strides_of
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
        return framework.empty(given[0], self.shape if self.row is None else (*self.shape[:-1], self.row), self.fp32)

    def cut(self, x: Any) -> Any:
        """The allocated array without what is between its rows."""
        return x if self.row is None else x[..., : self.shape[-1]]


class AttentionOptions(NamedTuple):
    """What an attention depends on beside the forms of its arrays, in plain numbers, so that equal ones find the same plan."""

    causal: bool
    scale: Optional[float]
    offset: Optional[int]
    layout: str
    features: Optional[Features] = None


def attention_options(causal: Any, scale: Any, offset: Any, layout: str, features: Optional[Features] = None) -> AttentionOptions:
    return AttentionOptions(bool(causal), None if scale is None else scale_of(scale),
                            None if offset is None else whole("offset", offset), layout, features)  # fmt: skip


Views = Mapping[str, View]


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """A row. Functions take the views of the arrays by their names, and the operation's options."""

    problem: Type[Problem]
    data: Type[_c.Structure]  # a word for each array
    inputs: Tuple[str, ...]  # those that every call has
    outputs: Tuple[str, ...]  # those that are optional last
    axes: Tuple[str, str]  # what the rows and the columns of the grid are
    outputs_of: Callable[[Views, Any], Tuple[Output, ...]]  # from the inputs
    problem_of: Callable[[Views, Any], _c.Structure]  # from the inputs and the outputs that are not optional
    optional: Collection[str] = ()  # outputs
    fp32: Collection[str] = ()  # inputs that are of fp32 whatever the others are
    int32: Collection[str] = ()  # and those that are of int32

    @functools.cached_property
    def required_outputs(self) -> int:
        return sum(name not in self.optional for name in self.outputs)


def _four(views: Views, names: Collection[str], options: AttentionOptions) -> Dict[str, View]:
    """The views with Q, K and V and what is laid out like them in 4 dimensions: a packed batch may leave out the first, of length 1."""
    layout, found = options.layout, dict(views)
    number_of("layout", layout, LAYOUTS)
    packed = is_packed(options.features, views)
    for name in names:
        view = views[name]
        if packed and len(view.shape) == 3:
            found[name] = view = view._replace(shape=(1, *view.shape), strides=(0, *view.strides))
        if len(view.shape) != 4:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not the 4 of {layout}: {view.shape}")
    return found


def _attention_outputs(views: Views, options: AttentionOptions) -> Tuple[Output, ...]:
    four, given = _four(views, "qkv", options), views["q"]
    q, k, v = (four[name] for name in "qkv")
    if k.shape[:3] != v.shape[:3]:
        raise Invalid(f"k is {k.shape} and v is {v.shape}: they must be alike but for head_dim")
    if (q.shape[0] != k.shape[0] and "block_table" not in views) or q.shape[3] != k.shape[3]:
        raise Invalid(f"q is {q.shape} and k is {k.shape}: batch and head_dim must be alike")
    seq, head = SEQ_AND_HEAD[options.layout]
    # An o laid out like a q that repeats itself would write over itself.
    o = Output((*given.shape[:-1], v.shape[3]), like=0 if v.shape[3] == q.shape[3] and 0 not in given.strides else None)
    row = Output((q.shape[0], q.shape[head], q.shape[seq])[4 - len(given.shape) :], fp32=True)
    return o, row, row


def _attention_problem(views: Views, options: AttentionOptions, operation: int = _c.ATTENTION) -> _c.Attention:
    views, layout = _four(views, "qkvo", options), options.layout
    q, k, v = (views[name] for name in "qkv")
    seq, head = SEQ_AND_HEAD[layout]
    strides = {f"{name}_strides": strides_of(views[name].shape, views[name].strides, name, layout) for name in "qkvo"}
    return _c.problem(
        _c.Attention, operation, batch=q.shape[0], heads=q.shape[head], kv_heads=k.shape[head], seq=q.shape[seq],
        head_dim=q.shape[3], head_dim_v=v.shape[3], dtype=DTYPES.index(q.dtype), scale=scale_of(options.scale),
        layout=LAYOUTS.index(layout), o_dtype=1 + DTYPES.index(views["o"].dtype), **strides, **to_c(options.features, views, options.causal, options.offset, layout),
    )  # fmt: skip


def _backward_outputs(views: Views, options: AttentionOptions) -> Tuple[Output, ...]:
    _attention_outputs(views, options)
    gradients = tuple(Output(views[name].shape, like=i) for i, name in enumerate("qkv"))
    four, (seq, head) = _four(views, "qk", options), SEQ_AND_HEAD[options.layout]
    q, k = four["q"].shape, four["k"].shape
    return (*gradients, Output(views["sinks"].shape if "sinks" in views else (0,), fp32=True),
            Output((q[0], q[head], q[seq], k[seq]) if "bias" in views else (0,), fp32=True))  # fmt: skip


def _backward_problem(views: Views, options: AttentionOptions) -> _c.Attention:
    for name in "qkvo":
        tensor, gradient = views[name], views[f"grad_{name}"]
        if (tensor.shape, tensor.strides) != (gradient.shape, gradient.strides):
            raise Invalid(f"{name} is {tensor.shape} with strides {tensor.strides} and its gradient {gradient.shape} with strides "
                          f"{gradient.strides}: they must be laid out alike")  # fmt: skip
    return _attention_problem(views, options, _c.ATTENTION_BACKWARD)


class GemmOptions(NamedTuple):
    """What a product and its epilogue depend on beside the forms of arrays."""

    activation: str = "identity"
    gated: bool = False
    alpha: float = 1.0
    fp32: bool = False  # of C, whatever A and B are
    column_sums: bool = False
    precision: str = "fp32"


PLAIN = GemmOptions()


def _gemm_outputs(views: Views, options: Optional[GemmOptions]) -> Tuple[Output, ...]:
    a, b, how = views["a"], views["b"], options or PLAIN
    for name, view in (("a", a), ("b", b)):
        if len(view.shape) != 2:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not 2: {view.shape}")
    if a.shape[1] != b.shape[0]:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: a's columns must be b's rows")
    (m, _), (_, n) = a.shape, b.shape
    if how.gated and n % 2:
        raise Invalid(f"b has {n} columns, and a gate needs two halves")
    columns = n // 2 if how.gated else n
    shapes = {"bias": (n,), "row_scale": (m,), "column_scale": (n,), "residual": (m, columns)}
    for name, shape in shapes.items():
        if name in views and (views[name].shape != shape or views[name].strides[-1] != 1 != shape[-1]):
            raise Invalid(f"{name} is {views[name].shape} with strides {views[name].strides}, not {shape} with its last dimension contiguous")
    if "scale" in views and views["scale"].shape not in ((), (1,)):
        raise Invalid(f"scale is {views['scale'].shape}, not one number")
    # A GPU writes rows of C in whole vectors of 16 bytes.
    padded = a.device[0] == _c.CUDA and columns % 8
    return Output((m, columns), row=-(-columns // 8) * 8 if padded else None, fp32=how.fp32), Output((columns,), fp32=True)


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


def _row_distance(view: View, name: str) -> int:
    """Elements from a row of a row-major matrix to the next."""
    (rows, cols), (down, _) = view.shape, view.strides
    if rows > 1 and down < cols:
        raise Invalid(f"{name} has strides {view.strides}: its rows overlap; copy it first")
    return down if rows > 1 else cols


def _gemm_problem(views: Views, options: Optional[GemmOptions]) -> _c.Gemm:
    a, b, c, how = views["a"], views["b"], views["c"], options or PLAIN
    (a_major, lda), (b_major, ldb), dtype = _major(a, "a"), _major(b, "b"), DTYPES.index(a.dtype)
    extras = sum(bit for name, bit in _c.GEMM_EXTRAS.items() if name in views or (name == "column_sums" and how.column_sums))
    ld_residual = _row_distance(views["residual"], "residual") if "residual" in views else 0
    return _c.problem(
        _c.Gemm, _c.GEMM, m=a.shape[0], n=b.shape[1], k=a.shape[1], dtype=dtype, c_dtype=DTYPES.index(c.dtype), a_major=a_major,
        b_major=b_major, lda=lda, ldb=ldb, ldc=c.shape[1], alpha=how.alpha, batch=1, extras=extras,
        activation=_c.ACTIVATIONS.index(how.activation), gated=how.gated, ld_residual=ld_residual,
        bias_dtype=DTYPES.index(views["bias"].dtype) if "bias" in views else 0, precision=PRECISIONS.index(how.precision),
    )  # fmt: skip


def _combine_shape(view: View, layout: str) -> View:
    """A part's view in 4 dimensions: a packed batch may leave out the first, of length 1."""
    number_of("layout", layout, LAYOUTS)
    if len(view.shape) == 3 and layout == "bshd":
        return view._replace(shape=(1, *view.shape), strides=(0, *view.strides))
    if len(view.shape) != 4:
        raise Invalid(f"a part has {len(view.shape)} dimensions, not the 4 of {layout}: {view.shape}")
    return view


def _combine_outputs(views: Views, layout: str) -> Tuple[Output, ...]:
    first = views["parts[0]"]
    part, (seq, head) = _combine_shape(first, layout), SEQ_AND_HEAD[layout]
    rows = (part.shape[0], part.shape[head], part.shape[seq])[4 - len(first.shape) :]
    for name, view in views.items():
        if name.startswith("parts") and (view.shape, view.strides) != (first.shape, first.strides):
            raise Invalid(f"{name} is {view.shape} with strides {view.strides}, and parts[0] {first.shape} with strides {first.strides}: "
                          "they must be laid out alike")  # fmt: skip
        if name.startswith("lses") and (view.shape != rows or not _is_packed(view)):
            raise Invalid(f"{name} is {view.shape} with strides {view.strides}, not {rows} in one piece")
        if name == "lse" and view.shape != rows:
            raise Invalid(f"the lse of into is {view.shape}, not {rows}")
    return Output(first.shape, like=0 if 0 not in first.strides else None), Output(rows, fp32=True)


def _is_packed(view: View) -> bool:
    """Whether elements lie one behind the other; the stride of a dimension of length 1 says nothing."""
    step = 1
    for length, stride in zip(view.shape[::-1], view.strides[::-1]):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _lse_stride(view: View) -> int:
    """Elements from head to head of an LSE (batch, heads, seq), or packed (heads, total), of which they may be some rows."""
    (heads, seq), (down, along) = view.shape[-2:], view.strides[-2:]
    stride = down if heads > 1 else view.strides[0] // heads if len(view.shape) == 3 and view.shape[0] > 1 else seq
    apart = len(view.shape) == 2 or view.shape[0] == 1 or view.strides[0] == heads * stride
    if not apart or stride < seq or (seq > 1 and along != 1):
        raise Invalid(f"the lse of into has strides {view.strides}: rows must be contiguous, and as far apart from batch to batch as from head to head")
    return stride


def _combine_problem(views: Views, layout: str) -> _c.Combine:
    part, o = (_combine_shape(views[name], layout) for name in ("parts[0]", "o"))
    seq, head = SEQ_AND_HEAD[layout]
    return _c.problem(
        _c.Combine, _c.COMBINE, parts=sum(name.startswith("parts") for name in views), batch=part.shape[0], heads=part.shape[head],
        seq=part.shape[seq], head_dim=part.shape[3], dtype=DTYPES.index(part.dtype), o_dtype=DTYPES.index(o.dtype),
        layout=LAYOUTS.index(layout), part_strides=strides_of(part.shape, part.strides, "parts", layout),
        o_strides=strides_of(o.shape, o.strides, "o", layout), into="lse" in views,
        lse_stride=_lse_stride(views["lse"]) if "lse" in views else 0,
    )  # fmt: skip


@functools.lru_cache(maxsize=None)
def combine_of(parts: int, into: bool = False) -> Operation:
    """The row for so many parts; into: o and lse hold one before."""
    outputs, lses = (tuple(f"{name}[{i}]" for i in range(parts)) for name in ("parts", "lses"))
    lse = ("lse",)
    return Operation(
        Combine, _c.CombineData, (*outputs, *lses, *(lse if into else ())), ("o", *(() if into else lse)),
        ("rows of tiles", "columns of tiles"), _combine_outputs, _combine_problem, optional=() if into else lse,
        fp32=(*lses, *(lse if into else ())),
    )  # fmt: skip


class GroupedOptions(NamedTuple):
    """What a grouped product depends on beside the forms of its arrays."""

    masked: bool
    alpha: float


def _grouped_outputs(views: Views, options: GroupedOptions) -> Tuple[Output, ...]:
    a, b, bounds = views["a"], views["b"], views["counts" if options.masked else "starts"]
    for name, view, dimensions in (("a", a, 3 if options.masked else 2), ("b", b, 3)):
        if len(view.shape) != dimensions:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not {dimensions}: {view.shape}")
    if a.shape[-1] != b.shape[1] or (options.masked and a.shape[0] != b.shape[0]):
        raise Invalid(f"a is {a.shape} and b is {b.shape}: a's last dimension must be b's second"
                      + (", and there must be as many groups" if options.masked else ""))  # fmt: skip
    numbers = b.shape[0] + (not options.masked)
    if bounds.shape != (numbers,) or not _is_packed(bounds):
        name, more = ("counts", "") if options.masked else ("starts", " and one more")
        raise Invalid(f"{name} is {bounds.shape}, not ({numbers},) in one piece: one number for each of {b.shape[0]} groups{more}")
    n = b.shape[2]
    padded = a.device[0] == _c.CUDA and a.dtype != "fp32" and n % 8  # as for one product
    return (Output((*a.shape[:-1], n), row=-(-n // 8) * 8 if padded else None),)


def _rows_of(view: View, name: str) -> Tuple[int, int]:
    """(stride from group to group, leading dimension) of a view whose rows are contiguous."""
    *outer, rows, cols = view.shape
    if 0 in view.shape:
        return 0, 0  # packed; the library says which length is wrong
    major, leading = _major(view._replace(shape=(rows, cols), strides=view.strides[-2:]), name)
    if major != 0 and cols > 1:
        raise Invalid(f"{name} has strides {view.strides}: its rows are not contiguous; copy it first")
    leading = leading if major == 0 else view.strides[-2]
    return (view.strides[0] if outer and outer[0] > 1 else 0), leading


def _grouped_problem(views: Views, options: GroupedOptions) -> _c.GroupedGemm:
    a, b, c = views["a"], views["b"], views["c"]
    (a_stride, lda), (c_stride, ldc) = _rows_of(a, "a"), _rows_of(c, "c")
    b_major, ldb = _major(b._replace(shape=b.shape[1:], strides=b.strides[1:]), "b")
    if b.shape[0] > 1 and b.strides[0] == 0:
        raise Invalid("b is one matrix, repeated: copy it to make it a whole array, or call weft.matmul()")
    return _c.problem(
        _c.GroupedGemm, _c.GROUPED_GEMM, groups=b.shape[0], rows=a.shape[-2], n=b.shape[2], k=b.shape[1], dtype=DTYPES.index(a.dtype),
        c_dtype=DTYPES.index(c.dtype), layout=int(options.masked), b_major=b_major, lda=lda, ldb=ldb, ldc=ldc, a_stride=a_stride,
        b_stride=b.strides[0] if b.shape[0] > 1 else 0, c_stride=c_stride, alpha=options.alpha,
    )  # fmt: skip


ATTENTION = Operation(
    Attention, _c.AttentionData, ("q", "k", "v"), ("o", "lse", "max"), ("heads", "query blocks"), _attention_outputs,
    _attention_problem, optional=("lse", "max"),
)  # fmt: skip
ATTENTION_BACKWARD = Operation(
    AttentionBackward, _c.AttentionGradients, ("q", "k", "v", "grad_o", "o", "lse"),
    ("grad_q", "grad_k", "grad_v", "grad_sinks", "grad_bias"), ("heads", "query blocks"), _backward_outputs, _backward_problem,
    optional=("grad_sinks", "grad_bias"), fp32=("lse",),
)  # fmt: skip
# What a product may have beside a and b, in the order of its buffers.
GEMM_ARRAYS = ("bias", "residual", "scale", "row_scale", "column_scale")


@functools.lru_cache(maxsize=None)
def gemm_of(arrays: Tuple[str, ...] = (), fp32: Tuple[str, ...] = ()) -> Operation:
    """The row for products with these arrays, of which some are fp32 whatever a and b are."""
    return Operation(
        Gemm, _c.GemmData, ("a", "b", *arrays), ("c", "column_sums"), ("rows of tiles", "columns of tiles"), _gemm_outputs,
        _gemm_problem, optional=("column_sums",), fp32=fp32,
    )  # fmt: skip


def gemm_with(arrays: Collection[str], fp32_bias: bool, how: GemmOptions) -> Operation:
    """The row for a product that has these arrays beside a and b."""
    always = {"scale": True, "row_scale": True, "column_scale": True, "residual": how.fp32, "bias": fp32_bias}
    names = tuple(name for name in GEMM_ARRAYS if name in arrays)
    return gemm_of(names, tuple(name for name in names if always[name]))


GEMM = gemm_of()
GROUPED_GEMM, MASKED_GEMM = (
    Operation(
        GroupedGemm, _c.GroupedGemmData, ("a", "b", bounds), ("c",), ("rows of tiles", "columns of tiles"), _grouped_outputs,
        _grouped_problem, int32=(bounds,),
    ) for bounds in ("starts", "counts")
)  # fmt: skip
BY_NUMBER = {row.problem.operation: row for row in (ATTENTION, ATTENTION_BACKWARD, GEMM, combine_of(_c.MOST_PARTS), GROUPED_GEMM)}
