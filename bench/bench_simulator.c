/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the simulator is: visits of workers to pieces, processor seconds, visits per second, and the memory it took; and
 * how many times the time 16 times the work takes. */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <weft/sim.h>

typedef struct bench_case {
    const char *name, *machine;
    int64_t batch, heads, seq, head_dim, tile_m, tile_n;
    int causal;
    int32_t order, sweep, dispatch;
} bench_case;

/* clang-format off */
static const bench_case cases[] = {
    {"cyclic, GB10",        "gb10",   8,  1, 131072,  64,  64, 64, 0, WEFT_ORDER_HEAD_FIRST,          WEFT_SWEEP_FORWARD,  WEFT_DISPATCH_STATIC},
    {"sawtooth, GB10",      "gb10",   8,  1, 131072,  64,  64, 64, 0, WEFT_ORDER_HEAD_FIRST,          WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC},
    {"causal, GB10",        "gb10",   8,  1, 131072,  64,  64, 64, 1, WEFT_ORDER_LONGEST_FIRST,       WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_DYNAMIC},
    {"block-first, MI300X", "mi300x", 1, 128, 32768, 128, 128, 64, 0, WEFT_ORDER_BLOCK_FIRST,         WEFT_SWEEP_FORWARD,  WEFT_DISPATCH_GRID},
    {"head-first, MI300X",  "mi300x", 1, 32,  65536, 128, 128, 64, 0, WEFT_ORDER_HEAD_FIRST_SWIZZLED, WEFT_SWEEP_FORWARD,  WEFT_DISPATCH_GRID},
    {"two sides, H200",     "h200",   1, 16,  65536, 128, 128, 64, 0, WEFT_ORDER_HEAD_FIRST_SWIZZLED, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC},
    {"16 x cyclic, GB10",   "gb10",   8,  1, 524288,  64,  64, 64, 0, WEFT_ORDER_HEAD_FIRST,          WEFT_SWEEP_FORWARD,  WEFT_DISPATCH_STATIC},
};
/* clang-format on */

static double now(void) {
    return (double)clock() / CLOCKS_PER_SEC; /* of this processor: others may be busy on it, too */
}

static void print_row(const char *name, const weft_simulation *sim, double seconds) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const double visits = (double)sim->piece_visits;
    printf("%-24s%10.1f M visits%10.3f s%10.1f M visits/s%8.0f MB at most\n", name, visits / 1e6, seconds,
           visits / seconds / 1e6, (double)usage.ru_maxrss / 1024);
}

/* Returns 0 and the seconds that it took. */
static int run_attention(const bench_case *c, double *seconds) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_message message;
    weft_plan *plan = NULL;
    p.batch = c->batch;
    p.heads = p.kv_heads = c->heads;
    p.seq = p.kv_seq = c->seq;
    p.head_dim = c->head_dim;
    p.dtype = WEFT_FP16;
    p.mask = c->causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    s.tile_m = c->tile_m;
    s.tile_n = c->tile_n;
    s.order = c->order;
    s.sweep = c->sweep;
    s.dispatch = c->dispatch;
    options.schedule = &s;
    options.machine = &machine;
    const double begin = now();
    if (weft_machine_load(&machine, c->machine, &message) || weft_plan_create(&plan, &p, &options, &message) ||
        weft_simulate(plan, NULL, &sim, NULL, &message)) {
        fprintf(stderr, "%s: %s\n", c->name, message.text);
        weft_plan_destroy(plan);
        return 1;
    }
    *seconds = now() - begin;
    print_row(c->name, &sim, *seconds);
    weft_plan_destroy(plan);
    return 0;
}

static int run_gemm(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_message message;
    weft_plan *plan = NULL;
    p.m = p.n = p.k = 16384;
    p.dtype = p.c_dtype = WEFT_BF16;
    s.order = WEFT_ORDER_HILBERT;
    options.schedule = &s;
    options.machine = &machine;
    const double begin = now();
    if (weft_machine_load(&machine, "h100", &message) || weft_plan_create(&plan, &p, &options, &message) ||
        weft_simulate(plan, NULL, &sim, NULL, &message)) {
        fprintf(stderr, "gemm: %s\n", message.text);
        weft_plan_destroy(plan);
        return 1;
    }
    print_row("GEMM 16384^3, H100", &sim, now() - begin);
    weft_plan_destroy(plan);
    return 0;
}

int main(void) {
    enum { CASES = sizeof cases / sizeof *cases };
    double seconds[CASES] = {0};
    int failed = run_gemm();
    for (size_t i = 0; i < CASES; i++) {
        failed |= run_attention(&cases[i], &seconds[i]);
    }
    if (!failed) {
        printf("16 times the work takes %.1f times the time\n", seconds[CASES - 1] / seconds[0]);
    }
    return failed;
}
