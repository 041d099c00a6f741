/* SPDX-License-Identifier: Apache-2.0 */
/* Which source prices a plan: the backend's model on its own machine, the simulator on another, nobody where neither can.
 */
#include "../cmocka_all.h"

#include "../plans.h"
#include "cost/cost.h"

static weft_plan *make(const void *problem, const weft_machine *machine) {
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, problem, NULL, machine, NULL), WEFT_OK);
    return plan;
}

static void sources(void **state) {
    (void)state;
    weft_gemm one = WEFT_GEMM_INIT, two = WEFT_GEMM_INIT;
    one.m = one.n = one.k = two.m = two.n = two.k = 256;
    two.batch = 2;
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, "h100", NULL), WEFT_OK);
    const struct {
        const weft_gemm *problem;
        const weft_machine *machine;
        const char *source; /* "": nobody */
    } cases[] = {{&one, NULL, "model"}, {&two, NULL, "model"}, {&one, &machine, "simulator"}, {&two, &machine, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_plan *plan = make(cases[i].problem, cases[i].machine);
        weft_cost cost;
        weft_message message = {""};
        const weft_status status = weft_cost_of(plan, &cost, &message);
        assert_string_equal(cost.source, cases[i].source);
        assert_int_equal(status, cases[i].source[0] ? WEFT_OK : WEFT_UNSUPPORTED);
        assert_true((cost.time > 0) == (status == WEFT_OK) && (message.text[0] != '\0') == (status != WEFT_OK));
        weft_plan_destroy(plan);
    }
}

/* Of a larger problem, either source says more. */
static void more_work_costs_more(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    for (int other = 0; other < 2; other++) {
        double before = 0;
        for (int64_t size = 512; size <= 2048; size *= 2) {
            weft_gemm p = WEFT_GEMM_INIT;
            weft_cost cost;
            p.m = p.n = p.k = size;
            weft_plan *plan = make(&p, other ? &machine : NULL);
            assert_int_equal(weft_cost_of(plan, &cost, NULL), WEFT_OK);
            assert_true(cost.time > before);
            before = cost.time;
            weft_plan_destroy(plan);
        }
    }
}

static void waves(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    p.seq = 1000;
    p.kv_seq = 700;
    p.head_dim = 64;
    s.tile_m = 100;
    s.tile_n = 64;
    s.workers = 3;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_cost_wave(plan), 3 * 11);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sources), cmocka_unit_test(more_work_costs_more),
                                       cmocka_unit_test(waves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
