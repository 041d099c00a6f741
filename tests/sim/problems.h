/* SPDX-License-Identifier: Apache-2.0 */
/* Machines, and small random problems and schedules, for the tests of the simulator. */
#ifndef WEFT_TESTS_SIM_PROBLEMS_H
#define WEFT_TESTS_SIM_PROBLEMS_H

#include <string.h>

#include "../cmocka_all.h"
#include "../masks.h"
#include "../plans.h"
#include "../random.h"
#include "plan/plan.h"
#include <weft/sim.h>

static inline weft_machine machine_named(const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    if (weft_machine_load(&machine, name, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return machine;
}

/* The profile that a plan is simulated with where options give none. */
static inline weft_profile profile_of(const weft_plan *plan) {
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_message message = {""};
    if (weft_profile_load(&profile, weft_plan_profile(plan), &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return profile;
}

/* A machine on which time does not depend on what the cache holds: strict LRU, a hit and a miss take equally long, no
 * bandwidth is ever short and computing takes no time. The latency is a power of two, so that all times are exact multiples
 * of it. Workers then ask for the same pieces in the same order whatever the size of the L2. */
static inline weft_machine machine_in_step(void) {
    weft_machine m = machine_named("gb10");
    m.l2_slack = m.l2_crowded = 0;
    m.l2_queue = 0;
    m.l2_waiting = 0;
    m.l2_usable = 1;
    m.clock = 0x1p30;
    m.near_latency = m.dram_latency = 16;
    m.l2_bandwidth = m.dram_bandwidth = 1e300;
    m.matrix_fp32 = m.matrix_fp16 = m.matrix_bf16 = m.exp_rate = 1e300;
    return m;
}

/* A problem with a schedule for it. */
typedef struct subject {
    int32_t kind;
    weft_attention attention;
    weft_gemm gemm;
    weft_schedule schedule;
} subject;

static inline weft_plan *plan_of(const subject *s, const weft_machine *machine) {
    weft_plan *plan;
    weft_message message = {""};
    const weft_status status = s->kind == WEFT_ATTENTION ? plan_for(&plan, &s->attention, &s->schedule, machine, &message)
                                                         : plan_for(&plan, &s->gemm, &s->schedule, machine, &message);
    if (status != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return plan;
}

/* Simulates a plan and destroys it. */
static inline weft_simulation simulate(weft_plan *plan, const weft_simulate_options *options, weft_traffic *domains) {
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    if (weft_simulate(plan, options, &simulation, domains, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
    return simulation;
}

/* What a problem's sizes are to be. */
typedef enum shape {
    SHAPE_ANY,    /* ragged and unaligned */
    SHAPE_ALIGNED /* rows are whole lines of 128 bytes: pieces share no sectors, and add up to the tensors */
} shape;

static inline weft_attention random_attention(uint64_t *seed, shape shape) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(seed, 1, 2);
    p.kv_heads = random_between(seed, 1, 3);
    p.heads = p.kv_heads * random_between(seed, 1, 3);
    p.seq = random_between(seed, 1, 90);
    p.kv_seq = random_between(seed, 1, 90);
    p.dtype = (weft_dtype)random_between(seed, 0, 2);
    p.head_dim = shape == SHAPE_ALIGNED ? 64 : 8 * random_between(seed, 1, 9);
    p.layout = (weft_layout)random_between(seed, 0, 1);
    p.o_dtype = random_between(seed, 0, 1) ? 1 + WEFT_FP32 : 0;
    draw_mask(seed, &p);
    return p;
}

static inline weft_gemm random_gemm(uint64_t *seed, shape shape) {
    const int64_t unit = shape == SHAPE_ALIGNED ? 64 : 1; /* of 2 bytes at least: 128 */
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = unit * random_between(seed, 1, unit > 1 ? 6 : 120);
    p.n = unit * random_between(seed, 1, unit > 1 ? 6 : 120);
    p.k = unit * random_between(seed, 1, unit > 1 ? 6 : 120);
    p.dtype = (weft_dtype)random_between(seed, 0, 2);
    p.c_dtype = (weft_dtype)random_between(seed, 0, 2);
    p.a_major = (weft_major)random_between(seed, 0, 1);
    p.b_major = (weft_major)random_between(seed, 0, 1);
    p.c_major = (weft_major)random_between(seed, 0, 1);
    p.beta = (double)random_between(seed, 0, 1);
    if (random_between(seed, 0, 1)) {
        p.lda = p.ldb = p.ldc = unit * 130;
    }
    return p;
}

/* A divisor of `count`, at most 3. */
static inline int64_t random_divisor(uint64_t *seed, int64_t count) {
    const int64_t divisor = random_between(seed, 1, 3);
    return count % divisor == 0 ? divisor : 1;
}

/* So many stages as an option, where 0 would be the default. */
static inline int64_t stages_of(int64_t count) {
    return count > 0 ? count : -1;
}

static inline int32_t random_order(uint64_t *seed, int32_t kind) {
    int32_t order;
    do {
        order = (int32_t)random_between(seed, 1, WEFT_ORDER_KINDS);
    } while (weft_order_grid(order) != weft_operation_describe(kind)->grid);
    return order;
}

static inline int64_t random_tile(uint64_t *seed, int64_t length, int64_t unit) {
    return length <= unit ? length : unit * random_between(seed, 1, length / unit < 32 ? length / unit : 32);
}

/* Any schedule that fits the problem. */
static inline void random_schedule(uint64_t *seed, subject *s, shape shape, int clusters) {
    const weft_schedule init = WEFT_SCHEDULE_INIT;
    const int64_t unit = shape == SHAPE_ALIGNED && s->kind == WEFT_GEMM ? 64 : 1;
    weft_schedule *t = &s->schedule;
    *t = init;
    t->order = random_order(seed, s->kind);
    t->sweep = (int32_t)random_between(seed, 1, WEFT_COMMON_SWEEPS);
    t->dispatch = (int32_t)random_between(seed, 1, WEFT_DISPATCHES);
    t->table = (int32_t)random_between(seed, 0, 1);
    t->group = random_between(seed, 1, 5); /* 0 would let the plan choose, by the size of the L2 */
    t->axis = random_between(seed, 0, 1) ? WEFT_AXIS_N : WEFT_AXIS_M;
    t->domains = random_between(seed, 0, 4);
    int64_t rows = s->attention.heads, cols;
    if (s->kind == WEFT_ATTENTION) {
        t->tile_m = random_tile(seed, s->attention.seq, unit);
        t->tile_n = random_tile(seed, s->attention.kv_seq, unit);
        cols = weft_ceil_divide(s->attention.seq, t->tile_m);
    } else {
        t->tile_m = random_tile(seed, s->gemm.m, unit);
        t->tile_n = random_tile(seed, s->gemm.n, unit);
        t->tile_k = random_tile(seed, s->gemm.k, unit);
        rows = weft_ceil_divide(s->gemm.m, t->tile_m);
        cols = weft_ceil_divide(s->gemm.n, t->tile_n);
    }
    if (clusters) {
        t->cluster_m = random_divisor(seed, rows);
        t->cluster_n = random_divisor(seed, cols);
    }
    t->workers = random_between(seed, 0, 2) ? random_between(seed, clusters ? 9 : 1, 40) : 0;
}

static inline subject random_subject(uint64_t *seed, shape shape, int clusters) {
    subject s;
    memset(&s, 0, sizeof s);
    s.kind = random_between(seed, 0, 1) ? WEFT_GEMM : WEFT_ATTENTION;
    s.attention = random_attention(seed, shape);
    s.gemm = random_gemm(seed, shape);
    random_schedule(seed, &s, shape, clusters);
    return s;
}

#endif
