/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernels here were measured on a machine, the search goes by their model: it recommends what a plan takes there
 * by default, whether or not the device is here, and nothing is cheaper by the model. */
#include "../cmocka_all.h"

#include <string.h>

#include <weft/search.h>
#include <weft/tune.h>

#include "../random.h"
#include "cost/cost.h"

static void load(weft_machine *machine, const char *name) {
    const weft_machine none = WEFT_MACHINE_INIT;
    *machine = none;
    assert_int_equal(weft_machine_load(machine, name, NULL), WEFT_OK);
}

static weft_search *search(const void *problem, const weft_machine *machine, weft_search_cost cost, weft_status expected,
                           weft_message *message) {
    weft_plan_options plan = WEFT_PLAN_OPTIONS_INIT;
    weft_search_options options = WEFT_SEARCH_INIT;
    weft_search *s;
    plan.machine = machine;
    options.space = WEFT_SEARCH_ALL;
    options.cost = cost;
    options.steps = 100000;
    assert_int_equal(weft_search_run(&s, problem, &plan, &options, message), expected);
    return s;
}

/* What a plan takes there: the draft on paper with everything open. */
static weft_schedule default_of(const void *problem, const weft_machine *machine, double *model) {
    weft_plan draft, *plan;
    assert_int_equal(weft_plan_draft(&draft, problem, NULL, NULL, NULL), WEFT_OK);
    assert_true(!machine || weft_plan_put_on_paper(&draft, machine));
    assert_int_equal(weft_plan_lay_out(&plan, &draft, machine, NULL), WEFT_OK);
    const weft_schedule schedule = plan->schedule;
    *model = weft_cost_model(plan);
    weft_plan_destroy(plan);
    return schedule;
}

static void check(const void *problem, const weft_machine *machine, int *dearer) {
    weft_search *s = search(problem, machine, WEFT_SEARCH_BY_MODEL, WEFT_OK, NULL);
    weft_ranked best = WEFT_RANKED_INIT;
    weft_search_summary u = WEFT_SEARCH_SUMMARY_INIT;
    double model, least = 0;
    const weft_schedule usual = default_of(problem, machine, &model);
    assert_int_equal(weft_search_row(s, 0, &best, NULL), WEFT_OK);
    assert_int_equal(weft_search_summarize(s, &u, NULL), WEFT_OK);
    assert_int_equal(u.cost, WEFT_SEARCH_BY_MODEL);
    for (size_t i = 0; i < (size_t)u.count; i++) {
        weft_ranked r = WEFT_RANKED_INIT;
        assert_int_equal(weft_search_row(s, i, &r, NULL), WEFT_OK);
        least = least == 0 || r.model < least ? r.model : least;
    }
    assert_true(weft_schedule_same(&best.schedule, &usual) && best.model == model);
    for (size_t i = 1; i + 1 < (size_t)u.count; i++) { /* the others: as cheap as the cheapest, then by the model */
        weft_ranked r = WEFT_RANKED_INIT, next = WEFT_RANKED_INIT;
        assert_int_equal(weft_search_row(s, i, &r, NULL), WEFT_OK);
        assert_int_equal(weft_search_row(s, i + 1, &next, NULL), WEFT_OK);
        assert_true(r.model <= 1.01 * least || r.model <= next.model || i + 1 == (size_t)u.last);
    }
    *dearer += model > 1.01 * least;
    weft_search_destroy(s);
}

static int64_t one_of(uint64_t *random, const int64_t *values, size_t count) {
    return values[random_between(random, 0, (int64_t)count - 1)];
}

static void recommends_the_default(void **state) {
    (void)state;
    uint64_t random = random_seed(2202);
    int dearer = 0, rounds = 0;
    weft_machine h200;
    load(&h200, "h200");
    for (int i = 0; random_round(&random, &i, 16); i++) {
        if (i % 2) {
            weft_gemm p = WEFT_GEMM_INIT;
            p.m = 8 * random_between(&random, 1, 1000);
            p.n = 8 * random_between(&random, 1, 1000);
            p.k = 8 * random_between(&random, 1, 1000);
            p.dtype = WEFT_BF16;
            check(&p, &h200, &dearer);
        } else {
            static const int64_t depths[] = {64, 96, 128, 192, 256}, shares[] = {1, 1, 4, 8};
            weft_attention p = WEFT_ATTENTION_INIT;
            p.batch = random_between(&random, 1, 4);
            p.kv_heads = random_between(&random, 1, 8);
            p.heads = p.kv_heads * one_of(&random, shares, 4);
            p.head_dim = one_of(&random, depths, 5);
            p.seq = random_between(&random, 0, 3) ? random_between(&random, 1, 20000) : random_between(&random, 1, 200);
            p.kv_seq = random_between(&random, 0, 1) ? p.seq : random_between(&random, 1, 40000);
            p.mask = random_between(&random, 0, 1) ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
            p.dtype = WEFT_BF16;
            check(&p, &h200, &dearer);
        }
        rounds++;
    }
    assert_true(8 * dearer <= rounds); /* rules that were measured go before the model now and then */
}

/* The problem for which the simulator and the H200's own chooser once disagreed: 256x64, and 192x80. */
static void one_brain(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_machine h200, h100, other;
    weft_message message = {""};
    weft_ranked best = WEFT_RANKED_INIT;
    p.heads = p.kv_heads = 16;
    p.seq = p.kv_seq = 16384;
    p.head_dim = 128;
    p.dtype = WEFT_BF16;
    load(&h200, "h200");
    load(&h100, "h100");
    weft_search *s = search(&p, &h200, WEFT_SEARCH_BY_ANY, WEFT_OK, NULL);
    assert_int_equal(weft_search_row(s, 0, &best, NULL), WEFT_OK);
    assert_true(best.schedule.tile_m == 192 && best.schedule.tile_n == 80 && best.simulation.total.dram_read_bytes > 0);
    weft_search_destroy(s);
    search(&p, &h100, WEFT_SEARCH_BY_MODEL, WEFT_UNSUPPORTED, &message); /* the same kernels, not measured there */
    assert_string_equal(message.text, "the kernels here were not measured on h100");
    other = h200;
    other.workers = 66; /* a file of that name that describes another chip */
    search(&p, &other, WEFT_SEARCH_BY_MODEL, WEFT_UNSUPPORTED, &message);
    p.dtype = WEFT_FP32;
    search(&p, &h200, WEFT_SEARCH_BY_MODEL, WEFT_UNSUPPORTED, &message);
    assert_non_null(strstr(message.text, "no CUDA kernel fits"));
    p.seq = p.kv_seq = 1024;
    weft_search_summary u = WEFT_SEARCH_SUMMARY_INIT;
    s = search(&p, &h200, WEFT_SEARCH_BY_ANY, WEFT_OK, NULL);
    assert_int_equal(weft_search_summarize(s, &u, NULL), WEFT_OK);
    assert_int_equal(u.cost, WEFT_SEARCH_BY_SIMULATOR); /* what no kernel takes */
    assert_non_null(strstr(u.rule, "within 1 % of the fastest"));
    weft_search_destroy(s);
}

/* This host: also what the simulator does not take. */
static void this_host(void **state) {
    (void)state;
    int dearer = 0;
    weft_gemm two = WEFT_GEMM_INIT;
    weft_attention p = WEFT_ATTENTION_INIT;
    two.m = two.n = two.k = 256;
    two.batch = 2;
    check(&two, NULL, &dearer);
    p.seq = p.kv_seq = 500;
    p.head_dim = 64;
    check(&p, NULL, &dearer);
    p.operation = WEFT_ATTENTION_BACKWARD; /* has no model */
    search(&p, NULL, WEFT_SEARCH_BY_MODEL, WEFT_UNSUPPORTED, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recommends_the_default), cmocka_unit_test(one_brain),
                                       cmocka_unit_test(this_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
