/* Schedules to choose from, simulated over threads and sorted by a rule. */
#ifndef WEFT_SEARCH_ENTRIES_H
#define WEFT_SEARCH_ENTRIES_H

#include <weft/search.h>

#include "search/space.h"

/* A schedule and what it would cost. */
typedef struct weft_search_entry {
    weft_ranked ranked;
    size_t number;        /* in the listing: the first of equals is taken */
    int is_usual;         /* of those that differ in orders and sweeps alone */
    int valid;            /* the plan could be made and simulated */
    uint64_t wave, steps; /* steps of the longest tile of every worker, and of all tiles */
    int grade;            /* by the rule: 0 the best, then 1, then 2 */
    int is_finalist;
    size_t rank; /* how many of the same order and tile come before it */
} weft_search_entry;

/* A question, and the entries that answer it. */
typedef struct weft_search_entries {
    weft_plan draft;
    const weft_machine *machine; /* null: the device's own */
    weft_search_options options;
    weft_simulate_options simulate;
    weft_search_entry *list;
    size_t count, room;
} weft_search_entries;

/* Makes an entry of a schedule, laid out but not simulated. WEFT_UNSUPPORTED when `must_fit` and its tile does not fit a
 * worker's memory. */
weft_status weft_search_lay_out(const weft_search_entries *all, const weft_schedule *schedule, int must_fit,
                                weft_search_entry *entry, weft_message *message);

/* Appends every schedule of a space: without those that cannot be made, that do not fit, or that the list has already. */
weft_status weft_search_append(weft_search_entries *all, const weft_space *space, int must_fit, weft_message *message);

/* Simulates `count` entries over threads, each for about `steps` of its steps, at least a wave, or whole when that is 0;
 * but for fewer than `waves` waves where that is not 0. The caller's own limit goes before. What was simulated for as long
 * before is left alone. WEFT_NO_MEMORY when memory ran out for one of them. */
weft_status weft_search_simulate(const weft_search_entries *all, weft_search_entry *list, size_t count, uint64_t steps,
                                 uint64_t waves, weft_message *message);

/* Sorts by the rule, what could not be simulated last. Returns how many were. */
size_t weft_search_sort(weft_search_entry *list, size_t count);

/* For when nothing could be simulated: says why. */
weft_status weft_search_refuse(const weft_search_entries *all, weft_message *message);

#endif
