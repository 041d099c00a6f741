/* The Hopper GEMM on a GPU, through the public calls: random products, layouts and schedules against the reference in fp64,
 * over poison, and bit for bit the same when they are run again. Exits 77 where there is no such GPU.
 *
 *   hopper_gemm_device [first round [rounds]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/plan/backend.h"
#include "problem/problem.h"
#include "base/random.h"
#include "../plans.h"
#include "ref/ref.h"

enum { ROUNDS = 160, SKIPPED = 77, SAMPLES = 4000, REPEATS = 3 };
enum { LONG = ROUNDS - 1 }; /* the round whose workers wait for each other */
enum { PATTERN = 8 << 20 }; /* random numbers that are repeated in large matrices */

static uint64_t seed;

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(weft_random_real(&seed) * (double)(high - low + 1));
}

static int64_t to_8(int64_t value) {
    return (value + 7) / 8 * 8;
}

/* Two workers, four waves of 2,048 steps, and panels of 80 MiB. */
static weft_gemm long_gemm(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = 256;
    p.k = 131072;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    return p;
}

static weft_schedule long_schedule(void) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = 128;
    s.tile_n = 64;
    s.order = WEFT_ORDER_SERPENTINE;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    s.group = s.cluster_m = s.cluster_n = 1;
    s.workers = 2;
    return s;
}

static weft_gemm random_gemm(int round) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = between(1, round % 4 == 3 ? 70 : 1500); /* some have few rows, some few columns */
    p.n = between(1, round % 8 == 2 ? 70 : 1500);
    p.m = round % 10 == 4 ? 1024 - p.m % 24 : p.m; /* some can have rows by classes without more tiles */
    p.k = between(1, 1200);                        /* any: only lines begin at multiples of 8 */
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
    p.c_dtype = round % 3 == 0 ? WEFT_FP32 : round % 3 == 1 ? p.dtype : WEFT_BF16;
    p.a_major = (weft_major)between(0, 1);
    p.b_major = (weft_major)between(0, 1);
    p.c_major = (weft_major)between(0, 1);
    p.lda = to_8(p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + 8 * between(0, 2);
    p.ldb = to_8(p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + 8 * between(0, 2);
    p.ldc = to_8(p.c_major == WEFT_ROW_MAJOR ? p.n : p.m) + 8 * between(0, 2);
    p.alpha = round % 4 == 0 ? -0.5 : 1;
    p.beta = round % 5 == 0 ? 1.5 : 0;
    if (round % 6 == 0) { /* whole lines, so that the next matrix is aligned too */
        p.batch = 3;
        p.a_stride = p.lda * (p.a_major == WEFT_ROW_MAJOR ? p.m : p.k);
        p.b_stride = p.ldb * (p.b_major == WEFT_ROW_MAJOR ? p.k : p.n);
        p.c_stride = p.ldc * (p.c_major == WEFT_ROW_MAJOR ? p.m : p.n) + 8;
    }
    return p;
}

static weft_schedule random_schedule(const weft_gemm *p, int round) {
    static const int64_t tiles[][3] = {{128, 256, 4}, {256, 128, 1}, {128, 128, 2}, {128, 64, 1},
                                       {256, 192, 1}, {128, 192, 1}, {64, 128, 1}};
    static const int64_t clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {2, 4}, {4, 2}};
    weft_schedule s = WEFT_SCHEDULE_INIT;
    const int swapped = p->c_major == WEFT_COL_MAJOR;
    const int64_t *tile = tiles[between(0, 6)], *cluster = clusters[between(0, 7)];
    if (round % 7 == 0) { /* left to the library */
        return s;
    }
    s.tile_m = tile[swapped];
    s.tile_n = tile[!swapped];
    s.order = (int32_t)between(WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
    s.dispatch = (int32_t)between(0, WEFT_DISPATCHES - 1);
    if (tile[0] * tile[1] > 32768 && s.order == WEFT_ORDER_SERPENTINE_SWIZZLED && s.dispatch == WEFT_DISPATCH_DYNAMIC) {
        s.dispatch = WEFT_DISPATCH_STATIC; /* the other is refused */
    }
    s.sweep = (int32_t)between(WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
    s.table = (int32_t)between(0, 1);
    s.group = between(0, 4);
    s.axis = (weft_axis)between(0, 1);
    s.cluster_m = cluster[0];
    s.cluster_n = cluster[1];
    if (round % 3 == 0 && tile[2] > 1 && (p->k + 63) / 64 >= tile[2] && cluster[0] * cluster[1] * tile[2] <= 8) {
        s.split = tile[2];
        s.dispatch = WEFT_DISPATCH_GRID;
    }
    return s;
}

/* A matrix on the host and on the GPU. */
typedef struct matrix {
    void *host;
    uint64_t there;
    size_t count, bytes;
    weft_dtype dtype;
} matrix;

static int make(const weft_cuda_driver *d, matrix *m, weft_dtype dtype, size_t count) {
    *m = (matrix){malloc(count * weft_dtype_bytes(dtype) + 4), 0, count, count * weft_dtype_bytes(dtype), dtype};
    const size_t bytes = weft_dtype_bytes(dtype);
    for (size_t i = 0; m->host && i < count && i < PATTERN; i++) {
        const double u = weft_random_real(&seed), v = weft_random_real(&seed);
        weft_ref_store(dtype, m->host, i, sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
    for (size_t i = PATTERN; m->host && i < count; i += PATTERN) {
        memcpy((char *)m->host + i * bytes, m->host, (count - i < PATTERN ? count - i : PATTERN) * bytes);
    }
    return m->host && d->memory_new(&m->there, m->bytes + 4) == 0 && d->copy_in(m->there, m->host, m->bytes) == 0;
}

static void release(const weft_cuda_driver *d, matrix *m) {
    free(m->host);
    if (m->there) {
        d->memory_free(m->there);
    }
}

static double towards_zero(double value) {
    const float rounded = (float)value;
    return fabs((double)rounded) > fabs(value) ? (double)nextafterf(rounded, 0) : (double)rounded;
}

/* An element of A B as this chip adds: sixteen products at once, all cut off two bits below the last one of the largest,
 * and their sum cut off to fp32, not rounded. */
static double sum_of_the_chip(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k += 16) {
        double terms[17] = {sum}, largest = fabs(sum);
        int exponent;
        for (int64_t i = 0; i < 16 && k + i < p->k; i++) {
            terms[1 + i] = weft_ref_load(p->dtype, data->a, weft_matrix_index(p->a_major, p->lda, row, k + i)) *
                           weft_ref_load(p->dtype, data->b, weft_matrix_index(p->b_major, p->ldb, k + i, col));
            largest = fmax(largest, fabs(terms[1 + i]));
        }
        (void)frexp(largest, &exponent);
        const double last = ldexp(1, exponent - 25);
        sum = 0;
        for (int i = 0; i < 17; i++) {
            sum += trunc(terms[i] / last) * last;
        }
        sum = towards_zero(sum);
    }
    return sum;
}

/* Whether the result is as near to the reference as a plain sum in fp32 is, rounded or as the chip adds, twice over, and
 * one rounding. */
static int right(const weft_gemm *p, const matrix *a, const matrix *b, const matrix *c, const void *got) {
    const int64_t count = p->batch * p->m * p->n, samples = p->k > 4096 ? SAMPLES / 32 : SAMPLES,
                  stride = count / samples + 1;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const double unit = p->c_dtype == WEFT_BF16 ? 0x1p-8 : p->c_dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-22;
    double error = 0, naive = 0, cut = 0, largest = 0;
    int finite = 1;
    for (int64_t i = 0; i < count; i += stride) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        const weft_gemm_data one = {sizeof(weft_gemm_data), WEFT_GEMM, (const char *)a->host + batch * p->a_stride * bytes,
                                    (const char *)b->host + batch * p->b_stride * bytes,
                                    (char *)c->host + batch * p->c_stride * c_bytes};
        const double exact = weft_ref_gemm_element(p, &one, row, col);
        const double value =
            weft_ref_load(p->c_dtype, got, (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col));
        finite &= isfinite(value) != 0;
        error = fmax(error, fabs(value - exact));
        const double old =
            p->beta == 0 ? 0 : weft_ref_load(p->c_dtype, one.c, weft_matrix_index(p->c_major, p->ldc, row, col));
        naive = fmax(naive, fabs(weft_ref_gemm_element_naive(p, &one, row, col) - exact));
        cut = fmax(cut, fabs(p->alpha * sum_of_the_chip(p, &one, row, col) + p->beta * old - exact));
        largest = fmax(largest, fabs(exact));
    }
    const int ok = finite && error <= 2 * fmax(naive, cut) + unit * largest;
    if (!ok) {
        fprintf(stderr, "error %g, of a plain sum %g, as the chip adds %g, largest element %g%s\n", error, naive, cut,
                largest, finite ? "" : ", not finite");
    }
    return ok;
}

/* Runs it over poison, or over the old C where that is read; the result comes to `got`. */
static int run(const weft_cuda_driver *d, const weft_plan *plan, const matrix *a, const matrix *b, const matrix *c,
               void *got, weft_message *message) {
    const weft_gemm_data data = {sizeof(weft_gemm_data), WEFT_GEMM, (void *)(uintptr_t)a->there, (void *)(uintptr_t)b->there, (void *)(uintptr_t)c->there};
    const int prepared = plan->gemm.beta != 0 ? d->copy_in(c->there, c->host, c->bytes)
                                              : d->set_words(c->there, UINT32_MAX, (c->bytes + 3) / 4, NULL);
    return prepared == 0 && weft_plan_run(plan, &data, message) == WEFT_OK &&
           d->copy_out(got, c->there, c->bytes) == 0;
}

static int one_round(const weft_cuda_driver *d, const weft_device *device, int round) {
    seed = (uint64_t)round + 1;
    weft_gemm p = round == LONG ? long_gemm() : random_gemm(round);
    const weft_schedule s = round == LONG ? long_schedule() : random_schedule(&p, round);
    const weft_gemm_extents sizes = gemm_sizes(&p);
    matrix a = {0}, b = {0}, c = {0};
    weft_plan *plan = NULL;
    weft_message message = {""};
    char text[1024] = "";
    int ok = plan_on(&plan, &p, &s, NULL, device, &message) == WEFT_OK;
    ok = ok && (round != LONG || ((const weft_cuda_plan *)plan->placed)->tickets); /* whose second number they count in */
    ok = ok && make(d, &a, p.dtype, sizes.a) && make(d, &b, p.dtype, sizes.b) && make(d, &c, p.c_dtype, sizes.c);
    void *got = ok ? malloc(c.bytes) : NULL, *again = ok ? malloc(c.bytes) : NULL;
    if (ok && got && again) {
        p = plan->gemm; /* resolved */
        ok = run(d, plan, &a, &b, &c, got, &message) && right(&p, &a, &b, &c, got);
        for (int i = 0; i < REPEATS && ok; i++) {
            ok = run(d, plan, &a, &b, &c, again, &message) && memcmp(got, again, c.bytes) == 0;
        }
    }
    if (!ok) {
        if (plan) {
            weft_plan_text(plan, text, sizeof text);
        }
        fprintf(stderr, "round %d is wrong: %s\n%s", round, message.text, text);
    }
    weft_plan_destroy(plan);
    release(d, &a);
    release(d, &b);
    release(d, &c);
    free(got);
    free(again);
    return ok;
}

int main(int count, char **words) {
    const int first = count > 1 ? atoi(words[1]) : 0, rounds = count > 2 ? atoi(words[2]) : ROUNDS;
    const weft_cuda_driver *d;
    weft_cuda_device gpu;
    weft_message message = {""};
    weft_device device = WEFT_DEVICE_INIT;
    void *context;
    int wrong = 0, pushed;
    device.kind = WEFT_DEVICE_CUDA;
    if (weft_cuda_driver_get(&d, &message) || weft_cuda_device_get(d, 0, &gpu, &message) || gpu.capability != 90) {
        fprintf(stderr, "skipped: %s\n", message.text[0] ? message.text : "not a Hopper GPU");
        return SKIPPED;
    }
    if (d->primary_retain(&context, gpu.handle) || weft_cuda_enter(d, context, &pushed, &message)) {
        fprintf(stderr, "the GPU cannot be used: %s\n", message.text);
        return 1;
    }
    for (int round = first; round < first + rounds; round++) {
        wrong += !one_round(d, &device, round);
    }
    weft_cuda_leave(d, pushed);
    d->primary_release(gpu.handle);
    printf("%d products, %d wrong\n", rounds, wrong);
    return wrong != 0;
}
