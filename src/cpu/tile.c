/* Tiles for this host: large enough for the caches, small enough that every core has as much to do as the others. */
#include "cpu/cpu.h"

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

/* What the busiest worker spends, in products: its tiles, padded to whole blocks, and for each line of a tile about as much
 * as for a column of 12 products, to bring it from the next cache. */
static double cost(const weft_cpu_kernel *kernel, double lines, int64_t rows, int64_t cols, int64_t tile_m, int64_t tile_n,
                   int64_t workers) {
    const int64_t down = (rows + tile_m - 1) / tile_m, across = (cols + tile_n - 1) / tile_n;
    const double tiles = lines * (double)down * (double)across,
                 rounds = (double)(int64_t)((tiles - 1) / (double)workers) + 1;
    const double height = (double)weft_cpu_pad(tile_m, kernel->a.lines),
                 width = (double)weft_cpu_pad(tile_n, kernel->b.lines);
    return rounds * (height * width + 12 * (height + width));
}

/* How many lines of so many bytes fit half of an L1: a multiple of 96, at most 480. */
static int64_t fitting(int64_t bytes) {
    const int64_t lines = (24 << 10) / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
}

static void choose_gemm(weft_schedule *s, const weft_gemm *p, int64_t workers) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    int64_t m[SIDES + 1], n[SIDES + 1];
    const size_t ms = list(s->tile_m, p->m, sides, SIDES, m), ns = list(s->tile_n, p->n, sides, SIDES, n);
    double best = -1;
    for (size_t i = 0; i < ms * ns; i++) {
        const double spent = cost(kernel, 1, p->m, p->n, m[i / ns], n[i % ns], workers);
        if (best < 0 || spent <= best) {
            best = spent;
            s->tile_m = m[i / ns];
            s->tile_n = n[i % ns];
        }
    }
    if (s->tile_k == 0) { /* a panel of B stays in the L1 */
        const int64_t depth = fitting(kernel->b.lines * (int64_t)weft_dtype_bytes(kernel->dtype));
        s->tile_k = p->k < depth ? p->k : depth;
    }
}

static void choose_attention(weft_schedule *s, const weft_attention *p, int64_t workers) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    const int64_t keys = fitting(kernel->b.lines * (int64_t)sizeof(float)); /* a panel of scores stays in the L1 */
    int64_t m[SIDES + 1];
    const size_t ms = list(s->tile_m, p->seq, sides, SIDES, m);
    double best = -1;
    s->tile_n = s->tile_n ? s->tile_n : p->kv_seq < keys ? p->kv_seq : keys;
    for (size_t i = 0; i < ms; i++) { /* queries are the columns here */
        const double spent = cost(kernel, (double)(p->batch * p->heads), s->tile_n, p->seq, s->tile_n, m[i], workers);
        if (best < 0 || spent <= best) {
            best = spent;
            s->tile_m = m[i];
        }
    }
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
    const int64_t workers = s->workers > 0 ? s->workers : plan->machine.workers;
    (void)message;
    if (given_machine || s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) { /* bad sides are reported later */
        return WEFT_OK;
    }
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        choose_gemm(s, &plan->gemm, workers);
    } else {
        choose_attention(s, &plan->attention, workers);
    }
    return WEFT_OK;
}
