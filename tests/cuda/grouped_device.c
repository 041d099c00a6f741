/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products on a GPU, through the public calls: random groups, layouts and schedules against the reference in fp64,
 * over poison; the same bits when they are run again and, in a forward sweep, when the other groups have no rows; and
 * bounds that are wrong, which must do no harm. What is no group's is NaN. Exits 77 where there is no GPU for it.
 *
 *   grouped_device [first round [rounds]]
 *   grouped_device small [first round [rounds]]
 *
 * `small` takes products of a few tiles, for the emulated GPU (emulate/emulate.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../groups.h"
#include "../plans.h"
#include "cuda/gemm/grouped/params.h"
#include "cuda/plan/backend.h"
#include "gemm_right.h"

enum { ROUNDS = 240, SMALL_ROUNDS = 96, SKIPPED = 77, MARGIN = 4096 };

/* A kernel. `stored`: see grouped_touched(). */
typedef struct kernel {
    const char *family, *symbol;
    weft_dtype dtype;
    int b_mn, tile_m, tile_n, any;
    size_t stored;
} kernel;

static const kernel kernels[] = {
#define WEFT_PORTABLE_GROUPED(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ctas,     \
                              any)                                                                                         \
    {"portable_grouped", #symbol, WEFT_##DTYPE, b_mn, tile_m, tile_n, any, 1},
#include "cuda/gemm/grouped/variants.def"
#define WEFT_HOPPER_GROUPED(symbol, module, DTYPE, b_mn, tile_m, tile_n, stages, ctas)                                     \
    {"hopper_grouped", #symbol, WEFT_##DTYPE, b_mn, tile_m, tile_n, 0, 16},
#include "cuda/sm90/gemm/grouped/variants.def"
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* The buffers of a case on the GPU. C has a margin behind it. */
typedef struct there {
    uint64_t a, b, c, bounds;
} there;

static int put(const weft_cuda_driver *d, const grouped_case *k, there *t) {
    const size_t bytes = weft_dtype_bytes(k->p.dtype);
    *t = (there){0, 0, 0, 0};
    return d->memory_new(&t->a, k->size.a * bytes) == 0 && d->memory_new(&t->b, k->size.b * bytes) == 0 &&
           d->memory_new(&t->c, k->c_bytes + MARGIN) == 0 && d->memory_new(&t->bounds, sizeof k->bounds) == 0 &&
           d->copy_in(t->a, k->data.a, k->size.a * bytes) == 0 && d->copy_in(t->b, k->data.b, k->size.b * bytes) == 0;
}

static void take_back(const weft_cuda_driver *d, const there *t) {
    const uint64_t all[] = {t->a, t->b, t->c, t->bounds};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]) {
            d->memory_free(all[i]);
        }
    }
}

/* Runs it over poison with these bounds; C and its margin come to `got`. */
static int run_with(const weft_cuda_driver *d, const weft_plan *plan, const grouped_case *k, const there *t,
                    const int32_t *bounds, unsigned char *got, weft_message *message) {
    weft_grouped_gemm_data data = WEFT_GROUPED_GEMM_DATA_INIT;
    data.a = (const void *)(uintptr_t)t->a;
    data.b = (const void *)(uintptr_t)t->b;
    data.c = (void *)(uintptr_t)t->c;
    if (!plan->kept) {
        data.starts = k->data.starts ? (const int32_t *)(uintptr_t)t->bounds : NULL;
        data.counts = k->data.counts ? (const int32_t *)(uintptr_t)t->bounds : NULL;
    }
    return d->copy_in(t->bounds, bounds, sizeof k->bounds) == 0 &&
           d->set_words(t->c, UINT32_MAX, (k->c_bytes + MARGIN) / 4, NULL) == 0 &&
           weft_plan_run(plan, &data, message) == WEFT_OK && d->copy_out(got, t->c, k->c_bytes + MARGIN) == 0;
}

static int is_margin_whole(const grouped_case *k, const unsigned char *got, size_t stored) {
    size_t i = k->c_bytes + (stored > 1 ? stored : 4); /* poison comes in words */
    while (i < k->c_bytes + MARGIN - 8 && got[i] == POISON) {
        i++;
    }
    return i == k->c_bytes + MARGIN - 8;
}

/* Every group is the product that it is, and nothing else was written. */
static int is_right(const grouped_case *k, const unsigned char *got, size_t stored) {
    const weft_groups groups = weft_grouped_gemm_groups(&k->p, k->bounds, 1, 1);
    int ok = 1;
    for (int32_t g = 0; g < groups.count && ok; g++) {
        const weft_group_rows rows = weft_group_at(&groups, g);
        weft_gemm_data at;
        const weft_gemm product = weft_ref_grouped_product(&k->p, &k->data, &rows, &at);
        ok = rows.count == 0 || right(&product, &at, got + ((char *)at.c - (char *)k->data.c));
    }
    const size_t touched = grouped_touched(k, got, stored);
    if (touched > 0) {
        fprintf(stderr, "%zu bytes of no group were written\n", touched);
    }
    return ok && touched == 0 && is_margin_whole(k, got, stored);
}

/* Bounds with which only one group has rows, the same. */
static void leave_one(const grouped_case *k, int32_t group, int32_t *bounds) {
    const weft_groups groups = weft_grouped_gemm_groups(&k->p, k->bounds, 1, 1);
    const weft_group_rows rows = weft_group_at(&groups, group);
    for (int32_t i = 0; i <= groups.count; i++) {
        bounds[i] = groups.masked ? (i == group ? rows.count : 0) : i <= group ? rows.first : rows.first + rows.count;
    }
}

static int is_same_group(const grouped_case *k, int32_t group, const unsigned char *x, const unsigned char *y) {
    const weft_groups groups = weft_grouped_gemm_groups(&k->p, k->bounds, 1, 1);
    const weft_group_rows rows = weft_group_at(&groups, group);
    const size_t bytes = weft_dtype_bytes(k->p.c_dtype);
    int same = 1;
    for (int64_t i = 0; i < rows.count; i++) {
        const size_t at = (size_t)(group * k->p.c_stride + (rows.first + i) * k->p.ldc) * bytes;
        same &= memcmp(x + at, y + at, (size_t)k->p.n * bytes) == 0;
    }
    return same;
}

/* A case with a plan: right, the same bits again, a group for itself, and no harm by wrong bounds. */
static int try_case(const weft_cuda_driver *d, uint64_t *random, const weft_plan *plan, const kernel *v, grouped_case *k,
                    weft_message *message) {
    there t;
    unsigned char *got = malloc(k->c_bytes + MARGIN), *again = malloc(k->c_bytes + MARGIN);
    int32_t other[MOST_DRAWN_GROUPS + 1] = {0};
    int ok = got && again && put(d, k, &t) && run_with(d, plan, k, &t, k->bounds, got, message);
    ok = ok && is_right(k, got, v->stored);
    if (ok && !plan->kept) {
        const int32_t group = (int32_t)random_between(random, 0, k->p.groups - 1);
        leave_one(k, group, other);
        ok = run_with(d, plan, k, &t, other, again, message) &&
             (plan->schedule.sweep != WEFT_SWEEP_FORWARD || is_same_group(k, group, got, again));
        for (int32_t i = 0; i <= k->p.groups; i++) {
            other[i] = random_between(random, 0, 1) ? (int32_t)weft_random(random)
                                                    : (int32_t)random_between(random, -9, k->p.rows + 9);
        }
        ok = ok && run_with(d, plan, k, &t, other, again, message) && is_margin_whole(k, again, v->stored);
    }
    ok = ok && run_with(d, plan, k, &t, k->bounds, again, message) && memcmp(got, again, k->c_bytes) == 0;
    take_back(d, &t);
    free(got);
    free(again);
    return ok;
}

static weft_schedule schedule_of(uint64_t *random, const kernel *v, int round, int small) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = v->tile_m;
    s.tile_n = v->tile_n;
    if (round % 4 != 3) { /* else what the library chooses for the tile */
        s.order = (int32_t)random_between(random, WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
        s.order = round % 5 == 2 ? WEFT_ORDER_CUSTOM : s.order;
        s.dispatch = 1 + round / 2 % WEFT_DISPATCHES;
        s.sweep = (int32_t)random_between(random, WEFT_SWEEP_FORWARD, WEFT_SWEEP_SAWTOOTH);
        s.table = s.order == WEFT_ORDER_CUSTOM ? 0 : (int32_t)random_between(random, 0, 1);
        s.group = random_between(random, 0, 4);
        s.axis = (weft_axis)random_between(random, WEFT_AXIS_N, WEFT_AXIS_M);
    }
    if (strstr(v->symbol, "sm90a")) {
        s.cluster_m = round % 3 == 0 ? 2 : 1;
        s.cluster_n = round % 3 == 1 ? 2 : 1;
    }
    s.workers = small ? random_between(random, 2, 4) : 0;
    return s;
}

static int one_round(const weft_cuda_driver *d, const kernel *v, int round, int small) {
    uint64_t random = (uint64_t)round + 1;
    const weft_schedule s = schedule_of(&random, v, round, small), open = WEFT_SCHEDULE_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    weft_message message = {""};
    weft_plan *plan = NULL;
    grouped_case k = {.bounds = {0}};
    char text[1024] = "";
    draw_groups(&random, &k.p, small ? 100 : 700, small ? 200 : 1500, v->any ? 1 : 8, k.bounds);
    if (small && k.p.groups > 4) {
        k.p.groups = 4;
        draw_bounds(&random, &k.p, 100, k.bounds);
        k.p.a_stride = k.p.c_stride = 0;
    }
    k.p.dtype = v->dtype;
    k.p.c_dtype = round % 3 == 0 ? WEFT_FP32 : v->dtype;
    k.p.b_major = v->b_mn ? WEFT_ROW_MAJOR : WEFT_COL_MAJOR;
    k.p.ldb = k.p.b_stride = 0;
    k.p.n += v->any && k.p.n % 8 == 0; /* a line of A or B that does not end at 16 bytes */
    k.p.k += v->any && k.p.k % 8 == 0;
    k.p.lda = k.p.lda > 0 ? k.p.k + 8 * random_between(&random, 0, 2) : 0;
    k.p.ldc = k.p.ldc > 0 ? k.p.n + 8 * random_between(&random, 0, 2) : 0;
    k.p.a_stride = k.p.c_stride = 0;
    int ok = grouped_hold(&k, &random);
    weft_grouped_gemm known = k.p;
    known.starts = k.data.starts;
    known.counts = k.data.counts;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = v->family;
    if (small && round % 3 == 1) {
        setenv("FAKE_CUDA", "capture=1", 1);
    }
    const int left_open = !small && round % 7 == 0;
    plan_on(&plan, round % 4 == 1 ? &known : &k.p, left_open ? &open : &s, NULL, &device, &message);
    ok = ok && plan && (left_open || strcmp(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, v->symbol) == 0) &&
         try_case(d, &random, plan, v, &k, &message);
    unsetenv("FAKE_CUDA");
    if (!ok) {
        if (plan) {
            weft_plan_text(plan, text, sizeof text);
        }
        fprintf(stderr, "round %d, %s is wrong: %s\n%s", round, v->symbol, message.text, text);
    }
    weft_plan_destroy(plan);
    grouped_release(&k);
    return ok;
}

int main(int count, char **words) {
    const int small = count > 1 && strcmp(words[1], "small") == 0, given = count - small;
    const int first = given > 1 ? atoi(words[1 + small]) : 0;
    const int rounds = given > 2 ? atoi(words[2 + small]) : small ? SMALL_ROUNDS : ROUNDS;
    const weft_cuda_driver *d;
    weft_cuda_device gpu;
    weft_message message = {""};
    void *context;
    int wrong = 0, tried = 0, pushed;
    if (weft_cuda_driver_get(&d, &message) || weft_cuda_device_get(d, 0, &gpu, &message) || gpu.capability < 80) {
        fprintf(stderr, "skipped: %s\n", message.text[0] ? message.text : "a GPU of compute capability 8.0 is needed");
        return SKIPPED;
    }
    if (d->primary_retain(&context, gpu.handle) || weft_cuda_enter(d, context, &pushed, &message)) {
        fprintf(stderr, "the GPU cannot be used: %s\n", message.text);
        return 1;
    }
    for (int round = first; round < first + rounds; round++) {
        const kernel *v = &kernels[round % KERNELS];
        if (gpu.capability == 90 || !strstr(v->symbol, "sm90a")) {
            wrong += !one_round(d, v, round, small);
            tried++;
        }
    }
    weft_cuda_leave(d, pushed);
    d->primary_release(gpu.handle);
    printf("%d products, %d wrong\n", tried, wrong);
    return wrong != 0 || tried == 0;
}
