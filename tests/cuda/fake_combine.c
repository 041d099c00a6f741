/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when parts of an attention are combined: the reference, from the same parameters. */
#include "cuda/combine/params.h"
#include "fake_driver.h"
#include "problem/combine.h"
#include "ref/ref.h"

int fake_run_combine(unsigned grid, const void *parameters) {
    const weft_combine_params *p = parameters;
    const int64_t seq = (int64_t)p->by_seq.value, heads = (int64_t)p->by_heads.value;
    weft_combine c = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    c.parts = p->count;
    c.batch = p->rows / seq / heads;
    c.heads = heads;
    c.seq = seq;
    c.head_dim = (int64_t)p->by_chunks.value * p->chunk;
    c.dtype = (weft_dtype)p->dtype;
    c.o_dtype = (weft_dtype)p->o_dtype;
    c.part_strides = p->part_strides;
    c.o_strides = p->o_strides;
    c.into = p->into;
    c.sum = p->sum;
    c.lse_stride = p->lse_stride;
    data.o = p->o;
    data.lse = p->lse;
    for (int i = 0; i < p->count; i++) {
        data.parts[i] = p->parts[i];
        data.lses[i] = p->lses[i];
    }
    for (int64_t row = 0; row < p->rows; row++) {
        double out[WEFT_MAX_HEAD_DIM];
        const double lse = weft_ref_combine_row(&c, &data, row, out);
        for (int64_t d = 0; d < c.head_dim; d++) {
            weft_ref_store(c.o_dtype, p->o, weft_combine_index(&c, &c.o_strides, row) + (size_t)d, out[d]);
        }
        if (p->lse) {
            p->lse[weft_combine_lse_index(&c, row)] = (float)lse;
        }
    }
    return grid > 0 ? 0 : 1;
}
