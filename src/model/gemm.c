#include "model/gemm.h"

#include <math.h>

static double ceil_divide(double a, double b) {
    return ceil(a / b);
}

double weft_model_gemm_clocks(const weft_gemm_model *m) {
    const double rate = 2048;         /* multiplications and additions of an SM, a clock */
    const double slack = 1.05;        /* over what the tensor cores would take at that rate */
    const double half = 1.06;         /* products of 128 columns read more of A for each of B, and power is the limit */
    const double quarter = 1.44;      /* products of 64 */
    const double line_chip = 2.3;     /* clocks for each line of 128 bytes that an SM loads, when all of them do */
    const double line_sm = 1.47;      /* the same for one SM alone */
    const double crooked = 1.0;       /* what a line that begins elsewhere costs more: it is two */
    const double line_energy = 0.043; /* moving a line takes power, too */
    const double launch = 7450;       /* beginning, the first loads, the last stores */
    const double store = 2040;        /* of a tile of 128 x 256 */
    const double next = 520;          /* from one tile to the next of the same CTA */
    const double again = 5000;        /* from one CTA to the next on an SM, where steps are shared out */
    const double cluster = 800;       /* to set one up */
    const double join = 2780;         /* to add up the parts of a tile, for each further part */
    const double dram_bytes = 3300;   /* of the whole chip, a clock */

    const double along_m = (double)m->cluster_m, along_n = (double)m->cluster_n, split = (double)m->split;
    const double ctas = along_m * along_n * split;
    const double rows = ceil_divide((double)m->m, (double)m->tile_m), cols = ceil_divide((double)m->n, (double)m->tile_n);
    const double positions = (double)m->batch * ceil_divide(rows, along_m) * ceil_divide(cols, along_n);
    const double at_once = fmax(1, floor((double)m->workers / ctas));
    const double waves = ceil_divide(positions, at_once);
    const double share = fmin(positions, at_once) / at_once; /* of the chip that works */

    const double products = (double)m->tile_m * (double)m->tile_n * (double)m->tile_k / rate;
    const double multiply = products * slack * (m->columns <= 64 ? quarter : m->columns <= 128 ? half : 1);
    const double lines = (double)m->tile_m / along_n * (1 + (m->a_crooked ? crooked : 0)) +
                         (double)m->tile_n / along_m * (1 + (m->b_crooked ? crooked : 0));
    const double step = fmax(multiply, fmax(line_sm * lines, line_chip * lines * share)) + line_energy * lines;
    const double steps = ceil_divide(ceil_divide((double)m->k, (double)m->tile_k), split);

    double clocks = launch + waves * steps * step + (waves - 1) * (split > 1 ? again : next);
    clocks += store * (double)(m->tile_m * m->tile_n) / 32768 / split;
    clocks += ctas > 1 ? cluster : 0;
    clocks += join * (split - 1) * waves;
    return fmax(clocks, launch + m->bytes / dram_bytes);
}
