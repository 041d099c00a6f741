# SPDX-License-Identifier: Apache-2.0
"""Weft: attention and matrix products, tile by tile, in an order of your choosing.

    o = weft.attention(q, k, v, causal=True)          # arrays of torch, JAX, CuPy or NumPy
    c = weft.matmul(a, b)
    c = weft.grouped_matmul(a, b, starts=starts)      # a mixture of experts
    problem = weft.Attention(seq=131072, heads=8, dtype="fp16")
    print(weft.simulate(problem, {"sweep": "sawtooth"}, "gb10").misses)

weft.dist shares an attention or a product among processes: by MPI, or by torch.distributed. weft.torch and weft.jax hold what is of one framework: a torch operator, transformers' attention, functions that can be traced.

Every public name has an example, which begins after:

    import numpy as np
    import weft

    rng = np.random.default_rng(0)
"""

from typing import Any

from . import _c, dist, frameworks, html_tables, picture  # noqa: F401 (two register what notebooks show)
from .blocks import BlockMask
from .cascade import cascade_attention
from .compute import attention, combine, linear, matmul, release_memory
from .errors import Error, Failed, Invalid, NoMemory, NotFound, Unreadable, Unsupported
from .grouped import grouped_matmul
from .machines import Machine
from .plans import Plan, check_runs, plan
from .plots import Plot
from .prepared import Prepared
from .profiles import Profile, profiles
from .problems import Attention, AttentionBackward, Combine, Gemm, GroupedGemm
from .recommendation import Candidate, Recommendation, recommend
from .schedules import Order, Schedule, dispatches, orders, sweeps
from .simulation import Comparison, Simulation, Traffic, compare, curve, simulate
from .tables import Table, sweep
from .traces import Trace, simulate_trace
from .tuning import Tuned, tune

__version__ = _c.library.weft_version().decode()
__all__ = [
    "Attention", "AttentionBackward", "BlockMask", "Candidate", "Combine", "Comparison", "Error", "Failed", "Gemm", "GroupedGemm", "Invalid", "Machine", "NoMemory",
    "NotFound", "Order", "Plan", "Plot", "Prepared", "Profile", "Recommendation", "Schedule", "Simulation", "Table", "Trace", "Traffic", "Tuned", "Unreadable",
    "Unsupported", "attention", "cascade_attention", "check_runs", "combine", "compare", "curve", "dispatches", "dist", "grouped_matmul", "linear", "matmul", "orders", "plan", "profiles", "recommend",
    "release_memory", "simulate", "simulate_trace", "sweep", "sweeps", "tune",
]  # fmt: skip


def _torch() -> Any:
    from . import torch

    return torch.OPERATORS


def _jax() -> Any:
    from . import jax

    return jax.OPERATORS


# Each imports its framework, so it is imported with the first array that needs it.
frameworks.register(frameworks.TORCH, _torch)
frameworks.register(frameworks.JAX, _jax)
