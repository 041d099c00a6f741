/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM with the fake driver: which variant is taken on which chip, and what is refused. What the parameters of
 * a launch say is held to the reference by portable_gemm_fake. */
#include "fake_images.h"

#include <stdio.h>
#include <string.h>

#include "../plans.h"
#include "cuda/gemm/params.h"
#include "cuda/plan/backend.h"

static weft_device portable(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "portable_gemm";
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

static weft_gemm square(int64_t length) {
    weft_gemm p = small();
    p.m = p.n = p.k = length;
    return p;
}

/* Whether a plan for any family is of such a kernel. */
static void takes(const char *chip, const weft_gemm *p, const char *kernel) {
    weft_device device = portable();
    weft_message message = {""};
    weft_plan *plan;
    script(chip);
    device.kernel = NULL;
    if (plan_on(&plan, p, NULL, NULL, &device, &message) != WEFT_OK) {
        fail_msg("%s: %s", chip, message.text);
    }
    assert_string_equal(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, kernel);
    weft_plan_destroy(plan);
}

#define A100    "capability=80 sms=108 l2=41943040 shared=166912"
#define B200    "capability=100 sms=148 l2=132644864 shared=232448"
#define RTX5090 "capability=120 sms=170 l2=100663296 shared=101376"
#define GB10    "capability=121 sms=48 l2=25165824 shared=101376"

/* On every other chip than Hopper, and on Hopper where its own kernels take no such lines. */
static void choices(void **state) {
    (void)state;
    weft_gemm p = square(8192);
    takes(A100, &p, "gemm_bf16_kk_128x256__portable");
    takes(B200, &p, "gemm_bf16_kk_128x256__portable");
    takes(RTX5090, &p, "gemm_bf16_kk_128x256__portable");
    takes(GB10, &p, "gemm_bf16_kk_128x256__portable");
    p.b_major = WEFT_ROW_MAJOR;
    takes(GB10, &p, "gemm_bf16_kn_128x256__portable");
    p.a_major = WEFT_COL_MAJOR;
    p.dtype = WEFT_FP16;
    takes(GB10, &p, "gemm_fp16_mn_128x256__portable");
    p.a_major = WEFT_ROW_MAJOR;
    p.c_major = WEFT_COL_MAJOR; /* its A is B */
    takes(GB10, &p, "gemm_fp16_mk_128x256__portable");
    p = square(512);
    takes(RTX5090, &p, "gemm_bf16_kk_64x64__portable"); /* 64 tiles: larger ones would leave more SMs idle */
    p = square(2048);
    p.n = 128;
    takes(GB10, &p, "gemm_bf16_kk_64x64__portable");
    p.n = 384; /* 24 tiles of 256x128, or 48 of 128x128 */
    takes(GB10, &p, "gemm_bf16_kk_128x128__portable");
    p.m = 128;
    p.n = 12288; /* 48 tiles of 128x256 */
    takes(GB10, &p, "gemm_bf16_kk_128x256__portable");
    p = small();
    p.lda = 73; /* a copy of it is read */
    takes(NULL, &p, "gemm_bf16_kk_128x64__sm90a");
    takes(A100, &p, "gemm_bf16_kk_64x64__portable");
    p.lda = 0;
    p.c_dtype = WEFT_FP32; /* lines of C may begin anywhere, too */
    p.ldc = 145;
    takes(NULL, &p, "gemm_bf16_kk_64x64__portable");
    p = small();
    p.k = 35; /* lines that do not end at a multiple of 16 bytes, though they begin there */
    p.lda = p.ldb = 40;
    takes(A100, &p, "gemm_bf16_kk_128x128_any__portable");
    p = small();
    p.k = 35;
    p.lda = p.ldb = 37; /* copies end with zeros */
    takes(A100, &p, "gemm_bf16_kk_64x64__portable");
    p.batch = 2;
    p.k = p.lda = p.ldb = 40;
    p.a_stride = 8003;
    takes(A100, &p, "gemm_bf16_kk_64x64__portable");
    script(NULL);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

static void refused(const weft_gemm *p, const weft_schedule *s, weft_status expected, const char *text) {
    const weft_device device = portable();
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

static void no_kernel_fits(void **state) {
    (void)state;
    weft_gemm p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    script(NULL);
    p.k = 0;
    refused(&p, NULL, WEFT_INVALID, "k 0 is not between 1 and");
    p = small();
    p.m = WEFT_MAX_DIMENSION;
    refused(&p, NULL, WEFT_UNSUPPORTED, "it takes dimensions up to 2147479551");
    p = small();
    s.cluster_m = 2;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no clusters");
    s.cluster_m = 1;
    s.split = 2;
    refused(&p, &s, WEFT_UNSUPPORTED, "it does not share out the steps of a tile");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.sweep = WEFT_SWEEP_PAIR;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no pair sweep");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.tile_m = 256;
    s.tile_n = 256;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 256x256x0; for this product there are 128x256x32 256x128x32");
    p.k = 35;
    p.lda = p.ldb = 40;
    s.tile_n = 128;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 256x128x0; for this product there are 128x128x32");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.tile_k = 64;
    refused(&p, &s, WEFT_UNSUPPORTED, "it has no tiles of 0x0x64");
    p = small();
    script("shared=32768");
    refused(&p, NULL, WEFT_UNSUPPORTED, "its tiles need more shared memory than this GPU has");
    script("capability=75");
    refused(&p, NULL, WEFT_UNSUPPORTED, "compute capability 7.5, and 8.0 is needed");
    script(NULL);
}

/* The order that a plan has where it is left open: a wave of tiles reads about as many rows as columns. */
static void orders(void **state) {
    (void)state;
    const weft_gemm p = square(8192);
    const weft_device device = portable();
    weft_schedule s = WEFT_SCHEDULE_INIT, found;
    weft_plan *plan;
    script(A100);
    for (int i = 0; i < 2; i++) {
        s.axis = i ? WEFT_AXIS_M : WEFT_AXIS_N;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        found = weft_plan_schedule(plan);
        assert_int_equal(found.order, WEFT_ORDER_SERPENTINE);
        assert_int_equal(found.dispatch, WEFT_DISPATCH_STATIC);
        assert_int_equal(found.tile_k, 32);
        assert_int_equal(found.group, i ? 15 : 7); /* of 108 workers: 7 x 256 columns and 15 x 128 rows */
        weft_plan_destroy(plan);
    }
    s.workers = 8;
    s.order = WEFT_ORDER_HILBERT;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    found = weft_plan_schedule(plan);
    assert_true(found.workers == 8 && found.order == WEFT_ORDER_HILBERT);
    weft_plan_destroy(plan);
    script(NULL);
}

/* Every tile that takes a product is a candidate for tuning. */
static void candidates(void **state) {
    (void)state;
    weft_schedule list[8];
    weft_plan draft;
    weft_gemm p = square(1024);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_device device = portable();
    script(GB10);
    device.kernel = NULL;
    p.c_major = WEFT_COL_MAJOR;
    assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
    assert_int_equal(weft_cuda_candidates(&draft, list, 8), 4);
    assert_true(list[0].tile_m == 256 && list[0].tile_n == 128);
    assert_int_equal(weft_cuda_candidates(&draft, list, 3), 3);
    p.k = 1021;
    p.lda = p.ldb = 1024;
    assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
    assert_int_equal(weft_cuda_candidates(&draft, list, 8), 1);
    script(NULL);
}

/* Every operation has a kernel on every chip. */
static void operations(void **state) {
    (void)state;
    static const char *const chips[] = {NULL, A100, B200, RTX5090, GB10};
    weft_attention forward = WEFT_ATTENTION_INIT;
    forward.seq = forward.kv_seq = 1024;
    forward.heads = forward.kv_heads = 4;
    forward.head_dim = 128;
    forward.dtype = WEFT_BF16;
    forward.mask = WEFT_MASK_CAUSAL;
    weft_attention backward = forward, decode = forward;
    backward.operation = WEFT_ATTENTION_BACKWARD;
    decode.seq = 1;
    const weft_gemm product = square(1024);
    weft_combine combine = WEFT_COMBINE_INIT;
    combine.parts = 2;
    combine.heads = 4;
    combine.seq = 64;
    combine.head_dim = 128;
    combine.dtype = combine.o_dtype = WEFT_BF16;
    const void *const problems[] = {&forward, &backward, &decode, &product, &combine};
    weft_device device = portable();
    device.kernel = NULL;
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        script(chips[i]);
        for (size_t j = 0; j < sizeof problems / sizeof *problems; j++) {
            weft_message message = {""};
            weft_plan *plan;
            if (plan_on(&plan, problems[j], NULL, NULL, &device, &message) != WEFT_OK) {
                fail_msg("problem %zu on \"%s\": %s", j, chips[i] ? chips[i] : "a Hopper", message.text);
            }
            assert_true(chips[i] == NULL || !strstr(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, "sm90a"));
            weft_plan_destroy(plan);
        }
    }
    script(NULL);
    assert_int_equal(counts()->allocations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),    cmocka_unit_test(no_kernel_fits), cmocka_unit_test(orders),
        cmocka_unit_test(candidates), cmocka_unit_test(operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
