/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gemm/operands.h"

#include <string.h>

#include "base/status.h"
#include "problem/problem.h"

_Static_assert(sizeof(weft_gemm_operands_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* How elements are written. */
typedef struct form {
    int32_t sections;          /* of a line, each of parts; 0: one of whole elements */
    int32_t halves;            /* elements of 16 bits for each of a line */
    int32_t unit;              /* elements in 16 bytes of a section */
    uint32_t a_parts, b_parts; /* see weft_gemm_operand_copy */
} form;

/* Parts are numbered as in operands_params.h, from the last section to the first. */
static const form forms[] = {
    [WEFT_PRECISION_FP32] = {6, 6, 8, 0x012123, 0x021321},
    [WEFT_PRECISION_BF16X3] = {3, 3, 8, 0x012, 0x021},
    [WEFT_PRECISION_TF32] = {0, 2, 4, 0, 0},
};

static const form as_they_are = {0, 1, 8, 0, 0};

static const form *form_of(const weft_gemm *p) {
    return p->dtype == WEFT_FP32 ? &forms[p->precision] : &as_they_are;
}

/* Elements of a line, with those behind them. */
static int64_t padded_of(const weft_gemm *p) {
    const int64_t unit = form_of(p)->unit;
    return weft_ceil_divide(p->k, unit) * unit;
}

/* Elements of 16 bits from a line of the workspace to the next: lines of the L2 are not shared. */
static int64_t distance_of(const weft_gemm *p) {
    return weft_ceil_divide(form_of(p)->halves * padded_of(p), 64) * 64;
}

/* Whether A or B is read where it lies. */
static int is_direct(const weft_gemm *p, int along_k, int64_t ld, int64_t stride) {
    const form *f = form_of(p);
    const int lies_so = p->dtype != WEFT_FP32 || (along_k && p->k % f->unit == 0);
    return f->sections == 0 && lies_so && ld % f->unit == 0 && (p->batch == 1 || stride % f->unit == 0);
}

static int is_a_direct(const weft_gemm *p) {
    return is_direct(p, p->a_major == WEFT_ROW_MAJOR, p->lda, p->a_stride);
}

/* Values that are in the lines of their gates begin where these end. */
static int is_b_direct(const weft_gemm *p) {
    const int in_lines = p->gated && p->b_major == WEFT_ROW_MAJOR;
    return is_direct(p, p->b_major == WEFT_COL_MAJOR, p->ldb, p->b_stride) &&
           (!in_lines || p->n / 2 % form_of(p)->unit == 0);
}

weft_gemm weft_gemm_in_halves(const weft_gemm *p) {
    weft_gemm q = *p;
    const int64_t halves = form_of(p)->halves;
    const int a = is_a_direct(p), b = is_b_direct(p), ends_in_zeros = p->dtype == WEFT_FP32 || (!a && !b);
    q.dtype = p->dtype == WEFT_FP32 ? WEFT_BF16 : p->dtype;
    q.k = ends_in_zeros ? halves * padded_of(p) : p->k;
    q.a_major = a ? p->a_major : WEFT_ROW_MAJOR;
    q.b_major = b ? p->b_major : WEFT_COL_MAJOR;
    q.lda = a ? halves * p->lda : distance_of(p);
    q.ldb = b ? halves * p->ldb : distance_of(p);
    q.a_stride = a ? halves * p->a_stride : p->m * q.lda;
    q.b_stride = b ? halves * p->b_stride : p->n * q.ldb;
    return q;
}

weft_dtype weft_gemm_multiplied(const weft_gemm *in_halves) {
    return in_halves->precision == WEFT_PRECISION_TF32 ? WEFT_FP32 : in_halves->dtype;
}

int weft_gemm_has_parts(const weft_gemm *p) {
    return p->dtype == WEFT_FP32 && form_of(p)->sections > 0;
}

weft_status weft_gemm_check_parts(const weft_gemm *p, int32_t sweep, weft_message *why) {
    return weft_gemm_has_parts(p) && sweep != WEFT_SWEEP_CHOOSE && sweep != WEFT_SWEEP_FORWARD
               ? weft_fail(why, WEFT_UNSUPPORTED, "it adds parts of fp32 from the smallest to the largest, forward only")
               : WEFT_OK;
}

/* Bytes of an operand of so many lines in the workspace, a multiple of 128. */
static size_t bytes_of(const weft_gemm *p, int is_direct, int64_t lines) {
    return is_direct ? 0 : (size_t)(p->batch * lines * 2 * distance_of(p));
}

size_t weft_gemm_operands_bytes(const weft_gemm *p) {
    return bytes_of(p, is_a_direct(p), p->m) + bytes_of(p, is_b_direct(p), p->n);
}

double weft_gemm_operands_traffic(const weft_gemm *p) {
    const double lines = (is_a_direct(p) ? 0 : (double)p->m) + (is_b_direct(p) ? 0 : (double)p->n);
    return (double)p->batch * lines *
           (2.0 * form_of(p)->halves * (double)padded_of(p) + (double)weft_dtype_bytes(p->dtype) * (double)p->k);
}

static int64_t ctas_of(const weft_gemm *p, int64_t lines) {
    return weft_ceil_divide(lines, WEFT_GEMM_OPERAND_TILE) * weft_ceil_divide(padded_of(p), WEFT_GEMM_OPERAND_TILE);
}

static const char kernel[] = "gemm_operands";

int weft_gemm_operands_pass(const weft_gemm *p, const weft_cuda_choice *main, weft_cuda_choice *pass) {
    const int64_t a = is_a_direct(p) ? 0 : ctas_of(p, p->m), b = is_b_direct(p) ? 0 : ctas_of(p, p->n);
    *pass = (weft_cuda_choice){.image = kernel,
                               .kernel = kernel,
                               .threads = WEFT_GEMM_OPERAND_THREADS,
                               .grid = p->batch * (a + b),
                               .overlaps = main->overlaps};
    return pass->grid > 0;
}

int weft_gemm_is_operands_pass(const weft_cuda_pass *pass) {
    return strcmp(pass->choice.kernel, kernel) == 0;
}

weft_gemm_data weft_gemm_data_in_halves(const weft_gemm *p, const weft_gemm_data *data) {
    weft_gemm_data own = *data;
    char *next = data->workspace;
    if (!is_a_direct(p)) {
        own.a = next;
        next += bytes_of(p, 0, p->m);
    }
    if (!is_b_direct(p)) {
        own.b = next;
        next += bytes_of(p, 0, p->n);
    }
    own.workspace = next;
    return own;
}

weft_gemm_operands_params weft_gemm_operands_of(const weft_gemm *p, const weft_gemm_data *data) {
    const form *f = form_of(p);
    const weft_gemm_data own = weft_gemm_data_in_halves(p, data);
    weft_gemm_operands_params to = {.k = (int32_t)p->k,
                                    .padded = (int32_t)padded_of(p),
                                    .distance = distance_of(p),
                                    .sections = f->sections,
                                    .narrow = p->dtype != WEFT_FP32};
    if (!is_a_direct(p)) {
        const uint32_t ctas = (uint32_t)ctas_of(p, p->m);
        to.a = (weft_gemm_operand_copy){
            data->a, (void *)(uintptr_t)own.a, p->lda, p->a_stride, (int32_t)p->m, p->a_major == WEFT_ROW_MAJOR, f->a_parts,
            ctas,    (uint32_t)p->batch * ctas};
    }
    if (!is_b_direct(p)) {
        const uint32_t ctas = (uint32_t)ctas_of(p, p->n);
        to.b = (weft_gemm_operand_copy){
            data->b, (void *)(uintptr_t)own.b, p->ldb, p->b_stride, (int32_t)p->n, p->b_major == WEFT_COL_MAJOR, f->b_parts,
            ctas,    (uint32_t)p->batch * ctas};
    }
    return to;
}
