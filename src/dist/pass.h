/* SPDX-License-Identifier: Apache-2.0 */
/* A pass: parts come by, one a step, while the rank computes with the last. */
#ifndef WEFT_DIST_PASS_H
#define WEFT_DIST_PASS_H

#include "dist/work.h"

/* What a pass begins with, in (rows, ...). */
typedef struct weft_dist_inputs {
    weft_dist_pair own; /* what moves: this group's part */
    const void *fixed;  /* what stays: as the kind has it */
    char *kept;
} weft_dist_inputs;

typedef struct weft_pass {
    weft_dist_work *work;
    const weft_dist_inputs *in;
    weft_dist_row row;
    int64_t received, sent; /* steps whose receives, and whose sends, have begun */
    weft_message *message;
} weft_pass;

weft_status weft_dist_pass(weft_dist_work *work, const weft_dist_inputs *in, weft_message *message);

/* Whether nothing was added before to the rows of a part that a slice computes, and it computes all of them: then they are
 * sums as they are, and it writes them to `sums`. */
int weft_pass_begins(const weft_pass *pass, const weft_dist_slice *slice, const weft_hop *hop, weft_dist_pair *sums);

/* Adds what another slice has computed of its rows of a part to their sums, and waits before for what others
 * have added so far. */
weft_status weft_pass_add(const weft_pass *pass, const weft_dist_slice *slice, const weft_dist_slice_plans *plans,
                          const weft_hop *hop, const weft_dist_pair *computed);

#endif
