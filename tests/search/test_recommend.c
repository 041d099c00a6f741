/* SPDX-License-Identifier: Apache-2.0 */
/* What the search recommends, held to a whole simulation of every candidate, on problems and machines drawn at random: no
 * candidate is more than 1 % faster, and none within 1 % of the fastest reads 5 % less from DRAM. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>

#include <weft/search.h>

#include "../random.h"
#include "search/space.h"

static const double AS_FAST = 1.01, AS_FRUGAL = 1.05;

/* A question: a problem, and what its plans are made of. */
typedef struct question {
    weft_problem problem;
    weft_machine machine;
    weft_plan draft;
    weft_plan_options options;
} question;

/* Every candidate's plan. */
typedef struct candidates {
    const question *q;
    int must_fit;
    weft_plan **plans;
    size_t count, room;
} candidates;

static void add(void *user, const weft_schedule *schedule) {
    candidates *c = user;
    weft_plan *plan;
    weft_plan_options options = c->q->options;
    options.schedule = schedule;
    if (weft_plan_create(&plan, &c->q->problem, &options, NULL)) {
        return;
    }
    if (c->must_fit && !weft_space_fits(plan)) {
        weft_plan_destroy(plan);
        return;
    }
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->plans = realloc(c->plans, c->room * sizeof *c->plans);
        assert_non_null(c->plans);
    }
    c->plans[c->count++] = plan;
}

/* All tiles, orders, groups, sweeps and dispatches, also those that do the same. */
static candidates list(const question *q) {
    candidates c = {.q = q, .must_fit = 1};
    weft_schedule shapes[WEFT_SHAPES];
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_space usual = {NULL, 0, 0, 0}, every = {shapes, weft_space_shapes(&q->draft, 1, shapes), 1, 1};
    weft_space_walk(&usual, &open, q->draft.operation, add, &c);
    weft_space_walk(&every, &open, q->draft.operation, add, &c);
    return c;
}

static int64_t one_of(uint64_t *random, const int64_t *values, size_t count) {
    return values[random_between(random, 0, (int64_t)count - 1)];
}

static void draw_attention(uint64_t *random, weft_attention *p) {
    static const int64_t depths[] = {64, 128, 96}, heads[] = {1, 2, 4, 8}, shares[] = {1, 1, 2, 4};
    p->kv_heads = one_of(random, heads, 4);
    p->heads = p->kv_heads * one_of(random, shares, 4);
    p->head_dim = one_of(random, depths, 3);
    p->seq = p->kv_seq = random_between(random, 200, 3000); /* ragged, most of them */
    if (random_between(random, 0, 3) == 0) {
        p->kv_seq = random_between(random, 200, 6000);
    }
    p->mask = random_between(random, 0, 1) ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    p->dtype = random_between(random, 0, 1) ? WEFT_BF16 : WEFT_FP16;
}

static void draw_gemm(uint64_t *random, weft_gemm *p) {
    p->m = random_between(random, 300, 7000);
    p->n = random_between(random, 300, 7000);
    p->k = random_between(random, 64, 2000);
    p->dtype = random_between(random, 0, 1) ? WEFT_BF16 : WEFT_FP16;
    p->b_major = random_between(random, 0, 1) ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
}

static void draw(uint64_t *random, question *q) {
    const weft_attention attention = WEFT_ATTENTION_INIT;
    const weft_gemm gemm = WEFT_GEMM_INIT;
    const weft_plan_options init = WEFT_PLAN_OPTIONS_INIT;
    const weft_machine none = WEFT_MACHINE_INIT;
    size_t machines = 0;
    while (weft_machine_name(machines)) {
        machines++;
    }
    const int kind = (int)random_between(random, 0, 4);
    if (kind < 2) {
        q->problem.gemm = gemm;
        draw_gemm(random, &q->problem.gemm);
    } else {
        q->problem.attention = attention;
        draw_attention(random, &q->problem.attention);
    }
    if (kind == 4 && random_between(random, 0, 1)) {
        q->problem.attention.operation = WEFT_ATTENTION_BACKWARD;
    }
    q->machine = none;
    const char *name = weft_machine_name((size_t)random_between(random, 0, (int64_t)machines - 1));
    assert_int_equal(weft_machine_load(&q->machine, name, NULL), WEFT_OK);
    q->options = init;
    q->options.machine = &q->machine;
    assert_int_equal(weft_plan_draft(&q->draft, &q->problem, NULL, NULL, NULL), WEFT_OK);
}

/* The best of all candidates. */
typedef struct truth {
    double fastest, least; /* seconds, and DRAM reads of those that are as fast */
    double steps;          /* of all of them */
} truth;

static truth find_truth(const question *q) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    candidates c = list(q);
    truth t = {INFINITY, INFINITY, 0};
    weft_simulation *sims = malloc((c.count + 1) * sizeof *sims);
    assert_non_null(sims);
    for (size_t i = 0; i < c.count; i++) {
        sims[i] = none;
    }
    assert_int_equal(weft_simulate_all((const weft_plan *const *)c.plans, c.count, NULL, sims, NULL, NULL), WEFT_OK);
    for (size_t i = 0; i < c.count; i++) {
        t.fastest = fmin(t.fastest, sims[i].seconds);
        t.steps += (double)weft_simulate_steps(c.plans[i]);
    }
    for (size_t i = 0; i < c.count; i++) {
        t.least = sims[i].seconds <= AS_FAST * t.fastest ? fmin(t.least, (double)sims[i].total.dram_read_bytes) : t.least;
        weft_plan_destroy(c.plans[i]);
    }
    free(c.plans);
    free(sims);
    return t;
}

static weft_simulation simulate_whole(const question *q, const weft_schedule *schedule) {
    weft_plan_options options = q->options;
    weft_simulation whole = WEFT_SIMULATION_INIT;
    weft_plan *plan;
    options.schedule = schedule;
    assert_int_equal(weft_plan_create(&plan, &q->problem, &options, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &whole, NULL, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    return whole;
}

/* The recommendation under a budget of steps, simulated whole, against the best there is. */
static int is_behind(const question *q, const truth *t, uint64_t steps) {
    weft_search_options options = WEFT_SEARCH_INIT;
    weft_search *s;
    weft_ranked best = WEFT_RANKED_INIT;
    weft_search_summary u = WEFT_SEARCH_SUMMARY_INIT;
    options.space = WEFT_SEARCH_ALL;
    options.cost = WEFT_SEARCH_BY_SIMULATOR;
    options.steps = steps;
    assert_int_equal(weft_search_run(&s, &q->problem, &q->options, &options, NULL), WEFT_OK);
    assert_int_equal(weft_search_row(s, 0, &best, NULL), WEFT_OK);
    assert_int_equal(weft_search_summarize(s, &u, NULL), WEFT_OK);
    assert_true(steps == 0 || u.count < u.searched);
    weft_search_destroy(s);
    const weft_simulation whole = simulate_whole(q, &best.schedule);
    const double slower = whole.seconds / t->fastest, more = (double)whole.total.dram_read_bytes / t->least;
    const int behind = slower > AS_FAST || more > AS_FRUGAL;
    if (behind) {
        char name[WEFT_SEARCH_NAME];
        weft_search_name(&best, name, sizeof name);
        fprintf(stderr, "%s: %s takes %.3f times the least time and reads %.3f times the least\n", q->machine.name, name,
                slower, more);
    }
    return behind;
}

/* Whether the simulator does not take a problem with the kernel that is usual on a machine. The search says so, too. */
static int is_refused(const question *q) {
    weft_search_options options = WEFT_SEARCH_INIT;
    weft_simulate_options one = WEFT_SIMULATE_INIT;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message why = {""}, said = {""};
    weft_plan *plan;
    weft_search *s;
    one.limit = 1;
    assert_int_equal(weft_plan_create(&plan, &q->problem, &q->options, NULL), WEFT_OK);
    const weft_status status = weft_simulate(plan, &one, &sim, NULL, &why);
    weft_plan_destroy(plan);
    if (status == WEFT_OK) {
        return 0;
    }
    options.space = WEFT_SEARCH_ALL;
    assert_int_equal(status, WEFT_UNSUPPORTED);
    assert_int_equal(weft_search_run(&s, &q->problem, &q->options, &options, &said), WEFT_UNSUPPORTED);
    assert_string_equal(said.text, why.text);
    return 1;
}

static void never_behind(void **state) {
    (void)state;
    uint64_t random = random_seed(2201);
    for (int i = 0; random_round(&random, &i, 3); i++) {
        question q;
        draw(&random, &q);
        if (is_refused(&q)) {
            continue;
        }
        const truth t = find_truth(&q);
        assert_false(is_behind(&q, &t, 0));
    }
}

/* A product of seven waves, whose first three say something else, in rounds that simulate a third of all steps. */
static void in_rounds(void **state) {
    (void)state;
    const weft_gemm init = WEFT_GEMM_INIT;
    question q = {.options = WEFT_PLAN_OPTIONS_INIT, .machine = WEFT_MACHINE_INIT};
    q.problem.gemm = init;
    q.problem.gemm.m = 4096;
    q.problem.gemm.n = 14336;
    q.problem.gemm.k = 256;
    q.problem.gemm.dtype = WEFT_BF16;
    assert_int_equal(weft_machine_load(&q.machine, "h100", NULL), WEFT_OK);
    q.options.machine = &q.machine;
    assert_int_equal(weft_plan_draft(&q.draft, &q.problem, NULL, NULL, NULL), WEFT_OK);
    const truth t = find_truth(&q);
    assert_false(is_behind(&q, &t, (uint64_t)(t.steps / 3)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(never_behind), cmocka_unit_test(in_rounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
