/* SPDX-License-Identifier: Apache-2.0 */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lend.h"
#include "problem/problem.h"
#include "products.h"
#include "ref/ref.h"

enum { LINEAR = WEFT_GEMM_SCALE | WEFT_GEMM_ROW_SCALE | WEFT_GEMM_COLUMN_SCALE | WEFT_GEMM_BIAS };

static int64_t draw_size(uint64_t *random, int64_t most) {
    return random_between(random, 0, 3) ? random_between(random, 1, most) : random_between(random, 1, 9);
}

void draw_product(uint64_t *random, whole_product *w, int64_t most, int64_t least_ranks, int64_t most_ranks) {
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP32, WEFT_BF16, WEFT_FP16};
    const weft_gemm fresh = WEFT_GEMM_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    *w = (whole_product){.p = fresh, .ranks = none};
    weft_gemm *p = &w->p;
    p->m = draw_size(random, most);
    p->n = random_between(random, 0, 9) ? draw_size(random, most) : random_between(random, 500, 1100);
    p->k = draw_size(random, most);
    p->dtype = dtypes[random_between(random, 0, 3)];
    p->c_dtype = random_between(random, 0, 1) ? p->dtype : dtypes[random_between(random, 0, 3)];
    p->a_major = (weft_major)random_between(random, 0, 1);
    p->b_major = (weft_major)random_between(random, 0, 1);
    p->c_major = (weft_major)random_between(random, 0, 1);
    p->batch = random_between(random, 0, 3) ? 1 : random_between(random, 2, 3);
    p->alpha = random_between(random, 0, 1) ? 1 : (double)random_between(random, -8, 8) / 4;
    p->extras = random_between(random, 0, 1) ? 0 : (int32_t)random_between(random, 0, 31) & LINEAR;
    p->bias_dtype = dtypes[random_between(random, 1, 3)];
    for (int i = 0; i < 3; i++) {
        w->pad[i] = random_between(random, 0, 1) ? 0 : random_between(random, 1, 20);
    }
    weft_ranks *r = &w->ranks;
    r->ranks = random_between(random, least_ranks, most_ranks);
    r->cut = random_between(random, 0, 1) ? WEFT_CUT_M : WEFT_CUT_K;
    r->exchange = (int32_t)random_between(random, 0, WEFT_EXCHANGE_ALL_GATHER);
    r->order = (int32_t)random_between(random, 0, WEFT_RANK_ORDERS);
    r->columns = random_between(random, 0, r->ranks);
    r->most_keys = random_between(random, 0, 3) ? 0 : random_between(random, 3, most);
    if (r->cut == WEFT_CUT_K) {
        r->sweep = random_between(random, 0, 2) ? WEFT_SWEEP_CHOOSE : WEFT_SWEEP_FORWARD;
    } else if (random_between(random, 0, 2) == 0) { /* what a share of a sum does not take */
        p->beta = random_between(random, 0, 1) ? 0.5 : 0;
        p->extras |= random_between(random, 0, 1) ? WEFT_GEMM_RESIDUAL : 0;
        p->activation = (int32_t)random_between(random, 0, WEFT_SILU);
    }
}

static int64_t rounded_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

void suit_gpu_product(whole_product *w) {
    weft_gemm *p = &w->p;
    w->aligned = 1;
    p->k = rounded_up(p->k, 8);
    p->a_major = p->c_major = WEFT_ROW_MAJOR;
    p->c_dtype = p->c_dtype == WEFT_FP32 ? WEFT_FP32 : p->dtype;
    if (p->batch > 1) { /* one begins where another ends */
        p->n = rounded_up(p->n, 4);
        p->extras &= w->ranks.cut == WEFT_CUT_M ? ~(WEFT_GEMM_BIAS | WEFT_GEMM_COLUMN_SCALE) : ~0;
    }
}

/* ---- matrices ---- */

static char *take(weft_dtype dtype, int64_t count, uint64_t *random) {
    char *at = malloc((size_t)count * weft_dtype_bytes(dtype) + 1);
    assert_non_null(at);
    for (int64_t i = 0; i < count; i++) {
        weft_ref_store(dtype, at, (size_t)i, (double)random_between(random, -2000, 2000) / 1000);
    }
    return at;
}

void fill_product(whole_product *w, uint64_t *random) {
    const weft_gemm *p = &w->p;
    w->a = take(p->dtype, p->batch * p->m * p->k, random);
    w->b = take(p->dtype, p->batch * p->k * p->n, random);
    w->c = take(p->c_dtype, p->batch * p->m * p->n, random);
    w->residual = take(p->c_dtype, p->batch * p->m * p->n, random);
    w->bias = take(p->bias_dtype, p->batch * p->n, random);
    w->scale = (float *)(void *)take(WEFT_FP32, p->batch, random);
    w->row_scale = (float *)(void *)take(WEFT_FP32, p->batch * p->m, random);
    w->column_scale = (float *)(void *)take(WEFT_FP32, p->batch * p->n, random);
}

void free_product(whole_product *w) {
    void *all[] = {w->a, w->b, w->c, w->residual, w->bias, w->scale, w->row_scale, w->column_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static size_t index_in(const part_matrix *m, int64_t batch, int64_t i, int64_t j) {
    return (size_t)(batch * m->stride + (m->major == WEFT_ROW_MAJOR ? i * m->ld + j : j * m->ld + i));
}

static part_matrix matrix_of(const whole_product *w, weft_dtype dtype, weft_major major, weft_chunk rows,
                             weft_chunk columns, int of) {
    const int64_t pad = w->pad[of], batch = w->p.batch;
    part_matrix m = {rows.begin, rows.count, columns.begin, columns.count, 0, 0, major, dtype, NULL, 0};
    const int64_t inner = major == WEFT_ROW_MAJOR ? m.columns : m.rows,
                  outer = major == WEFT_ROW_MAJOR ? m.rows : m.columns;
    m.ld = rounded_up(inner + pad, w->aligned ? 8 : 1);
    m.stride = rounded_up(m.ld * outer + pad, w->aligned ? 8 : 1);
    m.bytes = inner * outer > 0 ? (size_t)(batch * m.stride) * weft_dtype_bytes(dtype) : 0;
    return m;
}

/* Copies a part out of the whole, `columns` wide; padding is NaN. */
static void pick(part_matrix *m, const char *whole, int64_t rows, int64_t columns, int64_t batch) {
    m->at = m->bytes > 0 ? malloc(m->bytes) : NULL;
    if (!m->at) {
        return;
    }
    memset(m->at, 0xff, m->bytes);
    for (int64_t n = 0; n < batch * m->rows * m->columns; n++) {
        const int64_t b = n / m->columns / m->rows, i = n / m->columns % m->rows, j = n % m->columns;
        const size_t from = (size_t)((b * rows + m->row + i) * columns + m->column + j);
        weft_ref_store(m->dtype, m->at, index_in(m, b, i, j), weft_ref_load(m->dtype, whole, from));
    }
}

static weft_chunk lines_of(const weft_dist *dist, int64_t rank, int32_t of) {
    weft_chunk chunk = {0, 0, 1};
    weft_dist_chunk(dist, rank, of, 0, &chunk);
    return chunk;
}

part_matrix product_c_of(const whole_product *w, const weft_dist *dist, int64_t rank) {
    const weft_gemm *p = &w->p;
    const weft_chunk own = lines_of(dist, rank, WEFT_OWN_LINES), rows = lines_of(dist, rank, WEFT_PART_ROWS);
    const weft_chunk all_rows = {0, p->m, 1}, all_columns = {0, p->n, 1};
    const int by_k = w->ranks.cut == WEFT_CUT_K;
    return matrix_of(w, p->c_dtype, p->c_major, by_k ? rows : all_rows, by_k ? all_columns : own, 2);
}

/* ---- a rank ---- */

part_product product_part_of(const whole_product *w, int32_t rank) {
    const weft_dist_traffic none = WEFT_DIST_TRAFFIC_INIT;
    return (part_product){.w = w, .rank = rank, .expected = none, .counted = none};
}

/* Numbers of each product of the batch, of some columns. */
static char *pick_lines(const char *whole, weft_dtype dtype, int64_t batch, int64_t all, weft_chunk of) {
    const size_t element = weft_dtype_bytes(dtype);
    char *at = malloc((size_t)(batch * of.count) * element + 1);
    assert_non_null(at);
    for (int64_t b = 0; b < batch; b++) {
        memcpy(at + (size_t)(b * of.count) * element, whole + (size_t)(b * all + of.begin) * element,
               (size_t)of.count * element);
    }
    return at;
}

weft_status run_product(part_product *m, const weft_transport *transport) {
    const whole_product *w = m->w;
    const int by_k = w->ranks.cut == WEFT_CUT_K;
    weft_gemm p = w->p;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_ranks ranks = w->ranks;
    weft_dist *paper;
    schedule.workers = 1;
    const weft_dist_options on_paper = {sizeof on_paper, &ranks, NULL, NULL, NULL, 0};
    weft_status status = weft_dist_create(&paper, &p, &on_paper, &m->message);
    if (status) {
        return status;
    }
    const weft_chunk own = lines_of(paper, m->rank, WEFT_OWN_LINES), rows = lines_of(paper, m->rank, WEFT_PART_ROWS);
    const weft_chunk all_m = {0, p.m, 1}, all_n = {0, p.n, 1}, all_k = {0, p.k, 1};
    const weft_chunk columns = by_k ? all_n : own;
    part_matrix a = matrix_of(w, p.dtype, p.a_major, by_k ? all_m : rows, by_k ? own : all_k, 0);
    part_matrix b = matrix_of(w, p.dtype, p.b_major, by_k ? own : all_k, columns, 1);
    part_matrix residual = m->c = product_c_of(w, paper, m->rank);
    weft_dist_destroy(paper);
    pick(&a, w->a, p.m, p.k, p.batch);
    pick(&b, w->b, p.k, p.n, p.batch);
    pick(&m->c, w->c, p.m, p.n, p.batch);
    pick(&residual, w->residual, p.m, p.n, p.batch);
    p.lda = a.ld;
    p.ldb = b.ld;
    p.ldc = m->c.ld;
    p.a_stride = a.stride;
    p.b_stride = b.stride;
    p.c_stride = m->c.stride;
    ranks.ranks = 0; /* as many as there are */
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    const weft_dist_options options = {sizeof options, &ranks, transport, m->gpu ? &gpu : NULL, m->gpu ? NULL : &schedule,
                                       m->seconds};
    status = weft_dist_create(&m->dist, &p, &options, &m->message);
    status = status ? status : weft_dist_expect(m->dist, m->rank, 0, &m->expected, &m->message);
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    char *bias = pick_lines(w->bias, p.bias_dtype, p.batch, p.n, columns);
    char *scales = pick_lines((const char *)w->column_scale, WEFT_FP32, p.batch, p.n, columns);
    const size_t line = (size_t)p.batch * (size_t)columns.count;
    const struct {
        const void **at;
        void *host;
        size_t bytes;
    } lent[] = {
        {&data.a, a.at, a.bytes},
        {&data.b, b.at, b.bytes},
        {(const void **)&data.c, m->c.at, m->c.bytes},
        {&data.bias, p.extras & WEFT_GEMM_BIAS ? bias : NULL, line * weft_dtype_bytes(p.bias_dtype)},
        {&data.residual, p.extras & WEFT_GEMM_RESIDUAL ? residual.at : NULL, residual.bytes},
        {(const void **)&data.scale, p.extras & WEFT_GEMM_SCALE ? w->scale : NULL, (size_t)p.batch * sizeof(float)},
        {(const void **)&data.row_scale, p.extras & WEFT_GEMM_ROW_SCALE ? w->row_scale : NULL,
         (size_t)(p.batch * p.m) * sizeof(float)},
        {(const void **)&data.column_scale, p.extras & WEFT_GEMM_COLUMN_SCALE ? scales : NULL, line * sizeof(float)}};
    for (size_t i = 0; i < sizeof lent / sizeof *lent; i++) {
        *lent[i].at = lend(m->gpu, lent[i].host, lent[i].bytes);
    }
    weft_dist_run_options run = WEFT_DIST_RUN_INIT;
    run.stream = m->stream;
    status = status ? status : weft_dist_run(m->dist, &data, &run, &m->message);
    for (size_t i = 0; i < sizeof lent / sizeof *lent; i++) {
        take_back(m->gpu, (void *)(uintptr_t)*lent[i].at, lent[i].host, lent[i].bytes);
    }
    weft_dist_counted(m->dist, &m->counted);
    free(a.at);
    free(b.at);
    free(residual.at);
    free(bias);
    free(scales);
    return status;
}

void free_product_part(part_product *m) {
    weft_dist_destroy(m->dist);
    free(m->c.at);
    m->c.at = NULL;
}

/* ---- what is right ---- */

static double rounding(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-23 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
}

/* The whole problem by the reference and by one rank, row by row. */
static weft_gemm whole_of(const whole_product *w, weft_gemm_data *data) {
    const weft_gemm_data fresh = WEFT_GEMM_DATA_INIT;
    weft_problem resolved;
    const weft_operation_row *row;
    weft_gemm p = w->p;
    p.a_major = p.b_major = p.c_major = WEFT_ROW_MAJOR;
    assert_int_equal(weft_problem_resolve(&resolved, &row, &p, NULL), WEFT_OK);
    *data = fresh;
    data->a = w->a;
    data->b = w->b;
    data->bias = p.extras & WEFT_GEMM_BIAS ? w->bias : NULL;
    data->residual = p.extras & WEFT_GEMM_RESIDUAL ? w->residual : NULL;
    data->scale = p.extras & WEFT_GEMM_SCALE ? w->scale : NULL;
    data->row_scale = p.extras & WEFT_GEMM_ROW_SCALE ? w->row_scale : NULL;
    data->column_scale = p.extras & WEFT_GEMM_COLUMN_SCALE ? w->column_scale : NULL;
    return resolved.gemm;
}

void check_product(const whole_product *w, const part_product *parts) {
    weft_gemm_data data;
    const weft_gemm p = whole_of(w, &data);
    const size_t count = (size_t)(p.batch * p.m * p.n), bytes = count * weft_dtype_bytes(p.c_dtype);
    char *single = malloc(bytes), *seen = calloc(count, 1);
    assert_true(single && seen);
    memcpy(single, w->c, bytes);
    data.c = single;
    assert_int_equal(weft_gemm_multiply(&p, &data, NULL), WEFT_OK);
    data.c = w->c;
    for (int32_t rank = 0; rank < w->ranks.ranks; rank++) {
        const part_matrix *c = &parts[rank].c;
        for (int64_t n = 0; n < p.batch * c->rows * c->columns; n++) {
            const int64_t b = n / c->columns / c->rows, i = n / c->columns % c->rows, j = n % c->columns;
            const size_t at = (size_t)((b * p.m + c->row + i) * p.n + c->column + j);
            const weft_gemm_data one = weft_gemm_product(&p, &data, b);
            const double old = weft_ref_load(p.c_dtype, w->c, at);
            const double want = weft_ref_gemm_element(&p, &one, c->row + i, c->column + j);
            const double got = weft_ref_load(p.c_dtype, c->at, index_in(c, b, i, j));
            const double bound = rounding(p.c_dtype) * (fabs(want) + fabs(old)) + 64 * (double)(p.k + 8) * 0x1p-22;
            if (!(fabs(got - want) <= bound) || !(fabs(got - weft_ref_load(p.c_dtype, single, at)) <= 2 * bound)) {
                fail_msg("C[%lld][%lld][%lld] of rank %d is %.9g, not %.9g within %.3g", (long long)b,
                         (long long)(c->row + i), (long long)(c->column + j), (int)rank, got, want, bound);
            }
            seen[at]++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(single);
    free(seen);
}

void check_product_counts(const part_product *m) {
    assert_int_equal(m->counted.sent, m->expected.sent);
    assert_int_equal(m->counted.received, m->expected.received);
    assert_int_equal(m->counted.messages, m->expected.messages);
}
