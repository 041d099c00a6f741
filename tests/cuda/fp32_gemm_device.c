/* SPDX-License-Identifier: Apache-2.0 */
/* Products of fp32 on a GPU, element by element: every precision, by both families of kernels, of random ragged sizes and
 * any layout. What lies between the lines of A and B is NaN, and C is poisoned. Elements are of very unlike size, and some
 * are infinite, NaN, denormal or nearly as large as can be. Exits 77 where there is no GPU for it.
 *
 *   fp32_gemm_device [first round [rounds]]
 *   fp32_gemm_device small [first round [rounds]]
 *
 * `small` is for the emulated GPU (emulate/emulate.h). */
#include <float.h>

#include "../plans.h"
#include "cuda/gemm/params.h"
#include "cuda/plan/backend.h"
#include "gemm_trial.h"

enum { ROUNDS = 120, SMALL_ROUNDS = 36, SKIPPED = 77, PRECISIONS = 3 };

static weft_gemm random_gemm(int round, int is_small) {
    weft_gemm p = WEFT_GEMM_INIT;
    const int64_t most = is_small ? 150 : 700;
    p.precision = round % PRECISIONS;
    p.m = between(1, round % 7 == 3 ? 3 : most);
    p.n = between(1, round % 7 == 4 ? 3 : most);
    p.k = between(1, round % 7 == 5 ? 3 : is_small ? 200 : 900);
    p.a_major = (weft_major)between(0, 1);
    p.b_major = (weft_major)between(0, 1);
    p.c_major = (weft_major)between(0, 1);
    const int whole = (int)between(0, 1); /* lines that TF32 is read from where they lie */
    p.k = whole ? (p.k + 3) / 4 * 4 : p.k;
    p.lda = (p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + between(0, 9);
    p.ldb = (p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + between(0, 9);
    p.lda = whole ? to_8(p.lda) : p.lda;
    p.ldb = whole ? to_8(p.ldb) : p.ldb;
    p.ldc = to_8(p.c_major == WEFT_ROW_MAJOR ? p.n : p.m) + 4 * between(0, 2);
    p.alpha = between(0, 1) ? 1 : -0.5;
    p.beta = between(0, 2) ? 0 : 1.5;
    if (between(0, 3) == 0) {
        p.batch = 3;
        p.a_stride = p.lda * (p.a_major == WEFT_ROW_MAJOR ? p.m : p.k) + 4 * between(0, 2);
        p.b_stride = p.ldb * (p.b_major == WEFT_ROW_MAJOR ? p.k : p.n) + 4 * between(0, 2);
        p.c_stride = p.ldc * (p.c_major == WEFT_ROW_MAJOR ? p.m : p.n);
    }
    return p;
}

/* Elements of a matrix become alike in no way; NaN lies behind its lines. */
static void make_unlike(matrix *m, weft_major major, int64_t stride, int64_t ld, int64_t rows, int64_t cols, int has_odd) {
    static const float odds[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0x1p-140f, 0x1p-149f, 0, 0x1.fffp127f};
    const int64_t lines = major == WEFT_ROW_MAJOR ? rows : cols, length = major == WEFT_ROW_MAJOR ? cols : rows;
    float *x = m->host;
    for (size_t i = 0; i < m->count; i++) {
        const int64_t at = (int64_t)i % stride, odd = has_odd ? between(0, 4999) : 4999;
        x[i] = ldexpf(x[i], (int)between(-18, 18));
        x[i] = odd < (int64_t)(sizeof odds / sizeof *odds) ? odds[odd] : x[i];
        x[i] = at / ld < lines && at % ld < length ? x[i] : NAN;
    }
}

static void make_both_unlike(const weft_cuda_driver *d, const weft_gemm *p, matrix *a, matrix *b) {
    const int has_odd = (int)between(0, 1);
    make_unlike(a, p->a_major, p->a_stride, p->lda, p->m, p->k, has_odd);
    make_unlike(b, p->b_major, p->b_stride, p->ldb, p->k, p->n, has_odd);
    d->copy_in(a->there, a->host, a->bytes);
    d->copy_in(b->there, b->host, b->bytes);
}

/* What one product of elements may be off by, as a share of it; the same of sums, which are cut off once in eight terms or
 * sixteen, and of parts, that go first. */
static double share_of(const weft_gemm *p) {
    static const double of_products[] = {0x1p-24, 0x1p-15, 0x1p-9};
    return of_products[p->precision] + ((double)p->k / 8 + 8) * 0x1p-23;
}

/* What is smaller may count as 0: parts of elements, or where it meets infinity the element itself. */
#define LEAST 0x1p-126

/* Whether an element is as a plain product in fp32 has it, or as near to the exact one as the precision says. */
static int is_near(const weft_gemm *p, const weft_gemm_data *one, int64_t row, int64_t col, double got) {
    const double old =
        p->beta == 0 ? 0 : weft_ref_load(p->c_dtype, one->c, weft_matrix_index(p->c_major, p->ldc, row, col));
    double sum = 0, size = 0, lost = 0, odd = 0; /* the last: of products that are not finite */
    int is_open = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double a = weft_ref_load(p->dtype, one->a, weft_matrix_index(p->a_major, p->lda, row, k));
        const double b = weft_ref_load(p->dtype, one->b, weft_matrix_index(p->b_major, p->ldb, k, col));
        if (!isfinite(a) || !isfinite(b)) {
            odd += a * b;
            is_open |= (fabs(a) < LEAST && a != 0) || (fabs(b) < LEAST && b != 0);
            continue;
        }
        sum += a * b;
        size += fabs(a * b);
        lost += 2 * LEAST * (fabs(a) + fabs(b));
    }
    if (is_open || size > 0.98 * (double)FLT_MAX) { /* then parts of the sum may be infinite */
        return 1;
    }
    if (odd != 0) {
        return isnan(odd) ? isnan(got) : got == p->alpha * odd;
    }
    const double exact = p->alpha * sum + p->beta * old;
    return fabs(got - exact) <= share_of(p) * size + lost + LEAST + 0x1p-22 * (fabs(p->beta * old) + fabs(exact));
}

/* Whether all elements are, or as many as take no time. */
static int are_near(const weft_gemm *p, const weft_gemm_data *data, const void *got) {
    const int64_t count = p->batch * p->m * p->n, stride = (count / 20000 + 1) | 1;
    for (int64_t i = 0; i < count; i += stride) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        const weft_gemm_data one = weft_gemm_product(p, data, batch);
        const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
        const double value = weft_ref_load(p->c_dtype, got, at);
        if (!is_near(p, &one, row, col, value)) {
            fprintf(stderr, "element %d, %d of product %d is %g\n", (int)row, (int)col, (int)batch, value);
            return 0;
        }
    }
    return 1;
}

static int one_product(const weft_cuda_driver *d, const weft_gemm *product, const char *family, int round) {
    weft_device device = WEFT_DEVICE_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    char name[64];
    snprintf(name, sizeof name, "round %d by %s", round, family);
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = family;
    s.dispatch = round % 4;
    plan_on(&plan, product, &s, NULL, &device, &message);
    return try_product(d, plan, &message, NULL, 16, make_both_unlike, are_near, 1, name);
}

int main(int count, char **words) {
    const int is_small = count > 1 && strcmp(words[1], "small") == 0, given = count - is_small;
    const int first = given > 1 ? atoi(words[1 + is_small]) : 0;
    const int rounds = given > 2 ? atoi(words[2 + is_small]) : is_small ? SMALL_ROUNDS : ROUNDS;
    const weft_cuda_driver *d;
    weft_cuda_device gpu;
    weft_message message = {""};
    void *context;
    int wrong = 0, pushed;
    if (weft_cuda_driver_get(&d, &message) || weft_cuda_device_get(d, 0, &gpu, &message) || gpu.capability < 80) {
        fprintf(stderr, "skipped: %s\n", message.text[0] ? message.text : "a GPU of compute capability 8.0 is needed");
        return SKIPPED;
    }
    if (d->primary_retain(&context, gpu.handle) || weft_cuda_enter(d, context, &pushed, &message)) {
        fprintf(stderr, "the GPU cannot be used: %s\n", message.text);
        return 1;
    }
    for (int round = first; round < first + rounds; round++) {
        seed = (uint64_t)round + 1;
        const weft_gemm p = random_gemm(round, is_small);
        wrong += gpu.capability == 90 && !one_product(d, &p, "hopper_gemm", round);
        wrong += !one_product(d, &p, "portable_gemm", round);
    }
    weft_cuda_leave(d, pushed);
    d->primary_release(gpu.handle);
    printf("%d products, %d wrong\n", rounds, wrong);
    return wrong != 0;
}
