"""Weft in JAX: functions that can be traced, on the CPU, by a callback that gets the values."""

from __future__ import annotations

from typing import Any, Optional

import jax
import numpy

from . import compute, problems, schedules
from .errors import Invalid


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """weft.attention() under jax.jit and jax.vmap. Shapes and options are the same; options are Python values, not traced.

    Runs on the CPU; it has no gradient.
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    if q.ndim != 4:
        raise Invalid(f"q has {q.ndim} dimensions, not the 4 of {layout}: {q.shape}")
    seq, head = (1, 2) if layout == "bshd" else (2, 1)
    shapes = (
        jax.ShapeDtypeStruct(q.shape, q.dtype),
        jax.ShapeDtypeStruct((q.shape[0], q.shape[head], q.shape[seq]), numpy.float32) if return_lse else None,
    )

    def run(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (numpy.asarray(x) for x in (q, k, v))  # what a callback gets is in host memory: viewed, not copied
        return compute.attention_forward(q, k, v, causal, scale, offset, layout, return_lse, schedule)

    o, lse = jax.pure_callback(run, shapes, q, k, v, vmap_method="sequential")
    return (o, lse) if return_lse else o


def matmul(a: Any, b: Any, *, schedule: schedules.ScheduleLike = None) -> Any:
    """weft.matmul() under jax.jit and jax.vmap: a is (m, k), b is (k, n), the result (m, n). Runs on the CPU; no gradient."""
    if a.ndim != 2 or b.ndim != 2:
        raise Invalid(f"a is {a.shape} and b is {b.shape}: both must have 2 dimensions")
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)

    def run(a: Any, b: Any) -> Any:
        return compute.matmul(numpy.asarray(a), numpy.asarray(b), schedule=schedule)

    return jax.pure_callback(run, shape, a, b, vmap_method="sequential")
