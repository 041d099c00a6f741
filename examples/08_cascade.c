/* SPDX-License-Identifier: Apache-2.0 */
/* Step 8: a cascade. Three sequences begin with the same keys. These are read once, for the queries of all sequences
 * together; what follows them is read for each sequence; then both parts are combined. It is the same as attention of the
 * whole sequences, which this program checks. */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

enum { SEQUENCES = 3, HEADS = 4, KV_HEADS = 2, DIM = 32, PAGE = 16, SHARED = 32, PAGES = 8, EACH = 4, QUERIES = 6 };

static float q[QUERIES * HEADS * DIM], k[PAGES * PAGE * KV_HEADS * DIM], v[PAGES * PAGE * KV_HEADS * DIM];

/* Pages 5 and 2 are everyone's. The second sequence has no use for its last entry. */
static const int32_t table[SEQUENCES * EACH] = {5, 2, 7, 0, 5, 2, 1, -1, 5, 2, 3, 6};
static const int32_t starts[] = {0, 1, 2, 6}; /* queries of each sequence: one, one and four */
static const int32_t used[] = {32 + 20, 32 + 1, 32 + 31}, behind[] = {20, 1, 31};

/* Queries of all sequences, one behind the other, over pages. */
static weft_attention whole_problem(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.head_dim = DIM;
    p.seq = QUERIES;
    p.sequences = SEQUENCES;
    p.kv_seq = EACH * PAGE;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.extras = WEFT_STARTS | WEFT_KV_USED;
    p.cache.page = PAGE;
    p.cache.pages = PAGES;
    p.cache.table_stride = EACH;
    return p;
}

static weft_status attend(const weft_attention *p, const int32_t *pages, const int32_t *kv_used, float *o, float *lse,
                          weft_message *message) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = q;
    data.k = k;
    data.v = v;
    data.o = o;
    data.lse = lse;
    data.cache.table = pages;
    data.lengths.q_starts = p->extras & WEFT_STARTS ? starts : NULL;
    data.lengths.kv_used = kv_used;
    return weft_attention_forward(p, &data, message);
}

static weft_status cascade(float *o, float *lse, weft_message *message) {
    static float outputs[2][QUERIES * HEADS * DIM], lses[2][HEADS * QUERIES];
    weft_attention prefix = whole_problem(), suffix = whole_problem();
    weft_status status;
    prefix.sequences = 0; /* all queries are one sequence, and see all of the prefix */
    prefix.mask = WEFT_MASK_NONE;
    prefix.extras = 0;
    prefix.kv_seq = SHARED;
    suffix.kv_seq -= SHARED;
    if ((status = attend(&prefix, table, NULL, outputs[0], lses[0], message)) ||
        (status = attend(&suffix, table + SHARED / PAGE, behind, outputs[1], lses[1], message))) {
        return status;
    }
    weft_combine both = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    both.heads = HEADS;
    both.seq = QUERIES;
    both.head_dim = DIM;
    for (int i = 0; i < 2; i++) {
        data.parts[i] = outputs[i];
        data.lses[i] = lses[i];
    }
    data.o = o;
    data.lse = lse;
    return weft_combine_parts(&both, &data, message);
}

/* NaN if there is one. */
static double largest_difference(const float *a, const float *b, int count) {
    double worst = 0;
    for (int i = 0; i < count; i++) {
        const double apart = fabs((double)a[i] - (double)b[i]);
        worst = apart <= worst || isnan(worst) ? worst : apart;
    }
    return worst;
}

int main(void) {
    static float o[QUERIES * HEADS * DIM], lse[HEADS * QUERIES], want[QUERIES * HEADS * DIM], want_lse[HEADS * QUERIES];
    const weft_attention whole = whole_problem();
    weft_message message = {""};
    for (int i = 0; i < PAGES * PAGE * KV_HEADS * DIM; i++) {
        k[i] = sinf((float)i * 0.37f);
        v[i] = cosf((float)i * 0.11f);
    }
    for (int i = 0; i < QUERIES * HEADS * DIM; i++) {
        q[i] = sinf((float)i * 0.71f);
    }
    if (cascade(o, lse, &message) || attend(&whole, table, used, want, want_lse, &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    const double outputs = largest_difference(o, want, QUERIES * HEADS * DIM);
    const double sums = largest_difference(lse, want_lse, HEADS * QUERIES);
    printf("the cascade differs from plain attention by %.1g at most\n", fmax(outputs, sums));
    return !(outputs < 1e-5 && sums < 1e-5);
}
