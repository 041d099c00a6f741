/* SPDX-License-Identifier: Apache-2.0 */
/* The study of Zhu, Pan, Ding on a live GPU: one head, head dim 64, fp16, tiles of 80, as study_sawtooth.c has it on a
 * GB10. */
#include <math.h>

#include "studies/study.h"
#include <weft/model.h>

enum { TILE = 80, HEAD_DIM = 64, K = 1024 };

static device_case case_of(int64_t batch, int64_t queries, int64_t keys, int32_t sweep) {
    device_case c = {
        .problem = {.attention = WEFT_ATTENTION_INIT}, .schedule = WEFT_SCHEDULE_INIT, .device = WEFT_DEVICE_INIT};
    c.problem.attention.batch = batch;
    c.problem.attention.seq = queries;
    c.problem.attention.kv_seq = keys;
    c.problem.attention.head_dim = HEAD_DIM;
    c.problem.attention.dtype = WEFT_FP16;
    c.device.kernel = "study"; /* the one that has every knob */
    c.schedule.tile_m = c.schedule.tile_n = TILE;
    c.schedule.order = WEFT_ORDER_HEAD_FIRST;
    c.schedule.sweep = sweep;
    c.schedule.dispatch = WEFT_DISPATCH_STATIC;
    return c;
}

/* Sectors, L1 hits and misses against the length. */
static void lengths(study *s) {
    static const char sectors[] = "sectors that SMs read and write, against the closed form (in place of published)";
    static const char merged[] = "sectors from SMs that the L2 counts, requests for the same one merged";
    static const char l1[] = "L1 hits, per cent";
    static const char misses[] = "L2 misses, against compulsory ones (in place of published)";
    static const int64_t seqs[] = {32, 64, 96, 112, 128, 160, 192, 256, 384, 512};
    enum { LENGTHS = sizeof seqs / sizeof *seqs };
    device_case c[LENGTHS];
    weft_sector_model m[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) {
        c[i] = case_of(1, seqs[i] * K, seqs[i] * K, WEFT_SWEEP_FORWARD);
        m[i] = (weft_sector_model){(double)(seqs[i] * K), TILE, HEAD_DIM, 2, 32};
    }
    if (!study_run_cases(s, c, LENGTHS, 0)) {
        return;
    }
    for (int i = 0; i < LENGTHS; i++) {
        const double model = weft_model_sectors(&m[i]), *v = c[i].values;
        study_measured_between(s, sectors, model, NAN, v[WEFT_COUNTER_SM_READ_SECTORS] + v[WEFT_COUNTER_SM_WRITE_SECTORS],
                               0.99 * model, 1.01 * model, "S = %lldK", (long long)seqs[i]);
    }
    for (int i = 0; i < LENGTHS; i++) {
        study_measured(s, merged, NAN, (double)c[i].sim.total.sectors_from_sm, c[i].values[WEFT_COUNTER_L2_SECTORS_FROM_SM],
                       "S = %lldK", (long long)seqs[i]);
    }
    for (int i = 0; i < LENGTHS; i++) {
        study_measured_between(s, l1, 0, NAN,
                               100 * c[i].values[WEFT_COUNTER_L1_HITS] / c[i].values[WEFT_COUNTER_L1_SECTORS], 0, 1,
                               "S = %lldK", (long long)seqs[i]);
    }
    double leaves[2] = {NAN, NAN}; /* simulated, measured: where misses exceed those of the shortest, scaled, by a tenth */
    for (int i = 0; i < LENGTHS; i++) {
        const double found[2] = {(double)c[i].sim.total.misses, c[i].values[WEFT_COUNTER_L2_MISSES]};
        const double first[2] = {(double)c[0].sim.total.misses, c[0].values[WEFT_COUNTER_L2_MISSES]};
        study_measured(s, misses, weft_model_compulsory(&m[i]), found[0], found[1], "S = %lldK", (long long)seqs[i]);
        for (int k = 0; k < 2; k++) {
            if (isnan(leaves[k]) && found[k] > 1.1 * first[k] * (double)seqs[i] / (double)seqs[0]) {
                leaves[k] = (double)seqs[i];
            }
        }
    }
    study_measured(s, misses, NAN, leaves[0], leaves[1], "S (in K) where misses leave the compulsory line");
}

/* K and V of 48 MiB, which no side of the L2 holds; eight query tiles for each SM, one CTA on each. */
static void active_sms(study *s) {
    static const char dram[] = "reads of SMs that do not come from DRAM, per cent, against 1 - 1/N; S = 192K";
    static const char hits[] = "hit rate as the profiler has it, per cent, against 1 - 1/N; S = 192K";
    static const int64_t sms[] = {1, 2, 4, 8, 16, 32, 64, 128};
    enum { COUNTS = sizeof sms / sizeof *sms };
    device_case c[COUNTS];
    for (int i = 0; i < COUNTS; i++) {
        c[i] = case_of(1, 8 * TILE * sms[i], 192 * K, WEFT_SWEEP_FORWARD);
        c[i].schedule.workers = sms[i];
        c[i].options.ctas = 1;
    }
    if (!study_run_cases(s, c, COUNTS, 0)) {
        return;
    }
    for (int i = 0; i < COUNTS; i++) {
        const double read = 32 * c[i].values[WEFT_COUNTER_SM_READ_SECTORS];
        study_measured(s, dram, 100 * weft_model_wavefront_hits((double)sms[i]),
                       100 * (1 - (double)c[i].sim.total.dram_read_bytes / read),
                       100 * (1 - c[i].values[WEFT_COUNTER_DRAM_READ_BYTES] / read), "%lld SMs", (long long)sms[i]);
    }
    for (int i = 0; i < COUNTS; i++) {
        const double *v = c[i].values, hit = v[WEFT_COUNTER_L2_HITS], miss = v[WEFT_COUNTER_L2_MISSES];
        const weft_traffic *t = &c[i].sim.total;
        study_measured(s, hits, 100 * weft_model_wavefront_hits((double)sms[i]),
                       100 * (double)t->hits / (double)(t->hits + t->misses), 100 * hit / (hit + miss), "%lld SMs",
                       (long long)sms[i]);
    }
}

/* Forward against sawtooth, beyond what the L2 holds, timed in turns; batch 1 to `most`. */
static void sweeps(study *s, const char *section, int64_t seq, int64_t most, int judged) {
    for (int64_t batch = 1; batch <= most; batch *= 2) {
        device_case c[2] = {case_of(batch, seq, seq, WEFT_SWEEP_FORWARD), case_of(batch, seq, seq, WEFT_SWEEP_SAWTOOTH)};
        if (!study_run_cases(s, c, 2, 0)) {
            return;
        }
        for (int i = 0; i < 2; i++) {
            const char *sweep = weft_sweep_describe(c[i].schedule.sweep)->name;
            study_measured(s, section, NAN, (double)c[i].sim.total.dram_read_bytes / 1e9,
                           c[i].values[WEFT_COUNTER_DRAM_READ_BYTES] / 1e9, "DRAM reads (GB), batch %d, %s", (int)batch,
                           sweep);
            study_measured(s, section, NAN, (double)c[i].sim.total.misses / 1e6, c[i].values[WEFT_COUNTER_L2_MISSES] / 1e6,
                           "L2 misses (M), batch %d, %s", (int)batch, sweep);
            study_measured(s, section, NAN, c[i].sim.tflops, c[i].tflops, "TFLOP/s, batch %d, %s", (int)batch, sweep);
        }
        const double less = 1 - c[1].values[WEFT_COUNTER_DRAM_READ_BYTES] / c[0].values[WEFT_COUNTER_DRAM_READ_BYTES];
        study_measured_between(
            s, section, NAN, 100 * (1 - (double)c[1].sim.total.dram_read_bytes / (double)c[0].sim.total.dram_read_bytes),
            100 * less, judged ? 50 : 0, 100, "DRAM reads saved by sawtooth, per cent, batch %d", (int)batch);
    }
}

void device_sawtooth(study *s) {
    lengths(s);
    active_sms(s);
    sweeps(s, "forward against sawtooth, S = 144K: K and V of 36 MiB; more than half of the DRAM reads are saved", 144 * K,
           8, 1);
    sweeps(s, "forward against sawtooth, S = 192K: K and V of 48 MiB", 192 * K, 4, 0);
    study_show_errors(s);
}
