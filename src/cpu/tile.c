/* Tiles for this host: large enough for the caches, small enough that every core has as much to do as the others. */
#include <math.h>

#include "cpu/cost.h"
#include "plan/problem.h"

/* Candidates for a side. All kernels' blocks divide 96, so that its multiples waste nothing. */
static const int64_t sides[] = {48, 64, 96, 128, 192, 288};
enum { SIDES = sizeof sides / sizeof *sides };

/* Sides to try: the one that is given, or each of `from` up to the problem's length. */
static size_t list(int64_t given, int64_t length, const int64_t *from, size_t from_count, int64_t *to) {
    size_t count = 0;
    for (size_t i = 0; given == 0 && i < from_count; i++) {
        if (i == 0 || from[i] <= length) {
            to[count++] = from[i] < length ? from[i] : length;
        }
    }
    to[count] = given;
    return count ? count : 1;
}

/* How many lines of so many bytes fit half of an L1: a multiple of 96, at most 480. */
static int64_t fitting(int64_t bytes) {
    const int64_t lines = (24 << 10) / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
}

/* The layout that a schedule would have with this tile, its order and dispatch as the plan chooses them. */
static weft_cpu_layout lay_out(const weft_plan *plan, const weft_schedule *s, int64_t tile_m, int64_t tile_n,
                               int64_t workers) {
    const int gemm = plan->subject == WEFT_SUBJECT_GEMM, causal = !gemm && plan->attention.mask != WEFT_MASK_NONE;
    const weft_attention *p = &plan->attention;
    weft_cpu_layout l = {.plan = plan,
                         .kernel = weft_cpu_choose(gemm ? plan->gemm.dtype : p->dtype),
                         .tile_m = tile_m,
                         .tile_n = tile_n,
                         .tile_k = s->tile_k,
                         .halves = s->sweep == WEFT_SWEEP_PAIR ? 2 : 1,
                         .workers = workers,
                         .dynamic = s->dispatch == WEFT_CHOOSE ? causal : s->dispatch == WEFT_DISPATCH_DYNAMIC};
    l.tiles = gemm ? weft_ceil_divide(plan->gemm.n, tile_n) : weft_ceil_divide(p->seq, tile_m);
    const weft_grid tiles = {gemm ? 1 : p->batch, gemm ? weft_ceil_divide(plan->gemm.m, tile_m) : p->heads, l.tiles};
    const weft_grid positions = weft_walk_positions(tiles, l.halves == 2 ? WEFT_SWEEP_PAIR : WEFT_SWEEP_FORWARD, 1, 1);
    const weft_order_kind usual = causal ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_HEAD_FIRST; /* a GEMM's is chosen by now */
    const int64_t group = s->group > 0 ? s->group : gemm ? (int64_t)ceil(sqrt((double)workers)) : WEFT_MAX_DIMENSION;
    if (!weft_order_init(&l.order, s->order == WEFT_CHOOSE ? usual : (weft_order_kind)s->order, positions, group, s->axis,
                         s->domains > 0 ? s->domains : 1)) {
        l.order.count = 0; /* the plan will say that the grid is too large */
    }
    return l;
}

/* Takes the cheapest of the tiles. Of equals the largest, or under a causal mask the smallest (measured: 1 to 2 %). */
static void choose(const weft_plan *plan, weft_schedule *s, const int64_t *m, size_t ms, const int64_t *n, size_t ns,
                   int64_t workers) {
    const int small = plan->subject == WEFT_SUBJECT_ATTENTION && plan->attention.mask != WEFT_MASK_NONE;
    double best = -1;
    for (size_t i = 0; i < ms * ns; i++) {
        const weft_cpu_layout layout = lay_out(plan, s, m[i / ns], n[i % ns], workers);
        const double cost = layout.order.count > 0 ? weft_cpu_layout_cost(&layout) : 0;
        if (best < 0 || cost < best * (small ? 0.995 : 1) || (!small && cost <= best)) {
            best = cost;
            s->tile_m = m[i / ns];
            s->tile_n = n[i % ns];
        }
    }
}

static void choose_gemm(const weft_plan *plan, weft_schedule *s, int64_t workers) {
    const weft_gemm *p = &plan->gemm;
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    int64_t m[SIDES + 1], n[SIDES + 1];
    if (s->order == WEFT_CHOOSE) { /* C is written along its lines: page after page, not one line of each */
        s->order = p->c_major == WEFT_ROW_MAJOR ? WEFT_ORDER_RASTER_N : WEFT_ORDER_RASTER_M;
    }
    if (s->tile_k == 0) { /* a panel of B stays in the L1 */
        const int64_t depth = fitting(kernel->b.lines * (int64_t)weft_dtype_bytes(kernel->dtype));
        s->tile_k = p->k < depth ? p->k : depth;
    }
    const size_t ms = list(s->tile_m, p->m, sides, SIDES, m), ns = list(s->tile_n, p->n, sides, SIDES, n);
    choose(plan, s, m, ms, n, ns, workers);
}

static void choose_attention(const weft_plan *plan, weft_schedule *s, int64_t workers) {
    const weft_attention *p = &plan->attention;
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    const int64_t seen = weft_cpu_pad(weft_visible_keys(p, p->seq - 1), 96); /* by the last query, who sees the most */
    int64_t keys = fitting(kernel->b.lines * (int64_t)sizeof(float));        /* a panel of scores stays in the L1 */
    int64_t m[SIDES + 1];
    keys = seen > 0 && seen < keys ? seen : keys;
    s->tile_n = s->tile_n ? s->tile_n : p->kv_seq < keys ? p->kv_seq : keys;
    choose(plan, s, m, list(s->tile_m, p->seq, sides, SIDES, m), &s->tile_n, 1, workers);
}

/* Keys of a block: what fits half of an L1, and other multiples of 96. */
static const int64_t blocks[] = {96, 192, 288, 384, 480};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

size_t weft_cpu_candidates(const weft_plan *draft, weft_schedule *to, size_t room) {
    const weft_schedule *s = &draft->schedule;
    const int gemm = draft->subject == WEFT_SUBJECT_GEMM;
    int64_t m[SIDES + 1], n[SIDES + 1];
    const size_t ms = list(s->tile_m, gemm ? draft->gemm.m : draft->attention.seq, sides, SIDES, m),
                 ns = gemm ? list(s->tile_n, draft->gemm.n, sides, SIDES, n)
                           : list(s->tile_n, draft->attention.kv_seq, blocks, BLOCKS, n);
    size_t count = 0;
    for (size_t i = 0; i < ms * ns; i++) {
        for (int32_t dispatch = WEFT_DISPATCH_STATIC; dispatch <= WEFT_DISPATCH_DYNAMIC; dispatch++) {
            if (count < room && (s->dispatch == WEFT_CHOOSE || s->dispatch == dispatch)) {
                to[count] = *s;
                to[count].tile_m = m[i / ns];
                to[count].tile_n = n[i % ns];
                to[count++].dispatch = dispatch; /* grid is static here */
            }
        }
    }
    return count;
}

weft_status weft_cpu_open(weft_plan *plan, int given_machine, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    (void)message;
    if (given_machine) {
        return WEFT_OK;
    }
    s->workers = s->workers == 0 ? weft_cpu_threads() : s->workers;          /* one each, however many cores there are */
    if (s->workers < 0 || s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) { /* reported later */
        return WEFT_OK;
    }
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        choose_gemm(plan, s, s->workers);
    } else {
        choose_attention(plan, s, s->workers);
    }
    return WEFT_OK;
}
