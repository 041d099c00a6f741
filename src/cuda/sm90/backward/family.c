/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper backward, from the host's side: what it takes, its launches, and their parameters. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/backward/params.h"
#include "cuda/sm90/backward/splits.h"
#include "problem/attention.h"
#include "problem/dropout.h"
#include "problem/problem.h"

static const weft_hopper_backward_variant variants[] = {
#define WEFT_HOPPER_BACKWARD(...) WEFT_HOPPER_BACKWARD_VARIANT(__VA_ARGS__),
#include "cuda/sm90/backward/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_hopper_backward_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* All blocks of so many queries: CTAs of `begin` and, narrow, of `end`. */
static int64_t all_blocks(const weft_attention *p, int32_t queries) {
    return p->batch * p->heads * weft_ceil_divide(p->seq, queries);
}

/* What the general form and the full one have beside plain and causal attention; and what only the former has, or only the
 * latter. */
enum {
    BOTH = WEFT_HAS_WINDOW | WEFT_HAS_CHUNK | WEFT_HAS_PREFIX | WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS |
           WEFT_HAS_ALIBI,
    GENERAL = WEFT_HAS_BLOCKS | WEFT_HAS_TREE,
    FULL = WEFT_HAS_BIAS | WEFT_HAS_DROPOUT
};

/* The form that a problem needs, but for ragged: the least that will do. Each has variants for V of another head dim. */
static int32_t form_of(const weft_attention *p) {
    return !weft_attention_lacks(p, WEFT_HAS_OTHER_DIM)                    ? WEFT_HOPPER_BACKWARD_PLAIN
           : !weft_attention_lacks(p, BOTH | GENERAL | WEFT_HAS_OTHER_DIM) ? WEFT_HOPPER_BACKWARD_GENERAL
                                                                           : WEFT_HOPPER_BACKWARD_FULL;
}

/* Parts of a tile, once that is chosen; and heads of queries of each. */
static int64_t splits_of(const weft_plan *plan) {
    return weft_larger(plan->schedule.split, 1);
}

static int64_t group_of(const weft_plan *plan) {
    const weft_attention *p = &plan->attention;
    return p->heads / (p->kv_heads * weft_attention_head_parts(p, splits_of(plan)));
}

/* Heads of a tile, where it is known how long tiles are: see weft_cuda_family. Not under a block mask: a timetable of the
 * host knows the band alone. */
static int64_t members(const weft_plan *plan) {
    return weft_attention_lacks(&plan->attention, ~(WEFT_HAS_LENGTHS | WEFT_HAS_BLOCKS)) ? 0 : group_of(plan);
}

/* Whether a mask's blocks are cut by tiles of so many rows, of which there are `rows` in all. */
static int cuts_blocks(int64_t block, int64_t tile, int64_t rows) {
    return block > 0 && block < rows && block % tile != 0;
}

static weft_status check(const weft_plan *plan, const weft_cuda_knobs *knobs, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const char *lacks = weft_attention_lacks(p, BOTH | GENERAL | FULL | WEFT_HAS_OTHER_DIM);
    const weft_cuda_driver *driver;
    weft_status status;
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if ((status = weft_cuda_knobs_refuse(knobs, why))) {
        return status;
    }
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    if ((weft_attention_asks(p) & GENERAL) && (weft_attention_asks(p) & FULL)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no bias and no dropout beside block masks or tree masks");
    }
    if (p->scale < 1e-30 || p->scale > 1e30) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes scales from 1e-30 to 1e30, not %g", p->scale);
    }
    if (p->softcap > 0 && (p->softcap < 1e-6 || p->softcap > 1e3)) { /* beyond, a float would not do */
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes softcaps from 1e-6 to 1000, not %g", p->softcap);
    }
    if (all_blocks(p, 64) > INT32_MAX || p->seq > INT32_MAX / 2 || p->kv_seq > INT32_MAX / 2) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes up to 2^30 queries and keys, and 2^31 blocks of queries in all");
    }
    if (s->cluster_m > 1 || s->cluster_n > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if ((weft_attention_asks(p) & WEFT_HAS_BLOCKS) && s->split > weft_attention_head_parts(p, s->split)) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "under a block mask it splits the %" PRId64 " heads that share keys, and no lines of queries",
                         p->heads / p->kv_heads);
    }
    if ((status = weft_tensor_check_strides("q", &p->q_strides, p->batch, p->seq, p->heads, why)) ||
        (status = weft_tensor_check_strides("k", &p->k_strides, p->batch, p->kv_seq, p->kv_heads, why)) ||
        (status = weft_tensor_check_strides("v", &p->v_strides, p->batch, p->kv_seq, p->kv_heads, why)) ||
        (status = weft_tensor_check_strides("o", &p->o_strides, p->batch, p->seq, p->heads, why))) {
        return status;
    }
    if (plan->on_paper || (status = weft_cuda_driver_get(&driver, why))) {
        return status;
    }
    return driver->tensor_map && driver->launch_extended
               ? WEFT_OK
               : weft_fail(why, WEFT_UNSUPPORTED, "the CUDA driver has no tensor maps or no cooperative launches");
}

static const weft_hopper_backward_variant *variant_of(const weft_cuda_choice *choice) {
    size_t i = 0;
    while (strcmp(variants[i].main, choice->kernel) != 0) {
        i++;
    }
    return &variants[i];
}

static int is_wide(const weft_hopper_backward_variant *v) {
    return v->keys == WEFT_HOPPER_BACKWARD_WIDE_KEYS;
}

/* Heads that have block masks of their own; 1: all have the same, 0: none has one. */
static int64_t listed_heads(const weft_attention *p) {
    return p->block_rows == 0 ? 0 : p->block_head_stride > 0 ? p->heads : 1;
}

/* Tiles of a line of heads. */
static int64_t cols_of(const weft_attention *p, const weft_hopper_backward_variant *v) {
    return p->sequences > 0 ? p->kv_seq / v->keys + p->sequences : weft_ceil_divide(p->kv_seq, v->keys);
}

/* Whether a launch makes the timetable: narrow, where the host does not know how long tiles are, under the schedule that
 * suits it, unless there are too many tiles. Else they add in the order of their positions. Also asked while the schedule
 * is open; nothing below overflows after `check`. */
static int is_dealt(const weft_plan *plan, const weft_cuda_device *device, const weft_hopper_backward_variant *v) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    if (is_wide(v) || members(plan) > 0 || (s->order != WEFT_ORDER_CHOOSE && s->order != WEFT_ORDER_LONGEST_FIRST) ||
        (s->sweep != WEFT_SWEEP_CHOOSE && s->sweep != WEFT_SWEEP_SHIFT) ||
        (s->dispatch != WEFT_DISPATCH_CHOOSE && s->dispatch != WEFT_DISPATCH_DYNAMIC)) {
        return 0;
    }
    const int64_t tiles = p->batch * p->kv_heads * cols_of(p, v);
    const int64_t steps =
        p->heads / p->kv_heads * weft_ceil_divide(p->seq, v->queries) + WEFT_HOPPER_BACKWARD_BESIDE; /* of a tile */
    return device->multiprocessors <= WEFT_HOPPER_BACKWARD_DEALT_WORKERS &&
           s->workers <= WEFT_HOPPER_BACKWARD_DEALT_WORKERS && tiles <= WEFT_HOPPER_BACKWARD_DEALT &&
           steps <= WEFT_HOPPER_BACKWARD_DEALT_TIME / tiles;
}

/* Whether tiles have a timetable, whoever makes it. Where there is none, the CTAs that share a tile must know the next one
 * by their number: positions do not go to whoever comes first. */
static int is_timed(const weft_plan *plan, const weft_cuda_device *device, const weft_hopper_backward_variant *v) {
    return members(plan) > 0 || is_dealt(plan, device, v);
}

static int takes(const weft_hopper_backward_variant *v, const weft_attention *p) {
    const int is_ragged = !is_wide(v) && p->seq % v->queries != 0;
    const int32_t form = form_of(p),
                  wanted = form == WEFT_HOPPER_BACKWARD_PLAIN && is_ragged ? WEFT_HOPPER_BACKWARD_RAGGED : form;
    return v->dtype == p->dtype && v->form == wanted && p->head_dim <= v->depth && p->head_dim_v <= v->depth_v;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const weft_hopper_backward_variant *best = NULL;
    const weft_status status = check(plan, knobs, why);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_backward_variant *v = &variants[i];
        best = takes(v, p) && (!best || v->depth + v->depth_v < best->depth + best->depth_v) ? v : best;
    }
    if (!best || (s->tile_m != 0 && s->tile_m != best->queries) || (s->tile_n != 0 && s->tile_n != best->keys)) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it has no tiles of %" PRId64 "x%" PRId64 " for head_dim %" PRId64 " and head_dim_v %" PRId64,
                         s->tile_m, s->tile_n, p->head_dim, p->head_dim_v);
    }
    if (cuts_blocks(p->block_rows, best->queries, p->seq) || cuts_blocks(p->block_columns, best->keys, p->kv_seq)) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "its tiles of %d queries x %d keys cut a mask's blocks of %" PRId64 " queries x %" PRId64 " keys",
                         best->queries, best->keys, p->block_rows, p->block_columns);
    }
    if (p->kv_seq / best->keys + p->sequences >= UINT16_MAX) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes up to %d blocks of %d keys", UINT16_MAX, best->keys);
    }
    if (s->split > 1 && (s->split > WEFT_HOPPER_BACKWARD_SPLITS || !weft_hopper_backward_rounds(best, s->split))) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it does not split tiles into %" PRId64 " parts for such head dims: at most 8", s->split);
    }
    if (s->split > 1 && s->dispatch == WEFT_DISPATCH_DYNAMIC && !is_timed(plan, device, best)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "under dynamic dispatch it splits tiles that have a timetable alone");
    }
    *choice = (weft_cuda_choice){best->module,       best->main,    best->queries, best->keys, WEFT_HOPPER_BACKWARD_THREADS,
                                 best->shared_bytes, .overlaps = 1, .ctas = 1};
    return WEFT_OK;
}

/* The schedule's split, or the one to choose. */
static int64_t split_for(const weft_plan *plan, const weft_cuda_device *device, const weft_hopper_backward_variant *v) {
    const weft_schedule *s = &plan->schedule;
    const int as_they_come = s->dispatch == WEFT_DISPATCH_DYNAMIC && !is_timed(plan, device, v);
    return s->split > 0 ? s->split : as_they_come ? 1 : weft_hopper_backward_splits(plan, device, v);
}

/* Adds a launch that has no tiles. */
static weft_cuda_choice *add_pass(weft_cuda_choice *list, int *count, const char *image, const char *kernel,
                                  int32_t threads, int64_t grid) {
    list[*count] = (weft_cuda_choice){.image = image, .kernel = kernel, .threads = threads, .grid = grid};
    return &list[(*count)++];
}

static int passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_hopper_backward_variant *v = variant_of(choice);
    const weft_cuda_device *device = &((const weft_cuda_plan *)plan->placed)->device;
    const weft_attention *p = &plan->attention;
    const int64_t blocks = all_blocks(p, v->queries);
    const int32_t threads = WEFT_HOPPER_BACKWARD_QUERY_THREADS;
    int count = 0;
    if (p->block_rows > 0) {
        const int64_t lists = weft_smaller(p->batch * listed_heads(p) * cols_of(p, v), INT32_MAX);
        add_pass(list, &count, WEFT_HOPPER_BACKWARD_DEAL_MODULE, WEFT_HOPPER_BACKWARD_LIST, threads, lists);
    }
    if (is_dealt(plan, device, v)) {
        add_pass(list, &count, WEFT_HOPPER_BACKWARD_DEAL_MODULE, WEFT_HOPPER_BACKWARD_DEAL,
                 WEFT_HOPPER_BACKWARD_DEAL_THREADS, 1)
            ->shared_bytes = WEFT_HOPPER_BACKWARD_DEAL_BYTES;
    }
    add_pass(list, &count, v->module, v->begin, threads, blocks);
    *main = count;
    list[count++] = *choice;
    if (is_wide(v)) { /* the last one has tiles of queries */
        weft_cuda_choice *end = &list[count++];
        *end = *choice;
        end->kernel = v->end;
        end->tile_m = WEFT_HOPPER_BACKWARD_DQ_QUERIES;
        end->tile_n = WEFT_HOPPER_BACKWARD_DQ_KEYS;
        end->shared_bytes = v->dq_bytes;
        end->operation = WEFT_ATTENTION;
    } else {
        add_pass(list, &count, v->module, v->end, threads, blocks)->overlaps = 1;
    }
    return count;
}

/* Wide, tiles add to nothing that others add to; there a timetable is for those that are split. */
static int takes_turns(const weft_plan *plan) {
    return splits_of(plan) > 1 || !is_wide(variant_of(&((const weft_cuda_plan *)plan->placed)->main->choice));
}

static int deals(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return is_dealt(plan, &c->device, variant_of(&c->main->choice));
}

/* Heads of keys of a section, whose tiles are dealt together. Lines are of heads, or of the parts of a group that is split.
 * The more there are, the fewer tiles of each head are at work at a time, and the less they wait for each other; but their
 * Q, dO and sums of dQ are to stay in the L2. */
static int64_t section(const weft_attention *p, int64_t splits, const weft_cuda_device *device, int64_t queries) {
    const int64_t head_parts = weft_attention_head_parts(p, splits);
    const int masked = p->mask != WEFT_MASK_NONE || p->block_rows > 0, shared = p->heads > p->kv_heads * head_parts;
    const int64_t lines = p->batch * p->kv_heads * head_parts, blocks = weft_ceil_divide(p->seq, queries);
    const int64_t factor = !masked || shared ? 4 : 8;
    const int64_t apart = weft_ceil_divide(factor * (int64_t)device->multiprocessors, blocks);
    const int64_t fit = (masked ? 2 : 1) * (int64_t)device->l2_bytes / (3 * 8 * p->seq * p->head_dim);
    const int64_t wanted = weft_smaller(apart, weft_larger(fit, masked ? 16 : 8));
    const int64_t sections = weft_larger((4 * lines + 3 * wanted) / (4 * wanted), 1);
    return weft_ceil_divide(weft_ceil_divide(lines, sections), head_parts); /* of equal size */
}

/* The longest tiles of all heads of a section come first, and each begins where it is far from the others of its head:
 * their adds meet no others, and short ones fill the end. Without a timetable neighbours climb. */
static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    const weft_hopper_backward_variant *v = variant_of(choice);
    const int timed = is_timed(plan, device, v);
    schedule->split = split_for(plan, device, v);
    if (is_wide(v)) { /* then tiles of a head go together, the longest first, and read the same */
        schedule->order = schedule->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_HEAD_FIRST : schedule->order;
        schedule->sweep = schedule->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : schedule->sweep;
    }
    if (schedule->order == WEFT_ORDER_CHOOSE) {
        schedule->order = timed ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_HEAD_FIRST;
    }
    if (schedule->order == WEFT_ORDER_LONGEST_FIRST && schedule->group == 0) {
        schedule->group = section(&plan->attention, schedule->split, device, choice->tile_m);
    }
    if (schedule->sweep == WEFT_SWEEP_CHOOSE) {
        /* CTAs that come as they come add as they start: who starts later must not be ahead. */
        schedule->sweep = schedule->dispatch == WEFT_DISPATCH_GRID && schedule->order == WEFT_ORDER_REVERSE
                              ? WEFT_SWEEP_FORWARD
                          : schedule->dispatch == WEFT_DISPATCH_GRID ? WEFT_SWEEP_DESCENDING
                          : timed                                    ? WEFT_SWEEP_SHIFT
                                                                     : WEFT_SWEEP_CLIMB;
    }
    if (schedule->dispatch == WEFT_DISPATCH_CHOOSE) {
        schedule->dispatch = timed || schedule->split == 1 ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_STATIC;
    }
}

/* How blocks of queries keep their notes. */
static weft_hopper_backward_notes notes_of(const weft_plan *plan, const weft_hopper_backward_variant *v) {
    const weft_attention *p = &plan->attention;
    const int64_t row_bytes = is_wide(v) ? 4 * v->queries : 2 * p->head_dim,
                  rows = weft_ceil_divide(4 * v->queries, row_bytes);
    const int64_t turns = is_wide(v) ? 0 : 16 + 2 * plan->walk.cols; /* and adds */
    const int64_t bytes = 2 * rows * row_bytes + weft_ceil_divide(turns, 16) * 16,
                  taken = weft_ceil_divide(bytes, row_bytes);
    const int in_dq = !is_wide(v) && taken <= v->queries;
    const int64_t blocks = weft_ceil_divide(p->seq, v->queries),
                  inside = in_dq ? (p->seq + v->queries - taken) / v->queries : 0;
    const int64_t each = weft_larger(blocks - inside, p->sequences > 0); /* a packed batch may end anywhere */
    const int boxed = inside > 0 && rows * row_bytes == 4 * v->queries;
    return (weft_hopper_backward_notes){.inside = (int32_t)inside,
                                        .each = (int32_t)each,
                                        .taken = in_dq ? (int32_t)taken : 0,
                                        .rows = (int32_t)rows,
                                        .boxed = boxed,
                                        .row_bytes = (int32_t)row_bytes,
                                        .bytes = bytes};
}

/* How lists of a block mask lie: the words of `main` in the workspace, 0 where they are in dQ. */
static weft_hopper_backward_lists lists_of(const weft_plan *plan, const weft_hopper_backward_variant *v,
                                           const weft_hopper_backward_notes *notes, size_t *words) {
    const weft_attention *p = &plan->attention;
    const weft_strides *s = &p->q_strides;
    const int64_t heads = listed_heads(p), tiles = plan->walk.cols;
    const int64_t pairs = weft_ceil_divide(1 + weft_ceil_divide(p->seq, v->queries), 2); /* of a list */
    const int64_t in_row = notes->row_bytes / 16, rows = weft_ceil_divide(tiles, in_row);
    const int in_dq = notes->taken > 0 && notes->taken + rows <= v->queries && pairs <= p->seq / v->queries;
    weft_hopper_backward_lists lists = {.heads = (int32_t)heads, .in_row = (int32_t)(in_dq ? in_row : tiles)};
    lists.row_bytes = in_dq ? 2 * s->seq : 0;
    lists.tile_bytes = in_dq ? 16 : 16 * pairs;
    lists.pair_bytes = in_dq ? 2 * s->seq * v->queries : 16;
    lists.head_bytes = heads <= 1 ? 0 : in_dq ? 2 * s->head : 16 * pairs * tiles;
    lists.batch_bytes = in_dq ? 2 * s->batch : 16 * pairs * tiles * heads;
    *words = in_dq ? 0 : (size_t)(lists.batch_bytes * p->batch) / sizeof(int32_t);
    return lists;
}

/* The workspace, one after the other: floats, or words of as many bytes. */
typedef struct weft_backward_rooms {
    size_t sums;  /* of dQ; wide: none */
    size_t notes; /* of the blocks that have theirs apart */
    size_t sinks; /* of each block what it adds to the gradient of a sink, where there are some */
    size_t lists; /* under a block mask, see lists_of(); and of each tile of the last launch, where it has some */
    size_t queries_lists;
    size_t comings, positions, spans; /* where a launch deals; the first and the last in words */
} weft_backward_rooms;

static weft_backward_rooms rooms_of(const weft_plan *plan, const weft_hopper_backward_variant *v) {
    const weft_attention *p = &plan->attention;
    const size_t blocks = (size_t)all_blocks(p, v->queries), queries = (size_t)(p->batch * p->heads * p->seq);
    const int64_t tiles = p->batch * p->kv_heads * splits_of(plan) * plan->walk.cols;
    const size_t dealt = (size_t)deals(plan), words = sizeof(weft_coming) / sizeof(float);
    const size_t in_turn = !is_wide(v), has_sinks = (p->extras & WEFT_SINKS) != 0;
    const weft_hopper_backward_notes notes = notes_of(plan, v);
    const int64_t lines = p->batch * listed_heads(p), cols = plan->walk.cols;
    size_t lists;
    lists_of(plan, v, &notes, &lists);
    const int64_t q_tiles = weft_ceil_divide(p->seq, WEFT_HOPPER_BACKWARD_DQ_QUERIES);
    return (weft_backward_rooms){in_turn * queries * (size_t)p->head_dim,
                                 (size_t)(p->batch * p->heads * notes.each * notes.bytes) / sizeof(float),
                                 has_sinks * blocks,
                                 lists,
                                 is_wide(v) ? (size_t)(lines * q_tiles * (1 + cols) * 3) : 0,
                                 dealt * words * (size_t)tiles,
                                 dealt * (size_t)(tiles / splits_of(plan)),
                                 dealt * (size_t)(2 * p->batch * cols)};
}

static size_t workspace(const weft_plan *plan) {
    const weft_backward_rooms n = rooms_of(plan, variant_of(&((const weft_cuda_plan *)plan->placed)->main->choice));
    return sizeof(float) * (n.sums + n.notes + n.sinks + n.lists + n.queries_lists + n.comings + 2 * n.positions + n.spans);
}

/* For tuning: the split that would be chosen, and those next to it. */
static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    weft_cuda_choice choice;
    size_t count = 0;
    if (choose(plan, device, knobs, &choice, NULL)) {
        return 0;
    }
    const weft_hopper_backward_variant *v = variant_of(&choice);
    const int is_open = plan->schedule.split == 0;
    const int64_t chosen = split_for(plan, device, v), splits[] = {chosen, chosen - 1, chosen + 1, 2 * chosen};
    for (int i = 0; i < (!is_open ? 1 : chosen > 1 ? 4 : 3) && count < capacity; i++) {
        weft_plan with = *plan;
        with.schedule.split = splits[i];
        if (splits[i] > 0 && choose(&with, device, knobs, &choice, NULL) == WEFT_OK) {
            list[count] = plan->schedule;
            list[count].tile_m = choice.tile_m;
            list[count].tile_n = choice.tile_n;
            list[count++].split = splits[i];
        }
    }
    return count;
}

static weft_status make_map(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                            int64_t dims, int64_t seq, int64_t heads, int32_t rows, weft_tensor_map *map,
                            weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 4,
                                   .length = {dims, seq, heads, p->batch},
                                   .stride = {1, strides->seq, strides->head, strides->batch},
                                   .box = {64, rows, 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

static void fill_scores(const weft_attention *p, const weft_attention_gradients *data, weft_hopper_backward_params *to) {
    const double log2_e = 1.4426950408889634;
    weft_hopper_backward_scores *s = &to->scores;
    if (p->softcap > 0) {
        s->cap = (float)(p->softcap * log2_e);
        s->cap_scale = (float)(2 * log2_e * p->scale / p->softcap);
    }
    s->alibi = p->extras & WEFT_ALIBI ? data->alibi : NULL;
    s->alibi_stride = p->alibi_stride;
    s->sinks = p->extras & WEFT_SINKS ? data->sinks : NULL;
    s->grad_sinks = s->sinks ? data->grad_sinks : NULL;
}

static void fill_full(const weft_attention *p, const weft_attention_gradients *data, weft_hopper_backward_full *to) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(weft_attention_bias_dtype(p));
    to->bias = p->extras & WEFT_BIAS ? data->bias : NULL;
    to->batch_bytes = bytes * p->bias_strides.batch;
    to->head_bytes = bytes * p->bias_strides.head;
    to->query_bytes = bytes * p->bias_strides.seq;
    to->key_bytes = bytes * p->bias_key_stride;
    to->bias_type = p->bias_type;
    to->cap = (float)p->softcap;
    to->kept = (float)(1 / (1 - p->dropout));
    to->dropout_limit = weft_dropout_limit(p->dropout);
    to->dropout_seed = data->dropout_seed;
    to->grad_bias = to->bias ? data->grad_bias : NULL;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    const weft_attention_gradients *data = buffers;
    const weft_hopper_backward_variant *v = variant_of(&c->main->choice);
    weft_hopper_backward_params *to = parameters;
    weft_status status;
    if (!data->o) { /* nor has it an lse */
        return weft_fail(message, WEFT_INVALID, "o is null, and is not computed again on a GPU");
    }
    memset(to, 0, sizeof *to);
    const int64_t d = p->head_dim, dv = p->head_dim_v;
    if ((status = make_map(plan, "q", data->q, &p->q_strides, d, p->seq, p->heads, v->queries, &to->q, message)) ||
        (status = make_map(plan, "grad_o", data->grad_o, &p->o_strides, dv, p->seq, p->heads, v->queries, &to->grad_o,
                           message)) ||
        (status = make_map(plan, "k", data->k, &p->k_strides, d, p->kv_seq, p->kv_heads, v->keys, &to->k, message)) ||
        (status = make_map(plan, "v", data->v, &p->v_strides, dv, p->kv_seq, p->kv_heads, v->keys, &to->v, message))) {
        return status;
    }
    if (v->form < WEFT_HOPPER_BACKWARD_GENERAL && !is_wide(v) &&
        ((status =
              make_map(plan, "grad_k", data->grad_k, &p->k_strides, d, p->kv_seq, p->kv_heads, 16, &to->to_k, message)) ||
         (status =
              make_map(plan, "grad_v", data->grad_v, &p->v_strides, dv, p->kv_seq, p->kv_heads, 16, &to->to_v, message)))) {
        return status;
    }
    to->notes = notes_of(plan, v);
    const weft_tensor_view noted = {.data = data->grad_q,
                                    .dtype = p->dtype,
                                    .rank = 4,
                                    .length = {d, p->seq, p->heads, p->batch},
                                    .stride = {1, p->q_strides.seq, p->q_strides.head, p->q_strides.batch},
                                    .box = {(int32_t)d, to->notes.rows, 1, 1}};
    if (to->notes.boxed && (status = weft_tensor_map_make(c->driver, "grad_q", &noted, &to->noted, message))) {
        return status;
    }
    to->o = data->o;
    to->grad_o_data = data->grad_o;
    to->lse = data->lse;
    to->grad_q = data->grad_q;
    to->grad_k = data->grad_k;
    to->grad_v = data->grad_v;
    to->o_strides = p->o_strides;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    const weft_backward_rooms rooms = rooms_of(plan, v);
    to->sums = data->workspace;
    to->notes.apart = (void *)(to->sums + rooms.sums);
    to->scores.sink_parts = to->sums + rooms.sums + rooms.notes;
    int32_t *lists = (void *)(to->scores.sink_parts + rooms.sinks);
    if (p->block_rows > 0) {
        size_t words;
        to->lists = lists_of(plan, v, &to->notes, &words);
        to->lists.main = words > 0 ? (char *)lists : (char *)data->grad_q + to->notes.taken * to->lists.row_bytes;
        to->lists.queries = rooms.queries_lists > 0 ? lists + rooms.lists : NULL;
    }
    int32_t *dealt = lists + rooms.lists + rooms.queries_lists;
    to->heads = (int32_t)p->heads;
    to->kv_heads = (int32_t)p->kv_heads;
    to->blocks = (int32_t)weft_ceil_divide(p->seq, v->queries);
    to->splits = (int32_t)splits_of(plan);
    if (to->splits > 1) {
        to->joining = weft_hopper_backward_join(v, to->splits);
    }
    to->group = (int32_t)group_of(plan);
    to->line_parts = (int32_t)weft_larger(plan->walk.reach.parts, 1);
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->head_dim = (int32_t)p->head_dim;
    to->head_dim_v = (int32_t)p->head_dim_v;
    const weft_slice slice = weft_attention_slice(p);
    to->causal = p->mask != WEFT_MASK_NONE;
    to->offset = (int32_t)(slice.high > p->kv_seq ? p->kv_seq : slice.high < -p->seq ? -p->seq : slice.high); /* clamp */
    to->scale = (float)p->scale;
    to->scale_log2 = (float)(p->scale * 1.4426950408889634);
    to->counter = counters->own && pass >= c->main ? counters->own + (pass - c->main) : NULL;
    to->side_of_sm = counters->own && pass == c->main ? (const uint8_t *)(uintptr_t)c->side_of_sm : NULL;
    to->walk = *walk;
    if (rooms.comings > 0) {
        weft_hopper_backward_dealing *d = &to->dealing;
        *d = (weft_hopper_backward_dealing){(void *)dealt, (void *)(dealt + rooms.comings),
                                            (void *)(dealt + rooms.comings + rooms.positions),
                                            (void *)(dealt + rooms.comings + 2 * rooms.positions)};
        const int is_made = strcmp(pass->choice.image, WEFT_HOPPER_BACKWARD_DEAL_MODULE) != 0;
        to->walk.comings = is_made ? d->comings : NULL;
        to->walk.next = is_made ? d->next : NULL;
        to->walk.order.table = is_made ? d->table : NULL;
    }
    if (v->form >= WEFT_HOPPER_BACKWARD_GENERAL) {
        fill_scores(p, data, to);
    }
    if (v->form == WEFT_HOPPER_BACKWARD_FULL) {
        fill_full(p, data, &to->full);
    }
    if (v->form >= WEFT_HOPPER_BACKWARD_GENERAL && !weft_reach_has_band(&walk->reach)) { /* it knows nothing else */
        const int has_queries = is_wide(v) && pass == c->main + 1;
        weft_reach_set_band(&to->walk.reach, weft_attention_band(p), weft_attention_sequences(p), !has_queries);
    }
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_hopper_backward = {
    .name = "hopper_backward",
    .profile = "hopper-backward",
    .parameter_bytes = sizeof(weft_hopper_backward_params),
    .choose = choose,
    .passes = passes,
    .complete = complete,
    .workspace = workspace,
    .takes_turns = takes_turns,
    .members = members,
    .deals = deals,
    .candidates = candidates,
    .fill = fill,
    .by_side = 1,
};
