/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: what is chosen, what is refused, how they describe themselves, and the checks before they run. */
#include "../cmocka_all.h"
#include "../plans.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weft/machine.h>

static weft_attention attention(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = 8;
    p.kv_heads = 2;
    p.seq = p.kv_seq = 1000;
    p.head_dim = 64;
    return p;
}

static weft_gemm gemm(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 1024;
    return p;
}

static weft_machine load(const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, name, NULL), WEFT_OK);
    return machine;
}

/* Sets fields of an open schedule and expects the plan to be refused with this message. */
#define REFUSED(kind, assignments, expected)                                                                               \
    do {                                                                                                                   \
        const weft_##kind problem_ = kind();                                                                               \
        weft_schedule s = WEFT_SCHEDULE_INIT;                                                                              \
        weft_message message_ = {""};                                                                                      \
        weft_plan *plan_ = (weft_plan *)1;                                                                                 \
        assignments;                                                                                                       \
        assert_int_equal(plan_for(&plan_, &problem_, &s, NULL, &message_), WEFT_INVALID);                                  \
        assert_null(plan_);                                                                                                \
        assert_string_equal(message_.text, expected);                                                                      \
    } while (0)

static void impossible_schedules(void **state) {
    (void)state;
    REFUSED(attention, s.tile_m = 1001, "tile_m 1001 is larger than seq 1000");
    REFUSED(attention, s.tile_n = -1, "tile_n -1 is not at least 1");
    REFUSED(attention, s.tile_k = 8, "tile_k 8 is not for attention");
    REFUSED(attention, s.split = 2, "split 2 is only for GPUs");
    REFUSED(attention, s.workers = -2, "workers -2 is not between 0 and 2147483647");
    REFUSED(attention, s.order = WEFT_ORDER_HILBERT, "order hilbert is not for attention");
    REFUSED(gemm, s.order = WEFT_ORDER_REVERSE, "order reverse is not for gemm");
    REFUSED(gemm, s.order = 99, "order 99 is not between 0 and 13");
    REFUSED(gemm, s.sweep = 9, "sweep 9 is not between 0 and 8");
    REFUSED(gemm, s.sweep = WEFT_SWEEP_SHIFT, "sweep shift is not for gemm");
    REFUSED(attention, s.sweep = WEFT_SWEEP_SHIFT, "sweep shift is not for attention");
    REFUSED(attention, s.sweep = WEFT_SWEEP_SHIFT_CAUSAL, "sweep shift-causal is not for attention");
    REFUSED(attention, s.sweep = WEFT_SWEEP_DESCENDING, "sweep descending is not for attention");
    REFUSED(gemm, s.dispatch = -7, "dispatch -7 is not between 0 and 3");
    REFUSED(gemm, s.axis = (weft_axis)4, "axis 4 is not WEFT_AXIS_M or WEFT_AXIS_N");
    REFUSED(gemm, (s.cluster_m = 3, s.workers = 9, s.tile_m = s.tile_n = 128),
            "cluster 3x1 does not divide the grid of 8x8 tiles");
    REFUSED(gemm, (s.cluster_m = 2, s.cluster_n = 2, s.workers = 3), "workers 3 cannot hold a cluster of 2x2");
    REFUSED(gemm, s.cluster_n = 17, "cluster_n 17 is not between 0 and 16");
    REFUSED(gemm, s.struct_size = 7,
            "struct_size 7 is not one that this library knows: initialise with WEFT_SCHEDULE_INIT");
    REFUSED(gemm, s.group = -1, "group -1 is not between 0 and 2147483647");
}

static weft_schedule chosen(const weft_attention *p, const char *name) {
    const weft_machine machine = load(name);
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, p, NULL, &machine, NULL), WEFT_OK);
    const weft_schedule s = weft_plan_schedule(plan);
    weft_plan_destroy(plan);
    return s;
}

static void open_choices_are_made(void **state) {
    (void)state;
    weft_attention p = attention();
    p.dtype = WEFT_FP16;
    weft_schedule s = chosen(&p, "gb10");
    assert_int_equal(s.order, WEFT_ORDER_HEAD_FIRST); /* one L2 */
    assert_int_equal(s.workers, 48);
    assert_int_equal(s.sweep, WEFT_SWEEP_FORWARD);
    s = chosen(&p, "mi300x");
    assert_int_equal(s.order, WEFT_ORDER_HEAD_FIRST_SWIZZLED);
    assert_int_equal(s.domains, 8);

    p.seq = p.kv_seq = 131072;                                       /* K and V of a head: 32 MiB */
    assert_int_equal(chosen(&p, "gb10").sweep, WEFT_SWEEP_SAWTOOTH); /* more than 24 MiB */
    assert_int_equal(chosen(&p, "b200").sweep, WEFT_SWEEP_FORWARD);  /* less than 63 MiB */

    p.mask = WEFT_MASK_CAUSAL;
    p.seq = p.kv_seq = 16384; /* 4 MiB: seven heads of K and V fit 30 MiB, but there are two, each for four query heads */
    s = chosen(&p, "h200");
    assert_int_equal(s.order, WEFT_ORDER_LONGEST_FIRST);
    assert_int_equal(s.dispatch, WEFT_DISPATCH_DYNAMIC);
    assert_int_equal(s.group, 8);
    p.kv_heads = p.heads = 32;
    assert_int_equal(chosen(&p, "h200").group, 7);

    const weft_gemm g = gemm();
    const weft_machine h100 = load("h100");
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &g, NULL, &h100, NULL), WEFT_OK);
    s = weft_plan_schedule(plan);
    assert_int_equal(s.order, WEFT_ORDER_GROUP);
    assert_int_equal(s.group, 8); /* 12 of 8 columns */
    weft_plan_destroy(plan);
}

static void plans_describe_themselves(void **state) {
    (void)state;
    const weft_attention p = attention();
    const weft_machine machine = load("h200");
    weft_schedule s = WEFT_SCHEDULE_INIT;
    assert_int_equal(setenv("WEFT_CPU", "generic", 1), 0); /* the same on every machine */
    s.order = WEFT_ORDER_HEAD_FIRST_SWIZZLED;
    s.sweep = WEFT_SWEEP_PAIR;
    s.table = 1;
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
    char text[1024];
    const size_t length = weft_plan_text(plan, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_string_equal(
        text, "attention  batch 1, heads 8 over 2 kv heads, 1000 queries x 1000 keys, head dim 64, fp32, no mask\n"
              "schedule   tile 64x64, order head-first-swizzled (2 domains) from a table, sweep pair, dispatch static, "
              "cluster 1x1\nwalk       64 positions over 132 workers\nmachine    h200 (NVIDIA H200 SXM)\nkernel     cpu, "
              "fp32_4x8__generic\n");
    char start[10];
    assert_int_equal(weft_plan_text(plan, start, sizeof start), length); /* cut, never beyond the end */
    assert_string_equal(start, "attention");

    const size_t json_length = weft_plan_json(plan, text, sizeof text);
    assert_int_equal(json_length, strlen(text));
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(json_object_get(object, "schedule"), "sweep")), "pair");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "problem"), "kv_seq")), 1000);
    assert_int_equal(json_integer_value(json_object_get(object, "positions")), 64);
    assert_string_equal(json_string_value(json_object_get(object, "kernel")), "fp32_4x8__generic");
    json_decref(object);
    weft_plan_destroy(plan);
}

static void buffers_are_checked(void **state) {
    (void)state;
    weft_attention p = attention();
    p.seq = p.kv_seq = 16;
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    float *room = calloc(4 * 16 * 8 * 64, sizeof *room);
    assert_non_null(room);
    float *q = room, *k = q + 16 * 8 * 64, *v = k + 16 * 2 * 64, *o = v + 16 * 2 * 64;
    weft_message message;
    weft_attention_data data = {
        .struct_size = sizeof(weft_attention_data), .operation = WEFT_ATTENTION, .q = q, .k = k, .v = v, .o = o};
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_OK);
    data.k = NULL;
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "k is null");
    data.k = q; /* inputs may be shared */
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_OK);
    data.o = v + 1;
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "o overlaps v");
    data.o = o;
    data.lse = o + 16 * 8 * 64 - 1;
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lse overlaps o");
    const weft_gemm_data wrong = gemm_data(q, k, v);
    assert_int_equal(weft_plan_run(plan, &wrong, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the plan is for attention, and the data for gemm");
    assert_int_equal(weft_plan_run(NULL, &data, &message), WEFT_INVALID);
    assert_int_equal(weft_plan_run(plan, NULL, &message), WEFT_INVALID);
    weft_plan_destroy(plan);
    weft_plan_destroy(NULL);
    free(room);
}

static void tables_have_a_limit(void **state) {
    (void)state;
    weft_gemm p = gemm();
    p.m = p.n = 1 << 29;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message;
    weft_plan *plan;
    s.tile_m = s.tile_n = 64;
    s.table = 1;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "a table of 70368744177664 positions is more than 268435456");
    s.table = 0;
    s.order = WEFT_ORDER_HILBERT;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), WEFT_OK); /* computing has none */
    const weft_tile t = weft_order_tile(&weft_plan_walk(plan, sizeof(weft_walk))->order,
                                        weft_plan_walk(plan, sizeof(weft_walk))->order.count - 1);
    assert_true(t.m < 1 << 23 && t.n < 1 << 23);
    weft_plan_destroy(plan);
}

/* What one run of a plan was told. */
typedef struct told {
    const weft_plan *plan;
    pthread_t thread; /* the one that runs */
    int64_t calls, done, total;
    int strange; /* told by another thread, or beyond the total */
    weft_status status;
} told;

static void on_progress(void *user, int64_t done, int64_t total) {
    told *t = user;
    t->calls++;
    t->strange |= !pthread_equal(pthread_self(), t->thread) || done > total;
    t->done = done;
    t->total = total;
}

enum { SIDE = 96, TILE = 16, RUNS = 20, RUNNERS = 4 };

static void *run_often(void *user) {
    told *t = user;
    float *a = calloc(SIDE * SIDE, sizeof *a), *c = calloc(SIDE * SIDE, sizeof *c);
    t->thread = pthread_self();
    t->status = a && c ? WEFT_OK : WEFT_NO_MEMORY;
    for (int i = 0; i < RUNS && t->status == WEFT_OK; i++) {
        const weft_gemm_data data = gemm_data(a, a, c);
        t->status = i % 2 ? weft_plan_run(t->plan, &data, NULL) /* which tells nobody */
                          : weft_plan_run_with_progress(t->plan, &data, on_progress, t, NULL);
    }
    free(a);
    free(c);
    return NULL;
}

/* Progress belongs to a run: threads that run one plan at once are each told of their own, and the plan does not change. */
static void progress_of_each_run(void **state) {
    (void)state;
    weft_gemm p = gemm();
    p.m = p.n = p.k = SIDE;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = TILE;
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
    pthread_t threads[RUNNERS];
    told each[RUNNERS];
    memset(each, 0, sizeof each);
    for (int i = 0; i < RUNNERS; i++) {
        each[i].plan = plan;
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &each[i]), 0);
    }
    for (int i = 0; i < RUNNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(each[i].status, WEFT_OK);
        assert_true(each[i].calls >= RUNS / 2 && !each[i].strange);
        assert_int_equal(each[i].done, SIDE / TILE * (SIDE / TILE));
        assert_int_equal(each[i].done, each[i].total);
    }
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(impossible_schedules),      cmocka_unit_test(open_choices_are_made),
                                       cmocka_unit_test(plans_describe_themselves), cmocka_unit_test(buffers_are_checked),
                                       cmocka_unit_test(tables_have_a_limit),       cmocka_unit_test(progress_of_each_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
