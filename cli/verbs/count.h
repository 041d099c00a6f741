/* `--counters`: what the hardware counts of a plan, beside what the simulator says. */
#ifndef WEFT_CLI_COUNT_H
#define WEFT_CLI_COUNT_H

#include "studies/device_bench.h"
#include "verbs/candidates.h"

/* Counts one run of a plan that is on a GPU, and simulates it. Returns an exit code, with the message printed. */
int count_plan(const weft_plan *plan, device_case *counted);

/* The same for every candidate; `counted` has room for as many. */
int count_candidates(const candidate *list, size_t count, weft_subject subject, device_case *counted);

/* A line under a candidate's own, in the same columns: what was measured in place of what was simulated. */
void count_print(const device_case *counted);

#endif
