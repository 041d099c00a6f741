# SPDX-License-Identifier: Apache-2.0
"""The simulator against the counters of launches on an H200. Nothing was fitted to the attentions; to the GEMMs, the load of hopper-gemm.

    check_launches.py PATH_TO_WEFT

Simulates every launch of docs/results/h200-device-*.csv (attention) and tile-scheduling-h200.csv (GEMM) anew and compares L2 misses and DRAM
reads. The mean error of each must be within 5 per cent, for GEMM, whose counters differ by up to a third from run to run, within 15.
"""

import csv
import glob
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

RESULTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "results")
COLUMNS = ["batch", "heads", "kv-heads", "seq", "kv-seq", "head-dim", "dtype", "tile", "order", "sweep", "dispatch", "workers", "domains"]
GEMM = ["m", "n", "k", "dtype", "tile", "order", "sweep", "dispatch", "workers", "cluster"]
COUNTERS = {"L2 misses": "l2_misses", "DRAM reads": "dram_read_bytes"}
WITHIN = 0.05
GEMM_WITHIN = 0.15


def launches(path):
    with open(path) as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        forward = [row for row in rows if not row["kernel"].startswith(("attention_backward", "kernel"))]  # and no second header
        return [row for row in forward if row["simulated_l2_misses"] not in ("", "nan")]  # the others have no such schedule


def simulate(row):
    subject = "gemm" if "m" in row else "attention"
    options = [word for name in (GEMM if subject == "gemm" else COLUMNS) for word in (f"--{name}", row[name.replace("-", "_")])]
    options += ["--causal"] if row.get("causal") == "1" else []
    options += ["--b-major", "col"] if subject == "gemm" else []
    options += ["--group", row["group"]] if row.get("group", "0") != "0" else []
    profile = "hopper-gemm" if subject == "gemm" else "study"  # the kernels that were measured
    command = [weft, "simulate", subject, "--machine", "h200", "--profile", profile, "--json", *options]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    simulated = {"L2 misses": result["l2"]["misses"], "DRAM reads": result["dram"]["read_bytes"]}
    return {name: simulated[name] / float(row[column]) - 1 for name, column in COUNTERS.items()}


def summary(title, errors):
    parts = []
    for name in COUNTERS:
        sizes = [100 * abs(e[name]) for e in errors]
        parts.append(f"{name} {statistics.mean(sizes):6.2f} (median {statistics.median(sizes):5.2f})")
    print(f"{title:24}{len(errors):4} launches   |simulated / measured - 1|, per cent: {'   '.join(parts)}")


def check(judged, within, least):
    means = {name: statistics.mean(abs(error[name]) for _, error in judged) for name in COUNTERS}
    assert len(judged) >= least and all(mean <= within for mean in means.values()), means


weft = sys.argv[1]
judged = []
for path in sorted(glob.glob(os.path.join(RESULTS, "h200-device-*.csv"))):
    name = os.path.basename(path)[len("h200-device-") : -len(".csv")]
    rows = launches(path)
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(simulate, rows))
    summary(name, errors)
    judged += zip(rows, errors)

summary("all of attention", [error for _, error in judged])
print("worst:")
for row, error in sorted(judged, key=lambda pair: -abs(pair[1]["L2 misses"]))[:8]:
    what = f"{row['order']} {row['sweep']}, {row['heads']} heads, S = {row['kv_seq']}, D = {row['head_dim']}, {row['workers']} workers"
    print(f"  {what:80}" + "   ".join(f"{name} {100 * error[name]:+6.1f} %" for name in COUNTERS))
check(judged, WITHIN, 100)

products = launches(os.path.join(RESULTS, "tile-scheduling-h200.csv"))
with ThreadPoolExecutor(2) as pool:
    errors = list(pool.map(simulate, products))
summary("tile-scheduling (GEMM)", errors)
for row, error in zip(products, errors):
    what = f"{row['order']} {row['group']}, {row['dispatch']}, cluster {row['cluster']}"
    print(f"  {what:80}" + "   ".join(f"{name} {100 * error[name]:+6.1f} %" for name in COUNTERS))
check(list(zip(products, errors)), GEMM_WITHIN, 10)
