# SPDX-License-Identifier: Apache-2.0
"""Attention and matrix products on arrays of any framework."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import _c, arrays, caches, features, frameworks, operations, plans, problems, schedules
from ._c import CUDA
from .arrays import FLOATS, Framework, View
from .errors import Invalid, Unsupported, listed
from .operations import GemmOptions, Operation, Output, attention_options


class _Ready(NamedTuple):
    """What a run on arrays of a known form needs."""

    plan: plans.Plan
    pack: Callable[..., bytes]  # of pointers to inputs and outputs; with features, to their arrays, and dropout's seed; _WORKSPACE's
    outputs: Tuple[Output, ...]
    device: Tuple[int, int]
    size: int  # bytes of an element
    maker: Framework  # of the outputs
    plain: bool  # whether the outputs are the results as they are
    workspace: int  # in fp32 numbers


_ready: Dict[tuple, _Ready] = {}  # by the forms of the arrays and the options; the newest last
_MOST_READY = 512
_WORKSPACE = (("workspace",), ("workspace", "prepared"))  # what a run has where there is a workspace; of an attention both
_remembering = threading.Lock()


def _remember(key: Optional[tuple], ready: _Ready) -> None:
    if key is not None:
        with _remembering:
            _ready[key] = ready
            if len(_ready) > _MOST_READY:
                del _ready[next(iter(_ready))]


@functools.lru_cache(maxsize=512)
def _planned(operation: Operation, names: Tuple[str, ...], forms: Tuple[tuple, ...], options: Any,
             schedule: Optional[schedules.Schedule], kernel: Optional[str]) -> plans.Plan:  # fmt: skip
    """The plan for views of these names and forms (their shape, strides, dtype and device), kept for the next call."""
    problem = operation.problem_of({name: View(0, *form, None) for name, form in zip(names, forms)}, options)
    return plans.Plan(problem, schedules.of(schedule), None, forms[0][3], kernel, brings_workspace=True)


def _views(operation: Operation, framework: Framework, given: Tuple[Any, ...]) -> Dict[str, View]:
    views = {name: framework.view(x, name, ("int32",) if name in operation.int32 else FLOATS) for name, x in zip(operation.inputs, given)}
    arrays.alike(views, operation.fp32, operation.int32)
    return views


_DTYPES = {**features.ARRAYS, **caches.ARRAYS, "out": FLOATS}


def _views_beside(framework: Framework, given: Tuple[Any, ...], asked: features.Asked) -> Dict[str, View]:
    """The views of what an attention has beside Q, K and V, which are the first of `given`; of `out`, too."""
    beside = {**asked.arrays, **asked.cache, **({} if asked.out is None else {"out": asked.out})}
    frameworks.framework_of(("q", *beside), (type(given[0]), *map(type, beside.values())))
    views = {name: framework.view(x, name, _DTYPES[name]) for name, x in beside.items()}
    first = framework.view(given[0], "q")
    for name, view in views.items():
        if view.device != first.device:
            raise Invalid(f"{name} and q are on different devices")
    if "k_new" in views:
        for name, x in zip("kv", given[1:]):
            caches.check_writable(framework, name, x, framework.view(x, name))
    if "out" in views:
        caches.check_writable(framework, "out", asked.out, views["out"])
        if views["out"].dtype not in (first.dtype, "fp32"):
            raise Invalid(f"out is {views['out'].dtype} and q is {first.dtype}: give one of that dtype or of fp32")
    return views


def _view_of_out(framework: Framework, name: str, first: Any, out: Any) -> View:
    """The view of an `out` of any dtype; `name` is that of the first input."""
    frameworks.framework_of((name, "out"), (type(first), type(out)))
    view = framework.view(out, "out")
    caches.check_writable(framework, "out", out, view)
    if view.device != framework.view(first, name).device:
        raise Invalid(f"out and {name} are on different devices")
    return view


def _inputs(beside: Mapping[str, View]) -> List[str]:
    return [name for name in beside if name != "out"]


def _word(name: str) -> str:
    """What the library calls an array."""
    return caches.WORDS.get(name, name)


def _make_ready(operation: Operation, framework: Framework, given: Tuple[Any, ...], views: Dict[str, View], options: Any,
                schedule: Optional[schedules.Schedule], kernel: Optional[str], wanted: Tuple[str, ...],
                beside: Tuple[str, ...], out: Any) -> Tuple[_Ready, List[Any]]:  # fmt: skip
    """What arrays of a form that is new need, and the outputs that had to be allocated for it: only then their strides are known. The
    first output is `out` where that is not None."""
    outputs = dict(zip(operation.outputs, operation.outputs_of(views, options)))
    required = operation.outputs[: operation.required_outputs]
    if out is not None and tuple(out.shape) != outputs[required[0]].shape:
        raise Invalid(f"out is {tuple(out.shape)}, and the result is {outputs[required[0]].shape}")
    made = {name: outputs[name].allocate(framework, given) for name in (required if out is None else ())}
    made = made or {required[0]: out}
    formed = {**views, **{name: framework.maker.view(x, name) for name, x in made.items()}}
    plan = _planned(operation, tuple(formed), tuple(view[1:5] for view in formed.values()), options, schedule, kernel)
    plain = framework.maker is framework and all(output.row is None for output in outputs.values())
    first = views[operation.inputs[0]]
    workspace = -(-plan.workspace // 4)
    pack = plan.packer((*operation.inputs, *wanted, *beside, *(_WORKSPACE[operation is operations.ATTENTION] if workspace else ())))
    return _Ready(plan, pack, tuple(outputs[name] for name in wanted), first.device, arrays.BYTES[first.dtype], framework.maker,
                  plain, workspace), list(made.values())  # fmt: skip


def run(operation: Operation, given: Tuple[Any, ...], options: Any, schedule: schedules.ScheduleLike, kernel: Optional[str],
        wanted: Tuple[str, ...], asked: Optional[features.Asked] = None, out: Any = None) -> List[Any]:  # fmt: skip
    """The outputs of an operation that are wanted, on arrays that hold values; those that are not optional come first. The first is
    `out` where that is given, or where what is asked for has it."""
    framework = frameworks.framework_of(operation.inputs, tuple(map(type, given)))
    chosen = None if schedule is None else schedules.of(schedule)
    forms = tuple(map(framework.form, given))
    key = None if None in forms else (operation, framework, forms, options, chosen, kernel, wanted)
    beside: Dict[str, View] = {}
    out = out if asked is None else asked.out
    if framework.maker is not framework and (out is not None or (asked is not None and "k_new" in asked.cache)):
        raise Unsupported(f"arrays of {framework.name} cannot be written to: there is no append and no out for them")
    if asked is None and out is not None:
        beside = {"out": _view_of_out(framework, operation.inputs[0], given[0], out)}
        key = key and (*key, beside["out"][1:5])
    if asked is not None:
        beside = _views_beside(framework, given, asked)
        misaligned = operation is operations.ATTENTION and "bias" in beside and beside["bias"].pointer % 16
        if kernel is None and misaligned and beside["bias"].device[0] == CUDA:
            kernel = "study"  # on a GPU, other forward kernels have a bias copied from multiples of 16 bytes
        key = key and (*key, kernel, tuple((name, view[1:5]) for name, view in beside.items()))
    ready = None if key is None else _ready.get(key)
    made: List[Any] = []
    if ready is not None:
        pointers, bits = list(map(framework.pointer, given)), 0
        for pointer in pointers:
            bits |= pointer
        if bits % ready.size:
            ready = None  # not aligned, which view() refuses
    if ready is None:
        views = _views(operation, framework, given)
        pointers = [view.pointer for view in views.values()]
        views.update(beside)
        views.pop("out", None)
        ready, made = _make_ready(operation, framework, given, views, options, chosen, kernel, wanted,
                                  () if asked is None else (*map(_word, _inputs(beside)), "dropout_seed"), out)  # fmt: skip
        _remember(key, ready)
    plan, pack, outputs, device, _, maker, plain, workspace = ready
    if out is not None and not made:
        made.append(out)
    for output in outputs[len(made) :]:
        made.append(output.allocate(framework, given))
    pointers += map(maker.pointer, made)
    if asked is not None:
        pointers += (*(beside[name].pointer for name in _inputs(beside)), asked.seed)
    stream, capturing, prepared = 0, False, None if asked is None else asked.prepared
    if device[0] == CUDA:
        stream, capturing = framework.stream(device), framework.capturing(device)
        if capturing:
            plans.pin(plan)
    if workspace:  # the framework's, whose allocator knows the stream, and captures

        def make_room() -> Any:
            return maker.empty(given[0], (workspace,), fp32=True)

        if prepared is None:
            room, is_new = make_room(), False
        else:
            names = [name for name in (*features.LENGTHS, "new_starts") if name in beside]
            where = (stream, capturing, *((name, beside[name].pointer) for name in names))
            held = {**asked.arrays, **asked.cache}
            room, is_new = prepared.take(plan, [held[name] for name in names], where, make_room)
        pointers.append(maker.pointer(room))
        if operation is operations.ATTENTION:
            pointers.append(prepared is not None)
        if is_new:
            plan.prepare(pack(*pointers), stream)
    plan.enqueue(pack(*pointers), stream)
    return made if plain else [framework.result(output.cut(x)) for output, x in zip(outputs, made)]


# attention_options() takes as long as finding a plan does. Numbers of other types are not the same key: some are refused.
_known_options = functools.lru_cache(maxsize=512, typed=True)(attention_options)


def attention_forward(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float], offset: Optional[int], layout: str,
                      return_lse: bool, schedule: schedules.ScheduleLike, kernel: Optional[str] = None,
                      asked: Optional[features.Asked] = None) -> Tuple[Any, Any, Any]:  # fmt: skip
    """(o, lse, max) of arrays that hold values; lse and max are None unless asked for. `kernel` is as for weft.plan()."""
    if asked is None:
        try:
            options = _known_options(causal, scale, offset, layout)
        except TypeError:  # a number that is no key, such as an array of one
            options = attention_options(causal, scale, offset, layout)
        made = run(operations.ATTENTION, (q, k, v), options, schedule, kernel, ("o", "lse") if return_lse else ("o",))
        return made[0], made[1] if return_lse else None, None
    wanted = ("o", *(("lse",) if return_lse else ()), *(("max",) if asked.features.max else ()))
    options = attention_options(causal, scale, offset, layout, asked.features)
    found = dict(zip(wanted, run(operations.ATTENTION, (q, k, v), options, schedule, kernel, wanted, asked)))
    return found["o"], found.get("lse"), found.get("max")


def attention_backward(q: Any, k: Any, v: Any, grad_o: Any, o: Any, lse: Any, causal: bool, scale: Optional[float],
                       offset: Optional[int], layout: str, asked: Optional[features.Asked] = None,
                       wants_bias: bool = False) -> List[Any]:  # fmt: skip
    """The gradients of q, k and v, each laid out like it, from the gradient of o, which is laid out like o; with sinks also theirs.

    Last, where it is wanted, that of a bias before it is broadcast: (batch, heads, seq, kv_seq) float32.
    """
    options = attention_options(causal, scale, offset, layout, asked and asked.features)
    has_sinks = asked is not None and "sinks" in asked.arrays
    wanted = operations.ATTENTION_BACKWARD.outputs[: 4 if has_sinks else 3] + (("grad_bias",) if wants_bias else ())
    return run(operations.ATTENTION_BACKWARD, (q, k, v, grad_o, o, lse), options, None, None, wanted, asked)


def matmul_forward(a: Any, b: Any, schedule: schedules.ScheduleLike, arrays: Optional[Mapping[str, Any]] = None,
                   options: Optional[GemmOptions] = None) -> Any:  # fmt: skip
    """A B of arrays that hold values, or (C, sums of its columns); with what an epilogue has: arrays by operations.GEMM_ARRAYS."""
    if not arrays and options is None:
        return run(operations.GEMM, (a, b), None, schedule, None, ("c",))[0]
    given = {name: arrays[name] for name in operations.GEMM_ARRAYS if name in (arrays or {})}
    framework = frameworks.framework_of(("a", *given), (type(a), *map(type, given.values())))
    how = options or operations.PLAIN
    fp32_bias = "bias" in given and framework.view(given["bias"], "bias").dtype == "fp32"
    operation = operations.gemm_with(given, fp32_bias, how)
    wanted = ("c", "column_sums") if how.column_sums else ("c",)
    made = run(operation, (a, b, *given.values()), how, schedule, None, wanted)
    return tuple(made) if how.column_sums else made[0]


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None, offset: Optional[int] = None,
              layout: str = "bshd", return_lse: bool = False, schedule: schedules.ScheduleLike = None, **options: Any) -> Any:  # fmt: skip
    """O = softmax(scale Q K^T) V for each batch and head, on the device that the arrays are on.

    q            (batch, seq, heads, head_dim), or (batch, heads, seq, head_dim) with layout="bhsd"
    k            (batch, kv_seq, kv_heads, head_dim) likewise; kv_heads divides heads
    v            as k, but for its head_dim, which is that of the result
    qv           queries for the values, shaped like q but for their head_dim, which is that of v: scores are scale (Q K^T + QV V^T), as
                 in multi-head latent attention with absorbed weights. Of a cache of latent vectors, v is the first part and k the
                 rotated rest: slices of one array. Head dims are at most 576 together. There is no gradient
    scale        None: 1 / sqrt(head_dim), with qv 1 / sqrt(head_dim of q + head_dim of v)
    return_lse   also return (batch, heads, seq) float32: the natural logarithm of each query's sum of exponentials
    return_max   also return (batch, heads, seq) float32: each query's largest score
    schedule     a weft.Schedule, a dict of its fields, or None: chosen

    What queries see. Query i stands at position i + offset among the keys; offset None: the last query stands at the last key.
    causal       no key behind its own position (with offset=0 this is torch's is_causal)
    window       (left, right): at most so many keys before and behind its position; -1: all
    chunk        of these, those whose position // chunk is its own
    prefix       the first so many keys, too
    block_mask   of these, those that a weft.BlockMask shows, or torch's BlockMask (torch.nn.attention.flex_attention.create_block_mask)
    tree         the keys of the last queries as a tree of tokens, as speculative decoding has them: (seq,) or (batch, seq) whole numbers,
                 the parent of each token, below 0 that of a root, or bools (seq, seq) or (batch, seq, seq); at most 64 queries

    What becomes of scores, in this order.
    softcap      softcap * tanh(score / softcap)
    alibi        (heads,) or (batch, heads) float32: slope * distance of query and key is taken off
    bias         added, or, of bools, False hides the key; it broadcasts to (batch, heads, seq, kv_seq)
    sinks        (heads,) float32: a score for each head that takes weight and has no value
    dropout      the probability that a weight counts as 0; `seed` and a weight's place decide which do

    Lengths, as int32 arrays beside the others, read when the call runs; or as lists, known when the plan is made.
    lengths, kv_lengths   a packed batch: the lengths of sequences that lie one behind the other, q (total, heads, head_dim); lists
    q_starts, kv_starts   the same: where sequences begin, and the end of the last; kv_starts None: as q_starts
    q_most                of a packed batch: the most queries of a sequence, where that is known. Few of them, as in speculative decoding,
                          take a faster kernel on a GPU
    q_used, kv_used       of each sequence, the queries and keys that count, from its first on
    kv_pad                of each sequence, the keys at its beginning that do not count

    A KV cache: keys and values of sequences that grow. What is not given is as above; docs/serving.md has examples.
    block_table  (sequences, pages of each) int32: k and v are pages (pages, page, kv_heads, head_dim), and a sequence's keys are those
                 of its pages, one behind the other, of which kv_used count; its queries may be packed (q_starts, lengths)
    append       (k_new, v_new), each (batch, new, kv_heads, head_dim): written to k and v behind the kv_used keys of each sequence,
                 before queries see anything; in a packed batch (new, kv_heads, head_dim), one sequence's behind the other's
    new_starts   of a packed batch: where each sequence's new keys begin, and the end of the last; None: as q_starts
    rotary       (cos, sin), each (positions, rotary_dim / 2): rotates queries and new keys by their positions, which begin at kv_used
    rotary_interleaved   pairs are neighbours (GPT-J) rather than rotary_dim / 2 apart (GPT-NeoX)
    positions    of each sequence, that of its first new key, where it is not kv_used
    out          the array that the result is written to, shaped like it, of q's dtype or float32
    prepared     a weft.Prepared that calls with the same lengths share, as the layers of a model do: a GPU then deals out work once. Of
                 torch, calls with a cache or `out`

    Arrays are fp32, fp16 or bf16, all of one framework, dtype and device; any strides, the last one 1; nothing is copied. The
    result is an array of that framework, shaped like q. On a GPU the work is put on the framework's current stream. A query
    that sees no key gets zeros and an LSE of -inf. torch tensors that need gradients get them; JAX arrays may be traced.

    >>> q, k, v = (rng.standard_normal((1, 128, 4, 64), dtype=np.float32) for _ in range(3))
    >>> o, lse = weft.attention(q, k, v, causal=True, window=(63, 0), return_lse=True)
    >>> o.shape, lse.shape
    ((1, 128, 4, 64), (1, 4, 128))
    """
    # A keyword with a default takes as long as finding a plan's key, so those of `options` have none.
    asked = features.asked(q, **options) if options else None
    operators = frameworks.operators((q, k, v) if asked is None else (q, k, v, *asked.arrays.values(), *asked.cache.values()))
    if operators is not None:
        return operators.attention(q, k, v, causal=causal, scale=scale, offset=offset, layout=layout, return_lse=return_lse,
                                   schedule=schedule, asked=asked)  # fmt: skip
    o, lse, most = attention_forward(q, k, v, causal, scale, offset, layout, return_lse, schedule, None, asked)
    return o if lse is most is None else results(o, lse, most)


def _signature() -> inspect.Signature:
    """attention()'s, for help(), with the names of its options."""
    plain = [x for x in inspect.signature(attention).parameters.values() if x.kind is not x.VAR_KEYWORD]
    others = [x for x in inspect.signature(features.asked).parameters.values() if x.kind is x.KEYWORD_ONLY]
    return inspect.Signature([*plain, *others], return_annotation=Any)


attention.__signature__ = _signature()  # type: ignore[attr-defined]


def results(o: Any, lse: Any, most: Any) -> Any:
    """What weft.attention() returns: o, or a tuple of it and those of the others that are there."""
    if most is None:
        return o if lse is None else (o, lse)
    return (o, most) if lse is None else (o, lse, most)


def _gemm_options(activation: Optional[str], gate: Optional[str], scale: Any, fp32: bool, column_sums: bool,
                  precision: str) -> Optional[GemmOptions]:  # fmt: skip
    """What weft.matmul() was asked for beside arrays; None: nothing."""
    for name, value in (("activation", activation), ("gate", gate)):
        if value is not None and value not in _c.ACTIVATIONS:
            raise Invalid(f"{name} is {value!r}, not {listed([repr(x) for x in _c.ACTIVATIONS])}")
    if activation is not None and gate is not None:
        raise Invalid("activation and gate are both given: a gate is passed through its own activation")
    problems.number_of("precision", precision, problems.PRECISIONS)
    alpha = float(scale) if isinstance(scale, (int, float)) else 1.0
    how = GemmOptions(gate or activation or "identity", gate is not None, alpha, bool(fp32), bool(column_sums), precision)
    return None if how == operations.PLAIN else how


def matmul(a: Any, b: Any, *, bias: Any = None, activation: Optional[str] = None, gate: Optional[str] = None, residual: Any = None,
           row_scale: Any = None, column_scale: Any = None, scale: Any = None, column_sums: bool = False, fp32: bool = False,
           precision: str = "fp32", transpose_b: bool = False, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """C = A B, accumulated in fp32, and what becomes of it before it is stored, in one kernel.

    a            (m, k), row-major or column-major, with any leading dimension; a transposed view is taken as it is
    b            (k, n) likewise
    precision    what a GPU makes of arrays of fp32. "fp32": six products of bf16, off by up to 2^-24 of each product of elements;
                 "bf16x3": three, off by up to 2^-15; "tf32": one of elements of 11 bits, off by up to 2^-9
    transpose_b  b is (n, k), and counts transposed: JAX arrays have no transposed views, and b.T would be a copy
    schedule     a weft.Schedule, a dict of its fields, or None: chosen

    An epilogue, in this order, in fp32:
    scale         a number, or an array of one, fp32; row_scale (m,) and column_scale (n,), fp32: A B is multiplied by them
    bias          (n,), fp32 or of A's dtype: added to each row
    activation    "relu", "gelu" (by erf), "gelu_tanh" or "silu"
    gate          the same, gated: C = activation(the first half of the columns) * the second half, and is (m, n / 2): SwiGLU is "silu",
                  GeGLU "gelu", ReGLU "relu"
    residual      shaped like C, of its dtype, its last dimension contiguous: added
    column_sums   also return (n,) float32: the sums of C's columns before it is rounded, the same bits each time
    fp32          C is float32, whatever A and B are

    Returns C (m, n), row-major, an array of the caller's framework and dtype; packed, but for a GPU where its columns are not a multiple
    of 8: there its rows lie apart; of JAX packed. On a GPU the work is put on the framework's current stream. torch and JAX differentiate it,
    but for scales; JAX arrays may be traced.

    >>> a, b = (rng.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    >>> c = weft.matmul(a, b, bias=np.ones(64, np.float32), activation="relu")
    >>> np.allclose(c, np.maximum(a @ b + 1, 0), atol=1e-4)
    True
    """
    options = _gemm_options(activation, gate, scale, fp32, column_sums, precision)
    given = {"bias": bias, "residual": residual, "row_scale": row_scale, "column_scale": column_scale}
    given["scale"] = None if isinstance(scale, (int, float)) else scale
    beside = {name: x for name, x in given.items() if x is not None}
    operators = frameworks.operators((a, b, *beside.values()))
    if operators is not None:
        return operators.matmul(a, b, transpose_b, schedule, beside, options)
    return matmul_forward(a, arrays.transposed(b) if transpose_b else b, schedule, beside, options)


def linear(x: Any, weight: Any, bias: Any = None, activation: Optional[str] = None, **options: Any) -> Any:
    """A linear layer: activation(x W^T + bias), with x (..., k) and weight (n, k), as torch.nn.functional.linear has them.

    Other options are those of weft.matmul(): gate, residual, scales, precision. The leading dimensions of x, and of a residual, are those of the
    result. torch and JAX differentiate it as they do weft.matmul().

    >>> x, weight = rng.standard_normal((2, 10, 64), dtype=np.float32), rng.standard_normal((256, 64), dtype=np.float32)
    >>> weft.linear(x, weight, gate="silu").shape
    (2, 10, 128)
    """
    if len(weight.shape) != 2:
        raise Invalid(f"weight has {len(weight.shape)} dimensions, not 2: {tuple(weight.shape)}")
    if len(x.shape) < 1:
        raise Invalid("x has no dimensions")
    lead = tuple(x.shape[:-1])
    if options.get("residual") is not None:
        residual = options["residual"]
        options["residual"] = residual.reshape((-1, residual.shape[-1]))
    if options.get("column_sums"):
        raise Invalid("column_sums are weft.matmul()'s")
    c = matmul(x.reshape((-1, x.shape[-1])), weight, bias=bias, activation=activation, transpose_b=True, **options)
    return c.reshape((*lead, c.shape[-1]))


def combine(outputs: Sequence[Any], lses: Sequence[Any], *, layout: str = "bshd", return_lse: bool = False, out: Any = None,
            into: Optional[Tuple[Any, Any]] = None) -> Any:  # fmt: skip
    """One attention out of parts of it, each of the same queries over other keys: context in parts, or a shared prefix and what follows.

    outputs     of each part, up to 16, what weft.attention() gave: (batch, seq, heads, head_dim), or packed (total, heads, head_dim), or
                (batch, heads, seq, head_dim) with layout="bhsd"; laid out alike
    lses        of each part, (batch, heads, seq) or packed (heads, total) float32: the lse that it gave with return_lse
    return_lse  also return the LSE of the whole, shaped like theirs
    out         the array that the result is written to, shaped like it, of any of the dtypes
    into        (o, lse) of a running result, which both calls before and this one write to: it counts as the first part. o is of any of
                the dtypes, lse is float32. They may be some rows of longer arrays: o[:, 3:7] and lse[..., 3:7]. Returned as they are

    The result is sum(w_i outputs[i]) with w_i = exp(lses[i]) / sum(exp(lses[j])). A part with an LSE of -inf counts nothing, whatever
    its output holds; where all have, the result is 0 and its LSE -inf. Parts are added in their order: bits are the same each time. On a
    GPU the work is put on the framework's current stream. There is no gradient.

    >>> q, k, v = (rng.standard_normal((1, 128, 4, 64), dtype=np.float32) for _ in range(3))
    >>> parts = [weft.attention(q, k[:, keys], v[:, keys], return_lse=True) for keys in (slice(0, 100), slice(100, 128))]
    >>> np.allclose(weft.combine(*zip(*parts)), weft.attention(q, k, v), atol=1e-5)
    True
    """
    parts, of_parts = tuple(outputs), tuple(lses)
    if not parts or len(parts) != len(of_parts):
        raise Invalid(f"there are {len(parts)} outputs and {len(of_parts)} lses: one of each for every part, and at least one")
    if frameworks.needs_grad((*parts, *of_parts, *(into or ()))):
        raise Unsupported("weft.combine() has no gradient")
    if into is not None:
        if out is not None or return_lse:
            raise Invalid("into says where the result and its lse go: leave out and return_lse out")
        o, lse = into
        framework = frameworks.framework_of(("lses[0]", "lse"), (type(of_parts[0]), type(lse)))
        caches.check_writable(framework, "lse", lse, framework.view(lse, "lse"))
        run(operations.combine_of(len(parts), True), (*parts, *of_parts, lse), layout, None, None, ("o",), None, o)
        return into
    made = run(operations.combine_of(len(parts)), parts + of_parts, layout, None, None, ("o", "lse") if return_lse else ("o",), None, out)
    return tuple(made) if return_lse else made[0]


def release_memory() -> int:
    """Gives back what the CPU keeps for the next call, up to 128 MiB, and returns how many bytes that were. For any thread, at any
    time.

    >>> weft.release_memory() >= 0
    True
    """
    return _c.library.weft_release_memory()
