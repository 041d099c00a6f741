/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning on a GPU, with the fake driver: candidates come from the family's list, times from events, and nothing is left. */
#include "fake_images.h"

#include "../plans.h"
#include "../tune/stores.h"
#include "tune/search/candidates.h"
#include "tune/store/known.h"

#include <weft/tune.h>

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

static weft_attention small(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 150;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    return p;
}

static void nothing_left(void) {
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
}

/* Every tile that is compiled, under every order, sweep and dispatch; what the schedule fixes stays. */
static void candidates(void **state) {
    (void)state;
    script(NULL);
    const weft_attention p = small();
    weft_device device = gpu();
    device.kernel = "study";
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_candidates c;
    weft_plan draft;
    assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
    assert_int_equal(weft_candidates_make(&c, &draft, NULL, 0, NULL), WEFT_OK);
    int tiles = 0, dispatches[WEFT_DISPATCHES + 1] = {0};
    for (size_t i = 0; i < c.count; i++) {
        const weft_schedule made = weft_plan_schedule(c.list[i].plan);
        tiles += made.tile_m == 64 && made.tile_n == 128;
        dispatches[made.dispatch]++;
        for (size_t j = 0; j < i; j++) { /* all are different */
            const weft_schedule other = weft_plan_schedule(c.list[j].plan);
            assert_false(weft_schedule_same(&made, &other));
        }
    }
    assert_true(tiles > 5 && dispatches[1] > 20 && dispatches[2] > 20 && dispatches[3] > 20);
    assert_true(c.same > 0);
    weft_candidates_free(&c);

    s.tile_m = 64;
    s.tile_n = 64;
    s.dispatch = WEFT_DISPATCH_STATIC;
    assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
    assert_int_equal(weft_candidates_make(&c, &draft, NULL, 0, NULL), WEFT_OK);
    assert_true(c.count > 3);
    for (size_t i = 0; i < c.count; i++) {
        const weft_schedule made = weft_plan_schedule(c.list[i].plan);
        assert_true(made.tile_m == 64 && made.tile_n == 64 && made.dispatch == WEFT_DISPATCH_STATIC);
    }
    const size_t before = c.count; /* the simulator is asked where the backend has no model of its own */
    assert_int_equal(weft_candidates_drop(&c, 1e9, NULL), WEFT_OK);
    assert_int_equal(c.count, before);
    assert_true(c.list[0].model > 0);
    weft_candidates_free(&c);
    nothing_left();
}

static double cost_of(const weft_plan *plan) {
    return plan->backend->cost(plan);
}

/* No kernel that could take the problem is faster by the cost than the one that was chosen: the choice is by the cost. And
 * the tuner drops what is far behind by it, but never that choice. Returns how many it dropped. */
static size_t check_costs(const weft_plan *draft) {
    enum { SHAPES = 64 };
    weft_schedule shapes[SHAPES];
    weft_plan *own = NULL;
    assert_int_equal(weft_plan_lay_out(&own, draft, NULL, NULL), WEFT_OK);
    const double least = cost_of(own);
    assert_true(least > 0);
    const size_t count = draft->backend->candidates(draft, shapes, SHAPES);
    for (size_t i = 0; i < count; i++) {
        weft_plan one = *draft, *plan = NULL;
        one.schedule = shapes[i];
        assert_int_equal(weft_plan_lay_out(&plan, &one, NULL, NULL), WEFT_OK);
        const double cost = cost_of(plan);
        assert_true(cost >= least * (1 - 1e-9));
        weft_plan_destroy(plan);
    }
    const weft_schedule chosen = weft_plan_schedule(own);
    weft_plan_destroy(own);
    assert_true(count > 1);

    weft_candidates c;
    assert_int_equal(weft_candidates_make(&c, draft, NULL, 0, NULL), WEFT_OK);
    const size_t before = c.count;
    assert_int_equal(weft_candidates_drop(&c, 1.5, NULL), WEFT_OK);
    const weft_schedule first = weft_plan_schedule(c.list[0].plan);
    assert_true(weft_schedule_same(&first, &chosen));
    assert_true(c.dropped + c.count == before && (c.dropped == 0 || c.dropped_from > 1.5));
    for (size_t i = 0; i < c.count; i++) {
        assert_true(c.list[i].model > 0 && c.list[i].model <= 1.5 * least);
    }
    const size_t dropped = c.dropped;
    weft_candidates_free(&c);
    return dropped;
}

static void costs(void **state) {
    (void)state;
    script("sms=132 l2=62914560");
    weft_device device = gpu();
    device.kernel =
        "hopper_attention"; /* a single query over many keys would be the decode kernel's, of which there is one */
    const int64_t lengths[][2] = {{150, 150}, {4096, 4096}, {1, 30000}, {300, 2000}};
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan draft;
    size_t dropped = 0;
    for (size_t i = 0; i < 8; i++) {
        weft_attention p = small();
        p.batch = 4;
        p.heads = 8;
        p.seq = lengths[i / 2][0];
        p.kv_seq = lengths[i / 2][1];
        p.head_dim = i < 4 ? 64 : 128;
        p.mask = i % 2 ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE;
        assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
        dropped += check_costs(&draft);
    }
    assert_true(dropped > 20);
    dropped = 0;
    device.kernel = NULL;
    const int64_t products[][3] = {{150, 136, 200}, {4096, 4096, 4096}, {64, 8192, 8192}, {3000, 520, 4104}};
    for (size_t i = 0; i < 4; i++) {
        weft_gemm p = WEFT_GEMM_INIT;
        p.m = products[i][0];
        p.n = products[i][1];
        p.k = products[i][2];
        p.dtype = p.c_dtype = WEFT_BF16;
        p.c_major = i % 2 ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
        assert_int_equal(weft_plan_draft(&draft, &p, &s, &device, NULL), WEFT_OK);
        dropped += check_costs(&draft);
    }
    assert_true(dropped > 20);
    script(NULL);
    nothing_left();
}

/* What the schedule fixes costs: a worker alone, and causal tiles that static dispatch does not even out. */
static void costs_of_schedules(void **state) {
    (void)state;
    script("sms=132 l2=62914560");
    const weft_device device = gpu();
    weft_attention p = small();
    p.mask = WEFT_MASK_CAUSAL;
    p.heads = p.kv_heads = 132;
    p.seq = p.kv_seq = 132 * 192;
    double seconds[4];
    for (size_t i = 0; i < 4; i++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = 192;
        s.tile_n = 128;
        s.workers = i == 1 ? 66 : 0;
        s.order = i >= 2 ? WEFT_ORDER_HEAD_FIRST : WEFT_ORDER_CHOOSE;
        s.dispatch = i == 3 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
        weft_plan *plan = NULL;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        seconds[i] = cost_of(plan);
        weft_plan_destroy(plan);
    }
    assert_true(seconds[1] > 1.8 * seconds[0] && seconds[1] < 2.1 * seconds[0]);
    assert_true(seconds[2] >= seconds[0] && seconds[2] < 1.1 * seconds[0]);
    assert_true(seconds[3] > 1.5 * seconds[0]); /* a worker's tiles are all of one block */
    script(NULL);
    nothing_left();
}

static void tuned(void **state) {
    (void)state;
    script(NULL);
    store_begin();
    weft_known_clear();
    const weft_attention p = small();
    weft_device device = gpu();
    weft_schedule given = WEFT_SCHEDULE_INIT;
    given.order = WEFT_ORDER_HEAD_FIRST;
    given.sweep = WEFT_SWEEP_SAWTOOTH;
    weft_tune_options o = WEFT_TUNE_INIT;
    o.seconds = 2;
    weft_tuned found = WEFT_TUNED_INIT, again = WEFT_TUNED_INIT;
    weft_tune_state s = WEFT_TUNE_STATE_INIT;
    const int launches = counts()->launches;
    script("capturing=1"); /* by another thread, whose capture is not disturbed */
    assert_int_equal(weft_tune(&p, &given, &device, &o, &found, &s, NULL), WEFT_OK);
    script(NULL);
    assert_int_equal(counts()->captures_ended, 0);
    assert_true(found.seconds > 0 && s.runs > 0 && counts()->launches - launches >= s.runs);
    nothing_left();
    weft_known_clear();
    assert_int_equal(weft_tuned_find(&p, &given, &device, &again, NULL), WEFT_OK);
    assert_true(weft_schedule_same(&again.schedule, &found.schedule));

    weft_plan *plan = NULL;
    weft_message message = {""};
    device.mode = WEFT_STORED;
    assert_int_equal(plan_on(&plan, &p, &given, NULL, &device, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    device.kernel = ":precise"; /* another kernel: nothing was tuned for it */
    assert_int_equal(plan_on(&plan, &p, &given, NULL, &device, &message), WEFT_NOT_FOUND);
    nothing_left();
    store_end();
}

/* Tiles, clusters and shared-out steps of the Hopper GEMM. */
static void gemm(void **state) {
    (void)state;
    script(NULL);
    store_begin();
    weft_known_clear();
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 150, p.n = 136, p.k = 200;
    p.dtype = p.c_dtype = WEFT_BF16;
    const weft_device device = gpu();
    weft_schedule given = WEFT_SCHEDULE_INIT;
    given.order = WEFT_ORDER_HILBERT;
    given.sweep = WEFT_SWEEP_FORWARD;
    weft_candidates c;
    weft_plan draft;
    int clusters = 0, splits = 0;
    assert_int_equal(weft_plan_draft(&draft, &p, &given, &device, NULL), WEFT_OK);
    assert_int_equal(weft_candidates_make(&c, &draft, NULL, 0, NULL), WEFT_OK);
    for (size_t i = 0; i < c.count; i++) {
        const weft_schedule made = weft_plan_schedule(c.list[i].plan);
        clusters += made.cluster_m * made.cluster_n > 1;
        splits += made.split > 1;
    }
    assert_true(c.count > 5 && clusters > 0 && splits > 0);
    weft_candidates_free(&c);
    weft_tune_options o = WEFT_TUNE_INIT;
    o.seconds = 1;
    weft_tuned found = WEFT_TUNED_INIT;
    weft_tune_state s = WEFT_TUNE_STATE_INIT;
    assert_int_equal(weft_tune(&p, &given, &device, &o, &found, &s, NULL), WEFT_OK);
    assert_true(found.seconds > 0 && s.runs > 0);
    nothing_left();
    store_end();
}

/* A launch that fails, memory that runs out: a status, and nothing is left. */
static void failures(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    const weft_attention p = small();
    const weft_device device = gpu();
    weft_tune_options o = WEFT_TUNE_INIT;
    weft_schedule given = WEFT_SCHEDULE_INIT;
    weft_tuned found = WEFT_TUNED_INIT;
    weft_message message = {""};
    given.dispatch = WEFT_DISPATCH_STATIC;
    script("launch=701");
    assert_int_equal(weft_tune(&p, &given, &device, &o, &found, NULL, &message), WEFT_FAILED);
    assert_non_null(strstr(message.text, "cannot be launched"));
    nothing_left();
    script("memory=2");
    assert_int_equal(weft_tune(&p, &given, &device, &o, &found, NULL, &message), WEFT_NO_MEMORY);
    nothing_left();
    script(NULL);
    weft_attention wrong = p;
    wrong.dtype = WEFT_FP32;
    assert_int_equal(weft_tune(&wrong, NULL, &device, &o, &found, NULL, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "no CUDA kernel fits"));
    int64_t rows = -1;
    assert_int_equal(weft_tunings_forget(&rows, NULL), WEFT_OK);
    assert_int_equal(rows, 0);
    store_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates), cmocka_unit_test(costs), cmocka_unit_test(costs_of_schedules),
        cmocka_unit_test(tuned),      cmocka_unit_test(gemm),  cmocka_unit_test(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
