#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs fuzzers, one after the other and each for a while, keeping what they learn under their directory: all of them, or those
# that are named. Prints of each how many inputs it tried, in how long, how many edges of the code they reach together and how
# many of them are kept. Runs are counted up in corpus/tally. An input that takes a minute, far longer than any does on a busy
# machine, is a hang.
#   scripts/fuzz.sh DIRECTORY_OF_FUZZERS SECONDS [FUZZER...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
seconds=$2
shift 2
if [ $# -eq 0 ]; then
    for fuzzer in fuzz_*; do
        if [ -f "$fuzzer" ] && [ -x "$fuzzer" ]; then
            set -- "$@" "$fuzzer"
        fi
    done
fi
for fuzzer; do
    mkdir -p "corpus/$fuzzer" "known/$fuzzer"
    # What reads a byte for each number needs no long inputs.
    long=
    if grep -q 'next_byte(' "$root/tests/fuzz/$fuzzer.c"; then
        long=-max_len=96
    fi
    # shellcheck disable=SC2086 # nothing or one word
    if ! "./$fuzzer" "corpus/$fuzzer" "known/$fuzzer" "$root/tests/fuzz/seeds" "$root/machines" "$root/profiles" -max_total_time="$seconds" $long \
        -timeout=60 -rss_limit_mb=1024 -print_final_stats=1 >"corpus/$fuzzer.log" 2>&1; then
        tail -n 40 "corpus/$fuzzer.log"
        exit 1
    fi
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "corpus/$fuzzer.log")
    took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) .*/\1/p' "corpus/$fuzzer.log")
    edges=$(sed -n 's/^#.*DONE *cov: \([0-9]*\).*/\1/p' "corpus/$fuzzer.log")
    kept=$(sed -n 's/^#.*DONE.* corp: \([0-9]*\).*/\1/p' "corpus/$fuzzer.log")
    echo "$fuzzer $inputs $took $edges $kept" >>corpus/tally
    printf '%-16s %12d inputs %6d s %6d edges %6d kept\n' "$fuzzer" "$inputs" "$took" "$edges" "$kept"
done
awk '{ inputs[$1] += $2; took[$1] += $3; edges[$1] = $4; kept[$1] = $5; all += $2; time += $3 }
     END { print "since the first run:"
           for (f in inputs) printf "%-16s %12d inputs %6d s %6d edges %6d kept\n", f, inputs[f], took[f], edges[f], kept[f] | "sort"
           close("sort"); printf "%-16s %12d inputs %6d s\n", "all", all, time }' corpus/tally
