#include "model/gemm.h"

#include <math.h>

/* Microseconds, where nothing else is said. */
static const double launch = 4.1;         /* beginning, the first loads, the last stores */
static const double store = 0.3;          /* of a tile of 128 x 256, the last one */
static const double next = 0.75;          /* from one such tile to the next of the same CTA */
static const double multiply = 0.45;      /* a step of such a tile while the other SMs rest */
static const double load = 0.66;          /* how much longer it takes when all of them multiply: the clock falls */
static const double narrow = 1.45;        /* products of 64 columns read more shared memory than there is time for */
static const double half = 1.01;          /* products of 128 columns */
static const double small = 1.04;         /* tiles of 128 x 128: more barriers */
static const double single = 1.15;        /* tiles of 64 rows: one warpgroup, which nobody relieves while it stores */
static const double line = 1.06e-3;       /* a line of 128 bytes that each SM loads */
static const double line_alone = 0.5e-3;  /* one that only this SM loads */
static const double crooked = 0.65;       /* how much more one costs that begins elsewhere, but at a sector */
static const double crooked_sector = 2.1; /* and one that begins within a sector */
static const double shared = 0.7;         /* how much of that is left for those that are loaded for several CTAs at once */
static const double cluster_up = 0.3;     /* to set a cluster up */
static const double join = 2.2;           /* to add up the parts of a tile, for each further part */
static const double dram = 4.2e6;         /* bytes in a microsecond */
static const double dram_single = 2.6e6;  /* the same with tiles of 64 rows, whose ring is too short for the way there */
static const double sharpness = 6;        /* of the larger of what goes on at once, which disturbs each other */

static double ceil_divide(double a, double b) {
    return ceil(a / b);
}

/* The largest of three that go on at once, and somewhat more where they are alike. */
static double larger(double a, double b, double c) {
    return pow(pow(a, sharpness) + pow(b, sharpness) + pow(c, sharpness), 1 / sharpness);
}

static double line_cost(const weft_gemm_side *side, double sharers) {
    const double more = side->line_bytes % 128 == 0 ? 0 : side->line_bytes % 32 == 0 ? crooked : crooked_sector;
    return 1 + more * (sharers > 1 ? shared : 1);
}

/* Lines of a side in a step of one CTA, where `sharers` of the other axis share them. */
static double lines_of(const weft_gemm_side *side, double sharers) {
    const double tile = (double)side->tile;
    const double most = side->contiguous ? 64 * ceil_divide(tile / 64, sharers) : tile / sharers;
    return most * line_cost(side, sharers);
}

/* The same in the mean over all tiles: what is outside of the matrix is not read. */
static double mean_lines_of(const weft_gemm_side *side, double sharers) {
    const double tiles = ceil_divide((double)side->length, (double)side->tile);
    return (double)side->length / tiles / sharers * line_cost(side, sharers);
}

/* One step of a wave that fills a share of the chip. */
static double step_of(const weft_gemm_model *m, double share) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster;
    const double unit = (double)m->a.tile * (double)m->b.tile * (double)m->step / (128.0 * 256 * 64);
    const double columns = m->b.tile <= 64 ? narrow : m->b.tile <= 128 ? half : 1;
    const double products = multiply * unit * columns * (1 + load * share);
    const double alone = line_alone * (lines_of(&m->a, along_n) + lines_of(&m->b, along_m));
    const double together = line * share * (mean_lines_of(&m->a, along_n) + mean_lines_of(&m->b, along_m));
    return larger(products, alone, together) * (m->a.tile < 128 ? single : m->a.tile * m->b.tile == 128 * 128 ? small : 1);
}

double weft_model_gemm_time(const weft_gemm_model *m) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster, split = (double)m->split;
    const double ctas = along_m * along_n * split;
    const double rows = ceil_divide((double)m->a.length, (double)m->a.tile * along_m);
    const double cols = ceil_divide((double)m->b.length, (double)m->b.tile * along_n);
    /* Clusters of four and more leave SMs over that no cluster fits. */
    const double at_once = fmax(1, floor((double)m->workers * (ctas < 4 ? 1 : 10.0 / 11) / ctas));
    const double positions = (double)m->batch * rows * cols;
    const double full = floor(positions / at_once), rest = positions - full * at_once;
    const double waves = full + (rest > 0);
    const double steps = ceil_divide(ceil_divide((double)m->k, (double)m->step), split);
    const double unit = (double)m->a.tile * (double)m->b.tile / (128.0 * 256);

    double time = launch + steps * (full * step_of(m, 1) + (rest > 0 ? step_of(m, rest / at_once) : 0));
    time += (waves - 1) * next * unit + store * unit / split;
    time += ctas > 1 ? cluster_up : 0;
    time += join * (split - 1) * waves;
    return larger(time, launch + m->bytes / (m->a.tile < 128 ? dram_single : dram), 0);
}
