/* C = alpha A B + beta C: element by element, and tile by tile through a plan. */
#include "base/status.h"
#include "problem/problem.h"
#include "ref/ref.h"
#include "ref/rounds.h"

#include <stdlib.h>

static double load_a(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t k) {
    return weft_ref_load(p->dtype, data->a, weft_matrix_index(p->a_major, p->lda, row, k));
}

static double load_b(const weft_gemm *p, const weft_gemm_data *data, int64_t k, int64_t col) {
    return weft_ref_load(p->dtype, data->b, weft_matrix_index(p->b_major, p->ldb, k, col));
}

static double load_c(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    return weft_ref_load(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col));
}

static void store_c(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col, double value) {
    weft_ref_store(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col), value);
}

/* The element of C that a sum over k makes. With beta 0 the old C is not read: it may hold anything, NaN too. */
static double finish(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col, double sum) {
    return p->beta == 0 ? p->alpha * sum : p->alpha * sum + p->beta * load_c(p, data, row, col);
}

double weft_ref_gemm_element(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += load_a(p, data, row, k) * load_b(p, data, k, col);
    }
    return finish(p, data, row, col, sum);
}

double weft_ref_gemm_element_naive(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    float sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += (float)load_a(p, data, row, k) * (float)load_b(p, data, k, col);
    }
    sum *= (float)p->alpha;
    if (p->beta != 0) {
        sum += (float)p->beta * (float)load_c(p, data, row, col);
    }
    return weft_ref_round(p->c_dtype, sum);
}

weft_status weft_ref_gemm(const weft_gemm *p, const weft_gemm_data *data, weft_message *message) {
    (void)message; /* nothing is allocated, so nothing can fail */
    for (int64_t row = 0; row < p->m; row++) {
        for (int64_t col = 0; col < p->n; col++) {
            store_c(p, data, row, col, weft_ref_gemm_element(p, data, row, col));
        }
    }
    return WEFT_OK;
}

typedef struct gemm_tile {
    const weft_gemm *p;
    const weft_gemm_data *data;
    int64_t tile_m, tile_n, tile_k;
    double *sums; /* (rows, cols) of the tile at hand */
} gemm_tile;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void gemm_work(void *context, const weft_visit *visit, weft_tile tile) {
    const gemm_tile *t = context;
    const weft_gemm *p = t->p;
    const int64_t first_row = tile.m * t->tile_m, first_col = tile.n * t->tile_n;
    const int64_t rows = smaller(t->tile_m, p->m - first_row), cols = smaller(t->tile_n, p->n - first_col);
    for (int64_t i = 0; i < rows * cols; i++) {
        t->sums[i] = 0;
    }
    for (int64_t s = 0, step = visit->first; s < visit->steps; s++, step += visit->direction) {
        const int64_t begin = step * t->tile_k, end = smaller(begin + t->tile_k, p->k);
        for (int64_t i = 0; i < rows * cols; i++) {
            for (int64_t k = begin; k < end; k++) {
                t->sums[i] += load_a(p, t->data, first_row + i / cols, k) * load_b(p, t->data, k, first_col + i % cols);
            }
        }
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        const int64_t row = first_row + i / cols, col = first_col + i % cols;
        store_c(p, t->data, row, col, finish(p, t->data, row, col, t->sums[i]));
    }
}

weft_status weft_ref_gemm_tiled(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const int64_t rows = smaller(s->tile_m, p->m), cols = smaller(s->tile_n, p->n); /* at most 2^31 each */
    double *sums = calloc((size_t)(rows * cols), sizeof *sums);
    if (!sums) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a tile of %lld x %lld", (long long)rows, (long long)cols);
    }
    gemm_tile t = {p, data, s->tile_m, s->tile_n, s->tile_k, sums};
    const weft_grid tiles = {1, weft_ceil_divide(p->m, s->tile_m), weft_ceil_divide(p->n, s->tile_n)};
    const weft_status status = weft_ref_rounds(plan, tiles, gemm_work, &t, message);
    free(sums);
    return status;
}
