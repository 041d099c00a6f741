/* Tiles for this host: large enough for the caches, small enough that every core has as much to do as the others. */
#include "cpu/cpu.h"
#include "cpu/gemm_cost.h"
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

/* How many lines of so many bytes fit a memory: a multiple of 96, at most 480. */
static int64_t fitting(int64_t bytes, int64_t memory) {
    const int64_t lines = memory / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
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
    const weft_cpu_spent s =
        weft_cpu_spend((weft_cpu_fetching){fetch, fetch}, (double)(p->batch * p->heads),
                       weft_cpu_cut_side(keys, keys, kernel->a.lines), weft_cpu_cut_side(p->seq, tile_m, kernel->b.lines));
    const double share = s.all / (double)workers;
    return (share < s.one && s.tiles <= (double)workers ? s.one : share) + 0.4 * s.one;
}

static int is_order_open(const weft_schedule *s) {
    return s->order == WEFT_ORDER_CHOOSE && s->group == 0 && s->cluster_m <= 1 && s->cluster_n <= 1;
}

/* A tile, and in which way such tiles come. */
typedef struct choice {
    int64_t tile_m, tile_n;
    weft_cpu_way how;
    double cost; /* of all products */
} choice;

/* The best for walks over so many products of the batch. */
static choice best_tile(const weft_schedule *s, const weft_gemm *p, const weft_cpu_kernel *kernel, int64_t products) {
    const int64_t element = (int64_t)weft_dtype_bytes(kernel->dtype);
    int64_t m[SIDES + 1], n[ALL_SIDES + 1];
    const size_t ms = list(s->tile_m, p->m, sides, SIDES, m), ns = list(s->tile_n, p->n, sides, ALL_SIDES, n);
    const int is_open = is_order_open(s);
    const weft_cpu_way first = is_open ? WEFT_CPU_DOWN : weft_cpu_way_of(s->order), last = is_open ? WEFT_CPU_ALONG : first;
    choice best = {0, 0, first, -1};
    for (size_t i = 0; i < ms * ns; i++) {
        const int64_t tile_m = m[i / ns], tile_n = n[i % ns];
        const weft_cpu_side down = weft_cpu_cut_side(p->m, tile_m, kernel->a.lines),
                            along = weft_cpu_cut_side(p->n, tile_n, kernel->b.lines);
        const int columns = products == 1 && weft_cpu_by_columns(kernel, p, down, along, s->workers);
        if (i % ns >= SIDES && !columns) {
            continue;
        }
        const int64_t held = columns ? kernel->b.lines : tile_n;
        const double bytes = (double)tile_m * (double)held * (double)sizeof(float) +
                             ((double)tile_m + (double)held) * (double)s->tile_k * (double)element;
        if (best.cost >= 0 && bytes > SHARE_OF_L2) {
            continue;
        }
        for (weft_cpu_way how = first; how <= last; how++) {
            if (best.cost >= 0 &&
                weft_cpu_gemm_cost(kernel, p, products, down, along, s->workers, WEFT_CPU_FLUID) >= best.cost) {
                break; /* nothing is better than that */
            }
            const double cost = weft_cpu_gemm_cost(kernel, p, products, down, along, s->workers, how);
            if (best.cost < 0 || cost < best.cost) {
                best = (choice){tile_m, tile_n, how, cost};
            }
        }
    }
    best.cost *= (double)p->batch / (double)products;
    return best;
}

/* Products of a batch come one after the other, or, where they are too small for all threads, all at once. */
static void choose_gemm(weft_plan *plan) {
    weft_schedule *s = &plan->schedule;
    const weft_gemm *p = &plan->gemm;
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_SUBJECT_GEMM, p->dtype);
    if (s->tile_k == 0) { /* a panel of B is about an L1: sums come and go less often; slices are as long as each other */
        const int64_t depth = fitting(kernel->b.lines * (int64_t)weft_dtype_bytes(kernel->dtype), WHOLE_L1);
        const int64_t slices = weft_ceil_divide(p->k, depth), even = weft_cpu_pad(weft_ceil_divide(p->k, slices), 32);
        s->tile_k = p->k < even ? p->k : even;
    }
    choice best = best_tile(s, p, kernel, 1);
    if (p->batch > 1) {
        const choice at_once = best_tile(s, p, kernel, p->batch);
        plan->products = at_once.cost < best.cost ? p->batch : 1;
        best = at_once.cost < best.cost ? at_once : best;
    }
    s->tile_m = best.tile_m;
    s->tile_n = best.tile_n;
    const weft_cpu_side down = weft_cpu_cut_side(p->m, s->tile_m, kernel->a.lines),
                        along = weft_cpu_cut_side(p->n, s->tile_n, kernel->b.lines);
    if (is_order_open(s) && down.tiles * along.tiles > 1 && weft_cpu_is_dealt(plan->products, down, along, s->workers)) {
        s->order = best.how == WEFT_CPU_DOWN ? WEFT_ORDER_RASTER_M : WEFT_ORDER_RASTER_N;
    }
}

/* All tiles alike and as many workers for one head as for another: each keeps to its head, and helps when it is done. */
static void choose_handing(weft_schedule *s, const weft_attention *p) {
    weft_schedule by_head = *s;
    by_head.order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_BLOCK_FIRST : s->order;
    by_head.dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
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
    weft_schedule decode = *s;
    int64_t m[SIDES + 1], n[SIDES + 1], pack;
    if (!gemm && weft_cpu_open_decode(&draft->attention, &decode, &pack)) {
        return 0; /* it has one tile, which plans find by themselves, and every dispatch there is */
    }
    const size_t ms = list(s->tile_m, gemm ? draft->gemm.m : draft->attention.seq, sides, SIDES, m),
                 ns = gemm ? list(s->tile_n, draft->gemm.n, sides, SIDES, n)
                           : list(s->tile_n, draft->attention.kv_seq, blocks, BLOCKS, n);
    size_t count = 0;
    for (size_t i = 0; i < ms * ns; i++) {
        for (int32_t dispatch = WEFT_DISPATCH_STATIC; dispatch <= WEFT_DISPATCH_DYNAMIC; dispatch++) {
            if (count < room && (s->dispatch == WEFT_DISPATCH_CHOOSE || s->dispatch == dispatch)) {
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
        return weft_cpu_gemm_cost(
                   kernel, &plan->gemm, plan->products, weft_cpu_cut_side(plan->gemm.m, s->tile_m, kernel->a.lines),
                   weft_cpu_cut_side(plan->gemm.n, s->tile_n, kernel->b.lines), s->workers, weft_cpu_way_of(s->order)) *
               (double)plan->gemm.batch / (double)plan->products;
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
        choose_gemm(plan);
        one_each = (double)plan->products * (double)weft_ceil_divide(plan->gemm.m, s->tile_m) *
                       (double)weft_ceil_divide(plan->gemm.n, s->tile_n) <=
                   (double)s->workers;
    } else if (!weft_cpu_open_decode(&plan->attention, s, &plan->pack)) {
        choose_handing(s, &plan->attention);
        choose_attention(s, &plan->attention);
    }
    if (s->dispatch == WEFT_DISPATCH_CHOOSE) {
        /* Threads are not equally fast; but one that has the same single tile in every call may find it in its cache. */
        s->dispatch = one_each ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
    return WEFT_OK;
}
