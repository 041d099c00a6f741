/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/model.h>

static double tensor_sectors(const weft_sector_model *m) {
    return m->s * m->d * m->e / m->c;
}

double weft_model_sectors(const weft_sector_model *m) {
    return 2.0 * tensor_sectors(m) * (1.0 + m->s / m->t);
}

double weft_model_sectors_causal(const weft_sector_model *m) {
    return 2.0 * tensor_sectors(m) * (0.5 + m->s / (2.0 * m->t));
}

double weft_model_compulsory(const weft_sector_model *m) {
    return 4.0 * tensor_sectors(m);
}

double weft_model_passes(double n, double c, double passes, int sawtooth) {
    if (n <= c) {
        return 1.0;
    }
    return sawtooth ? 1.0 + (passes - 1.0) * (1.0 - c / n) : passes;
}

double weft_model_wavefront_hits(double workers) {
    return 1.0 - 1.0 / workers;
}
