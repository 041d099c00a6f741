# SPDX-License-Identifier: Apache-2.0
"""Products in JAX: epilogues, groups, and the gradients of both."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import jax
import numpy
from jax import numpy as jnp

from . import _c, operations, products, schedules, xla
from .errors import Unsupported
from .operations import GemmOptions, GroupedOptions
from .products import Matrix
from .xla import Call

_ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
}


def _is_zero(grad: Any) -> bool:
    """Whether JAX says that a gradient is 0 rather than giving an array."""
    return isinstance(grad, jax.custom_derivatives.SymbolicZero)


def _multiply(a: Matrix, b: Matrix, arrays: Mapping[str, Any], how: GemmOptions, schedule: schedules.ScheduleLike) -> List[Any]:
    """C and, where they are wanted, the sums of its columns."""
    row = operations.gemm_with(arrays, "bias" in arrays and arrays["bias"].dtype == numpy.float32, how)
    transposed = tuple(name for name, x in (("a", a), ("b", b)) if x.transposed)
    wanted = ("c", "column_sums") if how.column_sums else ("c",)
    what = Call(row, how, wanted, schedules.of(schedule), transposed=transposed)
    return _product(what, a.array, b.array, *(arrays[name] for name in row.inputs[2:]))


def _column_sums(x: Any) -> Any:
    return x.sum(0, dtype=numpy.float32)


def _maths(precision: str) -> products.Maths:
    """For gradients of a product of that precision."""
    how = operations.PLAIN._replace(precision=precision)
    return products.Maths(lambda a, b: _multiply(a, b, {}, how, None)[0], lambda x, like: x.astype(like.dtype), _column_sums)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(what: Call, *given: Any) -> List[Any]:
    """a, b and what is beside them in; C and, where they are wanted, the sums of its columns out."""
    return xla.run(what, *given)


def _product_forward(what: Call, *given: Any) -> Any:
    """What is kept holds arrays only, but its structure is known while JAX traces: so it says which gradients are wanted."""
    how, wanted = what.options, {name: () for name, x in zip(what.names, given) if x.perturbed}
    if set(wanted) & set(products.SCALES):
        raise Unsupported("scales of a product have no gradient: take jax.lax.stop_gradient of them")
    arrays = {name: x.value for name, x in zip(what.names, given)}
    if how.activation == "identity" and not how.gated:
        made, z = _product(what, *arrays.values()), None
        arrays.pop("residual", None)
    else:
        made, z = _by_way_of_z(what, arrays, arrays.pop("residual", None))
    return made, (arrays, wanted, z)


def _by_way_of_z(what: Call, arrays: Dict[str, Any], residual: Any) -> Tuple[List[Any], Any]:
    """The outputs, and z, which the activation is of: XLA passes it through."""
    a, b = (Matrix(arrays[name], name in what.transposed) for name in "ab")
    z = _multiply(a, b, {name: arrays[name] for name in list(arrays)[2:]}, products.linear_part(what.options), what.schedule)[0]
    c = products.activated(z.astype(numpy.float32), what.options, _ACTIVATIONS)
    c = c if residual is None else c + residual.astype(numpy.float32)
    return [c.astype(z.dtype), _column_sums(c)][: len(what.wanted)], z


def _product_backward(what: Call, kept: Any, grads: List[Any]) -> Tuple[Any, ...]:
    arrays, wanted, z = kept
    # The gradient of a sum is that of each element of its column.
    grad = sum((x.astype(numpy.float32) for x in grads if not _is_zero(x)), jnp.float32(0))
    grad = jnp.broadcast_to(grad, grads[0].shape)
    found = {"residual": grad.astype(grads[0].dtype)} if "residual" in wanted else {}
    if z is not None:
        _, pull = jax.vjp(lambda z: products.activated(z, what.options, _ACTIVATIONS), z.astype(numpy.float32))
        (grad,) = pull(grad)
    a, b = (Matrix(arrays[name], name in what.transposed) for name in "ab")
    found.update(products.gradients(_maths(what.options.precision), a, b, arrays, what.options.alpha, grad, wanted))
    return tuple(map(found.get, what.names))


_product.defvjp(_product_forward, _product_backward, symbolic_zeros=True)


def matmul(a: Any, b: Any, transpose_b: bool, schedule: schedules.ScheduleLike, arrays: Mapping[str, Any],
           options: Optional[GemmOptions]) -> Any:  # fmt: skip
    """weft.matmul() of JAX arrays."""
    made = _multiply(Matrix(a), Matrix(b, transpose_b), arrays, options or operations.PLAIN, schedule)
    return tuple(made) if len(made) > 1 else made[0]


def _rows(masked: bool, shape: Tuple[int, ...], bounds: Any) -> Tuple[Any, Any]:
    """The first row of each group and the one behind its last, in a matrix of the rows of all groups; held to what there is."""
    rows, room = int(numpy.prod(shape[:-1])), shape[-2]
    if masked:
        begin = jnp.arange(shape[0], dtype=numpy.int32) * room
        return begin, begin + jnp.clip(bounds, 0, room)
    begin = jnp.clip(bounds[:-1], 0, rows)
    return begin, jnp.clip(bounds[1:], begin, rows)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _grouped(what: Call, a: Any, b: Any, bounds: Any) -> Any:
    """C, with 0 in rows of no group, which weft does not write."""
    row = jnp.arange(a.shape[-2])
    counts = row < bounds[:, None] if what.options.masked else (row >= bounds[0]) & (row < bounds[-1])
    return jnp.where(counts[..., None], xla.run(what, a, b, bounds)[0], 0)


def _grouped_forward(what: Call, *given: Any) -> Any:
    values = tuple(x.value for x in given)
    return _grouped(what, *values), (values, {name: () for name, x in zip("ab", given) if x.perturbed})


def _grouped_backward(what: Call, kept: Any, grad: Any) -> Tuple[Any, ...]:
    (a, b, bounds), wanted = kept
    if _is_zero(grad):
        return None, None, None
    turned = "b" in what.transposed
    flipped = what._replace(transposed=() if turned else ("b",), schedule=schedules.of(None))
    grad_a = _grouped(flipped, grad, b, bounds) if "a" in wanted else None
    sides = (grad, a) if turned else (a, grad)
    return grad_a, _grouped_weights(what.options, *sides, bounds) if "b" in wanted else None, None


_grouped.defvjp(_grouped_forward, _grouped_backward, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
@functools.partial(jax.jit, static_argnums=0)
def _grouped_weights(how: GroupedOptions, x: Any, y: Any, bounds: Any) -> Any:
    """alpha X_g^T Y_g of each group g: the gradient of its matrix.

    How many rows a group has is known to the device only. So each product is of a block of rows of one group: as many as a group has
    on average, at least 128 and at most 1024, of which those beyond the group count 0.
    """
    begin, end = _rows(how.masked, x.shape, bounds)
    x, y = (m.reshape((-1, m.shape[-1])) for m in (x, y))
    rows, groups = x.shape[0], begin.shape[0]
    block = min(rows, max(128, min(1024, 1 << max(rows // groups - 1, 0).bit_length())))
    blocks = -(-(end - begin) // block)
    behind = jnp.cumsum(blocks)  # the last block of each group
    options = GemmOptions(alpha=how.alpha, fp32=True)

    def add(i: Any, sums: Any) -> Any:
        group = jnp.searchsorted(behind, i, side="right")
        first = begin[group] + (i - behind[group] + blocks[group]) * block
        start = jnp.minimum(first, rows - block)
        row = start + jnp.arange(block)
        counts = ((row >= first) & (row < end[group]))[:, None]
        left, right = (jnp.where(counts, jax.lax.dynamic_slice_in_dim(m, start, block), 0) for m in (x, y))
        return sums.at[group].add(_multiply(Matrix(left).T, Matrix(right), {}, options, None)[0])

    sums = jnp.zeros((groups, x.shape[-1], y.shape[-1]), numpy.float32)
    return jax.lax.fori_loop(0, behind[-1], add, sums).astype(x.dtype)


def _weights_forward(how: GroupedOptions, *given: Any) -> Any:
    return _grouped_weights(how, *given), given


def _weights_backward(how: GroupedOptions, kept: Any, grad: Any) -> Tuple[Any, ...]:
    """Of alpha X_g^T Y_g: alpha Y_g G_g^T and alpha X_g G_g."""
    x, y, bounds = kept
    what = _grouped_call(how, None, True)
    return _grouped(what, y, grad, bounds), _grouped(what._replace(transposed=()), x, grad, bounds), None


_grouped_weights.defvjp(_weights_forward, _weights_backward)


def _grouped_call(how: GroupedOptions, schedule: schedules.ScheduleLike, transpose_b: bool) -> Call:
    row = operations.MASKED_GEMM if how.masked else operations.GROUPED_GEMM
    return Call(row, how, ("c",), schedules.of(schedule), transposed=("b",) if transpose_b else ())


def _check_bounds(what: Call, given: Tuple[Any, ...], known: Sequence[int]) -> None:
    """Refuses wrong bounds that are known now, as weft's own error."""
    problem, _ = xla.pose(what, *given)
    setattr(problem, what.operation.inputs[2], (ctypes.c_int32 * len(known))(*known))
    _c.call(_c.library.weft_problem_check, ctypes.byref(problem))


def grouped_matmul(a: Any, b: Any, transpose_b: bool, bounds: Any, known: Optional[Sequence[int]], masked: bool, alpha: float,
                   schedule: schedules.ScheduleLike, out: Any) -> Any:  # fmt: skip
    """weft.grouped_matmul() of JAX arrays."""
    if out is not None:
        raise Unsupported("weft has no out for JAX arrays, which cannot be written to")
    what = _grouped_call(GroupedOptions(masked, alpha), schedule, transpose_b)
    if known is None and not xla.is_traced(bounds) and {x.platform for x in bounds.devices()} == {"cpu"}:
        known = numpy.asarray(bounds)
    if known is not None:
        _check_bounds(what, (a, b, bounds), known)
    return _grouped(what, a, b, bounds)
