# SPDX-License-Identifier: Apache-2.0
"""Attention over several processes, each with some rows of the sequence: context parallelism; and matrix products, weft.dist.matmul().

    q, k, v = (weft.dist.split(x) for x in (q, k, v))    # this rank's rows
    o = weft.dist.attention(q, k, v, causal=True)        # by all processes of mpi4py, or of torch.distributed, together
    o = weft.dist.join(o)                                # all rows

All ranks of a group call the same functions with the same options. docs/context-parallelism.md tells more.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _c, arrays, frameworks, problems, schedules
from .arrays import Framework, View
from .errors import Invalid, Unsupported
from .problems import SEQ_AND_HEAD
from .ranks import Group, Nccl, Threads, group_of, nccl_id
from .shared_products import Matmul, matmul
from .sharing import Dist, Shared, Traffic, counted, join_rows, number, take, whole_rows

__all__ = ["Attention", "Group", "Matmul", "Nccl", "Threads", "Traffic", "attention", "join", "matmul", "nccl_id", "split"]

_KINDS = {"q": 0, "o": 0, "k": 1, "v": 1}  # WEFT_QUERY_ROWS, WEFT_KEY_ROWS
_EXTRAS = ("sinks", "alibi", "bias")
_BIAS_TYPES = {"fp32": _c.BIAS_FP32, "bool": _c.BIAS_BOOL}


class Attention(Shared):
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
        super().__init__(problem, group, seconds, schedule, cut, exchange, order, sweep, head_ranks, columns, most_keys=most_keys)

    # ---- rows ----

    def rows(self, of: str = "q", rank: Optional[int] = None) -> List[range]:
        """The rows of a tensor that a rank has, this one unless another is named: "q" or "o", or "k" or "v"."""
        if of not in _KINDS:
            raise Invalid(f'of {of!r} is not "q", "o", "k" or "v"')
        return self._paper.chunks(self._rank_of(rank), _KINDS[of])

    @property
    def _axis(self) -> int:
        return SEQ_AND_HEAD[self.problem.layout][0]

    def pick(self, x: Any, of: str = "q", rank: Optional[int] = None) -> Any:
        """A rank's rows of an array of all rows: a copy."""
        return take(x, self._axis, whole_rows(self.rows(of, rank)))

    def put(self, x: Any, part: Any, of: str = "q", rank: Optional[int] = None) -> None:
        """Writes a rank's rows into an array of all rows."""
        x[(slice(None),) * self._axis + (whole_rows(self.rows(of, rank)),)] = part

    def join(self, part: Any, of: str = "q") -> Any:
        """An array of all rows from this rank's and those of the others, who call this together. It has no gradient."""
        return join_rows(self.group, part, self._axis, [whole_rows(self.rows(of, rank)) for rank in range(self.size)], self._seconds)

    # ---- bytes ----

    def expected(self, rank: Optional[int] = None, *, backward: bool = False, kept: bool = False) -> Traffic:
        """What a rank sends and receives in a call. kept: a backward pass that begins with what the forward pass kept."""
        on_paper = self._on_paper(_c.ATTENTION_BACKWARD) if backward else self._paper
        return on_paper.expected(self._rank_of(rank), kept)

    def counted(self, *, backward: bool = False) -> Traffic:
        """What this rank has sent and received so far, counted where it was sent."""
        operation = _c.ATTENTION_BACKWARD if backward else _c.ATTENTION
        return counted(made for key, made in self._made.items() if key[0] == operation)

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

    def _dist(self, operation: int, views: Dict[str, View]) -> Dist:
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
            self._made[key] = Dist(problem, self._ranks, self.group, self._seconds, self._schedule, device)
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
    made = Dist(problems.Attention(seq=seq, head_dim=8).to_c(), _c.Ranks(ranks.size, number("cut", cut)), None, 60.0, None)
    return [whole_rows(made.chunks(rank, 0)) for rank in range(ranks.size)]


def split(x: Any, group: Any = None, *, cut: str = "zigzag", axis: int = 1) -> Any:
    """This rank's rows of an array that has all rows along an axis: a copy. torch differentiates it.

    >>> x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    >>> weft.dist.split(x, weft.dist.Threads(2).rank(0)).reshape(-1)  # zigzag: the first and the last quarter
    array([0., 1., 6., 7.], dtype=float32)
    """
    ranks = group_of(group, x)
    return take(x, axis, _rows_of(ranks, x.shape[axis], cut)[ranks.rank])


def join(part: Any, group: Any = None, *, cut: str = "zigzag", axis: int = 1, seq: Optional[int] = None, seconds: float = 60.0) -> Any:
    """An array of all rows along an axis from those of the ranks, who call this together; seq: how many; None: as many of each rank. It
    has no gradient.

    >>> x, group = np.ones((1, 8, 1, 1), np.float32), weft.dist.Threads(1).rank(0)
    >>> weft.dist.join(weft.dist.split(x, group), group).shape
    (1, 8, 1, 1)
    """
    ranks = group_of(group, part)
    return join_rows(ranks, part, axis, _rows_of(ranks, part.shape[axis] * ranks.size if seq is None else seq, cut), seconds)
