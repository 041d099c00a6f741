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

    const weft_attention_extents sizes = weft_attention_sizes(&problem);
    float *q = calloc(sizes.q, sizeof *q), *k = calloc(sizes.k, sizeof *k);
    float *v = calloc(sizes.v, sizeof *v), *o = calloc(sizes.o, sizeof *o);
    int failed = 1;
    if (q && k && v && o) {
        for (size_t i = 0; i < sizes.v; i++) {
            v[i] = (float)(i / 128); /* every value of key j is j */
        }
        const weft_attention_data data = {q, k, v, o, NULL};
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
