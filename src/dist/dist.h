/* SPDX-License-Identifier: Apache-2.0 */
/* Work over ranks, from the inside: who has which rows, what a rank computes at a step, and what comes and goes for it.
 *
 * rows.c says who has which rows; slices.c what some queries see of some keys; hops.c which part a rank takes at a step and
 * from whom. These are pure functions of a problem and a weft_ranks, which the ranks and the simulator share. */
#ifndef WEFT_DIST_DIST_H
#define WEFT_DIST_DIST_H

#include <weft/dist.h>

#include "problem/operation.h"

/* Rows of one kind, queries or keys, of all ranks. */
typedef struct weft_dist_rows_of {
    int64_t total;
    int64_t most;       /* that a rank has */
    weft_chunk *chunks; /* those of rank r: first[r] .. first[r + 1] - 1, ascending */
    int64_t *first;     /* (ranks + 1) */
    int64_t *at;        /* for each chunk, the rows of its rank that lie before it */
} weft_dist_rows_of;

/* Some rows of a rank's tensors, or of a part. */
typedef struct weft_range {
    int64_t begin, end;
} weft_range;

/* A rectangle of a rank's queries and a part's keys under a mask of its own: an attention by itself. */
typedef struct weft_dist_slice {
    weft_range queries, keys;
    weft_mask mask;
    int64_t offset, left, right;
    int64_t sequence; /* of a packed batch */
    double pairs;     /* that see each other */
} weft_dist_slice;

/* A list that grows. */
typedef struct weft_dist_slices {
    weft_dist_slice *list;
    size_t count, room;
} weft_dist_slices;

/* Bytes of a row of the two tensors that a part has, and of the sums in fp32 that go with it; 0: there is no such tensor. A
 * pass moves what is there: K and V, and backward their gradients; rows of A; or sums of rows of C. */
typedef struct weft_dist_row {
    size_t k, v, k_sums, v_sums;
} weft_dist_row;

struct weft_dist {
    weft_problem problem; /* resolved; sizes are those of all ranks, strides as if packed */
    weft_problem given;   /* as the caller gave it: its strides are those of a rank's tensors */
    const weft_operation_row *operation;
    const struct weft_dist_kind *kind;
    void *memory;     /* what the problem points to */
    weft_ranks ranks; /* every choice made */
    weft_dist_row row;
    int adds;     /* sums of parts go from rank to rank, or home */
    int keeps;    /* a run may leave the part that it ended on to another */
    int64_t runs; /* of a rank, where the cut is balanced */
    weft_dist_rows_of rows[2];
    int64_t rings;  /* ranks that parts come by: ranks / head_ranks. Those of a group, which exchange heads, are one */
    weft_ring ring; /* of these */
    int64_t pieces; /* that a part comes in */
    int64_t steps;  /* rings * pieces */
    int64_t rank;   /* this one; -1: on paper */
    struct weft_dist_work *work; /* null: on paper */
};

/* rows.c */
weft_status weft_dist_deal(weft_dist *dist, weft_message *message);
void weft_dist_rows_free(weft_dist_rows_of *rows);

/* The chunks of a group of ranks that exchange heads, as one after another they lie in its tensors. */
typedef struct weft_dist_group {
    const weft_dist_rows_of *of;
    int64_t first_rank;
    int64_t first, end; /* chunks */
    int64_t rows;
} weft_dist_group;
weft_dist_group weft_dist_group_of(const weft_dist *dist, int64_t ring_rank, int32_t of);

/* A chunk of a group, and the rows of the group before it. */
weft_chunk weft_dist_group_chunk(const weft_dist_group *group, int64_t number, int64_t *before);

/* slices.c: lists of slices. */
weft_status weft_dist_slices_add(weft_dist_slices *slices, weft_dist_slice slice, weft_message *message);
void weft_dist_slices_free(weft_dist_slices *slices);

/* Whether it is gradients that are computed: the results of another operation are among its inputs. */
static inline int weft_dist_is_backward(const weft_dist *dist) {
    return dist->operation->after != 0;
}

/* Whether it is a matrix product whose k is shared: sums of rows of C go home. */
static inline int weft_dist_shares_k(const weft_dist *dist) {
    return dist->ranks.cut == WEFT_CUT_K;
}

/* problems.c: what a rank computes: the attention of a slice, without strides of a bias; adding results to sums in fp32, or
 * with `sum` = 0 and LSEs by their weights; rounding sums. A rank has so many heads. */
int64_t weft_dist_heads_of(const weft_dist *dist);
int64_t weft_dist_kv_heads_of(const weft_dist *dist);
weft_attention weft_dist_slice_problem(const weft_dist *dist, const weft_dist_slice *slice);
weft_combine weft_dist_adding(const weft_dist *dist, int64_t rows, int64_t heads, int64_t dim);
weft_combine weft_dist_rounding(const weft_dist *dist, int64_t rows, int64_t heads, int64_t dim);

/* hops.c: what a group of ranks does at a step of its pass. Groups are called by their number in the ring. */
typedef struct weft_hop {
    int64_t step, part, piece;
    weft_range keys; /* of the part, that this piece of it has */
    int64_t source;  /* who sends them; the group itself: nobody does */
    weft_dist_slices slices;
    weft_range *needed; /* of the part's keys, ascending and apart: what is sent */
    size_t needed_count;

    /* Backward: gradients of the part's keys are added up on their way from group to group, as long as the next needs all
     * keys that they are of; then they go to whose the keys are. */
    int64_t adds_from;   /* who sends the sum so far, or -1 */
    int64_t adds_to;     /* who gets it with this group's share; the group itself: it is its own part */
    int adds_end;        /* 1: that is whose the keys are, who adds up what comes */
    weft_range *earlier; /* keys that the sum so far is of */
    size_t earlier_count;
    size_t room; /* of `needed` */
} weft_hop;
weft_status weft_hop_at(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_hop *hop, weft_message *message);
void weft_hop_free(weft_hop *hop);

/* The same in two parts, for whoever goes through the hops of all groups. First what a group needs at a step, in a hop that
 * is zero or was used before, whose memory is used again; then who sends it and where gradients go. That depends on what
 * the groups need that take the part a lag before and after: their numbers, or -1, and their hops. */
weft_status weft_hop_needs(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_hop *hop, weft_message *message);
int64_t weft_hop_before(const weft_dist *dist, const weft_hop *hop);
int64_t weft_hop_after(const weft_dist *dist, const weft_hop *hop);
void weft_hop_join(const weft_dist *dist, int64_t ring_rank, weft_hop *hop, const weft_hop *before, const weft_hop *after);

/* What a group sends for a step of the others' passes: keys of its own part, keys that it had at an earlier step and passes
 * on, and gradients. A backward pass that begins with what the forward pass kept needs no keys for step 0. */
typedef enum weft_move_kind { WEFT_MOVE_OWN, WEFT_MOVE_ON, WEFT_MOVE_ADDS } weft_move_kind;
typedef struct weft_move {
    weft_move_kind kind;
    int64_t to;
    int64_t step;   /* WEFT_MOVE_ON: at which the group had them; else the step itself */
    int64_t before; /* rows of the part that the receiver's piece begins behind */
    weft_range *ranges;
    size_t count;
} weft_move;
enum { WEFT_MOVES = 3 };
weft_status weft_moves_at(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_move moves[WEFT_MOVES],
                          size_t *count, weft_message *message);
void weft_moves_free(weft_move *moves, size_t count);

/* Bytes of a row of a part, and of its sums on the way; and how many messages a range of rows takes. */
static inline size_t weft_dist_key_bytes(const weft_dist *dist) {
    return dist->row.k + dist->row.v;
}
static inline size_t weft_dist_add_bytes(const weft_dist *dist) {
    return dist->row.k_sums + dist->row.v_sums;
}
static inline uint64_t weft_dist_messages(const weft_dist *dist, int adds) {
    const weft_dist_row *r = &dist->row;
    return (uint64_t)((adds ? r->k_sums : r->k) > 0) + (uint64_t)((adds ? r->v_sums : r->v) > 0);
}

/* sizes.c: buffers for parts that come, rows of each, and bytes of all buffers of a rank of a group, beside workspaces of
 * kernels. Its slices have at most so many queries and keys. */
int64_t weft_dist_slots(const weft_dist *dist);
int64_t weft_dist_slot_rows(const weft_dist *dist);
uint64_t weft_dist_buffers(const weft_dist *dist, int64_t rank, int64_t most_queries, int64_t most_keys);

/* The exchange of heads, which at most so many ranks have. A member gets or gives at most a share of bytes. */
enum { WEFT_MOST_HEAD_RANKS = 256 };
size_t weft_dist_heads_share(const weft_dist *dist, int64_t rank);

/* Bytes of a row of a rank's own queries and keys that go to each other member before the pass, and of a row of another's
 * that go back to it; in so many tensors, one after the other. */
typedef struct weft_dist_heads_row {
    uint64_t query_in, key_in, query_out, key_out;
    int64_t tensors_in, tensors_out;
} weft_dist_heads_row;
weft_dist_heads_row weft_dist_heads_row_bytes(const weft_dist *dist);

/* What a rank sends, or receives, to exchange heads in a run that writes an LSE; and in how many messages. */
uint64_t weft_dist_heads_bytes(const weft_dist *dist, int64_t rank, int sends);
int64_t weft_dist_heads_messages(const weft_dist *dist);

/* The step of the order that a step of the pass is: backward, sawtooth goes from the last to the first. */
int64_t weft_dist_order_step(const weft_dist *dist, int64_t step);

/* Rows of some ranges. */
int64_t weft_ranges_rows(const weft_range *ranges, size_t count);

#endif
