/* SPDX-License-Identifier: Apache-2.0 */
/* Linked in place of src/bench/bench_time.c: a plan takes as long as the test says, on a clock that nothing else moves. */
#ifndef WEFT_TESTS_TUNE_SCRIPTED_BENCH_H
#define WEFT_TESTS_TUNE_SCRIPTED_BENCH_H

#include "bench/bench.h"

/* Seconds that one of `repeats` runs takes. */
typedef double (*script)(const weft_plan *plan, int64_t repeats);

/* The script from now on; null: every run takes a millisecond. */
void scripted_bench(script seconds);

#endif
