/* SPDX-License-Identifier: Apache-2.0 */
/* Tile by tile is row by row: every order, sweep and dispatch gives the result of the reference, to one ulp of fp32. */
#include "../plans.h"
#include "ref/rounds.h"
#include "tensors.h"

/* A schedule's numbers, apart from the codes that are walked through. */
typedef struct setting {
    int64_t tile_m, tile_n, tile_k, workers, group, domains, cluster_m, cluster_n;
} setting;

/* An allocation far too large must fail here, as it does elsewhere, instead of ending the process. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

static weft_schedule schedule_of(const setting *s, int32_t order, int sweep, int dispatch, int table) {
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = s->tile_m;
    schedule.tile_n = s->tile_n;
    schedule.tile_k = s->tile_k;
    schedule.order = order;
    schedule.sweep = sweep;
    schedule.dispatch = dispatch;
    schedule.table = table;
    schedule.workers = s->workers;
    schedule.group = s->group;
    schedule.axis = s->group % 2 == 0 ? WEFT_AXIS_N : WEFT_AXIS_M;
    schedule.domains = s->domains;
    schedule.cluster_m = s->cluster_m;
    schedule.cluster_n = s->cluster_n;
    return schedule;
}

typedef void (*check_schedule)(const weft_schedule *schedule, void *context);

/* Calls check() for every order of a subject with every sweep and dispatch, computed and from a table; with the setting's
 * own number of workers, with a single cluster of them, and with two. */
static void for_every_schedule(weft_grid_kind grid, const setting *s, check_schedule check, void *context) {
    const int64_t cluster = s->cluster_m * s->cluster_n;
    const int64_t workers[] = {s->workers, cluster, 2 * cluster};
    for (int32_t order = 1; order <= WEFT_ORDER_KINDS; order++) {
        for (int n = 0; n < 6 * WEFT_COMMON_SWEEPS * WEFT_DISPATCHES && weft_order_grid(order) == grid; n++) {
            setting here = *s;
            here.workers = workers[n / 2 % 3];
            const weft_schedule schedule =
                schedule_of(&here, order, 1 + n / 6 % WEFT_COMMON_SWEEPS, 1 + n / 6 / WEFT_COMMON_SWEEPS, n % 2);
            check(&schedule, context);
        }
    }
}

/* Progress must count every tile, one by one, to the total. */
typedef struct ticks {
    int64_t done, total;
} ticks;

static void tick(void *user, int64_t done, int64_t total) {
    ticks *t = user;
    assert_int_equal(done, t->done + 1);
    t->done = done;
    t->total = total;
}

static void assert_floats_near(const float *got, const float *want, size_t count, const weft_schedule *s) {
    for (size_t i = 0; i < count; i++) {
        if (ulps_apart(got[i], want[i]) > 1) {
            fail_msg("%s, %s, %s, table %d: element %zu is %.9g, not %.9g", weft_order_describe(s->order)->name,
                     weft_sweep_describe(s->sweep)->name, weft_dispatch_describe(s->dispatch)->name, s->table, i,
                     (double)got[i], (double)want[i]);
        }
    }
}

/* An attention, and what the row by row reference makes of it. */
typedef struct attention_case {
    tensors t;
    float *o, *lse;
} attention_case;

static attention_case attention_expect(tensors t) {
    attention_case c = {t, guarded_new(t.size.o * sizeof(float)), guarded_new(t.size.lse * sizeof(float))};
    weft_attention_data data = t.data;
    data.o = c.o;
    data.lse = c.lse;
    assert_int_equal(weft_ref_attention(&t.p, &data, NULL), WEFT_OK);
    return c;
}

static void attention_case_free(attention_case *c) {
    tensors_free(&c->t);
    guarded_free(c->o);
    guarded_free(c->lse);
}

static weft_plan *attention_plan(const attention_case *c, const weft_schedule *schedule) {
    weft_plan *plan;
    weft_message message;
    if (plan_for(&plan, &c->t.p, schedule, NULL, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return plan;
}

static void attention_run(attention_case *c, weft_plan *plan, const weft_schedule *schedule) {
    ticks t = {0, 0};
    plan->progress = tick;
    plan->progress_user = &t;
    tensors_poison_outputs(&c->t);
    assert_int_equal(weft_ref_attention_tiled(plan, &c->t.data, NULL), WEFT_OK);
    assert_floats_near(c->t.data.o, c->o, c->t.size.o, schedule);
    assert_floats_near(c->t.data.lse, c->lse, c->t.size.lse, schedule);
    tensors_check_borders(&c->t);
    assert_int_equal(t.total, c->t.p.batch * c->t.p.heads * weft_ceil_divide(c->t.p.seq, schedule->tile_m));
    assert_int_equal(t.done, t.total);
}

static void check_attention(const weft_schedule *schedule, void *context) {
    weft_plan *plan = attention_plan(context, schedule);
    attention_run(context, plan, schedule);
    weft_plan_destroy(plan);
}

static weft_attention attention_of(int64_t heads, int64_t kv_heads, int64_t seq, int64_t kv_seq, weft_mask mask,
                                   int64_t offset) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 2;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = 8;
    p.mask = mask;
    p.offset = offset;
    return p;
}

static void attention_every_schedule(void **state) {
    (void)state;
    static const struct {
        int64_t heads, kv_heads, seq, kv_seq;
        weft_mask mask;
        int64_t offset, pad;
        setting s;
    } cases[] = {
        {3, 3, 13, 17, WEFT_MASK_NONE, 0, 0, {4, 5, 0, 1, 2, 1, 1, 1}},
        {4, 2, 12, 16, WEFT_MASK_CAUSAL, 0, 1, {4, 4, 0, 3, 3, 2, 1, 1}},
        {4, 1, 14, 11, WEFT_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, {3, 4, 0, 7, 4, 3, 2, 1}},
        {2, 2, 19, 9, WEFT_MASK_CAUSAL, -6, 2, {4, 3, 0, 5, 0, 2, 1, 5}},
        {6, 3, 10, 18, WEFT_MASK_CAUSAL, 5, 0, {2, 7, 0, 100, 5, 4, 3, 1}},
        {2, 1, 11, 13, WEFT_MASK_CAUSAL, 3, 0, {2, 3, 0, 8, 1, 2, 2, 3}},
        {3, 1, 5, 6, WEFT_MASK_CAUSAL, -40, 0, {2, 6, 0, 2, 1, 8, 1, 1}},
        {1, 1, 1, 1, WEFT_MASK_NONE, 0, 0, {1, 1, 0, 2, 1, 2, 1, 1}},
    };
    uint64_t seed = random_seed(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_attention p =
            attention_of(cases[i].heads, cases[i].kv_heads, cases[i].seq, cases[i].kv_seq, cases[i].mask, cases[i].offset);
        p.layout = (weft_layout)(i % 2);
        p.extras = i % 3 == 1 ? WEFT_QV : 0;
        pad_problem(&p, cases[i].pad);
        attention_case c = attention_expect(tensors_new(&seed, &p));
        for_every_schedule(WEFT_GRID_HEADS, &cases[i].s, check_attention, &c);
        attention_case_free(&c);
    }
}

/* The public interface wants clusters that divide the grid; a walk does not, and neither does the reference. */
static void check_ragged_clusters(const weft_schedule *schedule, void *context) {
    attention_case *c = context;
    weft_plan *plan = attention_plan(c, schedule);
    const weft_grid tiles = {c->t.p.batch, c->t.p.heads, weft_ceil_divide(c->t.p.seq, schedule->tile_m)};
    const weft_sweep sweep = (weft_sweep)schedule->sweep;
    const weft_grid positions = weft_walk_positions(tiles, sweep, 2, 3);
    weft_order order;
    assert_true(weft_order_init(&order, (weft_order_kind)schedule->order, positions, schedule->group, schedule->axis,
                                schedule->domains));
    assert_true(weft_walk_init(&plan->walk, &order, tiles, sweep, (weft_dispatch)schedule->dispatch, 2, 3,
                               6 * schedule->workers, plan->walk.reach));
    attention_run(c, plan, schedule);
    weft_plan_destroy(plan);
}

static void attention_ragged_clusters(void **state) {
    (void)state;
    const setting s = {2, 3, 0, 3, 2, 2, 1, 1};
    const weft_attention p = attention_of(5, 5, 13, 12, WEFT_MASK_CAUSAL, -1);
    uint64_t seed = random_seed(2);
    attention_case c = attention_expect(tensors_new(&seed, &p));
    for_every_schedule(WEFT_GRID_HEADS, &s, check_ragged_clusters, &c);
    attention_case_free(&c);
}

/* NaN and infinities in K and V: some visible, some masked; whole rows of -inf. Tiles must agree on all of it. */
static void attention_special_values(void **state) {
    (void)state;
    const setting s = {4, 3, 0, 3, 2, 2, 1, 1};
    const double values[] = {NAN, INFINITY, -INFINITY};
    uint64_t seed = random_seed(3);
    for (size_t n = 0; n < 9; n++) {
        weft_attention p = attention_of(2, 1, 9, 10, WEFT_MASK_CAUSAL, 0);
        p.batch = 1;
        tensors t = tensors_new(&seed, &p);
        for (size_t i = 0; i < t.size.q; i++) {
            weft_ref_store(WEFT_FP32, t.q, i, 0.25 + fabs(random_even(&seed)));
        }
        /* n / 3: in key 4 of K, in key 4 of V, or in all keys of K up to 4, so that early rows see nothing else. */
        for (size_t key = n / 3 == 2 ? 0 : 4; key <= 4; key++) {
            weft_ref_store(WEFT_FP32, n / 3 == 1 ? t.v : t.k, key * 8 + n % 8, values[n % 3]);
        }
        attention_case c = attention_expect(t);
        for_every_schedule(WEFT_GRID_HEADS, &s, check_attention, &c);
        attention_case_free(&c);
    }
}

static void lse_may_be_null(void **state) {
    (void)state;
    const setting s = {4, 4, 0, 2, 1, 1, 1, 1};
    const weft_attention p = attention_of(1, 1, 6, 6, WEFT_MASK_NONE, 0);
    uint64_t seed = random_seed(4);
    attention_case c = attention_expect(tensors_new(&seed, &p));
    const weft_schedule schedule = schedule_of(&s, WEFT_ORDER_HEAD_FIRST, WEFT_SWEEP_PAIR, WEFT_DISPATCH_DYNAMIC, 0);
    weft_plan *plan = attention_plan(&c, &schedule);
    weft_attention_data data = c.t.data;
    data.lse = NULL;
    assert_int_equal(weft_ref_attention_tiled(plan, &data, NULL), WEFT_OK);
    assert_floats_near(c.t.data.o, c.o, c.t.size.o, &schedule);
    weft_plan_destroy(plan);
    attention_case_free(&c);
}

typedef struct gemm_case {
    weft_gemm p;
    weft_gemm_extents size;
    const void *a, *b;
    const float *before, *want; /* C */
} gemm_case;

static void check_gemm(const weft_schedule *schedule, void *context) {
    const gemm_case *c = context;
    weft_plan *plan;
    weft_message message;
    if (plan_for(&plan, &c->p, schedule, NULL, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    ticks t = {0, 0};
    plan->progress = tick;
    plan->progress_user = &t;
    float *got = guarded_new(c->size.c * sizeof *got);
    memcpy(got, c->before, c->size.c * sizeof *got);
    const weft_gemm_data data = gemm_data(c->a, c->b, got);
    assert_int_equal(weft_ref_gemm_tiled(plan, &data, NULL), WEFT_OK);
    assert_floats_near(got, c->want, c->size.c, schedule);
    guarded_check(got, c->size.c * sizeof *got, NULL);
    assert_int_equal(t.total, weft_ceil_divide(c->p.m, schedule->tile_m) * weft_ceil_divide(c->p.n, schedule->tile_n));
    assert_int_equal(t.done, t.total);
    guarded_free(got);
    weft_plan_destroy(plan);
}

static void gemm_every_schedule(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
        double beta;
        setting s;
    } cases[] = {
        {13, 17, 11, 0, {4, 5, 3, 1, 2, 1, 1, 1}}, {16, 12, 9, 0.5, {4, 4, 4, 5, 3, 2, 1, 1}},
        {15, 22, 8, -1, {4, 3, 8, 9, 1, 2, 2, 4}}, {9, 7, 30, 0, {3, 2, 7, 100, 0, 1, 3, 2}},
        {1, 1, 1, 1, {1, 1, 1, 2, 1, 1, 1, 1}},
    };
    uint64_t seed = random_seed(5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_gemm p = WEFT_GEMM_INIT;
        p.m = cases[i].m;
        p.n = cases[i].n;
        p.k = cases[i].k;
        p.alpha = 0.75;
        p.beta = cases[i].beta;
        p.a_major = (weft_major)(i & 1);
        p.b_major = (weft_major)(i >> 1 & 1);
        p.c_major = (weft_major)(i & 1);
        p.ldc = p.m + p.n; /* more than either major needs: the gaps must stay as they are */
        gemm_case c;
        assert_int_equal(resolve_gemm(&c.p, &p, NULL), WEFT_OK);
        c.size = gemm_sizes(&c.p);
        void *a = random_buffer(&seed, WEFT_FP32, c.size.a), *b = random_buffer(&seed, WEFT_FP32, c.size.b);
        float *before = p.beta == 0 ? guarded_new(c.size.c * sizeof(float)) : random_buffer(&seed, WEFT_FP32, c.size.c);
        float *want = guarded_new(c.size.c * sizeof *want);
        memcpy(want, before, c.size.c * sizeof *want);
        const weft_gemm_data data = gemm_data(a, b, want);
        assert_int_equal(weft_ref_gemm(&c.p, &data, NULL), WEFT_OK);
        c.a = a;
        c.b = b;
        c.before = before;
        c.want = want;
        for_every_schedule(WEFT_GRID_MATRIX, &cases[i].s, check_gemm, &c);
        guarded_free(a);
        guarded_free(b);
        guarded_free(before);
        guarded_free(want);
    }
}

/* Workers take turns, so except inside a pair the positions come one after the other, whoever takes them. */
static void positions_in_turn(void *context, const weft_visit *visit, weft_tile tile) {
    int64_t *next = context;
    assert_int_equal(visit->position, *next);
    assert_int_equal(visit->tile.block, tile.block);
    (*next)++;
}

static void workers_take_turns(void **state) {
    (void)state;
    const setting s = {2, 2, 0, 3, 1, 1, 1, 1};
    const weft_attention p = attention_of(2, 2, 7, 4, WEFT_MASK_NONE, 0);
    const weft_grid tiles = {2, 2, 4};
    for (int dispatch = 1; dispatch <= WEFT_DISPATCHES; dispatch++) {
        const weft_schedule schedule = schedule_of(&s, WEFT_ORDER_HEAD_FIRST, WEFT_SWEEP_SAWTOOTH, dispatch, 0);
        weft_plan *plan;
        int64_t next = 0;
        assert_int_equal(plan_for(&plan, &p, &schedule, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_ref_rounds(plan, tiles, positions_in_turn, &next, NULL), WEFT_OK);
        assert_int_equal(next, 16);
        weft_plan_destroy(plan);
    }
}

/* More bytes than there are addresses: said, not crashed on. The plan is never walked, so it is filled in by hand. */
static void no_memory_is_a_status(void **state) {
    (void)state;
    weft_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.gemm.m = plan.gemm.n = plan.schedule.tile_m = plan.schedule.tile_n = WEFT_MAX_DIMENSION;
    weft_message message = {""};
    const weft_gemm_data none = gemm_data(NULL, NULL, NULL);
    assert_int_equal(weft_ref_gemm_tiled(&plan, &none, &message), WEFT_NO_MEMORY);
    assert_string_equal(message.text, "no memory for a tile of 2147483647 x 2147483647");
    assert_int_equal(weft_ref_gemm_tiled(&plan, &none, NULL), WEFT_NO_MEMORY);

    weft_attention wide = attention_of(1, 1, 1, 1, WEFT_MASK_NONE, 0);
    wide.q_strides.batch = INT64_C(1) << 58;
    weft_attention p;
    const weft_attention_gradients nothing = {.struct_size = sizeof(weft_attention_gradients),
                                              .operation = WEFT_ATTENTION_BACKWARD};
    assert_int_equal(resolve_attention(&p, &wide, NULL), WEFT_OK);
    assert_int_equal(weft_ref_attention_backward(&p, &nothing, NULL), WEFT_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_every_schedule), cmocka_unit_test(attention_ragged_clusters),
        cmocka_unit_test(attention_special_values), cmocka_unit_test(lse_may_be_null),
        cmocka_unit_test(gemm_every_schedule),      cmocka_unit_test(workers_take_turns),
        cmocka_unit_test(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
