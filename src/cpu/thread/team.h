/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of threads. Every parallel region goes through here, so that each respects the guard against forks. */
#ifndef WEFT_CPU_THREADS_H
#define WEFT_CPU_THREADS_H

#include <stdint.h>

/* How many threads a team has at most, here and now: 1 in the child of a process that had a team. */
int64_t weft_cpu_threads(void);

/* Calls body(context, thread, threads) once in each of a team's threads, and returns when all are done. Thread 0 is the
 * caller's, and all compute in its floating-point environment. Takes all threads there are, or one where `alone`. */
void weft_cpu_team(int alone, void (*body)(void *context, int64_t thread, int64_t threads), void *context);

/* Inside a team: waits until all of its threads are here. */
void weft_cpu_team_wait(void);

/* Calls item(context, i) for every i from 0 to count - 1, over a team; the next thread that is free takes the next. */
void weft_cpu_for(int64_t count, void (*item)(void *context, int64_t i), void *context);

/* Whether threads share cores (SMT), or it is not known. A waiting thread leaves its share of the core to another. */
int weft_cpu_shares_cores(void);

/* Asks the system that now, unless it has said so before. Returns 0, or the number of the error for which it does not say;
 * the next call asks again. */
int weft_cpu_ask_cores(void);

#endif
