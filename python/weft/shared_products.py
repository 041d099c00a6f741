# SPDX-License-Identifier: Apache-2.0
"""Matrix products of several processes, each with a part of A, B and C."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Tuple

from . import _c, compute, frameworks, problems, schedules
from .arrays import View
from .errors import Invalid, Unsupported
from .ranks import Group, group_of
from .schedules import whole
from .sharing import Dist, Shared, Traffic, counted, join_rows, number, take, whole_rows

_OWN, _PART = 0, 1  # WEFT_OWN_LINES, WEFT_PART_ROWS
# Which axis of a matrix is shared, and by which lines, for each cut.
_SHARED = {"m": {"a": (0, _PART), "b": (1, _OWN), "c": (1, _OWN)}, "k": {"a": (1, _OWN), "b": (0, _OWN), "c": (0, _PART)}}


class Matmul(Shared):
    """C = A B of the ranks of a group together, for repeated calls: it keeps its plans and its buffers.

    problem    a weft.Gemm with the sizes of all ranks together
    group      as for weft.dist.Attention
    cut        "m": a rank has some rows of A, columns of B and the same columns of C; rows of A come by (all-gather)
               "k": a rank has some columns of A, the same rows of B, and rows of C; sums of C go on (reduce-scatter)
    exchange   how parts come by: "ring", "all-gather"; None: ring
    order      across ranks: "ring", "zigzag", "mesh-cycle"; columns: of the mesh
    sweep      cut k: "sawtooth", or "forward", which begins with a rank's own rows; None: sawtooth
    most_rows  of a message; 0: whole parts
    seconds    after which a silent rank is given up
    schedule   of the plans inside of a rank

    >>> made = weft.dist.Matmul(weft.Gemm(64, 64, 64), weft.dist.Threads(1).rank(0))
    >>> made.cut, made.exchange, made.size
    ('m', 'ring', 1)
    """

    def __init__(self, problem: problems.Gemm, group: Any = None, *, cut: str = "m", exchange: Optional[str] = None,
                 order: Optional[str] = None, sweep: Optional[str] = None, columns: int = 0, most_rows: int = 0, seconds: float = 60.0,
                 schedule: schedules.ScheduleLike = None):  # fmt: skip
        if cut not in _SHARED:
            raise Invalid(f'cut {cut!r} of a product is not "m" or "k"')
        super().__init__(problem, group, seconds, schedule, cut, exchange, order, sweep, 0, columns, most_rows=most_rows)

    def _lines(self, of: str, rank: Optional[int]) -> Tuple[int, List[int]]:
        if of not in ("a", "b", "c"):
            raise Invalid(f'of {of!r} is not "a", "b" or "c"')
        axis, kind = _SHARED[self.cut][of]
        return axis, whole_rows(self._paper.chunks(self._rank_of(rank), kind))

    def pick(self, x: Any, of: str, rank: Optional[int] = None) -> Any:
        """A rank's part of the whole A, B or C, "a", "b" or "c": a copy."""
        axis, lines = self._lines(of, rank)
        return take(x, axis, lines)

    def join(self, part: Any, of: str = "c") -> Any:
        """The whole of A, B or C from this rank's part and those of the others, who call this together. It has no gradient."""
        axis = self._lines(of, None)[0]
        return join_rows(self.group, part, axis, [self._lines(of, rank)[1] for rank in range(self.size)], self._seconds)

    def expected(self, rank: Optional[int] = None) -> Traffic:
        """What a rank sends and receives in a call, without gradients."""
        return self._paper.expected(self._rank_of(rank), False)

    def counted(self) -> Traffic:
        """What this rank has sent and received so far, counted where it was sent."""
        return counted(self._made.values())

    def __call__(self, a: Any, b: Any, *, bias: Any = None) -> Any:
        """This rank's part of C. bias is fp32 or of A's dtype: (n,), of which cut m takes this rank's columns. torch tensors that need
        gradients get them, but for the bias: every rank then runs the backward pass together with the others."""
        if frameworks.needs_grad((bias,) if bias is not None else ()):
            raise Unsupported("the gradient of a bias is not there over ranks: detach it")
        if frameworks.is_torch(a) and frameworks.needs_grad((a, b)):
            return _function().apply(self, a, b, bias)
        return self._run(a, b, bias)

    # ---- a call ----

    def _shape_of(self, of: str) -> Tuple[int, ...]:
        p = self.problem
        shape = list({"a": (p.m, p.k), "b": (p.k, p.n), "c": (p.m, p.n)}[of])
        axis, lines = self._lines(of, None)
        shape[axis] = len(lines)
        return tuple(shape)

    def _check(self, views: Dict[str, View]) -> None:
        for name, view in views.items():
            wanted = self._shape_of("c")[1:] if name == "bias" else self._shape_of(name)
            if view.device != views["a"].device:
                raise Invalid(f"{name} and a are on different devices")
            if tuple(view.shape) != wanted:
                raise Invalid(f"{name} is {tuple(view.shape)}, and of rank {self.rank} it is {wanted}")
            if view.dtype != self.problem.dtype and not (name == "bias" and view.dtype == "fp32"):
                raise Invalid(f"{name} is {view.dtype}, and the problem {self.problem.dtype}")

    def _dist(self, views: Dict[str, View]) -> Dist:
        """What runs on arrays of this form, made once."""
        majors = {name: _major(name, views[name]) for name in ("a", "b", "c")}
        biased = "bias" in views and views["bias"].dtype
        device = views["a"].device
        key = (tuple(majors.items()), biased, device)
        if key not in self._made:
            problem = self.problem.to_c()
            for name, (major, ld) in majors.items():
                setattr(problem, f"{name}_major", major)
                setattr(problem, f"ld{name}", ld)
            if biased:
                problem.extras = _GEMM_BIAS
                problem.bias_dtype = problems.number_of("dtype", biased, problems.DTYPES)
            self._made[key] = Dist(problem, self._ranks, self.group, self._seconds, self._schedule, device)
        return self._made[key]

    def _run(self, a: Any, b: Any, bias: Any) -> Any:
        given = {name: x for name, x in (("a", a), ("b", b), ("bias", bias)) if x is not None}
        framework = frameworks.framework_of(tuple(given), tuple(map(type, given.values())))
        views = {name: framework.view(x, name) for name, x in given.items()}
        self._check(views)
        maker = framework.maker
        c = maker.empty(a, self._shape_of("c"))
        views["c"] = maker.view(c, "c")
        if "bias" in views and views["bias"].strides[0] != 1:
            raise Invalid(f"bias has strides {views['bias'].strides}: copy it to make it contiguous")
        kinds = tuple(views)
        data = _c.packer(_c.GemmData, _c.GEMM, kinds)(*(views[name].pointer for name in kinds))
        self._dist(views).run(data, 0, framework.stream(views["a"].device))
        return framework.result(c)

    # ---- gradients ----

    def _gradients(self, grad: Any, a: Any, b: Any, wants_a: bool, wants_b: bool) -> Tuple[Any, Any]:
        """Of this rank's A and B. That of A is a product over ranks of the other cut. That of B is a sum over all rows of m, of which
        cut m has those of A, and cut k those of dC, from all ranks."""
        p, other = self.problem, {"m": "k", "k": "m"}[self.cut]
        grad_a = grad_b = None
        if wants_a:
            dual = problems.Gemm(m=p.m, n=p.k, k=p.n, dtype=p.dtype)
            grad_a = _matmul_of(self.group, dual, other, self._seconds)(grad, b.T)
        if wants_b:
            rows = self.join(a, "a") if self.cut == "m" else a
            of_c = grad if self.cut == "m" else self.join(grad, "c")
            empty = 0 in rows.shape or 0 in of_c.shape
            grad_b = b.new_zeros(b.shape) if empty else compute.matmul_forward(rows.T, of_c, None)
        return grad_a, grad_b


_GEMM_BIAS = 1


def _major(name: str, view: View) -> Tuple[int, int]:
    """Whether a matrix lies by rows (0) or by columns (1), and from one to the next; 0: packed."""
    (rows, columns), (down, right) = view.shape, view.strides
    if right == 1 or columns <= 1:
        return 0, 0 if rows <= 1 else down
    if down == 1 or rows <= 1:
        return 1, right
    raise Invalid(f"{name} has strides {view.strides}: neither its rows nor its columns are contiguous")


@functools.lru_cache(maxsize=None)
def _function() -> Any:
    """The operator with a gradient: torch is imported with the first tensor that needs one."""
    import torch

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, made: Matmul, a: Any, b: Any, bias: Any) -> Any:
            ctx.made = made
            ctx.save_for_backward(a, b)
            return made._run(a.detach(), b.detach(), bias)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if torch.is_grad_enabled():  # to create a graph
                raise Unsupported("a product over ranks has no second derivatives")
            a, b = (x.detach() for x in ctx.saved_tensors)
            return (None, *ctx.made._gradients(grad.contiguous(), a, b, *ctx.needs_input_grad[1:3]), None)

    return Differentiable


_MOST_PRODUCTS = 64


@functools.lru_cache(maxsize=_MOST_PRODUCTS)
def _matmul_of(ranks: Group, problem: problems.Gemm, cut: str, seconds: float, exchange: Optional[str] = None, order: Optional[str] = None,
               sweep: Optional[str] = None, schedule: Optional[schedules.Schedule] = None) -> Matmul:  # fmt: skip
    return Matmul(problem, ranks, cut=cut, exchange=exchange, order=order, sweep=sweep, seconds=seconds, schedule=schedule)


def matmul(a: Any, b: Any, *, cut: str, group: Any = None, bias: Any = None, m: Optional[int] = None, n: Optional[int] = None,
           k: Optional[int] = None, exchange: Optional[str] = None, order: Optional[str] = None, sweep: Optional[str] = None,
           seconds: float = 60.0, schedule: schedules.ScheduleLike = None) -> Any:  # fmt: skip
    """C = A B of matrices that are shared out among ranks; all call this together.

    a, b       this rank's parts. cut "m": rows of A (rows, k) and columns of B (k, columns); "k": columns of A (m, share) and rows of B
               (share, n). weft.dist.split(x, cut="contiguous", axis=...) gives them
    m, n, k    of all ranks together, those that are shared; None: every rank has as many as this one
    group, bias, exchange, order, sweep, seconds, schedule   as for weft.dist.Matmul

    Returns this rank's part of C: cut m all rows of its columns, cut k its rows. torch differentiates it. Its plans and buffers are kept
    for the next call with the same sizes.

    >>> a, b = (rng.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    >>> group = weft.dist.Threads(1).rank(0)  # None: all processes
    >>> np.allclose(weft.dist.matmul(a, b, cut="k", group=group), a @ b, atol=1e-4)
    True
    """
    if cut not in _SHARED:
        raise Invalid(f'cut {cut!r} of a product is not "m" or "k"')
    ranks = group_of(group, a)
    framework = frameworks.framework_of(("a", "b"), (type(a), type(b)))
    views = [framework.view(x, name) for name, x in (("a", a), ("b", b))]
    for name, view in zip("ab", views):
        if len(view.shape) != 2:
            raise Invalid(f"{name} has {len(view.shape)} dimensions, not 2: {tuple(view.shape)}")
    (rows, inner), columns = views[0].shape, views[1].shape[1]
    if cut == "m":
        sizes = (rows * ranks.size if m is None else m, columns * ranks.size if n is None else n, inner)
    else:
        sizes = (rows, columns, inner * ranks.size if k is None else k)
    problem = problems.Gemm(*sizes, dtype=views[0].dtype)
    made = _matmul_of(ranks, problem, cut, seconds, exchange, order, sweep, None if schedule is None else schedules.of(schedule))
    return made(a, b, bias=bias)
