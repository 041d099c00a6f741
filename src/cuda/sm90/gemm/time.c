#include "cuda/sm90/gemm/time.h"

#include <math.h>

/* Microseconds, where nothing else is said. */
static const double launch = 2.24;         /* beginning, the first loads, the last stores */
static const double early = 0.0782;        /* less where the next launch finds room to begin beside this one */
static const double next = 1.4;            /* from one tile of 128 x 256 to the next of the same CTA */
static const double multiply = 0.484;      /* a step of such a tile while the other SMs rest */
static const double load = 0.413;          /* how much longer it takes when all of them multiply: the clock falls */
static const double narrow = 1.043;        /* products of 64 columns */
static const double narrow_shared = 1.293; /* the same in clusters along n */
static const double half = 1.009;          /* products of 128 columns */
static const double wide = 1.005;          /* products of 256 columns */
static const double tall = 1.002;          /* tiles of 256 x 192 */
static const double small = 1.026;         /* tiles of 128 x 128: more barriers */
static const double single = 1.155;        /* tiles of 64 rows: one warpgroup, which nobody relieves while it stores */
static const double least = 0.15;          /* a step of any tile: barriers, and asking for loads and products */
static const double least_single = 0.171;  /* one of tiles of 64 rows: the way of a stage around their short ring */
static const double line = 1.03e-3;        /* a line of 128 bytes that each SM loads */
static const double line_alone = 0.552e-3; /* one that only this SM loads */
static const double zeros = 15; /* how much more one costs that is outside of the matrix, where all tiles have such */
static const double rows_of_k = 1.092;    /* how much more one costs of a matrix that is contiguous along m or n */
static const double shared = 0.767;       /* how much of what crooked lines cost is left where several CTAs share them */
static const double cluster_up = 0.259;   /* to set a cluster up */
static const double join = 1.99;          /* to add up the parts of a tile, for each further part */
static const double dram = 4.57e6;        /* bytes in a microsecond */
static const double dram_single = 2.97e6; /* the same with tiles of 64 rows, whose ring is too short for the way there */
static const double multicast = 0.015; /* of the whole, for each operand whose lines are crooked and go to several CTAs */
static const double power = 0.012;     /* how much more time small tiles take the longer a product lasts: see below */
static const double sharpness = 4.8;   /* of the larger of what goes on at once, which disturbs each other */

/* How much more a line costs that does not begin at a multiple of 128 bytes: at a sector, or within one; and how much more
 * where this SM alone loads. */
static const double crooked[] = {0, 0.37, 1.06}, crooked_alone[] = {0, 0.854, 1.46};

static double ceil_divide(double a, double b) {
    return ceil(a / b);
}

/* The largest of three that go on at once, and somewhat more where they are alike. */
static double larger(double a, double b, double c) {
    return pow(pow(a, sharpness) + pow(b, sharpness) + pow(c, sharpness), 1 / sharpness);
}

/* 0: lines begin at multiples of 128 bytes; 1: at sectors; 2: within them. */
static int crookedness(const weft_gemm_side *side) {
    return side->line_bytes % 128 == 0 ? 0 : side->line_bytes % 32 == 0 ? 1 : 2;
}

/* What the lines of a side cost in a step of one CTA, where `sharers` of the other axis share them: in lines that are
 * straight. */
static double lines_of(const weft_gemm_side *side, double sharers) {
    const double tile = (double)side->tile;
    const double most = side->contiguous ? 64 * ceil_divide(tile / 64, sharers) : tile / sharers;
    const double outside = side->contiguous ? 0 : fmax(0, tile - (double)side->length) / sharers;
    return most * (side->contiguous ? rows_of_k : 1) * (1 + crooked_alone[crookedness(side)]) + outside * zeros;
}

/* The same in the mean over all tiles, while all SMs load: what is outside of the matrix is not read. */
static double mean_lines_of(const weft_gemm_side *side, double sharers) {
    const double tiles = ceil_divide((double)side->length, (double)side->tile);
    const double more = crooked[crookedness(side)] * (sharers > 1 ? shared : 1);
    return (double)side->length / tiles / sharers * (side->contiguous ? rows_of_k : 1) * (1 + more);
}

/* One step of a wave that fills a share of the chip. */
static double step_of(const weft_gemm_model *m, double share) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster;
    const double unit = (double)m->a.tile * (double)m->b.tile * (double)m->step / (128.0 * 256 * 64);
    const double sixty_four = along_n > 1 ? narrow_shared : narrow;
    const double most = m->b.tile == 256 ? wide : m->a.tile == 256 ? tall : 1;
    const double columns = m->b.tile <= 64 ? sixty_four : m->b.tile <= 128 ? half : most;
    const double products = multiply * unit * columns * (1 + load * share);
    const double alone = line_alone * (lines_of(&m->a, along_n) + lines_of(&m->b, along_m));
    const double together = line * share * (mean_lines_of(&m->a, along_n) + mean_lines_of(&m->b, along_m));
    const double kind = m->a.tile < 128 ? single : m->a.tile * m->b.tile == 128 * 128 ? small : 1;
    return fmax(larger(products, alone, together) * kind, m->a.tile < 128 ? least_single : least);
}

double weft_model_gemm_time(const weft_gemm_model *m) {
    const double along_m = (double)m->a.cluster, along_n = (double)m->b.cluster, split = (double)m->split;
    const double ctas = along_m * along_n * split;
    const double rows = ceil_divide((double)m->a.length, (double)m->a.tile * along_m);
    const double cols = ceil_divide((double)m->b.length, (double)m->b.tile * along_n);
    const double at_once = fmax(1, floor((double)weft_gemm_filled(m->workers, (int64_t)ctas) / ctas));
    const double positions = (double)m->batch * rows * cols;
    const double full = floor(positions / at_once), rest = positions - full * at_once;
    const double waves = full + (rest > 0);
    const double steps = ceil_divide(ceil_divide((double)m->k, (double)m->step), split);
    const double unit = (double)m->a.tile * (double)m->b.tile / (128.0 * 256);
    const double sms = (double)m->workers,
                 begin = 2 * positions * ctas <= sms * (double)m->per_sm ? launch - early : launch;

    double time = begin + steps * (full * step_of(m, fmin(1, at_once * ctas / sms)) +
                                   (rest > 0 ? step_of(m, fmin(1, rest * ctas / sms)) : 0));
    time += (waves - 1) * next * pow(unit, 1.4); /* more than in proportion: less of a tall tile's stores is hidden */
    time += ctas > 1 ? cluster_up : 0;
    time += join * (split - 1) * waves;
    time = larger(time, begin + m->bytes / (m->a.tile < 128 ? dram_single : dram), 0);
    time *= 1 + multicast * ((along_n > 1 && crookedness(&m->a) > 0) + (along_m > 1 && crookedness(&m->b) > 0));
    /* Small tiles move more bytes for a FLOP, which costs clock once the card is at its power, after some 300 us. */
    return time * pow(fmin(time, 300) / 100, -power * log(unit));
}
