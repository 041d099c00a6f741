#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzzer for a while, one after the other, keeping what it learns under its directory. An input that takes a minute, far
# longer than any does on a busy machine, is a hang.
#   scripts/fuzz.sh DIRECTORY_OF_FUZZERS SECONDS
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
for fuzzer in fuzz_*; do
    if [ ! -f "$fuzzer" ] || [ ! -x "$fuzzer" ]; then
        continue
    fi
    mkdir -p "corpus/$fuzzer"
    if ! "./$fuzzer" "corpus/$fuzzer" "$root/tests/fuzz/seeds" "$root/machines" "$root/profiles" -max_total_time="$2" \
        -timeout=60 -rss_limit_mb=1024 -print_final_stats=1 >"corpus/$fuzzer.log" 2>&1; then
        tail -n 40 "corpus/$fuzzer.log"
        exit 1
    fi
    echo "$fuzzer: $2 s, $(sed -n 's/^stat::number_of_executed_units: *//p' "corpus/$fuzzer.log") runs, nothing found"
done
