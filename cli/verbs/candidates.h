/* Schedules to choose from, simulated in parallel. */
#ifndef WEFT_CLI_CANDIDATES_H
#define WEFT_CLI_CANDIDATES_H

#include <jansson.h>

#include <weft/sim.h>

#include "options/options.h"

/* A schedule and what it would cost. */
typedef struct candidate {
    settings chosen; /* the user's options with this candidate's choices filled in */
    size_t number;   /* in the listing: the first of equals is taken */
    int is_usual;    /* of those that `weft compare` shows */
    int valid;       /* the plan could be made and simulated */
    weft_schedule schedule;
    uint64_t wave, steps; /* steps of the longest tile of every worker, and of all tiles */
    weft_simulation sim;
    uint64_t limit;  /* of that simulation, in steps; 0: none */
    int grade;       /* by the rule: 0 the best, then 1, then 2 */
    int is_finalist; /* see search.h */
    size_t turn;     /* how many of the same order and tile come before it */
    double measured; /* seconds on the device, the median; 0: not measured */
} candidate;

/* The rule by which one schedule is put before another, in words. */
extern const char candidates_rule[];

/* What may vary beside orders and sweeps; what the user has fixed stays fixed. */
typedef struct candidate_space {
    int tiles, groups, dispatches;
    int must_fit; /* a tile that the user has not chosen has to fit a worker's memory */
} candidate_space;

/* Makes a candidate of the options, laid out but not simulated. Fails when that cannot be done, or with `must_fit` when it
 * does not fit a worker's memory. */
weft_status candidate_lay_out(candidate *c, const settings *s, weft_subject subject, int must_fit);

/* Candidates that grow by appending. */
typedef struct candidate_list {
    candidate *list; /* the caller frees it */
    size_t count, room;
} candidate_list;

/* Appends every candidate there is, laid out but not simulated: without those that cannot be made, that do not fit, or that
 * the list has already. Returns an exit code, with the message printed. */
int candidates_append(candidate_list *all, const settings *s, weft_subject subject, const candidate_space *space);

/* Simulates each, in parallel, for about `steps` of its steps, at least a wave, or whole where that is 0; but for fewer
 * than `waves` waves where that is not 0. The user's own limit goes before. What was simulated for as long before is left
 * alone. Returns an exit code, with the message printed: memory may run out. */
int candidates_simulate(candidate *list, size_t count, weft_subject subject, uint64_t steps, uint64_t waves);

/* Sorts by the rule, what could not be simulated last. Returns how many were. */
size_t candidates_sort(candidate *list, size_t count);

/* For when nothing could be simulated: says why, and returns the exit code. */
int candidates_refuse(const settings *s, weft_subject subject);

/* The candidates of `weft compare`, at least one, simulated whole and sorted. Returns an exit code, with the message
 * printed. */
int candidates_make(const settings *s, weft_subject subject, candidate **list, size_t *count);

/* Runs every candidate on the GPU that the options name, in turns, and fills in what was measured. Returns an exit code,
 * with the message printed. */
int candidates_measure(const settings *s, candidate *list, size_t count, weft_subject subject);

/* A schedule in a few words: "128x64 head-first sawtooth static". */
void candidate_name(const candidate *c, char *text, size_t size);

/* What it would cost, as a line under a header or as an object. */
void candidate_print_header(int measured);
void candidate_print(const candidate *c);
json_t *candidate_json(const candidate *c);

#endif
