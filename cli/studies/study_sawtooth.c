/* Zhu, Pan, Ding: Sawtooth Wavefront Reordering. Flash attention on a GB10: one head, head dim 64, fp16. */
#include <math.h>

#include "studies/study.h"
#include <weft/model.h>

static const char MACHINE[] = "gb10";

static weft_attention attention_of(int64_t batch, int64_t queries, int64_t keys, int causal) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.seq = queries;
    p.kv_seq = keys;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    p.mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    return p;
}

static weft_schedule tiles_of(int64_t tile, int32_t sweep, int32_t dispatch, int64_t workers) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = tile;
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = sweep;
    s.dispatch = dispatch;
    s.workers = workers;
    return s;
}

static weft_simulation run(study *s, weft_attention p, weft_schedule schedule) {
    return study_simulate(s, MACHINE, &p, &schedule, NULL);
}

/* The persistent kernel of table 1 leaves out the last, incomplete query tile: 409 of 409.6 and 1638 of 1638.4. */
static void tables_1_and_2(study *s) {
    static const struct {
        int64_t seq;
        double grid, persistent;
    } rows[] = {{32768, 107741184, 107478656}, {131072, 1719664640, 1719093980}};
    for (int i = 0; i < 2; i++) {
        const int64_t seq = rows[i].seq;
        weft_simulation sim =
            run(s, attention_of(1, seq, seq, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_GRID, 48));
        study_within(s, "table 2, non-persistent CTAs", rows[i].grid, (double)sim.total.sectors_from_sm, 0.0,
                     "L2 sectors from SMs, S = %lldK", (long long)seq / 1024);
    }
    for (int i = 0; i < 2; i++) {
        const int64_t seq = rows[i].seq;
        const weft_simulation sim =
            run(s, attention_of(1, seq / 80 * 80, seq, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
        study_within(s, "table 1, persistent CTAs (whole query tiles only)", rows[i].persistent,
                     (double)sim.total.sectors_from_sm, 0.001, "L2 sectors from SMs, S = %lldK", (long long)seq / 1024);
    }
}

/* Mean distance of the closed form from the simulator, in per cent. */
static void table_3(study *s) {
    double sums[2] = {0, 0};
    int count = 0;
    for (int64_t seq = 8192; seq <= 131072; seq += 8192, count++) {
        const weft_sector_model m = {(double)seq, 80, 64, 2, 32};
        for (int causal = 0; causal < 2; causal++) {
            const weft_simulation sim =
                run(s, attention_of(1, seq, seq, causal), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
            const double model = causal ? weft_model_sectors_causal(&m) : weft_model_sectors(&m);
            sums[causal] += 100 * fabs(model / (double)sim.total.sectors_from_sm - 1);
        }
    }
    study_show(s, "table 3, mean error of the closed forms, S = 8K .. 128K", 0.5389, sums[0] / count,
               "per cent, against sectors from SMs, no mask");
    study_show(s, "table 3, mean error of the closed forms, S = 8K .. 128K", 1.1286, sums[1] / count,
               "per cent, against sectors from SMs, causal");
}

static void figure_5(study *s) {
    double leaves = 0;
    for (int64_t seq = 16384; seq <= 114688; seq += seq < 65536 ? 16384 : 4096) {
        const weft_simulation sim =
            run(s, attention_of(1, seq, seq, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
        const weft_sector_model m = {(double)seq, 80, 64, 2, 32};
        const double cold = weft_model_compulsory(&m);
        if (seq <= 73728) { /* K and V up to 18 MiB */
            study_within(s, "figure 5, misses while K and V fit", cold, (double)sim.total.misses, 0.05,
                         "L2 misses, S = %lldK, against 16 S", (long long)seq / 1024);
        }
        if (leaves == 0 && (double)sim.total.misses > 1.05 * cold) {
            leaves = (double)seq / 1024;
        }
    }
    study_within(s, "figure 5, misses while K and V fit", 80, leaves, 0.15, "S (in K) where misses leave the cold line");
}

static void figure_6(study *s) {
    static const int64_t workers[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        const weft_simulation sim =
            run(s, attention_of(1, 131072, 131072, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, workers[i]));
        const double published = 100 * weft_model_wavefront_hits((double)workers[i]);
        const double hits = 100 * (double)sim.total.hits / (double)(sim.total.hits + sim.total.misses);
        study_between(s, "figure 6, hit rate against active SMs, S = 128K", published, hits, published - 2, published + 2,
                      "per cent hits, %lld SMs, against 1 - 1/N", (long long)workers[i]);
    }
}

static void section_4_3(study *s) {
    static const char section[] = "section 4.3, batch 8, S = 128K, tiles of 64";
    static const struct {
        const char *label;
        int32_t sweep, dispatch;
        double misses, share;
    } rows[] = {{"L2 misses (M), static, forward", WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 370, 0.08},
                {"L2 misses (M), static, sawtooth", WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 120, 0.15},
                {"L2 misses (M), tile-based, forward", WEFT_SWEEP_FORWARD, WEFT_DISPATCH_GRID, 370, 0.08},
                {"L2 misses (M), tile-based, pair", WEFT_SWEEP_PAIR, WEFT_DISPATCH_GRID, 120, 0.15}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_simulation sim =
            run(s, attention_of(8, 131072, 131072, 0), tiles_of(64, rows[i].sweep, rows[i].dispatch, 48));
        study_within(s, section, rows[i].misses, (double)sim.total.misses / 1e6, rows[i].share, "%s", rows[i].label);
    }
    const weft_simulation forward =
        run(s, attention_of(8, 131072, 131072, 1), tiles_of(64, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
    const weft_simulation sawtooth =
        run(s, attention_of(8, 131072, 131072, 1), tiles_of(64, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 48));
    study_show(s, section, 67, 100 * (1 - (double)sawtooth.total.misses / (double)forward.total.misses),
               "causal: misses saved by sawtooth, per cent (no mask: 67)");
}

void study_sawtooth(study *s) {
    tables_1_and_2(s);
    table_3(s);
    figure_5(s);
    figure_6(s);
    section_4_3(s);
}
