/* Timing candidates against each other: in turns, round by round, and whoever is clearly behind leaves. */
#ifndef WEFT_TUNE_RACE_H
#define WEFT_TUNE_RACE_H

#include "tune/bench.h"
#include "tune/candidates.h"

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
} weft_race;

/* Runs the race; race->best and race->state hold what came out. WEFT_FAILED when no candidate could be run. */
weft_status weft_race_run(weft_race *race, weft_message *message);

/* A candidate's figures: the median of its times and their spread. */
weft_tuned weft_race_figures(const weft_candidate *candidate);

#endif
