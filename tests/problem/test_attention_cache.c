/* SPDX-License-Identifier: Apache-2.0 */
/* KV caches as problems: what is refused, with its message; sizes and strides; which buffers there are; what overlaps. */
#include "../cmocka_all.h"

#include <string.h>

#include "../plans.h"

/* Three sequences of up to 64 keys in pages of 16, each of which gets two. */
static weft_attention good(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 3;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = 2;
    p.kv_seq = 64;
    p.head_dim = 8;
    p.cache.page = 16;
    p.cache.pages = 20;
    p.cache.append = 2;
    p.cache.rotary_dim = 8;
    p.cache.rotary_rows = 64;
    p.extras = WEFT_KV_USED;
    return p;
}

static void assert_refused_as(const weft_attention *p, weft_status status, const char *expected) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(p, &message), status);
    assert_string_equal(message.text, expected);
}

#define REFUSED(changes, expected)                                                                                         \
    {                                                                                                                      \
        weft_attention p = good();                                                                                         \
        changes;                                                                                                           \
        assert_refused_as(&p, WEFT_INVALID, expected);                                                                     \
    }

static void wrong_caches_are_named(void **state) {
    (void)state;
    const int32_t starts[] = {0, 1, 2, 6};
    const weft_attention whole = good();
    assert_int_equal(weft_problem_check(&whole, NULL), WEFT_OK);
    REFUSED(p.cache.page = -1, "kv_seq 64 is no multiple of cache.page -1")
    REFUSED(p.cache.page = 48, "kv_seq 64 is no multiple of cache.page 48")
    REFUSED(p.cache.page = 128, "kv_seq 64 is no multiple of cache.page 128")
    REFUSED(p.cache.page = INT64_MAX, "kv_seq 64 is no multiple of cache.page 9223372036854775807")
    REFUSED(p.cache.page = 0, "cache.pages 20 and cache.table_stride 0 are only for a cache with cache.page above 0")
    REFUSED(p.cache.pages = -1, "cache.pages -1 is not between 1 and 2147483647")
    REFUSED(p.cache.pages = INT64_MAX, "cache.pages 9223372036854775807 is not between 1 and 2147483647")
    REFUSED(p.cache.table_stride = 3, "cache.table_stride 3 is not between the 4 pages of kv_seq and 2147483647")
    REFUSED(p.cache.table_stride = INT64_MAX,
            "cache.table_stride 9223372036854775807 is not between the 4 pages of kv_seq and 2147483647")
    REFUSED(p.batch = 2147483647; p.cache.table_stride = 2147483647, "cache.table of 2147483647 sequences is too large")
    REFUSED(p.cache.append = -1, "cache.append -1 is not between 0 and 64")
    REFUSED(p.cache.append = 65, "cache.append 65 is not between 0 and 64")
    REFUSED(p.cache.rotary_dim = 7, "cache.rotary_dim 7 is not even and between 0 and head_dim 8")
    REFUSED(p.cache.rotary_dim = 10, "cache.rotary_dim 10 is not even and between 0 and head_dim 8")
    REFUSED(p.cache.rotary_dim = -2, "cache.rotary_dim -2 is not even and between 0 and head_dim 8")
    REFUSED(p.cache.rotary_rows = 0, "cache.rotary_rows 0 is not between 1 and 2147483647")
    REFUSED(p.cache.rotary_rows = INT64_MIN, "cache.rotary_rows -9223372036854775808 is not between 1 and 2147483647")
    REFUSED(p.cache.rotary_interleaved = 2, "cache.rotary_interleaved 2 is not 0 or 1")
    REFUSED(p.cache.dtype = 3, "cache.dtype 3 is not 0 or, for the problem's dtype, 1")
    REFUSED(p.cache.new_starts = starts, "cache.new_starts is only for keys appended to a packed batch")
    REFUSED(p.k_strides.seq = 16, "k_strides make rows of k overlap, and keys are appended: batch 0, seq 16, head 0")
    REFUSED(p.v_strides.batch = 256; p.v_strides.seq = 8;
            p.v_strides.head = 64, "v_strides make rows of v overlap, and keys are appended: batch 256, seq 8, head 64")
    REFUSED(p.cache.k_new_strides.seq = -1, "k_new_strides are negative: batch 0, seq -1, head 0")
    REFUSED(p.cache.v_new_strides.batch = INT64_MAX, "v_new spans more than 2^59 elements")
    REFUSED(p.k_strides.batch = INT64_MAX, "k spans more than 2^59 elements")
}

static void wrong_packed_caches_are_named(void **state) {
    (void)state;
    const int32_t starts[] = {0, 1, 1, 2}, many[] = {0, 1, 2, 6};
    weft_attention p = good();
    p.batch = 1;
    p.sequences = 3;
    p.lengths.q_starts = starts;
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_OK);
    p.cache.new_starts = many;
    assert_refused_as(&p, WEFT_INVALID, "cache.new_starts of sequence 2: 2 to 6, of 2 rows");
    p.cache.new_starts = NULL;
    p.lengths.kv_starts = starts;
    assert_refused_as(&p, WEFT_INVALID, "keys in pages are not packed: they take kv_used, and no kv_starts");
    p.lengths.kv_starts = NULL;
    p.extras = 0;
    assert_refused_as(&p, WEFT_INVALID, "a cache with a packed batch needs kv_used");
    p.extras = WEFT_KV_USED;
    p.cache.table_stride = 1 << 28;
    assert_refused_as(&p, WEFT_INVALID,
                      "a packed batch of 3 sequences with lists of 268435456 pages of 16 keys has more than 2147483647");
}

static void backward_takes_no_cache(void **state) {
    (void)state;
    weft_attention p = good();
    p.operation = WEFT_ATTENTION_BACKWARD;
    assert_refused_as(&p, WEFT_UNSUPPORTED, "attention backward does not take keys in pages");
    p.cache.page = p.cache.pages = 0;
    assert_refused_as(&p, WEFT_UNSUPPORTED, "attention backward does not take appended keys");
    p.cache.append = 0;
    assert_refused_as(&p, WEFT_UNSUPPORTED, "attention backward does not take rotated queries and keys");
}

static void sizes_are_those_of_pages(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t elements;
        int written, optional;
    } expected[] = {{"q", 3 * 2 * 4 * 8, 0, 0},
                    {"k", 20 * 16 * 2 * 8, 1, 0},
                    {"v", 20 * 16 * 2 * 8, 1, 0},
                    {"o", 3 * 2 * 4 * 8, 1, 0},
                    {"lse", 3 * 4 * 2, 1, 1},
                    {"lengths.kv_used", 3, 0, 0},
                    {"cache.table", 2 * 6 + 4, 0, 0},
                    {"cache.k_new", 3 * 2 * 2 * 8, 0, 0},
                    {"cache.v_new", 3 * 2 * 2 * 8, 0, 0},
                    {"cache.cos", 64 * 4, 0, 0},
                    {"cache.sin", 64 * 4, 0, 0},
                    {"cache.positions", 3, 0, 1}};
    weft_attention p = good();
    p.cache.table_stride = 6;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        weft_buffer b = WEFT_BUFFER_INIT;
        assert_int_equal(weft_problem_buffer(&p, i, &b, NULL), WEFT_OK);
        assert_string_equal(b.name, expected[i].name);
        assert_int_equal(b.elements, expected[i].elements);
        assert_int_equal(b.is_written, expected[i].written);
        assert_int_equal(b.optional != 0, expected[i].optional);
    }
    p.cache.pages = 0; /* as many as the table has entries */
    weft_attention resolved;
    assert_int_equal(resolve_attention(&resolved, &p, NULL), WEFT_OK);
    assert_int_equal(resolved.cache.pages, 18);
}

/* K and V may be one tensor, also where they are written, if no element is in both. */
static void interleaved_tensors_are_told_from_overlapping_ones(void **state) {
    (void)state;
    static float memory[20 * 16 * 2 * 16 + 64], q[192], o[192], k_new[96], v_new[96], cos[256], sin[256];
    static const int32_t table[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, used[3] = {5, 0, 40};
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_attention p = good();
    weft_message message;
    data.q = q;
    data.o = o;
    data.lengths.kv_used = used;
    data.cache = (weft_kv_cache_data){table, k_new, v_new, NULL, cos, sin, NULL};
    data.k = memory;
    static const struct {
        weft_strides strides;
        int64_t apart;
        int fits;
    } cases[] = {{{16 * 2 * 16, 2 * 16, 16}, 8, 1},     /* (pages, page, heads, 2 D) */
                 {{2 * 16 * 16, 16, 16 * 16}, 8, 1},    /* (pages, heads, page, 2 D) */
                 {{16 * 2 * 16, 2 * 8, 8}, 16 * 16, 1}, /* (pages, 2, page, heads, D) */
                 {{16 * 2 * 16, 2 * 16, 8}, 2 * 8, 1},  /* (pages, page, 2, heads, D) */
                 {{16 * 2 * 16, 2 * 16, 16}, 4, 0},     /* V begins in K's row */
                 {{16 * 2 * 16, 2 * 16, 16}, 12, 0},    /* V ends in the next row of K */
                 {{16 * 2 * 16, 2 * 16, 16}, 32, 0},    /* V begins where the next row of K does */
                 {{16 * 2 * 8, 2 * 8, 8}, 8, 0}};       /* no gaps */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.k_strides = p.v_strides = cases[i].strides;
        data.v = memory + cases[i].apart;
        const weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
        weft_plan *plan;
        assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &data, &message), cases[i].fits ? WEFT_OK : WEFT_INVALID);
        if (!cases[i].fits) {
            assert_string_equal(message.text, "v overlaps k");
        }
        weft_plan_destroy(plan);
    }
}

/* What a kernel must say that it takes; and tunings are for pages of a size. */
static void caches_are_asked_for_by_name(void **state) {
    (void)state;
    weft_attention p;
    char plain[256], cached[256], larger[256];
    int64_t numbers[WEFT_KEY_NUMBERS];
    const weft_attention given = good();
    assert_int_equal(resolve_attention(&p, &given, NULL), WEFT_OK);
    assert_string_equal(weft_attention_lacks(&p, WEFT_HAS_UNCACHED), "keys in pages");
    assert_string_equal(weft_attention_lacks(&p, WEFT_HAS_UNCACHED | WEFT_HAS_PAGES), "appended keys");
    assert_string_equal(weft_attention_lacks(&p, ~WEFT_HAS_ROTARY), "rotated queries and keys");
    assert_null(weft_attention_lacks(&p, WEFT_HAS_UNCACHED | WEFT_HAS_CACHE));
    const weft_operation_row *row = weft_operation_at(WEFT_ATTENTION);
    weft_problem problem = {.attention = p};
    row->key(&problem, numbers, cached, sizeof cached);
    problem.attention.cache.page = 32;
    row->key(&problem, numbers, larger, sizeof larger);
    problem.attention.cache.page = problem.attention.cache.append = problem.attention.cache.rotary_dim = 0;
    row->key(&problem, numbers, plain, sizeof plain);
    assert_string_not_equal(cached, plain);
    assert_string_not_equal(cached, larger);
    assert_non_null(strstr(cached, ", pages of 16, appended keys, rotated queries and keys"));
}

/* FLOPs go by the true lengths, new keys included. */
static void flops_count_true_lengths(void **state) {
    (void)state;
    const int32_t used[] = {10, 0, 63};
    weft_attention p = good();
    p.extras = 0;
    p.lengths.kv_used = used;
    const double keys = 12 + 2 + 64; /* there is room for one more in the last */
    assert_true(weft_problem_flops(&p) == 4 * 4 * 2 * keys * 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_caches_are_named),
                                       cmocka_unit_test(wrong_packed_caches_are_named),
                                       cmocka_unit_test(backward_takes_no_cache),
                                       cmocka_unit_test(sizes_are_those_of_pages),
                                       cmocka_unit_test(interleaved_tensors_are_told_from_overlapping_ones),
                                       cmocka_unit_test(caches_are_asked_for_by_name),
                                       cmocka_unit_test(flops_count_true_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
