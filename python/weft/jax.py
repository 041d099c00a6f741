# SPDX-License-Identifier: Apache-2.0
"""Weft in JAX: functions that can be traced, mapped and differentiated, on the CPU and on NVIDIA GPUs."""

from __future__ import annotations

import functools
import types
from typing import Any, List, Optional, Tuple

import jax

from . import caches, compute, features, jax_products, problems, schedules, xla
from .compute import linear, matmul  # they take JAX arrays as they are, and so does the next
from .errors import Invalid, Unsupported
from .frameworks import JAX
from .grouped import grouped_matmul
from .jax_ring import ring_attention
from .operations import ATTENTION, ATTENTION_BACKWARD, attention_options
from .xla import Call

__all__ = ["attention", "grouped_matmul", "linear", "matmul", "ring_attention"]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(what: Call, *given: Any) -> List[Any]:
    """q, k, v and what is beside them in, outputs out."""
    return xla.run(what, *given)


def _attention_forward(what: Call, *given: Any) -> Any:
    perturbed = {name for name, x in zip(what.beside, given[3:]) if x.perturbed}
    if "alibi" in perturbed:
        raise Unsupported("JAX has no gradient of alibi yet: take jax.lax.stop_gradient of it")
    if "qv" in what.beside:
        raise Unsupported("an attention with qv has no gradient: take jax.lax.stop_gradient of its arrays")
    values = tuple(x.value for x in given)
    o, lse, *most = xla.run(what._replace(wanted=("o", "lse", *what.wanted[2:])), *values)
    # What is kept holds arrays only, but its structure is known while JAX traces.
    wants_bias = () if "bias" in perturbed else None
    return [o, lse, *most][: len(what.wanted)], (values, o, lse, wants_bias)


def _sum_to(x: Any, like: Any) -> Any:
    """The gradient of an array that was broadcast to the shape of x."""
    shape = (1,) * (x.ndim - like.ndim) + like.shape
    repeated = tuple(axis for axis, (n, given) in enumerate(zip(x.shape, shape)) if n != given)
    return x.sum(repeated, keepdims=True).reshape(like.shape).astype(like.dtype)


def _attention_backward(what: Call, kept: Any, grads: List[Any]) -> Any:
    """The gradients of q, k, v, sinks and a bias; no one asks for those of the others."""
    for name, grad in zip(what.wanted[1:], grads[1:]):
        if not isinstance(grad, jax.custom_derivatives.SymbolicZero):
            raise Unsupported(f"the gradient of {name} is not there yet")
    given, o, lse, wants_bias = kept
    grad_o = jax.numpy.zeros(o.shape, o.dtype) if isinstance(grads[0], jax.custom_derivatives.SymbolicZero) else grads[0]
    beside = dict(zip(what.beside, given[3:]))
    wanted = ATTENTION_BACKWARD.outputs[: 4 if "sinks" in beside else 3] + (() if wants_bias is None else ("grad_bias",))
    options = what.options._replace(features=what.options.features and what.options.features._replace(max=False))
    back = what._replace(operation=ATTENTION_BACKWARD, options=options, wanted=wanted, schedule=schedules.of(None))
    found = dict(zip(wanted, xla.run(back, *given[:3], grad_o, o, lse, *given[3:])))
    if "grad_bias" in found:
        found["grad_bias"] = _sum_to(found["grad_bias"], beside["bias"])
    return tuple(found.get(f"grad_{name}") for name in ("q", "k", "v", *what.beside))


_attention.defvjp(_attention_forward, _attention_backward, symbolic_zeros=True)


def _asked(q: Any, given: Optional[features.Asked]) -> Tuple[Optional[features.Features], Tuple[str, ...], Tuple[Any, ...], int]:
    """Features, names and arrays beside q, k and v, and the seed. A compiled program holds no lengths, so they become arrays."""
    if given is None:
        return None, (), (), 0
    if given.cache or given.out is not None:
        what = ", ".join((*caches.named(given.cache), *(() if given.out is None else ("out",))))
        raise Unsupported(f"weft has no {what} for JAX arrays, which cannot be written to: KV caches are for torch and NumPy")
    numbers = given.features
    beside = {**given.arrays, **{name: JAX.integers(values, q) for name, values in numbers.known}}
    names = tuple(name for name in features.ARRAYS if name in beside)
    return numbers._replace(known=()), names, tuple(beside[name] for name in names), given.seed


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None,
              asked: Optional[features.Asked] = None, **options: Any) -> Any:  # fmt: skip
    """weft.attention() under jax.jit, jax.vmap and jax.grad. Shapes and options are the same, window to return_max among
    them; sinks, alibi, bias, qv and lengths may be traced, the others are Python values.

    Runs where JAX runs: on the CPU or an NVIDIA GPU. q, k, v, sinks and an added bias have gradients; alibi has
    none, and neither has an attention with qv. That of a bias takes (batch, heads, seq, kv_seq) float32 for a while, as it is summed up behind the kernel.

    >>> q = jax.random.normal(jax.random.key(0), (1, 128, 4, 64))
    >>> jax.jit(lambda q: weft.jax.attention(q, q, q, causal=True))(q).shape
    (1, 128, 4, 64)
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    numbers, beside, extra, seed = _asked(q, features.asked(q, **options) if options else asked)
    most = numbers is not None and numbers.max
    if q.ndim != 4 and not (q.ndim == 3 and "q_starts" in beside):
        raise Invalid(f"q has {q.ndim} dimensions, not the 4 of {layout}: {q.shape}")
    how = attention_options(causal, scale, offset, layout, numbers)
    wanted = ATTENTION.outputs[: 3 if most else 2 if return_lse else 1]
    o, *rest = _attention(Call(ATTENTION, how, wanted, schedules.of(schedule), None, beside, seed), q, k, v, *extra)
    return compute.results(o, rest[0] if return_lse else None, rest[1] if most else None)


# What weft.attention(), weft.matmul() and weft.grouped_matmul() call for JAX arrays.
OPERATORS = types.SimpleNamespace(attention=attention, matmul=jax_products.matmul, grouped_matmul=jax_products.grouped_matmul,
                                  takes_values=lambda: xla.why_no_ffi() is None)  # fmt: skip
