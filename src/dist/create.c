/* Sharing a problem among ranks: its check, and what is chosen where nobody did. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/heads.h"
#include "problem/problem.h"

enum { MOST_RANKS = 65536, RUNS = 8 }; /* runs of a balanced cut: more even out more, and make more slices */

/* What positions do not say once rows are cut, or what has no place in a sum of parts. */
static const char *refused(const weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    const weft_ranks *r = &dist->ranks;
    const int back = weft_dist_is_backward(dist);
    const int32_t lengths = WEFT_STARTS | WEFT_KV_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD;
    const int stripes = r->cut == WEFT_CUT_STRIPED && r->ranks > 1;
    if (p->extras & lengths) {
        return "lengths that are known to the data only";
    }
    if (p->lengths.q_used || p->lengths.kv_used || p->lengths.kv_pad) {
        return "used lengths and padding: give a packed batch";
    }
    if (p->cache.page > 0 || p->cache.append > 0 || p->cache.rotary_dim > 0 || (p->extras & WEFT_QV)) {
        return "a KV cache, rotation or latent queries";
    }
    if (weft_attention_has_pairs(p) || (p->extras & WEFT_BLOCKS)) {
        return "block masks and trees";
    }
    return p->dropout > 0                                 ? "dropout, which would depend on the number of ranks"
           : p->extras & WEFT_MAX                         ? "the maximum of scores"
           : back && (p->extras & WEFT_BIAS)              ? "the gradient of a biased attention"
           : stripes && p->chunk > 0                      ? "chunks of a striped cut"
           : stripes && (p->extras & WEFT_ALIBI)          ? "slopes of a striped cut"
           : p->sequences > 0 && (p->extras & WEFT_BIAS)  ? "a bias of a packed batch"
           : r->head_ranks > 1 && (p->extras & WEFT_BIAS) ? "a bias, where ranks exchange heads"
                                                          : NULL;
}

static weft_status check_between(const char *name, int64_t value, int64_t least, int64_t most, weft_message *message) {
    return value >= least && value <= most
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not between %" PRId64 " and %" PRId64, name, value,
                           least, most);
}

static weft_status check_ranks(const weft_ranks *r, weft_message *message) {
    weft_status status;
    if ((status = check_between("ranks", r->ranks, 1, MOST_RANKS, message)) ||
        (status = check_between("cut", r->cut, 0, WEFT_CUT_BALANCED, message)) ||
        (status = check_between("exchange", r->exchange, 0, WEFT_EXCHANGE_HEADS, message)) ||
        (status = check_between("order", r->order, 0, WEFT_RANK_ORDERS, message)) ||
        (status = check_between("head_ranks", r->head_ranks, 0, r->ranks, message)) ||
        (status = check_between("head_ranks", r->exchange == WEFT_EXCHANGE_HEADS ? r->ranks : r->head_ranks, 0,
                                WEFT_MOST_HEAD_RANKS, message)) ||
        (status = check_between("columns", r->columns, 0, r->ranks, message)) ||
        (status = check_between("most_keys", r->most_keys, 0, WEFT_MAX_DIMENSION, message))) {
        return status;
    }
    if (r->sweep != WEFT_SWEEP_CHOOSE && r->sweep != WEFT_SWEEP_FORWARD && r->sweep != WEFT_SWEEP_SAWTOOTH) {
        return weft_fail(message, WEFT_INVALID, "sweep %d across ranks is neither forward nor sawtooth", (int)r->sweep);
    }
    if (r->head_ranks > 0 && r->ranks % r->head_ranks != 0) {
        return weft_fail(message, WEFT_INVALID, "head_ranks %" PRId64 " does not divide ranks %" PRId64, r->head_ranks,
                         r->ranks);
    }
    if (r->exchange == WEFT_EXCHANGE_HEADS && r->head_ranks > 0 && r->head_ranks != r->ranks) {
        return weft_fail(message, WEFT_INVALID,
                         "head_ranks %" PRId64 " of %" PRId64 " ranks: exchange heads is between all of them; ring x heads "
                         "is exchange ring",
                         r->head_ranks, r->ranks);
    }
    return WEFT_OK;
}

/* Contiguous where all see all; zigzag evens out a causal mask; what is left is dealt by its work. */
static int32_t usual_cut(const weft_attention *p) {
    const int plain = p->sequences == 0 && p->chunk == 0 && p->prefix == 0;
    return plain && p->mask == WEFT_MASK_NONE     ? WEFT_CUT_CONTIGUOUS
           : plain && p->mask == WEFT_MASK_CAUSAL ? WEFT_CUT_ZIGZAG
                                                  : WEFT_CUT_BALANCED;
}

/* The most columns of a mesh that is as square as may be. */
static int64_t usual_columns(int64_t ranks) {
    int64_t columns = (int64_t)sqrt((double)ranks);
    while (columns > 1 && ranks % columns != 0) {
        columns--;
    }
    return weft_larger(columns, 1);
}

static void choose(weft_dist *dist) {
    const weft_attention *p = &dist->problem.attention;
    weft_ranks *r = &dist->ranks;
    r->cut = r->cut ? r->cut : usual_cut(p);
    r->exchange = r->exchange ? r->exchange : WEFT_EXCHANGE_RING;
    r->order = r->order ? r->order : WEFT_RANK_ORDER_RING;
    r->sweep = r->sweep ? r->sweep : weft_dist_is_backward(dist) ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
    r->head_ranks = r->exchange == WEFT_EXCHANGE_HEADS ? r->ranks : weft_larger(r->head_ranks, 1);
    r->columns = r->columns ? r->columns : usual_columns(r->ranks / r->head_ranks);
}

/* Ranks that exchange heads have whole groups of them, or parts of a group with its one kv head. */
static weft_status check_heads(const weft_attention *p, const weft_ranks *r, weft_message *message) {
    const int64_t u = r->head_ranks;
    if (p->heads % u != 0 || (p->kv_heads % u != 0 && u % p->kv_heads != 0)) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "heads %" PRId64 " and kv_heads %" PRId64 " are not dealt evenly to %" PRId64
                         " ranks that exchange heads",
                         p->heads, p->kv_heads, u);
    }
    return WEFT_OK;
}

/* The problem of all ranks, without the strides, which are those of a rank's tensors. */
static weft_status resolve(weft_dist *dist, const void *problem, weft_message *message) {
    struct {
        size_t struct_size;
        int32_t operation;
    } head = {0, 0};
    const weft_attention init = WEFT_ATTENTION_INIT;
    if (!problem) {
        return weft_fail(message, WEFT_INVALID, "problem is null");
    }
    memcpy(&head, problem, sizeof head);
    const weft_operation_row *row = weft_operation_at(head.operation);
    if (!row || row->lengths == 0) { /* no attention */
        return weft_fail(message, WEFT_UNSUPPORTED, "%s is not shared among ranks: attention is, forward and backward",
                         row ? row->info.name : "this operation");
    }
    dist->given = init;
    weft_status status = weft_struct_take(&dist->given, sizeof dist->given, sizeof(size_t) + sizeof(int64_t), problem,
                                          "WEFT_ATTENTION_INIT", message);
    weft_attention all = dist->given;
    all.q_strides = all.k_strides = all.v_strides = all.o_strides = all.bias_strides = (weft_strides){0, 0, 0};
    all.bias_key_stride = 0;
    status = status ? status : weft_problem_resolve(&dist->problem, &dist->operation, &all, message);
    return status ? status : dist->operation->keep(&dist->problem, &dist->memory, message);
}

static weft_status share(weft_dist *dist, const weft_dist_options *options, weft_message *message) {
    const weft_attention *p = &dist->problem.attention;
    const weft_ranks init = WEFT_RANKS_INIT;
    weft_ranks *r = &dist->ranks;
    weft_status status = WEFT_OK;
    *r = init;
    if (options->ranks) {
        status = weft_struct_take_options(r, sizeof *r, options->ranks, "WEFT_RANKS_INIT", message);
    }
    const int64_t here = options->transport ? options->transport->size : r->ranks;
    if (!status && r->ranks != 0 && r->ranks != here) {
        return weft_fail(message, WEFT_INVALID, "ranks %" PRId64 " are not the %" PRId64 " of the transport", r->ranks,
                         here);
    }
    r->ranks = here;
    status = status ? status : check_ranks(r, message);
    if (status) {
        return status;
    }
    choose(dist);
    if ((status = check_heads(p, r, message))) {
        return status;
    }
    const char *why = refused(dist);
    const int64_t least = weft_smaller(p->seq, p->kv_seq);
    if (why || r->ranks > least) {
        return why ? weft_fail(message, WEFT_UNSUPPORTED, "attention is not shared among ranks with %s", why)
                   : weft_fail(message, WEFT_INVALID, "ranks %" PRId64 " are more than seq %" PRId64 " or kv_seq %" PRId64,
                               r->ranks, p->seq, p->kv_seq);
    }
    dist->runs = weft_between(least / r->ranks, 1, RUNS);
    dist->rings = r->ranks / r->head_ranks;
    dist->ring = (weft_ring){r->order, dist->rings, weft_smaller(r->columns, dist->rings)};
    if ((status = weft_dist_deal(dist, message))) {
        return status;
    }
    int64_t most = 0; /* keys of a part */
    for (int64_t i = 0; i < dist->rings; i++) {
        most = weft_larger(most, weft_dist_group_of(dist, i, WEFT_KEY_ROWS).rows);
    }
    dist->pieces = r->most_keys > 0 ? weft_ceil_divide(most, r->most_keys) : 1;
    dist->steps = dist->rings * dist->pieces;
    return WEFT_OK;
}

weft_status weft_dist_create(weft_dist **dist, const void *problem, const weft_dist_options *options,
                             weft_message *message) {
    weft_dist_options ours = WEFT_DIST_OPTIONS_INIT;
    if (!dist) {
        return weft_fail(message, WEFT_INVALID, "dist is null");
    }
    *dist = NULL;
    weft_status status = weft_struct_take_options(&ours, sizeof ours, options, "WEFT_DIST_OPTIONS_INIT", message);
    if (status) {
        return status;
    }
    weft_dist *d = calloc(1, sizeof *d);
    if (!d) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a problem over ranks");
    }
    d->rank = -1;
    status = resolve(d, problem, message);
    status = status ? status : share(d, &ours, message);
    if (!status && ours.transport) {
        status = weft_dist_work_create(d, &ours, message);
        status = status ? status : weft_dist_heads_create(d->work, message);
        status = status ? status : weft_dist_work_take(d->work, message);
    }
    if (status) {
        weft_dist_destroy(d);
        return status;
    }
    *dist = d;
    return WEFT_OK;
}

void weft_dist_destroy(weft_dist *dist) {
    if (!dist) {
        return;
    }
    weft_dist_heads_destroy(dist->work ? dist->work->exchange : NULL);
    weft_dist_work_destroy(dist->work);
    weft_dist_rows_free(&dist->rows[WEFT_QUERY_ROWS]);
    weft_dist_rows_free(&dist->rows[WEFT_KEY_ROWS]);
    free(dist->memory);
    free(dist);
}

weft_ranks weft_dist_ranks(const weft_dist *dist) {
    const weft_ranks none = WEFT_RANKS_INIT;
    return dist ? dist->ranks : none;
}
