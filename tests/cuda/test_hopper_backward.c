/* Plans of the Hopper backward with the fake driver: their launches and parameters, from which the fake runs the reference
 * and nothing else; who takes turns; what is refused. */
#include "fake_images.h"

#include "backward_trial.h"

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

static weft_attention problem(void) {
    return plain_backward(1, 2, 1, 100, 500, 72, WEFT_BF16, WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
}

static void open_fake(void) {
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
}

static void nothing_left(void) {
    assert_int_equal(failures, 0);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

/* Features of the general form, and of the full one. */
static const int32_t general[] = {WEFT_HAS_WINDOW, WEFT_HAS_LENGTHS, WEFT_HAS_SOFTCAP, WEFT_HAS_CHUNK,  WEFT_HAS_BIAS,
                                  WEFT_HAS_SINKS,  WEFT_HAS_PREFIX,  WEFT_HAS_ALIBI,   WEFT_HAS_DROPOUT};
enum { GENERAL = sizeof general / sizeof *general };

/* Any mask, sweep and dispatch: the parameters say all of the problem, and every block of queries gets all of its adds. */
static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(242);
    static drawn_lengths lengths;
    open_fake();
    for (int round = 0; random_round(&random, &round, 20); round++) {
        static const weft_mask masks[] = {WEFT_MASK_NONE, WEFT_MASK_CAUSAL, WEFT_MASK_CAUSAL_BOTTOM_RIGHT};
        weft_attention p = problem();
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.batch = random_between(&random, 1, 2);
        p.seq = random_between(&random, 1, 100);
        p.kv_seq = random_between(&random, 1, 280);
        p.head_dim = p.head_dim_v = random_between(&random, 0, 3) ? 8 : 72;
        p.dtype = round / 2 % 2 ? WEFT_BF16 : WEFT_FP16;
        p.mask = masks[round % 3];
        p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -100, 100) : 0;
        int32_t bits = round % 2 ? 0 : general[round / 2 % GENERAL] | general[round / 6 % GENERAL];
        /* The reference, which the fake runs, has queries that do not count in the gradient of a sink: here they are NaN.
         */
        bits &= bits & WEFT_HAS_SINKS ? ~WEFT_HAS_LENGTHS : ~0;
        if (bits & WEFT_HAS_WINDOW) {
            draw_mask(&random, &p);
        }
        draw_features(&random, &p, bits, 64, &lengths);
        p.head_dim_v = p.head_dim;
        const int causal = p.mask == WEFT_MASK_CAUSAL || p.mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
        s.sweep = 1 + round % WEFT_SWEEPS;
        s.sweep = weft_sweep_folds(s.sweep) && (!causal || p.sequences > 0) ? WEFT_SWEEP_SHIFT : s.sweep;
        s.order = (int32_t)random_between(&random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_LONGEST_FIRST);
        s.domains = random_between(&random, 0, 3);
        s.dispatch = 1 + round / 6 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 0, 7);
        gradients x = gradients_new(&p, &lengths, random_between(&random, 0, 1) ? 8 : 0, 1, &random);
        gradients_run(&x, round % 5 ? &s : NULL, "hopper_backward", round % 2);
        gradients_free(&x);
        nothing_left();
    }
}

/* Workers that wait for each other are launched together: not where each waits for those that began before it. */
static void launches(void **state) {
    (void)state;
    uint64_t random = random_seed(243);
    static drawn_lengths none;
    const weft_device device = gpu();
    weft_attention p = problem();
    weft_plan *plan;
    open_fake();
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    for (int grid = 0; grid < 2; grid++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.dispatch = grid ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_CHOOSE;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        const weft_cuda_plan *c = plan->placed;
        assert_int_equal(c->pass_count, 3);
        assert_string_equal(weft_plan_kernel(plan), "attention_backward_bf16_d128__hopper_main");
        assert_int_equal(plan->schedule.sweep, grid ? WEFT_SWEEP_FORWARD : WEFT_SWEEP_SHIFT);
        assert_int_equal(plan->schedule.dispatch, grid ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_DYNAMIC);
        assert_int_equal(weft_plan_workspace(plan), 4 * 2 * 2 * (64 * 128 + 2 * 64 + 1) + 2 * 2 * 2 * plan->walk.cols);
        const int before = counts()->launches, together = counts()->cooperative;
        assert_int_equal(weft_plan_run(plan, &x.data, NULL), WEFT_OK);
        assert_int_equal(counts()->launches - before, 3);
        assert_int_equal(counts()->cooperative - together, grid ? 0 : 1);
        weft_plan_destroy(plan);
    }
    gradients_free(&x);
    nothing_left();
}

/* A form takes what the ones before it have not, and no other problem; tiles shift where lengths are known. */
static void forms(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 40, 100};
    const struct {
        int32_t mask, chunk, prefix, packed, extras, form, sweep;
        double softcap, dropout;
    } rows[] = {
        {WEFT_MASK_NONE, 0, 0, 0, 0, 0, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, 0, 0, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_WINDOW, 0, 0, 0, 0, 1, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 64, 0, 0, 0, 1, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 9, 0, 0, 1, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 1, 0, 1, WEFT_SWEEP_CLIMB, 0, 0},
        {WEFT_MASK_NONE, 0, 0, 0, WEFT_KV_USED, 1, WEFT_SWEEP_CLIMB, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_KV_PAD, 1, WEFT_SWEEP_CLIMB, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_SINKS, 1, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_ALIBI, 1, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_NONE, 0, 0, 0, 0, 1, WEFT_SWEEP_SHIFT, 30, 0},
        {WEFT_MASK_NONE, 0, 0, 0, WEFT_BIAS, 2, WEFT_SWEEP_SHIFT, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 1, 0, 2, WEFT_SWEEP_CLIMB, 30, 0.5},
    };
    static const char *const forms_of_kernels[] = {"attention_backward_bf16_d64__hopper_main",
                                                   "attention_backward_bf16_d64__hopper_general_main",
                                                   "attention_backward_bf16_d64__hopper_full_main"};
    const weft_device device = gpu();
    weft_plan *plan;
    open_fake();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_attention p = plain_backward(1, 2, 1, 100, 300, 64, WEFT_BF16, (weft_mask)rows[i].mask);
        p.left = rows[i].mask == WEFT_MASK_WINDOW ? 20 : 0;
        p.chunk = rows[i].chunk;
        p.prefix = rows[i].prefix;
        p.sequences = rows[i].packed ? 2 : 0;
        p.lengths.q_starts = rows[i].packed ? starts : NULL;
        p.extras = rows[i].extras;
        p.softcap = rows[i].softcap;
        p.dropout = rows[i].dropout;
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        assert_string_equal(weft_plan_kernel(plan), forms_of_kernels[rows[i].form]);
        assert_int_equal(plan->schedule.sweep, rows[i].sweep);
        assert_int_equal(plan->schedule.dispatch, WEFT_DISPATCH_DYNAMIC);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* Every order of heads has turns, with any number of workers. */
static void orders(void **state) {
    (void)state;
    uint64_t random = random_seed(244);
    static drawn_lengths none;
    open_fake();
    for (int32_t order = WEFT_ORDER_BLOCK_FIRST; order <= WEFT_ORDER_LONGEST_FIRST; order++) {
        for (int i = 0; i < 2; i++) {
            weft_attention p = plain_backward(2, 6, 3, 70, 260, 8, WEFT_BF16, i ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE);
            weft_schedule s = WEFT_SCHEDULE_INIT;
            s.order = order;
            s.workers = 1 + order % 3;
            gradients x = gradients_new(&p, &none, 0, 1, &random);
            gradients_run(&x, &s, "hopper_backward", 0);
            gradients_free(&x);
            nothing_left();
        }
    }
}

static void is_refused(const weft_attention *p, const weft_schedule *s, const char *expected) {
    weft_device device = gpu();
    weft_message message = {""};
    weft_plan *plan;
    device.kernel = "hopper_backward";
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, expected)) {
        fail_msg("%s, not: %s", message.text, expected);
    }
}

/* What it has not is refused by name, and another kernel takes it where none is named. */
static void refusals(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = problem();
    weft_plan *plan;
    open_fake();
    p.softcap = 1e4;
    is_refused(&p, NULL, "it takes softcaps from 1e-6 to 1000, not 10000");
    p = problem();
    p.extras = WEFT_TREE;
    p.seq = 60;
    is_refused(&p, NULL, "it has no tree masks");
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_non_null(strstr(weft_plan_kernel(plan), "__study"));
    weft_plan_destroy(plan);
    p = problem();
    p.head_dim = p.head_dim_v = 192;
    is_refused(&p, NULL, "for head_dim 192");
    p = problem();
    p.scale = -1;
    is_refused(&p, NULL, "it takes scales from 1e-30 to 1e30, not -1");
    p = problem();
    p.kv_seq = INT64_C(1) << 23;
    is_refused(&p, NULL, "it takes up to 65535 blocks of 128 keys");
    p = problem();
    s.tile_m = s.tile_n = 64;
    is_refused(&p, &s, "it has no tiles of 64x64");
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters), cmocka_unit_test(launches), cmocka_unit_test(forms),
        cmocka_unit_test(orders),     cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
