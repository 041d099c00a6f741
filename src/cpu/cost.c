#include "cpu/cost.h"

#include "plan/problem.h"

/* Positions are handed out one by one where there are at most this many, or eight for each worker, up to 512; with more,
 * workers have as much to do as each other. */
enum { WALKED = 160, MOST_WALKED = 512, WORKERS = 256 };

enum {
    PER_BLOCK = 12, /* keys whose products take as long as what a block of keys costs besides */
    PER_ROW = 24,   /* keys whose products take as long as loading a query and storing its output */
    PER_SUM = 6     /* values of k whose product takes as long as fetching a sum from beyond the L1 and putting it back */
};

/* Half of an L1, as in tile.c: sums of a tile that are more than this leave it between slices of k. */
static const double SUMS_BYTES = 24 << 10;

/* A tile of A that does not leave most of an L2 (1 MiB is the least there is) to the rest is read more slowly: measured, by
 * 4 % at twice this. */
static const double A_BYTES = 256 << 10;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A tile of queries. Panels of queries see keys up to their own last query, so a causal tile costs what it sees. */
static double attention_tile(const weft_cpu_layout *l, int64_t block) {
    const weft_attention *p = &l->plan->attention;
    const int64_t first = block * l->tile_m, rows = smaller(p->seq - first, l->tile_m);
    const double seen = ((double)weft_visible_keys(p, first) + (double)weft_visible_keys(p, first + rows - 1)) / 2;
    const double blocks = (double)((weft_visible_keys(p, first + rows - 1) + l->tile_n - 1) / l->tile_n);
    return (double)weft_cpu_pad(rows, l->kernel->b.lines) * (seen + PER_BLOCK * blocks + PER_ROW);
}

/* Rows or columns of a tile, as whole panels: it takes those that begin inside it. */
static double panels(int64_t tile, int64_t number, int64_t length, int64_t lines) {
    const int64_t begin = weft_cpu_pad(number * tile, lines), end = smaller((number + 1) * tile, length);
    return begin < end ? (double)weft_cpu_pad(end - begin, lines) : 0;
}

static double gemm_tile(const weft_cpu_layout *l, int64_t row, int64_t col) {
    const weft_gemm *p = &l->plan->gemm;
    const double height = panels(l->tile_m, row, p->m, l->kernel->a.lines),
                 width = panels(l->tile_n, col, p->n, l->kernel->b.lines);
    const double bytes = height * (double)l->tile_k * (double)weft_dtype_bytes(l->kernel->dtype);
    const double spill = bytes > A_BYTES ? 0.04 * (bytes / A_BYTES - 1) : 0;
    const double slices = (double)weft_ceil_divide(p->k, l->tile_k);
    const double fetched = height * width * sizeof(float) > SUMS_BYTES ? PER_SUM * slices / (double)p->k : 0;
    const double edge = l->kernel->dtype == WEFT_FP32 ? 0.5 : 1; /* what a line costs, where products are faster, is more */
    return height * width * (1 + (spill < 0.08 ? spill : 0.08) + fetched) + edge * (height + width);
}

static double position_cost(const weft_cpu_layout *l, weft_tile t) {
    double cost = 0;
    for (int64_t half = 0; half < l->halves; half++) {
        const int64_t col = t.col * l->halves + half;
        if (col < l->tiles) {
            cost += l->plan->subject == WEFT_SUBJECT_GEMM ? gemm_tile(l, t.row, col) : attention_tile(l, col);
        }
    }
    return cost;
}

/* All positions, one by one, each to the worker whose turn it is or who is free first. */
static double walk(const weft_cpu_layout *l) {
    double load[WORKERS] = {0}, busiest = 0;
    for (int64_t i = 0; i < l->order.count; i++) {
        int64_t worker = i % l->workers;
        for (int64_t w = 0; w < l->workers && l->dynamic; w++) {
            worker = load[w] < load[worker] ? w : worker;
        }
        load[worker] += position_cost(l, weft_order_tile(&l->order, i));
        busiest = load[worker] > busiest ? load[worker] : busiest;
    }
    return busiest;
}

/* An equal share of all tiles, and half of a tile, by which workers end apart. A few tiles stand for all. */
static double share(const weft_cpu_layout *l) {
    enum { SAMPLES = 16 };
    const weft_grid *g = &l->order.grid;
    double mean = 0;
    if (l->plan->subject == WEFT_SUBJECT_GEMM) {
        const double whole = position_cost(l, (weft_tile){0});
        const double height = (double)l->plan->gemm.m / (double)(l->tile_m * g->rows),
                     width = (double)l->plan->gemm.n / (double)(l->tile_n * l->halves * g->cols);
        mean = whole * height * width;
    } else {
        for (int64_t i = 0; i < SAMPLES; i++) { /* the last column, which may be ragged, weighs what it should */
            mean += position_cost(l, (weft_tile){.col = g->cols * i / SAMPLES}) / SAMPLES;
        }
    }
    const double positions = (double)g->batch * (double)g->rows * (double)g->cols;
    return mean * positions / (double)l->workers + mean / 2;
}

double weft_cpu_layout_cost(const weft_cpu_layout *l) {
    const int64_t few = 8 * l->workers > WALKED ? smaller(8 * l->workers, MOST_WALKED) : WALKED;
    return l->order.count <= few && l->workers <= WORKERS ? walk(l) : share(l);
}

double weft_cpu_cost(const weft_plan *plan) {
    const weft_walk *w = &plan->walk;
    const weft_schedule *s = &plan->schedule;
    const int gemm = plan->subject == WEFT_SUBJECT_GEMM;
    const weft_cpu_layout layout = {.plan = plan,
                                    .kernel = weft_cpu_choose(gemm ? plan->gemm.dtype : plan->attention.dtype),
                                    .tile_m = s->tile_m,
                                    .tile_n = s->tile_n,
                                    .tile_k = s->tile_k,
                                    .order = w->order,
                                    .halves = w->halves * w->cluster_cols,
                                    .tiles = w->cols,
                                    .workers = w->workers,
                                    .dynamic = w->dispatch == WEFT_DISPATCH_DYNAMIC};
    return weft_cpu_layout_cost(&layout) * (double)w->cluster_rows;
}
