# SPDX-License-Identifier: Apache-2.0
"""Grouped products: many matrix products of unlike numbers of rows in one call, as a mixture of experts has them."""

from __future__ import annotations

import numbers
from typing import Any, Optional, Sequence, Tuple

from . import compute, frameworks, operations, schedules
from .arrays import Framework, transposed
from .errors import Invalid
from .problems import number_in


def forward(a: Any, b: Any, bounds: Any, masked: bool, alpha: float, schedule: schedules.ScheduleLike, out: Any = None) -> Any:
    """The product of arrays that hold values; `bounds` are starts, or counts of masked groups."""
    operation = operations.MASKED_GEMM if masked else operations.GROUPED_GEMM
    return compute.run(operation, (a, b, bounds), operations.GroupedOptions(masked, alpha), schedule, None, ("c",), None, out)[0]


def _bounds(framework: Framework, a: Any, name: str, given: Any) -> Tuple[Any, Optional[Sequence[int]]]:
    """An array of the bounds, and their numbers where they are known now."""
    if not isinstance(given, (list, tuple)):
        return given, None
    if not all(isinstance(x, numbers.Integral) and 0 <= x < 2**31 for x in given):
        raise Invalid(f"{name} has what is not a whole number between 0 and {2**31 - 1}")
    known = [int(x) for x in given]
    return framework.integers(known, a), known


def grouped_matmul(a: Any, b: Any, *, starts: Any = None, counts: Any = None, alpha: float = 1.0, transpose_b: bool = False,
                   out: Any = None, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """C_g = alpha A_g B_g for each group of rows g, accumulated in fp32: a mixture of experts.

    a            (rows, k): the rows of all groups, one group behind the other; with counts (groups, rows, k)
    b            (groups, k, n); k or n is contiguous: the transposed view of weights (groups, n, k) is taken as it is
    starts       (groups + 1) ascending int32 numbers from 0 to rows, an array beside the others: group g has the rows starts[g] to
                 starts[g + 1] - 1. Or a list, which is copied to the device
    counts       in place of starts: (groups) int32 numbers: group g has the first counts[g] rows of a[g]
    alpha        a number
    transpose_b  b is (groups, n, k), and each matrix counts transposed: JAX arrays have no transposed views
    out          the array that the result is written to, shaped like it, fp32 or of a's dtype; JAX arrays cannot be written to
    schedule     a weft.Schedule, a dict of its fields, or None: chosen

    Returns C, (rows, n) or (groups, rows, n). A group may have no rows. Rows of no group are not written: they hold anything, unless
    `out` is given; where torch differentiates or compiles, and of JAX, they are 0. On a GPU the work is put on the framework's current
    stream, and bounds are read when it runs: nothing waits for them. Wrong ones do no harm there, but rows then hold anything; on a CPU
    they are weft.Invalid, under jax.jit an error of XLA's.

    torch and JAX differentiate it; JAX arrays may be traced, bounds among them. torch computes the gradient of b group by group: for
    tensors on a GPU, give the bounds as a list.

    >>> a, b = rng.standard_normal((100, 64), dtype=np.float32), rng.standard_normal((3, 64, 32), dtype=np.float32)
    >>> c = weft.grouped_matmul(a, b, starts=[0, 70, 70, 100])
    >>> np.allclose(c[70:], a[70:] @ b[2], atol=1e-4)
    True
    """
    if (starts is None) == (counts is None):
        raise Invalid("give starts, or counts: one of them")
    alpha, masked = number_in("alpha", alpha), counts is not None
    name, given = ("counts", counts) if masked else ("starts", starts)
    # Dynamo sees this far, and not into framework_of().
    framework = frameworks.TORCH if frameworks.is_torch(a) else frameworks.framework_of(("a",), (type(a),))
    bounds, known = _bounds(framework, a, name, given)
    operators = frameworks.operators((a, b, bounds))
    if operators is not None:
        return operators.grouped_matmul(a, b, transpose_b, bounds, known, masked, alpha, schedule, out)
    return forward(a, transposed(b) if transpose_b else b, bounds, masked, alpha, schedule, out)
