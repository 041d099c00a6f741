/* SPDX-License-Identifier: Apache-2.0 */
/* What every simulation must satisfy: counts that no order can change, sums that add up, arguments that are checked. */
#include <math.h>

#include "problems.h"
#include <weft/stream.h>

enum { MOST_DOMAINS = 8 };

/* What the workers ask for, counted tile by tile without the library. */
typedef struct demand {
    uint64_t read, written, visits, steps;
} demand;

/* Sectors under `rows` runs of `run` bytes each: end to end they share a sector at a seam, otherwise each run has its own
 * first sector. */
static uint64_t count_sectors(int64_t rows, int64_t run, int64_t pitch, int64_t sector) {
    uint64_t count = 0;
    int64_t seen = -1;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t start = pitch == run ? row * run : 0;
        seen = pitch == run ? seen : -1;
        for (int64_t byte = start; byte < start + run; byte++) {
            count += byte / sector != seen;
            seen = byte / sector;
        }
    }
    return count;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int any_sees(const weft_attention *p, int64_t query, int64_t queries, int64_t key, int64_t keys) {
    int any = 0;
    for (int64_t i = query; i < query + queries; i++) {
        for (int64_t j = key; j < key + keys && !any; j++) {
            any = mask_shows(p, i, j);
        }
    }
    return any;
}

/* A cluster of heads and query blocks reads its Q, writes its O, and goes through K and V of each of its kv heads once, as
 * far as any of its queries sees. */
static demand attention_demand(const weft_plan *plan) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), run = p->head_dim * bytes, sector = plan->machine.l2_sector;
    const int64_t rows = s->tile_m * s->cluster_n, out = p->o_dtype ? (int64_t)sizeof(float) : bytes;
    demand d = {0, 0, 0, 0};
    for (int64_t head = 0; head < p->heads; head += s->cluster_m) {
        int64_t kv_heads = 0;
        for (int64_t h = head; h < head + s->cluster_m; h++) {
            kv_heads += h == head || h * p->kv_heads / p->heads != (h - 1) * p->kv_heads / p->heads;
        }
        for (int64_t first = 0; first < p->seq; first += rows) {
            const int64_t queries = least(rows, p->seq - first);
            d.read += (uint64_t)s->cluster_m * count_sectors(queries, run, p->q_strides.seq * bytes, sector);
            d.written += (uint64_t)s->cluster_m * count_sectors(queries, p->head_dim * out, p->o_strides.seq * out, sector);
            for (int64_t key = 0; key < p->kv_seq; key += s->tile_n) {
                const int64_t keys = least(s->tile_n, p->kv_seq - key);
                if (any_sees(p, first, queries, key, keys)) {
                    d.read += (uint64_t)kv_heads * (count_sectors(keys, run, p->k_strides.seq * bytes, sector) +
                                                    count_sectors(keys, run, p->v_strides.seq * bytes, sector));
                    d.visits += 2 * (uint64_t)kv_heads;
                    d.steps++;
                }
            }
        }
    }
    d.read *= (uint64_t)p->batch;
    d.written *= (uint64_t)p->batch;
    d.visits *= (uint64_t)p->batch;
    d.steps *= (uint64_t)p->batch;
    return d;
}

/* Sectors of a part of a matrix. */
static uint64_t part_sectors(int64_t rows, int64_t cols, weft_major major, int64_t ld, int64_t bytes, int64_t sector) {
    return major == WEFT_ROW_MAJOR ? count_sectors(rows, cols * bytes, ld * bytes, sector)
                                   : count_sectors(cols, rows * bytes, ld * bytes, sector);
}

/* A cluster of tiles asks once for each of its rows of A and columns of B, and writes its part of C. */
static demand gemm_demand(const weft_plan *plan) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), sector = plan->machine.l2_sector;
    const int64_t rows = s->tile_m * s->cluster_m, cols = s->tile_n * s->cluster_n;
    demand d = {0, 0, 0, 0};
    for (int64_t m = 0; m < p->m; m += rows) {
        for (int64_t n = 0; n < p->n; n += cols) {
            for (int64_t k = 0; k < p->k; k += s->tile_k) {
                const int64_t depth = least(s->tile_k, p->k - k);
                for (int64_t i = m; i < least(m + rows, p->m); i += s->tile_m, d.visits++) {
                    d.read += part_sectors(least(s->tile_m, p->m - i), depth, p->a_major, p->lda, bytes, sector);
                }
                for (int64_t j = n; j < least(n + cols, p->n); j += s->tile_n, d.visits++) {
                    d.read += part_sectors(depth, least(s->tile_n, p->n - j), p->b_major, p->ldb, bytes, sector);
                }
                d.steps++;
            }
            const uint64_t c = part_sectors(least(rows, p->m - m), least(cols, p->n - n), p->c_major, p->ldc,
                                            (int64_t)weft_dtype_bytes(p->c_dtype), sector);
            d.written += c;
            d.read += p->beta != 0 ? c : 0;
        }
    }
    return d;
}

static demand demand_of(const weft_plan *plan) {
    return plan->problem.operation == WEFT_ATTENTION ? attention_demand(plan) : gemm_demand(plan);
}

static void assert_traffic_equal(const weft_traffic *a, const weft_traffic *b) {
    assert_memory_equal(a, b, sizeof *a); /* words of 64 bits: nothing between them */
}

static void add_traffic(weft_traffic *sum, const weft_traffic *t) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)t;
    for (size_t i = 1; i < sizeof *t / sizeof *from; i++) { /* all but struct_size */
        to[i] += from[i];
    }
}

/* Everything that holds on every machine. Destroys the plan. */
static weft_simulation check(weft_plan *plan, const weft_simulate_options *options) {
    const weft_machine m = plan->machine;
    const double merge = profile_of(plan).merge;
    const demand d = demand_of(plan);
    const uint64_t asked = d.read + d.written, sector = (uint64_t)m.l2_sector;
    weft_traffic domains[MOST_DOMAINS] = {WEFT_TRAFFIC_INIT}, sum = WEFT_TRAFFIC_INIT;
    const weft_simulation r = simulate(plan, options, domains);
    for (int64_t i = 0; i < m.domains; i++) {
        assert_int_equal(domains[i].hits + domains[i].misses, domains[i].sectors);
        add_traffic(&sum, &domains[i]);
    }
    assert_traffic_equal(&sum, &r.total);
    assert_int_equal(r.total.hits + r.total.misses, r.total.sectors);
    assert_int_equal(r.total.sectors, r.total.sectors_from_sm + r.total.fabric_sectors);
    assert_int_equal(r.total.dram_write_bytes, d.written * sector);
    if (merge <= 1) { /* nothing merges: what was asked for, to the sector */
        assert_int_equal(r.total.sectors_from_sm, asked);
    } else {
        assert_true(r.total.sectors_from_sm <= asked);
        assert_true((double)r.total.sectors_from_sm >= (double)asked / merge - (double)m.domains);
    }
    if (m.l2_home != WEFT_HOME_SPLIT) { /* a miss that is no write comes from behind, and nothing crosses */
        const uint64_t writes = m.l2_write == WEFT_WRITE_MISS ? d.written : 0;
        assert_int_equal(r.total.fabric_sectors, 0);
        assert_int_equal(r.total.misses - writes, r.total.llc_hits + r.total.dram_read_bytes / sector);
    }
    assert_int_equal(r.piece_visits, d.visits);
    assert_true(r.simulated == 1.0);
    assert_true(r.seconds > 0 && isfinite(r.seconds) && isfinite(r.tflops));
    return r;
}

static const char *const names[] = {"gb10", "h100", "h200", "b200", "mi300x"};
enum { MACHINES = sizeof names / sizeof *names };

/* A built-in machine or the one in step, with an L2 so small that a small problem does not fit. */
static weft_machine random_machine(uint64_t *seed) {
    const int64_t which = random_between(seed, 0, MACHINES);
    weft_machine m = which < MACHINES ? machine_named(names[which]) : machine_in_step();
    if (random_between(seed, 0, 1)) {
        m.l2_bytes = 1024 * random_between(seed, 1, 64);
        m.llc_bytes = m.llc_bytes > 0 ? 2 * m.l2_bytes : 0;
    }
    if (random_between(seed, 0, 3) == 0) {
        m.l2_replacement = WEFT_REPLACEMENT_RANDOM;
    }
    return m;
}

static weft_simulate_options random_options(uint64_t *seed) {
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.seed = random_bits(seed);
    o.stages = stages_of(random_between(seed, 0, 16));
    o.drift = (double)random_between(seed, -1, 4) / 4.0;
    return o;
}

static void any_problem(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int i = 0; random_round(&seed, &i, 1200); i++) {
        const weft_machine m = random_machine(&seed);
        const subject s = random_subject(&seed, SHAPE_ANY, i % 2);
        const weft_simulate_options o = random_options(&seed);
        check(plan_of(&s, &m), i % 7 ? &o : NULL);
    }
}

/* Every order, sweep and dispatch of one problem, on the machines that count each request: all ask for the same. */
static void every_schedule(void **state) {
    (void)state;
    static const char *const exact[] = {"gb10", "mi300x"};
    uint64_t seed = random_seed(2);
    for (int i = 0; random_round(&seed, &i, 12); i++) {
        const weft_machine m = machine_named(exact[i % 2]);
        subject s = random_subject(&seed, SHAPE_ANY, 0);
        uint64_t first = 0;
        for (int32_t n = 0; n < WEFT_ORDER_KINDS * WEFT_COMMON_SWEEPS * WEFT_DISPATCHES; n++) {
            s.schedule.order = 1 + n % WEFT_ORDER_KINDS;
            s.schedule.sweep = 1 + n / WEFT_ORDER_KINDS % WEFT_COMMON_SWEEPS;
            s.schedule.dispatch = 1 + n / WEFT_ORDER_KINDS / WEFT_COMMON_SWEEPS;
            const weft_grid_kind grid = weft_order_grid(s.schedule.order);
            if (grid == WEFT_GRID_ANY || grid == weft_operation_describe(s.kind)->grid) {
                const weft_simulation r = check(plan_of(&s, &m), NULL);
                first = first == 0 ? r.total.sectors_from_sm : first;
                assert_int_equal(r.total.sectors_from_sm, first);
            }
        }
    }
}

/* Where pieces share no sectors, no cache misses less than all that is ever asked for once, and one that holds all of it
 * misses no more. */
static void compulsory_misses(void **state) {
    (void)state;
    uint64_t seed = random_seed(3);
    for (int i = 0; random_round(&seed, &i, 300); i++) {
        const subject s = random_subject(&seed, SHAPE_ALIGNED, i % 2);
        weft_machine m = i % 3 ? machine_in_step() : machine_named("gb10");
        m.l2_bytes = 1024 * random_between(&seed, 1, 256);
        const weft_simulate_options o = random_options(&seed);
        const weft_simulation small = check(plan_of(&s, &m), &o);
        assert_true(small.total.misses >= small.compulsory_misses);
        m.l2_bytes = INT64_C(1) << 30;
        const weft_simulation large = check(plan_of(&s, &m), &o);
        assert_int_equal(large.total.misses, large.compulsory_misses);
        assert_int_equal(large.compulsory_misses, small.compulsory_misses);
        m.l2_write = WEFT_WRITE_HIT;
        const weft_simulation hit = check(plan_of(&s, &m), &o);
        assert_int_equal(hit.total.misses, hit.compulsory_misses);
    }
}

static void same_seed_same_result(void **state) {
    (void)state;
    uint64_t seed = random_seed(4);
    for (int i = 0; random_round(&seed, &i, 60); i++) {
        const weft_machine m = random_machine(&seed);
        const subject s = random_subject(&seed, SHAPE_ANY, i % 2);
        const weft_simulate_options o = random_options(&seed);
        weft_simulation a = simulate(plan_of(&s, &m), &o, NULL), b = simulate(plan_of(&s, &m), &o, NULL);
        assert_int_equal(a.seed, o.seed);
        a.elapsed_seconds = b.elapsed_seconds = 0; /* the one field that is measured */
        assert_traffic_equal(&a.total, &b.total);
        assert_memory_equal(&a.seconds, &b.seconds, sizeof a.seconds);
        assert_memory_equal(&a.tflops, &b.tflops, sizeof a.tflops);
        assert_int_equal(a.piece_visits, b.piece_visits);
    }
}

static subject many_tiles(void) {
    subject s;
    memset(&s, 0, sizeof s);
    s.kind = WEFT_ATTENTION;
    const weft_attention a = WEFT_ATTENTION_INIT;
    const weft_schedule t = WEFT_SCHEDULE_INIT;
    s.attention = a;
    s.attention.heads = s.attention.kv_heads = 16;
    s.attention.seq = s.attention.kv_seq = 2048;
    s.attention.head_dim = 64;
    s.schedule = t;
    return s;
}

/* Stopped early and scaled up: close to the whole, on problems of many equal tiles. */
static void limits(void **state) {
    (void)state;
    const weft_machine m = machine_named("gb10");
    const subject s = many_tiles();
    const weft_simulation whole = check(plan_of(&s, &m), NULL);
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    for (o.limit = 1; o.limit < whole.piece_visits * 2; o.limit *= 4) {
        const weft_simulation part = simulate(plan_of(&s, &m), &o, NULL);
        assert_true(part.simulated > 0 && part.simulated <= 1.0);
        assert_true(fabs((double)part.total.sectors / (double)whole.total.sectors - 1.0) < 0.1);
        assert_true(fabs((double)part.total.sectors_from_sm / (double)whole.total.sectors_from_sm - 1.0) < 0.1);
        assert_true(o.limit < whole.piece_visits / 2 || part.simulated == 1.0);
    }
}

/* Scaled counts still add up, and there may be nothing to scale: queries that see no key take no steps. */
static void limits_of_any_kind(void **state) {
    (void)state;
    const weft_machine m = machine_named("h200");
    subject s = many_tiles();
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    for (o.limit = 100; o.limit < 16384; o.limit += 1000) {
        weft_traffic domains[MOST_DOMAINS] = {WEFT_TRAFFIC_INIT};
        const weft_simulation r = simulate(plan_of(&s, &m), &o, domains);
        assert_int_equal(r.total.hits + r.total.misses, r.total.sectors);
        assert_int_equal(domains[0].hits + domains[0].misses, domains[0].sectors);
    }
    s.attention.mask = WEFT_MASK_CAUSAL;
    s.attention.offset = -s.attention.seq;
    o.limit = 1;
    const weft_simulation r = simulate(plan_of(&s, &m), &o, NULL);
    assert_true(r.simulated > 0 && r.simulated <= 1.0);
    assert_true(r.seconds > 0 && isfinite(r.seconds));
    assert_true(r.total.sectors > 0);
}

/* Sets that overflow early: a cyclic pass over nearly what fits loses their share each time, one over less loses nothing,
 * and evenly filled sets lose nothing in either. */
static void crowded_sets(void **state) {
    (void)state;
    enum { BLOCK = 8192, PASSES = 9 };
    weft_machine m = machine_named("h200");
    m.l2_bytes /= 8; /* as large a share of fewer sets */
    m.l2_slack = 0;
    m.l2_usable = 1;
    for (int home = 0; home < 2; home++) { /* one L2, or two with copies of each other's lines */
        m.l2_home = home ? WEFT_HOME_SPLIT : WEFT_HOME_NONE;
        m.domains = home ? 2 : 1;
        for (int crowded = 0; crowded < 2; crowded++) {
            m.l2_crowded = crowded ? 0.05 : 0;
            for (int nearly = 0; nearly < 2; nearly++) {
                const int64_t bytes = m.l2_bytes / 100 * (nearly ? 95 : 80) / BLOCK * BLOCK;
                const weft_stream stream = {sizeof stream, 1, bytes, BLOCK, PASSES, WEFT_STREAM_SHARED, 0, 0};
                weft_simulate_options o = WEFT_SIMULATE_INIT;
                o.drift = -1;
                weft_traffic t = WEFT_TRAFFIC_INIT;
                uint64_t distinct;
                assert_int_equal(weft_simulate_stream(&m, &stream, &o, &t, &distinct, NULL), WEFT_OK);
                const double reads = (double)t.dram_read_bytes / (double)m.l2_sector / (double)distinct;
                const double lost = crowded && nearly ? m.l2_crowded * (PASSES - 1) : 0;
                assert_true(fabs(reads - 1 - lost) < 0.002);
                assert_int_equal(t.hits + t.misses, t.sectors);
            }
        }
    }
}

/* Each part of each row is read once, and so is O where it holds a part. */
static void combining(void **state) {
    (void)state;
    enum { HEADS = 3, SEQ = 70, DIM = 48, PARTS = 4, SECTOR = 32 };
    for (int32_t into = 0; into < 2; into++) {
        weft_combine p = WEFT_COMBINE_INIT;
        const weft_machine m = machine_named("h200");
        weft_plan *plan;
        p.parts = PARTS;
        p.heads = HEADS;
        p.seq = SEQ;
        p.head_dim = DIM;
        p.dtype = WEFT_BF16;
        p.layout = WEFT_BHSD;
        p.into = into;
        assert_int_equal(plan_for(&plan, &p, NULL, &m, NULL), WEFT_OK);
        const uint64_t rows = HEADS * SEQ, part = rows * DIM * 2 / SECTOR, o = rows * DIM * 4 / SECTOR;
        const weft_simulation r = simulate(plan, NULL, NULL);
        assert_int_equal(r.total.sectors_from_sm, PARTS * part + (uint64_t)into * o + o);
        assert_int_equal(r.compulsory_misses, PARTS * part + (uint64_t)into * o);
        assert_int_equal(r.total.dram_write_bytes, o * SECTOR);
    }
}

static void assert_refused(const weft_plan *plan, const weft_simulate_options *o, weft_simulation *r, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_simulate(plan, o, r, NULL, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, text));
    assert_int_equal(weft_simulate(plan, o, r, NULL, NULL), WEFT_INVALID);
    weft_curve_point points[2];
    message.text[0] = '\0';
    if (r) { /* the curve takes the same options, and must not take worse ones */
        assert_int_equal(weft_simulate_curve(plan, o, points, 2, &message), WEFT_INVALID);
        assert_non_null(strstr(message.text, text));
    }
}

static void bad_arguments(void **state) {
    (void)state;
    uint64_t seed = random_seed(5);
    const weft_machine m = machine_named("gb10");
    const subject s = random_subject(&seed, SHAPE_ALIGNED, 0);
    weft_plan *plan = plan_of(&s, &m);
    weft_simulation r = WEFT_SIMULATION_INIT;
    const weft_simulate_options init = WEFT_SIMULATE_INIT;
    assert_refused(NULL, NULL, &r, "plan");
    assert_refused(plan, NULL, NULL, "simulation");
    weft_simulate_options o = init;
    o.stages = 17;
    assert_refused(plan, &o, &r, "stages 17");
    o = init;
    o.drift = 2;
    assert_refused(plan, &o, &r, "drift 2");
    o = init;
    o.struct_size = 3;
    assert_refused(plan, &o, &r, "struct_size");
    o = init;
    o.stages = 16;
    assert_int_equal(weft_simulate(plan, &o, &r, NULL, NULL), WEFT_OK);
    weft_curve_point points[2];
    assert_int_equal(weft_simulate_curve(plan, NULL, points, 1, NULL), WEFT_INVALID);
    assert_int_equal(weft_simulate_curve(plan, NULL, NULL, 2, NULL), WEFT_INVALID);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_problem),           cmocka_unit_test(every_schedule), cmocka_unit_test(compulsory_misses),
        cmocka_unit_test(same_seed_same_result), cmocka_unit_test(limits),         cmocka_unit_test(limits_of_any_kind),
        cmocka_unit_test(crowded_sets),          cmocka_unit_test(combining),      cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
