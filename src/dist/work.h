/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does: its buffers, its plans, and the steps of its pass. */
#ifndef WEFT_DIST_WORK_H
#define WEFT_DIST_WORK_H

#include "dist/dist.h"
#include "dist/io.h"
#include "dist/memory.h"

/* K and V, or their gradients, of some rows, as messages have them: (rows, batch, heads, row), contiguous, so that any run
 * of rows is one. */
typedef struct weft_dist_pair {
    char *k, *v;
} weft_dist_pair;

/* A tensor of the caller's: (batch, rows, all heads, dim) by its strides. */
typedef struct weft_dist_tensor {
    const char *at;
    weft_strides strides; /* in elements */
    int64_t rows, dim;
    weft_dtype dtype;
} weft_dist_tensor;

/* Adding rows of a part to rows of a part, in fp32: K and V, or blocks of columns of C and the rest of them; null: there is
 * none. */
typedef struct weft_dist_sum {
    const weft_plan *first, *second;
} weft_dist_sum;

/* The plans of a slice: what is computed, and adding its results to those of the rank and of the part. */
typedef struct weft_dist_slice_plans {
    const weft_plan *compute;
    const weft_plan *add_queries; /* O, or dQ */
    weft_dist_sum add;
} weft_dist_slice_plans;

/* A step of the pass: made once. */
typedef struct weft_dist_step {
    weft_hop hop;
    weft_dist_slice_plans *plans; /* of each of its slices */
    weft_move moves[WEFT_MOVES];
    size_t move_count;
    weft_range *home; /* backward: of this group's own keys, whose gradients come home from whoever has them at this step */
    size_t home_count;
    int64_t home_from;
    weft_dist_sum *add_home; /* of each range */
} weft_dist_step;

typedef struct weft_dist_plan { /* a plan of this rank, by its problem */
    weft_problem problem;
    weft_plan *plan;
} weft_dist_plan;

typedef struct weft_dist_work {
    weft_dist *dist;
    weft_io io;
    struct weft_staging *staging; /* null: the transport takes the memory that the rank computes in */
    weft_dist_memory memory;
    weft_plan_options options; /* of plans */
    weft_schedule schedule;
    weft_device device;

    weft_problem local;              /* this rank's tensors, as a problem of their own: for strides, and to check data */
    int64_t ring_rank, member;       /* this rank's group, and its number in it */
    int64_t heads, kv_heads;         /* that it computes */
    int64_t queries, keys;           /* rows of its group */
    int64_t key_stride;              /* from one of a chunk's keys to the next */
    int64_t slots, slot_rows;        /* buffers for parts, and rows of each */
    int64_t most_queries, most_keys; /* of a slice */

    weft_dist_plan *plans;
    size_t plan_count, plan_room, workspace_bytes;
    weft_dist_step *steps;

    void **blocks; /* all memory, to be given back */
    size_t block_count, block_room;
    size_t taken; /* bytes of them */
    void *workspace;
    weft_dist_pair own, *slot;      /* this group's keys; parts that come */
    char *q, *grad_o, *o, *lse;     /* of the group's queries: copies, where the caller's do not lie so */
    char *part_o, *part_lse;        /* of a slice: O or dQ */
    char *sums, *sums_lse;          /* of O or dQ in fp32, and forward the LSE */
    char *wide_o;                   /* backward: O in fp32 */
    char *part_k, *part_v;          /* backward: of a slice */
    weft_dist_pair home;            /* backward: gradients of own keys */
    weft_dist_pair *adds, arrivals; /* of parts, one more than steps between ranks; what comes home */
    int64_t adds_count;
    float *sinks;               /* backward: gradients of sinks, (ranks, heads), */
    const weft_plan *sink_plan; /* made by an attention of all queries, which see no key; null: there are none, */
    weft_dist_pair sink_keys;   /* and gradients of the one that it is given */
    float *host_sinks;          /* for the host: a copy of sinks, or of their gradients */
    const weft_plan *widen_o, *round_queries, *round_keys, *round_values;
    struct weft_dist_heads *exchange;  /* heads.c; null: heads are not exchanged */
    struct weft_dist_product *product; /* gemm_work.h; null: it is no matrix product */
} weft_dist_work;

/* make.c */
weft_status weft_dist_work_create(weft_dist *dist, const weft_dist_options *options, weft_message *message);

/* Two buffers, for so many rows of a part or of its sums. */
weft_status weft_dist_take_pair(weft_dist_work *work, int64_t rows, size_t first, size_t second, weft_dist_pair *pair,
                                weft_message *message);

/* Takes the buffers, when all plans are made. */
weft_status weft_dist_work_take(weft_dist_work *work, weft_message *message);
void weft_dist_work_destroy(weft_dist_work *work);

/* plans.c: a plan for a problem of this rank, made once. */
weft_status weft_dist_plan_of(weft_dist_work *work, const void *problem, const weft_plan **plan, weft_message *message);

/* Runs a plan, and lets what is under way go on meanwhile. */
weft_status weft_dist_compute(weft_dist_work *work, const weft_plan *plan, const void *data, weft_message *message);

/* Memory for the life of the work, where the rank computes and the transport reads and writes. */
weft_status weft_dist_take(weft_dist_work *work, size_t bytes, char **at, weft_message *message);

/* Copies between a caller's tensor, of which `heads` heads from `head` on count, and (rows, batch, heads, dim). */
weft_status weft_dist_pack(const weft_dist_work *work, void *rows, const weft_dist_tensor *tensor, int64_t head,
                           int64_t heads, weft_message *message);
weft_status weft_dist_unpack(const weft_dist_work *work, const weft_dist_tensor *tensor, const void *rows, int64_t head,
                             int64_t heads, weft_message *message);

/* What stays where it is while keys come by: tensors of (rows, batch, heads, dim). */
typedef struct weft_dist_queries {
    const char *q, *grad_o, *o; /* O in fp32 */
    const float *lse, *alibi, *sinks;
    const char *bias;
} weft_dist_queries;

#endif
