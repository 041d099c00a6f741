/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a group give each other heads: before a pass each has some rows of all heads, and in it all rows of some. */
#include "dist/heads.h"

#include <stdlib.h>

#include "base/status.h"
#include "problem/problem.h"

struct weft_dist_heads {
    int64_t members, replicas; /* ranks of a group; how many have the same kv head */
    int64_t rows[2];           /* of this rank, of either kind */
    int64_t *before[2];        /* rows of the group before each member's, and behind the last all */
    char *mail, *shares;
    size_t share;                           /* bytes of what one member gets or gives, at most */
    const weft_plan *add_keys, *add_values; /* gradients of a kv head that several have */
};

enum { GROUP = -2 }; /* what is exchanged is waited for together */

static int64_t first_rank(const weft_dist_work *work) {
    return work->ring_rank * work->exchange->members;
}

/* Sends a block to each member and receives one of each: bytes(member) says how many there are. */
static weft_status trade(weft_dist_work *work, char *to, const size_t *to_at, const size_t *to_bytes, const char *from,
                         const size_t *from_at, const size_t *from_bytes, weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const weft_dist_memory *m = &work->memory;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < x->members && !status; i++) {
        if (i == work->member) {
            status = m->copy(m, to + to_at[i], to_bytes[i], from + from_at[i], to_bytes[i], to_bytes[i], 1, message);
            continue;
        }
        status =
            weft_io_receive(&work->io, to + to_at[i], to_bytes[i], first_rank(work) + i, WEFT_TAG_EXCHANGE, GROUP, message);
        status = status ? status
                        : weft_io_send(&work->io, from + from_at[i], from_bytes[i], first_rank(work) + i, WEFT_TAG_EXCHANGE,
                                       GROUP, message);
    }
    return status ? status : weft_io_wait(&work->io, GROUP, message);
}

/* Where the blocks of members lie: shares in a row of equal places, or their rows in the group's. */
typedef struct blocks {
    size_t at[WEFT_MOST_HEAD_RANKS], bytes[WEFT_MOST_HEAD_RANKS];
} blocks;

static blocks in_shares(const weft_dist_heads *x, int32_t of, size_t row, int mine) {
    blocks b = {{0}, {0}};
    for (int64_t i = 0; i < x->members; i++) {
        const int64_t rows = mine ? x->rows[of] : x->before[of][i + 1] - x->before[of][i];
        b.at[i] = (size_t)i * x->share;
        b.bytes[i] = (size_t)rows * row;
    }
    return b;
}

static blocks in_rows(const weft_dist_heads *x, int32_t of, size_t row) {
    blocks b = {{0}, {0}};
    for (int64_t i = 0; i < x->members; i++) {
        b.at[i] = (size_t)x->before[of][i] * row;
        b.bytes[i] = (size_t)(x->before[of][i + 1] - x->before[of][i]) * row;
    }
    return b;
}

/* Heads of K and V are fewer: neighbouring members may have the same one. */
static int64_t head_of(const weft_dist_heads *x, int32_t of, int64_t member, int64_t heads) {
    return of == WEFT_KEY_ROWS ? member / x->replicas * heads : member * heads;
}

weft_status weft_dist_heads_in(weft_dist_work *work, int32_t of, const weft_dist_tensor *tensor, int64_t heads, void *rows,
                               weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const size_t row =
        (size_t)(work->dist->problem.attention.batch * heads * tensor->dim) * weft_dtype_bytes(tensor->dtype);
    const blocks from = in_shares(x, of, row, 1), to = in_rows(x, of, row);
    for (int64_t i = 0; i < x->members; i++) {
        const weft_status status =
            weft_dist_pack(work, x->mail + from.at[i], tensor, head_of(x, of, i, heads), heads, message);
        if (status) {
            return status;
        }
    }
    return trade(work, rows, to.at, to.bytes, x->mail, from.at, from.bytes, message);
}

weft_status weft_dist_heads_out(weft_dist_work *work, int32_t of, const void *rows, const weft_dist_tensor *tensor,
                                int64_t heads, weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const size_t row =
        (size_t)(work->dist->problem.attention.batch * heads * tensor->dim) * weft_dtype_bytes(tensor->dtype);
    const blocks from = in_rows(x, of, row), to = in_shares(x, of, row, 1);
    weft_status status = trade(work, x->shares, to.at, to.bytes, rows, from.at, from.bytes, message);
    for (int64_t i = 0; i < x->members && !status; i++) {
        status = weft_dist_unpack(work, tensor, x->shares + to.at[i], head_of(x, of, i, heads), heads, message);
    }
    return status;
}

int weft_dist_heads_repeat(const weft_dist_work *work) {
    return work->exchange && work->exchange->replicas > 1;
}

weft_status weft_dist_heads_add(weft_dist_work *work, const void *sums, const weft_dist_tensor *tensor, int is_value,
                                weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const size_t row = (size_t)(work->dist->problem.attention.batch * tensor->dim) * sizeof(float);
    const blocks from = in_rows(x, WEFT_KEY_ROWS, row), to = in_shares(x, WEFT_KEY_ROWS, row, 1);
    weft_status status = trade(work, x->shares, to.at, to.bytes, sums, from.at, from.bytes, message);
    for (int64_t i = 0; i < x->members && !status; i += x->replicas) {
        weft_combine_data add = WEFT_COMBINE_DATA_INIT;
        for (int64_t j = 0; j < x->replicas; j++) {
            add.parts[j] = x->shares + to.at[i + j];
        }
        add.o = (char *)(uintptr_t)tensor->at +
                (size_t)(i / x->replicas * tensor->strides.head) * weft_dtype_bytes(tensor->dtype);
        status = weft_dist_compute(work, is_value ? x->add_values : x->add_keys, &add, message);
    }
    return status;
}

/* LSEs: (batch, heads, rows), of which a member has a run of heads or a run of rows. */
weft_status weft_dist_lse_in(weft_dist_work *work, const float *lse, float *to, weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const weft_dist_memory *m = &work->memory;
    const int64_t batch = work->dist->problem.attention.batch, heads = work->heads, mine = x->rows[WEFT_QUERY_ROWS];
    const size_t lines = (size_t)(batch * heads), bytes = (size_t)mine * sizeof(float);
    const blocks from = in_shares(x, WEFT_QUERY_ROWS, lines * sizeof(float), 1);
    const blocks share = in_shares(x, WEFT_QUERY_ROWS, lines * sizeof(float), 0);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < x->members * batch && !status; i++) {
        const int64_t b = i % batch, member = i / batch;
        status = m->copy(m, x->mail + from.at[member] + (size_t)(b * heads) * bytes, bytes,
                         lse + (b * heads * x->members + member * heads) * mine, bytes, bytes, (size_t)heads, message);
    }
    status = status ? status : trade(work, x->shares, share.at, share.bytes, x->mail, from.at, from.bytes, message);
    for (int64_t i = 0; i < x->members && !status; i++) {
        const int64_t first = x->before[WEFT_QUERY_ROWS][i], rows = x->before[WEFT_QUERY_ROWS][i + 1] - first;
        const size_t width = (size_t)rows * sizeof(float);
        status = m->copy(m, to + first, (size_t)work->queries * sizeof(float), x->shares + share.at[i], width, width, lines,
                         message);
    }
    return status;
}

weft_status weft_dist_lse_out(weft_dist_work *work, const float *from, float *lse, weft_message *message) {
    const weft_dist_heads *x = work->exchange;
    const weft_dist_memory *m = &work->memory;
    const int64_t batch = work->dist->problem.attention.batch, heads = work->heads, mine = x->rows[WEFT_QUERY_ROWS];
    const size_t lines = (size_t)(batch * heads), bytes = (size_t)mine * sizeof(float);
    const blocks to = in_shares(x, WEFT_QUERY_ROWS, lines * sizeof(float), 1);
    const blocks mail = in_shares(x, WEFT_QUERY_ROWS, lines * sizeof(float), 0);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < x->members && !status; i++) {
        const int64_t first = x->before[WEFT_QUERY_ROWS][i], rows = x->before[WEFT_QUERY_ROWS][i + 1] - first;
        const size_t width = (size_t)rows * sizeof(float);
        status = m->copy(m, x->mail + mail.at[i], width, from + first, (size_t)work->queries * sizeof(float), width, lines,
                         message);
    }
    status = status ? status : trade(work, x->shares, to.at, to.bytes, x->mail, mail.at, mail.bytes, message);
    for (int64_t i = 0; i < x->members * batch && !status; i++) {
        const int64_t b = i % batch, member = i / batch;
        status = m->copy(m, lse + (b * heads * x->members + member * heads) * mine, bytes,
                         x->shares + to.at[member] + (size_t)(b * heads) * bytes, bytes, bytes, (size_t)heads, message);
    }
    return status;
}

static weft_status plan_adding(weft_dist_work *work, weft_message *message) {
    weft_dist_heads *x = work->exchange;
    const weft_attention *p = &work->dist->problem.attention, *mine = &work->local.attention;
    weft_combine c = WEFT_COMBINE_INIT;
    c.parts = x->replicas;
    c.batch = p->batch;
    c.seq = x->rows[WEFT_KEY_ROWS];
    c.head_dim = p->head_dim;
    c.dtype = WEFT_FP32;
    c.o_dtype = p->dtype;
    c.sum = 1;
    c.part_strides = (weft_strides){.batch = c.head_dim, .seq = c.batch * c.head_dim, .head = c.head_dim};
    c.o_strides = mine->k_strides;
    weft_status status = weft_dist_plan_of(work, &c, &x->add_keys, message);
    c.head_dim = p->head_dim_v;
    c.part_strides = (weft_strides){.batch = c.head_dim, .seq = c.batch * c.head_dim, .head = c.head_dim};
    c.o_strides = mine->v_strides;
    return status ? status : weft_dist_plan_of(work, &c, &x->add_values, message);
}

weft_status weft_dist_heads_create(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const weft_attention *p = &dist->problem.attention;
    const int64_t members = dist->ranks.head_ranks;
    if (members == 1) {
        return WEFT_OK;
    }
    weft_dist_heads *x = work->exchange = calloc(1, sizeof *x);
    if (!x) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory to exchange heads");
    }
    x->members = members;
    x->replicas = weft_larger(members / p->kv_heads, 1);
    for (int32_t of = WEFT_QUERY_ROWS; of <= WEFT_KEY_ROWS; of++) {
        x->before[of] = calloc((size_t)members + 1, sizeof(int64_t));
        if (!x->before[of]) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory to exchange heads");
        }
        for (int64_t i = 0; i < members; i++) {
            x->before[of][i + 1] = x->before[of][i] + weft_dist_rows(dist, first_rank(work) + i, of);
        }
        x->rows[of] = weft_dist_rows(dist, dist->rank, of);
    }
    x->share = weft_dist_heads_share(dist, dist->rank);
    weft_status status = weft_dist_take(work, (size_t)members * x->share, &x->mail, message);
    status = status ? status : weft_dist_take(work, (size_t)members * x->share, &x->shares, message);
    if (!status && x->replicas > WEFT_MOST_PARTS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%d ranks with the same kv head are more than %d", (int)x->replicas,
                         WEFT_MOST_PARTS);
    }
    return status || x->replicas == 1 ? status : plan_adding(work, message);
}

void weft_dist_heads_destroy(weft_dist_heads *x) {
    if (x) {
        free(x->before[0]);
        free(x->before[1]);
        free(x);
    }
}
