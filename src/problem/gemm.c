/* GEMM as a problem: its check and defaults, its buffers, its words. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "problem/gemm.h"
#include "problem/problem.h"
#include "problem/tensor.h"

static void init(weft_problem *problem) {
    const weft_gemm fresh = WEFT_GEMM_INIT;
    problem->gemm = fresh;
}

/* Fills in and checks the leading dimension of a rows x cols matrix. */
static weft_status resolve_leading(int64_t *ld, weft_major major, char matrix, int64_t rows, int64_t cols,
                                   weft_message *message) {
    if (major != WEFT_ROW_MAJOR && major != WEFT_COL_MAJOR) {
        return weft_fail(message, WEFT_INVALID, "%c_major %d is not WEFT_ROW_MAJOR or WEFT_COL_MAJOR", matrix, (int)major);
    }
    const int64_t inner = major == WEFT_ROW_MAJOR ? cols : rows, outer = major == WEFT_ROW_MAJOR ? rows : cols;
    if (*ld == 0) {
        *ld = inner;
    }
    if (*ld < inner) {
        return weft_fail(message, WEFT_INVALID, "ld%c %" PRId64 " is less than %" PRId64 ", the length of a %s of %c",
                         matrix, *ld, inner, major == WEFT_ROW_MAJOR ? "row" : "column", matrix);
    }
    weft_lower_stride(ld, outer);
    const weft_tensor_axis lines = {outer, *ld};
    if (!weft_extent(&lines, 1, inner)) {
        return weft_fail(message, WEFT_INVALID, "%c spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

static size_t matrix_extent(weft_major major, int64_t ld, int64_t rows, int64_t cols) {
    return weft_matrix_index(major, ld, rows - 1, cols - 1) + 1;
}

/* Fills in and checks the distance between the matrices of a batch, each of `size` elements, at most 2^59. */
static weft_status resolve_batch(int64_t *stride, char matrix, int64_t batch, size_t size, weft_message *message) {
    if (*stride == 0 || batch == 1) {
        *stride = (int64_t)size;
    }
    if (*stride < (int64_t)size) {
        return weft_fail(message, WEFT_INVALID, "%c_stride %" PRId64 " is less than %zu, the elements of %c", matrix,
                         *stride, size, matrix);
    }
    const weft_tensor_axis products = {batch, *stride};
    if (!weft_extent(&products, 1, (int64_t)size)) {
        return weft_fail(message, WEFT_INVALID, "%c spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

static weft_status resolve(weft_problem *problem, weft_message *message) {
    weft_gemm *p = &problem->gemm;
    weft_status status;
    const weft_dimension fields[] = {{"m", p->m}, {"n", p->n}, {"k", p->k}, {"batch", p->batch}};
    if ((status = weft_check_dimensions(fields, sizeof fields / sizeof *fields, message)) ||
        (status = weft_check_dtype("dtype", p->dtype, message)) ||
        (status = weft_check_dtype("c_dtype", p->c_dtype, message)) ||
        (status = resolve_leading(&p->lda, p->a_major, 'a', p->m, p->k, message)) ||
        (status = resolve_leading(&p->ldb, p->b_major, 'b', p->k, p->n, message)) ||
        (status = resolve_leading(&p->ldc, p->c_major, 'c', p->m, p->n, message))) {
        return status;
    }
    if ((status = resolve_batch(&p->a_stride, 'a', p->batch, matrix_extent(p->a_major, p->lda, p->m, p->k), message)) ||
        (status = resolve_batch(&p->b_stride, 'b', p->batch, matrix_extent(p->b_major, p->ldb, p->k, p->n), message)) ||
        (status = resolve_batch(&p->c_stride, 'c', p->batch, matrix_extent(p->c_major, p->ldc, p->m, p->n), message))) {
        return status;
    }
    if (!isfinite(p->alpha) || !isfinite(p->beta)) {
        return weft_fail(message, WEFT_INVALID, "alpha %g and beta %g must be finite", p->alpha, p->beta);
    }
    return WEFT_OK;
}

weft_gemm_extents weft_gemm_sizes(const weft_gemm *p) {
    const size_t before = (size_t)p->batch - 1; /* the last product's matrices lie beyond so many strides */
    return (weft_gemm_extents){before * (size_t)p->a_stride + matrix_extent(p->a_major, p->lda, p->m, p->k),
                               before * (size_t)p->b_stride + matrix_extent(p->b_major, p->ldb, p->k, p->n),
                               before * (size_t)p->c_stride + matrix_extent(p->c_major, p->ldc, p->m, p->n)};
}

static double flops(const weft_problem *problem) {
    const weft_gemm *p = &problem->gemm;
    return 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_gemm *p = &problem->gemm;
    const weft_gemm_extents n = weft_gemm_sizes(p);
    const weft_buffer all[] = {
        WEFT_BUFFER_OF(weft_gemm_data, a, p->dtype, n.a, 16, 1, 0),
        WEFT_BUFFER_OF(weft_gemm_data, b, p->dtype, n.b, 16, 1, 0),
        WEFT_BUFFER_OF(weft_gemm_data, c, p->c_dtype, n.c, 16, p->beta != 0 ? 3 : 2, 0),
    };
    memcpy(list, all, sizeof all);
    return sizeof all / sizeof *all;
}

static int text(const weft_problem *problem, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm;
    char batch[48] = "";
    if (p->batch > 1) {
        snprintf(batch, sizeof batch, "batch %" PRId64 ", ", p->batch);
    }
    return snprintf(to, size, "gemm       %sm %" PRId64 ", n %" PRId64 ", k %" PRId64 ", %s in, %s out\n", batch, p->m,
                    p->n, p->k, weft_dtype_name(p->dtype), weft_dtype_name(p->c_dtype));
}

static int title(const weft_problem *problem, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm; /* no line breaks around the crosses */
    char m[24], n[24], k[24];
    return snprintf(to, size, "Matrix product, %s\u00a0×\u00a0%s\u00a0×\u00a0%s, %s", weft_size_text(p->m, m, sizeof m),
                    weft_size_text(p->n, n, sizeof n), weft_size_text(p->k, k, sizeof k), weft_dtype_name(p->dtype));
}

static const char *major_name(int32_t i) {
    static const char *const names[] = {"row", "col"};
    return i >= 0 && i < 2 ? names[i] : NULL;
}

static size_t key(const weft_problem *problem, int64_t *n, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm;
    const int64_t numbers[] = {p->dtype,          p->c_dtype,           p->a_major,        p->b_major,
                               p->c_major,        p->beta != 0,         weft_bucket(p->m), weft_bucket(p->n),
                               weft_bucket(p->k), weft_bucket(p->batch)};
    const size_t count = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < count; i++) {
        n[i] = numbers[i];
    }
    snprintf(to, size, "gemm %s to %s, a %s, b %s, c %s%s, m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64,
             weft_dtype_name(p->dtype), weft_dtype_name(p->c_dtype), major_name((int32_t)p->a_major),
             major_name((int32_t)p->b_major), major_name((int32_t)p->c_major), n[5] ? ", added to c" : "", n[6], n[7], n[8],
             n[9]);
    return count;
}

#define AT(field) offsetof(weft_gemm, field)
/* clang-format off */
static const weft_field fields[] = {
    {"batch",   "products (1)", WEFT_FIELD_INTEGER, AT(batch), 0, NULL, 1, NULL},
    {"m",       "rows of C (1024)", WEFT_FIELD_INTEGER, AT(m), 0, NULL, 1024, NULL},
    {"n",       "columns of C (1024)", WEFT_FIELD_INTEGER, AT(n), 0, NULL, 1024, NULL},
    {"k",       "columns of A, rows of B (1024)", WEFT_FIELD_INTEGER, AT(k), 0, NULL, 1024, NULL},
    {"a_major", "layout of A (row)", WEFT_FIELD_CHOICE, AT(a_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"b_major", "layout of B (row)", WEFT_FIELD_CHOICE, AT(b_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"c_major", "layout of C (row)", WEFT_FIELD_CHOICE, AT(c_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"c_dtype", "of C (as A and B)", WEFT_FIELD_CHOICE, AT(c_dtype), 0, weft_dtype_choice, WEFT_FP32, "dtype"},
    {"alpha",   "C = alpha A B + beta C (1)", WEFT_FIELD_REAL, AT(alpha), 0, NULL, 1, NULL},
    {"beta",    "(0)", WEFT_FIELD_REAL, AT(beta), 0, NULL, 0, NULL},
    {"dtype",   "fp32, fp16, bf16 or, simulated, fp8 (fp32)", WEFT_FIELD_CHOICE, AT(dtype), 0, weft_dtype_choice, WEFT_FP32, NULL},
};
/* clang-format on */

const weft_operation_row weft_operation_gemm = {
    .info = {.operation = WEFT_GEMM,
             .name = "gemm",
             .text = "C = alpha A B + beta C",
             .problem_size = sizeof(weft_gemm),
             .data_size = sizeof(weft_gemm_data),
             .grid = WEFT_GRID_MATRIX,
             .fields = fields,
             .field_count = sizeof fields / sizeof *fields},
    .profile = offsetof(weft_machine, gemm_profile),
    .init = init,
    .resolve = resolve,
    .flops = flops,
    .buffers = buffers,
    .sides = weft_gemm_sides,
    .choose = weft_gemm_choose,
    .lay_out = weft_gemm_lay_out,
    .pieces = weft_gemm_pieces,
    .reads = weft_gemm_reads,
    .step_bytes = weft_gemm_step_bytes,
    .clusters_reach_over = 1,
    .text = text,
    .title = title,
    .key = key,
};
