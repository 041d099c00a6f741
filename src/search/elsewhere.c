/* SPDX-License-Identifier: Apache-2.0 */
/* How to get a schedule from other people's kernels, or that they do not have it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan/custom.h"
#include "search/search.h"

/* A text in the making, cut where it is too long. */
typedef struct writer {
    char *text;
    size_t size, used;
} writer;

#define SAY(w, ...)                                                                                                        \
    do {                                                                                                                   \
        const size_t at = (w)->used < (w)->size ? (w)->used : (w)->size;                                                   \
        (w)->used += (size_t)snprintf((w)->text + at, (w)->size - at, __VA_ARGS__);                                        \
    } while (0)

static int is_backward(const weft_plan *plan) {
    return plan->operation->refused_sweep != NULL; /* who has sweeps of its own */
}

static int is_matrix(const weft_plan *plan) {
    return plan->operation->info.grid == WEFT_GRID_MATRIX;
}

static int is_grouped(const weft_schedule *s) {
    return s->order == WEFT_ORDER_GROUP;
}

/* The scheduler's swizzle is 1, 2, 4 or 8: the most that does not exceed the group. */
static int64_t cutlass_swizzle(int64_t group) {
    return group >= 8 ? 8 : group >= 4 ? 4 : group >= 2 ? 2 : 1;
}

static void cutlass_order(const weft_schedule *s, writer *w) {
    const int along_m = s->order == WEFT_ORDER_RASTER_M || (s->order != WEFT_ORDER_RASTER_N && s->axis == WEFT_AXIS_N);
    const char *raster = along_m ? "AlongM" : "AlongN";
    switch (s->order) {
    case WEFT_ORDER_RASTER_M:
    case WEFT_ORDER_RASTER_N:
        SAY(w, "scheduler.raster_order = RasterOrderOptions::%s; scheduler.max_swizzle_size = 1", raster);
        break;
    case WEFT_ORDER_GROUP:
        SAY(w, "scheduler.raster_order = RasterOrderOptions::%s; scheduler.max_swizzle_size = %" PRId64 "%s", raster,
            cutlass_swizzle(s->group),
            cutlass_swizzle(s->group) == s->group ? "" : ", the nearest that it has: it takes 1, 2, 4 and 8");
        break;
    default:
        SAY(w,
            "%s cannot be set: it takes a TileScheduler of your own. The nearest that can: RasterOrderOptions::%s with "
            "max_swizzle_size = %" PRId64,
            weft_order_describe(s->order)->name, raster, s->order == WEFT_ORDER_HILBERT ? 8 : cutlass_swizzle(s->group));
    }
}

static void cutlass(const weft_schedule *s, const weft_plan *plan, writer *w) {
    if (!is_matrix(plan)) {
        SAY(w,
            "its FMHA examples have no option for the order: change the map from blockIdx to %s block and head in their "
            "%s",
            is_backward(plan) ? "key" : "query", is_backward(plan) ? "backward kernel" : "tile scheduler");
        return;
    }
    cutlass_order(s, w);
    SAY(w, "; tile %" PRId64 "x%" PRId64 "x%" PRId64 ", cluster %" PRId64 "x%" PRId64 "x1; %s", s->tile_m, s->tile_n,
        s->tile_k > 0 ? s->tile_k : 64, s->cluster_m, s->cluster_n,
        s->dispatch == WEFT_DISPATCH_STATIC    ? "PersistentScheduler"
        : s->dispatch == WEFT_DISPATCH_DYNAMIC ? "a dynamic scheduler, which Hopper's collective builders do not have"
                                               : "a kernel that is not persistent");
    if (s->sweep != WEFT_SWEEP_FORWARD) {
        SAY(w, "; sweep %s cannot be set: main loops go up through k", weft_sweep_describe(s->sweep)->name);
    }
}

static void triton_gemm(const weft_schedule *s, writer *w) {
    SAY(w, "BLOCK_SIZE_M = %" PRId64 ", BLOCK_SIZE_N = %" PRId64 "; ", s->tile_m, s->tile_n);
    const char *m = s->axis == WEFT_AXIS_M ? "m" : "n", *other = s->axis == WEFT_AXIS_M ? "n" : "m";
    if (s->order == WEFT_ORDER_RASTER_N) {
        SAY(w, "GROUP_SIZE_M = 1: pid_m = pid // num_pid_n; pid_n = pid %% num_pid_n");
    } else if (s->order == WEFT_ORDER_RASTER_M) {
        SAY(w, "pid_m = pid %% num_pid_m; pid_n = pid // num_pid_m");
    } else if (is_grouped(s) || s->order == WEFT_ORDER_SERPENTINE) {
        SAY(w,
            "GROUP_SIZE_%s = %" PRId64 ": band = pid // (GROUP * num_pid_%s); first = band * GROUP; "
            "size = min(num_pid_%s - first, GROUP); at = pid %% (GROUP * num_pid_%s); pid_%s = first + at %% size; "
            "pid_%s = at // size",
            s->axis == WEFT_AXIS_M ? "M" : "N", s->group, other, m, other, m, other);
        if (s->order == WEFT_ORDER_SERPENTINE) {
            SAY(w, "; if band %% 2: pid_%s = num_pid_%s - 1 - pid_%s", other, other, other);
        }
    } else {
        SAY(w, "order %s from a table: tile = tl.load(order_ptr + pid), filled on the host (weft_order_fill_table)",
            weft_order_describe(s->order)->name);
    }
}

static void triton_attention(const weft_schedule *s, int backward, writer *w) {
    if (backward) {
        SAY(w,
            "BLOCK_M1 = %" PRId64 ", BLOCK_N1 = %" PRId64
            " of the loop for dK and dV; block is a key block, head one of K and V, whose steps are query blocks of "
            "every head that shares it; ",
            s->tile_m, s->tile_n);
    } else {
        SAY(w, "BLOCK_M = %" PRId64 ", BLOCK_N = %" PRId64 "; ", s->tile_m, s->tile_n);
    }
    switch (s->order) {
    case WEFT_ORDER_HEAD_FIRST:
        SAY(w, "grid (blocks, batch * heads): block = tl.program_id(0); head = tl.program_id(1)");
        break;
    case WEFT_ORDER_BLOCK_FIRST:
        SAY(w, "grid (batch * heads, blocks): head = tl.program_id(0); block = tl.program_id(1)");
        break;
    case WEFT_ORDER_REVERSE:
        SAY(w, "grid (blocks, batch * heads): block = tl.num_programs(0) - 1 - tl.program_id(0); head = tl.program_id(1)");
        break;
    case WEFT_ORDER_LONGEST_FIRST:
        SAY(w,
            "S = %" PRId64
            " heads a section: section = pid // (S * blocks); at = pid %% (S * blocks); size = min(S, heads - "
            "section * S); head = section * S + at %% size; block = %sat // size",
            s->group, backward ? "" : "blocks - 1 - "); /* the first keys are seen by most queries */
        break;
    case WEFT_ORDER_CUSTOM:
        SAY(w, "your order as a table: tile = tl.load(order_ptr + pid); head = tile // blocks; block = tile %% blocks");
        break;
    default:
        SAY(w,
            "on a chip that hands program ids to its %" PRId64 " L2s in turn: per = batch * heads // %" PRId64
            "; home = pid %% %" PRId64 "; at = pid // %" PRId64 "; head = home * per + %s; block = %s",
            s->domains, s->domains, s->domains, s->domains,
            s->order == WEFT_ORDER_HEAD_FIRST_SWIZZLED ? "at // blocks" : "at % per",
            s->order == WEFT_ORDER_HEAD_FIRST_SWIZZLED ? "at % blocks" : "at // per");
    }
}

static void triton(const weft_schedule *s, const weft_plan *plan, writer *w) {
    if (is_matrix(plan)) {
        triton_gemm(s, w);
    } else {
        triton_attention(s, is_backward(plan), w);
    }
    if (s->sweep == WEFT_SWEEP_SAWTOOTH) {
        SAY(w, "; sawtooth: on odd tiles of a program (persistent: its i-th tile; else pid // programs at a time) step j "
               "reads "
               "block steps - 1 - j");
    } else if (s->sweep == WEFT_SWEEP_PAIR) {
        SAY(w, "; pair: two neighbouring tiles a program, the second with step j reading block steps - 1 - j");
    } else if (s->sweep > WEFT_COMMON_SWEEPS) {
        SAY(w, "; sweep %s: %s", weft_sweep_describe(s->sweep)->name, weft_sweep_describe(s->sweep)->text);
    }
    if (is_backward(plan)) {
        SAY(w, "; dQ by tl.atomic_add has other bits in every run; the tutorial's second loop, over keys, does not");
    }
    SAY(w, "; %s",
        s->dispatch == WEFT_DISPATCH_GRID     ? "one program a tile"
        : s->dispatch == WEFT_DISPATCH_STATIC ? "for pid in tl.range(tl.program_id(0), tiles, tl.num_programs(0))"
                                              : "persistent programs that take pid from tl.atomic_add(counter, 1)");
}

static void flash_attention_forward(const weft_schedule *s, writer *w) {
    const char *order =
        s->order == WEFT_ORDER_HEAD_FIRST    ? "head-first is its grid order: blockIdx.x is the query block"
        : s->order == WEFT_ORDER_BLOCK_FIRST ? "block-first: swap blockIdx.x and blockIdx.y, so that heads vary fastest"
        : s->order == WEFT_ORDER_REVERSE ? "reverse: m_block = num_m_blocks - 1 - m_block, as it does under a causal mask"
        : s->order == WEFT_ORDER_LONGEST_FIRST
            ? "longest-first is its LPT scheduler of causal launches, which sections heads by a size of the "
              "L2 that is fixed in its source"
        : s->order == WEFT_ORDER_CUSTOM
            ? "your order cannot be set: look up blockIdx in its table in its tile scheduler"
            : "an order by L2 domain cannot be set: map blockIdx to heads in its tile scheduler";
    SAY(w, "%s; kBlockM = %" PRId64 ", kBlockN = %" PRId64 " in its table of tile sizes", order, s->tile_m, s->tile_n);
    if (s->sweep == WEFT_SWEEP_FORWARD) {
        SAY(w, "; its loop over n_block goes down, in every tile: for reuse that is a forward sweep");
    } else {
        SAY(w, "; sweep %s cannot be set: reverse the loop over n_block where m_block is odd",
            weft_sweep_describe(s->sweep)->name);
    }
    SAY(w, "; heads that share K and V: pack_gqa");
}

/* Heads in a section of FlashAttention-3's causal backward: a power of 2 whose Q, dO and sums of dQ fit 40 MiB. */
static int64_t flash_attention_section(const weft_attention *p) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype);
    const int64_t head = p->seq * ((p->head_dim + p->head_dim_v) * bytes + p->head_dim * (int64_t)sizeof(float));
    int64_t section = 1;
    while (2 * section * head <= INT64_C(40) << 20) {
        section *= 2;
    }
    return section;
}

/* Its causal launches take sections of heads, all others the grid: key blocks, then heads. */
static void flash_attention_backward_order(const weft_schedule *s, const weft_attention *p, int causal, writer *w) {
    const char *lpt =
        causal ? "its SingleTileBwdLPTScheduler" : "SingleTileBwdLPTScheduler, which it has for causal launches,";
    switch (s->order) {
    case WEFT_ORDER_HEAD_FIRST:
        SAY(w, causal ? "head-first: SingleTileScheduler in run_flash_bwd for causal launches, too"
                      : "head-first is its grid order: blockIdx.x is the key block");
        break;
    case WEFT_ORDER_BLOCK_FIRST:
        SAY(w, "block-first: %s with swizzle = batch * heads", lpt);
        break;
    case WEFT_ORDER_REVERSE:
        SAY(w, "reverse: %s with SPT, and swizzle = 1", lpt);
        break;
    case WEFT_ORDER_LONGEST_FIRST:
        SAY(w, "longest-first: %s without SPT, and swizzle = %" PRId64, lpt, s->group * (p->heads / p->kv_heads));
        if (causal && p->sequences == 0) {
            SAY(w, "; it takes %" PRId64 " by itself, as many as 40 MiB hold", flash_attention_section(p));
        }
        break;
    default:
        SAY(w, "order %s cannot be set: map blockIdx to key blocks and heads in its tile scheduler",
            weft_order_describe(s->order)->name);
    }
}

/* Turns of its deterministic mode are by the number of the key block, so tiles have to start in that order. */
static void flash_attention_turns(const weft_schedule *s, int causal, writer *w) {
    const int comes_down = s->order == WEFT_ORDER_REVERSE;
    SAY(w, "; deterministic=True gives the same bits in every run: tiles add to dQ from the %s key block on, and ",
        causal ? "last" : "first");
    if (s->order == WEFT_ORDER_CUSTOM || weft_schedule_by_domain(s)) {
        SAY(w, "an order in which a head's tiles start otherwise may hang");
    } else if (comes_down == causal) {
        SAY(w, "start so in this order, too");
    } else {
        SAY(w, "would wait for tiles that have not started, and may hang, in this order: %s",
            causal ? "leave SPT on, which takes the same sections from their last key blocks on" : "leave its own order");
    }
}

static void flash_attention_backward(const weft_schedule *s, const weft_attention *p, writer *w) {
    const int causal = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    flash_attention_backward_order(s, p, causal, w);
    SAY(w, "; kBlockM = %" PRId64 ", kBlockN = %" PRId64 " in run_mha_bwd_hdim*", s->tile_m, s->tile_n);
    if (s->sweep == WEFT_SWEEP_FORWARD || s->sweep == WEFT_SWEEP_CLIMB) {
        SAY(w, "; its loops over m_block go up in every tile: that is a forward sweep");
    } else {
        SAY(w, "; sweep %s cannot be set: its loops over m_block go up in every tile", weft_sweep_describe(s->sweep)->name);
    }
    flash_attention_turns(s, causal, w);
    if (p->kv_heads < p->heads) {
        SAY(w,
            "; a tile has one query head: those that share K and V add to dK and dV in fp32, and pack_gqa is forward only");
    }
}

static void flash_attention(const weft_schedule *s, const weft_plan *plan, writer *w) {
    if (is_matrix(plan)) {
        SAY(w, "it has no matrix products of their own");
    } else if (is_backward(plan)) {
        flash_attention_backward(s, &plan->attention, w);
    } else {
        flash_attention_forward(s, w);
    }
}

/* Programs, by the names that callers ask for. */
static const struct {
    const char *name;
    void (*say)(const weft_schedule *s, const weft_plan *plan, writer *w);
} programs[] = {{"cutlass", cutlass}, {"triton", triton}, {"flash-attention", flash_attention}};

const char *weft_elsewhere_name(size_t number) {
    return number < sizeof programs / sizeof *programs ? programs[number].name : NULL;
}

size_t weft_search_elsewhere(const weft_search *search, const char *program, char *text, size_t size) {
    writer w = {text, size, 0};
    if (size > 0) {
        text[0] = '\0';
    }
    for (size_t i = 0; i < sizeof programs / sizeof *programs && search->summary.count > 0; i++) {
        if (strcmp(programs[i].name, program) == 0) {
            programs[i].say(&search->all.list[0].ranked.schedule, &search->all.draft, &w);
        }
    }
    return w.used;
}
