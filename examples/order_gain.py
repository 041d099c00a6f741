# SPDX-License-Identifier: Apache-2.0
"""How much the order of the tiles of a matrix product gains on this CPU: CPU seconds of one thread, medians of interleaved runs.

python3 examples/order_gain.py        docs/tutorial.md explains it
"""

import statistics
import time

import numpy as np
import weft

M, N, K, TILE, ROUNDS = 384, 4096, 4096, (12, 32), 5
SCHEDULES = {order: {"tile": TILE, "order": order, "sweep": "forward", "dispatch": "static", "workers": 1} for order in ("raster-n", "raster-m", "hilbert")}
SCHEDULES["weft's choice"] = {"workers": 1}

rng = np.random.default_rng(0)
a, b = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
expected = a @ b
seconds = {name: [] for name in SCHEDULES}
for count in range(ROUNDS + 1):
    for name, schedule in SCHEDULES.items():
        start = time.process_time()
        product = weft.matmul(a, b, schedule=schedule)
        seconds[name].append(time.process_time() - start)
        assert np.allclose(product, expected, atol=1e-2), name
for name, runs in seconds.items():
    print(f"{name:14} {statistics.median(runs[1:]):.3f} s")  # the first run makes the plan
