/* SPDX-License-Identifier: Apache-2.0 */
/* The launch that writes operands on the fake driver: from nothing but its parameters. */
#include <math.h>

#include "cuda/gemm/operands_params.h"
#include "fake_driver.h"
#include "ref/ref.h"

/* The part `number` of x as a bf16. */
static uint16_t part_of(float x, uint32_t number) {
    const float finite = isfinite(x) ? x : 0;
    double rest = (double)finite;
    uint16_t parts[4];
    for (int i = WEFT_GEMM_PART_FIRST; i <= WEFT_GEMM_PART_THIRD; i++) {
        weft_ref_store(WEFT_BF16, parts, (size_t)i, rest);
        if ((parts[i] & 0x7fff) == 0x7f80) { /* rounded up to infinity */
            parts[i]--;
        }
        rest -= weft_ref_load(WEFT_BF16, parts, (size_t)i);
    }
    parts[WEFT_GEMM_PART_WHOLE] = parts[WEFT_GEMM_PART_FIRST];
    if (!isfinite(x)) {
        weft_ref_store(WEFT_BF16, parts, WEFT_GEMM_PART_WHOLE, (double)x);
    }
    return parts[number];
}

/* x rounded to 11 bits. */
static float tf32_of(float x) {
    int exponent;
    if (!isfinite(x) || x == 0) {
        return x;
    }
    (void)frexp((double)x, &exponent);
    const double last = ldexp(1, (exponent < -125 ? -125 : exponent) - 11), most = ldexp(1, 128) - ldexp(1, 117);
    const double rounded = rint((double)x / last) * last;
    return (float)(fabs(rounded) > most ? copysign(most, (double)x) : rounded);
}

/* Returns whether the launch has the CTAs that the operand needs. */
static int write_operand(const weft_gemm_operands_params *p, const weft_gemm_operand_copy *o) {
    const int64_t side = WEFT_GEMM_OPERAND_TILE, batch = o->ctas ? o->all_ctas / o->ctas : 0;
    for (int64_t line = 0; line < batch * o->lines; line++) {
        const int64_t own = line % o->lines;
        const int64_t first = line / o->lines * o->stride + (o->along_k ? own * o->ld : own);
        uint16_t *to = (uint16_t *)o->to + line * p->distance;
        for (int64_t k = 0; k < p->padded; k++) {
            const int64_t at = first + (o->along_k ? k : k * o->ld);
            if (p->narrow) {
                to[k] = k < p->k ? ((const uint16_t *)o->from)[at] : 0;
                continue;
            }
            const float x = k < p->k ? ((const float *)o->from)[at] : 0;
            for (int64_t section = 0; section < p->sections; section++) {
                to[section * p->padded + k] = part_of(x, o->parts >> (4 * section) & 15);
            }
            if (p->sections == 0) {
                ((float *)to)[k] = tf32_of(x);
            }
        }
    }
    return o->all_ctas == batch * o->ctas &&
           o->ctas == (o->lines + side - 1) / side * ((p->padded + side - 1) / side) * (o->to != NULL);
}

int fake_run_gemm_operands(unsigned grid, const void *parameters) {
    const weft_gemm_operands_params *p = parameters;
    const int32_t unit = p->sections > 0 || p->narrow ? 8 : 4, lengths = p->sections > 0 ? p->sections : p->narrow ? 1 : 2;
    const int ok = grid == p->a.all_ctas + p->b.all_ctas && p->padded % unit == 0 && p->padded - p->k < unit &&
                   p->distance % 64 == 0 && p->distance >= (int64_t)p->padded * lengths && !(p->narrow && p->sections > 0);
    return !(ok && write_operand(p, &p->a) && write_operand(p, &p->b));
}
