/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/combine.h"

#include <math.h>

#include "cpu/kernel/convert.h"
#include "cpu/thread/walk.h"
#include "problem/combine.h"

typedef struct job {
    const weft_combine *p;
    const weft_combine_data *data;
    int64_t tile_rows;
} job;

/* Sets the weight of each term, not yet divided by their sum; returns the row's LSE. */
static double weigh(const weft_combine_term *terms, int count, float *weights, float *total) {
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, terms[i].lse); /* a NaN has its say below */
    }
    for (int i = 0; i < count; i++) {
        const double weight = terms[i].lse == -INFINITY ? 0 : exp(terms[i].lse - largest);
        weights[i] = (float)weight;
        sum += weight;
    }
    *total = (float)sum;
    return sum == 0 ? -INFINITY : largest + log(sum);
}

static void combine_row(const job *j, int64_t row) {
    const weft_combine *p = j->p;
    weft_combine_term terms[WEFT_MOST_TERMS];
    float weights[WEFT_MOST_TERMS], total, sums[WEFT_MAX_HEAD_DIM] = {0}, values[WEFT_MAX_HEAD_DIM];
    const int count = weft_combine_terms(p, j->data, row, terms);
    const double lse = weigh(terms, count, weights, &total);
    for (int i = 0; i < count; i++) {
        if (terms[i].lse == -INFINITY) {
            continue; /* whatever its output holds */
        }
        weft_cpu_load(terms[i].dtype, terms[i].values, terms[i].at, p->head_dim, values);
        for (int64_t d = 0; d < p->head_dim; d++) {
            sums[d] += weights[i] * values[d];
        }
    }
    for (int64_t d = 0; d < p->head_dim && !p->sum && lse != -INFINITY; d++) {
        sums[d] /= total;
    }
    weft_cpu_store(p->o_dtype, j->data->o, weft_combine_index(p, &p->o_strides, row), p->head_dim, sums);
    if (j->data->lse && !p->sum) {
        j->data->lse[weft_combine_lse_index(p, row)] = (float)lse;
    }
}

static void combine_tile(void *context, const weft_visit *visit) {
    const job *j = context;
    const int64_t begin = visit->tile.n * j->tile_rows;
    const int64_t end = weft_smaller(begin + j->tile_rows, weft_combine_rows(j->p));
    for (int64_t row = begin; row < end; row++) {
        combine_row(j, row);
    }
}

weft_status weft_cpu_combine(const weft_plan *plan, const void *data, weft_message *message) {
    job j = {&plan->problem.combine, data, plan->schedule.tile_m};
    return weft_cpu_run_tiles(&plan->walk, combine_tile, &j, plan->progress, plan->progress_user, message);
}
