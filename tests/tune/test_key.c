/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of problems, keys, and schedules as words. */
#include "../cmocka_all.h"

#include <string.h>

#include <weft/tune.h>

#include "base/random.h"
#include "tune/store/key.h"

/* Every length is in one bucket, buckets do not overlap, and the largest member is at most an eighth longer than the least.
 */
static void buckets(void **state) {
    (void)state;
    int64_t least = 1;
    for (int64_t n = 1; n < 100000; n++) {
        const int64_t bucket = weft_bucket(n);
        assert_true(bucket <= n && (double)n < 1.125 * (double)bucket);
        assert_true(bucket == least || bucket == n);
        least = bucket;
        assert_int_equal(weft_bucket(bucket), bucket);
    }
    assert_int_equal(weft_bucket(16), 16);
    assert_int_equal(weft_bucket(1023), 960);
    assert_int_equal(weft_bucket(1024), 1024);
    assert_int_equal(weft_bucket(1151), 1024);
    assert_int_equal(weft_bucket(WEFT_MAX_DIMENSION), INT64_C(15) << 27);
}

static weft_attention attention(int64_t seq) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 4;
    p.seq = p.kv_seq = seq;
    p.head_dim = 64;
    return p;
}

typedef struct keys {
    weft_tune_key text;
    weft_tune_number number;
} keys;

static keys keys_of(const weft_attention *p, const weft_schedule *s) {
    weft_plan draft;
    keys k;
    assert_int_equal(weft_plan_draft(&draft, p, s, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_tune_key_make(&k.text, &draft, NULL), WEFT_OK);
    weft_tune_number_make(&k.number, &draft);
    return k;
}

static int same(const keys *a, const keys *b) {
    const int numbers = memcmp(&a->number, &b->number, sizeof a->number) == 0;
    const int texts = strcmp(a->text.problem, b->text.problem) == 0 && strcmp(a->text.given, b->text.given) == 0;
    assert_int_equal(numbers, texts); /* memory and store agree on what is the same */
    return numbers;
}

static void classes(void **state) {
    (void)state;
    weft_attention p = attention(1040), q = attention(1140);
    keys a = keys_of(&p, NULL), b = keys_of(&q, NULL);
    assert_true(same(&a, &b));
    q.scale = 0.5;
    q.layout = WEFT_BHSD;
    b = keys_of(&q, NULL);
    assert_true(same(&a, &b));

    weft_attention others[7];
    for (int i = 0; i < 7; i++) {
        others[i] = p;
    }
    others[0].seq = others[0].kv_seq = 1300;
    others[1].kv_seq = 2000;
    others[2].heads = 8;
    others[3].head_dim = 128;
    others[4].dtype = WEFT_BF16;
    others[5].mask = WEFT_MASK_CAUSAL;
    others[6].batch = 3;
    for (int i = 0; i < 7; i++) {
        b = keys_of(&others[i], NULL);
        assert_false(same(&a, &b));
    }
    others[5].offset = -500; /* another triangle */
    b = keys_of(&others[5], NULL);
    others[5].offset = 0;
    a = keys_of(&others[5], NULL);
    assert_false(same(&a, &b));

    weft_schedule s = WEFT_SCHEDULE_INIT;
    a = keys_of(&p, NULL);
    b = keys_of(&p, &s);
    assert_true(same(&a, &b));
    assert_string_equal(b.text.given, "");
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    b = keys_of(&p, &s);
    assert_false(same(&a, &b));
    assert_string_equal(b.text.given, "sweep=sawtooth");
    assert_string_equal(a.text.problem, "attention fp32, head dim 64, heads 4 by 1, queries 1024, keys 1024");
    assert_string_equal(a.text.build, weft_build(WEFT_DEVICE_CPU));
    assert_memory_equal(weft_build(WEFT_DEVICE_CPU), "0.3.0-", 6);
    assert_memory_equal(weft_build(WEFT_DEVICE_CUDA), "0.3.0-", 6);
    assert_string_not_equal(weft_build(WEFT_DEVICE_CPU), weft_build(WEFT_DEVICE_CUDA));
}

/* What an attention has beside: each has a class of its own, and two of them have another. */
static void classes_of_features(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 500, 520, 1040};
    enum { KINDS = 13 };
    weft_attention all[KINDS];
    for (int i = 0; i < KINDS; i++) {
        all[i] = attention(1040);
        all[i].mask = WEFT_MASK_CAUSAL;
    }
    all[1].chunk = 256;
    all[2].prefix = 256;
    all[3].chunk = 512;
    all[4].softcap = 30;
    all[5].extras = WEFT_SINKS;
    all[6].extras = WEFT_ALIBI;
    all[7].dropout = 0.1;
    all[8].head_dim_v = 32;
    all[9].sequences = 3;
    all[9].lengths.q_starts = starts;
    all[10].sequences = 3;
    all[10].extras = WEFT_STARTS | WEFT_SINKS;
    all[11] = all[10];
    all[11].q_most = 4;
    all[12].extras = WEFT_QV;
    for (int i = 0; i < KINDS; i++) {
        for (int k = 0; k < KINDS; k++) {
            const keys a = keys_of(&all[i], NULL), b = keys_of(&all[k], NULL);
            assert_int_equal(same(&a, &b), i == k);
        }
    }
    assert_string_equal(keys_of(&all[9], NULL).text.problem,
                        "attention fp32, head dim 64, heads 4 by 1, queries 1024, keys 1024, causal to 1024, "
                        "packed, lengths to 512");
}

/* Any schedule comes back from its words as it was. */
static void words(void **state) {
    (void)state;
    uint64_t random = random_seed(7);
    for (int round = 0; random_round(&random, &round, 2000); round++) {
        weft_schedule s = WEFT_SCHEDULE_INIT, back;
        char text[WEFT_WORDS];
        s.tile_m = (int64_t)(weft_random(&random) % 3) * (int64_t)(weft_random(&random) % 2147483647);
        s.tile_n = (int64_t)(weft_random(&random) % 300);
        s.tile_k = (int64_t)(weft_random(&random) % 3);
        s.order = (int32_t)(weft_random(&random) % (WEFT_ORDER_KINDS + 1));
        s.sweep = (int32_t)(weft_random(&random) % (WEFT_SWEEPS + 1));
        s.dispatch = (int32_t)(weft_random(&random) % (WEFT_DISPATCHES + 1));
        s.group = (int64_t)(weft_random(&random) % 5);
        s.axis = (weft_axis)(weft_random(&random) % 3);
        s.cluster_m = (int64_t)(weft_random(&random) % 3);
        s.workers = (int64_t)(weft_random(&random) % 300);
        s.tile_m %= WEFT_MAX_DIMENSION;
        weft_schedule_write(&s, text);
        assert_true(strlen(text) + 1 < sizeof text);
        assert_int_equal(weft_schedule_read(&back, text, NULL), WEFT_OK);
        assert_true(weft_schedule_same(&back, &s));
        back.tile_n++;
        assert_false(weft_schedule_same(&back, &s));
    }
}

static void wrong_words(void **state) {
    (void)state;
    static const char *const texts[] = {"tile_m",
                                        "tile_m=",
                                        "tile_m=-1",
                                        "tile_m=1x",
                                        "tile_m=2147483648",
                                        "order=spiral",
                                        "speed=3",
                                        "=",
                                        "tile_m=1  tile_n=2",
                                        " ",
                                        "sweep=0",
                                        "axis=1",
                                        "tile_m=99999999999999999999"};
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        weft_schedule s;
        weft_message message = {""};
        char second[64];
        snprintf(second, sizeof second, "tile_m=7 %s", texts[i]); /* what was read before leaves nothing */
        assert_int_equal(weft_schedule_read(&s, texts[i], &message), WEFT_INVALID);
        assert_true(message.text[0]);
        assert_int_equal(weft_schedule_read(&s, second, NULL), WEFT_INVALID);
        assert_true(weft_schedule_same(&s, &open));
    }
    char longest[1000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    weft_schedule s;
    assert_int_equal(weft_schedule_read(&s, longest, NULL), WEFT_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(buckets), cmocka_unit_test(classes),
                                       cmocka_unit_test(classes_of_features), cmocka_unit_test(words),
                                       cmocka_unit_test(wrong_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
