# SPDX-License-Identifier: Apache-2.0
"""Weft from Python: an attention on NumPy arrays, the same through a schedule, and what the schedule would cost on a GB10.

    pip install . numpy && python examples/05_python.py
"""

import numpy as np

import weft

rng = np.random.default_rng(0)
q = rng.standard_normal((1, 256, 8, 64), dtype=np.float32)  # (batch, seq, heads, head_dim)
k, v = (rng.standard_normal((1, 256, 2, 64), dtype=np.float32) for _ in range(2))  # 4 query heads share a kv head

o, lse = weft.attention(q, k, v, causal=True, return_lse=True)
print("attention:", o.shape, "and its log-sum-exp:", lse.shape)

sawtooth = weft.Schedule(tile=(64, 64), order="head-first", sweep="sawtooth")
again = weft.attention(q, k, v, causal=True, schedule=sawtooth)
print("the largest difference that another schedule makes:", np.abs(o - again).max())
assert np.abs(o - again).max() < 1e-5

problem = weft.Attention(seq=131072, head_dim=64, dtype="fp16")
sweeps = {sweep: weft.Schedule(tile=(64, 64), sweep=sweep) for sweep in ("forward", "sawtooth")}
print(weft.compare(problem, sweeps, "gb10"))
