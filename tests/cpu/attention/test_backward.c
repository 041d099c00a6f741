/* SPDX-License-Identifier: Apache-2.0 */
/* Backward obeys its plan: right whatever the schedule, and the same bits whatever the order, the dispatch and the threads.
 */
#include "../../ref/tensors.h"

#include "../../masks.h"
#include "../../plans.h"
#include "cpu/attention/attention.h"
#include "cpu/attention/tile.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { BLOCK = WEFT_CPU_BACKWARD_BLOCK };

/* Inputs of a backward pass, and memory for the gradients of q, k and v. */
typedef struct trial {
    tensors t;
    void *grad_o, *grads[3];
    size_t count[3]; /* elements */
    weft_attention_gradients data;
} trial;

static trial trial_new(uint64_t *random, const weft_attention *problem) {
    trial b = {.t = tensors_new(random, problem)};
    const size_t bytes = weft_dtype_bytes(b.t.p.dtype);
    b.grad_o = random_buffer(random, b.t.p.dtype, b.t.size.o);
    for (int i = 0; i < 3; i++) {
        b.count[i] = i == 0 ? b.t.size.q : i == 1 ? b.t.size.k : b.t.size.v;
        b.grads[i] = guarded_new(b.count[i] * bytes);
    }
    b.data = (weft_attention_gradients)WEFT_ATTENTION_GRADIENTS_INIT;
    b.data.q = b.t.q;
    b.data.k = b.t.k;
    b.data.v = b.t.v;
    b.data.grad_o = b.grad_o;
    b.data.grad_q = b.grads[0];
    b.data.grad_k = b.grads[1];
    b.data.grad_v = b.grads[2];
    return b;
}

static void trial_free(trial *b) {
    for (int i = 0; i < 3; i++) {
        guarded_check(b->grads[i], b->count[i] * weft_dtype_bytes(b->t.p.dtype), NULL);
        guarded_free(b->grads[i]);
    }
    guarded_free(b->grad_o);
    tensors_free(&b->t);
}

static weft_attention problem(uint64_t *random, int round) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 2);
    p.seq = random_between(random, 1, 330);
    p.kv_seq = random_between(random, 1, 500);
    p.head_dim = 8 * random_between(random, 1, 4);
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP32;
    draw_mask(random, &p);
    return p;
}

/* Tiles of so many blocks of keys. */
static weft_schedule schedule_of(const weft_attention *p, int64_t blocks, int32_t order, int32_t sweep, int32_t dispatch,
                                 int64_t workers) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_n = blocks * BLOCK < p->kv_seq ? blocks * BLOCK : p->kv_seq;
    s.order = order;
    s.sweep = sweep;
    s.dispatch = dispatch;
    s.workers = workers;
    s.domains = 2;
    return s;
}

static void run(trial *b, const weft_schedule *s, weft_progress progress, void *user) {
    weft_message message = {""};
    weft_plan *plan;
    for (int i = 0; i < 3; i++) {
        memset(b->grads[i], POISON, b->count[i] * weft_dtype_bytes(b->t.p.dtype));
    }
    if (plan_for(&plan, &b->t.p, s, NULL, &message) ||
        weft_plan_run_with_progress(plan, &b->data, progress, user, &message)) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
}

/* A copy of all gradients. */
static char *copy_of(const trial *b) {
    const size_t bytes = weft_dtype_bytes(b->t.p.dtype);
    char *copy = malloc((b->count[0] + b->count[1] + b->count[2]) * bytes), *to = copy;
    assert_non_null(copy);
    for (int i = 0; i < 3; i++, to += b->count[i - 1] * bytes) {
        memcpy(to, b->grads[i], b->count[i] * bytes);
    }
    return copy;
}

/* Tiles forward and tiles that alternate, against the reference. */
static void gradients_are_right(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 24; round++) {
        const weft_attention p = problem(&random, round);
        trial b = trial_new(&random, &p);
        const double most = p.dtype == WEFT_FP32 ? 1e-5 : 3e-2;
        assert_int_equal(weft_ref_attention_backward(&b.t.p, &b.data, NULL), WEFT_OK);
        char *want = copy_of(&b);
        const int causal = p.mask == WEFT_MASK_CAUSAL || p.mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
        for (int32_t sweep = 1; sweep <= WEFT_SWEEPS; sweep++) {
            if (weft_sweep_folds(sweep) && !causal) {
                continue;
            }
            const weft_schedule s =
                schedule_of(&p, random_between(&random, 1, 3), round % 2 ? WEFT_ORDER_CUSTOM : WEFT_ORDER_REVERSE, sweep,
                            1 + round % WEFT_DISPATCHES, random_between(&random, 1, 3));
            run(&b, &s, NULL, NULL);
            const char *at = want;
            for (int i = 0; i < 3; at += b.count[i] * weft_dtype_bytes(p.dtype), i++) {
                double worst = 0, largest = 1e-3;
                for (size_t j = 0; j < b.count[i]; j++) {
                    const double x = weft_ref_load(p.dtype, b.grads[i], j), y = weft_ref_load(p.dtype, at, j);
                    worst = fmax(worst, isnan(x) ? INFINITY : fabs(x - y));
                    largest = fmax(largest, fabs(y));
                }
                assert_near(worst / largest, 0, most);
            }
        }
        free(want);
        trial_free(&b);
    }
}

static void orders_change_no_bit(void **state) {
    (void)state;
    uint64_t random = 2;
    static const int32_t orders[] = {WEFT_ORDER_HEAD_FIRST, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_REVERSE,
                                     WEFT_ORDER_HEAD_FIRST_SWIZZLED, WEFT_ORDER_CUSTOM};
    enum { ORDERS = sizeof orders / sizeof *orders };
    for (int round = 0; round < 12; round++) {
        weft_attention p = problem(&random, round);
        drawn_lengths lengths;
        if (round % 3 == 0) {
            draw_lengths(&random, &p, 1, &lengths);
            p.lengths = lengths.all; /* all known to the plan */
            p.extras = 0;
        }
        trial b = trial_new(&random, &p);
        char *first = NULL;
        for (int32_t i = 0; i < ORDERS * WEFT_DISPATCHES; i++) {
#ifdef _OPENMP
            omp_set_num_threads(1 + i % 5);
#endif
            const weft_schedule s =
                schedule_of(&p, 1 + round % 2, orders[i % ORDERS], WEFT_SWEEP_FORWARD, i % WEFT_DISPATCHES, 1 + i % 7);
            run(&b, &s, NULL, NULL);
            char *now = copy_of(&b);
            first = first ? first : now;
            assert_memory_equal(first, now, (b.count[0] + b.count[1] + b.count[2]) * weft_dtype_bytes(p.dtype));
            if (now != first) {
                free(now);
            }
        }
        free(first);
        trial_free(&b);
    }
}

/* The simple call takes the tile that weft_cpu_backward_tile() gives: whole blocks, tiles for 16 threads where there are
 * blocks enough. */
static void tiles_for_this_host(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int round = 0; round < 200; round++) {
        weft_attention p = problem(&random, round);
        p.kv_seq = random_between(&random, 1, 9000);
        const int64_t tile_n = weft_cpu_backward_tile(&p), blocks = weft_ceil_divide(p.kv_seq, BLOCK);
        const int64_t tiles = weft_ceil_divide(p.kv_seq, tile_n), heads = p.batch * p.kv_heads;
        assert_true(tile_n > 0 && tile_n <= p.kv_seq && (tile_n % BLOCK == 0 || tile_n == p.kv_seq));
        assert_true(2 * tiles * heads >= (blocks * heads < 16 ? blocks * heads : 16)); /* tiles are whole blocks */
        assert_true(tiles == 1 || (tiles - 1) * heads < 16);
    }
    const weft_attention p = problem(&random, 0);
    trial b = trial_new(&random, &p);
    weft_schedule s = schedule_of(&p, 1, WEFT_ORDER_REVERSE, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 2);
    s.tile_n = weft_cpu_backward_tile(&b.t.p);
    run(&b, &s, NULL, NULL);
    char *want = copy_of(&b);
    assert_int_equal(weft_attention_backward(&p, &b.data, NULL), WEFT_OK);
    char *got = copy_of(&b);
    assert_memory_equal(want, got, (b.count[0] + b.count[1] + b.count[2]) * weft_dtype_bytes(p.dtype));
    free(want);
    free(got);
    trial_free(&b);
}

typedef struct ticks {
    int64_t done, total;
} ticks;

static void tick(void *user, int64_t done, int64_t total) {
    ticks *t = user;
    assert_true(done >= t->done && done <= total);
    *t = (ticks){done, total};
}

static void progress_is_told(void **state) {
    (void)state;
    uint64_t random = 4;
    weft_attention p = problem(&random, 0);
    p.kv_seq = 3 * BLOCK + 1;
    trial b = trial_new(&random, &p);
    const weft_schedule s = schedule_of(&p, 1, WEFT_ORDER_HEAD_FIRST, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_DYNAMIC, 3);
    ticks t = {0, 0};
    run(&b, &s, tick, &t);
    assert_int_equal(t.total, p.batch * p.kv_heads * 4);
    assert_int_equal(t.done, t.total);
    trial_free(&b);
}

static void broken_blocks_are_refused(void **state) {
    (void)state;
    uint64_t random = 5;
    weft_attention p = problem(&random, 0);
    p.seq = p.kv_seq = 300;
    trial b = trial_new(&random, &p);
    static const int64_t bad[][2] = {
        {BLOCK, 100}, {BLOCK, BLOCK - 1}, {BLOCK - 1, BLOCK}, {2 * BLOCK, BLOCK}, {300, BLOCK}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_message message;
        weft_plan *plan;
        s.tile_m = bad[i][0];
        s.tile_n = bad[i][1];
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_UNSUPPORTED);
        assert_non_null(strstr(message.text, "is not 96 queries and whole blocks of 96 keys"));
        weft_plan_destroy(plan);
    }
    trial_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_right), cmocka_unit_test(orders_change_no_bit),
                                       cmocka_unit_test(tiles_for_this_host), cmocka_unit_test(progress_is_told),
                                       cmocka_unit_test(broken_blocks_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
