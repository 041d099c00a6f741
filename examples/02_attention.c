/* SPDX-License-Identifier: Apache-2.0 */
/* Step 2: an attention in one call. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

int main(void) {
    weft_attention problem = WEFT_ATTENTION_INIT;
    problem.heads = 4;
    problem.kv_heads = 2; /* two query heads share each kv head */
    problem.seq = problem.kv_seq = 100;
    problem.head_dim = 64;
    problem.mask = WEFT_MASK_CAUSAL;

    const size_t queries = 100 * 4 * 64, keys = 100 * 2 * 64; /* (seq, heads, head_dim) */
    float *q = calloc(queries, sizeof *q), *o = calloc(queries, sizeof *o);
    float *k = calloc(keys, sizeof *k), *v = calloc(keys, sizeof *v);
    int failed = 1;
    if (q && k && v && o) {
        for (size_t i = 0; i < keys; i++) {
            v[i] = (float)(i / 128); /* every value of key j is j */
        }
        weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
        data.q = q;
        data.k = k;
        data.v = v;
        data.o = o;
        weft_message message;
        const weft_status status = weft_attention_forward(&problem, &data, &message);
        if (status) {
            fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        } else {
            /* All scores are 0, so query 99 gets the mean of 0 .. 99. */
            printf("o[query 99] = %g\n", (double)o[99 * 4 * 64]);
            failed = o[99 * 4 * 64] != 49.5f;
        }
    }
    free(q);
    free(k);
    free(v);
    free(o);
    return failed;
}
