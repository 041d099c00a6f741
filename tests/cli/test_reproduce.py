# SPDX-License-Identifier: Apache-2.0
"""A study's judged rows are within their tolerance or known to fail, over all seeds, and every other row says why it is not judged.

    test_reproduce.py PATH_TO_WEFT STUDY [SEEDS]
"""

import json
import subprocess
import sys

weft, study, seeds = [*sys.argv[1:], "5"][:3]
command = [weft, "reproduce", study, "--seeds", seeds]
result = subprocess.run([*command, "--json"], capture_output=True, text=True)
report = json.loads(result.stdout)
rows = report[study]
judged = [row for row in rows if "passed" in row]
outside = [row for row in judged if not row["passed"] and "known_failure" not in row]
for row in outside:
    print("outside:", row["section"], row["label"], row["published"], row["simulated"], row["least"], row["largest"])
assert judged and not outside
assert report["outside"] == 0 and result.returncode == 0, result.returncode
assert report["seeds"] == int(seeds) and report["seed"] == 1
assert report["known_failures"] == sum("known_failure" in row for row in judged)
for row in rows:
    assert row["seeds"] == int(seeds) and row["least"] <= row["simulated"] * (1 + 1e-12), row
    assert row["simulated"] <= row["largest"] * (1 + 1e-12), row
    assert ("passed" in row) != ("why" in row), row
    assert "passed" not in row or row["tolerance"] in ("exact", "count", "speed", "scaling", "range"), row
assert any(row["least"] < row["largest"] for row in rows)
if seeds != "5":  # a short study: its text has the same rows
    text = subprocess.run([*command, "--seed", "11"], capture_output=True, text=True).stdout
    assert text.count("fails, because ") == report["known_failures"] and " .. " in text, text
    assert f"\n{len(rows)} rows, 0 outside their tolerance" in text, text
print(f"{study}: {len(rows)} rows, {len(judged)} judged, {report['known_failures']} known failures, none else outside")
