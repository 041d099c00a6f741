/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over KV caches on the CPU: pages, appended keys, rotation; against each sequence alone. */
#include "../../caches.h"

static void caches_are_as_sequences_alone(void **state) {
    (void)state;
    uint64_t random = random_seed(9100);
    for (int round = 0; random_round(&random, &round, 240); round++) {
        weft_message message = {""};
        cache_case c;
        case_new_random(&random, round, &c);
        const weft_schedule s = case_schedule(&random, &c);
        if (case_run(&c, &s, &message)) {
            fail_msg("%s", message.text);
        }
        check_case(&random, &c);
        case_free(&c);
    }
}

static void reference_is_as_sequences_alone(void **state) {
    (void)state;
    uint64_t random = random_seed(9101);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        cache_case c;
        case_new_random(&random, round, &c);
        weft_attention p = c.p;
        weft_message message = {""};
        assert_int_equal(weft_attention_take_lengths(&c.p, &c.data.lengths, &p.lengths, &message), WEFT_OK);
        assert_int_equal(weft_attention_take_cache(&p, &c.data.cache, &message), WEFT_OK);
        assert_int_equal(weft_ref_attention(&p, &c.data, &message), WEFT_OK);
        check_case(&random, &c);
        case_free(&c);
    }
}

/* Dropout, and in a batch that is not packed a bias, know keys by their columns: against the reference. */
static void dropout_and_bias_go_by_columns(void **state) {
    (void)state;
    uint64_t random = random_seed(9105);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        weft_message message = {""};
        cache_case c;
        case_new_random(&random, round, &c);
        weft_attention p = c.p;
        p.dropout = random_between(&random, 0, 1) ? 0.25 : 0;
        p.extras |= p.sequences ? 0 : WEFT_BIAS;
        assert_int_equal(resolve_attention(&c.p, &p, &message), WEFT_OK);
        void *bias = p.sequences ? NULL : random_bias(&random, &c.p);
        const size_t bytes = c.size.o * weft_dtype_bytes(p.dtype);
        c.data.bias = bias;
        c.data.dropout_seed = random_bits(&random);
        if (case_run(&c, NULL, &message)) {
            fail_msg("%s", message.text);
        }
        void *got = case_copy(c.data.o, bytes);
        p = c.p;
        assert_int_equal(weft_attention_take_lengths(&c.p, &c.data.lengths, &p.lengths, &message), WEFT_OK);
        assert_int_equal(weft_attention_take_cache(&p, &c.data.cache, &message), WEFT_OK);
        assert_int_equal(weft_ref_attention(&p, &c.data, &message), WEFT_OK);
        for (int64_t i = 0; i < p.batch * weft_attention_rows(&p) * p.heads * p.head_dim_v; i++) {
            const int64_t d = i % p.head_dim_v, head = i / p.head_dim_v % p.heads, row = i / p.head_dim_v / p.heads;
            const int64_t rows = weft_attention_rows(&p);
            const size_t at = weft_row_index(&p.o_strides, row / rows, row % rows, head) + (size_t)d;
            assert_near(weft_ref_load(p.dtype, got, at), weft_ref_load(p.dtype, c.data.o, at), 6 * case_rounding(p.dtype));
        }
        free(got);
        if (bias) {
            guarded_free(bias);
        }
        case_free(&c);
    }
}

/* Decode: lengths beyond a part, short pages, heads that share keys. */
static void draw_decode(uint64_t *random, int round, cache_case *c) {
    static const int64_t pages[] = {0, 1, 3, 16, 100, 256};
    const weft_attention init = WEFT_ATTENTION_INIT;
    const weft_attention_data none = WEFT_ATTENTION_DATA_INIT;
    memset(c, 0, sizeof *c);
    c->p = init;
    c->data = none;
    weft_attention *p = &c->p;
    p->dtype = (weft_dtype)(round % 3);
    p->cache.page = pages[random_between(random, 0, 5)];
    p->kv_seq = p->cache.page ? p->cache.page * (3600 / p->cache.page) : 3600;
    p->kv_heads = random_between(random, 1, 2);
    p->heads = p->kv_heads * random_between(random, 1, 4);
    p->head_dim = 16 * random_between(random, 1, 4);
    p->seq = p->heads > p->kv_heads ? 1 : random_between(random, 1, 3);
    p->layout = (weft_layout)random_between(random, 0, 1);
    p->mask = random_between(random, 0, 1) ? WEFT_MASK_NONE : WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    if (random_between(random, 0, 2) == 0) {
        p->mask = WEFT_MASK_WINDOW_BOTTOM_RIGHT;
        p->left = random_between(random, 0, 2500);
    }
    p->cache.append = random_between(random, 0, 2);
    p->cache.rotary_dim = random_between(random, 0, 1) ? 16 : 0;
    p->cache.rotary_rows = p->cache.rotary_dim ? 3000 : 0;
    c->sequences = p->batch = random_between(random, 1, MOST_SEQUENCES);
    const int pads = random_between(random, 0, 3) == 0;
    for (int64_t s = 0; s < c->sequences; s++) {
        c->used[s] =
            (int32_t)(random_between(random, 0, 3) ? random_between(random, 0, p->kv_seq) : random_between(random, 0, 2));
        c->pad[s] = (int32_t)(pads ? random_between(random, 0, 40) : 0);
        c->pad[s] = c->pad[s] > c->used[s] ? 0 : c->pad[s];
        c->positions[s] = (int32_t)random_between(random, 0, 4000);
    }
    p->lengths.kv_used = c->used;
    p->lengths.kv_pad = pads ? c->pad : NULL;
}

static void decode_takes_unlike_lengths(void **state) {
    (void)state;
    uint64_t random = random_seed(9102);
    for (int round = 0; random_round(&random, &round, 20); round++) {
        weft_message message = {""};
        weft_plan *plan;
        cache_case c;
        draw_decode(&random, round, &c);
        fill_case(&random, &c);
        if (plan_for(&plan, &c.p, NULL, NULL, &message) || weft_plan_run(plan, &c.data, &message)) {
            fail_msg("%s", message.text);
        }
        assert_int_equal(weft_plan_schedule(plan).tile_n, 1536); /* a part: it is a decode */
        weft_plan_destroy(plan);
        check_case(&random, &c);
        case_free(&c);
    }
}

/* Multi-head latent attention at DeepSeek's head dims: a cache of one row a token for all heads. */
static void latent_caches_are_as_sequences_alone(void **state) {
    (void)state;
    uint64_t random = random_seed(9106);
    for (int round = 0; random_round(&random, &round, 12); round++) {
        weft_message message = {""};
        cache_case c;
        draw_decode(&random, round, &c);
        c.p.kv_heads = 1;
        c.p.seq = random_between(&random, 1, 3); /* several queries of several heads are no decode */
        c.p.heads = c.p.seq > 1 ? random_between(&random, 1, 20) : random_between(&random, 1, 128);
        c.p.head_dim = 64;
        c.p.head_dim_v = 512;
        c.p.extras |= WEFT_QV;
        fill_case(&random, &c);
        weft_plan *plan;
        if (plan_for(&plan, &c.p, NULL, NULL, &message) || weft_plan_run(plan, &c.data, &message)) {
            fail_msg("%s", message.text);
        }
        assert_int_equal(weft_plan_schedule(plan).tile_n == 1536, c.p.seq == 1 || c.p.heads == 1);
        weft_plan_destroy(plan);
        check_case(&random, &c);
        case_free(&c);
    }
}

/* One sequence of 2500 keys in pages of 16, and others around it. */
enum { KEYS = 2500, PAGE = 16, EACH = 180, HEADS = 4, DIM = 32, MOST_BATCH = 6, PAGES = MOST_BATCH * EACH };

static void run_batch(uint64_t *random, int64_t batch, int64_t at, uint16_t *kv, const uint16_t *q_one, uint16_t *o_one) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_message message = {""};
    int32_t table[MOST_BATCH * EACH], used[MOST_BATCH];
    uint16_t q[MOST_BATCH * HEADS * DIM], o[MOST_BATCH * HEADS * DIM];
    p.batch = batch;
    p.heads = HEADS;
    p.kv_heads = 1;
    p.seq = 1;
    p.kv_seq = PAGE * EACH;
    p.head_dim = DIM;
    p.dtype = WEFT_BF16;
    p.cache.page = PAGE;
    p.cache.pages = PAGES;
    p.lengths.kv_used = used;
    for (int64_t i = 0; i < batch * EACH; i++) { /* its own pages lie where they lay; those of others are any */
        table[i] = (int32_t)(i / EACH == at ? i % EACH : random_between(random, 0, PAGES - 1));
    }
    for (int64_t i = 0; i < batch; i++) {
        used[i] = i == at ? KEYS : (int32_t)random_between(random, 0, p.kv_seq);
    }
    for (int64_t i = 0; i < batch * HEADS * DIM; i++) {
        q[i] = i / (HEADS * DIM) == at ? q_one[i % (HEADS * DIM)] : (uint16_t)(0x3f00 + random_between(random, 0, 0xff));
    }
    data.q = q;
    data.k = kv;
    data.v = kv + PAGES * PAGE * DIM;
    data.o = o;
    data.cache.table = table;
    weft_plan *plan;
    if (plan_for(&plan, &p, NULL, NULL, &message) || weft_plan_run(plan, &data, &message)) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
    memcpy(o_one, o + at * HEADS * DIM, HEADS * DIM * sizeof *o);
}

static void batches_do_not_change_a_sequence(void **state) {
    (void)state;
    uint64_t random = random_seed(9103);
    const size_t count = (size_t)2 * PAGES * PAGE * DIM;
    uint16_t *kv = malloc(count * sizeof *kv), q[HEADS * DIM], first[HEADS * DIM], o[HEADS * DIM];
    assert_non_null(kv);
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(WEFT_BF16, kv, i, random_even(&random));
    }
    for (size_t i = 0; i < HEADS * DIM; i++) {
        weft_ref_store(WEFT_BF16, q, i, 3 * random_even(&random));
    }
    run_batch(&random, 1, 0, kv, q, first);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        const int64_t batch = random_between(&random, 1, MOST_BATCH);
        run_batch(&random, batch, random_between(&random, 0, batch - 1), kv, q, o);
        assert_memory_equal(o, first, sizeof o);
    }
    free(kv);
}

/* An entry that is needed and names no page: told, and nothing is written. */
static void bad_tables_are_refused(void **state) {
    (void)state;
    uint64_t random = random_seed(9104);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        weft_message message = {""};
        cache_case c;
        case_new_random(&random, round, &c);
        const int64_t s = random_between(&random, 0, c.sequences - 1), keys = case_keys(&c, s);
        if (c.p.cache.page > 0 && case_new(&c, s) > 0) {
            const int64_t entry = (keys - 1) / c.p.cache.page; /* of the last new key */
            char want[96];
            c.table[s * c.p.cache.table_stride + entry] =
                (int32_t)(round % 2 ? c.p.cache.pages : -1 - random_between(&random, 0, 5));
            snprintf(want, sizeof want, "cache.table of sequence %d, entry %d is %d,", (int)s, (int)entry,
                     (int)c.table[s * c.p.cache.table_stride + entry]);
            assert_int_equal(case_run(&c, NULL, &message), WEFT_INVALID);
            assert_non_null(strstr(message.text, want));
            assert_memory_equal(c.kv, c.kv_before, c.kv_bytes);
            assert_memory_equal(c.v_own, c.v_before, c.v_bytes);
            char *none = calloc(c.size.o, weft_dtype_bytes(c.p.dtype));
            assert_non_null(none);
            guarded_check(c.data.o, c.size.o * weft_dtype_bytes(c.p.dtype), none);
            free(none);
        }
        case_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reference_is_as_sequences_alone),
                                       cmocka_unit_test(caches_are_as_sequences_alone),
                                       cmocka_unit_test(latent_caches_are_as_sequences_alone),
                                       cmocka_unit_test(dropout_and_bias_go_by_columns),
                                       cmocka_unit_test(decode_takes_unlike_lengths),
                                       cmocka_unit_test(batches_do_not_change_a_sequence),
                                       cmocka_unit_test(bad_tables_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
