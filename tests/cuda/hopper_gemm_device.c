/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM on a GPU, through the public calls: random products, layouts and schedules against the reference in fp64,
 * over poison, and bit for bit the same when they are run again. Exits 77 where there is no such GPU.
 *
 *   hopper_gemm_device [first round [rounds]]
 *   hopper_gemm_device small [first variant [variants]]
 *   hopper_gemm_device split
 *   hopper_gemm_device fused [first round [rounds]]
 *
 * `small` runs every variant on a small product, for the emulated GPU (emulate/emulate.h); `split` runs only the products
 * whose steps are shared out, and `fused` only those with an epilogue, which are among the others, too. */
#include "../plans.h"
#include "cuda/gemm/view.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/params.h"
#include "gemm_trial.h"

enum { ROUNDS = 160, SKIPPED = 77, REPEATS = 3 };
enum { LONG = ROUNDS - 1 }; /* the round whose workers wait for each other */

static const weft_gemm_variant variants[] = {
#define WEFT_GEMM(...) WEFT_GEMM_VARIANT(__VA_ARGS__),
#include "cuda/sm90/gemm/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Clusters, along m and n. */
static const int64_t clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {2, 4}, {4, 2}};
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

/* Two workers wait for each other: four waves of 2,048 steps, and panels of 80 MiB; or of 512, whose panels the L2 of the
 * emulated GPU does not hold, either. */
static weft_gemm long_gemm(int is_small) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = is_small ? 512 : 256;
    p.n = 256;
    p.k = is_small ? 32768 : 131072;
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
    p.m = round % 10 == 4 ? 1024 - p.m % 24 : p.m; /* some can have rows by phases without more tiles */
    p.k = between(1, 1200);                        /* any: only lines of C begin at multiples of 8 */
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
    p.c_dtype = round % 3 == 0 ? WEFT_FP32 : round % 3 == 1 ? p.dtype : WEFT_BF16;
    p.a_major = (weft_major)between(0, 1);
    p.b_major = (weft_major)between(0, 1);
    p.c_major = (weft_major)between(0, 1);
    p.lda = to_8(p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + 8 * between(0, 2);
    p.ldb = to_8(p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + 8 * between(0, 2);
    p.ldc = to_8(p.c_major == WEFT_ROW_MAJOR ? p.n : p.m) + 8 * between(0, 2);
    if (round % 11 == 5) {
        p.dtype = WEFT_FP32;
        p.precision = round / 11 % 3;
    }
    if (round % 11 == 5 || round % 7 == 3) { /* lines of A and B may begin anywhere */
        p.lda += between(0, 1) * between(0, 9);
        p.ldb += between(0, 1) * between(0, 9);
    }
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

/* Every fifth order is the caller's own, by side of the L2 where the kernel has that. */
static void make_custom(weft_schedule *s, int64_t tile, int number) {
    if (number % 5 == 2) {
        s->order = WEFT_ORDER_CUSTOM;
        s->domains = tile > 32768 ? 1 : 2;
    }
}

/* Parts of fp32 are added in one order. */
static int32_t random_sweep(const weft_gemm *p) {
    const int32_t sweep = (int32_t)between(WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
    return p->dtype == WEFT_FP32 && p->precision != WEFT_PRECISION_TF32 ? WEFT_SWEEP_FORWARD : sweep;
}

/* CTAs that share out the steps of a tile, so many as steps and cluster allow; 1: none do. */
static int64_t random_split(int64_t tile_m, int64_t k, const int64_t cluster[2]) {
    const int64_t split = between(2, WEFT_GEMM_MAX_CLUSTER);
    const int64_t most = weft_smaller((k + 63) / 64, WEFT_GEMM_MAX_CLUSTER / (cluster[0] * cluster[1]));
    return WEFT_GEMM_SPLITS(tile_m) ? weft_smaller(split, most) : 1;
}

/* A tile that there is for a product, as the kernel sees it: a variant's of any width and form, or one that all layouts
 * have. */
static const int64_t *random_tile(const weft_gemm *p, int *swapped) {
    static const int64_t tiles[][2] = {{128, 256}, {256, 128}, {128, 128}, {128, 64}, {256, 192}, {128, 192}, {64, 128}};
    static int64_t drawn[2];
    const weft_gemm_variant *v = &variants[between(0, VARIANTS - 1)];
    const weft_gemm_view view = v->transposed ? weft_gemm_view_transposed(p) : weft_gemm_view_of(p);
    const int any = v->dtype == p->dtype && v->a_mn == view.a_mn && v->b_mn == view.b_mn && p->beta == 0 &&
                    (v->transposed ? p->c_dtype != WEFT_FP32 && v->tile_n != 64 : !WEFT_GEMM_WHOLE_PIECES(v->tile_n));
    drawn[0] = v->tile_m;
    drawn[1] = v->tile_n;
    *swapped = any ? view.swapped : p->c_major == WEFT_COL_MAJOR;
    return any ? drawn : tiles[between(0, 6)];
}

static weft_schedule random_schedule(const weft_gemm *p, int round) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    int swapped;
    const int64_t *tile = random_tile(p, &swapped), *cluster = clusters[between(0, CLUSTERS - 1)];
    if (round % 7 == 0) { /* left to the library */
        return s;
    }
    s.tile_m = tile[swapped];
    s.tile_n = tile[!swapped];
    s.order = (int32_t)between(WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
    s.dispatch = (int32_t)between(1, WEFT_DISPATCHES);
    if (tile[0] * tile[1] > 32768 && s.order == WEFT_ORDER_SERPENTINE_SWIZZLED && s.dispatch == WEFT_DISPATCH_DYNAMIC) {
        s.dispatch = WEFT_DISPATCH_STATIC; /* the other is refused */
    }
    s.sweep = random_sweep(p);
    s.table = (int32_t)between(0, 1);
    s.group = between(0, 4);
    s.axis = (weft_axis)between(WEFT_AXIS_N, WEFT_AXIS_M);
    s.cluster_m = cluster[0];
    s.cluster_n = cluster[1];
    const int64_t split = random_split(tile[0], p->k, cluster);
    if (round % 3 == 0 && split > 1) {
        s.split = split;
        s.dispatch = WEFT_DISPATCH_GRID;
    }
    make_custom(&s, tile[0] * tile[1], round);
    return s;
}

/* How many products had what. */
static struct {
    int clusters[CLUSTERS], dispatches[WEFT_DISPATCHES], dtypes[WEFT_BF16 + 1];
    int splits[WEFT_GEMM_MAX_CLUSTER - 1], by_phase, transposed, by_side, custom, paced, batched, with_old, swapped, tf32,
        copied;
} features;

static void count_features(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_schedule *s = &plan->schedule;
    for (int i = 0; i < CLUSTERS; i++) {
        features.clusters[i] += s->cluster_m == clusters[i][0] && s->cluster_n == clusters[i][1];
    }
    features.dispatches[s->dispatch - 1]++;
    features.dtypes[plan->gemm.c_dtype]++;
    if (s->split > 1) {
        features.splits[s->split - 2]++;
    }
    features.by_phase += strstr(c->main->choice.kernel, "_by_phase") != NULL;
    features.transposed += strstr(c->main->choice.kernel, "_transposed") != NULL;
    features.by_side += c->side_of_sm != 0;
    features.custom += s->order == WEFT_ORDER_CUSTOM && s->cluster_m * s->cluster_n > 1;
    features.paced += c->paces;
    features.batched += plan->gemm.batch > 1;
    features.with_old += plan->gemm.beta != 0;
    features.swapped += plan->gemm.c_major == WEFT_COL_MAJOR;
    features.tf32 += strstr(c->main->choice.kernel, "_tf32_") != NULL;
    features.copied += c->main != c->passes; /* operands */
}

static int has_all_features(void) {
    const int *all = (const int *)&features;
    for (size_t i = 0; i < sizeof features / sizeof *all; i++) {
        if (all[i] == 0) {
            fprintf(stderr, "no product had feature %zu\n", i);
            return 0;
        }
    }
    return 1;
}

/* Plans a product, which has to be for the kernel `symbol` if it is not null; runs it, and so many times more. */
static int one_product(const weft_cuda_driver *d, const weft_gemm *product, const weft_schedule *s, const char *symbol,
                       int repeats, const char *name) {
    weft_device device = WEFT_DEVICE_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "hopper_gemm";
    weft_schedule narrower = *s;
    narrower.cluster_n = 1;
    if (plan_on(&plan, product, s, NULL, &device, &message) && s->cluster_m > 1 && s->cluster_n > 1) {
        plan_on(&plan, product, &narrower, NULL, &device, &message); /* refused where a CTA has nothing to send */
    }
    if (plan) {
        count_features(plan);
    }
    return try_product(d, plan, &message, symbol, 16, NULL, NULL, repeats, name);
}

static int one_round(const weft_cuda_driver *d, int round) {
    char name[32];
    snprintf(name, sizeof name, "round %d", round);
    seed = (uint64_t)round + 1;
    const weft_gemm p = round == LONG ? long_gemm(0) : random_gemm(round);
    const weft_schedule s = round == LONG ? long_schedule() : random_schedule(&p, round);
    const int paced = features.paced, ok = one_product(d, &p, &s, NULL, REPEATS, name);
    return ok && (round != LONG || features.paced > paced);
}

/* Adds an epilogue that a variant has to a row-major product. */
static void fuse(weft_gemm *p, const weft_gemm_variant *v, int number) {
    draw_epilogue(&seed, p, number, WEFT_GEMM_HAS_GATES(v->tile_n), 1);
    if (!weft_gemm_is_fused(p)) {
        p->extras = WEFT_GEMM_BIAS;
    }
    p->n = p->gated && v->b_mn ? (p->n + 15) / 16 * 16 : (p->n + 3) / 4 * 4; /* halves of an even number of columns */
    p->beta = p->extras & WEFT_GEMM_RESIDUAL ? 0 : p->beta;
    p->ldb = p->b_major == WEFT_ROW_MAJOR ? to_8(p->n) + 8 * between(0, 2) : p->ldb;
    p->ldc = to_8(weft_gemm_columns(p)) + 8 * between(0, 2);
    p->ld_residual = p->extras & WEFT_GEMM_RESIDUAL ? p->ldc + 8 * between(0, 1) : 0;
    p->residual_stride = p->ld_residual * p->m;
}

/* Makes a product of fp32 of one of elements of 16 bits, of which two are one of TF32. A and B are read where they lie, or,
 * of every other variant that has no phases, lie in any way and are copied. */
static void make_tf32(weft_gemm *p, int by_phase, int number) {
    const int is_copied = !by_phase && number % 2;
    p->dtype = WEFT_FP32;
    p->precision = WEFT_PRECISION_TF32;
    p->k = (p->k + 1) / 2;
    if (is_copied) {
        p->a_major = (weft_major)between(0, 1);
        p->b_major = (weft_major)between(0, 1);
        p->lda = (p->a_major == WEFT_ROW_MAJOR ? p->k : p->m) + between(0, 5);
        p->ldb = (p->b_major == WEFT_ROW_MAJOR ? p->n : p->k) + between(0, 5);
        return;
    }
    p->k = (p->k + 3) / 4 * 4;
    p->lda = p->ldb = by_phase ? to_8(p->k) + 4 : (p->k + 31) / 32 * 32;
}

/* A variant that is taken for split tiles only: see variants.def. */
static int is_twin(const weft_gemm_variant *v) {
    return v->transposed && v->tile_n == 64;
}

/* A small product for a variant, of so many clusters along m and n or less, as the kernel sees it. Variants with classes
 * want lines of A that begin anywhere, two rows of tiles or more, and k to spare; others must not get them. */
static weft_gemm small_gemm(const weft_gemm_variant *v, int number, int epilogue, const int64_t cluster[2]) {
    weft_gemm p = WEFT_GEMM_INIT;
    const int64_t tall = v->tile_m * cluster[0], wide = v->tile_n * cluster[1], area = tall * wide;
    const int64_t rows = area > 131072 ? 1 : between(1, 2), cols = area > 131072 ? 1 : between(1, 2);
    const int swapped = number / 2 % 2 && !v->fused;
    const int64_t m = v->by_phase ? v->tile_m * (number % 3 == 0 && v->tile_m == 128 ? 8
                                                 : number % 2                        ? 4
                                                                                     : 2) -
                                        between(0, 90)
                                  : rows * tall - between(0, number % 3 == 0 ? tall - 1 : 40);
    const int64_t n = v->by_phase ? between(1, 2 * v->tile_n) : cols * wide - between(0, number % 4 == 0 ? wide - 1 : 40);
    p.k = v->by_phase ? 64 * between(1, 5) + between(1, 40) : between(1, 7 * 64);
    p.k = is_twin(v) && p.k <= 64 ? 100 : p.k;
    p.m = swapped ? n : m;
    p.n = swapped ? m : n;
    p.dtype = v->dtype;
    p.c_dtype = number % 3 == 0 && !v->transposed ? WEFT_FP32 : number % 3 == 1 ? p.dtype : WEFT_BF16;
    const int a_mn = swapped ? v->b_mn : v->a_mn, b_mn = swapped ? v->a_mn : v->b_mn;
    p.a_major = a_mn ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    p.b_major = b_mn ? WEFT_ROW_MAJOR : WEFT_COL_MAJOR;
    p.c_major = swapped != v->transposed ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    const int64_t step = v->by_phase ? 16 : 64; /* what lines are apart in multiples of, but for 8 elements more */
    p.lda = ((p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + step - 1) / step * step + (v->by_phase ? 8 : 0);
    p.ldb = ((p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + step - 1) / step * step + (v->by_phase ? 8 : 0);
    p.ldc = to_8(p.c_major == WEFT_COL_MAJOR ? p.m : p.n) + 8 * between(0, 2);
    p.alpha = number % 4 == 0 ? -0.5 : 1;
    p.beta = number % 5 < 2 && WEFT_GEMM_WHOLE_PIECES(v->tile_n) && !v->transposed ? 1.5 : 0;
    if (v->fused) {
        fuse(&p, v, epilogue);
    }
    if (v->dtype == WEFT_FP32) {
        make_tf32(&p, v->by_phase, number);
    }
    if (number % 6 == 0 && !v->by_phase) {
        p.batch = 2;
        p.a_stride = p.lda * (p.a_major == WEFT_ROW_MAJOR ? p.m : p.k);
        p.b_stride = p.ldb * (p.b_major == WEFT_ROW_MAJOR ? p.k : p.n);
        p.c_stride = p.ldc * (p.c_major == WEFT_COL_MAJOR ? p.n : p.m) + 8;
    }
    return p;
}

static weft_schedule small_schedule(const weft_gemm_variant *v, const weft_gemm *p, int number, const int64_t cluster[2]) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    const int swapped = (p->c_major == WEFT_COL_MAJOR) != v->transposed;
    const int64_t ctas = cluster[0] * cluster[1];
    s.tile_m = swapped ? v->tile_n : v->tile_m;
    s.tile_n = swapped ? v->tile_m : v->tile_n;
    s.cluster_m = cluster[swapped];
    s.cluster_n = cluster[!swapped];
    s.order = (int32_t)between(WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
    s.order = number % 4 == 1 ? WEFT_ORDER_SERPENTINE_SWIZZLED : s.order;
    s.dispatch = 1 + number % WEFT_DISPATCHES;
    if (WEFT_GEMM_LEAN(v->tile_m, v->tile_n) && s.order == WEFT_ORDER_SERPENTINE_SWIZZLED &&
        s.dispatch == WEFT_DISPATCH_DYNAMIC) {
        s.dispatch = WEFT_DISPATCH_STATIC; /* the other is refused */
    }
    s.sweep = (int32_t)between(WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
    s.table = number % 4 == 1 ? 0 : (int32_t)between(0, 1);
    s.group = between(0, 3);
    s.axis = (weft_axis)between(WEFT_AXIS_N, WEFT_AXIS_M);
    s.split = 1;
    s.workers = ctas * between(1, 3);
    const int64_t split = p->gated ? 1 : random_split(v->tile_m, p->k, cluster);
    if ((number % 3 != 0 || is_twin(v)) && split > 1) {
        s.split = split;
        s.dispatch = WEFT_DISPATCH_GRID;
        s.workers = 0;
    }
    make_custom(&s, v->tile_m * v->tile_n, number);
    return s;
}

static int one_variant(const weft_cuda_driver *d, int number) {
    const weft_gemm_variant *v = &variants[number];
    seed = (uint64_t)number + 1;
    const int64_t *cluster = clusters[is_twin(v) ? 0 : between(0, CLUSTERS - 1)];
    const weft_gemm p = small_gemm(v, number, EPILOGUES_ALONE + number, cluster);
    const weft_schedule s = small_schedule(v, &p, number, cluster);
    return one_product(d, &p, &s, v->symbol, s.dispatch == WEFT_DISPATCH_DYNAMIC, v->symbol);
}

/* A product with an epilogue for one variant after the other: every epilogue alone, then combinations. */
enum { FUSED_ROUNDS = 4 * EPILOGUES_ALONE };

static int one_fused(const weft_cuda_driver *d, int round) {
    char name[64];
    int number = 0, skipped = round;
    while (!variants[number].fused || skipped-- > 0) {
        number = (number + 1) % VARIANTS;
    }
    const weft_gemm_variant *v = &variants[number];
    seed = (uint64_t)round + 1;
    const int64_t *cluster = clusters[between(0, CLUSTERS - 1)];
    const weft_gemm p = small_gemm(v, number + round, round, cluster);
    const weft_schedule s = small_schedule(v, &p, number + round, cluster);
    snprintf(name, sizeof name, "fused round %d, %s", round, v->symbol);
    return one_product(d, &p, &s, v->symbol, 1, name);
}

static int all_fused(const weft_cuda_driver *d, int first, int rounds) {
    int wrong = 0;
    for (int round = first; round < first + rounds; round++) {
        wrong += !one_fused(d, round);
    }
    return wrong;
}

/* A cluster that takes more tiles than its CTAs have slots for; under static dispatch its first tile needs none. */
static int many_tiles(const weft_cuda_driver *d, int32_t dispatch) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    p.m = 1500;
    p.n = 104;
    p.k = 72;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    s.tile_m = 64;
    s.tile_n = 128;
    s.order = WEFT_ORDER_RASTER_M;
    s.dispatch = dispatch;
    s.cluster_m = s.workers = 2;
    s.cluster_n = 1;
    return one_product(d, &p, &s, "gemm_bf16_kk_64x128__sm90a", 0, "a cluster of many tiles");
}

/* The last two of five tiles have columns in common, which either may store last: a sawtooth sweep, which goes backward in
 * every other tile, has the bits of a forward one there, and others in the second tile. */
static int ends_go_forward(const weft_cuda_driver *d) {
    enum { TILE = 64, N = 4 * TILE + 40 };
    weft_device device = WEFT_DEVICE_INIT;
    weft_gemm p = WEFT_GEMM_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    matrix a, b, c;
    float got[2][128 * N];
    const extras none = {0};
    seed = 5;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "hopper_gemm";
    p.m = 128;
    p.n = p.ldc = N;
    p.k = p.lda = p.ldb = 1024;
    p.dtype = WEFT_BF16;
    p.c_dtype = WEFT_FP32;
    p.b_major = WEFT_COL_MAJOR;
    s.tile_m = 128;
    s.tile_n = TILE;
    s.order = WEFT_ORDER_RASTER_N;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.workers = s.cluster_m = s.cluster_n = 1;
    int ok = make(d, &a, WEFT_BF16, 128 * 1024) && make(d, &b, WEFT_BF16, N * 1024) && make(d, &c, WEFT_FP32, 128 * N);
    for (int i = 0; i < 2 && ok; i++) {
        weft_plan *plan = NULL;
        s.sweep = i ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
        ok =
            plan_on(&plan, &p, &s, NULL, &device, &message) == WEFT_OK && run(d, plan, &a, &b, &c, &none, got[i], &message);
        weft_plan_destroy(plan);
    }
    int second = 0, last = 0;
    for (int i = 0; i < 128 * N && ok; i++) {
        const int differs = memcmp(&got[0][i], &got[1][i], sizeof(float)) != 0;
        second += i % N / TILE == 1 && differs;
        last += i % N / TILE >= 3 && differs;
    }
    if (!ok || second == 0 || last > 0) {
        fprintf(stderr, "of a sawtooth sweep %d elements of the second tile and %d of the last differ: %s\n", second, last,
                message.text);
    }
    release(d, &a);
    release(d, &b);
    release(d, &c);
    return ok && second > 0 && last == 0;
}

/* Every split, of tiles that have some; alone and in clusters; steps that the parts share evenly or not, down to one
 * each; ragged edges, several tiles, a batch, an old C, every dtype of C and a column-major one; rows by phases. All but C
 * is given as the kernel sees it. */
static const struct shared_out {
    int64_t tile_n, split, cluster_m, cluster_n, m, n, k, batch;
    weft_dtype c_dtype;
    int swapped, form;
    double beta;
} shared_out[] = {
    {128, 2, 1, 1, 128, 128, 128, 1, WEFT_BF16, 0, 0, 0},   {128, 4, 1, 1, 200, 136, 264, 1, WEFT_BF16, 0, 0, 0},
    {128, 4, 1, 1, 121, 264, 640, 1, WEFT_FP32, 1, 0, 1.5}, {128, 4, 2, 1, 250, 120, 500, 1, WEFT_FP16, 0, 0, 1.5},
    {128, 4, 1, 2, 100, 250, 1000, 2, WEFT_BF16, 1, 0, 0},  {128, 4, 1, 1, 250, 200, 600, 1, WEFT_BF16, 0, 1, 1.5},
    {128, 8, 1, 1, 128, 128, 512, 1, WEFT_FP32, 0, 0, 0},   {128, 8, 1, 1, 232, 312, 648, 1, WEFT_BF16, 0, 0, 1.5},
    {128, 8, 1, 1, 57, 104, 1100, 2, WEFT_FP32, 0, 0, 1.5}, {128, 8, 1, 1, 144, 100, 712, 1, WEFT_FP16, 1, 0, 0},
    {128, 8, 1, 1, 250, 104, 600, 1, WEFT_FP32, 0, 1, 0},   {256, 4, 1, 1, 120, 250, 264, 1, WEFT_FP32, 1, 0, 1.5},
    {256, 4, 2, 1, 250, 200, 520, 1, WEFT_BF16, 0, 0, 0},   {256, 8, 1, 1, 128, 256, 512, 1, WEFT_BF16, 0, 0, 0},
    {256, 8, 1, 1, 152, 264, 712, 1, WEFT_FP32, 0, 0, 1.5}, {256, 8, 1, 1, 99, 200, 1000, 2, WEFT_BF16, 1, 0, 1.5},
    {256, 8, 1, 1, 250, 264, 600, 1, WEFT_BF16, 0, 1, 1.5}, {64, 2, 2, 1, 250, 120, 500, 1, WEFT_BF16, 0, 0, 1.5},
    {64, 8, 1, 1, 200, 136, 520, 1, WEFT_BF16, 0, 0, 0},    {64, 7, 1, 1, 121, 100, 712, 2, WEFT_FP32, 1, 0, 1.5},
    {192, 3, 1, 2, 144, 400, 264, 1, WEFT_FP16, 0, 0, 0},   {192, 5, 1, 1, 250, 264, 600, 1, WEFT_FP32, 0, 1, 1.5},
    {128, 6, 1, 1, 232, 312, 648, 1, WEFT_BF16, 0, 0, 1.5}, {128, 3, 1, 2, 100, 250, 1000, 2, WEFT_BF16, 1, 0, 0},
    {256, 7, 1, 1, 250, 300, 600, 1, WEFT_BF16, 0, 1, 1.5}, {256, 2, 2, 2, 250, 600, 600, 1, WEFT_FP32, 0, 0, 0},
    {80, 8, 1, 1, 250, 200, 600, 1, WEFT_BF16, 0, 0, 0},    {144, 3, 2, 1, 120, 250, 264, 1, WEFT_FP32, 1, 0, 0},
    {208, 5, 1, 1, 250, 264, 600, 2, WEFT_FP16, 0, 0, 0},   {16, 8, 1, 1, 200, 13, 712, 1, WEFT_BF16, 1, 4, 0},
    {48, 4, 1, 2, 300, 70, 520, 2, WEFT_FP16, 0, 4, 0},     {64, 2, 1, 1, 200, 136, 264, 1, WEFT_BF16, 1, 4, 0},
    {96, 7, 1, 1, 250, 100, 712, 1, WEFT_BF16, 1, 4, 0},    {144, 4, 2, 1, 250, 264, 600, 1, WEFT_FP16, 1, 4, 0},
    {240, 3, 1, 1, 128, 250, 500, 1, WEFT_BF16, 0, 4, 0},
};
enum { SHARED_OUT = sizeof shared_out / sizeof *shared_out };

static int one_shared_out(const weft_cuda_driver *d, int number) {
    const struct shared_out *row = &shared_out[number];
    weft_gemm p = WEFT_GEMM_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    const int by_phase = row->form == WEFT_GEMM_BY_PHASE, transposed = row->form == WEFT_GEMM_TRANSPOSED;
    char name[32], symbol[48];
    p.m = row->swapped ? row->n : row->m;
    p.n = row->swapped ? row->m : row->n;
    p.k = row->k;
    p.batch = row->batch;
    p.dtype = WEFT_BF16;
    p.c_dtype = row->c_dtype;
    p.b_major = WEFT_COL_MAJOR;
    p.c_major = row->swapped != transposed ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    p.lda = p.ldb = (p.k + 63) / 64 * 64 + (by_phase ? 8 : 0);
    p.ldc = to_8(transposed ? row->m : row->n);
    p.a_stride = p.lda * p.m;
    p.b_stride = p.ldb * p.n;
    p.c_stride = p.ldc * (transposed ? row->n : row->m);
    p.beta = row->beta;
    s.tile_m = row->swapped ? row->tile_n : 128;
    s.tile_n = row->swapped ? 128 : row->tile_n;
    s.cluster_m = row->swapped ? row->cluster_n : row->cluster_m;
    s.cluster_n = row->swapped ? row->cluster_m : row->cluster_n;
    s.split = row->split;
    seed = (uint64_t)number + 1;
    snprintf(name, sizeof name, "steps shared out, %d", number);
    snprintf(symbol, sizeof symbol, "gemm_bf16_kk_128x%d%s__sm90a", (int)row->tile_n,
             by_phase     ? "_by_phase"
             : transposed ? "_transposed"
                          : "");
    return one_product(d, &p, &s, symbol, 1, name);
}

/* Returns how many are wrong. */
static int all_shared_out(const weft_cuda_driver *d) {
    int wrong = 0;
    for (int i = 0; i < SHARED_OUT; i++) {
        wrong += !one_shared_out(d, i);
    }
    return wrong;
}

/* Workers that wait for each other, and what a capture makes of dynamic dispatch. Returns how many are wrong. */
static int small_others(const weft_cuda_driver *d) {
    weft_gemm p = long_gemm(1);
    weft_schedule s = long_schedule();
    int wrong = !one_product(d, &p, &s, NULL, 0, "workers in step") + all_shared_out(d);
    wrong += !many_tiles(d, WEFT_DISPATCH_STATIC) + !many_tiles(d, WEFT_DISPATCH_DYNAMIC) + !ends_go_forward(d);
    p = (weft_gemm)WEFT_GEMM_INIT;
    p.m = p.n = 504;
    p.k = 200;
    p.dtype = p.c_dtype = WEFT_BF16;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    setenv("FAKE_CUDA", "capture=1", 1);
    for (int i = 0; i < 2; i++) {
        s.order = i ? WEFT_ORDER_SERPENTINE_SWIZZLED : WEFT_ORDER_SERPENTINE;
        wrong += !one_product(d, &p, &s, NULL, 0, "a captured launch");
    }
    unsetenv("FAKE_CUDA");
    return wrong;
}

/* Every variant, and every feature. */
static int small(const weft_cuda_driver *d, int first, int count) {
    int wrong = 0;
    for (int i = first; i < first + count && i < VARIANTS; i++) {
        wrong += !one_variant(d, i);
    }
    if (count >= VARIANTS) {
        wrong += small_others(d);
        /* Workers of products as small as these wait for each other only on a GPU as small as the emulated one. */
        wrong += getenv("WEFT_CUDA_DRIVER") && !has_all_features();
    }
    return wrong;
}

int main(int count, char **words) {
    const int is_small = count > 1 && strcmp(words[1], "small") == 0, given = count - is_small; /* words but for small */
    const int is_split = count > 1 && strcmp(words[1], "split") == 0;
    const int is_fused = count > 1 && strcmp(words[1], "fused") == 0;
    const int first = given > 1 + is_fused ? atoi(words[1 + is_small + is_fused]) : 0;
    const int usual = is_split ? SHARED_OUT : is_fused ? FUSED_ROUNDS : is_small ? VARIANTS : ROUNDS;
    const int rounds = given > 2 + is_fused && !is_split ? atoi(words[2 + is_small + is_fused]) : usual;
    const weft_cuda_driver *d;
    weft_cuda_device gpu;
    weft_message message = {""};
    void *context;
    int wrong = 0, pushed;
    if (weft_cuda_driver_get(&d, &message) || weft_cuda_device_get(d, 0, &gpu, &message) || gpu.capability != 90) {
        fprintf(stderr, "skipped: %s\n", message.text[0] ? message.text : "not a Hopper GPU");
        return SKIPPED;
    }
    if (d->primary_retain(&context, gpu.handle) || weft_cuda_enter(d, context, &pushed, &message)) {
        fprintf(stderr, "the GPU cannot be used: %s\n", message.text);
        return 1;
    }
    if (is_small) {
        wrong = small(d, first, rounds);
    } else if (is_fused) {
        wrong = all_fused(d, first, rounds);
    } else if (is_split || rounds >= ROUNDS) {
        wrong = all_shared_out(d) + (is_split ? 0 : all_fused(d, 0, FUSED_ROUNDS));
    }
    for (int round = first; round < first + rounds && !is_small && !is_split && !is_fused; round++) {
        wrong += !one_round(d, round);
    }
    weft_cuda_leave(d, pushed);
    d->primary_release(gpu.handle);
    printf("%d %s, %d wrong\n", rounds, is_small ? "variants" : "products", wrong);
    return wrong != 0;
}
