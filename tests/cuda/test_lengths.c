/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of sequences on a GPU, with the fake driver: a plan's own are in device memory, a run's are the caller's. */
#include "fake_images.h"

#include "../plans.h"
#include "cuda/plan/backend.h"

enum { SEQUENCES = 3 };
static const int32_t starts[SEQUENCES + 1] = {0, 5, 5, 90}, kv_starts[SEQUENCES + 1] = {0, 70, 80, 100};
static const int32_t used[SEQUENCES] = {4, 0, 20};

static weft_attention packed(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 100;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    p.sequences = SEQUENCES;
    return p;
}

/* A plan of the problem that holds nothing on the GPU yet. */
static weft_plan *lay_out(const weft_attention *p, weft_cuda_plan *c) {
    weft_schedule open = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_plan draft, *plan = NULL;
    weft_message message = {""};
    open.tile_m = open.tile_n = 16;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    if (weft_plan_draft(&draft, p, &open, NULL, &message) || weft_plan_lay_out(&plan, &draft, &machine, &message)) {
        fail_msg("%s", message.text);
    }
    *c = (weft_cuda_plan){.pass_count = 1, .main = c->passes};
    c->main->walk = plan->walk;
    assert_int_equal(weft_cuda_driver_get(&c->driver, NULL), WEFT_OK);
    plan->placed = c;
    return plan;
}

static void known_lengths(void **state) {
    (void)state;
    weft_attention p = packed();
    weft_cuda_plan c;
    script(NULL);
    p.lengths = (weft_lengths){.q_starts = starts, .kv_starts = kv_starts, .kv_used = used};
    weft_plan *plan = lay_out(&p, &c);
    assert_int_equal(weft_cuda_place_lengths(plan, NULL), WEFT_OK);
    const weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    const weft_lengths there =
        weft_cuda_walk_with(plan, ((const weft_cuda_plan *)plan->placed)->main, &data).reach.sequences.lengths;
    int32_t back[SEQUENCES + 1];
    assert_null(there.q_used);
    assert_null(there.kv_pad);
    const uintptr_t first = (uintptr_t)c.lengths, end = first + plan->operation->kept_bytes(&plan->problem);
    const int32_t *const places[] = {there.q_starts, there.kv_starts, there.kv_used}, *const right[] = {starts, kv_starts,
                                                                                                        used};
    for (int i = 0; i < 3; i++) {
        const size_t bytes = sizeof(int32_t) * (size_t)(i < 2 ? SEQUENCES + 1 : SEQUENCES);
        assert_in_range((uintptr_t)places[i], first, end - bytes);
        c.driver->copy_out(back, (uint64_t)(uintptr_t)places[i], bytes);
        assert_memory_equal(back, right[i], bytes);
    }
    assert_int_equal(counts()->allocations, 1);
    c.driver->memory_free(c.lengths);
    plan->placed = NULL;
    weft_plan_destroy(plan);
}

/* What the data brings takes the place of nothing, and stands beside what the plan knows. */
static void lengths_of_a_run(void **state) {
    (void)state;
    weft_attention p = packed();
    weft_cuda_plan c;
    script(NULL);
    p.lengths.q_starts = starts;
    p.extras = WEFT_KV_STARTS | WEFT_Q_USED;
    weft_plan *plan = lay_out(&p, &c);
    assert_int_equal(weft_cuda_place_lengths(plan, NULL), WEFT_OK);
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.lengths = (weft_lengths){.q_starts = starts, .kv_starts = kv_starts, .q_used = used, .kv_used = used};
    const weft_lengths there =
        weft_cuda_walk_with(plan, ((const weft_cuda_plan *)plan->placed)->main, &data).reach.sequences.lengths;
    assert_true((uint64_t)(uintptr_t)there.q_starts == c.lengths);
    assert_ptr_equal(there.kv_starts, kv_starts);
    assert_ptr_equal(there.q_used, used);
    assert_null(there.kv_used);
    c.driver->memory_free(c.lengths);
    plan->placed = NULL;
    weft_plan_destroy(plan);
}

/* Where keys of sequences begin is known, and where queries do is not. */
static void known_keys(void **state) {
    (void)state;
    weft_attention p = packed();
    weft_cuda_plan c;
    script(NULL);
    p.lengths.kv_starts = kv_starts;
    p.extras = WEFT_STARTS;
    weft_plan *plan = lay_out(&p, &c);
    assert_int_equal(weft_cuda_place_lengths(plan, NULL), WEFT_OK);
    const uintptr_t at = (uintptr_t)c.main->walk.reach.sequences.lengths.kv_starts, first = (uintptr_t)c.lengths;
    const size_t bytes = plan->operation->kept_bytes(&plan->problem);
    int32_t back[SEQUENCES + 1];
    assert_true(bytes >= sizeof back);
    assert_in_range(at, first, first + bytes - sizeof back);
    c.driver->copy_out(back, (uint64_t)at, sizeof back);
    assert_memory_equal(back, kv_starts, sizeof back);
    c.driver->memory_free(c.lengths);
    plan->placed = NULL;
    weft_plan_destroy(plan);
}

/* The grid has room for any lengths, also while they are not known. */
static void lengths_that_come_later(void **state) {
    (void)state;
    weft_attention p = packed();
    weft_cuda_plan c;
    script(NULL);
    p.extras = WEFT_STARTS;
    weft_plan *plan = lay_out(&p, &c);
    assert_int_equal(weft_cuda_place_lengths(plan, NULL), WEFT_OK);
    assert_true(c.lengths == 0);
    assert_int_equal(plan->walk.cols, 100 / 16 + SEQUENCES);
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.lengths.q_starts = starts;
    const weft_walk walk = weft_cuda_walk_with(plan, ((const weft_cuda_plan *)plan->placed)->main, &data);
    int64_t rows = 0, none = 0;
    for (int64_t col = 0; col < walk.cols; col++) {
        const weft_cut cut = weft_reach_cut(&walk.reach, 0, col, 1), before = weft_reach_cut(&plan->walk.reach, 0, col, 1);
        rows += cut.rows.end - cut.rows.begin;
        none += before.rows.end - before.rows.begin;
    }
    assert_int_equal(rows, starts[SEQUENCES]);
    assert_int_equal(none, p.seq); /* one sequence, as long as nobody knows better */
    plan->placed = NULL;
    weft_plan_destroy(plan);
}

static void no_memory(void **state) {
    (void)state;
    weft_attention p = packed();
    weft_cuda_plan c;
    weft_message message = {""};
    p.lengths.q_starts = starts;
    script(NULL);
    weft_plan *plan = lay_out(&p, &c);
    script("memory=2");
    assert_int_equal(weft_cuda_place_lengths(plan, &message), WEFT_NO_MEMORY);
    assert_string_equal(message.text,
                        "no memory on the GPU for a plan's lengths: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
    assert_true(c.lengths == 0);
    script(NULL);
    plan->placed = NULL;
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_lengths), cmocka_unit_test(known_keys),
                                       cmocka_unit_test(lengths_of_a_run), cmocka_unit_test(lengths_that_come_later),
                                       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
