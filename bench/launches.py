# SPDX-License-Identifier: Apache-2.0
"""Launches of the Hopper kernels drawn at random: measured on an H200, then simulated.

    launches.py measure --weft build/release/weft --attention 28 --gemm 12 --seed 1 > launches.csv
    launches.py judge --weft build/release/weft launches.csv

`measure` draws lengths to 200K, ragged, GQA, causal, any head dim, forced orders and sweeps; it times each launch and reads its hardware
counters, from an empty L2. `judge` simulates the same schedules and prints DRAM reads, L2 misses and time beside the measured ones, with the
mean and the largest error.
"""

import argparse
import csv
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ORDERS = {
    "attention": ["head-first", "head-first-swizzled", "block-first", "block-first-swizzled", "reverse", "longest-first"],
    "gemm": ["raster-m", "raster-n", "group", "serpentine", "hilbert"],
}
SWEEPS = ["forward", "sawtooth"]
HEAD_DIMS = [64, 64, 80, 96, 112, 128, 128, 128, 160, 192, 224, 256]
COUNTERS = {"dram": "dram_read_bytes", "misses": "l2_misses"}
WORK = (5e10, 3e14)  # FLOPs: launches of about 100 us to half a second
COLUMNS = ["subject", "options", "kernel", "schedule", "seconds", "began", "ended", "duration", "l2_sectors_from_sm", "fabric_sectors", *COUNTERS.values()]


def length(rng, least, most):
    """A length whose logarithm is uniform; half of them ragged."""
    n = int(math.exp(rng.uniform(math.log(least), math.log(most))))
    return n if rng.random() < 0.5 else max(least, n // 128 * 128)


def draw_attention(rng):
    kv_heads = rng.choice([1, 1, 2, 4, 8, 16])
    seq = length(rng, 1000, 200000)
    options = {
        "batch": rng.choice([1, 1, 2, 4, 8]),
        "heads": kv_heads * rng.choice([1, 1, 2, 4, 8]),
        "kv-heads": kv_heads,
        "seq": seq,
        "kv-seq": seq if rng.random() < 0.7 else length(rng, 1000, 200000),
        "head-dim": rng.choice(HEAD_DIMS),
    }
    causal = rng.random() < 0.4
    flops = 4 * options["batch"] * options["heads"] * seq * options["kv-seq"] * options["head-dim"]
    return options, ["--causal", "--bottom-right"] if causal else [], flops


def draw_gemm(rng):
    options = {name: max(8, length(rng, 256, 32768) // 8 * 8) for name in "mnk"}
    return options, ["--b-major", "col"], 2 * options["m"] * options["n"] * options["k"]


def draw(rng, subject):
    """One launch as words of a command; None where it is too small or too large."""
    options, flags, flops = {"attention": draw_attention, "gemm": draw_gemm}[subject](rng)
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))] + flags + ["--dtype", "bf16"]
    if rng.random() < 0.6:
        words += ["--order", rng.choice(ORDERS[subject])]
    if rng.random() < 0.6:
        words += ["--sweep", rng.choice(SWEEPS)]
    return words if WORK[0] <= flops <= WORK[1] else None


def measure(args):
    rng = random.Random(args.seed)
    writer = csv.DictWriter(sys.stdout, COLUMNS)
    writer.writeheader()
    for subject in ["attention"] * args.attention + ["gemm"] * args.gemm:
        row = None
        while row is None:
            words = draw(rng, subject)
            row = measure_one(args.weft, subject, words) if words else None
        writer.writerow(row)
        sys.stdout.flush()


def measure_one(weft, subject, words):
    began = time.time()
    command = [weft, "run", subject, "--device", "cuda", "--counters", "--json", *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:  # no kernel takes this order
        print(f"{' '.join(words)}: {ran.stderr.strip()}", file=sys.stderr)
        return None
    result = json.loads(ran.stdout)
    row = {"subject": subject, "options": " ".join(words), "kernel": result["kernel"], "schedule": json.dumps(result["schedule"])}
    row |= {"seconds": result["seconds"], "began": f"{began:.2f}", "ended": f"{time.time():.2f}"}
    return row | {name: value for name, value in result["counters"].items() if name in COLUMNS}


def simulate(args, row):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(row["schedule"])
        file.flush()
        command = [args.weft, "simulate", row["subject"], "--machine", "h200", "--ours", "--json", *row["options"].split()]
        for name in ("--order", "--sweep"):  # the schedule has them
            if name in command:
                del command[command.index(name) : command.index(name) + 2]
        ran = subprocess.run([*command, "--schedule", file.name], capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"{row['options']}: {ran.stderr.strip()}")
    result = json.loads(ran.stdout)
    simulated = {"dram": result["dram"]["read_bytes"], "misses": result["l2"]["misses"]}
    errors = {name: simulated[name] / float(row[column]) - 1 for name, column in COUNTERS.items()}
    return errors | {"time": result["predicted"]["seconds"] / float(row["seconds"]) - 1}


def judge(args):
    with open(args.launches) as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(lambda row: simulate(args, row), rows))
    for row, error in zip(rows, errors):
        print("".join(f"{name} {100 * e:+7.1f} %  " for name, e in error.items()) + f"{row['subject']} {row['options']}")
    passed = True
    for name in ("dram", "misses", "time"):
        sizes = [abs(error[name]) for error in errors]
        passed &= statistics.mean(sizes) <= args.mean and max(sizes) <= args.most
        print(f"{name:8} mean {100 * statistics.mean(sizes):5.1f} %  median {100 * statistics.median(sizes):5.1f} %  largest {100 * max(sizes):5.1f} %")
    raise SystemExit(0 if passed else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("measure")
    one.add_argument("--attention", type=int, default=28)
    one.add_argument("--gemm", type=int, default=12)
    one.add_argument("--seed", type=int, default=1)
    two = verbs.add_parser("judge")
    two.add_argument("launches")
    two.add_argument("--mean", type=float, default=0.10)
    two.add_argument("--most", type=float, default=0.30)
    for verb in (one, two):
        verb.add_argument("--weft", default="build/release/weft")
    args = parser.parse_args()
    {"measure": measure, "judge": judge}[args.verb](args)


if __name__ == "__main__":
    main()
