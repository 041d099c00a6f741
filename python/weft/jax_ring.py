# SPDX-License-Identifier: Apache-2.0
"""Context parallelism in JAX: attention of a sequence whose rows are cut among the devices of a mesh, inside of jax.shard_map.

Keys and values go round the devices. At step s a device has those of the device s places before it, so what its queries see of them is
known while JAX traces, but for whether the round has passed the end: each step has at most two forms, and one is taken when it runs.
Parts are put together by their LSE. The backward pass goes round again, with the LSE of the whole, and gradients of keys and values
travel along with them.
"""

from __future__ import annotations

import functools
from typing import Any, List, NamedTuple, Optional, Tuple

import jax
from jax import lax
from jax import numpy as jnp

from . import features, problems, schedules, xla
from .errors import Invalid, Unsupported
from .operations import ATTENTION, ATTENTION_BACKWARD, Operation, attention_options
from .problems import SEQ_AND_HEAD, Window


class _Ring(NamedTuple):
    """What a call does, in values that JAX takes for constants."""

    axis: str
    causal: bool
    window: Window
    softcap: float
    scale: Optional[float]
    layout: str


class _Step(NamedTuple):
    """A hop: how many places keys have come since the first, and where queries then stand among them: on devices that the round has
    not passed the end of, and on the others. None: these see nothing."""

    places: int
    before: Optional[int]
    behind: Optional[int]


def _sees(ring: _Ring, offset: int, rows: int) -> bool:
    """Whether a query of a device sees a key of a part, where the first query stands at key `offset`."""
    left, right = ring.window or (-1, -1)
    right = 0 if ring.causal else right
    return (right < 0 or -(rows - 1) - offset <= right) and (left < 0 or rows - 1 - offset >= -left)


def _steps(ring: _Ring, devices: int, rows: int) -> List[_Step]:
    """The hops that some device needs."""
    steps = []
    for places in range(devices):
        before, behind = (offset if _sees(ring, offset, rows) else None for offset in (places * rows, (places - devices) * rows))
        if places == 0:
            behind = before  # no device has passed the end
        if before is not None or behind is not None:
            steps.append(_Step(places, before, behind))
    return steps


def _call(ring: _Ring, operation: Operation, offset: int, wanted: Tuple[str, ...], *given: Any) -> List[Any]:
    masked = ring.causal or ring.window is not None
    numbers = features.Features(window=ring.window, softcap=ring.softcap)
    how = attention_options(ring.causal, ring.scale, offset if masked else None, ring.layout, None if numbers == features.Features() else numbers)
    return xla.run(xla.Call(operation, how, wanted, schedules.of(None)), *given)


def _taken(ring: _Ring, step: _Step, part: Any, nothing: Any, *given: Any) -> Any:
    """What part(offset, ...) gives in the form of the step that this device needs; without one, nothing(...)."""
    forms = [nothing if offset is None else functools.partial(part, offset) for offset in (step.before, step.behind)]
    if step.before == step.behind or not (ring.causal or ring.window is not None):
        return forms[0](*given)
    return lax.cond(lax.axis_index(ring.axis) >= step.places, *forms, *given)


def _moved(ring: _Ring, places: int, *given: Any) -> Any:
    """Arrays of the device so many places before this one."""
    devices = lax.psum(1, ring.axis)
    ways = [(device, (device + places) % devices) for device in range(devices)]
    return [lax.ppermute(x, ring.axis, ways) for x in given] if places % devices else list(given)


def _by_rows(x: Any, layout: str) -> Any:
    """An LSE (batch, heads, seq) beside an O."""
    return (x.swapaxes(1, 2) if layout == "bshd" else x)[..., None]


def _ran(ring: _Ring, q: Any, k: Any, v: Any) -> Tuple[Any, Any]:
    """O and the LSE of this device's queries."""
    seq, head = SEQ_AND_HEAD[ring.layout]
    empty = (*q.shape[:3], v.shape[3]), (q.shape[0], q.shape[head], q.shape[seq])

    def part(offset: int, q: Any, k: Any, v: Any) -> Any:
        return tuple(_call(ring, ATTENTION, offset, ("o", "lse"), q, k, v))

    def nothing(q: Any, k: Any, v: Any) -> Any:
        return jnp.zeros(empty[0], q.dtype), jnp.full(empty[1], -jnp.inf, jnp.float32)

    o, lse = jnp.zeros(empty[0], jnp.float32), jnp.full(empty[1], -jnp.inf, jnp.float32)
    steps = _steps(ring, lax.psum(1, ring.axis), q.shape[seq])
    for step, after in zip(steps, [*steps[1:], None]):
        ahead = None if after is None else _moved(ring, after.places - step.places, k, v)  # while this step computes
        of_part, lse_of_part = _taken(ring, step, part, nothing, q, k, v)
        whole = jnp.logaddexp(lse, lse_of_part)
        kept, added = (jnp.where(x == -jnp.inf, 0.0, jnp.exp(x - whole)) for x in (lse, lse_of_part))
        o = o * _by_rows(kept, ring.layout) + of_part.astype(jnp.float32) * _by_rows(added, ring.layout)
        lse = whole
        if ahead is not None:
            k, v = ahead
    return o.astype(q.dtype), lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(ring: _Ring, q: Any, k: Any, v: Any) -> Any:
    return _ran(ring, q, k, v)[0]


def _forward(ring: _Ring, q: Any, k: Any, v: Any) -> Any:
    o, lse = _ran(ring, q, k, v)
    return o, (q, k, v, o, lse)


def _backward(ring: _Ring, kept: Any, grad_o: Any) -> Any:
    q, k, v, o, lse = kept
    seq, _ = SEQ_AND_HEAD[ring.layout]

    def part(offset: int, *given: Any) -> Any:
        return tuple(x.astype(jnp.float32) for x in _call(ring, ATTENTION_BACKWARD, offset, ("grad_q", "grad_k", "grad_v"), *given))

    def nothing(q: Any, k: Any, v: Any, *_: Any) -> Any:
        return tuple(jnp.zeros(x.shape, jnp.float32) for x in (q, k, v))

    grad_q, grad_k, grad_v = nothing(q, k, v)
    devices = lax.psum(1, ring.axis)
    steps = _steps(ring, devices, q.shape[seq])
    for step, after in zip(steps, [*steps[1:], None]):
        places = (devices if after is None else after.places) - step.places  # behind the last step, gradients go home
        ahead = None if after is None else _moved(ring, places, k, v)
        of_q, of_k, of_v = _taken(ring, step, part, nothing, q, k, v, grad_o, o, lse)
        grad_q = grad_q + of_q
        grad_k, grad_v = _moved(ring, places, grad_k + of_k, grad_v + of_v)
        if ahead is not None:
            k, v = ahead
    return tuple(grad.astype(x.dtype) for grad, x in zip((grad_q, grad_k, grad_v), kept))


_attention.defvjp(_forward, _backward)


def ring_attention(q: Any, k: Any, v: Any, axis: str, *, causal: bool = False, window: Any = None, softcap: float = 0.0,
                   scale: Optional[float] = None, layout: str = "bshd") -> Any:  # fmt: skip
    """weft.attention() of a sequence whose rows are cut among the devices of a mesh's axis: for jax.shard_map, on each device's rows.

    q, k, v  this device's rows, neighbours in the sequence: (batch, rows, heads, head_dim), or (batch, heads, rows, head_dim) with
             layout="bhsd"; as many queries as keys, as many on every device
    axis     the name of the axis
    causal, window, softcap, scale   as for weft.attention(); positions are those in the whole sequence

    Returns this device's rows of O. It has gradients. Hops that nobody needs under a mask or a window are left out; under a causal mask,
    devices with the first rows have less to do than the others. Parts of bf16 and fp16 are rounded before they are put together in fp32.

    >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("context",))
    >>> rows = jax.sharding.PartitionSpec(None, "context")
    >>> def attend(q, k, v):
    ...     return weft.jax.ring_attention(q, k, v, "context", causal=True)
    >>> cut = jax.jit(jax.shard_map(attend, mesh=mesh, in_specs=rows, out_specs=rows))
    >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 1, 128, 4, 64))
    >>> cut(q, k, v).shape
    (1, 128, 4, 64)
    """
    problems.number_of("layout", layout, problems.LAYOUTS)
    seq, _ = SEQ_AND_HEAD[layout]
    if xla.why_no_ffi() is not None:
        raise Unsupported(f"weft.jax.ring_attention() needs jax.ffi: {xla.why_no_ffi()}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise Invalid(f"{name} has {x.ndim} dimensions, not the 4 of {layout}: {x.shape}")
    if not q.shape[seq] == k.shape[seq] == v.shape[seq]:
        raise Invalid(f"q has {q.shape[seq]} rows, k {k.shape[seq]} and v {v.shape[seq]}: a ring has as many of each on every device")
    ring = _Ring(axis, bool(causal), problems.window_of(window), problems.number_in("softcap", softcap), scale, layout)
    return _attention(ring, q, k, v)
