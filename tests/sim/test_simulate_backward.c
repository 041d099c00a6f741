/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward in the simulator: what a step adds to, at which level, and passes of their own for dQ. */
#include "problems.h"
#include "sim/memory.h"

static weft_memory memory_of(const char *machine) {
    const weft_machine m = machine_named(machine);
    const weft_profile profile = WEFT_PROFILE_INIT;
    weft_memory memory;
    assert_true(weft_memory_init(&memory, &m, &profile, 64, 1));
    memory.room = memory.fetched = 1;
    return memory;
}

/* One L2 for all: what is not there comes from DRAM and will go back; from then on adds hit. */
static void adds_stay_in_one_l2(void **state) {
    (void)state;
    weft_memory memory = memory_of("gb10");
    for (int i = 0; i < 3; i++) {
        weft_memory_add(&memory, 0, 5, 40, 0.0);
    }
    const weft_traffic t = weft_memory_traffic(&memory, 0);
    assert_int_equal(t.sectors, 120);
    assert_int_equal(t.sectors_from_sm, 120);
    assert_int_equal(t.misses, 40);
    assert_int_equal(t.hits, 80);
    assert_int_equal(t.dram_read_bytes, 40 * memory.sector);
    assert_int_equal(t.dram_write_bytes, 40 * memory.sector);
    weft_memory_release(&memory);
}

/* Two sides: each half is added to at its home, over the fabric for half of them, and no side keeps a copy. */
static void adds_go_home(void **state) {
    (void)state;
    weft_memory memory = memory_of("h200");
    weft_memory_add(&memory, 0, 5, 40, 0.0);
    weft_memory_add(&memory, 1, 5, 40, 0.0);
    const weft_traffic a = weft_memory_traffic(&memory, 0), b = weft_memory_traffic(&memory, 1);
    assert_int_equal(a.fabric_sectors, 20);
    assert_int_equal(b.fabric_sectors, 20);
    assert_int_equal(a.dram_read_bytes + b.dram_read_bytes, 40 * memory.sector);
    /* At home one miss and one hit for each half; and what each side passes on. */
    assert_int_equal(a.hits + b.hits, 40);
    assert_int_equal(a.misses + b.misses, 40 + 40);
    weft_memory_release(&memory);
}

/* Dies with an L2 each: adds meet behind them, in the last-level cache. */
static void adds_pass_private_l2s(void **state) {
    (void)state;
    weft_memory memory = memory_of("mi300x");
    for (int64_t die = 0; die < 8; die++) {
        weft_memory_add(&memory, die, 5, 40, 0.0);
    }
    uint64_t hits = 0, llc = 0, read = 0, written = 0;
    for (int64_t die = 0; die < 8; die++) {
        const weft_traffic t = weft_memory_traffic(&memory, die);
        hits += t.hits;
        llc += t.llc_hits;
        read += t.dram_read_bytes;
        written += t.dram_write_bytes;
    }
    assert_int_equal(hits, 0);
    assert_int_equal(llc, 7 * 40);
    assert_int_equal(read, 40 * memory.sector);
    assert_int_equal(written, 40 * memory.sector);
    weft_memory_release(&memory);
}

enum { HEADS = 4, SEQ = 256, DIM = 64, KEYS = 128, QUERIES = 32 };

static weft_simulation simulate_out(int64_t kv_heads, int64_t dq_pass, weft_mask mask, int32_t o_dtype,
                                    weft_status expected) {
    weft_machine m = machine_named("mi300x");
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_plan *plan;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.heads = HEADS;
    p.kv_heads = kv_heads;
    p.seq = p.kv_seq = SEQ;
    p.head_dim = DIM;
    p.dtype = WEFT_BF16;
    p.o_dtype = o_dtype;
    p.layout = WEFT_BHSD;
    p.mask = mask;
    s.tile_m = QUERIES;
    s.tile_n = KEYS;
    s.dispatch = WEFT_DISPATCH_GRID;
    profile.dq_pass = dq_pass;
    snprintf(profile.name, sizeof profile.name, "test");
    snprintf(profile.title, sizeof profile.title, "test");
    o.profile = &profile;
    weft_message message = {""};
    assert_int_equal(plan_for(&plan, &p, &s, &m, &message), WEFT_OK);
    assert_int_equal(weft_simulate(plan, &o, &result, NULL, &message), expected);
    weft_plan_destroy(plan);
    return result;
}

static weft_simulation simulate_backward(int64_t kv_heads, int64_t dq_pass, weft_mask mask, weft_status expected) {
    return simulate_out(kv_heads, dq_pass, mask, 0, expected);
}

/* Every sector that a launch asks for, by hand: sectors are 128 bytes, a row of bf16 is one, of fp32 two; 32 numbers of
 * fp32 are one. Gradients in fp32 are twice as long. */
static void counts_every_sector(void **state) {
    (void)state;
    for (int64_t kv_heads = 1; kv_heads <= HEADS; kv_heads *= 2) {
        const uint64_t group = HEADS / (uint64_t)kv_heads, tiles = (uint64_t)kv_heads * SEQ / KEYS, steps = SEQ / QUERIES;
        const uint64_t block = 2 * QUERIES + 2 * QUERIES / 32; /* Q, dO, log-sum-exps and deltas */
        const uint64_t keys = 4 * KEYS;                        /* K and V, dK and dV */
        const uint64_t adds = tiles * (keys + steps * group * (block + 2 * QUERIES));
        assert_int_equal(simulate_backward(kv_heads, 0, WEFT_MASK_NONE, WEFT_OK).total.sectors_from_sm, adds);
        const uint64_t of_dq = 2 * KEYS + 2 * KEYS / 32 + KEYS + steps * 2 * QUERIES; /* a block of queries; dQ; K and V */
        const uint64_t passes = tiles * (keys + steps * group * block + group * of_dq);
        assert_int_equal(simulate_backward(kv_heads, 1, WEFT_MASK_NONE, WEFT_OK).total.sectors_from_sm, passes);
        const uint64_t more = tiles * 2 * KEYS, more_of_dq = tiles * group * KEYS;
        assert_int_equal(simulate_out(kv_heads, 0, WEFT_MASK_NONE, 1 + WEFT_FP32, WEFT_OK).total.sectors_from_sm,
                         adds + more);
        assert_int_equal(simulate_out(kv_heads, 1, WEFT_MASK_NONE, 1 + WEFT_FP32, WEFT_OK).total.sectors_from_sm,
                         passes + more + more_of_dq);
    }
}

/* Seven products instead of five, and no adds. */
static void passes_take_longer(void **state) {
    (void)state;
    const weft_simulation adds = simulate_backward(HEADS, 0, WEFT_MASK_NONE, WEFT_OK);
    const weft_simulation passes = simulate_backward(HEADS, 1, WEFT_MASK_NONE, WEFT_OK);
    assert_true(passes.seconds > adds.seconds);
    simulate_backward(HEADS, 0, WEFT_MASK_CAUSAL, WEFT_OK);
    simulate_backward(HEADS, 1, WEFT_MASK_CAUSAL, WEFT_UNSUPPORTED);
}

/* Workers of one die that share a head, with nothing requested ahead: in step all of them wait for every miss. If each step
 * varies on its own, most come when the first has fetched the piece; a spread that a tile has as a whole does not help so.
 */
static void only_the_first_waits(void **state) {
    (void)state;
    weft_machine m = machine_named("mi300x");
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_simulation in_step = WEFT_SIMULATION_INIT, spread = WEFT_SIMULATION_INIT;
    weft_plan *plan;
    p.heads = p.kv_heads = 8;
    p.seq = 128 * 38;
    p.kv_seq = 32768;
    p.head_dim = 128;
    p.dtype = WEFT_BF16;
    p.layout = WEFT_BHSD;
    s.tile_m = 128;
    s.tile_n = 64;
    s.order = WEFT_ORDER_HEAD_FIRST_SWIZZLED;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.dispatch = WEFT_DISPATCH_GRID;
    snprintf(profile.name, sizeof profile.name, "test");
    snprintf(profile.title, sizeof profile.title, "test");
    o.profile = &profile;
    assert_int_equal(plan_for(&plan, &p, &s, &m, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, &o, &in_step, NULL, NULL), WEFT_OK);
    profile.spread_step = 0.2;
    assert_int_equal(weft_simulate(plan, &o, &spread, NULL, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    assert_true(spread.seconds < 0.95 * in_step.seconds);
    assert_true(spread.total.hits > 9 * spread.total.misses); /* and they stay together */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_stay_in_one_l2),   cmocka_unit_test(adds_go_home),
        cmocka_unit_test(adds_pass_private_l2s), cmocka_unit_test(counts_every_sector),
        cmocka_unit_test(passes_take_longer),    cmocka_unit_test(only_the_first_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
