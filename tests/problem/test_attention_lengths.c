/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of sequences: what is refused, when the plan is made and when it runs; what a problem asks for; how much it
 * computes. */
#include "../cmocka_all.h"

#include <math.h>
#include <string.h>

#include "../features.h"
#include "../plans.h"

static weft_attention good(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = 10;
    p.kv_seq = 12;
    p.head_dim = 8;
    return p;
}

static void assert_refused(const weft_attention *p, const char *expected) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(p, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);
}

static void wrong_lengths_are_named(void **state) {
    (void)state;
    const int32_t descends[] = {0, 6, 4}, beyond[] = {0, 6, 11}, late[] = {1, 6, 10}, right[] = {0, 6, 10};
    const int32_t negative[] = {-1, 0}, many[] = {6, 5};
    weft_attention p = good();
    p.sequences = 2;
    p.lengths.q_starts = descends;
    assert_refused(&p, "q_starts of sequence 1: 6 to 4, of 10 rows");
    p.lengths.q_starts = beyond;
    assert_refused(&p, "q_starts of sequence 1: 6 to 11, of 10 rows");
    p.lengths.q_starts = late;
    assert_refused(&p, "q_starts begins with 1, not with 0");
    p.lengths.q_starts = right;
    p.lengths.kv_starts = late;
    assert_refused(&p, "kv_starts begins with 1, not with 0");
    p.lengths.kv_starts = NULL;
    p.lengths.q_used = negative;
    assert_refused(&p, "q_used of sequence 0 is -1, and the sequence has 6 rows");
    p.lengths.q_used = NULL;
    p.lengths.kv_used = many;
    assert_refused(&p, "kv_used of sequence 1 is 5, and the sequence has 4 rows");
    p.lengths.kv_used = NULL;
    p.lengths.kv_pad = many;
    assert_refused(&p, "kv_pad of sequence 1 is 5, and the sequence has 4 rows");
    p.lengths.kv_pad = NULL;
    p.extras = WEFT_STARTS;
    assert_refused(&p, "q_starts is given, and extras says that the data has it");
    p.extras = WEFT_BIAS;
    assert_refused(&p, "a packed batch takes no bias");
    p.extras = 0;
    p.batch = 2;
    assert_refused(&p, "batch 2 of a packed batch is not 1");
    p = good();
    p.lengths.kv_starts = right;
    assert_refused(&p, "kv_starts needs q_starts");
    p = good();
    p.chunk = p.prefix = 3;
    assert_refused(&p, "prefix 3 goes with no chunks, and with no window that has a left edge");
}

/* The same for lengths that the data brings: the run is refused, and nothing is written. */
static void wrong_lengths_of_the_data_are_named(void **state) {
    (void)state;
    const int32_t descends[] = {0, 6, 4}, used[] = {7, 0};
    float q[80], k[96], v[96], o[80] = {5};
    weft_attention p = good();
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_message message = {""};
    p.sequences = 2;
    p.extras = WEFT_STARTS;
    memset(q, 0, sizeof q);
    memset(k, 0, sizeof k);
    memset(v, 0, sizeof v);
    data.q = q;
    data.k = k;
    data.v = v;
    data.o = o;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lengths.q_starts is null");
    data.lengths.q_starts = descends;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "q_starts of sequence 1: 6 to 4, of 10 rows");
    const int32_t right[] = {0, 6, 10};
    p.lengths.q_starts = right;
    p.extras = WEFT_KV_USED;
    data.lengths.q_starts = NULL;
    data.lengths.kv_used = used;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "kv_used of sequence 0 is 7, and the sequence has 6 rows");
    assert_true(o[0] == 5);
}

/* The most queries of a sequence: as the starts say, as the caller says, and never fewer than the data brings. */
static void most_queries(void **state) {
    (void)state;
    const int32_t starts[] = {0, 3, 3, 10};
    float q[80], kv[96], o[80];
    weft_attention p = good(), r;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_message message = {""};
    p.q_most = 4;
    assert_refused(&p, "q_most 4 is not at least 0, and 0 but for a packed batch");
    p.sequences = 3;
    p.q_most = -1;
    p.extras = WEFT_STARTS;
    assert_refused(&p, "q_most -1 is not at least 0, and 0 but for a packed batch");
    p.q_most = INT64_MAX;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(weft_attention_most_queries(&r), p.seq);
    p.q_most = 0;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(weft_attention_most_queries(&r), 0);
    p.q_most = 6;
    memset(q, 0, sizeof q);
    memset(kv, 0, sizeof kv);
    data.q = q;
    data.k = data.v = kv;
    data.o = o;
    data.lengths.q_starts = starts;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "q_starts of sequence 2: 7 queries, and q_most is 6");
    p.q_most = 7;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_OK);
    p.extras = 0;
    p.lengths.q_starts = starts;
    p.q_most = 9;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(weft_attention_most_queries(&r), 7);
    p.q_most = 6;
    assert_refused(&p, "q_starts of sequence 2: 7 queries, and q_most is 6");
}

/* What is asked for is what was drawn, by name. */
static void features_are_asked_for(void **state) {
    (void)state;
    const int32_t starts[] = {0, 10};
    weft_attention p = good(), r;
    assert_int_equal(weft_attention_asks(&p) & ~WEFT_HAS_OTHER_DIM, 0);
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_null(weft_attention_lacks(&r, 0));
    p.sequences = 1;
    p.lengths.q_starts = starts;
    p.softcap = 3;
    p.head_dim = 9;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(weft_attention_asks(&r), WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_ODD_DIM);
    assert_string_equal(weft_attention_lacks(&r, 0), "lengths that vary");
    assert_string_equal(weft_attention_lacks(&r, WEFT_HAS_LENGTHS), "softcap");
    assert_null(weft_attention_lacks(&r, WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP | WEFT_HAS_ODD_DIM));
}

/* Windows, chunks, prefixes and lengths that are known count every pair. */
static void flops_count_pairs(void **state) {
    (void)state;
    uint64_t random = random_seed(240);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        weft_attention p = WEFT_ATTENTION_INIT, r;
        drawn_lengths lengths;
        p.batch = random_between(&random, 1, 3);
        p.seq = random_between(&random, 1, 60);
        p.kv_seq = random_between(&random, 1, 60);
        p.head_dim = 8;
        draw_mask(&random, &p);
        const int32_t bits = round % 3 == 0 ? WEFT_HAS_CHUNK : round % 3 == 1 ? WEFT_HAS_PREFIX : 0;
        draw_features(&random, &p, bits | WEFT_HAS_LENGTHS | WEFT_HAS_OTHER_DIM, 16, &lengths);
        p.extras = 0; /* all are known */
        p.lengths = lengths.all;
        double pairs = 0;
        for (int64_t i = 0; i < p.batch * p.seq * p.kv_seq; i++) {
            pairs += batch_shows(&p, &p.lengths, i / p.kv_seq / p.seq, i / p.kv_seq % p.seq, i % p.kv_seq);
        }
        assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
        const double want = 2 * pairs * (double)(r.head_dim + r.head_dim_v);
        assert_true(fabs(weft_problem_flops(&p) - want) <= 1e-9 * want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_lengths_are_named), cmocka_unit_test(wrong_lengths_of_the_data_are_named),
        cmocka_unit_test(most_queries), cmocka_unit_test(features_are_asked_for), cmocka_unit_test(flops_count_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
