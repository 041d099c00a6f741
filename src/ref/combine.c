/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of an attention, in fp64. */
#include "ref/ref.h"

#include <math.h>

#include "problem/combine.h"

double weft_ref_combine_row(const weft_combine *p, const weft_combine_data *data, int64_t row, double *out) {
    weft_combine_term terms[WEFT_MOST_TERMS];
    const int count = weft_combine_terms(p, data, row, terms);
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, terms[i].lse);
    }
    for (int64_t d = 0; d < p->head_dim; d++) {
        out[d] = 0;
    }
    for (int i = 0; i < count; i++) {
        if (terms[i].lse == -INFINITY) {
            continue;
        }
        const double weight = exp(terms[i].lse - largest);
        sum += weight;
        for (int64_t d = 0; d < p->head_dim; d++) {
            out[d] += weight * weft_ref_load(terms[i].dtype, terms[i].values, terms[i].at + (size_t)d);
        }
    }
    for (int64_t d = 0; d < p->head_dim && !p->sum && sum != 0; d++) {
        out[d] /= sum;
    }
    return sum == 0 ? -INFINITY : largest + log(sum);
}
