/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward as an operation: its plan is made, described, simulated and refused like any other. What it computes
 * is held to the reference in tests/cpu/attention. */
#include "../cmocka_all.h"

#include <string.h>

#include <weft/sim.h>

#include "../masks.h"
#include "../plans.h"
#include "../random.h"

static weft_attention random_problem(uint64_t *random) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 3);
    p.heads = p.kv_heads * random_between(random, 1, 4);
    p.seq = random_between(random, 1, 700);
    p.kv_seq = random_between(random, 1, 700);
    p.head_dim = 8 * random_between(random, 1, 16);
    p.dtype = WEFT_BF16;
    draw_mask(random, &p);
    return p;
}

static int sees_any(const weft_attention *resolved, int64_t first_query, int64_t queries, int64_t first_key, int64_t keys) {
    for (int64_t q = first_query; q < first_query + queries && q < resolved->seq; q++) {
        const weft_rows seen = weft_seen_keys(resolved, 0, q);
        if (seen.begin < seen.end && seen.end > first_key && seen.begin < first_key + keys) {
            return 1;
        }
    }
    return 0;
}

/* A tile of keys visits the blocks of queries that see one of its keys, and no others. */
static void steps_are_those_that_see(void **state) {
    (void)state;
    uint64_t random = random_seed(81);
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    for (int round = 0; random_round(&random, &round, 60); round++) {
        const weft_attention p = random_problem(&random);
        weft_attention resolved;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        s.tile_m = random_between(&random, 1, p.seq);
        s.tile_n = random_between(&random, 1, p.kv_seq);
        assert_int_equal(resolve_attention(&resolved, &p, NULL), WEFT_OK);
        assert_int_equal(plan_for(&plan, &p, &s, &machine, NULL), WEFT_OK);
        uint64_t steps = 0;
        for (int64_t key = 0; key < p.kv_seq; key += s.tile_n) {
            for (int64_t query = 0; query < p.seq; query += s.tile_m) {
                steps += (uint64_t)sees_any(&resolved, query, s.tile_m, key, s.tile_n);
            }
        }
        steps *= (uint64_t)(p.batch * p.kv_heads);
        weft_simulation simulation = WEFT_SIMULATION_INIT;
        assert_int_equal(weft_simulate_steps(plan), steps);
        assert_int_equal(weft_simulate(plan, NULL, &simulation, NULL, NULL), WEFT_OK);
        assert_int_equal(simulation.piece_visits, 3 * steps); /* Q, dO and dQ */
        weft_plan_destroy(plan);
    }
}

static void is_described_and_refused(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.heads = p.kv_heads = 4;
    p.seq = p.kv_seq = 384;
    p.head_dim = 64;
    assert_true(weft_problem_flops(&p) == 2.5 * 4 * 4 * 384.0 * 384.0 * 64);
    weft_plan *plan;
    weft_message message = {""};
    weft_schedule s = WEFT_SCHEDULE_INIT;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    char text[1024];
    assert_true(weft_plan_json(plan, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\"kind\": \"attention-backward\""));
    const weft_attention_data forward = WEFT_ATTENTION_DATA_INIT;
    assert_int_equal(weft_plan_run(plan, &forward, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the plan is for attention-backward, and the data for attention");
    float one;
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = data.k = data.v = data.grad_o = &one;
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "grad_q is null");
    weft_plan_destroy(plan);
    s.cluster_m = 2;
    s.workers = 2;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &simulation, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "the simulator takes attention backward without clusters");
    weft_plan_destroy(plan);
}

/* Long and short tiles are those of a causal mask, of one sequence. */
static void sweeps_need_their_mask(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 50, 96};
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.seq = p.kv_seq = 96;
    p.head_dim = 8;
    for (int packed = 0; packed < 2; packed++) {
        p.sequences = packed ? 2 : 0;
        p.lengths.q_starts = packed ? starts : NULL;
        for (weft_mask mask = WEFT_MASK_NONE; mask <= WEFT_MASK_WINDOW_BOTTOM_RIGHT; mask++) {
            const int causal = mask == WEFT_MASK_CAUSAL || mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
            p.mask = mask;
            for (s.sweep = WEFT_COMMON_SWEEPS + 1; s.sweep <= WEFT_SWEEPS; s.sweep++) {
                const int taken = !weft_sweep_folds(s.sweep) || (causal && !packed);
                assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), taken ? WEFT_OK : WEFT_INVALID);
                if (!taken) {
                    assert_non_null(strstr(message.text, "-causal needs a causal mask and no packed batch"));
                }
                weft_plan_destroy(plan);
            }
        }
    }
}

/* Of what is optional, all is given or nothing. */
static void optional_buffers_go_together(void **state) {
    (void)state;
    enum { N = 96 * 8 };
    static float memory[9][N];
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.seq = p.kv_seq = 96;
    p.head_dim = 8;
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = memory[0];
    data.k = memory[1];
    data.v = memory[2];
    data.grad_o = memory[3];
    data.grad_q = memory[4];
    data.grad_k = memory[5];
    data.grad_v = memory[6];
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
    data.o = memory[7];
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lse is null");
    data.lse = memory[8];
    assert_int_equal(weft_plan_enqueue(plan, &data, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_enqueue(plan, &data, memory, &message), WEFT_INVALID);
    assert_string_equal(message.text, "stream is not null, and the plan is for the CPU");
    data.grad_v = memory[8] + 1;
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lse overlaps grad_v");
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_that_see),
        cmocka_unit_test(is_described_and_refused),
        cmocka_unit_test(sweeps_need_their_mask),
        cmocka_unit_test(optional_buffers_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
