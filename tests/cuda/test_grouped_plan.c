/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products with the fake driver: which variant is taken, what is refused, and where bounds lie. Results are held to
 * the reference by grouped_fake. */
#include "fake_images.h"

#include <string.h>

#include "../plans.h"
#include "cuda/plan/backend.h"
#include "order/groups.h"

static weft_device gpu(const char *kernel) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = kernel;
    return device;
}

static weft_grouped_gemm experts(int64_t groups, int64_t rows) {
    weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
    p.groups = groups;
    p.rows = rows;
    p.n = 512;
    p.k = 256;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    return p;
}

/* The tile is chosen by the mean of what is known: rows of all groups, or those of each. */
static void takes(const weft_grouped_gemm *p, const char *kernel) {
    const weft_device device = gpu(NULL);
    weft_message message = {""};
    weft_plan *plan;
    if (plan_on(&plan, p, NULL, NULL, &device, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    assert_string_equal(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, kernel);
    assert_int_equal(plan->schedule.order, WEFT_ORDER_GROUP);
    assert_int_equal(plan->schedule.axis, WEFT_AXIS_M);
    assert_int_equal(weft_groups_step(&plan->walk), plan->schedule.group * plan->schedule.cluster_m);
    weft_plan_destroy(plan);
}

static void choices(void **state) {
    (void)state;
    weft_grouped_gemm p = experts(64, 64 * 300);
    script("sms=132 l2=62914560");
    p.n = 4096;
    p.k = 7168;
    takes(&p, "grouped_bf16_kk_128x256__sm90a");
    p = experts(8, 800);
    p.n = p.k = 1024;
    takes(&p, "grouped_bf16_kk_128x128__sm90a"); /* 256 columns would leave more SMs idle */
    p.rows = 8000;
    p.n = 4096;
    p.k = 7168;
    p.layout = WEFT_GROUPS_MASKED;
    takes(&p, "grouped_bf16_kk_128x256__sm90a");
    const int32_t few[] = {90, 0, 140, 164, 7, 128, 99, 60};
    p.counts = few; /* short, though there is room for many */
    takes(&p, "grouped_bf16_kk_128x128__sm90a");
    p = experts(4, 600);
    p.k = 100; /* lines that the copy engine does not take */
    takes(&p, "grouped_bf16_kk_128x128_any__portable");
    p.b_major = WEFT_ROW_MAJOR;
    p.dtype = WEFT_FP16;
    p.c_dtype = WEFT_FP32;
    takes(&p, "grouped_fp16_kn_128x128_any__portable");
    assert_int_equal(counts()->allocations, 0);
}

static void refused(const weft_grouped_gemm *p, const weft_schedule *s, const char *kernel, const char *text) {
    const weft_device device = gpu(kernel);
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    assert_null(plan);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", message.text, text);
    }
}

static void no_kernel_fits(void **state) {
    (void)state;
    static const char *const families[] = {"hopper_grouped", "portable_grouped"};
    script(NULL);
    for (int i = 0; i < 2; i++) {
        weft_grouped_gemm p = experts(4, 100);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.dtype = WEFT_FP32;
        refused(&p, NULL, families[i], "it takes bf16 and fp16, not fp32");
        p = experts(4, 100);
        p.k = WEFT_MAX_DIMENSION / 2 * 2;
        refused(&p, NULL, families[i], "it takes dimensions up to 2147479551");
        p = experts(4, 100);
        s.sweep = WEFT_SWEEP_PAIR;
        refused(&p, &s, families[i], "it has no pair sweep");
        s = (weft_schedule)WEFT_SCHEDULE_INIT;
        s.split = 2;
        refused(&p, &s, families[i], "it does not share out the steps of a tile");
        s = (weft_schedule)WEFT_SCHEDULE_INIT;
        s.tile_m = 96;
        refused(&p, &s, families[i], "it has no tiles of 96x0");
        s = (weft_schedule)WEFT_SCHEDULE_INIT;
        s.cluster_m = 4;
        refused(&p, &s, families[i], i ? "it has no clusters" : "it has no tiles of 0x0 in clusters of 4x1");
    }
    weft_grouped_gemm p = experts(4, 100);
    p.lda = 257;
    refused(&p, NULL, "hopper_grouped", "lda 257 is not a multiple of 8");
    p = experts(4, 100);
    p.b_stride = 512 * 256 + 4;
    refused(&p, NULL, "hopper_grouped", "b_stride 131076 is not a multiple of 8");
    p = experts(4, 100);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_k = 32;
    refused(&p, &s, "hopper_grouped", "its steps are 64 of k, not 32");
}

/* Bounds that the plan knows are in its own memory, and the run brings none. */
static void plans_keep_bounds(void **state) {
    (void)state;
    int32_t starts[] = {0, 3, 3, 90, 100};
    const weft_device device = gpu(NULL);
    weft_grouped_gemm p = experts(4, 100);
    weft_plan *plan;
    weft_buffer buffer = WEFT_BUFFER_INIT;
    script(NULL);
    assert_int_equal(weft_problem_buffer(&p, 3, &buffer, NULL), WEFT_OK);
    assert_string_equal(buffer.name, "starts");
    assert_int_equal(buffer.elements, 5);
    p.starts = starts;
    assert_int_equal(weft_problem_buffer(&p, 3, &buffer, NULL), WEFT_NOT_FOUND);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    starts[1] = 77; /* the plan has a copy */
    assert_int_equal(((const weft_grouped_gemm *)weft_plan_problem(plan))->starts[1], 3);
    const int32_t *there = (const int32_t *)(uintptr_t)((const weft_cuda_plan *)plan->placed)->lengths;
    assert_non_null(there); /* the fake driver's memory is the host's */
    assert_int_equal(there[1], 3);
    assert_int_equal(there[4], 100);
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices), cmocka_unit_test(no_kernel_fits),
                                       cmocka_unit_test(plans_keep_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
