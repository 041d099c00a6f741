/* SPDX-License-Identifier: Apache-2.0 */
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

/* Fills in and checks the leading dimension of a rows x cols matrix, whose name a field begins or ends with. */
static weft_status resolve_leading(int64_t *ld, const char *name, weft_major major, const char *matrix, int64_t rows,
                                   int64_t cols, weft_message *message) {
    if (major != WEFT_ROW_MAJOR && major != WEFT_COL_MAJOR) {
        return weft_fail(message, WEFT_INVALID, "%s_major %d is not WEFT_ROW_MAJOR or WEFT_COL_MAJOR", matrix, (int)major);
    }
    const int64_t inner = major == WEFT_ROW_MAJOR ? cols : rows, outer = major == WEFT_ROW_MAJOR ? rows : cols;
    if (*ld == 0) {
        *ld = inner;
    }
    if (*ld < inner) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is less than %" PRId64 ", the length of a %s of %s", name,
                         *ld, inner, major == WEFT_ROW_MAJOR ? "row" : "column", matrix);
    }
    weft_lower_stride(ld, outer);
    const weft_tensor_axis lines = {outer, *ld};
    if (!weft_extent(&lines, 1, inner)) {
        return weft_fail(message, WEFT_INVALID, "%s spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

static size_t matrix_extent(weft_major major, int64_t ld, int64_t rows, int64_t cols) {
    return weft_matrix_index(major, ld, rows - 1, cols - 1) + 1;
}

/* Fills in and checks the distance between the matrices of a batch, each of `size` elements, at most 2^59. */
static weft_status resolve_batch(int64_t *stride, const char *matrix, int64_t batch, size_t size, weft_message *message) {
    if (*stride == 0 || batch == 1) {
        *stride = (int64_t)size;
    }
    if (*stride < (int64_t)size) {
        return weft_fail(message, WEFT_INVALID, "%s_stride %" PRId64 " is less than %zu, the elements of %s", matrix,
                         *stride, size, matrix);
    }
    const weft_tensor_axis products = {batch, *stride};
    if (!weft_extent(&products, 1, (int64_t)size)) {
        return weft_fail(message, WEFT_INVALID, "%s spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

static const char *activation_name(int32_t i) {
    static const char *const names[] = {"identity", "relu", "gelu", "gelu_tanh", "silu"};
    return i >= 0 && i < (int32_t)(sizeof names / sizeof *names) ? names[i] : NULL;
}

static const char *precision_name(int32_t i) {
    static const char *const names[] = {"fp32", "bf16x3", "tf32"};
    return i >= 0 && i < (int32_t)(sizeof names / sizeof *names) ? names[i] : NULL;
}

/* Only elements of fp32 are multiplied in several ways. */
static weft_status resolve_precision(weft_gemm *p, weft_message *message) {
    if (!precision_name(p->precision)) {
        return weft_fail(message, WEFT_INVALID, "precision %d is not a weft_precision", (int)p->precision);
    }
    p->precision = p->dtype == WEFT_FP32 ? p->precision : WEFT_PRECISION_FP32;
    return WEFT_OK;
}

/* All bits of weft_gemm_extras. */
enum { ALL_EXTRAS = 2 * WEFT_GEMM_FUNCTION - 1 };

/* What becomes of A B before it is stored; C's layout is resolved. */
static weft_status resolve_epilogue(weft_gemm *p, weft_message *message) {
    if (p->extras & ~ALL_EXTRAS) {
        return weft_fail(message, WEFT_INVALID, "extras %d has bits that are no weft_gemm_extras", (int)p->extras);
    }
    if (!activation_name(p->activation)) {
        return weft_fail(message, WEFT_INVALID, "activation %d is not a weft_activation", (int)p->activation);
    }
    weft_status status = weft_check_dtype("bias_dtype", p->bias_dtype, message);
    if (status) {
        return status;
    }
    if (!(p->extras & WEFT_GEMM_RESIDUAL)) {
        return p->ld_residual == 0 && p->residual_stride == 0
                   ? WEFT_OK
                   : weft_fail(message, WEFT_INVALID, "ld_residual and residual_stride are for WEFT_GEMM_RESIDUAL");
    }
    if (p->ld_residual == 0 && p->residual_stride == 0) {
        p->residual_stride = p->c_stride;
    }
    p->ld_residual = p->ld_residual == 0 ? p->ldc : p->ld_residual;
    status = resolve_leading(&p->ld_residual, "ld_residual", p->c_major, "residual", p->m, weft_gemm_columns(p), message);
    return status ? status
                  : resolve_batch(&p->residual_stride, "residual", p->batch,
                                  matrix_extent(p->c_major, p->ld_residual, p->m, weft_gemm_columns(p)), message);
}

static weft_status resolve(weft_problem *problem, weft_message *message) {
    weft_gemm *p = &problem->gemm;
    weft_status status;
    const weft_dimension fields[] = {{"m", p->m}, {"n", p->n}, {"k", p->k}, {"batch", p->batch}};
    if ((status = weft_check_dimensions(fields, sizeof fields / sizeof *fields, message)) ||
        (status = weft_check_dtype("dtype", p->dtype, message)) ||
        (status = weft_check_dtype("c_dtype", p->c_dtype, message)) || (status = resolve_precision(p, message))) {
        return status;
    }
    if (p->gated != 0 && (p->gated != 1 || p->n % 2 != 0)) {
        return p->gated != 1 ? weft_fail(message, WEFT_INVALID, "gated %d is neither 0 nor 1", (int)p->gated)
                             : weft_fail(message, WEFT_INVALID, "n %" PRId64 " is odd, and gated needs two halves", p->n);
    }
    const int64_t columns = weft_gemm_columns(p);
    if ((status = resolve_leading(&p->lda, "lda", p->a_major, "a", p->m, p->k, message)) ||
        (status = resolve_leading(&p->ldb, "ldb", p->b_major, "b", p->k, p->n, message)) ||
        (status = resolve_leading(&p->ldc, "ldc", p->c_major, "c", p->m, columns, message)) ||
        (status = resolve_batch(&p->a_stride, "a", p->batch, matrix_extent(p->a_major, p->lda, p->m, p->k), message)) ||
        (status = resolve_batch(&p->b_stride, "b", p->batch, matrix_extent(p->b_major, p->ldb, p->k, p->n), message)) ||
        (status = resolve_batch(&p->c_stride, "c", p->batch, matrix_extent(p->c_major, p->ldc, p->m, columns), message))) {
        return status;
    }
    if (!isfinite((float)p->alpha) || !isfinite((float)p->beta)) { /* of NaN, too */
        return weft_fail(message, WEFT_INVALID, "alpha %g and beta %g must be finite in fp32", p->alpha, p->beta);
    }
    return resolve_epilogue(p, message);
}

weft_gemm_extents weft_gemm_sizes(const weft_gemm *p) {
    const size_t before = (size_t)p->batch - 1; /* the last product's matrices lie beyond so many strides */
    const int64_t columns = weft_gemm_columns(p);
    const int has_residual = (p->extras & WEFT_GEMM_RESIDUAL) != 0;
    return (weft_gemm_extents){
        before * (size_t)p->a_stride + matrix_extent(p->a_major, p->lda, p->m, p->k),
        before * (size_t)p->b_stride + matrix_extent(p->b_major, p->ldb, p->k, p->n),
        before * (size_t)p->c_stride + matrix_extent(p->c_major, p->ldc, p->m, columns),
        has_residual ? before * (size_t)p->residual_stride + matrix_extent(p->c_major, p->ld_residual, p->m, columns) : 0};
}

static const char *moved(const void *from, int64_t elements, weft_dtype dtype) {
    return from ? (const char *)from + elements * (int64_t)weft_dtype_bytes(dtype) : NULL;
}

static const float *moved_floats(const float *from, int64_t elements) {
    return from ? from + elements : NULL;
}

weft_gemm_data weft_gemm_product(const weft_gemm *p, const weft_gemm_data *all, int64_t product) {
    weft_gemm_data one = *all;
    one.a = moved(all->a, product * p->a_stride, p->dtype);
    one.b = moved(all->b, product * p->b_stride, p->dtype);
    one.c = (char *)all->c + product * p->c_stride * (int64_t)weft_dtype_bytes(p->c_dtype);
    one.bias = moved(all->bias, product * p->n, p->bias_dtype);
    one.residual = moved(all->residual, product * p->residual_stride, p->c_dtype);
    one.scale = moved_floats(all->scale, product);
    one.row_scale = moved_floats(all->row_scale, product * p->m);
    one.column_scale = moved_floats(all->column_scale, product * p->n);
    one.column_sums = all->column_sums ? all->column_sums + product * weft_gemm_columns(p) : NULL;
    return one;
}

static double flops(const weft_problem *problem) {
    const weft_gemm *p = &problem->gemm;
    return 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_gemm *p = &problem->gemm;
    const weft_gemm_extents n = weft_gemm_sizes(p);
    const size_t batch = (size_t)p->batch;
    const struct {
        int32_t extra; /* 0: always there */
        weft_buffer buffer;
    } all[] = {
        {0, WEFT_BUFFER_OF(weft_gemm_data, a, p->dtype, n.a, 16, 1, 0)},
        {0, WEFT_BUFFER_OF(weft_gemm_data, b, p->dtype, n.b, 16, 1, 0)},
        {0, WEFT_BUFFER_OF(weft_gemm_data, c, p->c_dtype, n.c, 16, p->beta != 0 ? 3 : 2, 0)},
        {WEFT_GEMM_BIAS, WEFT_BUFFER_OF(weft_gemm_data, bias, p->bias_dtype, batch * (size_t)p->n, 8, 1, 0)},
        {WEFT_GEMM_RESIDUAL, WEFT_BUFFER_OF(weft_gemm_data, residual, p->c_dtype, n.residual, 16, 1, 0)},
        {WEFT_GEMM_SCALE, WEFT_BUFFER_OF(weft_gemm_data, scale, WEFT_FP32, batch, 4, 1, 0)},
        {WEFT_GEMM_ROW_SCALE, WEFT_BUFFER_OF(weft_gemm_data, row_scale, WEFT_FP32, batch * (size_t)p->m, 4, 1, 0)},
        {WEFT_GEMM_COLUMN_SCALE, WEFT_BUFFER_OF(weft_gemm_data, column_scale, WEFT_FP32, batch * (size_t)p->n, 8, 1, 0)},
        {WEFT_GEMM_COLUMN_SUMS,
         WEFT_BUFFER_OF(weft_gemm_data, column_sums, WEFT_FP32, batch * (size_t)weft_gemm_columns(p), 4, 2, 0)},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].extra == 0 || (p->extras & all[i].extra)) {
            list[count++] = all[i].buffer;
        }
    }
    return count;
}

/* What a product has beside alpha and beta: ", bias, gated silu, residual". */
static const char *epilogue_text(const weft_gemm *p, char *to, size_t size) {
    static const struct {
        int32_t extra;
        const char *text;
    } before[] = {{WEFT_GEMM_SCALE, ", scale"},
                  {WEFT_GEMM_ROW_SCALE, ", row scale"},
                  {WEFT_GEMM_COLUMN_SCALE, ", column scale"},
                  {WEFT_GEMM_BIAS, ", bias"},
                  {0, NULL}, /* the activation */
                  {WEFT_GEMM_RESIDUAL, ", residual"},
                  {WEFT_GEMM_FUNCTION, ", function"},
                  {WEFT_GEMM_COLUMN_SUMS, ", column sums"}};
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < sizeof before / sizeof *before && used < size; i++) {
        if (before[i].extra & p->extras) {
            used += (size_t)snprintf(to + used, size - used, "%s", before[i].text);
        } else if (!before[i].text && (p->gated || p->activation != WEFT_IDENTITY)) {
            used += (size_t)snprintf(to + used, size - used, ", %s%s", p->gated ? "gated " : "",
                                     activation_name(p->activation));
        }
    }
    return to;
}

enum { EPILOGUE_TEXT = 128 };

/* What of it is not as usual: " by tf32". */
static const char *precision_text(const weft_gemm *p, char *to, size_t size) {
    snprintf(to, size, "%s%s", p->precision ? " by " : "", p->precision ? precision_name(p->precision) : "");
    return to;
}

enum { PRECISION_TEXT = 16 };

static int text(const weft_problem *problem, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm;
    char batch[48] = "";
    if (p->batch > 1) {
        snprintf(batch, sizeof batch, "batch %" PRId64 ", ", p->batch);
    }
    char epilogue[EPILOGUE_TEXT], precision[PRECISION_TEXT];
    return snprintf(to, size, "gemm       %sm %" PRId64 ", n %" PRId64 ", k %" PRId64 ", %s%s in, %s out%s\n", batch, p->m,
                    p->n, p->k, weft_dtype_name(p->dtype), precision_text(p, precision, sizeof precision),
                    weft_dtype_name(p->c_dtype), epilogue_text(p, epilogue, sizeof epilogue));
}

static int title(const weft_problem *problem, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm; /* no line breaks around the crosses */
    char m[24], n[24], k[24], precision[PRECISION_TEXT];
    return snprintf(to, size, "Matrix product, %s\u00a0×\u00a0%s\u00a0×\u00a0%s, %s%s", weft_size_text(p->m, m, sizeof m),
                    weft_size_text(p->n, n, sizeof n), weft_size_text(p->k, k, sizeof k), weft_dtype_name(p->dtype),
                    precision_text(p, precision, sizeof precision));
}

static const char *major_name(int32_t i) {
    static const char *const names[] = {"row", "col"};
    return i >= 0 && i < 2 ? names[i] : NULL;
}

static size_t key(const weft_problem *problem, int64_t *n, char *to, size_t size) {
    const weft_gemm *p = &problem->gemm;
    const int64_t numbers[] = {p->dtype,     p->c_dtype,        p->a_major,        p->b_major,        p->c_major,
                               p->beta != 0, weft_bucket(p->m), weft_bucket(p->n), weft_bucket(p->k), weft_bucket(p->batch),
                               p->extras,    p->activation,     p->gated,          p->precision};
    /* Others keep the key that they had before there were precisions, and before that epilogues. */
    const size_t all = sizeof numbers / sizeof *numbers, count = p->precision            ? all
                                                                 : weft_gemm_is_fused(p) ? all - 1
                                                                                         : all - 4;
    char epilogue[EPILOGUE_TEXT], precision[PRECISION_TEXT];
    for (size_t i = 0; i < count; i++) {
        n[i] = numbers[i];
    }
    snprintf(to, size,
             "gemm %s%s to %s, a %s, b %s, c %s%s, m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64 "%s",
             weft_dtype_name(p->dtype), precision_text(p, precision, sizeof precision), weft_dtype_name(p->c_dtype),
             major_name((int32_t)p->a_major), major_name((int32_t)p->b_major), major_name((int32_t)p->c_major),
             n[5] ? ", added to c" : "", n[6], n[7], n[8], n[9], epilogue_text(p, epilogue, sizeof epilogue));
    return count;
}

#define AT(field) offsetof(weft_gemm, field)
/* clang-format off */
static const weft_field fields[] = {
    {"batch",   "products (1)", WEFT_FIELD_INTEGER, AT(batch), 0, NULL, 1, NULL},
    {"m",       "rows of C (1024)", WEFT_FIELD_INTEGER, AT(m), 0, NULL, 1024, NULL},
    {"n",       "columns of B, of which C has all, gated half (1024)", WEFT_FIELD_INTEGER, AT(n), 0, NULL, 1024, NULL},
    {"k",       "columns of A, rows of B (1024)", WEFT_FIELD_INTEGER, AT(k), 0, NULL, 1024, NULL},
    {"a_major", "layout of A (row)", WEFT_FIELD_CHOICE, AT(a_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"b_major", "layout of B (row)", WEFT_FIELD_CHOICE, AT(b_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"c_major", "layout of C (row)", WEFT_FIELD_CHOICE, AT(c_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"c_dtype", "of C (as A and B)", WEFT_FIELD_CHOICE, AT(c_dtype), 0, weft_dtype_choice, WEFT_FP32, "dtype"},
    {"alpha",   "C = alpha A B + beta C (1)", WEFT_FIELD_REAL, AT(alpha), 0, NULL, 1, NULL},
    {"beta",    "(0)", WEFT_FIELD_REAL, AT(beta), 0, NULL, 0, NULL},
    {"tensor_scale", "multiplied by a number from memory", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_SCALE, NULL, 0, NULL},
    {"row_scale", "multiplied by a number for each row", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_ROW_SCALE, NULL, 0, NULL},
    {"column_scale", "multiplied by a number for each column", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_COLUMN_SCALE, NULL, 0, NULL},
    {"bias",    "a number added to each column", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_BIAS, NULL, 0, NULL},
    {"bias_dtype", "of the bias (fp32)", WEFT_FIELD_CHOICE, AT(bias_dtype), 1, weft_dtype_choice, WEFT_FP32, NULL},
    {"activation", "identity, relu, gelu, gelu_tanh or silu (identity)", WEFT_FIELD_CHOICE, AT(activation), 1, activation_name, WEFT_IDENTITY, NULL},
    {"gated",   "activation(first half of the columns) * second half", WEFT_FIELD_BIT, AT(gated), 1, NULL, 0, NULL},
    {"residual", "a matrix added behind the activation", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_RESIDUAL, NULL, 0, NULL},
    {"column_sums", "sums of the columns of C, too", WEFT_FIELD_BIT, AT(extras), WEFT_GEMM_COLUMN_SUMS, NULL, 0, NULL},
    {"dtype",   "fp32, fp16, bf16 or, simulated, fp8 (fp32)", WEFT_FIELD_CHOICE, AT(dtype), 0, weft_dtype_choice, WEFT_FP32, NULL},
    {"precision", "of fp32 on a GPU: fp32, bf16x3 or tf32 (fp32)", WEFT_FIELD_CHOICE, AT(precision), 1, precision_name, WEFT_PRECISION_FP32, NULL},
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
    .workspace = offsetof(weft_gemm_data, workspace),
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
