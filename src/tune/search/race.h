/* SPDX-License-Identifier: Apache-2.0 */
/* Timing candidates against each other: in turns, round by round, and whoever is clearly behind leaves. */
#ifndef WEFT_TUNE_RACE_H
#define WEFT_TUNE_RACE_H

#include "bench/bench.h"
#include "tune/search/candidates.h"

enum { WEFT_RACE_ROUNDS = 21 }; /* that the last ones run */
#define WEFT_RACE_SAMPLE 5e-4   /* seconds that a sample should take at least: short runs are repeated */

typedef struct weft_race {
    weft_candidates *candidates;
    weft_bench *bench;
    weft_tune_options options;
    void (*timed)(void *user, const weft_tuned *trial); /* told of a candidate whenever its figures have changed; or null */
    void *user;
    weft_tune_state state;
    weft_tuned best;
    double begin, reported;
    int stopped;
    int no_memory; /* a candidate has left the race because memory ran out */
} weft_race;

/* Runs the race; race->best and race->state hold what came out. WEFT_FAILED when no candidate could be run. */
weft_status weft_race_run(weft_race *race, weft_message *message);

/* sample.c. A candidate's figures: the median of its times and their spread. */
weft_tuned weft_race_figures(const weft_candidate *candidate);

/* One sample of a candidate: `repeats` runs. Returns 0 where it fails; then it leaves the race. */
int weft_race_sample(weft_race *race, weft_candidate *candidate, int64_t repeats, double *seconds, weft_message *message);

/* Repetitions of a run of `seconds` that make a sample of so many; never more than 64 in half a millisecond. */
int64_t weft_race_repeats(double seconds, double sample);

/* Whether a candidate has room for WEFT_RACE_ROUNDS times; makes it where there is none. */
int weft_race_has_times(weft_candidate *candidate, weft_message *message);

/* Tells the caller how it goes, twenty times a second at most, and asks whether to stop. */
void weft_race_report(weft_race *race, double left, int last);

/* The last part of the race, and about how long it takes. Where there is no time for it, all stays as it is. */
double weft_race_final_seconds(const weft_race *race);
weft_status weft_race_final(weft_race *race, weft_message *message);

#endif
