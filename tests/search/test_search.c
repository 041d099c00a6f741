/* SPDX-License-Identifier: Apache-2.0 */
/* The enumerator of schedules, and the search by simulation that stands on it. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/search.h>
#include <weft/tune.h>

#include "search/entries.h"

enum { MOST = 4096 };

typedef struct found {
    weft_schedule list[MOST];
    size_t count;
} found;

static void visit(void *user, const weft_schedule *schedule) {
    found *f = user;
    assert_true(f->count < MOST);
    for (size_t i = 0; i < f->count; i++) {
        assert_false(weft_schedule_same(&f->list[i], schedule));
    }
    f->list[f->count++] = *schedule;
}

static size_t walk(found *f, const weft_space *space, const weft_schedule *given, int32_t operation) {
    f->count = 0;
    weft_space_walk(space, given, weft_operation_at(operation), visit, f);
    return f->count;
}

/* Orders of a grid, and those of them whose groups vary. */
static size_t count_orders(weft_grid_kind grid, int grouped) {
    size_t count = 0;
    for (int32_t i = 1; weft_order_describe(i); i++) {
        const weft_order_info *o = weft_order_describe(i);
        count += o->grid == grid && (!grouped || (grid == WEFT_GRID_MATRIX && o->parameter & WEFT_PARAMETER_GROUP));
    }
    return count;
}

/* Everything once, all of it where all is open, and what is fixed stays fixed. */
static void every_schedule_once(void **state) {
    (void)state;
    enum { GROUPS = 7 };
    found *f = malloc(sizeof *f);
    assert_non_null(f);
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_space orders = {NULL, 0, 0, 0}, every = {NULL, 0, 1, 1};
    for (int32_t operation = WEFT_ATTENTION; operation <= WEFT_GROUPED_GEMM; operation++) {
        const weft_grid_kind grid = weft_operation_describe(operation)->grid;
        const size_t all = count_orders(grid, 0), grouped = count_orders(grid, 1);
        const size_t sweeps = operation == WEFT_ATTENTION_BACKWARD ? WEFT_SWEEPS : WEFT_COMMON_SWEEPS;
        assert_true(all > 4);
        assert_int_equal(walk(f, &orders, &open, operation), all * sweeps);
        assert_int_equal(walk(f, &every, &open, operation), (all + grouped * (GROUPS - 1)) * sweeps * WEFT_DISPATCHES);
        for (size_t i = 0; i < f->count; i++) {
            assert_int_equal(weft_order_describe(f->list[i].order)->grid, grid);
        }
    }
    weft_schedule given = open;
    given.order = WEFT_ORDER_GROUP;
    given.sweep = WEFT_SWEEP_PAIR;
    given.workers = 5;
    assert_int_equal(walk(f, &every, &given, WEFT_GEMM), GROUPS * WEFT_DISPATCHES);
    int seen = 0;
    for (size_t i = 0; i < f->count; i++) {
        assert_true(f->list[i].order == WEFT_ORDER_GROUP && f->list[i].sweep == WEFT_SWEEP_PAIR && f->list[i].workers == 5);
        seen |= f->list[i].group == 12 ? 1 : f->list[i].group == 24 ? 2 : f->list[i].group == 0 ? 4 : 0;
    }
    assert_int_equal(seen, 7); /* also 12 and 24, and the plan's own */
    given.group = 6;
    given.dispatch = WEFT_DISPATCH_GRID;
    assert_int_equal(walk(f, &every, &given, WEFT_GEMM), 1);
    const weft_schedule shapes[] = {given, given};
    const weft_space two = {shapes, 1, 1, 1};
    assert_int_equal(walk(f, &two, &open, WEFT_GEMM), 1);
    free(f);
}

static weft_attention small_attention(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 4;
    p.seq = p.kv_seq = 1024;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    return p;
}

static void told(void *user, int64_t done, int64_t total) {
    assert_true(done >= 0 && done <= total);
    ++*(int *)user;
}

static weft_search *search(const void *problem, const char *name, weft_search_space space, int *progress) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_plan_options plan = WEFT_PLAN_OPTIONS_INIT;
    weft_search_options options = WEFT_SEARCH_INIT;
    weft_search *s;
    assert_int_equal(weft_machine_load(&machine, name, NULL), WEFT_OK);
    plan.machine = &machine;
    options.space = space;
    options.progress = told;
    options.progress_user = progress;
    assert_int_equal(weft_search_run(&s, problem, &plan, &options, NULL), WEFT_OK);
    return s;
}

static weft_ranked row(const weft_search *s, size_t i) {
    weft_ranked r = WEFT_RANKED_INIT;
    assert_int_equal(weft_search_row(s, i, &r, NULL), WEFT_OK);
    return r;
}

static int has(const weft_search *s, size_t count, const weft_schedule *schedule) {
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        const weft_ranked r = row(s, i);
        found += weft_schedule_same(&r.schedule, schedule);
    }
    return found;
}

/* The rule: of those within 1 % of the fastest, within 2 % of the least DRAM reads, the one with the fewest sectors. */
static void check_rule(const weft_search *s, size_t count) {
    const weft_ranked best = row(s, 0);
    double fastest = INFINITY, least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const weft_ranked r = row(s, i);
        fastest = fmin(fastest, r.simulation.seconds);
        assert_int_equal(has(s, count, &r.schedule), 1);
    }
    for (size_t i = 0; i < count; i++) {
        const weft_simulation r = row(s, i).simulation;
        least = r.seconds <= 1.01 * fastest ? fmin(least, (double)r.total.dram_read_bytes) : least;
    }
    assert_true(best.simulation.seconds <= 1.01 * fastest && (double)best.simulation.total.dram_read_bytes <= 1.02 * least);
    for (size_t i = 0; i < count; i++) {
        const weft_simulation r = row(s, i).simulation;
        assert_true(r.seconds > 1.01 * fastest || (double)r.total.dram_read_bytes > 1.02 * least ||
                    r.total.sectors >= best.simulation.total.sectors);
    }
}

/* What is recommended is as fast as anything that was ranked, of either space, and simulating it again gives the same. */
static void the_first_is_the_best(void **state) {
    (void)state;
    const weft_attention p = small_attention();
    int progress = 0;
    weft_search *orders = search(&p, "gb10", WEFT_SEARCH_ORDERS, &progress);
    weft_search *all = search(&p, "gb10", WEFT_SEARCH_ALL, &progress);
    weft_search_summary few = WEFT_SEARCH_SUMMARY_INIT, many = WEFT_SEARCH_SUMMARY_INIT;
    assert_int_equal(weft_search_summarize(orders, &few, NULL), WEFT_OK);
    assert_int_equal(weft_search_summarize(all, &many, NULL), WEFT_OK);
    assert_true(progress > 0);
    assert_int_equal(few.count, few.schedules);
    assert_true(many.schedules > few.schedules && many.searched <= many.schedules && many.count <= many.searched);
    assert_true(!few.has_baseline && many.has_baseline && many.whole);
    check_rule(orders, (size_t)few.count);
    check_rule(all, (size_t)many.count);
    const weft_ranked best = row(all, 0);
    for (size_t i = 0; i < (size_t)few.count; i++) { /* these are all in the final */
        const weft_ranked r = row(orders, i);
        assert_true(best.simulation.seconds <= 1.01 * r.simulation.seconds);
        assert_int_equal(has(all, (size_t)many.count, &r.schedule), 1);
    }
    weft_ranked baseline = WEFT_RANKED_INIT, past = WEFT_RANKED_INIT;
    assert_int_equal(weft_search_baseline(all, &baseline, NULL), WEFT_OK);
    assert_false(weft_schedule_same(&baseline.schedule, &best.schedule));
    assert_int_equal(weft_search_baseline(orders, &baseline, NULL), WEFT_NOT_FOUND);
    assert_int_equal(weft_search_row(all, (size_t)many.count, &past, NULL), WEFT_NOT_FOUND);
    assert_non_null(strstr(weft_search_rule(), "within 1 % of the fastest"));
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_simulation again = WEFT_SIMULATION_INIT;
    weft_plan *plan;
    assert_int_equal(weft_machine_load(&machine, "gb10", NULL), WEFT_OK);
    options.machine = &machine;
    options.schedule = &best.schedule;
    assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &again, NULL, NULL), WEFT_OK);
    assert_true(again.seconds == best.simulation.seconds);
    weft_plan_destroy(plan);
    weft_search_destroy(orders);
    weft_search_destroy(all);
}

static size_t count_schedules(const void *problem, const char *machine) {
    weft_search_summary summary = WEFT_SEARCH_SUMMARY_INIT;
    int progress = 0;
    weft_search *s = search(problem, machine, WEFT_SEARCH_ALL, &progress);
    assert_int_equal(weft_search_summarize(s, &summary, NULL), WEFT_OK);
    if (summary.cost == WEFT_SEARCH_BY_SIMULATOR) {
        check_rule(s, (size_t)summary.count);
    }
    weft_search_destroy(s);
    return (size_t)summary.schedules;
}

/* Tiles that nobody chose have to fit a worker's memory: of six, two do with rows of 1 KiB. */
static void tiles_fit_the_machine(void **state) {
    (void)state;
    const weft_attention small = small_attention();
    weft_attention large = small;
    large.head_dim = 256;
    large.dtype = WEFT_FP32;
    assert_true(count_schedules(&large, "h100") * 2 < count_schedules(&small, "h100"));
}

/* The widest rows find a tile on every machine, whose step is shorter where a worker's memory is small. */
static void every_machine_has_a_tile(void **state) {
    (void)state;
    const char *name;
    weft_gemm p = WEFT_GEMM_INIT;
    weft_attention wide = small_attention();
    p.m = p.n = p.k = 256;
    wide.head_dim = 256;
    wide.dtype = WEFT_FP32;
    for (size_t i = 0; (name = weft_machine_name(i)); i++) {
        assert_true(count_schedules(&p, name) > 0);
        assert_true(count_schedules(&wide, name) > 0);
    }
}

/* The usual schedules always stay, so a round may leave out none: that is the last. */
static void rounds_end(void **state) {
    (void)state;
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_search_options options = WEFT_SEARCH_INIT;
    const weft_simulate_options simulate = WEFT_SIMULATE_INIT;
    const weft_space every = {NULL, 0, 1, 1};
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_gemm p = WEFT_GEMM_INIT;
    size_t first, last;
    uint64_t limit;
    p.m = p.n = p.k = 4096;
    p.dtype = p.c_dtype = WEFT_FP16;
    assert_int_equal(weft_machine_load(&machine, "l40s", NULL), WEFT_OK);
    for (size_t slow = 0; slow < 8;
         slow++) { /* which three are called usual: with 6 to 8, rounds without that end go on for ever */
        weft_search_entries all = {.machine = &machine, .options = options, .simulate = simulate};
        assert_int_equal(weft_plan_draft(&all.draft, &p, &open, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_search_append(&all, &every, 1, NULL), WEFT_OK);
        assert_true(all.count > 24);
        for (size_t i = 0; i < all.count; i++) {
            all.list[i].is_usual = i / 3 == slow;
        }
        assert_int_equal(weft_search_race(&all, 500000, &first, &last, &limit, NULL), WEFT_OK);
        assert_in_range(last, 1, all.count);
        free(all.list);
    }
}

/* A group that the plan chooses itself is the same as one of the list, and is there once. */
static void no_schedule_twice(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = 4096;
    p.k = 128;
    p.dtype = WEFT_BF16;
    assert_true(count_schedules(&p, "h100") > 100);
}

/* The same for other operations, and the reason where there is nothing to rank. */
static void operations_and_refusals(void **state) {
    (void)state;
    weft_attention backward = small_attention();
    backward.operation = WEFT_ATTENTION_BACKWARD;
    int progress = 0;
    weft_search *s = search(&backward, "h200", WEFT_SEARCH_ALL, &progress);
    assert_true(row(s, 0).simulation.seconds > 0);
    weft_search_destroy(s);
    weft_gemm two = WEFT_GEMM_INIT;
    weft_message message;
    two.m = two.n = two.k = 256;
    two.batch = 2;
    weft_search_options options = WEFT_SEARCH_INIT;
    for (int all = 0; all < 2; all++) {
        options.space = all ? WEFT_SEARCH_ALL : WEFT_SEARCH_ORDERS;
        options.cost = WEFT_SEARCH_BY_SIMULATOR;
        assert_int_equal(weft_search_run(&s, &two, NULL, &options, &message), WEFT_UNSUPPORTED);
        assert_non_null(strstr(message.text, "one product"));
        assert_null(s);
    }
    two.m = 0;
    assert_int_equal(weft_search_run(&s, &two, NULL, NULL, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "m 0 is not"));
    assert_int_equal(weft_search_run(NULL, &two, NULL, NULL, NULL), WEFT_INVALID);
    weft_simulate_options drift = WEFT_SIMULATE_INIT;
    two.m = 256;
    two.batch = 1;
    drift.drift = 2;
    options.simulate = &drift;
    assert_int_equal(weft_search_run(&s, &two, NULL, &options, &message), WEFT_INVALID);
    assert_string_equal(message.text, "drift 2 is not at most 1");
    weft_search_destroy(NULL);
}

/* Many plans at once give what each gives alone; one that cannot be simulated is named. */
static void many_plans(void **state) {
    (void)state;
    enum { COUNT = 5 };
    weft_plan *plans[COUNT];
    const weft_simulation init = WEFT_SIMULATION_INIT;
    weft_simulation sims[COUNT];
    weft_status statuses[COUNT];
    weft_message message;
    for (int i = 0; i < COUNT; i++) {
        weft_gemm p = WEFT_GEMM_INIT;
        p.m = p.n = p.k = 128 * (i + 1);
        p.batch = i == 3 ? 2 : 1;
        sims[i] = init;
        plans[i] = NULL;
        assert_int_equal(i == 1 ? WEFT_OK : weft_plan_create(&plans[i], &p, NULL, NULL), WEFT_OK);
    }
    assert_int_equal(weft_simulate_all((const weft_plan *const *)plans, COUNT, NULL, sims, statuses, &message),
                     WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "one product"));
    for (int i = 0; i < COUNT; i++) {
        weft_simulation alone = WEFT_SIMULATION_INIT;
        assert_int_equal(statuses[i], i == 3 ? WEFT_UNSUPPORTED : WEFT_OK);
        if (plans[i] && i != 3) {
            assert_int_equal(weft_simulate(plans[i], NULL, &alone, NULL, NULL), WEFT_OK);
            assert_true(alone.seconds == sims[i].seconds && alone.total.misses == sims[i].total.misses);
        }
        weft_plan_destroy(plans[i]);
    }
}

/* What was told of progress: it never falls, and counts the steps of all plans. */
typedef struct progress {
    int64_t done, total;
    int calls;
} progress;

static void tell(void *user, int64_t done, int64_t total) {
    progress *t = user;
    assert_true(done >= t->done && done <= total);
    *t = (progress){done, total, t->calls + 1};
}

static void many_plans_tell_of_one_progress(void **state) {
    (void)state;
    enum { COUNT = 3 };
    weft_plan *plans[COUNT] = {NULL, NULL, NULL};
    weft_simulation sims[COUNT] = {WEFT_SIMULATION_INIT, WEFT_SIMULATION_INIT, WEFT_SIMULATION_INIT};
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    for (int limited = 0; limited < 2; limited++) {
        progress t = {0, 0, 0};
        int64_t steps = 0;
        options.progress = tell;
        options.progress_user = &t;
        options.limit = limited ? 100000 : 0;
        for (int i = 0; i < COUNT; i++) {
            weft_attention p = WEFT_ATTENTION_INIT;
            weft_schedule schedule = WEFT_SCHEDULE_INIT;
            weft_plan_options plan_options = WEFT_PLAN_OPTIONS_INIT;
            p.seq = p.kv_seq = 16384 * (i + 1);
            p.head_dim = 16;
            schedule.tile_m = schedule.tile_n = 64;
            plan_options.schedule = &schedule;
            assert_int_equal(weft_plan_create(&plans[i], &p, &plan_options, NULL), WEFT_OK);
            const int64_t all = (int64_t)weft_simulate_steps(plans[i]);
            steps += limited && all > 100000 ? 100000 : all;
        }
        assert_int_equal(weft_simulate_all((const weft_plan *const *)plans, COUNT, &options, sims, NULL, NULL), WEFT_OK);
        assert_int_equal(t.total, steps);
        assert_true(t.calls >= COUNT && 2 * t.done > steps);
        for (int i = 0; i < COUNT; i++) {
            weft_plan_destroy(plans[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_plans_tell_of_one_progress),
                                       cmocka_unit_test(every_schedule_once),
                                       cmocka_unit_test(the_first_is_the_best),
                                       cmocka_unit_test(tiles_fit_the_machine),
                                       cmocka_unit_test(every_machine_has_a_tile),
                                       cmocka_unit_test(rounds_end),
                                       cmocka_unit_test(no_schedule_twice),
                                       cmocka_unit_test(operations_and_refusals),
                                       cmocka_unit_test(many_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
