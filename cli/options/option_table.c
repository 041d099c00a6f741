/* SPDX-License-Identifier: Apache-2.0 */
/* The options that are the command's own. */
#include <weft/dist.h>

#include "options/options.h"

static const char *order_name(int32_t i) {
    return weft_order_describe(i + 1) ? weft_order_describe(i + 1)->name : NULL;
}
static const char *sweep_name(int32_t i) {
    return weft_sweep_describe(i + 1) ? weft_sweep_describe(i + 1)->name : NULL;
}
static const char *dispatch_name(int32_t i) {
    return weft_dispatch_describe(i + 1) ? weft_dispatch_describe(i + 1)->name : NULL;
}

static const char *cut_name(int32_t i) {
    return weft_rank_cut_name(i + 1);
}
static const char *exchange_name(int32_t i) {
    return weft_exchange_name(i + 1);
}
static const char *rank_order_name(int32_t i) {
    return weft_rank_order_describe(i + 1) ? weft_rank_order_describe(i + 1)->name : NULL;
}
static const char *rank_sweep_name(int32_t i) { /* ranks take the first two of all sweeps */
    return i < WEFT_SWEEP_SAWTOOTH ? sweep_name(i) : NULL;
}

/* Choices that are only the command's, in the order of the enumerations they stand for. */
#define WORDS(function, ...)                                                                                               \
    static const char *function(int32_t i) {                                                                               \
        static const char *const words[] = {__VA_ARGS__};                                                                  \
        return i >= 0 && (size_t)i < sizeof words / sizeof *words ? words[i] : NULL;                                       \
    }
WORDS(axis_name, "n", "m")
WORDS(device_name, "cpu", "cuda")
WORDS(mode_name, "estimate", "measure", "stored")
WORDS(show_name, "position", "worker", "domain", "path")
WORDS(plot_name, "time", "tflops", "dram", "misses", "hits", "efficiency")

static const char *cost_name(int32_t i) {
    return i == 0 ? "simulator" : i == 1 ? "model" : NULL;
}

#define AT(field) offsetof(settings, field)

/* clang-format off */
const option option_table[] = {
    {"tile",     OPTION_SHAPE,   SET_SCHEDULE | SET_TUNE, "MxN", "tile shape: queries x keys, or m x n and optionally x k", AT(tile), 0, 3},
    {"order",    OPTION_CHOICE,  SET_SCHEDULE | SET_TUNE, "ORDER", "one of 'weft orders'", AT(order), order_name, 1},
    {"order-file", OPTION_WORD,  SET_SCHEDULE | RARE, "FILE|-", "an order of your own: a tile a line, as its number or as 'row,column'", AT(order_file), 0, 0},
    {"sweep",    OPTION_CHOICE,  SET_SCHEDULE | SET_TUNE, "SWEEP", "one of 'weft orders'", AT(sweep), sweep_name, 1},
    {"dispatch", OPTION_CHOICE,  SET_SCHEDULE | SET_TUNE | OF_TRACES, "DISPATCH", "grid, static or dynamic", AT(dispatch), dispatch_name, 1},
    {"workers",  OPTION_COUNT,   SET_SCHEDULE | SET_TUNE | OF_TRACES, "N", "workers (the machine's)", AT(workers), 0, 0},
    {"group",    OPTION_COUNT,   SET_SCHEDULE | SET_TUNE, "N", "group size of group, serpentine and longest-first", AT(group), 0, 0},
    {"axis",     OPTION_CHOICE,  SET_SCHEDULE | SET_TUNE | RARE, "n|m", "axis that groups are cut across (n)", AT(axis), axis_name, 1},
    {"domains",  OPTION_COUNT,   SET_SCHEDULE | SET_TUNE | RARE, "N", "L2 domains for the swizzled orders (the machine's)", AT(domains), 0, 0},
    {"cluster",  OPTION_SHAPE,   SET_SCHEDULE | SET_TUNE | RARE, "MxN", "CTAs that share a position (1x1)", AT(cluster), 0, 2},
    {"split",    OPTION_COUNT,   SET_SCHEDULE | SET_TUNE | RARE, "N", "on a GPU: CTAs that share out the steps of a tile; attention backward: parts of its heads and queries, 1 to 8", AT(split), 0, 0},
    {"table",    OPTION_FLAG,    SET_SCHEDULE | SET_TUNE | RARE, "", "take the order from a table", AT(table), 0, 0},
    {"deterministic", OPTION_FLAG, SET_SCHEDULE | SET_TUNE | RARE, "", "the same bits in every run: all runs have them, and this changes nothing", AT(deterministic), 0, 0},
    {"schedule", OPTION_WORD,    SET_SCHEDULE | SET_TUNE, "FILE|-", "a schedule as JSON, as plan, simulate and run print it; other options go before it", AT(schedule), 0, 0},
    {"machine",  OPTION_MACHINE, SET_SCHEDULE | OF_TRACES, "NAME|FILE", "one of 'weft machines' or a machine file (this host)", AT(machine), 0, 0},

    {"ranks",    OPTION_COUNT,   SET_RANKS, "N", "share the problem among N GPUs of the machine, which has [links]; run: among N threads of this process", AT(ranks), 0, 0},
    {"cut",      OPTION_CHOICE,  SET_RANKS | RARE, "CUT", "which rows a rank has: contiguous, striped, zigzag or balanced (by the mask); of a product m or k (m)", AT(cut), cut_name, 1},
    {"exchange", OPTION_CHOICE,  SET_RANKS | RARE, "NAME", "how parts come by each rank: ring, all-gather or heads (ring)", AT(exchange), exchange_name, 1},
    {"rank-order", OPTION_CHOICE, SET_RANKS | RARE, "ORDER", "which part a rank takes next: one of 'weft orders' (ring)", AT(rank_order), rank_order_name, 1},
    {"rank-sweep", OPTION_CHOICE, SET_RANKS | RARE, "SWEEP", "attention backward, and cut k: forward or sawtooth, from the last part to the rank's own (sawtooth)", AT(rank_sweep), rank_sweep_name, 1},
    {"head-ranks", OPTION_COUNT, SET_RANKS | RARE, "N", "neighbouring ranks that exchange heads among them, and keys with the others (1)", AT(head_ranks), 0, 0},
    {"mesh-columns", OPTION_COUNT, SET_RANKS | RARE, "N", "of the mesh that ranks lie in (as square as may be)", AT(mesh_columns), 0, 0},
    {"most-keys", OPTION_COUNT,  SET_RANKS | RARE, "N", "of a hop, or rows of a product: larger parts come in several (parts are whole)", AT(most_keys), 0, 0},

    {"device",   OPTION_CHOICE,  SET_DEVICE | SET_TUNE, "DEVICE", "where to run: cpu or cuda", AT(device), device_name, 0},
    {"gpu",      OPTION_INTEGER, SET_DEVICE | SET_TUNE | RARE, "N", "cuda: which GPU (0)", AT(gpu), 0, 0},
    {"repeat",   OPTION_COUNT,   SET_DEVICE, "N", "timed runs, of which the median is reported (cuda: half a second's worth; cpu: 1, compare 5)", AT(repeat), 0, 0},
    {"kernel",   OPTION_WORD,    SET_DEVICE | SET_TUNE | RARE, "NAME", "cuda: the family of kernels to take, as 'study' (the best that fits)", AT(kernel), 0, 0},
    {"ctas",     OPTION_COUNT,   SET_DEVICE | SET_TUNE | RARE, "N", "cuda: CTAs that share an SM (as many as fit)", AT(ctas), 0, 0},
    {"precise",  OPTION_FLAG,    SET_DEVICE | SET_TUNE | RARE, "", "cuda: exponentials keep denormals, divisions are exact", AT(precise), 0, 0},
    {"mask-every-block", OPTION_FLAG, SET_DEVICE | SET_TUNE | RARE, "", "cuda: test the mask in every block of keys, not only where it matters", AT(mask_every_block), 0, 0},
    {"no-prefetch", OPTION_FLAG, SET_DEVICE | SET_TUNE | RARE, "", "cuda: load a block of keys when it is needed, not ahead", AT(no_prefetch), 0, 0},
    {"counters", OPTION_FLAG,    SET_DEVICE, "", "cuda: read the hardware counters of a run that begins with an empty L2", AT(counters), 0, 0},
    {"energy",   OPTION_FLAG,    SET_RUN, "", "cuda: measure the joules of a run, by NVML, for some seconds at settled clocks", AT(energy), 0, 0},
    {"check-all", OPTION_FLAG,   SET_RUN, "", "compare all of a large result with the reference, not what can be compared in 2 s", AT(check_all), 0, 0},
    {"seed",     OPTION_INTEGER, SET_SEED | OF_TRACES, "N", "of random inputs, drift and replacement (1)", AT(seed), 0, 0},
    {"seeds",    OPTION_COUNT,   SET_STUDY, "N", "how many seeds, from --seed on; their mean is judged (5)", AT(seeds), 0, 0},
    {"sizes",    OPTION_LENGTHS, SET_STUDY | RARE, "N,N,...", "energy: products of N x N x N (8K,16K); --repeat says how often each is measured (3)", AT(sizes), 0, 0},
    {"tolerances", OPTION_FLAG,  SET_STUDY, "", "how far a number may be off, and why, instead", AT(tolerances), 0, 0},
    {"verbose",  OPTION_FLAG,    SET_RUN, "", "show the plan", AT(verbose), 0, 0},
    {"drift",    OPTION_REAL,    SET_SIMULATE | SET_VIEW | RARE | OF_TRACES, "X", "spread of step times between workers, 0 to 1 (the profile's)", AT(drift), 0, 0},
    {"stages",   OPTION_INTEGER,  SET_SIMULATE | SET_VIEW | RARE | OF_TRACES, "N", "steps requested ahead (the profile's)", AT(stages), 0, 0},
    {"profile",  OPTION_WORD,    SET_SIMULATE | SET_VIEW | OF_TRACES, "NAME|FILE", "the kernel: one of 'weft profiles' or a profile's file (the machine's usual one)", AT(profile_name), 0, 0},
    {"limit",    OPTION_COUNT,   SET_SIMULATE | RARE | OF_TRACES, "N", "simulate about N steps of the workers and scale the counts", AT(limit), 0, 0},
    {"ours",     OPTION_FLAG,    SET_SIMULATE, "", "the kernel of weft that was measured on the machine, which need not be here", AT(ours), 0, 0},
    {"per-domain", OPTION_FLAG,  SET_TRAFFIC | RARE | OF_TRACES, "", "each domain's counts too", AT(per_domain), 0, 0},
    {"curve",    OPTION_FLAG,    SET_TRAFFIC | OF_TRACES, "", "misses for every size of the L2 instead", AT(curve), 0, 0},
    {"step-seconds", OPTION_REAL, SET_TRACE | OF_TRACES, "X", "time of a trace's steps that have none of their own (0: as fast as they load)", AT(step_seconds), 0, 0},
    {"trace-out", OPTION_WORD,   SET_TRAFFIC, "FILE", "also write what the workers do as a trace, CSV where FILE ends in .csv or is -", AT(trace_out), 0, 0},
    {"show",     OPTION_CHOICE,  SET_SHOW, "WHAT", "position, worker, domain or path (position)", AT(show), show_name, 0},

    {"schedules", OPTION_WORD,   SET_VIEW, "A,B,...", "schedules side by side: orders, sweeps, dispatches joined by +, a group as group-12", AT(schedules), 0, 0},
    {"text",     OPTION_FLAG,    SET_VIEW | OF_TRACES, "", "in the terminal: played, or in a pipe as it ends", AT(text), 0, 0},
    {"svg",      OPTION_FLAG,    SET_VIEW | SET_SWEEP | OF_TRACES, "", "a still picture; of a parameter sweep, the plot: to --output, or alone to standard output", AT(svg), 0, 0},
    {"plot",     OPTION_CHOICE,  SET_SWEEP, "WHAT", "what --svg plots: time, tflops, dram, misses or hits, or with --ranks efficiency (time)", AT(plot), plot_name, 0},
    {"csv",      OPTION_FLAG,    SET_SWEEP, "", "a line of comma-separated values for each schedule of each point", AT(csv), 0, 0},
    {"mode",     OPTION_CHOICE,  SET_RUN, "MODE", "how open choices are made: estimate, measure or stored (estimate)", AT(mode), mode_name, 0},
    {"file",     OPTION_WORD,    SET_TUNE, "FILE", "problems to tune, as CSV: a first line of option names, with 'subject' among them", AT(file), 0, 0},
    {"seconds",  OPTION_REAL,    SET_TUNE, "X", "to spend on a problem, about (10)", AT(budget), 0, 0},
    {"behind",   OPTION_REAL,    SET_TUNE | RARE, "X", "drop candidates that the model puts further behind than this many times its best (1.3)", AT(behind), 0, 0},
    {"patience", OPTION_REAL,    SET_TUNE | RARE, "X", "cpu: seconds to wait, in all, for moments in which no other program disturbs a run (0)", AT(patience), 0, 0},
    {"exhaustive", OPTION_FLAG,  SET_TUNE | RARE, "", "drop no candidate, however long it takes", AT(exhaustive), 0, 0},
    {"again",    OPTION_FLAG,    SET_TUNE | RARE, "", "time even what was tuned before", AT(again), 0, 0},
    {"all",      OPTION_FLAG,    SET_TUNE, "", "show every candidate and its time", AT(all), 0, 0},
    {"also",     OPTION_WORD,    SET_TUNE | RARE, "A;B;...", "schedules to time besides, to the end, as 'tile_m=96 order=head-first'", AT(also), 0, 0},
    {"list",     OPTION_FLAG,    SET_TUNE, "", "list what was tuned", AT(list), 0, 0},
    {"export",   OPTION_FLAG,    SET_TUNE, "", "write what was tuned as JSON, to standard output or --output", AT(export), 0, 0},
    {"import",   OPTION_WORD,    SET_TUNE, "FILE", "take what such a file has; of two for the same, the later stays", AT(import), 0, 0},
    {"forget",   OPTION_FLAG,    SET_TUNE, "", "forget what was tuned for a problem, or without one everything", AT(forget), 0, 0},
    {"cost",     OPTION_CHOICE,  SET_PLAN, "NAME", "rank by the simulator, or by the model of the kernels (the model, where there is one)", AT(cost), cost_name, 1},
    {"output",   OPTION_WORD,    SET_OUTPUT | OF_TRACES, "FILE", "where to write", AT(output), 0, 0},

    {"json",     OPTION_FLAG,    SET_COMMON | OF_TRACES, "", "one JSON object on standard output", AT(json), 0, 0},
    {"width",    OPTION_COUNT,   SET_COMMON | RARE | OF_TRACES, "N", "letters to a line of a table (the terminal's; a pipe gets every column)", AT(width), 0, 0},
    {"help",     OPTION_FLAG,    SET_COMMON | OF_TRACES, "", "examples, and the options that are used most", AT(help), 0, 0},
    {"help-all", OPTION_FLAG,    SET_COMMON | OF_TRACES, "", "examples, and every option", AT(help_all), 0, 0},
    {0, OPTION_FLAG, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */
