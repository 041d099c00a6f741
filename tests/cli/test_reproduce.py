"""A study's judged rows are all within their tolerance.

    test_reproduce.py PATH_TO_WEFT STUDY
"""

import json
import subprocess
import sys

weft, study = sys.argv[1:]
result = subprocess.run([weft, "reproduce", study, "--json"], capture_output=True, text=True)
report = json.loads(result.stdout)
judged = [row for row in report[study] if "passed" in row]
outside = [row for row in judged if not row["passed"]]
for row in outside:
    print("outside:", row["section"], row["label"], row["published"], row["simulated"])
assert judged and not outside
assert report["outside"] == 0 and result.returncode == 0, result.returncode
print(f"{study}: {len(report[study])} rows, {len(judged)} judged, none outside")
