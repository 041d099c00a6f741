/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM with the fake driver: which variant is taken, what is refused, and that the parameters of a launch
 * describe the problem, because the fake runs the reference from nothing else. */
#include "fake_images.h"

#include <math.h>
#include <stdio.h>

#include "../plans.h"
#include "../ref/tensors.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/gemm/params.h"

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

static weft_gemm small(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 200;
    p.n = 144;
    p.k = 72;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    return p;
}

static int64_t to_8(int64_t value) {
    return (value + 7) / 8 * 8;
}

static weft_gemm random_gemm(uint64_t *random, int round) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = random_between(random, 1, 300);
    p.n = random_between(random, 1, 300);
    p.k = random_between(random, 1, round % 3 == 0 ? 800 : 150);
    if (round % 10 == 4) { /* rows can be taken by phases without more tiles */
        p.m = 1024 - p.m % 24;
        p.n = 1 + p.n % 40;
    }
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
    p.c_dtype = round % 3 == 0 ? WEFT_FP32 : round % 3 == 1 ? p.dtype : WEFT_BF16;
    p.a_major = (weft_major)random_between(random, 0, 1);
    p.b_major = (weft_major)random_between(random, 0, 1);
    p.c_major = (weft_major)random_between(random, 0, 1);
    p.lda = to_8(p.a_major == WEFT_ROW_MAJOR ? p.k : p.m) + 8 * random_between(random, 0, 2);
    p.ldb = to_8(p.b_major == WEFT_ROW_MAJOR ? p.n : p.k) + 8 * random_between(random, 0, 2);
    p.ldc = to_8(p.c_major == WEFT_ROW_MAJOR ? p.n : p.m) + 8 * random_between(random, 0, 2);
    p.alpha = round % 4 == 0 ? -0.5 : 1;
    p.beta = round % 5 == 0 ? 1.5 : 0;
    p.batch = round % 6 == 0 ? 3 : 1;
    if (p.batch > 1) { /* whole lines, so that the next matrix is aligned too */
        p.a_stride = p.lda * (p.a_major == WEFT_ROW_MAJOR ? p.m : p.k);
        p.b_stride = p.ldb * (p.b_major == WEFT_ROW_MAJOR ? p.k : p.n);
        p.c_stride = p.ldc * (p.c_major == WEFT_ROW_MAJOR ? p.m : p.n) + 8;
    }
    return p;
}

static uint64_t there(const weft_cuda_driver *d, const void *from, size_t bytes) {
    uint64_t to = 0;
    assert_int_equal(d->memory_new(&to, bytes), 0);
    d->copy_in(to, from, bytes);
    return to;
}

static void *random_matrix(uint64_t *random, weft_dtype dtype, size_t count) {
    void *m = malloc(count * weft_dtype_bytes(dtype));
    assert_non_null(m);
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(dtype, m, i, (double)random_between(random, -100, 100) / 64);
    }
    return m;
}

static weft_schedule random_schedule(uint64_t *random, const weft_gemm *p, int round) {
    static const int64_t tiles[][2] = {{128, 256}, {256, 128}, {128, 128}, {128, 64}, {256, 192}, {128, 192}, {64, 128}};
    static const int64_t clusters[][2] = {{0, 0}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}};
    weft_schedule s = WEFT_SCHEDULE_INIT;
    const int swapped = p->c_major == WEFT_COL_MAJOR;
    const int64_t *tile = tiles[random_between(random, 0, 6)];
    if (round % 7 != 0) { /* or left to the library */
        s.tile_m = tile[swapped];
        s.tile_n = tile[!swapped];
        s.order = (int32_t)random_between(random, WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
        s.dispatch = (int32_t)random_between(random, 1, WEFT_DISPATCHES);
        if (tile[0] * tile[1] > 32768 && s.order == WEFT_ORDER_SERPENTINE_SWIZZLED && s.dispatch == WEFT_DISPATCH_DYNAMIC) {
            s.dispatch = WEFT_DISPATCH_STATIC; /* the other is refused */
        }
        s.sweep = (int32_t)random_between(random, WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
        s.table = (int32_t)random_between(random, 0, 1);
        s.group = random_between(random, 0, 3);
        s.axis = (weft_axis)random_between(random, WEFT_AXIS_N, WEFT_AXIS_M);
        const int64_t *cluster = clusters[random_between(random, 0, 5)];
        const int two_dimensional = cluster[0] > 1 && cluster[1] > 1, narrow = tile[0] == 64 || tile[1] == 64;
        s.cluster_m = cluster[0];
        s.cluster_n = two_dimensional && narrow ? 1 : cluster[1]; /* see clusters_without_senders() */
        const int64_t split = random_between(random, 2, WEFT_GEMM_MAX_CLUSTER);
        const int64_t ctas = weft_larger(cluster[0], 1) * weft_larger(s.cluster_n, 1);
        if (round % 3 == 0 && WEFT_GEMM_SPLITS(tile[0]) && (p->k + 63) / 64 >= split && ctas * split <= 8) {
            s.split = split;
            s.dispatch = WEFT_DISPATCH_GRID;
        }
        if (round % 5 == 2) {
            s.order = WEFT_ORDER_CUSTOM;
            s.domains = tile[0] * tile[1] > 32768 ? 1 : 2;
        }
    }
    return s;
}

/* Every layout, dtype, order, sweep, dispatch, cluster and split; ragged edges, batches, alpha and beta. */
static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(70);
    const weft_device device = gpu();
    const weft_cuda_driver *d;
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&d, NULL), WEFT_OK);
    for (int round = 0; random_round(&random, &round, 60); round++) {
        const weft_gemm p = random_gemm(&random, round);
        const weft_schedule s = random_schedule(&random, &p, round);
        const weft_gemm_extents sizes = gemm_sizes(&p);
        const size_t bytes = weft_dtype_bytes(p.dtype), c_bytes = weft_dtype_bytes(p.c_dtype);
        void *a = random_matrix(&random, p.dtype, sizes.a), *b = random_matrix(&random, p.dtype, sizes.b);
        void *c = random_matrix(&random, p.c_dtype, sizes.c), *got = malloc(sizes.c * c_bytes);
        assert_non_null(got);
        const uint64_t da = there(d, a, sizes.a * bytes), db = there(d, b, sizes.b * bytes);
        const uint64_t dc = there(d, c, sizes.c * c_bytes);
        const weft_gemm_data data = gemm_data((void *)(uintptr_t)da, (void *)(uintptr_t)db, (void *)(uintptr_t)dc);
        weft_plan *plan;
        weft_message message = {""};
        if (plan_on(&plan, &p, &s, NULL, &device, &message) != WEFT_OK) {
            fail_msg("round %d: %s", round, message.text);
        }
        script(round % 2 ? "capture=5 twice=1" : NULL); /* captured, it is not disturbed by another executable */
        if (weft_plan_run(plan, &data, &message) != WEFT_OK) {
            fail_msg("round %d: %s", round, message.text);
        }
        d->copy_out(got, dc, sizes.c * c_bytes);
        const weft_gemm_data host = gemm_data(a, b, c);
        assert_int_equal(weft_gemm_multiply(&p, &host, &message), WEFT_OK); /* what is between the lines stays as it was */
        for (size_t i = 0; i < sizes.c; i++) {
            const double x = weft_ref_load(p.c_dtype, got, i), y = weft_ref_load(p.c_dtype, c, i);
            assert_true(fabs(x - y) <= 0.02 * (1 + fabs(y)));
        }
        weft_plan_destroy(plan);
        d->memory_free(da);
        d->memory_free(db);
        d->memory_free(dc);
        free(a);
        free(b);
        free(c);
        free(got);
    }
    assert_int_equal(counts()->allocations, 0);
}

static void refused(const weft_gemm *p, const weft_schedule *s, weft_status expected, const char *text) {
    weft_device device = gpu();
    device.kernel = "hopper_gemm"; /* the portable one takes some of it */
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), expected);
    assert_null(plan);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", message.text, text);
    }
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

/* Lines that begin anywhere are copied to lines that begin at multiples of 128 bytes, along k; others are read where they
 * lie. */
static void misaligned_lines_are_copied(void **state) {
    (void)state;
    static const struct {
        int64_t lda, ldb, a_stride;
        weft_major b_major;
        size_t workspace; /* lines of 72 elements take 128 */
        const char *kernel;
    } rows[] = {{72, 72, 0, WEFT_COL_MAJOR, 0, "gemm_bf16_kk_"},
                {73, 72, 0, WEFT_COL_MAJOR, 2 * 200 * 256, "gemm_bf16_kk_"},
                {76, 145, 0, WEFT_ROW_MAJOR, 2 * (200 + 144) * 256, "gemm_bf16_kk_"},
                {76, 144, 0, WEFT_ROW_MAJOR, 2 * 200 * 256, "gemm_bf16_kn_"},
                {72, 72, 72 * 200 + 1, WEFT_COL_MAJOR, 2 * 200 * 256, "gemm_bf16_kk_"}};
    weft_device device = gpu();
    device.kernel = "hopper_gemm";
    script(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_gemm p = small();
        weft_plan *plan;
        p.k = 72;
        p.batch = 2;
        p.lda = rows[i].lda;
        p.ldb = rows[i].ldb;
        p.a_stride = rows[i].a_stride;
        p.b_major = rows[i].b_major;
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        assert_int_equal(weft_plan_workspace(plan), rows[i].workspace);
        const weft_cuda_plan *c = plan->placed;
        assert_int_equal(c->main - c->passes, rows[i].workspace > 0);
        assert_int_equal(strncmp(c->main->choice.kernel, rows[i].kernel, strlen(rows[i].kernel)), 0);
        weft_plan_destroy(plan);
    }
    assert_int_equal(counts()->allocations, 0);
}

static void no_kernel_fits(void **state) {
    (void)state;
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    script(NULL);
    p.ldc = 148;
    refused(&p, NULL, WEFT_UNSUPPORTED, "hopper_gemm: ldc 148 is not a multiple of 8");
    p = small();
    p.batch = 2;
    p.c_stride = 200 * 144 + 4;
    refused(&p, NULL, WEFT_UNSUPPORTED, "c_stride 28804 is not a multiple of 8");
    p.c_stride = 144;
    refused(&p, NULL, WEFT_INVALID, "c_stride 144 is less than 28800, the elements of c");
    p = small();
    s.tile_k = 32;
    refused(&p, &s, WEFT_UNSUPPORTED, "its steps are 64 of k, not 32");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.tile_m = 40;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 40x0 with split 1 in clusters of 1x1");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.sweep = WEFT_SWEEP_PAIR;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no pair sweep");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.tile_m = 256;
    s.tile_n = 192;
    s.order = WEFT_ORDER_SERPENTINE_SWIZZLED;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    refused(&p, &s, WEFT_UNSUPPORTED, "its tiles of 256x192 have no serpentine-swizzled under dynamic dispatch");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.cluster_m = 3;
    s.cluster_n = 3;
    refused(&p, &s, WEFT_UNSUPPORTED, "its clusters have at most 8 CTAs");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.split = 2;
    s.dispatch = WEFT_DISPATCH_STATIC;
    refused(&p, &s, WEFT_UNSUPPORTED, "it shares out the steps of a tile only under grid dispatch");
    s.dispatch = WEFT_DISPATCH_CHOOSE;
    p.k = 64;
    p.lda = p.ldb = 0;
    refused(&p, &s, WEFT_UNSUPPORTED, "split 2 is more than there are steps of 64 in k 64");
    s.split = 8;
    p.k = 448;
    refused(&p, &s, WEFT_UNSUPPORTED, "split 8 is more than there are steps of 64 in k 448");
    p.k = 1024;
    s.cluster_m = 2;
    refused(&p, &s, WEFT_UNSUPPORTED, "its clusters have at most 8 CTAs");
    s.cluster_m = 0;
    s.tile_m = 256;
    s.split = 2;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 256x0 with split 2 in clusters of 1x1");
    s.tile_m = 64; /* of which only the transposed one is split, and not for a C of fp32 */
    p.c_dtype = WEFT_FP32;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 64x0 with split 2 in clusters of 1x1");
    script("capability=100");
    refused(&p, NULL, WEFT_UNSUPPORTED, "compute capability 10.0, and 9.0 is needed");
    script("tensor_map=1");
    weft_plan *plan;
    const weft_device device = gpu();
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    script(NULL);
}

/* The chooser: large tiles in pairs for large products, shared-out steps where there are few tiles, whole rectangles. */
static void choices(void **state) {
    (void)state;
    weft_gemm p = small();
    const weft_device device = gpu();
    weft_plan *plan;
    script(NULL); /* 12 SMs */
    p.m = p.n = p.k = 4096;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    weft_schedule s = weft_plan_schedule(plan);
    assert_int_equal(s.tile_m, 128);
    assert_int_equal(s.tile_n, 256);
    assert_int_equal(s.cluster_m, 2);
    assert_int_equal(s.order, WEFT_ORDER_SERPENTINE);
    assert_int_equal(s.dispatch, WEFT_DISPATCH_STATIC);
    assert_int_equal(s.workers % (2 * s.group), 0);
    weft_plan_destroy(plan);
    p.m = 128;
    p.n = 256;
    p.k = 32768;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    s = weft_plan_schedule(plan);
    assert_true(s.split > 1);
    assert_int_equal(s.dispatch, WEFT_DISPATCH_GRID);
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 0);
}

static uint32_t grid_of(const weft_gemm *p, const weft_schedule *s) {
    const weft_device device = gpu();
    weft_plan *plan;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, NULL), WEFT_OK);
    const uint32_t grid = ((const weft_cuda_plan *)plan->placed)->main->grid;
    weft_plan_destroy(plan);
    return grid;
}

/* Every split of a tile: so many CTAs for each of the ten tiles of 128x64, six of 128x128, four of 128x192 or of 128x256.
 */
static void splits(void **state) {
    (void)state;
    static const int64_t rows[][2] = {{64, 10}, {128, 6}, {192, 4}, {256, 4}};
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    script(NULL);
    p.m = 200;
    p.n = 296;
    p.k = 512;
    s.tile_m = 128;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.tile_n = rows[i][0];
        for (s.split = 2; s.split <= 8; s.split++) {
            assert_int_equal(grid_of(&p, &s), rows[i][1] * s.split);
        }
    }
}

static weft_gemm_phase_params all_parameters_of(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_gemm_data data = gemm_data((void *)(uintptr_t)4096, (void *)(uintptr_t)4096, (void *)(uintptr_t)4096);
    uint64_t counter[2] = {0, 0};
    const weft_counters counters = {.own = c->tickets ? counter : NULL, .pace = c->tickets ? counter : NULL};
    weft_gemm_phase_params to;
    assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &counters, &to, NULL), WEFT_OK);
    return to;
}

static weft_gemm_params parameters_of(const weft_plan *plan) {
    return all_parameters_of(plan).product;
}

static weft_gemm_phases phases_of(const weft_plan *plan) {
    return all_parameters_of(plan).phases;
}

/* What is kept in the L2, and who waits for whom: 12 SMs, two sides of 3 MiB. */
static void locality(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    script(NULL);
    p.m = p.n = 4096;
    p.k = 512;
    s.tile_m = 128;
    s.tile_n = 256;
    s.order = WEFT_ORDER_SERPENTINE;
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.workers = 8;
    s.cluster_m = s.cluster_n = 1;
    s.group = 4; /* 4 columns of 32 rows are 16 waves; 4 * 256 * 512 * 2 is 1 MiB of B */
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    weft_gemm_params to = parameters_of(plan);
    assert_true(to.band_waves == 16 && to.wave_again == 2 && to.again_keep == WEFT_KEEP_LAST);
    assert_true(to.a_keep == WEFT_KEEP_NORMAL && to.b_keep == WEFT_KEEP_NORMAL && to.c_first == 1);
    assert_true(to.pace_steps == 0 && !to.begun && !to.counter && !to.side_of_sm);
    weft_plan_destroy(plan);

    p.c_major = WEFT_COL_MAJOR; /* the kernel's A is B */
    s.tile_m = 256;
    s.tile_n = 128;
    s.axis = WEFT_AXIS_M;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    to = parameters_of(plan);
    assert_true(to.swapped && to.band_waves == 16 && to.wave_again == 2);
    weft_plan_destroy(plan);

    p.c_major = WEFT_ROW_MAJOR;
    p.k = 8192; /* 16 MiB of B do not fit; 64 waves of 128 steps are long */
    s.tile_m = 128;
    s.tile_n = 256;
    s.axis = WEFT_AXIS_N;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    to = parameters_of(plan);
    assert_true(to.band_waves == 0 && to.b_keep == WEFT_KEEP_NORMAL && to.pace_steps > 0 && to.begun && !to.counter);
    weft_plan_destroy(plan);

    s.order = WEFT_ORDER_SERPENTINE_SWIZZLED;
    s.group = 2;
    p.k = 512;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    to = parameters_of(plan);
    assert_true(to.side_of_sm && to.counter && to.walk.workers == 8 && to.band_waves == 16);
    assert_int_equal(((const weft_cuda_plan *)plan->placed)->side_grid, 12); /* more than are needed */
    assert_int_equal(((const weft_cuda_plan *)plan->placed)->main->grid, 8);
    assert_true(to.side_of_sm[0] == 0 && to.side_of_sm[2] == 1);
    weft_plan_destroy(plan);

    s.dispatch = WEFT_DISPATCH_GRID;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_null(parameters_of(plan).side_of_sm);
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 0);
}

/* Rows of A whose lines begin alike share a tile: eight rows that begin 16 bytes of a line further on, each. */
static void phases(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    script(NULL);
    p.m = 1001;
    p.n = 184;
    p.k = 72; /* 144 bytes: the last step has 56 elements to spare */
    s.tile_m = 128;
    s.tile_n = 192;
    s.cluster_m = s.cluster_n = 1;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    weft_gemm_phases to = phases_of(plan);
    assert_true(to.count == 8 && to.tiles == 1 && to.longer == 1);
    assert_int_equal(to.order, 0x73516240);
    assert_int_equal(to.shifts, 0x73516240);
    weft_plan_destroy(plan);

    p.k = 104; /* 24 elements to spare: what is more is off by whole sectors */
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    to = phases_of(plan);
    assert_int_equal(to.shifts, 0x33132220);
    weft_plan_destroy(plan);

    p.k = 72;
    s.tile_m = 256; /* four rows of tiles: four phases */
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    to = phases_of(plan);
    assert_true(to.count == 4 && to.order == 0x3120 && to.shifts == 0x3120);
    weft_plan_destroy(plan);

    const struct {
        int64_t m, k, batch, a_major;
    } none[] = {{1001, 128, 1, WEFT_ROW_MAJOR},
                {1025, 72, 1, WEFT_ROW_MAJOR},
                {1001, 72, 2, WEFT_ROW_MAJOR},
                {1008, 72, 1, WEFT_COL_MAJOR}};
    s.tile_m = 128;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) { /* straight; one tile more; a batch; contiguous along m */
        p.m = none[i].m;
        p.k = none[i].k;
        p.batch = none[i].batch;
        p.a_major = (weft_major)none[i].a_major;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        to = phases_of(plan);
        assert_true(to.count == 0);
        weft_plan_destroy(plan);
    }
    assert_int_equal(counts()->allocations, 0);
}

/* A narrow product is one band of all workers, where its A would be read once for each; clusters of four are as many as
 * fit: 12 SMs, two sides of 3 MiB. */
static void bands(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    script(NULL);
    p.m = 25600;
    p.n = 640;
    p.k = 512;
    s.tile_m = s.tile_n = 128;
    s.cluster_m = 2;
    s.cluster_n = 1;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    weft_schedule settled = weft_plan_schedule(plan);
    assert_int_equal(settled.order, WEFT_ORDER_SERPENTINE);
    assert_int_equal(settled.group, 5);
    assert_int_equal(settled.workers, 12);
    weft_plan_destroy(plan);

    p.m = 256; /* the L2 holds A: bands of whole rectangles */
    p.n = 25600;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_true(weft_plan_schedule(plan).group < 200);
    weft_plan_destroy(plan);

    p.m = 1792; /* the L2 holds A and not C: the columns one by one */
    p.n = 3072;
    p.k = 576;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_plan_schedule(plan).order, WEFT_ORDER_RASTER_M);
    assert_int_equal(weft_plan_schedule(plan).workers, 12);
    weft_plan_destroy(plan);

    p.m = p.n = 4096;
    s.cluster_m = 4;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_plan_schedule(plan).workers, 8);
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 0);
}

/* Of tiles of which two CTAs share an SM each of the 12 SMs gets one, unless that would be a second turn. */
static void every_sm(void **state) {
    (void)state;
    weft_gemm p = small(); /* 4 x 2 tiles of 64 x 128 */
    weft_schedule s = WEFT_SCHEDULE_INIT;
    script(NULL);
    s.tile_m = 64;
    s.tile_n = 128;
    s.cluster_m = s.cluster_n = 1;
    assert_int_equal(grid_of(&p, &s), 12);
    s.dispatch = WEFT_DISPATCH_GRID;
    assert_int_equal(grid_of(&p, &s), 12);
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.workers = 5;
    assert_int_equal(grid_of(&p, &s), 5);
    s.workers = 0;
    s.cluster_m = 4;
    s.cluster_n = 2;
    assert_int_equal(grid_of(&p, &s), 8);
    s.tile_m = 128; /* of which one fills an SM */
    s.cluster_m = s.cluster_n = 1;
    assert_int_equal(grid_of(&p, &s), 4);
}

static void run_refused(const weft_plan *plan, const weft_gemm_data *data, weft_status expected, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_plan_enqueue(plan, data, NULL, &message), expected);
    assert_string_equal(message.text, text);
}

static void launching_fails(void **state) {
    (void)state;
    const weft_gemm p = small();
    const weft_device device = gpu();
    const weft_cuda_driver *d;
    const weft_gemm_extents sizes = gemm_sizes(&p);
    uint64_t at[3];
    weft_plan *plan;
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&d, NULL), WEFT_OK);
    assert_int_equal(d->memory_new(&at[0], 2 * sizes.a + 16), 0);
    assert_int_equal(d->memory_new(&at[1], 2 * sizes.b), 0);
    assert_int_equal(d->memory_new(&at[2], 2 * sizes.c), 0);
    const weft_gemm_data good = gemm_data((void *)(uintptr_t)at[0], (void *)(uintptr_t)at[1], (void *)(uintptr_t)at[2]);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    weft_gemm_data data = good;
    data.a = NULL;
    run_refused(plan, &data, WEFT_INVALID, "a is null");
    data = good;
    data.a = (const char *)good.a + 8;
    run_refused(plan, &data, WEFT_INVALID, "a is not aligned to 16 bytes");
    script("tensor_map=1");
    run_refused(plan, &good, WEFT_FAILED,
                "a tensor cannot be described to the copy engine: as scripted (CUDA_ERROR_SCRIPTED)");
    script("launch=701");
    run_refused(plan, &good, WEFT_FAILED, "the kernel cannot be launched: as scripted (CUDA_ERROR_SCRIPTED)");
    script(NULL);
    assert_int_equal(weft_plan_enqueue(plan, &good, NULL, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    for (int i = 0; i < 3; i++) {
        d->memory_free(at[i]);
    }
    assert_int_equal(counts()->allocations, 0);
}

/* Of an A that is contiguous along m, a tile of 64 rows is one box: in a cluster of 2x2 one of the two CTAs that share it
 * would have nothing to send. So it is with a B that is contiguous along n, and 64 columns. */
static void clusters_without_senders(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    script(NULL);
    for (int kind = 0; kind < 4; kind++) {
        const int contiguous = kind % 2, of_b = kind / 2;
        weft_gemm p = small();
        p.a_major = contiguous && !of_b ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
        p.b_major = contiguous && of_b ? WEFT_ROW_MAJOR : WEFT_COL_MAJOR;
        s.tile_m = of_b ? 128 : 64;
        s.tile_n = of_b ? 64 : 128;
        s.cluster_m = s.cluster_n = 2;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), contiguous ? WEFT_UNSUPPORTED : WEFT_OK);
        weft_plan_destroy(plan);
        s.cluster_m = of_b ? 1 : 2;
        s.cluster_n = of_b ? 2 : 1;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        weft_plan_destroy(plan);
    }
}

/* Tiles of other widths than multiples of 64: without beta, and for a B that is contiguous along k; transposed, for a C of
 * 16 bits and an A that is. */
static void widths(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    weft_gemm p = small();
    script(NULL);
    p.lda = p.ldb = p.ldc = 0;
    p.m = p.n = 440; /* 12 SMs: 12 tiles of 128x160, or 16 of 128x128 */
    p.k = 4096;
    p.b_major = WEFT_COL_MAJOR;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_plan_schedule(plan).tile_n, 160);
    weft_plan_destroy(plan);
    s.tile_n = 160;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_plan_schedule(plan).tile_m, 128);
    weft_plan_destroy(plan);
    s.cluster_m = 4; /* whose CTAs would have 52 columns each of B, which boxes of 8 do not cut */
    s.cluster_n = 2;
    s.tile_n = 208;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 0x208 with split 1 in clusters of 4x2");
    s.cluster_m = s.cluster_n = 0;
    p.beta = 1;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 0x208");
    p.beta = 0;
    p.b_major = WEFT_ROW_MAJOR;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 0x208");
    s.tile_n = 0;
    s.tile_m = 208; /* which is a transposed one's */
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(weft_plan_schedule(plan).tile_n, 128);
    weft_plan_destroy(plan);
    p.c_dtype = WEFT_FP32;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 208x0");
    p.c_dtype = p.dtype;
    p.a_major = WEFT_COL_MAJOR;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 208x0");
    p.c_major = WEFT_COL_MAJOR; /* which transposed is a row-major one */
    p.b_major = WEFT_COL_MAJOR;
    s.tile_m = 0;
    s.tile_n = 208;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    weft_plan_destroy(plan);
}

/* The kernel that a product with an epilogue takes, or, where `why` is not null, why there is none. */
static void takes(const weft_gemm *p, const char *kernel, const char *why) {
    const weft_device device = gpu();
    weft_plan *plan;
    weft_message message = {""};
    const weft_status status = plan_on(&plan, p, NULL, NULL, &device, &message);
    if (why ? status != WEFT_UNSUPPORTED || !strstr(message.text, why)
            : status != WEFT_OK || !strstr(weft_plan_kernel(plan), kernel)) {
        fail_msg("%s instead of %s", status ? message.text : weft_plan_kernel(plan), why ? why : kernel);
    }
    if (!why) { /* a workspace where columns are added up, and only then */
        assert_int_equal(weft_plan_workspace(plan) > 0, (p->extras & WEFT_GEMM_COLUMN_SUMS) != 0);
    }
    weft_plan_destroy(plan);
}

/* Epilogues that this family has, those that it leaves to the portable one, and those that no GPU has. */
static void epilogues(void **state) {
    (void)state;
    script(NULL);
    weft_gemm p = small();
    p.activation = WEFT_RELU;
    takes(&p, "_fused__sm90a", NULL);
    p.gated = 1;
    takes(&p, "_fused__sm90a", NULL);
    p = small();
    p.extras = 2 * WEFT_GEMM_COLUMN_SUMS - 1;
    takes(&p, "_fused__sm90a", NULL);
    p.beta = 1; /* beside a residual */
    takes(&p, "_fused__portable", NULL);
    p = small();
    p.extras = WEFT_GEMM_BIAS;
    p.n = 143;
    p.ldc = 144;
    takes(&p, "_fused__portable", NULL);
    p.extras = WEFT_GEMM_ROW_SCALE;
    takes(&p, "_fused__sm90a", NULL);
    p = small();
    p.a_major = WEFT_COL_MAJOR;
    p.extras = WEFT_GEMM_COLUMN_SUMS;
    takes(&p, "_fused__portable", NULL);
    p = small();
    p.c_major = WEFT_COL_MAJOR;
    p.extras = WEFT_GEMM_BIAS;
    takes(&p, "_fused__portable", NULL);
    p.extras = WEFT_GEMM_COLUMN_SUMS;
    takes(&p, NULL, "it has no column sums of a column-major C");
    p.extras = 0;
    p.gated = 1;
    takes(&p, NULL, "it has no gates for a column-major C");
    p = small();
    p.extras = WEFT_GEMM_FUNCTION;
    takes(&p, NULL, "a caller's function runs on the CPU only");
    p = small();
    p.extras = WEFT_GEMM_RESIDUAL;
    p.ld_residual = 149;
    takes(&p, "_fused__portable", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),     cmocka_unit_test(misaligned_lines_are_copied),
        cmocka_unit_test(no_kernel_fits), cmocka_unit_test(clusters_without_senders),
        cmocka_unit_test(choices),        cmocka_unit_test(locality),
        cmocka_unit_test(phases),         cmocka_unit_test(bands),
        cmocka_unit_test(every_sm),       cmocka_unit_test(launching_fails),
        cmocka_unit_test(widths),         cmocka_unit_test(splits),
        cmocka_unit_test(epilogues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
