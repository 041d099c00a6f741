# SPDX-License-Identifier: Apache-2.0
"""How good are the ways to choose a schedule? Three tables, each with its raw numbers, from `weft tune` on the device.

    bench_tuning.py WEFT [--device cpu|cuda] [--parts estimate,classes,ladder] [--subjects attention,gemm] [--out FOLDER] [--name NAME]
                    [--seed 1] [--count N] [--seconds S] [--patience S] [--raw]

estimate  20 attentions and 20 GEMMs drawn at random: the model's choice against the best of all candidates, every one timed, or as many
          as --seconds of each problem allow, the likeliest first, and a final on top of them. With --seconds 4 both take six minutes
          on a GPU.
classes   a hundred random lengths: what the first length of a class was tuned to, against tuning each length.
ladder    B=4, H=32, D=128, causal, S = 1024 ... 16384 (smaller on the CPU): tuned per length against each fixed tile.

Times are medians of interleaved runs (src/tune/search/race.c). The best of many noisy times is too good, and its lead would be taken for a loss
of the other: a tuning ends with a final of a few in longer turns (src/tune/search/final.c), and `classes` has a duel of its own.
FOLDER gets <name>-<part>.csv and .md, the name being the device's where none is given; with --raw also <name>-estimate.json, with every
candidate of every problem.
"""

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

BOUND = {"cpu": 0.05, "cuda": 0.03}
FINAL = {"cpu": 0.5, "cuda": 7}  # seconds that a final may take, with the rounds before it (src/tune/search/final.c)
ATTENTION = ["subject", "batch", "heads", "kv-heads", "seq", "kv-seq", "head-dim", "causal", "dtype"]
GEMM = ["subject", "m", "n", "k", "dtype"]


def between(draw, low, high):
    """A whole number, its logarithm uniform."""
    return round(low * (high / low) ** draw.random())


def draw_attention(draw, device):
    """Any shape whose cost is between the bounds for the device, in FLOP."""
    least, most = (2e7, 1.5e8) if device == "cpu" else (2e10, 5e11)
    while True:
        kv_heads = draw.choice([1, 2, 4, 8])
        heads = kv_heads * draw.choice([1, 1, 2, 4])
        batch = draw.choice([1, 1, 2, 4])
        seq = between(draw, 64, 2048) if device == "cpu" else between(draw, 512, 32768)
        kv_seq = seq if draw.random() < 0.7 else (between(draw, 64, 2048) if device == "cpu" else between(draw, 512, 32768))
        causal = int(draw.random() < 0.5)
        dim = draw.choice([32, 64, 96, 128]) if device == "cpu" else draw.choice([64, 128])
        dtype = draw.choice(["fp32", "bf16", "fp16"]) if device == "cpu" else draw.choice(["bf16", "fp16"])
        if causal and kv_seq < seq:
            continue
        cost = 4 * batch * heads * seq * kv_seq * dim / (1 + causal)
        if least < cost < most:
            return dict(zip(ATTENTION, ["attention", batch, heads, kv_heads, seq, kv_seq, dim, causal, dtype]))


def draw_gemm(draw, device):
    least, most = (2e7, 1.5e8) if device == "cpu" else (2e10, 5e11)
    low, high = (64, 2048) if device == "cpu" else (512, 16384)
    while True:
        m, n, k = (between(draw, low, high) for _ in range(3))
        if device == "cuda":
            n, k = n // 8 * 8, k // 8 * 8
        if least < 2 * m * n * k < most:
            dtype = draw.choice(["fp32", "bf16", "fp16"]) if device == "cpu" else "bf16"
            return dict(zip(GEMM, ["gemm", m, n, k, dtype]))


class Tuner:
    def __init__(self, weft, device, name, patience, subjects, seconds):
        self.weft, self.device, self.name, self.patience, self.subjects = weft, device, name or device, patience, subjects
        self.everything = ["--behind", "1000", "--seconds", str(seconds + FINAL[device])] if seconds else ["--exhaustive"]
        self.folder = tempfile.mkdtemp()
        self.environment = {**os.environ, "WEFT_TUNING_DB": os.path.join(self.folder, "tuning.db")}

    def tune(self, problems, *options, also=()):
        """What `weft tune` says of each problem, in one process for all, with schedules `also` timed besides."""
        names = list(dict.fromkeys(name for problem in problems for name in problem))
        path = os.path.join(self.folder, "problems.csv")
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, names, restval="")
            writer.writeheader()
            writer.writerows(problems)
        command = [self.weft, "tune", "--file", path, "--device", self.device, "--again", "--all", "--json", "--patience",
                   str(self.patience), *options, *(["--also", ";".join(also)] if also else [])]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)["tuned"]

    def chunks(self, problems):
        """On a GPU several problems share a process, whose start takes as long as tuning; few enough that a failure loses little."""
        size = 1 if self.device == "cpu" else 5
        return [problems[i : i + size] for i in range(0, len(problems), size)]


def timed(result):
    """The candidates that were in the final, or else ran to the end, the fastest first; those that stay are among them."""
    most = max(c["runs"] for c in result["all"])
    last = [c for c in result["all"] if c["final"]] or [c for c in result["all"] if c["runs"] + 1 >= most]
    return sorted(last, key=lambda c: c["seconds"])


def shape(problem):
    if problem["subject"] == "gemm":
        return "{m} x {n} x {k} {dtype}".format(**problem)
    keys = "" if problem["kv-seq"] == problem["seq"] else " keys {kv-seq}".format(**problem)
    return ("b {batch}, heads {heads}/{kv-heads}, {seq}{keys}, d {head-dim}, {dtype}{mask}").format(
        keys=keys, mask=", causal" if problem["causal"] else "", **problem)  # fmt: skip


def flags(schedule):
    """A schedule, as it is shown, in options."""
    tile, order, sweep, dispatch, *rest = schedule.split()
    name, _, group = order.rpartition("-")
    named = group.isdecimal()
    return ["--tile", tile, "--order", name if named else order, *(["--group", group] if named else []), "--sweep", sweep,
            "--dispatch", dispatch, *(word if i % 2 else f"--{word}" for i, word in enumerate(rest))]  # fmt: skip


def duel(tuner, problem, words, own):
    """Times the schedule of `words` (none: the model's choice) against a candidate: hardly anything but these two runs."""
    if words == own["words"]:
        return own, own
    result = tuner.tune([problem], *flags(own["schedule"]), also=[words, own["words"]])[0]
    both = [c for c in result["all"] if c["also"]]
    ours = next(c for c in both if c["words"] == words)
    return ours, next(c for c in both if c is not ours)


def estimate_row(problem, result):
    own = next(c for c in result["all"] if c["estimate"])
    best = timed(result)[0]
    return {"problem": shape(problem), "estimate": own["schedule"], "estimate_ms": 1e3 * own["seconds"], "best": best["schedule"],
            "best_ms": 1e3 * best["seconds"], "loss": own["seconds"] / best["seconds"] - 1, "estimate_spread": own["spread"],
            "best_spread": best["spread"], "candidates": len(result["all"]), "finalists": sum(c["final"] for c in result["all"]),
            "runs": result["search"]["runs"], "untimed": result["search"]["untimed"], "disturbed": result["search"]["disturbed"],
            "seconds": result["search"]["elapsed"]}  # fmt: skip


def write_raw(tuner, out, results):
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, f"{tuner.name}-estimate.json"), "w") as file:
        json.dump(results, file)


def write(tuner, out, part, rows, lines):
    name = os.path.join(out, f"{tuner.name}-{part}")
    os.makedirs(out, exist_ok=True)
    with open(name + ".csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    with open(name + ".md", "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines), flush=True)


def estimate(tuner, seed, out, count, raw):
    draw, rows, lines, results = random.Random(seed), [], [], []
    for subject, one in (("attention", draw_attention), ("gemm", draw_gemm)):
        problems = [one(draw, tuner.device) for _ in range(count)]  # drawn even where they are not asked for: the same seed, the same problems
        mine = []
        if subject not in tuner.subjects:
            continue
        for chunk in tuner.chunks(problems):
            for problem, result in zip(chunk, tuner.tune(chunk, *tuner.everything)):
                mine.append({"subject": subject, **estimate_row(problem, result)})
                print("{problem}: {estimate} {estimate_ms:.4g} ms, {best} {best_ms:.4g} ms, {loss:.3f}".format(**mine[-1]),
                      file=sys.stderr, flush=True)  # fmt: skip
                results.append({"problem": problem, **result})
            if raw:
                write_raw(tuner, out, results)
        rows += mine
        within = sum(row["loss"] <= BOUND[tuner.device] for row in mine)
        lines += [f"{subject}: within {100 * BOUND[tuner.device]:.0f} % on {within} of {len(mine)}, in the median "
                  f"{100 * statistics.median(row['loss'] for row in mine):.1f} %, at most {100 * max(row['loss'] for row in mine):.1f} %; "
                  f"{sum(row['untimed'] for row in mine)} of {sum(row['candidates'] for row in mine)} candidates untimed, "
                  f"{sum(row['finalists'] == 0 for row in mine)} problems without a final (seed {seed})", "",
                  "| problem | the model's choice | ms | best of all | ms | loss | spread |", "| --- |" + " --- |" * 6]  # fmt: skip
        lines += ["| {problem} | {estimate} | {estimate_ms:.4g} | {best} | {best_ms:.4g} | {percent:.1f} % | {spread:.1f} % |".format(
            percent=100 * row["loss"], spread=100 * row["estimate_spread"], **row)
            for row in mine] + [""]  # fmt: skip
    write(tuner, out, "estimate", rows, lines)


def stored(result):
    """The candidate that src/tune/search/race.c stores: the fastest, or the model's own where it is as good as that."""
    best = timed(result)[0]
    own = next(c for c in result["all"] if c["estimate"])
    return own if own["seconds"] <= 1.01 * best["seconds"] else best


def classes(tuner, seed, out, count, raw):
    """The class's schedule is what the first length of it that is drawn was tuned to, as the store would have it."""
    draw, first, rows = random.Random(seed + 1), {}, []
    for _ in range(count):
        seq = between(draw, 128, 1024) if tuner.device == "cpu" else between(draw, 512, 16384)
        problem = dict(zip(ATTENTION, ["attention", 1, 4, 4, seq, seq, 64, 1, "bf16"]))
        if tuner.device == "cuda":
            problem.update({"batch": 4, "heads": 32, "kv-heads": 32, "head-dim": 128})
        bucket = seq if seq <= 16 else seq >> (seq.bit_length() - 4) << (seq.bit_length() - 4)
        known = first.get(bucket)
        result = tuner.tune([problem], "--seconds", "2.5" if tuner.device == "cpu" else "1", also=[] if known is None else [known])[0]
        chosen = stored(result)
        first.setdefault(bucket, chosen["words"])
        ours, own = duel(tuner, problem, first[bucket], chosen)
        rows.append({"seq": seq, "class": bucket, "class_schedule": first[bucket] or "the model's", "class_ms": 1e3 * ours["seconds"],
                     "own": chosen["schedule"], "own_ms": 1e3 * own["seconds"], "first": int(known is None),
                     "loss": ours["seconds"] / own["seconds"] - 1, "spread": ours["spread"], "runs": ours["runs"],
                     "disturbed": result["search"]["disturbed"]})  # fmt: skip
    losses = sorted(row["loss"] for row in rows)
    mean = statistics.fmean(losses)
    lines = [f"{count} lengths from {min(r['seq'] for r in rows)} to {max(r['seq'] for r in rows)} in {len(first)} classes (seed {seed}): loss of the class's "
             f"schedule against tuning each length {100 * mean:.2f} % in the mean, {100 * statistics.median(losses):.2f} % in the median, "
             f"{100 * losses[int(0.95 * len(losses))]:.2f} % at the 95th percentile, {100 * losses[-1]:.2f} % at most; "
             f"within 2 %: {sum(x <= 0.02 for x in losses)}", "",
             "| class | lengths drawn | schedule | mean loss | largest |", "| --- | --- | --- | --- | --- |"]  # fmt: skip
    for bucket in sorted(first):
        mine = [row for row in rows if row["class"] == bucket]
        lines.append("| {} | {} | {} | {:.2f} % | {:.2f} % |".format(
            bucket, len(mine), mine[0]["class_schedule"], 100 * statistics.fmean(r["loss"] for r in mine), 100 * max(r["loss"] for r in mine)))  # fmt: skip
    write(tuner, out, "classes", rows, lines)


FIXED = ["", "order=head-first sweep=forward dispatch=grid", "order=head-first sweep=sawtooth dispatch=static",
         "order=reverse sweep=forward dispatch=grid", "order=longest-first sweep=forward dispatch=dynamic"]  # fmt: skip


def is_choice(candidate, words):
    """Whether a candidate is what `words` ask for; where two ask for the same, only one of them is timed."""
    if candidate["words"] == words:
        return True
    tile, order, sweep, dispatch = candidate["schedule"].split()[:4]
    sides = tile.split("x")
    asked = dict(word.split("=") for word in words.split())
    name = order.rpartition("-")[0] if order.rpartition("-")[2].isdecimal() else order
    is_tile = (asked["tile_m"], asked["tile_n"]) == (sides[0], sides[1])
    if "order" not in asked:
        return is_tile and candidate["estimate"]
    return is_tile and (asked["order"], asked["sweep"], asked["dispatch"]) == (name, sweep, dispatch)


def ladder(tuner, seed, out, count, raw):
    """Fixed choices: each tile that there is, with the rest as the plan chooses it, and with some schedules."""
    cpu = tuner.device == "cpu"
    lengths = [128, 256, 512, 1024] if cpu else [1024, 2048, 4096, 8192, 16384]
    sizes = [1, 4, 4] if cpu else [4, 32, 32]
    fixed, rows, table = [], [], {}
    for seq in lengths:
        problem = dict(zip(ATTENTION, ["attention", *sizes, seq, seq, 64 if cpu else 128, 1, "bf16"]))
        if not fixed:  # the tiles of the candidates
            all_words = [c["words"] for c in tuner.tune([problem], "--seconds", "1", "--behind", "100")[0]["all"]]
            tiles = sorted({" ".join(w for w in words.split() if w.startswith("tile_")) for words in all_words} - {""})
            fixed = [f"{tile} {rest}".strip() for tile in tiles for rest in (FIXED if len(tiles) <= 4 else FIXED[:1])]
        result = tuner.tune([problem], "--seconds", "6" if cpu else "3", also=fixed)[0]
        flops = result["tflops"] * result["seconds"]
        columns = {"tuned for each length": timed(result)[0], "the model's choice": next(c for c in result["all"] if c["estimate"])}
        for words in fixed:
            same = [c for c in result["all"] if is_choice(c, words)]
            if same:
                columns[words] = same[0]
        for name, c in columns.items():
            table.setdefault(name, {})[seq] = flops / c["seconds"]
            rows.append({"seq": seq, "choice": name, "schedule": c["schedule"], "kernel": c["kernel"], "ms": 1e3 * c["seconds"],
                         "tflops": flops / c["seconds"], "spread": c["spread"], "runs": c["runs"]})  # fmt: skip
    digits = 3 if cpu else 0
    lines = ["TFLOP/s, causal, " + ("B=1, H=4, D=64" if cpu else "B=4, H=32, D=128") + ", bf16", "",
             "| choice | " + " | ".join(str(s) for s in lengths) + " |", "| --- |" + " --- |" * len(lengths)]  # fmt: skip
    for name, values in table.items():
        lines.append(f"| {name} | " + " | ".join(f"{values[s]:.{digits}f}" if s in values else "" for s in lengths) + " |")
    write(tuner, out, "ladder", rows, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--parts", default="estimate,classes,ladder")
    parser.add_argument("--subjects", default="attention,gemm", help="of estimate")
    parser.add_argument("--out", default=".")
    parser.add_argument("--name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="problems of each subject (20), and lengths (100)")
    parser.add_argument("--seconds", type=float, help="of estimate: to spend on each problem besides its final, about (until all candidates are timed)")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait, for each problem, for a quiet moment")
    parser.add_argument("--raw", action="store_true", help="of estimate: keep every candidate's time")
    given = parser.parse_args()
    tuner = Tuner(os.path.abspath(given.weft), given.device, given.name, given.patience, given.subjects.split(","),
                  given.seconds)  # fmt: skip
    parts = {"estimate": (estimate, 20), "classes": (classes, 100), "ladder": (ladder, 0)}
    for part in given.parts.split(","):
        function, usual = parts[part]
        function(tuner, given.seed, given.out, given.count or usual, given.raw)


if __name__ == "__main__":
    main()
