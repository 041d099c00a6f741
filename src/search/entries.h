/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules to choose from, and what each would cost. */
#ifndef WEFT_SEARCH_ENTRIES_H
#define WEFT_SEARCH_ENTRIES_H

#include <weft/search.h>

#include "base/tally.h"
#include "search/space.h"
#include "sim/bound.h"

/* A schedule and what it would cost. */
typedef struct weft_search_entry {
    weft_ranked ranked;
    size_t number;        /* in the listing: the first of equals is taken */
    uint64_t print;       /* of weft_space_fingerprint() */
    int is_usual;         /* of those that differ in orders and sweeps alone: what weft compare shows */
    int valid;            /* the plan could be made and simulated */
    uint64_t wave, steps; /* steps of the longest position of every worker, and of all tiles */
    weft_bound bound;     /* all 0: the simulator does not take it */
    double estimate;      /* seconds of the whole, by the part that was simulated */
    int grade;            /* by the rule: 0 the best, then 1, then 2 */
    int is_default;       /* what a plan with the same open choices takes */
    int stays;            /* for the next round */
    size_t rank;          /* how many of the same order and tile come before it */
} weft_search_entry;

/* A question, and the entries that answer it. */
typedef struct weft_search_entries {
    weft_plan draft;
    const weft_machine *machine; /* null: the device's own */
    weft_machine shown;          /* the one that plans were laid out for */
    weft_search_options options;
    weft_simulate_options simulate;
    weft_search_entry *list;
    size_t count, room;
    weft_tally tally; /* steps that are simulated, of about how many */
} weft_search_entries;

/* Makes an entry of a schedule, laid out but not simulated. WEFT_UNSUPPORTED when `must_fit` and its tile does not fit a
 * worker's memory. */
weft_status weft_search_lay_out(weft_search_entries *all, const weft_schedule *schedule, int must_fit,
                                weft_search_entry *entry, weft_message *message);

weft_status weft_search_append_one(weft_search_entries *all, const weft_search_entry *entry, weft_message *message);

/* Appends every schedule of a space: without those that cannot be made, that do not fit, or that do what one in the list
 * does already. */
weft_status weft_search_append(weft_search_entries *all, const weft_space *space, int must_fit, weft_message *message);

/* Simulates `count` entries over threads, each for about `steps` of its steps in whole waves, or whole when that is 0.
 * The caller's own limit goes before. What was simulated for as long before is left alone. WEFT_NO_MEMORY when memory ran
 * out for one of them. */
weft_status weft_search_simulate(weft_search_entries *all, weft_search_entry *list, size_t count, uint64_t steps,
                                 weft_message *message);

/* For when nothing could be simulated: says why. */
weft_status weft_search_refuse(const weft_search_entries *all, weft_message *message);

/* rule.c: sorts by the rule, what could not be simulated last. Returns how many were. The second sorts by the rule for
 * schedules that the kernels' model has priced. */
size_t weft_search_sort(weft_search_entry *list, size_t count);
void weft_search_sort_priced(weft_search_entry *list, size_t count);
const char *weft_search_rule_priced(void);

/* priced.c: lists the schedules that the kernels of the draft's backend can take, prices them by the backend's model, and
 * simulates the first for their traffic, within about `budget` steps. *simulated says how many. Returns WEFT_UNSUPPORTED,
 * with the reason, when there is no kernel or no model of it. */
weft_status weft_search_price(weft_search_entries *all, uint64_t budget, size_t *simulated, weft_message *message);

/* rounds.c: simulates the list in rounds, within about `budget` steps: each leaves those that may be the best for the next,
 * which simulates a larger share, the last one whole where that is affordable. What took part in the last round comes
 * first, sorted by the rule; *last says how many these are, *limit for how many steps each was simulated (0: whole), and
 * *first how many took part in the first. WEFT_FAILED, without a message, when nothing could be simulated. */
weft_status weft_search_race(weft_search_entries *all, uint64_t budget, size_t *first, size_t *last, uint64_t *limit,
                             weft_message *message);

#endif
