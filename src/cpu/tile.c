/* Tiles for this host: large enough for the caches, small enough that every core has as much to do as the others. */
#include "cpu/cpu.h"

/* Candidates for a side. All kernels' blocks divide 96, so that its multiples waste nothing; powers of two divide what is
 * often asked for. */
static const int64_t sides[] = {48, 64, 96, 128, 192, 256, 288};
enum { SIDES = sizeof sides / sizeof *sides };

/* Bytes. A tile's sums and a slice of its A and B share an L2, which two threads may have to share. */
enum { HALF_L1 = 24 << 10, WHOLE_L1 = 48 << 10, SHARE_OF_L2 = 1 << 20 };

/* Sides to try: the one that is given, or every candidate up to the problem's length. */
static size_t list(int64_t given, int64_t length, int64_t *to) {
    size_t count = 0;
    for (size_t i = 0; given == 0 && i < SIDES; i++) {
        if (i == 0 || sides[i] <= length) {
            to[count++] = sides[i] < length ? sides[i] : length;
        }
    }
    to[count] = given;
    return count ? count : 1;
}

/* What a worker spends, in products: its share of the tiles, padded to whole blocks, and for each line of a tile what it
 * takes to bring it from the next cache. Some threads are slower than others, because they share a core with each other or
 * with other programs: the last tile makes all wait for 0.4 of its time, as seen on 16 threads of 8 cores. */
static double cost(const weft_cpu_kernel *kernel, double lines, int64_t rows, int64_t cols, int64_t tile_m, int64_t tile_n,
                   int64_t workers) {
    const int64_t down = weft_ceil_divide(rows, tile_m), across = weft_ceil_divide(cols, tile_n);
    const double tiles = lines * (double)down * (double)across / (double)workers, rounds = (tiles < 1 ? 1 : tiles) + 0.4;
    const double height = (double)weft_cpu_pad(tile_m, kernel->a.lines),
                 width = (double)weft_cpu_pad(tile_n, kernel->b.lines);
    return rounds * (height * width + kernel->fetch * (height + width));
}

/* How many lines of so many bytes fit a memory: a multiple of 96, at most 480. */
static int64_t fitting(int64_t bytes, int64_t memory) {
    const int64_t lines = memory / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
}

static void choose_gemm(weft_schedule *s, const weft_gemm *p, int64_t workers) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    const int64_t element = (int64_t)weft_dtype_bytes(kernel->dtype);
    int64_t m[SIDES + 1], n[SIDES + 1];
    const size_t ms = list(s->tile_m, p->m, m), ns = list(s->tile_n, p->n, n);
    if (s->tile_k == 0) { /* a panel of B is about an L1: sums come and go less often; slices are as long as each other */
        const int64_t depth = fitting(kernel->b.lines * element, WHOLE_L1);
        const int64_t slices = weft_ceil_divide(p->k, depth), even = weft_cpu_pad(weft_ceil_divide(p->k, slices), 32);
        s->tile_k = p->k < even ? p->k : even;
    }
    double best = -1;
    for (size_t i = 0; i < ms * ns; i++) {
        const int64_t tile_m = m[i / ns], tile_n = n[i % ns];
        const double bytes = (double)tile_m * (double)tile_n * (double)sizeof(float) +
                             (double)(tile_m + tile_n) * (double)s->tile_k * (double)element;
        const double tiles = (double)weft_ceil_divide(p->m, tile_m) * (double)weft_ceil_divide(p->n, tile_n);
        /* With more tiles than workers both operands are packed first: read, written, and read again. */
        const double packing = tiles > (double)workers ? 2 * kernel->fetch * (double)(p->m + p->n) / (double)workers : 0;
        const double spent = cost(kernel, 1, p->m, p->n, tile_m, tile_n, workers) + packing;
        if (best < 0 || (bytes <= SHARE_OF_L2 && spent <= best)) {
            best = spent;
            s->tile_m = tile_m;
            s->tile_n = tile_n;
        }
    }
}

static void choose_attention(weft_schedule *s, const weft_attention *p, int64_t workers) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(p->dtype);
    const int64_t keys = fitting(kernel->b.lines * (int64_t)sizeof(float), HALF_L1); /* a panel of scores stays in the L1 */
    int64_t m[SIDES + 1];
    const size_t ms = list(s->tile_m, p->seq, m);
    double best = -1;
    s->tile_n = s->tile_n ? s->tile_n : p->kv_seq < keys ? p->kv_seq : keys;
    for (size_t i = 0; i < ms; i++) { /* queries are the columns here */
        if (i > 0 && p->mask != WEFT_MASK_NONE && m[i] > 192) {
            break; /* tiles differ under a mask; there must be enough to share them out */
        }
        const double spent = cost(kernel, (double)(p->batch * p->heads), s->tile_n, p->seq, s->tile_n, m[i], workers);
        if (best < 0 || spent <= best) {
            best = spent;
            s->tile_m = m[i];
        }
    }
}

weft_status weft_cpu_open(weft_plan *plan, int given_machine, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    const int64_t workers = s->workers > 0 ? s->workers : plan->machine.workers;
    (void)message;
    if (given_machine || s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) { /* bad sides are reported later */
        return WEFT_OK;
    }
    if (s->dispatch == WEFT_CHOOSE) {
        s->dispatch = WEFT_DISPATCH_DYNAMIC; /* threads are not equally fast */
    }
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        choose_gemm(s, &plan->gemm, workers);
    } else {
        choose_attention(s, &plan->attention, workers);
    }
    return WEFT_OK;
}
