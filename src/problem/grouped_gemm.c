/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products as a problem: their check and defaults, their buffers, their words. */
#include "problem/grouped_gemm.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "problem/problem.h"
#include "problem/tensor.h"

enum { MOST_ROWS = 1 << 30 }; /* so that rows of tiles of one row each are 32-bit numbers */

static void init(weft_problem *problem) {
    const weft_grouped_gemm fresh = WEFT_GROUPED_GEMM_INIT;
    problem->grouped = fresh;
}

static int is_masked(const weft_grouped_gemm *p) {
    return p->layout == WEFT_GROUPS_MASKED;
}

static weft_status check_sizes(const weft_grouped_gemm *p, weft_message *message) {
    const weft_dimension fields[] = {{"groups", p->groups}, {"rows", p->rows}, {"n", p->n}, {"k", p->k}};
    const weft_status status = weft_check_dimensions(fields, sizeof fields / sizeof *fields, message);
    if (status) {
        return status;
    }
    if (p->groups > WEFT_MOST_GROUPS) {
        return weft_fail(message, WEFT_INVALID, "groups %" PRId64 " is not between 1 and %d", p->groups, WEFT_MOST_GROUPS);
    }
    if (p->layout != WEFT_GROUPS_CONTIGUOUS && !is_masked(p)) {
        return weft_fail(message, WEFT_INVALID, "layout %d is not WEFT_GROUPS_CONTIGUOUS or WEFT_GROUPS_MASKED",
                         (int)p->layout);
    }
    if (p->rows > MOST_ROWS / (is_masked(p) ? p->groups : 1)) {
        return weft_fail(message, WEFT_INVALID, "rows %" PRId64 "%s are more than %d", p->rows,
                         is_masked(p) ? " of all groups" : "", (int)MOST_ROWS);
    }
    if (!is_masked(p) && (p->a_stride != 0 || p->c_stride != 0)) {
        return weft_fail(message, WEFT_INVALID, "a_stride %" PRId64 " and c_stride %" PRId64 " are for masked groups only",
                         p->a_stride, p->c_stride);
    }
    if (is_masked(p) ? p->starts != NULL : p->counts != NULL) {
        return weft_fail(message, WEFT_INVALID, "%s are for %s groups", p->starts ? "starts" : "counts",
                         p->starts ? "contiguous" : "masked");
    }
    return WEFT_OK;
}

/* Leading dimensions and strides are those of a batch of products. */
static weft_status resolve(weft_problem *problem, weft_message *message) {
    weft_grouped_gemm *p = &problem->grouped;
    weft_problem batch;
    const weft_operation_row *row;
    weft_status status = check_sizes(p, message);
    if (status) {
        return status;
    }
    const weft_gemm product = weft_grouped_gemm_product(p);
    if ((status = weft_problem_resolve(&batch, &row, &product, message))) {
        return status;
    }
    p->lda = batch.gemm.lda;
    p->ldb = batch.gemm.ldb;
    p->ldc = batch.gemm.ldc;
    p->a_stride = is_masked(p) ? batch.gemm.a_stride : 0;
    p->b_stride = batch.gemm.b_stride;
    p->c_stride = is_masked(p) ? batch.gemm.c_stride : 0;
    const int32_t *bounds = weft_grouped_gemm_bounds(p, NULL);
    return bounds ? weft_grouped_gemm_check_bounds(p, bounds, message) : WEFT_OK;
}

static size_t kept_bytes(const weft_problem *problem) {
    const weft_grouped_gemm *p = &problem->grouped;
    return weft_grouped_gemm_bounds(p, NULL) ? (size_t)(p->groups + !is_masked(p)) * sizeof(int32_t) : 0;
}

static weft_status keep(weft_problem *problem, void **memory, weft_message *message) {
    weft_grouped_gemm *p = &problem->grouped;
    const size_t bytes = kept_bytes(problem);
    *memory = NULL;
    if (bytes == 0) {
        return WEFT_OK;
    }
    int32_t *copy = *memory = malloc(bytes);
    if (!copy) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the bounds of %" PRId64 " groups", p->groups);
    }
    memcpy(copy, weft_grouped_gemm_bounds(p, NULL), bytes);
    p->starts = is_masked(p) ? NULL : copy;
    p->counts = is_masked(p) ? copy : NULL;
    return WEFT_OK;
}

static double flops(const weft_problem *problem) {
    const weft_grouped_gemm *p = &problem->grouped;
    return 2.0 * (double)weft_grouped_gemm_rows(p) * (double)p->n * (double)p->k;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_grouped_gemm *p = &problem->grouped;
    weft_gemm product = weft_grouped_gemm_product(p);
    const weft_gemm_extents all = weft_gemm_sizes(&product);
    const weft_buffer bounds =
        is_masked(p)
            ? (weft_buffer)WEFT_BUFFER_OF(weft_grouped_gemm_data, counts, WEFT_INT32, (size_t)p->groups, 4, 1, 0)
            : (weft_buffer)WEFT_BUFFER_OF(weft_grouped_gemm_data, starts, WEFT_INT32, (size_t)p->groups + 1, 4, 1, 0);
    const weft_buffer list_of[] = {
        WEFT_BUFFER_OF(weft_grouped_gemm_data, a, p->dtype, all.a, 16, 1, 0),
        WEFT_BUFFER_OF(weft_grouped_gemm_data, b, p->dtype, all.b, 16, 1, 0),
        WEFT_BUFFER_OF(weft_grouped_gemm_data, c, p->c_dtype, all.c, 16, 2, 0),
        bounds,
    };
    const size_t count = weft_grouped_gemm_bounds(p, NULL) ? 3 : 4;
    memcpy(list, list_of, count * sizeof *list);
    return count;
}

static const char *layout_name(int32_t i) {
    static const char *const names[] = {"contiguous", "masked"};
    return i >= 0 && i < 2 ? names[i] : NULL;
}

static const char *major_name(int32_t i) {
    static const char *const names[] = {"row", "col"};
    return i >= 0 && i < 2 ? names[i] : NULL;
}

static int text(const weft_problem *problem, char *to, size_t size) {
    const weft_grouped_gemm *p = &problem->grouped;
    return snprintf(to, size,
                    "grouped    groups %" PRId64 " (%s), rows %" PRId64 ", n %" PRId64 ", k %" PRId64 ", %s in, %s out\n",
                    p->groups, layout_name((int32_t)p->layout), p->rows, p->n, p->k, weft_dtype_name(p->dtype),
                    weft_dtype_name(p->c_dtype));
}

static int title(const weft_problem *problem, char *to, size_t size) {
    const weft_grouped_gemm *p = &problem->grouped; /* no line breaks around the crosses */
    char m[24], n[24], k[24];
    return snprintf(to, size, "Grouped product, %" PRId64 " groups, %s\u00a0×\u00a0%s\u00a0×\u00a0%s, %s", p->groups,
                    weft_size_text(weft_grouped_gemm_rows(p), m, sizeof m), weft_size_text(p->n, n, sizeof n),
                    weft_size_text(p->k, k, sizeof k), weft_dtype_name(p->dtype));
}

static size_t key(const weft_problem *problem, int64_t *n, char *to, size_t size) {
    const weft_grouped_gemm *p = &problem->grouped;
    const int64_t numbers[] = {p->dtype,
                               p->c_dtype,
                               p->layout,
                               p->b_major,
                               weft_bucket(p->groups),
                               weft_bucket(weft_grouped_gemm_mean_rows(p)),
                               weft_bucket(p->rows),
                               weft_bucket(p->n),
                               weft_bucket(p->k)};
    const size_t count = sizeof numbers / sizeof *numbers;
    memcpy(n, numbers, sizeof numbers);
    snprintf(to, size,
             "grouped gemm %s to %s, %s, b %s, groups %" PRId64 ", mean rows %" PRId64 ", rows %" PRId64 ", n %" PRId64
             ", k %" PRId64,
             weft_dtype_name(p->dtype), weft_dtype_name(p->c_dtype), layout_name((int32_t)p->layout),
             major_name((int32_t)p->b_major), n[4], n[5], n[6], n[7], n[8]);
    return count;
}

#define AT(field) offsetof(weft_grouped_gemm, field)
/* clang-format off */
static const weft_field fields[] = {
    {"groups",     "groups of rows, each with a B of its own (8)", WEFT_FIELD_INTEGER, AT(groups), 0, NULL, 8, NULL},
    {"rows",       "rows of A; masked: of each group (1024)", WEFT_FIELD_INTEGER, AT(rows), 0, NULL, 1024, NULL},
    {"group_rows", "rows of each group, known beforehand, in place of groups and rows", WEFT_FIELD_STARTS, AT(starts), 0, NULL, 0, "groups"},
    {"group_counts", "the same of masked groups", WEFT_FIELD_COUNTS, AT(counts), 0, NULL, 0, "groups"},
    {"n",          "columns of C (1024)", WEFT_FIELD_INTEGER, AT(n), 0, NULL, 1024, NULL},
    {"k",          "columns of A, rows of B (1024)", WEFT_FIELD_INTEGER, AT(k), 0, NULL, 1024, NULL},
    {"group_layout", "contiguous: groups lie one behind the other; masked: each has room for all rows (contiguous)", WEFT_FIELD_CHOICE, AT(layout), 0, layout_name, WEFT_GROUPS_CONTIGUOUS, NULL},
    {"b_major",    "layout of B (row)", WEFT_FIELD_CHOICE, AT(b_major), 0, major_name, WEFT_ROW_MAJOR, NULL},
    {"c_dtype",    "of C (as A and B)", WEFT_FIELD_CHOICE, AT(c_dtype), 0, weft_dtype_choice, WEFT_FP32, "dtype"},
    {"alpha",      "C = alpha A B (1)", WEFT_FIELD_REAL, AT(alpha), 0, NULL, 1, NULL},
    {"dtype",      "fp32, fp16, bf16 or, simulated, fp8 (fp32)", WEFT_FIELD_CHOICE, AT(dtype), 0, weft_dtype_choice, WEFT_FP32, NULL},
};
/* clang-format on */

const weft_operation_row weft_operation_grouped_gemm = {
    .info = {.operation = WEFT_GROUPED_GEMM,
             .name = "grouped-gemm",
             .text = "C_g = alpha A_g B_g for groups of unlike numbers of rows: a mixture of experts",
             .problem_size = sizeof(weft_grouped_gemm),
             .data_size = sizeof(weft_grouped_gemm_data),
             .grid = WEFT_GRID_MATRIX,
             .fields = fields,
             .field_count = sizeof fields / sizeof *fields},
    .profile = offsetof(weft_machine, gemm_profile),
    .init = init,
    .resolve = resolve,
    .keep = keep,
    .kept_bytes = kept_bytes,
    .flops = flops,
    .buffers = buffers,
    .sides = weft_grouped_gemm_sides,
    .choose = weft_grouped_gemm_choose,
    .lay_out = weft_grouped_gemm_lay_out,
    .pieces = weft_grouped_gemm_pieces,
    .reads = weft_grouped_gemm_reads,
    .step_bytes = weft_grouped_gemm_step_bytes,
    .clusters_reach_over = 1,
    .text = text,
    .title = title,
    .key = key,
};
