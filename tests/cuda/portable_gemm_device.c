/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM on a GPU, through the public calls: random products, layouts and schedules against the reference in
 * fp64, over poison, and bit for bit the same when they are run again. What lies between the lines of A and B is NaN. Exits
 * 77 where there is no GPU for it.
 *
 *   portable_gemm_device [first round [rounds]]
 *   portable_gemm_device small [first round [rounds]]
 *
 * `small` runs one variant after the other on products of a few tiles, for the emulated GPU (emulate/emulate.h). */
#include "../plans.h"
#include "cuda/gemm/params.h"
#include "cuda/plan/backend.h"
#include "gemm_trial.h"

enum { ROUNDS = 240, SMALL_ROUNDS = 80, SKIPPED = 77, REPEATS = 2 };

static const weft_portable_gemm_variant variants[] = {
#define WEFT_PORTABLE_GEMM(...) WEFT_PORTABLE_GEMM_VARIANT(__VA_ARGS__),
#include "cuda/gemm/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Lines of A and B of which none begins at a multiple of 16 bytes, and in any layout: they are copied. */
static void misalign(weft_gemm *p) {
    p->a_major = (weft_major)between(0, 1);
    p->b_major = (weft_major)between(0, 1);
    p->k -= between(0, weft_smaller(7, p->k - 1));
    p->lda = to_8(p->a_major == WEFT_ROW_MAJOR ? p->k : p->m) + between(1, 7);
    p->ldb = to_8(p->b_major == WEFT_ROW_MAJOR ? p->n : p->k) + between(1, 7);
}

/* A product of a variant that is m x n as the kernel sees it; some are as short as can be along one axis. */
static weft_gemm product_of(const weft_portable_gemm_variant *v, int64_t m, int64_t n, int64_t k, int round) {
    weft_gemm p = WEFT_GEMM_INIT;
    const int swapped = (int)between(0, 1);
    p.c_dtype = round % 3 == 0 ? WEFT_FP32 : round % 3 == 1 ? WEFT_FP16 : WEFT_BF16;
    if (v->fused) {
        draw_epilogue(&seed, &p, round / 2 % (2 * EPILOGUES_ALONE), !swapped, !swapped);
        p.extras |= weft_gemm_is_fused(&p) ? 0 : WEFT_GEMM_BIAS;
        n = p.gated ? (n + 15) / 16 * 16 : n;
    }
    m = round % 13 == 7 ? 1 : m;
    n = round % 13 == 8 && !p.gated ? 1 : n;
    k = round % 13 == 9 ? 1 : k;
    int64_t *const a_length = v->a_mn ? &m : &k, *const b_length = v->b_mn ? &n : &k;
    *a_length = v->any ? *a_length + (*a_length % 8 == 0) : to_8(*a_length); /* lines that end anywhere, or as they begin */
    *b_length = v->any ? *b_length : to_8(*b_length);
    p.m = swapped ? n : m;
    p.n = swapped ? m : n;
    p.k = k;
    p.dtype = v->dtype;
    p.a_major = (swapped ? v->b_mn : v->a_mn) ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    p.b_major = (swapped ? v->a_mn : v->b_mn) ? WEFT_ROW_MAJOR : WEFT_COL_MAJOR;
    p.c_major = swapped ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    p.lda = to_8(p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + 8 * between(0, 2);
    p.ldb = to_8(p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + 8 * between(0, 2);
    p.ldc = swapped ? p.m : weft_gemm_columns(&p); /* any: C is stored by elements where it must be */
    p.ldc = round % 2 ? to_8(p.ldc) + 8 * between(0, 2) : p.ldc + between(0, 3);
    p.alpha = round % 4 == 0 ? -0.5 : 1;
    p.beta = between(0, 2) == 0 ? 1.5 : 0;
    if (v->dtype == WEFT_FP32) { /* operands that are not as the kernel reads them are copied */
        p.precision = WEFT_PRECISION_TF32;
        p.k -= between(0, weft_smaller(7, p.k - 1));
        p.lda += between(0, 1);
        p.ldb += between(0, 1);
    } else if (!v->any && !v->a_mn && !v->b_mn && round % 5 > 2) {
        misalign(&p);
    }
    const int64_t a_lines = p.a_major == WEFT_ROW_MAJOR ? p.m : p.k, b_lines = p.b_major == WEFT_ROW_MAJOR ? p.k : p.n;
    const int64_t a_size = p.lda * a_lines, b_size = p.ldb * b_lines;
    if (round % 6 == 0) {
        p.batch = 3;
        p.a_stride = to_8(a_size);
        p.b_stride = to_8(b_size);
        p.c_stride = p.ldc * (swapped ? p.n : p.m) + between(0, 8);
        p.residual_stride = p.extras & WEFT_GEMM_RESIDUAL ? p.c_stride + 5 : 0;
    }
    return p;
}

static weft_schedule schedule_of(const weft_portable_gemm_variant *v, const weft_gemm *p, int round) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    const int swapped = p->c_major == WEFT_COL_MAJOR;
    s.tile_m = swapped ? v->tile_n : v->tile_m;
    s.tile_n = swapped ? v->tile_m : v->tile_n;
    s.order = (int32_t)between(WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
    s.order = round % 5 == 2 ? WEFT_ORDER_CUSTOM : s.order;
    s.dispatch = 1 + round % WEFT_DISPATCHES;
    s.sweep = (int32_t)between(WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
    s.table = s.order == WEFT_ORDER_CUSTOM ? 0 : (int32_t)between(0, 1);
    s.group = between(0, 4);
    s.axis = (weft_axis)between(WEFT_AXIS_N, WEFT_AXIS_M);
    return s;
}

/* What lies behind the lines of A or B becomes NaN. */
static void poison(const weft_cuda_driver *d, matrix *m, weft_major major, int64_t batch, int64_t stride, int64_t ld,
                   int64_t rows, int64_t cols) {
    const int64_t lines = major == WEFT_ROW_MAJOR ? rows : cols, length = major == WEFT_ROW_MAJOR ? cols : rows;
    for (int64_t i = 0; i < batch; i++) {
        for (int64_t line = 0; line < lines; line++) {
            const int64_t first = i * stride + line * ld;
            const int64_t end = line + 1 < lines ? first + ld : larger((i + 1) * stride, first + length);
            for (int64_t at = first + length; at < end && at < (int64_t)m->count; at++) {
                weft_ref_store(m->dtype, m->host, (size_t)at, NAN);
            }
        }
    }
    d->copy_in(m->there, m->host, m->bytes);
}

/* How many products had what. */
static struct {
    int orders[WEFT_ORDER_KINDS], sweeps[WEFT_SWEEP_SAWTOOTH], dispatches[WEFT_DISPATCHES], dtypes[WEFT_BF16 + 1];
    int in_fours, in_twos, narrow, batched, with_old, swapped;
} features;

static void count_features(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_gemm *p = &plan->gemm;
    const int64_t lines = p->lda | p->ldb;
    features.orders[s->order - 1]++;
    features.sweeps[s->sweep - 1]++;
    features.dispatches[s->dispatch - 1]++;
    features.dtypes[p->c_dtype]++;
    features.in_fours += lines % 8 != 0 && lines % 2 == 0;
    features.in_twos += lines % 2 != 0;
    features.narrow += p->ldc % 8 != 0;
    features.batched += p->batch > 1;
    features.with_old += p->beta != 0;
    features.swapped += p->c_major == WEFT_COL_MAJOR;
}

/* Whether every feature was there, but for orders that are not of matrix products. */
static int has_all_features(void) {
    const int *all = (const int *)&features;
    int missing = 0;
    for (size_t i = 0; i < sizeof features / sizeof *all; i++) {
        const int is_order = i < WEFT_ORDER_KINDS;
        const weft_grid_kind grid = is_order ? weft_order_grid((int32_t)i + 1) : WEFT_GRID_ANY;
        if (all[i] == 0 && (!is_order || grid == WEFT_GRID_ANY)) {
            fprintf(stderr, "no product had feature %zu\n", i);
            missing++;
        }
    }
    return missing == 0;
}

static void poison_both(const weft_cuda_driver *d, const weft_gemm *p, matrix *a, matrix *b) {
    poison(d, a, p->a_major, p->batch, p->a_stride, p->lda, p->m, p->k);
    poison(d, b, p->b_major, p->batch, p->b_stride, p->ldb, p->k, p->n);
}

/* Plans a product, which has to be for the kernel `symbol` if it is not null; runs it, and so many times more. */
static int one_product(const weft_cuda_driver *d, const weft_gemm *product, const weft_schedule *s, const char *symbol,
                       int repeats, const char *name) {
    weft_device device = WEFT_DEVICE_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "portable_gemm";
    plan_on(&plan, product, s, NULL, &device, &message);
    if (plan) {
        count_features(plan);
    }
    return try_product(d, plan, &message, symbol, 1, poison_both, NULL, repeats, name);
}

/* A product of hundreds of tiles at most; every seventh is left to the library. */
static int one_round(const weft_cuda_driver *d, int round) {
    char name[32];
    snprintf(name, sizeof name, "round %d", round);
    seed = (uint64_t)round + 1;
    const weft_portable_gemm_variant *v = &variants[round % VARIANTS];
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const int64_t m = between(1, round % 4 == 3 ? 70 : 2500), n = between(1, round % 8 == 2 ? 70 : 2500);
    const weft_gemm p = product_of(v, m, n, between(1, round % 9 == 0 ? 100 : 1200), round);
    const weft_schedule s = round % 7 == 0 ? open : schedule_of(v, &p, round);
    return one_product(d, &p, &s, round % 7 == 0 ? NULL : v->symbol, REPEATS, name);
}

/* A product of a few tiles for a few workers; some have fewer steps than the ring has stages. The emulated GPU captures
 * some, which are then static. */
static int one_small(const weft_cuda_driver *d, int round) {
    const weft_portable_gemm_variant *v = &variants[round % VARIANTS];
    char name[80];
    snprintf(name, sizeof name, "small round %d, %s", round, v->symbol);
    seed = (uint64_t)round + 1;
    const int64_t rows = between(1, 2), cols = between(1, 3), steps = between(1, round % 3 == 0 ? 2 : 7);
    const int64_t m = rows * v->tile_m - between(0, round % 4 == 0 ? v->tile_m - 1 : 40);
    const int64_t n = cols * v->tile_n - between(0, round % 4 == 1 ? v->tile_n - 1 : 40);
    const weft_gemm p = product_of(v, m, n, steps * v->step - between(0, v->step - 1), round);
    weft_schedule s = schedule_of(v, &p, round);
    s.workers = between(1, 3);
    if (round % 2 == 0) {
        setenv("FAKE_CUDA", "capture=1", 1);
    }
    const int ok = one_product(d, &p, &s, v->symbol, s.dispatch == WEFT_DISPATCH_DYNAMIC, name);
    unsetenv("FAKE_CUDA");
    return ok;
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
        wrong += is_small ? !one_small(d, round) : !one_round(d, round);
    }
    wrong += rounds >= SMALL_ROUNDS && !has_all_features();
    weft_cuda_leave(d, pushed);
    d->primary_release(gpu.handle);
    printf("%d products, %d wrong\n", rounds, wrong);
    return wrong != 0;
}
