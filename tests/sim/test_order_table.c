/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator under an order of the caller's: a table that holds an order of ours is counted as that order is. */
#include "problems.h"

#include <stdlib.h>

#include "plan/custom.h"

/* The schedule of a plan, with its order as a table of the caller's, who frees it. */
static weft_schedule with_table(const weft_plan *plan) {
    weft_schedule s = weft_plan_schedule(plan);
    uint32_t *table = malloc((size_t)plan->walk.order.count * sizeof *table);
    assert_non_null(table);
    for (int64_t i = 0; i < plan->walk.order.count; i++) {
        table[i] = (uint32_t)weft_tile_index(&plan->walk.order, weft_order_tile(&plan->walk.order, i));
    }
    s.domains = weft_schedule_by_domain(&s) ? s.domains : 1;
    s.order = WEFT_ORDER_CUSTOM;
    s.order_table = table;
    s.order_count = plan->walk.order.count;
    return s;
}

static void the_same_counts(void **state) {
    (void)state;
    static const char *const names[] = {"gb10", "h200", "mi300x"};
    uint64_t seed = random_seed(93);
    int by_domain = 0;
    for (int i = 0; random_round(&seed, &i, 150); i++) {
        weft_machine m = machine_named(names[i % 3]);
        subject s = random_subject(&seed, SHAPE_ANY, i % 2);
        m.l2_bytes = 1024 * random_between(&seed, 1, 64);
        s.schedule.domains = s.schedule.domains == 1 ? 2 : s.schedule.domains; /* for a table, 1 stands for none */
        weft_simulate_options o = WEFT_SIMULATE_INIT;
        o.seed = random_bits(&seed);
        weft_plan *plan = plan_of(&s, &m);
        const int has_domains = weft_schedule_by_domain(&plan->schedule) && plan->schedule.domains > 1;
        if (weft_schedule_by_domain(&plan->schedule) && !has_domains) {
            weft_plan_destroy(plan); /* swizzled for a machine of one domain */
            continue;
        }
        by_domain += has_domains;
        s.schedule = with_table(plan);
        weft_simulation known = simulate(plan, &o, NULL), own = simulate(plan_of(&s, &m), &o, NULL);
        free((void *)(uintptr_t)s.schedule.order_table);
        known.elapsed_seconds = own.elapsed_seconds = 0; /* measured */
        assert_memory_equal(&known, &own, sizeof known);
    }
    assert_true(by_domain > 0 || random_rounds(150) < 50);
}

/* Any order asks for the same; which of it hits depends on the order. */
static void random_tables(void **state) {
    (void)state;
    uint64_t seed = random_seed(94);
    const weft_machine m = machine_named("gb10");
    int differs = 0;
    for (int i = 0; random_round(&seed, &i, 40); i++) {
        subject s = random_subject(&seed, SHAPE_ANY, i % 2);
        weft_machine small = m;
        small.l2_bytes = 4096;
        const weft_simulation known = simulate(plan_of(&s, &small), NULL, NULL);
        s.schedule.order = WEFT_ORDER_CUSTOM;
        const weft_simulation own = simulate(plan_of(&s, &small), NULL, NULL);
        assert_int_equal(own.total.sectors_from_sm, known.total.sectors_from_sm);
        differs += own.total.misses != known.total.misses;
    }
    assert_true(differs > 0 || random_rounds(40) < 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_counts),
        cmocka_unit_test(random_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
