/* Schedules to choose from, simulated in parallel. */
#ifndef WEFT_CLI_CANDIDATES_H
#define WEFT_CLI_CANDIDATES_H

#include <jansson.h>

#include <weft/sim.h>

#include "options.h"

/* A schedule and what it would cost. */
typedef struct candidate {
    settings chosen; /* the user's options with this candidate's choices filled in */
    weft_schedule schedule;
    weft_simulation sim;
    int valid;       /* the plan could be made and simulated */
    int fast;        /* within 3 % of the fastest */
    double measured; /* seconds on the device, the median; 0: not measured */
} candidate;

/* What may vary; what the user has fixed stays fixed. */
typedef struct candidate_space {
    int tiles, groups, dispatches; /* try these too, beside orders and sweeps */
    uint64_t waves;                /* of tiles to simulate of each; 0: all */
} candidate_space;

/* Fills *list (the caller frees it) and *count with every candidate, simulated, the fastest first; among those that are
 * equally fast to 1 %, the one that reads least from DRAM. Returns an exit code, with the message printed. */
int candidates_make(const settings *s, weft_subject subject, const candidate_space *space, candidate **list, size_t *count);

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
