#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which lines the fuzzers' inputs run, by area: lines of the library that are linked into some fuzzer.

    fuzz-coverage.py DIRECTORY_OF_FUZZERS [CORPORA]

The fuzzers are those of a build with -DWEFT_FUZZ=ON -DWEFT_COVERAGE=ON. CORPORA has a folder for each; without it, the corpora of
the tree are run. Files whose names begin as an area's count to it.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AREAS = [
    ("orders and walks", "include/weft/order/", "src/order/"),
    ("problems", "src/problem/"),
    ("schedules and plans", "src/plan/", "src/registry/"),
    ("machine files and profiles", "src/sheet/", "src/machine/", "src/profile/"),
    ("traces", "src/sim/trace/"),
    ("simulator", "src/sim/"),
    ("tuning store", "src/tune/store/"),
    ("attention on the CPU", "src/cpu/attention/", "src/cpu/generic/attention", "src/cpu/x86/attention"),
    ("products on the CPU", "src/cpu/gemm/", "src/cpu/generic/gemm", "src/cpu/x86/gemm"),
    ("reference", "src/ref/"),
    ("plans for GPUs", "src/cuda/"),
    ("ranks, on paper and run", "src/dist/"),
    ("pictures and pages", "src/report/"),
    ("options of the command", "cli/options/"),
]  # fmt: skip


def tool(name):
    return next((f"{name}{end}" for end in ("-14", "") if subprocess.run(["which", name + end], capture_output=True).returncode == 0), name)


def run_all(folder, corpora, profiles):
    """Every fuzzer over its inputs, none of them new."""
    fuzzers = sorted(name for name in os.listdir(folder) if name.startswith("fuzz_") and os.access(os.path.join(folder, name), os.X_OK) and os.path.isfile(os.path.join(folder, name)))
    for name in fuzzers:
        inputs = [os.path.join(corpora or os.path.join(folder, "known"), name), *(os.path.join(ROOT, part) for part in ("tests/fuzz/seeds", "machines", "profiles"))]
        environment = dict(os.environ, LLVM_PROFILE_FILE=os.path.join(profiles, f"{name}.profraw"), OMP_NUM_THREADS="1")
        subprocess.run([os.path.join(os.path.abspath(folder), name), "-runs=0", "-timeout=600", *inputs], check=True, capture_output=True, env=environment, cwd=profiles)
    return [os.path.join(os.path.abspath(folder), name) for name in fuzzers]


def lines_by_file(fuzzers, profiles):
    merged = os.path.join(profiles, "all.profdata")
    raw = [os.path.join(profiles, name) for name in os.listdir(profiles) if name.endswith(".profraw")]
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", "-o", merged, *raw], check=True)
    objects = [word for name in fuzzers[1:] for word in ("-object", name)]
    found = subprocess.run([tool("llvm-cov"), "export", "-summary-only", "-instr-profile", merged, fuzzers[0], *objects], check=True, capture_output=True)
    return {file["filename"]: file["summary"]["lines"] for file in json.loads(found.stdout)["data"][0]["files"]}


def main():
    folder, corpora = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    count, covered = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as profiles:
        for name, lines in lines_by_file(run_all(folder, corpora and os.path.abspath(corpora), profiles), profiles).items():
            path = os.path.relpath(os.path.join(ROOT, name) if not os.path.isabs(name) else name, ROOT)
            area = next((area for area, *starts in AREAS if any(start in path and (path.startswith(start) or "/" + start in path) for start in starts)), "other")
            count[area] += lines["count"]
            covered[area] += lines["covered"]
    print("| area | lines | run |\n| --- | --- | --- |")
    for area in [*(area for area, *_ in AREAS), "other"]:
        if count[area]:
            print(f"| {area} | {count[area]} | {100 * covered[area] / count[area]:.0f} % |")


if __name__ == "__main__":
    main()
