/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation on every chip of fake_chips.def: that there is a plan, which family of kernels it takes, that its
 * launches fit the chip, and that what is refused is refused by name. */
#include "fake_images.h"

#include <stdio.h>
#include <string.h>

#include "../plans.h"
#include "cuda/plan/backend.h"

typedef struct chip {
    const char *machine, *name;
    int capability, sms, shared, l2, clock;
} chip;

static const chip chips[] = {
#define FAKE_CHIP(...) {__VA_ARGS__},
#include "fake_chips.def"
#undef FAKE_CHIP
};
enum { CHIPS = sizeof chips / sizeof *chips };

/* ---- problems ---- */

static weft_problem attention(int64_t seq, int64_t kv_seq, int64_t head_dim, int64_t head_dim_v) {
    weft_problem p = {.attention = WEFT_ATTENTION_INIT};
    p.attention.batch = 2;
    p.attention.heads = 8;
    p.attention.kv_heads = 2;
    p.attention.seq = seq;
    p.attention.kv_seq = kv_seq;
    p.attention.head_dim = head_dim;
    p.attention.head_dim_v = head_dim_v;
    p.attention.dtype = WEFT_BF16;
    p.attention.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    return p;
}

static weft_problem backward(int64_t head_dim, int64_t head_dim_v) {
    weft_problem p = attention(512, 512, head_dim, head_dim_v);
    p.attention.operation = WEFT_ATTENTION_BACKWARD;
    return p;
}

/* A few queries over a cache in pages. */
static weft_problem cached(int64_t seq, int64_t append, int64_t head_dim, int64_t head_dim_v) {
    weft_problem p = attention(seq, 8192, head_dim, head_dim_v);
    p.attention.cache.page = 64;
    p.attention.cache.append = append;
    p.attention.cache.rotary_dim = append > 0 ? head_dim / 16 * 8 : 0;
    p.attention.cache.rotary_rows = append > 0 ? 8192 : 0;
    return p;
}

/* The same over a cache that all heads share, with queries for the values. */
static weft_problem latent(void) {
    weft_problem p = cached(1, 0, 64, 512);
    p.attention.heads = 16;
    p.attention.kv_heads = 1;
    p.attention.extras = WEFT_QV;
    return p;
}

static weft_problem with_features(void) {
    weft_problem p = attention(300, 300, 128, 0);
    p.attention.mask = WEFT_MASK_WINDOW;
    p.attention.left = 100;
    p.attention.softcap = 30;
    p.attention.dropout = 0.1;
    p.attention.extras = WEFT_SINKS | WEFT_ALIBI | WEFT_BIAS;
    p.attention.bias_type = WEFT_BIAS_DTYPE;
    return p;
}

static weft_problem gemm(int64_t size, weft_major a, weft_major b, weft_dtype dtype) {
    weft_problem p = {.gemm = WEFT_GEMM_INIT};
    p.gemm.m = p.gemm.n = p.gemm.k = size;
    p.gemm.a_major = a;
    p.gemm.b_major = b;
    p.gemm.dtype = p.gemm.c_dtype = dtype;
    return p;
}

static weft_problem fp32(int32_t precision, int64_t size) {
    weft_problem p = gemm(size, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_FP32);
    p.gemm.precision = precision;
    return p;
}

static weft_problem combine(void) {
    weft_problem p = {.combine = WEFT_COMBINE_INIT};
    p.combine.parts = 4;
    p.combine.batch = 2;
    p.combine.heads = 8;
    p.combine.seq = 100;
    p.combine.head_dim = 128;
    p.combine.dtype = p.combine.o_dtype = WEFT_BF16;
    return p;
}

static weft_problem grouped(int64_t rows, weft_major b, weft_dtype dtype) {
    weft_problem p = {.grouped = WEFT_GROUPED_GEMM_INIT};
    p.grouped.groups = 16;
    p.grouped.rows = rows;
    p.grouped.n = p.grouped.k = 4096;
    p.grouped.b_major = b;
    p.grouped.dtype = p.grouped.c_dtype = dtype;
    return p;
}

/* ---- plans ---- */

static weft_status plan_of(weft_plan **plan, int number, const weft_problem *p, const weft_schedule *s, const char *kernel,
                           weft_message *message) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.index = number;
    device.kernel = kernel;
    return plan_on(plan, p, s, NULL, &device, message);
}

/* A plan that there must be; the caller's to destroy. */
static weft_plan *planned(int number, const char *what, const weft_problem *p, const weft_schedule *s) {
    weft_plan *plan;
    weft_message message = {""};
    if (plan_of(&plan, number, p, s, NULL, &message)) {
        fail_msg("%s, %s: %s", chips[number].name, what, message.text);
    }
    return plan;
}

/* What a plan holds is of its chip. */
static void check(const weft_plan *plan, const chip *c, const char *what) {
    const weft_cuda_plan *placed = plan->placed;
    for (int i = 0; i < placed->pass_count; i++) {
        const weft_cuda_pass *pass = &placed->passes[i];
        const int is_hopper = strstr(pass->choice.image, "_sm90a") != NULL; /* knows its static memory to the byte */
        const int fixed = is_hopper ? 0 : WEFT_CUDA_STATIC_SHARED;
        if ((is_hopper && c->capability != 90) || (int)pass->choice.shared_bytes + fixed > c->shared || pass->ctas < 1 ||
            pass->grid < 1) {
            fail_msg("%s, %s: %s with %u bytes, %d CTAs an SM, a grid of %u", c->name, what, pass->choice.kernel,
                     pass->choice.shared_bytes, pass->ctas, pass->grid);
        }
    }
    assert_in_range(plan->schedule.workers, 1, (uintmax_t)c->sms * (uintmax_t)placed->main->ctas);
    assert_int_equal(plan->machine.workers, c->sms);
    assert_int_equal(plan->machine.l2_bytes * plan->machine.domains, c->l2);
}

static void nothing_left(void) {
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

/* The main kernel's family, and what its name holds. */
typedef struct expected {
    const char *family, *kernel;
} expected;

static void every_operation(void **state) {
    (void)state;
    script("chips=1");
    /* On Hopper, and on all others; a chip with 99 KiB has tiles of its own where they need more. */
    const struct {
        const char *what;
        weft_problem problem;
        expected hopper, others, least;
    } cases[] = {
        {"forward", attention(1024, 1024, 128, 0), {"hopper_attention", "d128"}, {"study", "d128_128x64"}, {0, 0}},
        {"forward, head dim 64", attention(1024, 1024, 64, 0), {"hopper_attention", ""}, {"study", "d64_"}, {0, 0}},
        {"forward, head dim 256", attention(200, 200, 256, 0), {"hopper_attention", ""}, {"study", "d256_"}, {0, 0}},
        {"forward, latent",
         attention(200, 200, 576, 512),
         {"study", "d576_64x32"},
         {"study", "d576_64x32"},
         {"study", "d576_32x16"}},
        {"forward, features", with_features(), {"study", "_general"}, {"study", "_general"}, {0, 0}},
        {"backward", backward(128, 0), {"hopper_backward", "d128"}, {"study", "d128_64x64"}, {0, 0}},
        {"backward, 192 and 128", backward(192, 128), {"hopper_backward", "d192"}, {"study", "d192_64x64"}, {0, 0}},
        {"backward, 256", backward(256, 0), {"hopper_backward", "d256"}, {"study", "d256_64x64"}, {"study", "d256_32x32"}},
        {"decode", cached(1, 0, 128, 0), {"decode", "d128_8_"}, {"decode", "d128_8_"}, {0, 0}},
        {"decode, 192",
         cached(1, 0, 192, 128),
         {"decode", "d192_8_alike"},
         {"decode", "d192_8_"},
         {"decode", "d192_8_small_alike"}},
        {"decode, 256",
         cached(1, 0, 256, 0),
         {"decode", "d256_8_alike"},
         {"decode", "d256_8_alike"},
         {"decode", "d256_8_small_alike"}},
        {"decode, appending", cached(1, 1, 128, 0), {"decode", "_append"}, {"decode", "_append"}, {0, 0}},
        {"decode, appending four",
         cached(4, 4, 256, 0),
         {"decode", "d256_8_append"},
         {"decode", "d256_8_append"},
         {"decode", "d256_8_small_append"}},
        {"decode, 576", cached(1, 0, 576, 512), {"study", "d576_32x16"}, {"study", "d576_32x16"}, {"study", "d576_32x16"}},
        {"a chunk of a prompt", cached(256, 256, 128, 0), {"hopper_attention", "_pages"}, {"study", "_general"}, {0, 0}},
        {"product", gemm(4096, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_BF16), {"hopper_gemm", ""}, {"portable_gemm", ""}, {0}},
        {"product, columns",
         gemm(4096, WEFT_COL_MAJOR, WEFT_COL_MAJOR, WEFT_FP16),
         {"hopper_gemm", "gemm_fp16_mk"},
         {"portable_gemm", "gemm_fp16_mk"},
         {0, 0}},
        {"small product",
         gemm(64, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_BF16),
         {"hopper_gemm", ""},
         {"portable_gemm", ""},
         {0}},
        {"odd product",
         gemm(1001, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_BF16),
         {"portable_gemm", "bf16_kk_"}, /* lines of C begin anywhere, too */
         {"portable_gemm", "bf16_kk_"},
         {0, 0}},
        {"product of fp32",
         fp32(WEFT_PRECISION_FP32, 1001),
         {"portable_gemm", "bf16_kk"},
         {"portable_gemm", "bf16_kk"},
         {0}},
        {"product of two parts",
         fp32(WEFT_PRECISION_BF16X3, 1000),
         {"hopper_gemm", "bf16_kk"},
         {"portable_gemm", "bf16_kk"},
         {0}},
        {"product by TF32", fp32(WEFT_PRECISION_TF32, 1000), {"hopper_gemm", "tf32_kk"}, {"portable_gemm", "tf32_kk"}, {0}},
        {"combine", combine(), {"combine", "combine_parts"}, {"combine", "combine_parts"}, {0, 0}},
        {"long groups",
         grouped(32768, WEFT_COL_MAJOR, WEFT_BF16),
         {"hopper_grouped", "grouped_bf16_kk_128x256"},
         {"portable_grouped", "grouped_bf16_kk_128x256"},
         {0, 0}},
        {"short groups",
         grouped(400, WEFT_ROW_MAJOR, WEFT_FP16),
         {"hopper_grouped", "grouped_fp16_kn"},
         {"portable_grouped", "grouped_fp16_kn"},
         {0, 0}},
    };
    int planned_for[WEFT_GROUPED_GEMM + 1] = {0};
    for (int i = 0; i < CHIPS; i++) {
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            const expected *e = chips[i].capability == 90                              ? &cases[n].hopper
                                : chips[i].shared < 100 << 10 && cases[n].least.family ? &cases[n].least
                                                                                       : &cases[n].others;
            weft_plan *plan = planned(i, cases[n].what, &cases[n].problem, NULL);
            const weft_cuda_plan *placed = plan->placed;
            if (strcmp(placed->family->name, e->family) != 0 || !strstr(placed->main->choice.kernel, e->kernel)) {
                fail_msg("%s, %s: %s of %s, not %s of %s", chips[i].name, cases[n].what, placed->main->choice.kernel,
                         placed->family->name, e->kernel, e->family);
            }
            check(plan, &chips[i], cases[n].what);
            planned_for[cases[n].problem.operation] = 1;
            weft_plan_destroy(plan);
        }
    }
#define WEFT_OPERATION(NUMBER, name) assert_true(planned_for[NUMBER]); /* an operation without a case here has none */
#include "problem/operations.def"
#undef WEFT_OPERATION
    nothing_left();
}

/* Whatever the head dim; backward passes end at 256. */
static void every_head_dim(void **state) {
    (void)state;
    script("chips=1");
    for (int i = 0; i < CHIPS; i++) {
        for (int64_t dim = 8; dim <= WEFT_MAX_HEAD_DIM; dim += 8) {
            const weft_problem some[] = {attention(200, 200, dim, 0 < dim - 512 ? 512 : 0),
                                         cached(1, 0, dim, 0 < dim - 512 ? 512 : 0), backward(dim, 0)};
            for (int n = 0; n < (dim <= 256 ? 3 : 2); n++) {
                char what[64];
                snprintf(what, sizeof what, "problem %d of head dim %d", n, (int)dim);
                weft_plan *plan = planned(i, what, &some[n], NULL);
                check(plan, &chips[i], what);
                weft_plan_destroy(plan);
            }
        }
    }
    nothing_left();
}

/* What a tuner would try can be had. */
static void every_candidate(void **state) {
    (void)state;
    script("chips=1");
    const weft_problem some[] = {attention(512, 512, 128, 0),
                                 attention(512, 512, 64, 0),
                                 attention(200, 200, 576, 512),
                                 backward(256, 0),
                                 gemm(2048, WEFT_ROW_MAJOR, WEFT_COL_MAJOR, WEFT_BF16),
                                 fp32(WEFT_PRECISION_FP32, 2048),
                                 fp32(WEFT_PRECISION_TF32, 2048),
                                 grouped(4096, WEFT_COL_MAJOR, WEFT_BF16)};
    for (int i = 0; i < CHIPS; i++) {
        for (size_t n = 0; n < sizeof some / sizeof *some; n++) {
            weft_schedule list[64];
            weft_plan *plan = planned(i, "a plan to tune", &some[n], NULL);
            weft_plan open = *plan; /* as the tuner asks: with an open schedule */
            open.schedule = (weft_schedule)WEFT_SCHEDULE_INIT;
            open.device.kernel = NULL;
            const size_t count = weft_cuda_candidates(&open, list, 64);
            weft_plan_destroy(plan);
            assert_in_range(count, 1, 64);
            for (size_t k = 0; k < count; k++) {
                char what[64];
                snprintf(what, sizeof what, "problem %d with tile %dx%d", (int)n, (int)list[k].tile_m, (int)list[k].tile_n);
                plan = planned(i, what, &some[n], &list[k]);
                check(plan, &chips[i], what);
                weft_plan_destroy(plan);
            }
        }
    }
    nothing_left();
}

/* ---- refusals ---- */

static void refused(int number, const weft_problem *p, const weft_schedule *s, const char *kernel, const char *text) {
    weft_plan *plan;
    weft_message message = {""};
    const weft_status status = plan_of(&plan, number, p, s, kernel, &message);
    assert_null(plan);
    if (status != WEFT_UNSUPPORTED || !strstr(message.text, text)) {
        fail_msg("%s: %d, %s, not %s", chips[number].name, (int)status, message.text, text);
    }
}

/* By the feature on every chip, and by the chip where another one has it. */
static void by_name(void **state) {
    (void)state;
    script("chips=1");
    const weft_problem plain = attention(256, 256, 128, 0), wide = backward(256, 0), grad = backward(128, 0),
                       deep = backward(320, 0), qv = latent(),
                       product = gemm(512, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_BF16),
                       fp8 = gemm(512, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_FP8);
    weft_problem single = plain, fp32_grad = grad;
    single.attention.dtype = fp32_grad.attention.dtype = WEFT_FP32;
    weft_schedule tile = WEFT_SCHEDULE_INIT, cluster = tile, split = tile, square = tile;
    tile.tile_m = 256;
    tile.tile_n = 128;
    square.tile_m = square.tile_n = 64;
    cluster.cluster_m = 2;
    split.split = 2;
    for (int i = 0; i < CHIPS; i++) {
        char of_chip[128];
        snprintf(of_chip, sizeof of_chip, "%s is of compute capability %d.%d, and 9.0 is needed", chips[i].name,
                 chips[i].capability / 10, chips[i].capability % 10);
        refused(i, &single, NULL, NULL, "study: dtype fp32 is not fp16 or bf16");
        refused(i, &fp32_grad, NULL, NULL, "study: it has no dtypes other than fp16 and bf16");
        refused(i, &fp8, NULL, NULL, "fp8 is not supported by cuda yet: only the simulator takes it");
        refused(i, &deep, NULL, NULL, "it has no head dims above 256");
        refused(i, &plain, &cluster, NULL, "study: it has no clusters");
        if (chips[i].capability == 90) {
            continue;
        }
        refused(i, &qv, NULL, NULL, "study: it has no queries for the values");
        refused(i, &qv, NULL, NULL, of_chip);
        refused(i, &single, NULL, NULL, of_chip);
        refused(i, &plain, &cluster, NULL, of_chip);
        refused(i, &plain, NULL, "hopper_attention", of_chip);
        refused(i, &grad, NULL, "hopper_backward", of_chip);
        refused(i, &product, NULL, "hopper_gemm", of_chip);
        refused(i, &qv, NULL, "mla", of_chip);
        refused(i, &product, &cluster, NULL, "portable_gemm: it has no clusters; hopper_gemm: ");
        refused(i, &product, &split, NULL, "portable_gemm: it does not share out the steps of a tile; hopper_gemm: ");
        if (chips[i].shared < 100 << 10) {
            refused(i, &plain, &tile, NULL, "study: tile 256x128 needs more shared memory than this GPU has");
            refused(i, &wide, &square, NULL,
                    "study: tile 64x64 for head_dim 256 (V: 256) needs more shared memory than this GPU has");
        }
    }
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation), cmocka_unit_test(every_head_dim),
                                       cmocka_unit_test(every_candidate), cmocka_unit_test(by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
