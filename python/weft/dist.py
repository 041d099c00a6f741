"""Attention over several processes, each with some rows of the sequence: context parallelism.

    q, k, v = (weft.dist.split(x) for x in (q, k, v))    # this rank's rows
    o = weft.dist.attention(q, k, v, causal=True)        # by all processes of mpi4py, or of torch.distributed, together
    o = weft.dist.join(o)                                # all rows

All ranks of a group call the same functions with the same options. docs/context-parallelism.md tells more.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from ctypes import byref, c_void_p
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _c, arrays, dlpack, frameworks, problems, schedules
from .arrays import Framework, View
from .errors import Invalid, Unsupported
from .problems import SEQ_AND_HEAD
from .ranks import Group, Nccl, Part, Threads, group_of, nccl_id
from .schedules import whole

__all__ = ["Attention", "Group", "Nccl", "Threads", "Traffic", "attention", "join", "nccl_id", "split"]

_KINDS = {"q": 0, "o": 0, "k": 1, "v": 1}  # WEFT_QUERY_ROWS, WEFT_KEY_ROWS
_EXTRAS = ("sinks", "alibi", "bias")
_BIAS_TYPES = {"fp32": _c.BIAS_FP32, "bool": _c.BIAS_BOOL}


class Traffic(NamedTuple):
    """What a rank sends and receives: bytes, and how many messages it sends.

    >>> weft.dist.Attention(weft.Attention(seq=64), weft.dist.Threads(1).rank(0)).expected()
    Traffic(sent=0, received=0, messages=0)
    """

    sent: int
    received: int
    messages: int


def _number(what: str, name: Optional[str]) -> int:
    """The number of a cut, an exchange or an order across ranks."""
    if name is None:
        return 0
    found = getattr(_c.library, {"cut": "weft_rank_cut_find", "exchange": "weft_exchange_find", "order": "weft_rank_order_find"}[what])(
        str(name).encode())  # fmt: skip
    if found == 0:
        raise Invalid(f"there is no {what} {name!r} across ranks: {', '.join(_names(what))}")
    return found


@functools.lru_cache(maxsize=None)
def _names(what: str) -> Tuple[str, ...]:
    names: List[str] = []
    while True:
        i = len(names) + 1
        if what == "order":
            row = _c.library.weft_rank_order_describe(i)
            name = row.contents.name if row else None
        else:
            name = (_c.library.weft_rank_cut_name if what == "cut" else _c.library.weft_exchange_name)(i)
        if not name:
            return tuple(names)
        names.append(name.decode())


class _Dist:
    """A weft_dist."""

    def __init__(self, problem: _c.Attention, ranks: _c.Ranks, group: Optional[Group], seconds: float, schedule: Optional[_c.Schedule],
                 device: Tuple[int, int] = (_c.CPU, 0)):  # fmt: skip
        self._handle, self._group = c_void_p(), group  # which it talks over as long as it is there
        transport = None if group is None else ctypes.pointer(group.transport)
        on = ctypes.pointer(_c.Device(*device)) if device[0] != _c.CPU else None
        options = _c.DistOptions(ctypes.pointer(ranks), transport, on, schedule and ctypes.pointer(schedule), seconds)
        _c.call(_c.library.weft_dist_create, byref(self._handle), byref(problem), byref(options))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and _c is not None:
            _c.library.weft_dist_destroy(self._handle)

    @property
    def ranks(self) -> _c.Ranks:
        return _c.library.weft_dist_ranks(self._handle)

    @property
    def kept(self) -> int:
        return _c.library.weft_dist_kept(self._handle)

    def chunks(self, rank: int, kind: int) -> List[range]:
        found, chunk = [], _c.Chunk()
        while _c.library.weft_dist_chunk(self._handle, rank, kind, len(found), byref(chunk)):
            found.append(range(chunk.begin, chunk.begin + chunk.count * chunk.stride, chunk.stride))
        return found

    def run(self, data: bytes, kept: int, stream: int = 0) -> None:
        assert self._group is not None
        self._group.call(_c.library.weft_dist_run, self._handle, data, byref(_c.DistRunOptions(stream or None, kept or None)))

    def expected(self, rank: int, kept: bool) -> Traffic:
        traffic = _c.DistTraffic()
        _c.call(_c.library.weft_dist_expect, self._handle, rank, int(kept), byref(traffic))
        return Traffic(traffic.sent, traffic.received, traffic.messages)

    def counted(self) -> Traffic:
        traffic = _c.DistTraffic()
        _c.library.weft_dist_counted(self._handle, byref(traffic))
        return Traffic(traffic.sent, traffic.received, traffic.messages)


def _take(x: Any, axis: int, rows: Sequence[int]) -> Any:
    """Some rows of an array, packed."""
    if frameworks.is_torch(x):
        return x.index_select(axis, x.new_tensor(rows, dtype=sys.modules["torch"].int64))
    if getattr(x, "__dlpack_device__", lambda: (dlpack.CPU, 0))()[0] == dlpack.CUDA:
        raise Unsupported("rows of arrays on a GPU are picked from torch tensors only: pick them by what weft.dist.Attention.rows() says")
    import numpy

    return x.take(numpy.asarray(rows, dtype="int64"), axis=axis)


def _whole_rows(rows: Sequence[range]) -> List[int]:
    return [row for chunk in rows for row in chunk]


class Attention:
    """An attention that the ranks of a group have together, for repeated calls: it keeps its plans and its buffers.

    problem    a weft.Attention with the sizes of all ranks together
    group      a communicator of mpi4py, a process group of torch, the rank of a weft.dist.Threads; None: all processes
    cut        who has which rows: "contiguous", "striped", "zigzag", "balanced"; None: by the mask
    exchange   how keys come by: "ring", "all-gather", "heads"; None: ring
    order      across ranks: "ring", "zigzag", "mesh-cycle"; columns: of the mesh
    sweep      backward: "forward", or "sawtooth", which begins with what the forward pass ended on; None: sawtooth
    head_ranks so many neighbouring ranks exchange heads, and keys with the others
    most_keys  of a message; 0: whole parts
    seconds    after which a silent rank is given up
    schedule   of the plans inside of a rank

    >>> ranks = weft.dist.Threads(4)
    >>> made = weft.dist.Attention(weft.Attention(seq=1000, heads=8, causal=True), ranks.rank(0), cut="zigzag")
    >>> made.rows()
    [range(0, 125), range(875, 1000)]
    """

    def __init__(self, problem: problems.Attention, group: Any = None, *, cut: Optional[str] = None, exchange: Optional[str] = None,
                 order: Optional[str] = None, sweep: Optional[str] = None, head_ranks: int = 0, columns: int = 0, most_keys: int = 0,
                 seconds: float = 60.0, schedule: schedules.ScheduleLike = None):  # fmt: skip
        problems.check(problem)
        self.problem, self.group, self._seconds = problem, group_of(group), float(seconds)
        self._schedule = None if schedule is None else schedules.to_c(schedules.of(schedule))
        sweeps = schedules._number("sweep", sweep)
        self._ranks = _c.Ranks(self.group.size, _number("cut", cut), _number("exchange", exchange), _number("order", order), sweeps,
                               whole("head_ranks", head_ranks), whole("columns", columns), whole("most_keys", most_keys))  # fmt: skip
        self._made: Dict[tuple, _Dist] = {}
        self._paper = self._on_paper(_c.ATTENTION)

    def _on_paper(self, operation: int) -> _Dist:
        problem = self.problem.to_c()
        problem.operation = operation
        return _Dist(problem, self._ranks, None, self._seconds, None)

    # ---- rows ----

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def cut(self) -> str:
        """The cut, as it was chosen; `exchange` likewise."""
        return _names("cut")[self._paper.ranks.cut - 1]

    @property
    def exchange(self) -> str:
        return _names("exchange")[self._paper.ranks.exchange - 1]

    def rows(self, of: str = "q", rank: Optional[int] = None) -> List[range]:
        """The rows of a tensor that a rank has, this one unless another is named: "q" or "o", or "k" or "v"."""
        if of not in _KINDS:
            raise Invalid(f'of {of!r} is not "q", "o", "k" or "v"')
        chosen = self.rank if rank is None else whole("rank", rank)
        if not 0 <= chosen < self.size:
            raise Invalid(f"rank {chosen} is not one of {self.size}")
        return self._paper.chunks(chosen, _KINDS[of])

    @property
    def _axis(self) -> int:
        return SEQ_AND_HEAD[self.problem.layout][0]

    def pick(self, x: Any, of: str = "q", rank: Optional[int] = None) -> Any:
        """A rank's rows of an array of all rows: a copy."""
        return _take(x, self._axis, _whole_rows(self.rows(of, rank)))

    def put(self, x: Any, part: Any, of: str = "q", rank: Optional[int] = None) -> None:
        """Writes a rank's rows into an array of all rows."""
        x[(slice(None),) * self._axis + (_whole_rows(self.rows(of, rank)),)] = part

    def join(self, part: Any, of: str = "q") -> Any:
        """An array of all rows from this rank's and those of the others, who call this together. It has no gradient."""
        return _join(self.group, part, self._axis, [_whole_rows(self.rows(of, rank)) for rank in range(self.size)], self._seconds)

    # ---- bytes ----

    def expected(self, rank: Optional[int] = None, *, backward: bool = False, kept: bool = False) -> Traffic:
        """What a rank sends and receives in a call. kept: a backward pass that begins with what the forward pass kept."""
        on_paper = self._on_paper(_c.ATTENTION_BACKWARD) if backward else self._paper
        return on_paper.expected(self.rank if rank is None else whole("rank", rank), kept)

    def counted(self, *, backward: bool = False) -> Traffic:
        """What this rank has sent and received so far, counted where it was sent."""
        operation = _c.ATTENTION_BACKWARD if backward else _c.ATTENTION
        of_each = [made.counted() for key, made in self._made.items() if key[0] == operation]
        return Traffic(*(sum(numbers) for numbers in zip(*of_each))) if of_each else Traffic(0, 0, 0)

    # ---- calls ----

    def __call__(self, q: Any, k: Any, v: Any, *, sinks: Any = None, alibi: Any = None, bias: Any = None, return_lse: bool = False) -> Any:
        """This rank's rows of O, and with return_lse of the LSE: (batch, heads, rows) float32. sinks (heads,) and alibi (heads,) or
        (batch, heads) are float32 and the same at all ranks; bias is (batch, heads, this rank's rows, all keys). torch tensors that need
        gradients get them: every rank then runs the backward pass together with the others."""
        given = tuple(x for x in (q, k, v, sinks, alibi, bias) if x is not None)
        if frameworks.is_torch(q) and frameworks.needs_grad(given):
            o, lse = _function().apply(self, q, k, v, sinks, alibi, bias)
        else:
            o, lse, _ = self._forward(q, k, v, sinks, alibi, bias, False)
        return (o, lse) if return_lse else o

    def backward(self, grad_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *, sinks: Any = None, alibi: Any = None) -> Tuple[Any, ...]:
        """The gradients of this rank's q, k and v, and with sinks theirs, which are those of all ranks' queries. o and lse are what the
        call returned; arrays are packed."""
        return self._backward(grad_o, q, k, v, o, lse, sinks, alibi, None)

    def _views(self, framework: Framework, given: Dict[str, Any]) -> Dict[str, View]:
        views = {}
        for name, x in given.items():
            fp32 = name in ("lse", "sinks", "alibi")
            view = framework.view(x, name, ("fp32",) if fp32 else (*arrays.FLOATS, "bool") if name == "bias" else arrays.FLOATS)
            if views and view.device != next(iter(views.values())).device:
                raise Invalid(f"{name} and {next(iter(views))} are on different devices")
            wanted = self._shape_of(name)
            if name == "alibi" and len(view.shape) == 1:
                wanted = wanted[-1:]
            if tuple(view.shape) != wanted:
                raise Invalid(f"{name} is {tuple(view.shape)}, and of rank {self.rank} it is {wanted}")
            if not fp32 and name != "bias" and view.dtype != self.problem.dtype:
                raise Invalid(f"{name} is {view.dtype}, and the problem {self.problem.dtype}")
            if name == "bias" and view.dtype not in (*_BIAS_TYPES, self.problem.dtype):
                raise Invalid(f"bias is {view.dtype}, not bool, fp32 or {self.problem.dtype}")
            views[name] = view
        return views

    def _shape_of(self, name: str) -> Tuple[int, ...]:
        p = self.problem
        if name in ("sinks", "alibi"):
            batches = p.batch if p.lengths is None else len(p.lengths)
            return (p.heads,) if name == "sinks" else (batches, p.heads)
        kind = name.rpartition("_")[2]
        rows = sum(map(len, self.rows("q" if kind in ("lse", "bias") else kind)))
        if name == "lse":
            return p.batch, p.heads, rows
        if name == "bias":
            return p.batch, p.heads, rows, p.seq if p.kv_seq is None else p.kv_seq
        heads = p.heads if kind in "qo" or p.kv_heads is None else p.kv_heads
        dim = p.head_dim if kind in "qk" or p.head_dim_v is None else p.head_dim_v
        return (p.batch, rows, heads, dim) if p.layout == "bshd" else (p.batch, heads, rows, dim)

    def _dist(self, operation: int, views: Dict[str, View]) -> _Dist:
        """What runs on arrays of this form, made once."""
        layout = self.problem.layout
        strides = tuple((name, views[name].shape, views[name].strides) for name in "qkvo")
        extras = tuple((name, views[name].dtype, len(views[name].shape)) for name in _EXTRAS if name in views)
        device = views["q"].device
        key = (operation, strides, extras, device)
        if key not in self._made:
            problem = self.problem.to_c()
            problem.operation, problem.extras = operation, sum(_c.EXTRAS[name] for name, *_ in extras)
            for name in "qkvo":
                setattr(problem, f"{name}_strides", problems.strides_of(views[name].shape, views[name].strides, name, layout))
            if "alibi" in views:
                problem.alibi_stride = self.problem.heads if len(views["alibi"].shape) == 2 else 0
            if "bias" in views:
                problem.bias_type = _BIAS_TYPES.get(views["bias"].dtype, _c.BIAS_DTYPE) if views["bias"].dtype != self.problem.dtype else 0
            self._made[key] = _Dist(problem, self._ranks, self.group, self._seconds, self._schedule, device)
        return self._made[key]

    def _forward(self, q: Any, k: Any, v: Any, sinks: Any, alibi: Any, bias: Any, keeps: bool) -> Tuple[Any, Any, Any]:
        given = {name: x for name, x in zip(("q", "k", "v", *_EXTRAS), (q, k, v, sinks, alibi, bias)) if x is not None}
        framework = frameworks.framework_of(tuple(given), tuple(map(type, given.values())))
        views = self._views(framework, given)
        maker = framework.maker
        o, lse = maker.empty(q, self._shape_of("o")), maker.empty(q, self._shape_of("lse"), fp32=True)
        views["o"], views["lse"] = maker.view(o, "o"), maker.view(lse, "lse")
        _check_packed(views, (*_EXTRAS, "lse"))
        made = self._dist(_c.ATTENTION, views)
        kept = maker.empty(q, (-(-made.kept // 4),), fp32=True) if keeps and made.kept else None
        made.run(_data(_c.AttentionData, _c.ATTENTION, views), 0 if kept is None else maker.pointer(kept), framework.stream(views["q"].device))
        return framework.result(o), framework.result(lse), kept

    def _backward(self, grad_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, sinks: Any, alibi: Any, kept: Any) -> Tuple[Any, ...]:
        names = ("grad_o", "q", "k", "v", "o", "lse", "sinks", "alibi")
        given = {name: x for name, x in zip(names, (grad_o, q, k, v, o, lse, sinks, alibi)) if x is not None}
        framework = frameworks.framework_of(tuple(given), tuple(map(type, given.values())))
        views = self._views(framework, given)
        _check_packed(views, names)
        maker, made = framework.maker, {}
        for name in "qkv":
            made[f"grad_{name}"] = maker.empty(q, self._shape_of(name))
        if sinks is not None:
            made["grad_sinks"] = maker.empty(q, self._shape_of("sinks"), fp32=True)
        views.update({name: maker.view(x, name) for name, x in made.items()})
        dist = self._dist(_c.ATTENTION_BACKWARD, views)
        dist.run(_data(_c.AttentionGradients, _c.ATTENTION_BACKWARD, views), maker.pointer(kept) if kept is not None and dist.kept else 0,
                 framework.stream(views["q"].device))  # fmt: skip
        return tuple(framework.result(x) for x in made.values())


def _check_packed(views: Dict[str, View], names: Sequence[str]) -> None:
    for name in names:
        step = 1
        for length, stride in zip(views[name].shape[::-1], views[name].strides[::-1]) if name in views else ():
            if length > 1 and stride != step:
                raise Invalid(f"{name} has strides {views[name].strides}: copy it to make it contiguous")
            step *= length


def _data(structure: Any, operation: int, views: Dict[str, View]) -> bytes:
    names = tuple(views)
    return _c.packer(structure, operation, names)(*(views[name].pointer for name in names))


@functools.lru_cache(maxsize=None)
def _function() -> Any:
    """The operator with a gradient: torch is imported with the first tensor that needs one."""
    import torch

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, attention: Attention, q: Any, k: Any, v: Any, sinks: Any, alibi: Any, bias: Any) -> Any:
            q, k, v = (x.contiguous() for x in (q, k, v))
            o, lse, kept = attention._forward(q, k, v, sinks, alibi, bias, True)
            ctx.attention = attention
            ctx.save_for_backward(q, k, v, o, lse, sinks, alibi, kept)
            ctx.mark_non_differentiable(lse)
            return o, lse

        @staticmethod
        def backward(ctx: Any, grad_o: Any, _grad_lse: Any) -> Any:
            if torch.is_grad_enabled():  # to create a graph
                raise Unsupported("an attention over ranks has no second derivatives")
            if any(ctx.needs_input_grad[5:]):
                raise Unsupported("the gradients of alibi and bias are not there over ranks: detach them")
            q, k, v, o, lse, sinks, alibi, kept = ctx.saved_tensors
            grads = ctx.attention._backward(grad_o.contiguous(), q, k, v, o, lse, sinks, alibi, kept)
            return (None, *grads, *(None,) * (6 - len(grads)))

    return Differentiable


# ---- simple calls ----

_MOST_ATTENTIONS = 64


def attention(q: Any, k: Any, v: Any, *, group: Any = None, causal: bool = False, offset: Optional[int] = None, scale: Optional[float] = None,
              layout: str = "bshd", window: problems.Window = None, chunk: int = 0, prefix: int = 0, softcap: float = 0.0,
              lengths: Optional[Sequence[int]] = None, kv_lengths: Optional[Sequence[int]] = None, seq: Optional[int] = None,
              kv_seq: Optional[int] = None, sinks: Any = None, alibi: Any = None, bias: Any = None, return_lse: bool = False,
              cut: str = "zigzag", exchange: Optional[str] = None, order: Optional[str] = None, sweep: Optional[str] = None,
              head_ranks: int = 0, seconds: float = 60.0, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """O = softmax(scale Q K^T) V of a sequence whose rows are shared out among ranks; all call this together.

    q, k, v      this rank's rows: (batch, rows, heads, head_dim), or (batch, heads, rows, head_dim) with layout="bhsd": those that
                 weft.dist.split() gives with the same cut
    group        a communicator of mpi4py, a process group of torch, the rank of a weft.dist.Threads; None: all processes
    seq, kv_seq  rows of all ranks together; None: every rank has as many as this one
    causal, offset, scale, window, chunk, prefix, softcap, lengths, kv_lengths   as for weft.attention(); of all ranks together
    sinks, alibi, bias, return_lse   as for weft.dist.Attention
    cut, exchange, order, sweep, head_ranks, seconds, schedule   as for weft.dist.Attention

    Returns this rank's rows of O. Its plans and buffers are kept for the next call with the same sizes.

    >>> q, k, v = (rng.standard_normal((1, 128, 4, 64), dtype=np.float32) for _ in range(3))
    >>> group = weft.dist.Threads(1).rank(0)  # None: all processes
    >>> weft.dist.attention(q, k, v, group=group, causal=True).shape
    (1, 128, 4, 64)
    """
    ranks = group_of(group, q)
    framework = frameworks.framework_of(("q", "k", "v"), (type(q), type(k), type(v)))
    views = [framework.view(x, name) for name, x in (("q", q), ("k", k), ("v", v))]
    for name, view in zip("qkv", views):
        if len(view.shape) != 4:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not the 4 of {layout}: {tuple(view.shape)}")
    problems.number_of("layout", layout, problems.LAYOUTS)
    at, head = SEQ_AND_HEAD[layout]
    shapes = [view.shape for view in views]
    problem = problems.Attention(
        seq=shapes[0][at] * ranks.size if seq is None else seq, kv_seq=shapes[1][at] * ranks.size if kv_seq is None else kv_seq,
        head_dim=shapes[0][3], batch=shapes[0][0], heads=shapes[0][head], kv_heads=shapes[1][head], dtype=views[0].dtype,
        causal=bool(causal), offset=offset, scale=scale, layout=layout, window=problems.window_of(window), chunk=chunk, prefix=prefix,
        softcap=softcap, head_dim_v=shapes[2][3], lengths=None if lengths is None else tuple(lengths),
        kv_lengths=None if kv_lengths is None else tuple(kv_lengths),
    )  # fmt: skip
    made = _attention_of(ranks, problem, cut, exchange, order, sweep, head_ranks, seconds, None if schedule is None else schedules.of(schedule))
    return made(q, k, v, sinks=sinks, alibi=alibi, bias=bias, return_lse=return_lse)


@functools.lru_cache(maxsize=_MOST_ATTENTIONS)
def _attention_of(ranks: Group, problem: problems.Attention, cut: str, exchange: Optional[str], order: Optional[str], sweep: Optional[str],
                  head_ranks: int, seconds: float, schedule: Optional[schedules.Schedule]) -> Attention:  # fmt: skip
    return Attention(problem, ranks, cut=cut, exchange=exchange, order=order, sweep=sweep, head_ranks=head_ranks, seconds=seconds,
                     schedule=schedule)  # fmt: skip


def _rows_of(ranks: Group, seq: int, cut: str) -> List[List[int]]:
    """The rows of each rank."""
    if cut not in ("contiguous", "striped", "zigzag"):
        raise Invalid(f'cut {cut!r} is not "contiguous", "striped" or "zigzag"; a balanced one depends on the mask: see weft.dist.Attention')
    made = _Dist(problems.Attention(seq=seq, head_dim=8).to_c(), _c.Ranks(ranks.size, _number("cut", cut)), None, 60.0, None)
    return [_whole_rows(made.chunks(rank, 0)) for rank in range(ranks.size)]


def split(x: Any, group: Any = None, *, cut: str = "zigzag", axis: int = 1) -> Any:
    """This rank's rows of an array that has all rows along an axis: a copy. torch differentiates it.

    >>> x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    >>> weft.dist.split(x, weft.dist.Threads(2).rank(0)).reshape(-1)  # zigzag: the first and the last quarter
    array([0., 1., 6., 7.], dtype=float32)
    """
    ranks = group_of(group, x)
    return _take(x, axis, _rows_of(ranks, x.shape[axis], cut)[ranks.rank])


def join(part: Any, group: Any = None, *, cut: str = "zigzag", axis: int = 1, seq: Optional[int] = None, seconds: float = 60.0) -> Any:
    """An array of all rows along an axis from those of the ranks, who call this together; seq: how many; None: as many of each rank. It
    has no gradient.

    >>> x, group = np.ones((1, 8, 1, 1), np.float32), weft.dist.Threads(1).rank(0)
    >>> weft.dist.join(weft.dist.split(x, group), group).shape
    (1, 8, 1, 1)
    """
    ranks = group_of(group, part)
    return _join(ranks, part, axis, _rows_of(ranks, part.shape[axis] * ranks.size if seq is None else seq, cut), seconds)


def _join(ranks: Group, part: Any, axis: int, rows: Sequence[Sequence[int]], seconds: float) -> Any:
    if frameworks.needs_grad((part,)):
        raise Unsupported("weft.dist.join() has no gradient: use torch.no_grad(), or detach")
    if frameworks.is_torch(part) and part.is_cuda:
        return _join(ranks, part.cpu(), axis, rows, seconds).to(part.device)
    framework = frameworks.framework_of(("part",), (type(part),))
    maker, shape = framework.maker, list(part.shape)
    if shape[axis] != len(rows[ranks.rank]):
        raise Invalid(f"part has {shape[axis]} rows, and rank {ranks.rank} has {len(rows[ranks.rank])}")
    if framework.view(part, "part", tuple(arrays.BYTES)).device[0] != _c.CPU:
        raise Unsupported(f"weft.dist.join() of arrays of {framework.name} on a GPU is not there: give torch tensors, or copies on the host")
    parts = [maker.empty(part, (*shape[:axis], len(of_rank), *shape[axis + 1 :])) for of_rank in rows]
    parts[ranks.rank][...] = part
    views = [maker.view(x, "part", tuple(arrays.BYTES)) for x in parts]
    sizes = [math.prod(view.shape) * arrays.BYTES[view.dtype] for view in views]
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    ranks.trade([Part(views[ranks.rank].pointer, sizes[ranks.rank], rank) for rank in others],
                [Part(views[rank].pointer, sizes[rank], rank) for rank in others], seconds)  # fmt: skip
    whole_array = maker.empty(part, (*shape[:axis], sum(map(len, rows)), *shape[axis + 1 :]))
    for of_rank, x in zip(rows, parts):
        whole_array[(slice(None),) * axis + (list(of_rank),)] = x
    return framework.result(whole_array)
