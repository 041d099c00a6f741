#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No test depends on how fast or busy the machine is: none reads a clock or gives up after some seconds. A test that hangs is
# ended by ctest, after WEFT_TEST_TIMEOUT. Timing belongs to bench/.
set -eu
cd "$(dirname "$0")/../.."
reads='clock_gettime|gettimeofday|CLOCKS_PER_SEC|omp_get_wtime|std::chrono|perf_counter|process_time|time\.(time|monotonic)\(|timeit|[( ,]timeout=|max_total_time|[^_]TIMEOUT [0-9]'
# Files that may, and why.
allowed='
tests/cpu/kernel/test_kernels\.c      --bench prints how fast each kernel is, and nothing is held to it
tests/cuda/attention_trial\.h  prints what a call costs the host, and nothing is held to it
tests/package/wheel\.sh        tells how long an installation took, and nothing is held to it
tests/lint/clocks\.sh          the words themselves
'
files=$(printf '%s' "$allowed" | sed -n 's/^\([^ ]*\) .*/\1/p' | paste -sd '|')
if found=$(grep -rnE "$reads" tests | grep -vE "^($files)"); then
    printf 'tests that read a clock:\n%s\n' "$found"
    exit 1
fi
