# SPDX-License-Identifier: Apache-2.0
"""What frameworks need to differentiate products: the formulae, on arrays of any framework."""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, Mapping, NamedTuple

from .operations import GemmOptions

SCALES = ("scale", "row_scale", "column_scale")


class Matrix(NamedTuple):
    """A matrix as it is in memory, and whether it counts transposed."""

    array: Any
    transposed: bool = False

    @property
    def T(self) -> "Matrix":
        return Matrix(self.array, not self.transposed)


class Maths(NamedTuple):
    """What the formulae need of a framework beside operators and indexing."""

    product: Callable[[Matrix, Matrix], Any]  # by weft
    cast: Callable[[Any, Any], Any]  # an array, in the dtype of another
    sums: Callable[[Any], Any]  # of columns, in fp32


def activated(z: Any, how: GemmOptions, activations: Mapping[str, Callable[[Any], Any]]) -> Any:
    """What an epilogue makes of z, without the residual."""
    activate, half = activations[how.activation], z.shape[1] // 2
    return activate(z[:, :half]) * z[:, half:] if how.gated else activate(z)


def linear_part(how: GemmOptions) -> GemmOptions:
    """The epilogue that gives z, which is what the activation is of."""
    return how._replace(activation="identity", gated=False, column_sums=False)


def gradients(maths: Maths, a: Matrix, b: Matrix, beside: Mapping[str, Any], alpha: float, grad: Any,
              wanted: Collection[str]) -> Dict[str, Any]:  # fmt: skip
    """Of z = alpha scale row_scale column_scale (A B) + bias, from the gradient of z: those of a, b and bias that are wanted, each laid
    out as its array is. `beside` has the scales and the bias."""
    scaled = grad if alpha == 1 else grad * alpha
    for name in filter(beside.__contains__, SCALES):
        scaled = scaled * (beside[name][:, None] if name == "row_scale" else beside[name])
    outer = Matrix(maths.cast(scaled, a.array))
    found = {}
    for name, matrix, left, right in (("a", a, outer, b.T), ("b", b, a.T, outer)):
        if name in wanted:
            found[name] = maths.product(right.T, left.T) if matrix.transposed else maths.product(left, right)
    if "bias" in wanted:
        found["bias"] = maths.cast(maths.sums(grad), beside["bias"])
    return found
