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

static void check(const void *problem, const weft_machine *machine, int round, int *differs) {
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
    if (!weft_schedule_same(&best.schedule, &usual)) {
        fprintf(stderr,
                "%d: default %.4f over the least; %s-%lld %s %s %lldx%lld s%lld, not %s-%lld %s %s %lldx%lld s%lld\n",
                round, model / least, weft_order_describe(best.schedule.order)->name, (long long)best.schedule.group,
                weft_sweep_describe(best.schedule.sweep)->name, weft_dispatch_describe(best.schedule.dispatch)->name,
                (long long)best.schedule.tile_m, (long long)best.schedule.tile_n, (long long)best.schedule.split,
                weft_order_describe(usual.order)->name, (long long)usual.group, weft_sweep_describe(usual.sweep)->name,
                weft_dispatch_describe(usual.dispatch)->name, (long long)usual.tile_m, (long long)usual.tile_n,
                (long long)usual.split);
        ++*differs;
    }
    weft_search_destroy(s);
}

static int64_t one_of(uint64_t *random, const int64_t *values, size_t count) {
    return values[random_between(random, 0, (int64_t)count - 1)];
}

static void recommends_the_default(void **state) {
    (void)state;
    uint64_t random = random_seed(2202);
    int differs = 0;
    weft_machine h200;
    load(&h200, "h200");
    for (int i = 0; random_round(&random, &i, 16); i++) {
        if (i % 2) {
            weft_gemm p = WEFT_GEMM_INIT;
            p.m = 8 * random_between(&random, 1, 1000);
            p.n = 8 * random_between(&random, 1, 1000);
            p.k = 8 * random_between(&random, 1, 1000);
            p.dtype = WEFT_BF16;
            check(&p, &h200, i, &differs);
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
            check(&p, &h200, i, &differs);
        }
    }
    assert_int_equal(differs, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recommends_the_default)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
