# SPDX-License-Identifier: Apache-2.0
"""CUPTI's numbers, read inside the process, beside ncu's for the same kernels.

    check_ncu.py PATH_TO_COUNTERS_DEVICE

Prints both and fails where they are apart. Skipped (77) without a GPU or ncu.
"""

import csv
import json
import shutil
import subprocess
import sys

# What must agree, as a share. The others are times and rates, which clocks move, or hits, which follow from these.
TOLERANCE = {"l2_sectors_from_sm": 0.01, "l2_misses": 0.05, "fabric_sectors": 0.05, "dram_read_bytes": 0.03}

program = sys.argv[1]
result = subprocess.run([program], capture_output=True, text=True)
if result.returncode == 77 or not shutil.which("ncu"):
    print("skipped:", result.stderr.strip() or "no ncu")
    sys.exit(77)
sys.stderr.write(result.stderr)
command = subprocess.run([program, "--ncu"], capture_output=True, text=True, check=True).stdout.strip()
metrics = command.split("--metrics ")[1].split()[0].split(",")
failed = result.returncode != 0

for line in result.stdout.splitlines():
    inside = json.loads(line)
    case, passes = inside.pop("case"), inside.pop("passes")
    outside = subprocess.run(f"{command} {case}".replace("ncu ", "ncu --csv --print-units base ", 1), shell=True,
                             capture_output=True, text=True, check=True).stdout
    rows = list(csv.DictReader(row for row in outside.splitlines() if row.startswith('"')))
    values = {row["Metric Name"]: float(row["Metric Value"].replace(",", "")) for row in rows}
    print(f"{case}: {passes} passes\n  {'':24}{'CUPTI':>18}{'ncu':>18}{'apart':>10}")
    for key, metric in zip(inside, metrics):
        apart = inside[key] / values[metric] - 1 if values[metric] else float(inside[key] != 0)
        wrong = abs(apart) > TOLERANCE.get(key, float("inf"))
        failed |= wrong
        print(f"  {key:24}{inside[key]:18.2f}{values[metric]:18.2f}{100 * apart:9.2f}%{'  APART' if wrong else ''}")
sys.exit(failed)
