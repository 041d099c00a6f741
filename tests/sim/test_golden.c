/* SPDX-License-Identifier: Apache-2.0 */
/* Exact counts of a table of simulations, as they were when last looked at: a change of the simulator shows here, row by
 * row. WEFT_UPDATE_GOLDEN=1 in the environment writes the file anew. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "problems.h"

#ifndef WEFT_GOLDEN
#define WEFT_GOLDEN "tests/golden/simulator.txt"
#endif

static weft_attention attention_of(int64_t heads, int64_t kv_heads, int64_t seq, int64_t kv_seq, int64_t head_dim,
                                   weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 2;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = head_dim;
    p.dtype = WEFT_FP16;
    p.mask = mask;
    return p;
}

static weft_gemm gemm_of(int64_t m, int64_t n, int64_t k, weft_dtype dtype, weft_major b_major, double beta) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = m;
    p.n = n;
    p.k = k;
    p.dtype = dtype;
    p.b_major = b_major;
    p.beta = beta;
    return p;
}

/* Two problems of each subject. The second ones are ragged, and show shared heads, a mask and C read before it is written.
 * Only their tiles are chosen here; orders, sweeps, dispatches and clusters are the table's. */
static subject problem(int32_t kind, int second, const char **name) {
    const weft_schedule init = WEFT_SCHEDULE_INIT;
    subject s;
    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.schedule = init;
    if (kind == WEFT_ATTENTION) {
        *name = second ? "attention-causal" : "attention";
        s.attention = second ? attention_of(8, 2, 1000, 1300, 128, WEFT_MASK_CAUSAL_BOTTOM_RIGHT)
                             : attention_of(6, 6, 1024, 1024, 64, WEFT_MASK_NONE);
        s.schedule.tile_m = second ? 125 : 64; /* whole pairs of tiles, for the clusters */
        s.schedule.tile_n = 64;
    } else {
        *name = second ? "gemm-beta" : "gemm";
        s.gemm = second ? gemm_of(950, 600, 500, WEFT_FP32, WEFT_COL_MAJOR, 1.0)
                        : gemm_of(1024, 1536, 1024, WEFT_BF16, WEFT_ROW_MAJOR, 0.0);
        s.schedule.tile_m = second ? 96 : 64;
        s.schedule.tile_n = 64;
        s.schedule.tile_k = second ? 48 : 64;
    }
    return s;
}

/* One row: everything that decides it, then the counts. The L2 is cut down, so that small problems do not fit. */
static void write_row(FILE *file, const char *machine_name, int32_t order, int32_t n) {
    const char *name;
    subject s = problem(weft_order_grid(order) == WEFT_GRID_HEADS ? WEFT_ATTENTION : WEFT_GEMM, n % 2, &name);
    s.schedule.order = order;
    s.schedule.sweep = 1 + n % WEFT_COMMON_SWEEPS;
    s.schedule.dispatch = 1 + n / WEFT_COMMON_SWEEPS % WEFT_DISPATCHES;
    s.schedule.group = 3;
    s.schedule.cluster_m = n % 5 == 2 ? 2 : 1;
    s.schedule.cluster_n = n % 5 == 4 ? 2 : 1;
    weft_machine m = machine_named(machine_name);
    m.l2_bytes = m.domains > 2 ? 64 * 1024 : 512 * 1024;
    m.llc_bytes = m.llc_bytes > 0 ? 1024 * 1024 : 0;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.stages = stages_of(n % 4);
    o.seed = (uint64_t)n;
    const weft_traffic t = simulate(plan_of(&s, &m), &o, NULL).total;
    fprintf(file, "%s %s %s %s %s %dx%d stages=%d seed=%d:", machine_name, name, weft_order_describe(order)->name,
            weft_sweep_describe(s.schedule.sweep)->name, weft_dispatch_describe(s.schedule.dispatch)->name,
            (int)s.schedule.cluster_m, (int)s.schedule.cluster_n, n % 4, (int)o.seed);
    fprintf(file, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", t.sectors_from_sm,
            t.sectors, t.hits, t.misses, t.fabric_sectors, t.dram_read_bytes);
}

static void write_table(FILE *file) {
    static const char *const machines[] = {"gb10", "h100", "h200", "b200", "mi300x", "gb10"};
    int32_t n = 0;
    fprintf(file, "# machine problem order sweep dispatch cluster stages seed: sectors_from_sm sectors hits misses"
                  " fabric_sectors dram_read_bytes\n");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        for (int32_t order = 1; order < WEFT_ORDER_CUSTOM; order++) { /* that one is as its table is */
            write_row(file, machines[i], order, n++);
        }
    }
}

/* Both files to their ends: the first line that differs is shown. */
static void compare(FILE *got, FILE *want) {
    char a[512], b[512];
    for (int line = 1;; line++) {
        const char *have = fgets(a, sizeof a, got), *had = fgets(b, sizeof b, want);
        if (!have && !had) {
            return;
        }
        if (!have || !had || strcmp(a, b) != 0) {
            fail_msg("%s:%d differs\n  is  %s  was %s", WEFT_GOLDEN, line, have ? a : "(no line)\n",
                     had ? b : "(no line)\n");
        }
    }
}

static void golden(void **state) {
    (void)state;
    const char *update = getenv("WEFT_UPDATE_GOLDEN");
    const int updates = update && strcmp(update, "1") == 0;
    FILE *want = fopen(WEFT_GOLDEN, updates ? "w" : "r");
    if (!want) {
        fail_msg("cannot open %s", WEFT_GOLDEN);
    }
    if (updates) {
        write_table(want);
    } else {
        FILE *got = tmpfile();
        assert_non_null(got);
        write_table(got);
        rewind(got);
        compare(got, want);
        fclose(got);
    }
    assert_int_equal(fclose(want), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
