/* Tiles for this host: large enough for the caches, small enough that every core has as much to do as the others. */
#include <math.h>

#include "cpu/cpu.h"
#include "plan/problem.h"

/* Candidates for a side. All kernels' blocks divide 96, so that its multiples waste nothing; powers of two divide what is
 * often asked for. Those beyond SIDES are for tiles that are shared out by columns of blocks, which hold the sums of but
 * one. */
static const int64_t sides[] = {48, 64, 96, 128, 192, 256, 288, 384, 512, 768};

/* Keys of a block of attention. */
static const int64_t blocks[] = {96, 192, 288, 384, 480};
enum { ALL_SIDES = sizeof sides / sizeof *sides, SIDES = ALL_SIDES - 3, BLOCKS = sizeof blocks / sizeof *blocks };

/* Bytes. A tile's sums and a slice of its A and B share an L2, which two threads may have to share. */
enum { HALF_L1 = 24 << 10, WHOLE_L1 = 48 << 10, SHARE_OF_L2 = 1 << 20 };

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

/* How tiles cut one side: how many, and the lines of one and of all, each tile padded to whole blocks; the last one may be
 * shorter. */
typedef struct side {
    double tiles, one, all;
} side;

static side cut_side(int64_t length, int64_t asked, int64_t lines) {
    const int64_t tile = weft_cpu_smaller(asked, length); /* any size may be asked for */
    const int64_t whole = length / tile, rest = length - whole * tile, one = weft_cpu_pad(tile, lines);
    return (side){(double)(whole + (rest > 0)), (double)one,
                  (double)whole * (double)one + (double)weft_cpu_pad(rest, lines)};
}

/* What a line of a tile takes besides, in products. */
typedef struct fetching {
    double m, n;
} fetching;

/* What tiles take, in products of one value of k: padded to whole blocks, and their lines. */
typedef struct spent {
    double tiles; /* how many */
    double one, all;
} spent;

static spent spend(fetching f, double grids, side m, side n) {
    return (spent){grids * m.tiles * n.tiles, m.one * n.one + f.m * m.one + f.n * n.one,
                   grids * (m.all * n.all + f.m * m.all * n.tiles + f.n * n.all * m.tiles)};
}

/* How many lines of so many bytes fit a memory: a multiple of 96, at most 480. */
static int64_t fitting(int64_t bytes, int64_t memory) {
    const int64_t lines = memory / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
}

/* How tiles come to workers that have a core each: in no order, as if they could be cut anywhere, or in that of raster-m or
 * raster-n. It matters where the last ones, which are often small, come last. */
typedef enum way { WAY_FLUID, WAY_DOWN, WAY_ALONG } way;

static way way_of(int32_t order) {
    return order == WEFT_ORDER_RASTER_M ? WAY_DOWN : WAY_ALONG;
}

/* Whether there are few enough tiles to deal them out one by one. */
enum { MOST_DEALT = 8, DEALT_EACH = 16 };

static int is_dealt(side m, side n, int64_t workers) {
    return !weft_cpu_shares_cores() && workers <= MOST_DEALT && m.tiles * n.tiles <= (double)(DEALT_EACH * workers);
}

/* When the last tile is done, if each goes to the worker that is free first. */
static double deal(fetching f, side m, side n, int64_t workers, way how) {
    const side outer = how == WAY_DOWN ? n : m, inner = how == WAY_DOWN ? m : n;
    const double last_outer = outer.all - (outer.tiles - 1) * outer.one,
                 last_inner = inner.all - (inner.tiles - 1) * inner.one;
    const double outer_line = how == WAY_DOWN ? f.n : f.m, inner_line = how == WAY_DOWN ? f.m : f.n;
    double free_at[MOST_DEALT] = {0}, end = 0;
    for (double i = 1; i <= outer.tiles; i++) {
        const double x = i < outer.tiles ? outer.one : last_outer;
        for (double j = 1; j <= inner.tiles; j++) {
            const double y = j < inner.tiles ? inner.one : last_inner;
            int64_t first = 0;
            for (int64_t w = 1; w < workers; w++) {
                first = free_at[w] < free_at[first] ? w : first;
            }
            free_at[first] += x * y + outer_line * x + inner_line * y;
            end = free_at[first] > end ? free_at[first] : end;
        }
    }
    return end;
}

/* Where threads share cores, some are slower than others, one that is done leaves its part to another, and all wait for the
 * last: for a fifth of a tile where threads take tiles as they come free, a little more where each has but one. Seen on 16
 * threads of 8 cores. Threads with a core each are alike, and take tiles as a dealer would: seen on two. */
static double with_waiting(fetching f, side m, side n, int64_t workers, way how) {
    const spent s = spend(f, 1, m, n);
    if (weft_cpu_shares_cores()) {
        return s.tiles <= (double)workers ? 1.24 * s.one : s.all / (double)workers + 0.2 * s.all / s.tiles;
    }
    const double share =
        how != WAY_FLUID && is_dealt(m, n, workers) ? deal(f, m, n, workers, how) : fmax(s.one, s.all / (double)workers);
    return share + (s.tiles > 1 ? 0.05 * s.all / s.tiles : 0);
}

/* Lines of A and of B: those that lie along k are turned while they are packed. */
static fetching fetching_of(const weft_cpu_kernel *kernel, const weft_gemm *p) {
    return (fetching){p->a_major == WEFT_ROW_MAJOR ? kernel->fetch : kernel->fetch_across,
                      p->b_major == WEFT_ROW_MAJOR ? kernel->fetch_across : kernel->fetch};
}

int weft_cpu_takes_lying(const weft_cpu_kernel *kernel, const weft_gemm *p) {
    return kernel->multiply_lying && p->dtype == kernel->dtype && p->a_major == WEFT_ROW_MAJOR;
}

/* With no more tiles than workers they are shared out by columns of blocks. */
static int by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, side m, side n, int64_t workers) {
    return m.tiles * n.tiles > 1 && m.tiles * n.tiles <= (double)workers && weft_cpu_takes_lying(kernel, p);
}

/* Then all have as much to do, up to the last column. Each column packs its B; each worker fetches the A of its tile, and
 * one that has none fetches two of others. */
static double cost_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, side m, side n, int64_t workers) {
    const double rows = (double)weft_cpu_pad(p->m, kernel->a.lines), cols = (double)weft_cpu_pad(p->n, kernel->b.lines);
    const double column = kernel->b.lines * (m.one + kernel->fetch);
    const double share = cols * (rows + kernel->fetch * m.tiles) / (double)workers;
    const double fetched = m.tiles * n.tiles < (double)workers ? 2 : 1;
    return (share > column ? share : column) + 0.5 * column + fetched * kernel->fetch * m.one;
}

/* Each thread packs what its tile needs, however often others pack the same. */
static double cost_alone(const weft_cpu_kernel *kernel, const weft_gemm *p, side m, side n, int64_t workers, way how) {
    return by_columns(kernel, p, m, n, workers) ? cost_by_columns(kernel, p, m, n, workers)
                                                : with_waiting(fetching_of(kernel, p), m, n, workers, how);
}

/* Both operands are packed first, once, by all threads. Then a line of a tile is there sooner, but packing takes nearly as
 * long as for one thread: what one has written the others fetch from its cache, and take away before they write again. */
static double cost_shared(const weft_cpu_kernel *kernel, const weft_gemm *p, side m, side n, int64_t workers, way how) {
    const fetching f = fetching_of(kernel, p);
    const double packing = 0.75 * (f.m * (double)p->m + f.n * (double)p->n);
    return m.tiles * n.tiles <= (double)workers
               ? INFINITY /* there is nothing to gain by waiting for each other */
               : with_waiting((fetching){0.25 * f.m, 0.25 * f.n}, m, n, workers, how) + packing;
}

static double gemm_cost(const weft_cpu_kernel *kernel, const weft_gemm *p, side m, side n, int64_t workers, way how) {
    const double alone = cost_alone(kernel, p, m, n, workers, how), shared = cost_shared(kernel, p, m, n, workers, how);
    /* Waking the threads and waiting for them takes about as long as fetching so many values. */
    const double waking = m.tiles * n.tiles <= 1 ? 0 : 25e3 * kernel->fetch / (double)p->k;
    return (alone < shared ? alone : shared) + waking;
}

int weft_cpu_packs_alone(const weft_plan *plan) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_SUBJECT_GEMM, p->dtype);
    const side m = cut_side(p->m, s->tile_m, kernel->a.lines), n = cut_side(p->n, s->tile_n, kernel->b.lines);
    const way how = way_of(s->order);
    return cost_alone(kernel, p, m, n, s->workers, how) < cost_shared(kernel, p, m, n, s->workers, how);
}

/* Block-first, head by head, as many workers for one head as for another: worker w has tiles of head w mod heads. */
static int shares_by_head(const weft_schedule *s, const weft_attention *p) {
    return s->dispatch == WEFT_DISPATCH_STATIC && s->order == WEFT_ORDER_BLOCK_FIRST && s->cluster_m <= 1 &&
           s->cluster_n <= 1 && s->sweep != WEFT_SWEEP_PAIR && s->workers > 0 && s->workers % (p->batch * p->heads) == 0;
}

int weft_cpu_shares_by_head(const weft_plan *plan) {
    return shares_by_head(&plan->schedule, &plan->attention);
}

/* Queries are the columns here. The last tile makes all wait for 0.4 of its time. A worker that has tiles of one head only
 * finds its keys in its own cache. */
static double attention_cost(const weft_cpu_kernel *kernel, const weft_attention *p, int64_t tile_m, int64_t tile_n,
                             int64_t workers, int by_head) {
    const int64_t keys = weft_cpu_smaller(tile_n, p->kv_seq);
    const double fetch = (by_head ? 0.25 : 1) * kernel->fetch;
    const spent s = spend((fetching){fetch, fetch}, (double)(p->batch * p->heads), cut_side(keys, keys, kernel->a.lines),
                          cut_side(p->seq, tile_m, kernel->b.lines));
    const double share = s.all / (double)workers;
    return (share < s.one && s.tiles <= (double)workers ? s.one : share) + 0.4 * s.one;
}

static void choose_gemm(weft_schedule *s, const weft_gemm *p) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_SUBJECT_GEMM, p->dtype);
    const int64_t element = (int64_t)weft_dtype_bytes(kernel->dtype);
    int64_t m[SIDES + 1], n[ALL_SIDES + 1];
    const size_t ms = list(s->tile_m, p->m, sides, SIDES, m), ns = list(s->tile_n, p->n, sides, ALL_SIDES, n);
    if (s->tile_k == 0) { /* a panel of B is about an L1: sums come and go less often; slices are as long as each other */
        const int64_t depth = fitting(kernel->b.lines * element, WHOLE_L1);
        const int64_t slices = weft_ceil_divide(p->k, depth), even = weft_cpu_pad(weft_ceil_divide(p->k, slices), 32);
        s->tile_k = p->k < even ? p->k : even;
    }
    side across[ALL_SIDES + 1];
    for (size_t i = 0; i < ns; i++) {
        across[i] = cut_side(p->n, n[i], kernel->b.lines);
    }
    const int is_open = s->order == WEFT_CHOOSE && s->group == 0 && s->cluster_m <= 1 && s->cluster_n <= 1;
    const way first = is_open ? WAY_DOWN : way_of(s->order), last = is_open ? WAY_ALONG : first;
    way chosen = first;
    double best = -1;
    for (size_t i = 0; i < ms * ns; i++) {
        const int64_t tile_m = m[i / ns], tile_n = n[i % ns];
        const side down = cut_side(p->m, tile_m, kernel->a.lines);
        const int columns = by_columns(kernel, p, down, across[i % ns], s->workers);
        if (i % ns >= SIDES && !columns) {
            continue;
        }
        const int64_t held = columns ? kernel->b.lines : tile_n;
        const double bytes = (double)tile_m * (double)held * (double)sizeof(float) +
                             ((double)tile_m + (double)held) * (double)s->tile_k * (double)element;
        if (best >= 0 && bytes > SHARE_OF_L2) {
            continue;
        }
        for (way how = first; how <= last; how++) {
            if (best >= 0 && gemm_cost(kernel, p, down, across[i % ns], s->workers, WAY_FLUID) >= best) {
                break; /* nothing is better than that */
            }
            const double cost = gemm_cost(kernel, p, down, across[i % ns], s->workers, how);
            if (best < 0 || cost < best) {
                best = cost;
                s->tile_m = tile_m;
                s->tile_n = tile_n;
                chosen = how;
            }
        }
    }
    const side down = cut_side(p->m, s->tile_m, kernel->a.lines), along = cut_side(p->n, s->tile_n, kernel->b.lines);
    if (is_open && down.tiles * along.tiles > 1 && is_dealt(down, along, s->workers)) {
        s->order = chosen == WAY_DOWN ? WEFT_ORDER_RASTER_M : WEFT_ORDER_RASTER_N;
    }
}

/* All tiles alike and as many workers for one head as for another: each keeps to its head, and helps when it is done. */
static void choose_handing(weft_schedule *s, const weft_attention *p) {
    weft_schedule by_head = *s;
    by_head.order = s->order == WEFT_CHOOSE ? WEFT_ORDER_BLOCK_FIRST : s->order;
    by_head.dispatch = s->dispatch == WEFT_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
    if (p->mask == WEFT_MASK_NONE && s->workers > 1 && shares_by_head(&by_head, p)) {
        *s = by_head;
    }
}

static void choose_attention(weft_schedule *s, const weft_attention *p) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_SUBJECT_ATTENTION, p->dtype);
    const int64_t seen = weft_cpu_pad(weft_visible_keys(p, p->seq - 1), 96);   /* by the last query, who sees the most */
    int64_t keys = fitting(kernel->b.lines * (int64_t)sizeof(float), HALF_L1); /* a panel of scores stays in the L1 */
    int64_t m[SIDES + 1];
    const size_t ms = list(s->tile_m, p->seq, sides, SIDES, m);
    double best = -1;
    keys = seen > 0 && seen < keys ? seen : keys;
    s->tile_n = s->tile_n ? s->tile_n : p->kv_seq < keys ? p->kv_seq : keys;
    for (size_t i = 0; i < ms; i++) {
        if (i > 0 && p->mask != WEFT_MASK_NONE && m[i] > 192) {
            break; /* tiles differ under a mask; there must be enough to share them out */
        }
        const double cost = attention_cost(kernel, p, m[i], s->tile_n, s->workers, shares_by_head(s, p));
        if (best < 0 || cost <= best) {
            best = cost;
            s->tile_m = m[i];
        }
    }
}

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

/* The choice above is for one block of keys; here blocks of different lengths are compared, and each costs some keys more.
 */
double weft_cpu_cost(const weft_plan *plan) {
    enum { PER_BLOCK = 12 }; /* keys, measured */
    const weft_schedule *s = &plan->schedule;
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_SUBJECT_GEMM, plan->gemm.dtype);
        return gemm_cost(kernel, &plan->gemm, cut_side(plan->gemm.m, s->tile_m, kernel->a.lines),
                         cut_side(plan->gemm.n, s->tile_n, kernel->b.lines), s->workers, way_of(s->order));
    }
    const double all = (double)plan->attention.kv_seq / (double)s->tile_n;
    return attention_cost(weft_cpu_choose(WEFT_SUBJECT_ATTENTION, plan->attention.dtype), &plan->attention, s->tile_m,
                          s->tile_n, s->workers, weft_cpu_shares_by_head(plan)) *
           all * (1 + PER_BLOCK / (double)s->tile_n);
}

weft_status weft_cpu_open(weft_plan *plan, int given_machine, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    (void)message;
    if (given_machine) {
        return WEFT_OK;
    }
    s->workers = s->workers == 0 ? weft_cpu_threads() : s->workers; /* one each, however many cores there are */
    if (s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) {          /* reported later */
        return WEFT_OK;
    }
    int one_each = 0; /* no more tiles than workers */
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        choose_gemm(s, &plan->gemm);
        one_each = (double)weft_ceil_divide(plan->gemm.m, s->tile_m) * (double)weft_ceil_divide(plan->gemm.n, s->tile_n) <=
                   (double)s->workers;
    } else {
        choose_handing(s, &plan->attention);
        choose_attention(s, &plan->attention);
    }
    if (s->dispatch == WEFT_CHOOSE) {
        /* Threads are not equally fast; but one that has the same single tile in every call may find it in its cache. */
        s->dispatch = one_each ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
    return WEFT_OK;
}
