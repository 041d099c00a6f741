/* GEMM on the CPU: per tile, slices of A and B brought to fp32 and multiplied. */
#include "cpu/cpu.h"
#include "plan/problem.h"

typedef struct gemm {
    const weft_plan *plan;
    const weft_gemm_data *data;
    const weft_cpu_kernels *kernels;
    int64_t cols; /* tile_n, padded */
} gemm;

/* rows x cols of a matrix from (row, col) to a row-major buffer; `line` is room for a column. */
static void pack(weft_dtype dtype, const void *data, weft_major major, int64_t ld, int64_t row, int64_t col, int64_t rows,
                 int64_t cols, float *to, int64_t pitch, float *line) {
    if (major == WEFT_ROW_MAJOR) {
        for (int64_t i = 0; i < rows; i++) {
            weft_cpu_load(dtype, data, weft_matrix_index(major, ld, row + i, col), cols, to + i * pitch);
        }
        return;
    }
    for (int64_t j = 0; j < cols; j++) {
        weft_cpu_load(dtype, data, weft_matrix_index(major, ld, row, col + j), rows, line);
        for (int64_t i = 0; i < rows; i++) {
            to[i * pitch + j] = line[i];
        }
    }
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* C = alpha sums + beta C; with beta 0 the old C is not read. */
static void store_tile(const gemm *g, int64_t row, int64_t col, int64_t rows, int64_t cols, float *sums) {
    const weft_gemm *p = &g->plan->gemm;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const size_t at = weft_matrix_index(p->c_major, p->ldc, row + i, col + j);
            float value = (float)p->alpha * sums[i * g->cols + j], old;
            if (p->beta != 0) {
                weft_cpu_load(p->c_dtype, g->data->c, at, 1, &old);
                value += (float)p->beta * old;
            }
            weft_cpu_store(p->c_dtype, g->data->c, at, 1, &value);
        }
    }
}

static void gemm_tile(void *context, float *room, const weft_visit *visit) {
    const gemm *g = context;
    const weft_gemm *p = &g->plan->gemm;
    const weft_schedule *s = &g->plan->schedule;
    const int64_t row = visit->tile.m * s->tile_m, col = visit->tile.n * s->tile_n;
    const int64_t rows = smaller(s->tile_m, p->m - row), cols = smaller(s->tile_n, p->n - col);
    float *a = room, *sums = a + s->tile_m * s->tile_k, *b = sums + s->tile_m * g->cols, *line = b + s->tile_k * g->cols;
    for (int64_t i = 0, step = visit->first; i < visit->steps; i++, step += visit->direction) {
        const int64_t k = step * s->tile_k, depth = smaller(s->tile_k, p->k - k);
        pack(p->dtype, g->data->a, p->a_major, p->lda, row, k, rows, depth, a, s->tile_k, line);
        pack(p->dtype, g->data->b, p->b_major, p->ldb, k, col, depth, cols, b, g->cols, line);
        g->kernels->multiply(rows, g->cols, depth, a, s->tile_k, b, g->cols, sums, g->cols, i > 0);
    }
    store_tile(g, row, col, rows, cols, sums);
}

weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    const weft_schedule *s = &plan->schedule;
    const weft_status status = weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    gemm g = {plan, data, weft_cpu_choose(), 0};
    g.cols = (s->tile_n + g.kernels->width - 1) / g.kernels->width * g.kernels->width;
    const int64_t line = s->tile_m > s->tile_k ? s->tile_m : s->tile_k;
    const size_t room = (size_t)(s->tile_m * s->tile_k + (s->tile_m + s->tile_k) * g.cols + line);
    return weft_cpu_threads(plan, room, gemm_tile, &g, message);
}
