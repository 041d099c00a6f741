/* SPDX-License-Identifier: Apache-2.0 */
/* weft run --ranks: what differs between kinds of problems that threads of this process share. */
#ifndef WEFT_CLI_RANKS_RUN_H
#define WEFT_CLI_RANKS_RUN_H

#include "cli.h"
#include "verbs/ranks.h"

struct ranks_kind;

/* All ranks together. */
typedef struct ranks_whole {
    const settings *settings;
    const struct ranks_kind *kind;
    question q;
    weft_ranks ranks;
    weft_threads *threads;
    const void *data; /* of one run of the whole problem: inputs have been drawn */
    void *before;     /* the data as it was, where a run reads what it writes; null: it does not */
    int64_t runs;
    int lost; /* atomic; 1: a rank has failed, so that nobody need wait for it */
} ranks_whole;

/* One of them. */
typedef struct ranks_member {
    ranks_whole *w;
    int32_t rank;
    weft_transport transport; /* the threads' own */
    int gives_up;             /* 1: because another rank has failed */
    weft_status status;
    weft_message message;
    weft_dist *dist;     /* what is timed */
    void *parts;         /* the kind's own */
    double *begin, *end; /* of each run */
    weft_dist_traffic expected, counted;
    double of_a_message; /* how much of a run it is, for progress: one, and the end of the run, are as much */
} ranks_member;

typedef struct ranks_kind {
    size_t parts_size; /* bytes of what a member has, which is zero at first */

    weft_status (*keep)(ranks_whole *w); /* fills in `before`, one block of memory */

    /* Copies a rank's part of the inputs out of the whole; m->dist is there. Then what a timed run needs before it. */
    weft_status (*take)(ranks_member *m, const weft_dist_options *options);
    weft_status (*renew)(ranks_member *m);
    weft_status (*run)(ranks_member *m);

    /* Puts a rank's results where those of one run are. */
    void (*put)(const ranks_member *m);
    void (*release)(ranks_member *m);
} ranks_kind;

extern const ranks_kind ranks_of_attention, ranks_of_gemm;

#endif
