"""The simulator against launches that a GPU's counters measured: the mean error stays within 5 per cent.

    test_launches.py PATH_TO_WEFT FILE.csv...

The files are raw results of `weft reproduce --device cuda -o FILE`. Launches whose placement the simulator does not know have no simulated
numbers there, and are left out here too.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MOST = 0.05
PLAIN = ["batch", "heads", "kv_heads", "seq", "kv_seq", "head_dim", "dtype", "tile", "order", "sweep", "dispatch", "workers"]
weft, *files = sys.argv[1:]


def simulate(row):
    command = [weft, "simulate", "attention", "--machine", "h200", "--layout", "bhsd", "--json"]
    for key in PLAIN:
        command += ["--" + key.replace("_", "-"), row[key]]
    command += ["--causal"] * (row["causal"] == "1") + ["--domains", row["domains"]] * row["order"].endswith("swizzled")
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found["l2"]["misses"] / float(row["l2_misses"]) - 1, found["dram"]["read_bytes"] / float(row["dram_read_bytes"]) - 1


rows = []
for name in files:
    with open(name, encoding="utf-8") as file:
        rows += [row for row in csv.DictReader(line for line in file if line[0] != "#") if row["simulated_l2_misses"]]
assert len(rows) > 100
with ThreadPoolExecutor(os.cpu_count()) as pool:
    errors = list(pool.map(simulate, rows))
for error, row in sorted(zip(errors, rows), key=lambda pair: -abs(pair[0][0]))[:8]:
    print(f"misses {error[0]:+.1%}, DRAM reads {error[1]:+.1%}:", *(row[key] for key in PLAIN))
for what, of_it in zip(["L2 misses", "DRAM reads"], zip(*errors)):
    sizes = [abs(error) for error in of_it]
    print(f"{what} of {len(sizes)} launches: off by {statistics.mean(sizes):.2%} in the mean, {statistics.median(sizes):.2%} in the median")
    assert statistics.mean(sizes) <= MOST
