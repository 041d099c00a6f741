"""A study's rows: those outside their tolerance are known, and no others.

    test_reproduce.py PATH_TO_WEFT STUDY

Each row named here is a place where the simulator is wrong; docs/simulator.md says what is known about it. A row that gets right, or a
new one that gets wrong, fails this test.
"""

import json
import subprocess
import sys

SIDE = "experiment 2, each side reads one buffer"
KNOWN = {
    "h200": {(SIDE, f"{what}, X = 18 MiB") for what in ["DRAM reads", "L2 misses", "fabric"]},
}

weft, study = sys.argv[1:]
result = subprocess.run([weft, "reproduce", study, "--json"], capture_output=True, text=True)
report = json.loads(result.stdout)
outside = {(row["section"], row["label"]) for row in report[study] if row.get("passed") is False}
for row in sorted(outside ^ KNOWN.get(study, set())):
    print("outside, and not known:" if row in outside else "known, and not outside:", *row)
assert outside == KNOWN.get(study, set())
assert report["outside"] == len(outside) and result.returncode == (1 if outside else 0), result.returncode
print(f"{study}: {len(report[study])} rows, {len(outside)} outside, all of them known")
