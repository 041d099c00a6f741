/* SPDX-License-Identifier: Apache-2.0 */
/* `--counters`: what the hardware counts of a plan, beside what the simulator says. */
#ifndef WEFT_CLI_COUNT_H
#define WEFT_CLI_COUNT_H

#include "studies/device_bench.h"
#include "verbs/ranking.h"

/* Counts one run of a plan that is on a GPU, and simulates it. Returns an exit code, with the message printed. */
int count_plan(const settings *s, const weft_plan *plan, device_case *counted);

/* The same, without simulating, for every schedule of a ranking; `counted` has room for as many. */
int count_ranking(const settings *s, const ranking *r, device_case *counted);

#endif
