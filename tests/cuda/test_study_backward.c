/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the portable backward with the fake driver: their launches and parameters, from which the fake runs the
 * reference and nothing else; their workspace; and what is refused. */
#include "fake_images.h"

#include "backward_trial.h"

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

/* With the portable kernels named: others take most of what they take. */
static weft_device study(void) {
    weft_device device = gpu();
    device.kernel = "study";
    return device;
}

static weft_attention plain(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = 100;
    p.kv_seq = 150;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL;
    return p;
}

static void open_fake(const char *text) {
    script(text);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
}

static void nothing_left(void) {
    assert_int_equal(failures, 0);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
}

/* Every feature with another, under any schedule: the parameters of the launches say all of the problem. */
static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(94);
    static drawn_lengths lengths;
    open_fake(NULL);
    for (int round = 0; random_round(&random, &round, 2 * FEATURES); round++) {
        weft_attention p = plain();
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.batch = random_between(&random, 1, 2);
        p.seq = random_between(&random, 1, 90);
        p.kv_seq = random_between(&random, 1, 90);
        p.head_dim = 8 * random_between(&random, 1, 16);
        p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
        draw_mask(&random, &p);
        draw_features(&random, &p, draw_pair(&random, round) & ~(WEFT_HAS_LARGE_DIM | WEFT_HAS_MAX), 64, &lengths);
        s.order = (int32_t)random_between(&random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_CUSTOM);
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 0, 7);
        gradients x = gradients_new(&p, &lengths, random_between(&random, 0, 8), 1, &random);
        gradients_run(&x, round % 3 ? &s : NULL, round % 4 ? "study" : "study:ctas=1", round % 2);
        gradients_free(&x);
        nothing_left();
    }
}

/* One plan, and a launch after the other with other lengths: nothing of them is in the plan. Each launch has counters of
 * its own. */
static void launches(void **state) {
    (void)state;
    uint64_t random = random_seed(95);
    static drawn_lengths none;
    const weft_device device = study();
    weft_attention p = plain();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    char text[4096];
    open_fake(NULL);
    p.extras = WEFT_SINKS;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    const weft_cuda_plan *c = plan->placed;
    assert_int_equal(c->pass_count, 3);
    assert_string_equal(weft_plan_kernel(plan), "attention_backward_bf16_d64_64x64__study_dk_dv");
    assert_true(c->passes[0].walk.order.count == 4 * 2 && c->main->walk.order.count == 2 * 3 && c->passes[2].grid == 4);
    assert_true(c->main->walk.order.kind == WEFT_ORDER_HEAD_FIRST && c->passes[0].walk.order.kind == WEFT_ORDER_REVERSE);
    assert_int_equal(weft_plan_workspace(plan), 2 * sizeof(float) * 4 * 100);
    weft_plan_json(plan, text, sizeof text);
    assert_non_null(strstr(text, "\"launches\": [\"attention_backward_bf16_d64_64x64__study_dq\", "));
    assert_non_null(strstr(text, "\"workspace\": 3200"));
    weft_plan_text(plan, text, sizeof text);
    assert_non_null(strstr(text, "_dq, attention_backward_bf16_d64_64x64__study_dk_dv, "));
    const int before = counts()->launches;
    assert_int_equal(weft_plan_enqueue(plan, &x.data, (void *)0x100, NULL), WEFT_OK);
    assert_int_equal(counts()->launches - before, 3);
    weft_plan_destroy(plan);
    gradients_run(&x, &s, "study", 0);
    gradients_free(&x);
    nothing_left();
}

/* Lengths that the problem has are in the plan's device memory for every launch, not in the host's. */
static void known_lengths(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 40, 100};
    const weft_device device = study();
    weft_attention p = plain();
    weft_plan *plan;
    open_fake(NULL);
    p.kv_seq = 100;
    p.sequences = 2;
    p.lengths.q_starts = starts;
    p.extras = WEFT_SINKS;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    const weft_cuda_plan *c = plan->placed;
    assert_int_equal(c->pass_count, 3);
    for (int i = 0; i < c->pass_count; i++) {
        assert_int_equal((uintptr_t)c->passes[i].walk.reach.sequences.lengths.q_starts, c->lengths);
    }
    weft_plan_destroy(plan);
    nothing_left();
}

static void run_is(const weft_plan *plan, const gradients *x, const char *expected) {
    weft_message message = {""};
    assert_int_equal(weft_plan_run(plan, &x->data, &message), expected ? WEFT_INVALID : WEFT_OK);
    if (expected && !strstr(message.text, expected)) {
        fail_msg("%s", message.text);
    }
}

static void workspaces(void **state) {
    (void)state;
    uint64_t random = random_seed(96), workspace;
    static drawn_lengths none;
    const weft_device device = study();
    weft_attention p = plain();
    weft_plan *plan, *bare;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    open_fake(NULL);
    p.extras = WEFT_SINKS;
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    options.device = &device;
    assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
    const int with = counts()->allocations;
    options.brings_workspace = 1;
    assert_int_equal(weft_plan_create(&bare, &p, &options, NULL), WEFT_OK);
    assert_int_equal(counts()->allocations, with); /* it has none of its own */
    run_is(plan, &x, NULL);
    run_is(bare, &x, "workspace is null, and the plan has none");
    script("capture=7");
    run_is(plan, &x, "workspace is null: a captured run brings 3200 bytes");
    assert_int_equal(driver->memory_new(&workspace, weft_plan_workspace(plan)), 0);
    x.data.workspace = (void *)(uintptr_t)workspace;
    run_is(plan, &x, NULL);
    script(NULL);
    run_is(bare, &x, NULL);
    x.data.workspace = (void *)(uintptr_t)(workspace + 8);
    run_is(plan, &x, "workspace is not aligned to 16 bytes");
    x.data.workspace = &random;
    run_is(plan, &x, "workspace is ");
    x.data.workspace = NULL;
    x.data.lse = NULL;
    x.data.o = NULL;
    run_is(plan, &x, "o is null, and is not computed again on a GPU");
    weft_plan_destroy(plan);
    weft_plan_destroy(bare);
    assert_int_equal(driver->memory_free(workspace), 0);
    gradients_free(&x);
    script("memory=2");
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_NO_MEMORY);
    script(NULL);
    p.operation = WEFT_ATTENTION;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_workspace(plan), 0);
    weft_plan_destroy(plan);
    nothing_left();
}

static void taken(const weft_attention *p, const char *symbol) {
    const weft_device device = study();
    weft_message message = {""};
    weft_plan *plan;
    if (plan_on(&plan, p, NULL, NULL, &device, &message)) {
        fail_msg("%s", message.text);
    }
    assert_string_equal(weft_plan_kernel(plan), symbol);
    weft_plan_destroy(plan);
}

static void refused(const weft_attention *p, const char *kernel, const weft_schedule *s, const char *expected) {
    weft_device device = gpu();
    weft_message message = {""};
    weft_plan *plan;
    device.kernel = kernel;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, expected)) {
        fail_msg("%s", message.text);
    }
}

static void choices(void **state) {
    (void)state;
    weft_attention p = plain();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    open_fake(NULL);
    taken(&p, "attention_backward_bf16_d64_64x64__study_dk_dv");
    p.dtype = WEFT_FP16;
    p.head_dim = 72;
    taken(&p, "attention_backward_fp16_d128_64x64__study_dk_dv");
    p.head_dim = 192;
    p.head_dim_v = 128;
    taken(&p, "attention_backward_fp16_d192_64x64__study_dk_dv");
    p.head_dim_v = 192;
    taken(&p, "attention_backward_fp16_d256_64x64__study_dk_dv");
    script("shared=101376"); /* of chips that have less */
    taken(&p, "attention_backward_fp16_d256_32x32__study_dk_dv");
    script(NULL);
    p.head_dim = 264;
    refused(&p, NULL, NULL, "study: it has no head dims above 256");
    p = plain();
    refused(&p, "study:precise", NULL, "it has no precise math");
    p.dtype = WEFT_FP32;
    refused(&p, NULL, NULL, "it has no dtypes other than fp16 and bf16");
    p = plain();
    p.k_strides = (weft_strides){0, 64, 0};
    refused(&p, NULL, NULL, "it has no gradients of inputs that a stride of 0 repeats");
    p = plain();
    s.tile_m = 256;
    refused(&p, NULL, &s, "tile 256x0 for head_dim 64 (V: 64) is not compiled");
    s.tile_m = 0;
    s.cluster_m = 2;
    refused(&p, NULL, &s, "it has no clusters");
    s.cluster_m = 0;
    s.sweep = WEFT_SWEEP_SHIFT;
    refused(&p, "study", &s, "it has no sweep shift");
    p.block_rows = 48;
    p.block_columns = 64;
    p.extras = WEFT_BLOCKS;
    refused(&p, NULL, NULL, "no tile of 64x64 divides a mask's blocks of 48 queries x 64 keys");
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters), cmocka_unit_test(launches),
                                       cmocka_unit_test(known_lengths), cmocka_unit_test(workspaces),
                                       cmocka_unit_test(choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
