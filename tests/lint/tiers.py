#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test has exactly one tier: tiers.py BUILD"""
import json
import subprocess
import sys

TIERS = {"quick", "gate", "nightly", "gpu"}


def main():
    listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=sys.argv[1], check=True, capture_output=True, text=True)
    tests = json.loads(listing.stdout)["tests"]
    wrong = []
    for test in tests:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        if len(TIERS & set(labels)) != 1:
            wrong.append(f"{test['name']}: labels {labels}: not one of {sorted(TIERS)}; call weft_label_test()")
    print("\n".join(wrong) if wrong else f"{len(tests)} tests")
    return 1 if wrong or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
