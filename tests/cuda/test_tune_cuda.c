/* Tuning on a GPU, with the fake driver: candidates come from the family's list, times from events, and nothing is left. */
#include "fake_images.h"

#include "../tune/stores.h"
#include "tune/candidates.h"
#include "tune/known.h"
#include "tune/words.h"

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
    assert_int_equal(weft_plan_draft_attention(&draft, &p, &s, &device, NULL), WEFT_OK);
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
    assert_int_equal(weft_plan_draft_attention(&draft, &p, &s, &device, NULL), WEFT_OK);
    assert_int_equal(weft_candidates_make(&c, &draft, NULL, 0, NULL), WEFT_OK);
    assert_true(c.count > 3);
    for (size_t i = 0; i < c.count; i++) {
        const weft_schedule made = weft_plan_schedule(c.list[i].plan);
        assert_true(made.tile_m == 64 && made.tile_n == 64 && made.dispatch == WEFT_DISPATCH_STATIC);
    }
    const size_t before = c.count; /* the simulator is asked where the backend has no model of its own */
    weft_candidates_drop(&c, 1e9);
    assert_int_equal(c.count, before);
    assert_true(c.list[0].model > 0);
    weft_candidates_free(&c);
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
    weft_tuned found, again;
    weft_tune_state s;
    const int launches = counts()->launches;
    script("capturing=1"); /* by another thread, whose capture is not disturbed */
    assert_int_equal(weft_tune_attention(&p, &given, &device, &o, &found, &s, NULL), WEFT_OK);
    script(NULL);
    assert_int_equal(counts()->captures_ended, 0);
    assert_true(found.seconds > 0 && s.runs > 0 && counts()->launches - launches >= s.runs);
    nothing_left();
    weft_known_clear();
    assert_int_equal(weft_tuned_attention(&p, &given, &device, &again, NULL), WEFT_OK);
    assert_true(weft_schedule_same(&again.schedule, &found.schedule));

    weft_plan *plan = NULL;
    weft_message message = {""};
    device.mode = WEFT_STORED;
    assert_int_equal(weft_plan_attention_on(&plan, &p, &given, NULL, &device, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    device.precise = 1; /* another kernel: nothing was tuned for it */
    assert_int_equal(weft_plan_attention_on(&plan, &p, &given, NULL, &device, &message), WEFT_NOT_FOUND);
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
    assert_int_equal(weft_plan_draft_gemm(&draft, &p, &given, &device, NULL), WEFT_OK);
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
    weft_tuned found;
    weft_tune_state s;
    assert_int_equal(weft_tune_gemm(&p, &given, &device, &o, &found, &s, NULL), WEFT_OK);
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
    weft_tuned found;
    weft_message message = {""};
    given.dispatch = WEFT_DISPATCH_STATIC;
    script("launch=701");
    assert_int_equal(weft_tune_attention(&p, &given, &device, &o, &found, NULL, &message), WEFT_FAILED);
    assert_non_null(strstr(message.text, "cannot be launched"));
    nothing_left();
    script("memory=2");
    assert_int_equal(weft_tune_attention(&p, &given, &device, &o, &found, NULL, &message), WEFT_NO_MEMORY);
    nothing_left();
    script(NULL);
    weft_attention wrong = p;
    wrong.dtype = WEFT_FP32;
    assert_int_equal(weft_tune_attention(&wrong, NULL, &device, &o, &found, NULL, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "no CUDA kernel fits"));
    int64_t rows = -1;
    assert_int_equal(weft_tunings_forget(&rows, NULL), WEFT_OK);
    assert_int_equal(rows, 0);
    store_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(candidates), cmocka_unit_test(tuned), cmocka_unit_test(gemm),
                                       cmocka_unit_test(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
