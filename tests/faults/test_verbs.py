# SPDX-License-Identifier: Apache-2.0
"""Every verb of the command while the system fails it: each single call in turn, and each with all that follow it.

    test_verbs.py PATH_TO_WEFT PATH_TO_FAULTS [CASE...]

faults.h says what can fail. A run ends with exit code 0 and the whole right answer, or with exit code 1, a message of one line
and nothing written: no partial output, no file changed or left behind, and then the same command works.

WEFT_TEST_ROUNDS says, in per cent of the usual number, how many calls of each case fail, spread evenly (0: all). The last
lines say how many did.
"""

import collections
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

WEFT, FAULTS = (os.path.abspath(path) for path in sys.argv[1:3])
ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS") or 100)
SEED = int(os.environ.get("WEFT_TEST_SEED") or 0)

# Which kinds fail with what, once or from then on, and how many calls of each case the gate tries.
ERRORS = [("memory", "none", 6), ("files", "EIO", 6), ("files", "ENOSPC", 3), ("files", "EROFS", 3), ("files", "EACCES", 3),
          ("files", "short", 3), ("sqlite", "none", 3), ("threads", "none", 2)]  # fmt: skip

SMALL = ["--m", "256", "--n", "256", "--k", "128"]
TINY = ["--m", "64", "--n", "64", "--k", "64"]
SHORT = ["--seq", "256", "--head-dim", "16"]
SWEEP = ["simulate", "gemm", *SMALL, "--order", "hilbert,raster-n", "--machine", "gb10,h100"]
VIEW = ["view", "gemm", *SMALL, "--machine", "h100"]
ONE = ["--k", "32", "--order", "raster-n", "--sweep", "forward", "--dispatch", "static", "--workers", "1", "--seconds", "0.001"]
TUNE = ["tune", "gemm", "--m", "32", "--n", "32", *ONE]

# What is tried: a name and commands. OUT is a file that is there and is replaced.
CASES = {
    "orders": (["orders"], ["orders", "--json"]),
    "machines": (["machines"], ["machines", "--json"], ["machines", "h200"], ["machines", "h200", "--json"], ["machines", "host", "--json"],
                 ["machines", "./MACHINE", "--json"], ["machines", "h100", "-o", "OUT"]),
    "profiles": (["profiles", "--json"], ["profiles", "hopper-attention", "--json"], ["profiles", "hopper-attention", "-o", "OUT"]),
    "order": (["order", "show", "gemm", *SMALL], ["order", "show", "gemm", *SMALL, "--json"],
              ["order", "show", "gemm", *SMALL, "--order-file", "ORDER"]),
    "simulate": (["simulate", "gemm", *SMALL, "--machine", "h100"], ["simulate", "gemm", *SMALL, "--machine", "mi300x", "--per-domain", "--json"],
                 ["simulate", "attention", *SHORT, "--machine", "h200", "--json"], ["simulate", "gemm", *SMALL, "--machine", "./MACHINE", "--json"],
                 ["simulate", "attention", *SHORT, "--machine", "gb10", "--curve", "--json"], ["simulate", "attention", *SHORT, "--machine", "gb10", "--curve"]),
    "simulate-trace": (["simulate", "trace", "TRACE", "--machine", "h100", "--json"], ["simulate", "gemm", *TINY, "--machine", "h100", "--trace-out", "OUT"]),
    "simulate-ranks": (["simulate", "attention", *SHORT, "--ranks", "2", "--machine", "h100", "--json"],),
    "run": (["run", "gemm", *TINY], ["run", "gemm", *SMALL, "--json"], ["run", "attention", *SHORT, "--json"]),
    "run-ranks": (["run", "attention", *SHORT, "--ranks", "2", "--json"],),
    "compare": (["compare", "attention", *SHORT, "--machine", "h200", "--dispatch", "static"],
                ["compare", "attention", *SHORT, "--machine", "h200", "--dispatch", "static", "--json"]),
    "sweep": ([*SWEEP], [*SWEEP, "--json"], [*SWEEP, "--csv", "--svg", "-o", "OUT"]),
    "plan": (["plan", "attention", *SHORT, "--machine", "gb10", "--order", "head-first"],
             ["plan", "attention", *SHORT, "--machine", "gb10", "--order", "head-first", "--json"]),
    "tune": (["tune", "--list"], ["tune", "--list", "--json"], ["tune", "--forget"], [*TUNE], [*TUNE, "--json"],
             ["tune", "--export", "-o", "OUT"], ["tune", "--import", "TUNINGS"]),
    "view": ([*VIEW, "-o", "OUT"], [*VIEW, "--svg"], [*VIEW, "--svg", "-o", "OUT"], [*VIEW, "--text"],
             ["view", "attention", *SHORT, "--machine", "mi300x", "--json"], ["view", "trace", "TRACE", "--machine", "h100", "-o", "OUT"]),
    "doctor": (["doctor"], ["doctor", "--json"]),
    "help": (["--help"], ["--version"], ["plan", "--help"], ["completion", "bash"], ["completion", "zsh"], ["completion", "fish"], ["man", "PAGES"]),
    "reproduce": (["reproduce", "cutile", "--json", "--seeds", "2"],),
    "report": (["report", "cutile", "-o", "OUT"],),
}  # fmt: skip

# Each run of these simulates a whole study: only at night, and then so many calls of each kind.
STUDIES = {"reproduce": 4, "report": 2}

# What differs from run to run: how long things took, names of processes, dates.
VARIES = re.compile(rb'"(elapsed_seconds|elapsed|seconds|tflops|least|most|spread|runs|date|disturbed)":[-+.e0-9]+|\d+(\.\d+)? [mnu]?s\b|'
                    rb"spread [.\d]+ %|\d+ runs|ms, [-+.\d]+ %|[.\d]+ [TGM]FLOP/s|\d{4}-\d\d-\d\d \d\d:\d\d|/tmp/[^/]+/")  # fmt: skip


# What doctor would load: NCCL's constructors, for one, follow null where an allocation fails. And what it would run: a Python that is
# a shell script chooses another version when it cannot read a file.
OTHERS = {**{f"WEFT_{name}": "/none" for name in ("CUDA_DRIVER", "CUPTI", "MPI_LIBRARY", "NCCL_LIBRARY", "NVML")}, "PATH": "/usr/bin:/bin"}


def environment(folder, **variables):
    return dict(os.environ, HOME=folder, XDG_CACHE_HOME=folder, WEFT_TUNING_DB=os.path.join(folder, "tuning.db"),
                OMP_NUM_THREADS="1", LC_ALL="C", **OTHERS, **variables)  # fmt: skip


def make_template(folder):
    """A folder with what the commands read."""

    def weft(*arguments):
        subprocess.run([WEFT, *arguments], check=True, capture_output=True, env=environment(folder), cwd=folder)

    weft("machines", "h100", "-o", "./MACHINE")
    weft("simulate", "gemm", *TINY, "--machine", "h100", "--trace-out", "TRACE")
    weft("tune", "gemm", "--m", "16", "--n", "32", *ONE)
    weft("tune", "--export", "-o", "TUNINGS")
    os.mkdir(os.path.join(folder, "PAGES"))
    grid = (2, 2)
    with open(os.path.join(folder, "ORDER"), "w") as file:
        file.writelines(f"{row} {column}\n" for row in range(grid[0]) for column in range(grid[1]))
    with open(os.path.join(folder, "OUT"), "wb") as file:
        file.write(b"before")


Result = collections.namedtuple("Result", "code output files lines called failed")


def contents(folder):
    """Every file but the store's, by name."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.startswith(("tuning.db", "count")):
                with open(os.path.join(place, name), "rb") as file:
                    found[os.path.relpath(os.path.join(place, name), folder)] = VARIES.sub(b"VARIES", file.read())
    return found


def run(folder, arguments, **variables):
    count = os.path.join(folder, "count")
    result = subprocess.run([WEFT, *arguments], capture_output=True, cwd=folder, stdin=subprocess.DEVNULL,
                            env=environment(folder, LD_PRELOAD=FAULTS, FAULTS_COUNT=count, **variables))  # fmt: skip
    called, failed = 0, "?"
    if os.path.exists(count):
        with open(count) as file:
            called, failed = file.read().split()
        os.remove(count)
    # The message of the threads' library begins with an empty line.
    lines = [VARIES.sub(b"VARIES", line.encode()).decode() for line in result.stderr.decode().splitlines() if line]
    return Result(result.returncode, VARIES.sub(b"VARIES", result.stdout), contents(folder), lines, int(called), failed)


class Trial:
    """A command of a case."""

    def __init__(self, template, arguments):
        self.template, self.arguments = template, arguments
        self.stateful = arguments[0] == "tune"
        self.takes_host = "host" in arguments or (arguments[0] in ("run", "order") and "--machine" not in arguments)
        with self.folder() as folder:
            self.before = contents(folder)
            self.right = run(folder, arguments)
            self.store = self.rows(folder)
        assert (self.right.code, self.right.lines) == (0, []), (arguments, self.right)

    def folder(self):
        place = tempfile.TemporaryDirectory()
        shutil.copytree(self.template, place.name, dirs_exist_ok=True)
        return place

    def rows(self, folder):
        """The rows of the store, without what differs from run to run."""
        if not self.stateful:
            return None
        listed = subprocess.run([WEFT, "tune", "--list", "--json"], capture_output=True, env=environment(folder), cwd=folder)
        return listed.returncode, re.sub(rb'"schedule":\{[^}]*\}', b"", VARIES.sub(b"VARIES", listed.stdout)), listed.stderr

    def count(self, kind):
        with self.folder() as folder:
            return run(folder, self.arguments, FAULTS=kind).called

    def what_is_wrong(self, kind, error, number, on):
        """None, or what a run with a fault did that is not right; and whether the fault mattered."""
        faults = {"FAULTS": kind, "FAULTS_AT": str(number), "FAULTS_ERROR": error, **({"FAULTS_ON": "1"} if on else {})}
        with self.folder() as folder:
            result, right = run(folder, self.arguments, **faults), self.right
            if result.failed == "-":
                return None, False
            if result.code == 0 and result[1:4] == right[1:4]:
                return None, False
            wrong = []
            if self.arguments[0] == "doctor" and result.code == 0 and self.tells(result.output):
                return None, True
            if error == "EACCES" and self.takes_host and result.code == 0:
                return None, True  # what the kernel shows to others than us it does not say: then it is assumed
            if kind == "memory" and on and result.code == -signal.SIGABRT and not result.output and result.files == self.before:
                return None, True  # jansson's parser asserts that it had memory: docs/reliability.md
            if result.code == 0:
                wrong.append("exit 0 without the right answer: " + self.difference(result))
            elif result.code not in (1, 2 if kind == "files" else 1) or len(result.lines) != 1 or not result.lines[0].startswith(("weft: ", "libgomp: ")):
                wrong.append("no status with a message of one line")
            if result.lines and result.lines[0].startswith("weft: not stored: "):
                return self.verdict(wrong + self.wrong_store(folder, result), result, kind, error, number, on)
            # Standard output fails in the middle: then what went before is out.
            fails_to_write = kind == "files" and (on or result.failed == "write")
            if result.code and result.output and not (fails_to_write and right.output.startswith(result.output)):
                same = "all of it" if result.output == right.output else "a part"
                wrong.append(f"there is output: {same}")
            # Nothing can be removed any more.
            left = {name: text for name, text in result.files.items() if not (on and kind == "files" and re.search(r"\.\d+(\.\d+)?$", name))}
            if result.code and left != self.before and left != right.files and self.arguments[0] != "man":
                wrong.append(f"files: {sorted(name for name in set(left) | set(self.before) if left.get(name) != self.before.get(name))}")
            if self.stateful:
                wrong += self.wrong_store(folder, result)
            return self.verdict(wrong, result, kind, error, number, on)

    def verdict(self, wrong, result, kind, error, number, on):
        if not wrong:
            return None, True
        how = "and all after it" if on else "alone"
        call = f"call {number} for {kind} ({result.failed}) {how}, {error}"
        return f"weft {' '.join(self.arguments)}: {call}: exit {result.code}, {result.lines}: {'; '.join(wrong)}", True

    def tells(self, output):
        """Doctor's answer is what does not work, and why."""
        findings = set(re.split(rb"\n  |\\{", output)) - set(re.split(rb"\n  |\\{", self.right.output))
        return all(re.match(rb'no  |    ->|.*"works":false', text, re.DOTALL) for text in findings if not text.startswith(b'"version"'))

    def difference(self, result):
        parts = zip(("output", "files", "messages"), result[1:4], self.right[1:4], strict=True)
        return ", ".join(name for name, one, other in parts if one != other)

    def wrong_store(self, folder, result):
        """The store is whole, holds what it held, and the same command works."""
        wrong, code = [], self.rows(folder)[0]
        if code:
            wrong.append("the store cannot be read")
        if any(".aside-" in name for name in os.listdir(folder)):
            wrong.append("the store was set aside")
        again = run(folder, self.arguments)
        if again.code and not (self.arguments[1] == "--forget"):
            wrong.append(f"and then it fails without a fault: {again.lines}")
        elif self.rows(folder) != self.store and self.arguments[1] != "--import":
            wrong.append("and then the store is not the same")
        return wrong


def points(count, samples):
    """Which calls fail: all, or some, spread evenly from a start that the seed gives."""
    most = max(1, samples)
    step = max(1, count // most)
    return range(1 + SEED % step, count + 1, step)


def try_case(name, template, pool):
    wrong, tried, mattered, calls = [], collections.Counter(), collections.Counter(), collections.Counter()
    for arguments in CASES[name]:
        trial = Trial(template, arguments)
        counts = {kind: trial.count(kind) for kind in ("memory", "files", "sqlite", "threads")}
        calls.update(counts)
        jobs = [(kind, error, number, on) for kind, error, samples in ERRORS for on in (False, True)
                for number in points(counts[kind], STUDIES.get(name) or (samples * ROUNDS // 100 if ROUNDS else counts[kind]))]  # fmt: skip
        for job, (what, matters) in zip(jobs, pool.map(lambda job, trial=trial: trial.what_is_wrong(*job), jobs), strict=True):
            tried[job[0]] += 1
            mattered[job[0]] += matters
            wrong += [what] if what else []
    print(f"{name:16}" + "".join(f" {kind} {calls[kind]} calls, {tried[kind]} faults, {mattered[kind]} mattered;" for kind in calls if calls[kind]))
    print("\n".join(wrong[:40]) + f"\n{len(wrong)} wrong" if wrong else "", end="\n" if wrong else "", flush=True)
    return len(wrong), sum(mattered.values())


def main():
    names = sys.argv[3:] or [name for name in CASES if name not in STUDIES or not ROUNDS]
    with tempfile.TemporaryDirectory() as template, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        make_template(template)
        results = [try_case(name, template, pool) for name in names]
    if not all(mattered for _, mattered in results):
        sys.exit("a case without a fault that mattered tests nothing")
    sys.exit(1 if any(wrong for wrong, _ in results) else 0)


if __name__ == "__main__":
    main()
