/* Combining parts of an attention, in fp64. */
#include "ref/ref.h"

#include <math.h>

#include "problem/combine.h"

double weft_ref_combine_row(const weft_combine *p, const weft_combine_data *data, int64_t row, double *out) {
    const size_t at = weft_combine_index(p, &p->part_strides, row);
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < p->parts; i++) {
        largest = fmax(largest, (double)data->lses[i][row]);
    }
    for (int64_t d = 0; d < p->head_dim; d++) {
        out[d] = 0;
    }
    for (int64_t i = 0; i < p->parts; i++) {
        const double lse = (double)data->lses[i][row];
        if (lse == -INFINITY) {
            continue;
        }
        const double weight = exp(lse - largest);
        sum += weight;
        for (int64_t d = 0; d < p->head_dim; d++) {
            out[d] += weight * weft_ref_load(p->dtype, data->parts[i], at + (size_t)d);
        }
    }
    for (int64_t d = 0; d < p->head_dim && sum != 0; d++) {
        out[d] /= sum;
    }
    return sum == 0 ? -INFINITY : largest + log(sum);
}
