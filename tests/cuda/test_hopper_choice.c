/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hopper chooser takes, held to launches that were measured on an H200 and that its time model was not fitted to:
 * docs/results/tuning/h200-attention-held-out.csv. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/sm90/attention/choose.h"

static const weft_cuda_device h200 = {.multiprocessors = 132, .l2_bytes = 62914560, .shared_bytes = 232448};

/* A driver that knows how many clusters run on an H200 at a time. */
static int current(void **context) {
    static int any;
    *context = &any;
    return 0;
}

static int occupancy(int *clusters, void *function, const void *launch) {
    static const int at_once[] = {0, 132, 66, 39, 30, 22, 17, 15, 15}; /* by their CTAs */
    (void)function;
    *clusters = at_once[((const weft_cu_launch *)launch)->attributes[0].value[0]];
    return 0;
}

/* A line of the file. */
typedef struct launch {
    weft_attention problem;
    char text[96]; /* the line, up to what the problem was run by */
    int depth, tile_m, tile_n, split;
    char dispatch[16];
    double us;
} launch;

static int read_launch(FILE *file, launch *l) {
    char line[256], dtype[8];
    int draw, batch, heads, kv_heads, seq, kv_seq, head_dim, causal;
    do {
        if (!fgets(line, sizeof line, file)) {
            return 0;
        }
    } while (line[0] < '0' || line[0] > '9');
    int end = 0;
    const int fields = sscanf(line, "%d,%d,%d,%d,%d,%d,%d,%7[a-z0-9],%d,%n%d,%dx%d,%d,%15[a-z],%lf", &draw, &batch, &heads,
                              &kv_heads, &seq, &kv_seq, &head_dim, dtype, &causal, &end, &l->depth, &l->tile_m, &l->tile_n,
                              &l->split, l->dispatch, &l->us);
    assert_int_equal(fields, 15);
    snprintf(l->text, sizeof l->text, "%.*s", end, line);
    l->problem = (weft_attention)WEFT_ATTENTION_INIT;
    l->problem.batch = batch;
    l->problem.heads = heads;
    l->problem.kv_heads = kv_heads;
    l->problem.seq = seq;
    l->problem.kv_seq = kv_seq;
    l->problem.head_dim = head_dim;
    l->problem.dtype = strcmp(dtype, "bf16") == 0 ? WEFT_BF16 : WEFT_FP16;
    l->problem.mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    return 1;
}

/* A choice for a problem. */
typedef struct choice {
    const weft_hopper_attention_variant *variant;
    weft_schedule schedule;
} choice;

static choice choose(const weft_attention *p) {
    weft_plan plan = {.attention = *p, .schedule = WEFT_SCHEDULE_INIT};
    plan.machine.l2_bytes = h200.l2_bytes / 2; /* a side */
    const weft_hopper_attention_variant *v = weft_hopper_attention_best(&plan, &h200);
    const weft_cuda_driver driver = {.context_current = current, .cluster_occupancy = occupancy};
    weft_cuda_plan placed = {.driver = &driver, .device = h200, .pass_count = 1, .main = placed.passes};
    *placed.main = (weft_cuda_pass){
        .ctas = 1, .function = &plan, .choice = {.kernel = v->symbol, .tile_m = v->tile_m, .tile_n = v->tile_n}};
    current(&placed.context);
    plan.placed = &placed;
    plan.heads_in_tile = weft_hopper_attention_pack(&plan, &h200);
    weft_hopper_attention_complete(&plan, &h200, &placed.main->choice, &plan.schedule);
    return (choice){v, plan.schedule};
}

static int is_of(const launch *l, const choice *c) {
    return l->depth == c->variant->depth && l->tile_m == c->variant->tile_m && l->tile_n == c->variant->tile_n &&
           l->split == (c->schedule.split ? c->schedule.split : 1) &&
           strcmp(l->dispatch, weft_dispatch_describe(c->schedule.dispatch)->name) == 0;
}

/* Sums over problems. */
typedef struct tally {
    int problems, near;
    double loss, largest;
} tally;

static void count(tally *t, double chosen, double best) {
    const double loss = chosen / best - 1;
    t->problems++;
    t->near += loss <= 0.03;
    t->loss += loss;
    t->largest = fmax(t->largest, loss);
}

static void choices_are_near_the_best(void **state) {
    (void)state;
    FILE *file = fopen(WEFT_HELD_OUT, "r");
    assert_non_null(file);
    tally few = {0}, many = {0};
    launch l, of = {0};
    choice c = {0};
    double chosen = 0, best = INFINITY;
    for (int more = 1; more;) {
        more = read_launch(file, &l);
        if (!more || strcmp(l.text, of.text) != 0) {
            if (c.variant) {
                assert_true(chosen > 0); /* it was measured */
                count(of.problem.seq > 200 ? &many : &few, chosen, best);
            }
            of = l;
            c = choose(&l.problem);
            chosen = 0;
            best = INFINITY;
        }
        best = fmin(best, l.us);
        chosen = is_of(&l, &c) ? l.us : chosen;
    }
    fclose(file);
    assert_true(many.problems > 70 && few.problems > 70);
    assert_true(many.near >= 0.9 * many.problems);
    assert_true(many.loss < 0.01 * many.problems && many.largest < 0.15);
    assert_true(few.near >= 0.7 * few.problems);
    assert_true(few.loss < 0.03 * few.problems && few.largest < 0.3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices_are_near_the_best)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
