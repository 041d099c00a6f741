/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/gemm/time.h"

#include <math.h>

#include <weft/order.h>

#include "cuda/sm90/gemm/costs.h"
#include "cuda/sm90/gemm/params.h"

#define COST(name) weft_gemm_cost.name

static double ceil_divide(double a, double b) {
    return ceil(a / b);
}

/* The largest of three that go on at once, and somewhat more where they are alike. */
static double larger(double a, double b, double c) {
    return pow(pow(a, COST(sharpness)) + pow(b, COST(sharpness)) + pow(c, COST(sharpness)), 1 / COST(sharpness));
}

/* 0: lines begin at multiples of 128 bytes; 1: at sectors; 2: within them. */
static int misalignment(const weft_gemm_operand *o) {
    return o->line_bytes % 128 == 0 ? 0 : o->line_bytes % 32 == 0 ? 1 : 2;
}

/* What such a line costs more than an aligned one, while all SMs load and while only one does. */
static double line_cost(const weft_gemm_operand *o) {
    const double more[] = {0, COST(at_sector), COST(in_sector)};
    return more[misalignment(o)];
}

static double alone_cost(const weft_gemm_operand *o) {
    const double more[] = {0, COST(at_sector_alone), COST(in_sector_alone)};
    return more[misalignment(o)];
}

/* What the lines of an operand cost in a step of one CTA, where `sharers` along the other axis share them: in aligned
 * lines.
 */
static double lines_of(const weft_gemm_operand *o, double sharers) {
    const double tile = (double)o->tile, there = fmin(tile, 8 * ceil_divide((double)o->length, 8));
    const double most = o->contiguous ? 64 * ceil_divide(tile / 64, sharers) : there / sharers;
    return most * (o->contiguous ? COST(rows_of_k) : 1) * (1 + alone_cost(o));
}

/* The same in the mean over all tiles, while all SMs load: what is outside of the matrix is not read. */
static double mean_lines_of(const weft_gemm_operand *o, double sharers) {
    const double tiles = ceil_divide((double)o->length, (double)o->tile);
    const double more = line_cost(o) * (sharers > 1 ? COST(shared) : 1);
    return (double)o->length / tiles / sharers * (o->contiguous ? COST(rows_of_k) : 1) * (1 + more);
}

/* One step of a wave that fills a share of the chip. */
static double step_of(const weft_gemm_model *m, double share) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster;
    const double unit = (double)m->a.tile * (double)m->b.tile * (double)m->step / (128.0 * 256 * 64);
    const double narrow = along_n > 1 ? COST(narrow_shared) : COST(narrow);
    const double slim = along_n > 1 ? COST(slim_shared) : COST(slim);
    const double most = m->b.tile == 256 ? COST(wide) : m->a.tile == 256 ? COST(tall) : 1;
    const double columns = m->b.tile < 64 ? slim : m->b.tile == 64 ? narrow : m->b.tile <= 128 ? COST(half) : most;
    const double odd = m->b.tile % 64 != 0 ? COST(odd_width) : 1;
    const double products = COST(multiply) * unit * columns * odd * (1 + COST(load) * share);
    const double alone = COST(line_alone) * (lines_of(&m->a, along_n) + lines_of(&m->b, along_m));
    const double together = COST(line) * share * (mean_lines_of(&m->a, along_n) + mean_lines_of(&m->b, along_m));
    const double kind = m->a.tile < 128 ? COST(single) : m->a.tile * m->b.tile == 128 * 128 ? COST(small) : 1;
    return fmax(larger(products, alone, together) * kind, m->a.tile < 128 ? COST(least_single) : COST(least));
}

/* Clusters lie within a GPC, and cards differ in what theirs have. An H200 has room for at least 35 of three CTAs and less
 * than 42, for 28 to 31 of four, 21 to 23 of five, 16 or 17 of six, 15 of seven and 15 of eight. */
int64_t weft_gemm_filled(int64_t places, int64_t ctas) {
    static const int64_t filled[] = {132, 132, 132, 114, 120, 110, 96, 105, 120}; /* of its SMs, by CTAs of a cluster */
    return ctas < (int64_t)(sizeof filled / sizeof *filled) ? places * filled[ctas] / filled[0] : places;
}

/* Of all SMs, those that clusters of `ctas` fill on any card: a cluster more than fit waits for the others. */
static double sure_of(double workers, int64_t ctas) {
    static const double sure[] = {132, 132, 132, 105, 112, 105, 96, 105, 120};
    return ctas < (int64_t)(sizeof sure / sizeof *sure) ? floor(workers * sure[ctas] / sure[0]) : workers;
}

int weft_gemm_has_spare_workers(int64_t positions, int64_t workers, int64_t all) {
    return (double)weft_ceil_divide(positions, workers) <= COST(wave_slack) * (double)weft_ceil_divide(positions, all);
}

/* From one tile to the next of the same CTA. */
static double next_of(const weft_gemm_model *m) {
    const double next = m->transposed ? COST(next_transposed) : COST(next);
    return next * pow((double)m->a.tile * (double)m->b.tile / (128.0 * 256), COST(next_power));
}

/* What a tile of few steps takes at least: as long as memory takes for what all SMs store. */
static double least_of(const weft_gemm_model *m) {
    const double unit = (double)m->a.tile * (double)m->b.tile / (128.0 * 256);
    const double stored = m->transposed ? COST(stored_transposed) : COST(least_stored);
    return COST(least_tile) / (double)m->per_sm + stored * unit;
}

void weft_gemm_parts(const weft_gemm_model *m, double *launch, double *tile, double *step) {
    *launch = 1e-6 * COST(launch);
    *tile = 1e-6 * next_of(m);
    *step = 1e-6 * step_of(m, 1);
}

/* CTAs of clusters that lie outside of C, to those inside: they load for the others, and these wait for them. */
static double empty_share(const weft_gemm_model *m, double ctas) {
    const double rows = ceil_divide((double)m->a.length, (double)m->a.tile);
    const double cols = ceil_divide((double)m->b.length, (double)m->b.tile);
    return ctas / (rows * cols) - 1;
}

/* To add up the parts of a tile: they wait for each other, and all send what others own. */
static double join_of(const weft_gemm_model *m) {
    const double parts = (double)m->split, sent = (double)m->a.tile * (double)m->b.tile / (128.0 * 256) * (1 - 1 / parts);
    return m->split > 1 ? COST(join) + COST(join_part) * parts + COST(join_tile) * sent : 0;
}

/* To read and write what there is, if it stays in the L2 from one launch to the next, or if it does not. */
static double memory_of(const weft_gemm_model *m) {
    const int single = m->a.tile < 128;
    const double warm = single ? COST(warm_single) : COST(warm), cold = single ? COST(dram_single) : COST(dram);
    return m->bytes / (m->bytes <= COST(stays) ? warm : cold);
}

double weft_gemm_time(const weft_gemm_model *m) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster, split = (double)m->split;
    const double ctas = along_m * along_n * split;
    const double rows = ceil_divide((double)m->a.length, (double)m->a.tile * along_m);
    const double cols = ceil_divide((double)m->b.length, (double)m->b.tile * along_n);
    const double at_once = fmax(1, floor(sure_of((double)m->workers, (int64_t)ctas) / ctas));
    const double positions = (double)m->batch * rows * cols;
    const double full = floor(positions / at_once), rest = positions - full * at_once;
    const double waves = full + (rest > 0);
    const double steps = ceil_divide(ceil_divide((double)m->k, (double)m->step), split);
    const double unit = (double)m->a.tile * (double)m->b.tile / (128.0 * 256);
    const double sms = (double)m->workers,
                 begin = 2 * positions * ctas <= sms * (double)m->per_sm ? COST(launch) - COST(early) : COST(launch);

    const double in_full = steps * step_of(m, fmin(1, at_once * ctas / sms));
    const double in_last = rest > 0 ? steps * step_of(m, fmin(1, rest * ctas / sms)) : 0;

    double time = begin + full * in_full + in_last;
    time += (waves - 1) * fmax(next_of(m), least_of(m) - in_full);
    time += ctas > 1 ? COST(cluster_up) : 0;
    time += join_of(m) * waves;
    time += m->split > 1 ? (waves - 1) * COST(launch) : 0; /* whose CTAs have a tile each */
    time *= 1 + COST(empty) * empty_share(m, rows * along_m * cols * along_n) / waves;
    time += COST(last_stored) * unit * (m->transposed ? COST(last_transposed) : 1);
    time = larger(time, begin + memory_of(m), 0);
    time *= 1 + COST(multicast) * ((along_n > 1 && misalignment(&m->a) > 0) + (along_m > 1 && misalignment(&m->b) > 0));
    return time * pow(fmin(time, COST(power_until)) / COST(power_from), -COST(power) * log(unit));
}
