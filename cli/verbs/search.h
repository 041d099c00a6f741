/* The search of `weft plan`: a short race of all schedules, then a final of the best, simulated whole. */
#ifndef WEFT_CLI_SEARCH_H
#define WEFT_CLI_SEARCH_H

#include "verbs/candidates.h"

typedef struct search {
    candidate *list;            /* the finalists, sorted by the rule: the first is recommended. The caller frees it */
    size_t finalists;           /* how many they are */
    size_t searched, schedules; /* that were raced, of how many: fewer where even a wave of each would take too long */
    size_t last;                /* of these, the first: those of the last round, which were simulated longest */
    uint64_t limit;             /* of steps of each in that round; 0: none */
    int whole;                  /* 1: that round was simulated whole */
    candidate baseline;         /* what the first is measured against */
    int has_baseline;           /* 0: there is no other schedule */
    int is_plain;               /* 1: the baseline is the plain schedule; 0: it is the next best */
} search;

/* How long the race is: up to so many waves of tiles of each schedule. And the finalists beside those of `weft compare`: so
 * many by time, and as many by DRAM reads. */
enum { SEARCH_WAVES = 3, SEARCH_PICKED = 12 };

/* Returns an exit code, with the message printed. */
int search_run(const settings *s, weft_subject subject, search *found);

#endif
