/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, bands and the tiles cut from them, against every pair of query and key. */
#include "../cmocka_all.h"
#include "../masks.h"
#include "../plans.h"

#include <string.h>

enum { MOST = 64 }; /* queries and keys */

/* A problem as its caller wrote it, resolved, and the lengths that count. */
typedef struct sample {
    weft_attention written, p;
    drawn_lengths lengths;
} sample;

static void draw_sample(uint64_t *random, int round, sample *s) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(random, 1, 3);
    p.seq = random_between(random, 1, MOST);
    p.kv_seq = random_between(random, 1, MOST);
    p.head_dim = 8;
    draw_mask(random, &p);
    if (round % 3 == 1) {
        draw_chunk(random, &p);
    } else if (round % 3 == 2) {
        draw_prefix(random, &p);
    }
    memset(&s->lengths, 0, sizeof s->lengths);
    if (round % 5) {
        draw_lengths(random, &p, round % 5 < 4, &s->lengths);
    }
    s->written = p;
    weft_message message;
    if (resolve_attention(&s->p, &p, &message)) {
        fail_msg("%s", message.text);
    }
    s->p.lengths = s->lengths.all;
}

static int shows(const sample *s, int64_t batch, int64_t query, int64_t key) {
    return batch_shows(&s->written, &s->lengths.all, batch, query, key);
}

/* What a query sees is one run, and it is the right one. */
static void runs_are_what_queries_see(void **state) {
    (void)state;
    uint64_t random = random_seed(200);
    for (int round = 0; random_round(&random, &round, 400); round++) {
        static sample s;
        draw_sample(&random, round, &s);
        for (int64_t i = 0; i < s.p.batch * s.p.seq; i++) {
            const int64_t batch = i / s.p.seq, query = i % s.p.seq;
            if (query >= weft_attention_rows(&s.p)) {
                continue;
            }
            const weft_rows seen = weft_seen_keys(&s.p, batch, query);
            assert_true(seen.begin <= seen.end && seen.begin >= 0 && seen.end <= s.p.kv_seq);
            for (int64_t key = 0; key < s.p.kv_seq; key++) {
                assert_int_equal(key >= seen.begin && key < seen.end, shows(&s, batch, query, key));
            }
        }
    }
}

static weft_reach reach_of(uint64_t *random, const weft_attention *p, int transposed, int joined) {
    const int64_t rows = transposed ? p->kv_seq : p->seq, columns = transposed ? p->seq : p->kv_seq;
    weft_reach reach = weft_reach_make(rows, columns, random_between(random, 1, rows + 2),
                                       random_between(random, 1, columns + 2), weft_slice_full(rows, columns));
    weft_reach_set_band(&reach, weft_attention_band(p), weft_attention_sequences(p), transposed);
    reach.joined = joined;
    return reach;
}

/* A tile's steps: what its rows see is visited, and full steps hold nothing else. */
static void check_tile(const sample *s, const weft_reach *reach, int64_t batch, const weft_cut *cut) {
    const weft_steps steps = weft_reach_band_steps(reach, cut);
    const int64_t count = weft_ceil_divide(reach->columns, reach->tile_columns);
    assert_true(steps.begin >= 0 && steps.begin <= steps.end && steps.end <= count);
    assert_true(steps.full_begin >= steps.full_end || (steps.full_begin >= steps.begin && steps.full_end <= steps.end));
    for (int64_t row = cut->rows.begin; row < cut->rows.end; row++) {
        for (int64_t column = 0; column < reach->columns; column++) {
            const int seen = reach->transposed ? shows(s, batch, column, row) : shows(s, batch, row, column);
            const int64_t step = column / reach->tile_columns;
            assert_true(!seen || (step >= steps.begin && step < steps.end));
            assert_true(seen || !(step >= steps.full_begin && step < steps.full_end));
        }
        if (steps.full_begin < steps.full_end) { /* no part of a full step lies beyond the columns */
            assert_true(steps.full_end * reach->tile_columns <= reach->columns);
        }
    }
}

/* Every row of a sequence is in one tile, and no other is in any. */
static void tiles_cut_every_row_once(void **state) {
    (void)state;
    uint64_t random = random_seed(210);
    for (int round = 0; random_round(&random, &round, 400); round++) {
        static sample s;
        draw_sample(&random, round, &s);
        const int transposed = round % 2, joined = !transposed && s.p.sequences > 0 && round % 4 == 0;
        const weft_reach reach = reach_of(&random, &s.p, transposed, joined);
        const int64_t rows = transposed ? weft_attention_keys(&s.p) : weft_attention_rows(&s.p);
        for (int64_t batch = 0; batch < s.p.batch; batch++) {
            int tiles[MOST] = {0};
            for (int64_t block = 0; block < weft_reach_tiles(&reach); block++) {
                const weft_cut cut = weft_reach_cut(&reach, batch, block, 1);
                assert_true(cut.rows.begin <= cut.rows.end && cut.rows.end - cut.rows.begin <= reach.tile_rows);
                for (int64_t row = cut.rows.begin; row < cut.rows.end; row++) {
                    tiles[row]++;
                }
                check_tile(&s, &reach, batch, &cut);
            }
            for (int64_t row = 0; row < reach.rows; row++) {
                assert_int_equal(tiles[row], row < rows);
            }
        }
    }
}

/* Lengths that nobody checked. */
static void fill_with_anything(uint64_t *random, int32_t *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = random_between(random, 0, 1) ? (int32_t)random_between(random, -MOST, 2 * MOST)
                                             : (int32_t)random_between(random, INT32_MIN, INT32_MAX);
    }
}

/* However wrong lengths are, nothing leads outside of the tensors. */
static void wrong_lengths_stay_inside(void **state) {
    (void)state;
    uint64_t random = random_seed(220);
    for (int round = 0; random_round(&random, &round, 1000); round++) {
        static sample s;
        draw_sample(&random, round, &s);
        fill_with_anything(&random, s.lengths.q_starts, MOST_SEQUENCES + 1);
        fill_with_anything(&random, s.lengths.kv_starts, MOST_SEQUENCES + 1);
        fill_with_anything(&random, s.lengths.q_used, MOST_SEQUENCES);
        fill_with_anything(&random, s.lengths.kv_used, MOST_SEQUENCES);
        fill_with_anything(&random, s.lengths.kv_pad, MOST_SEQUENCES);
        const weft_sequences all = weft_attention_sequences(&s.p);
        const weft_band band = weft_attention_band(&s.p);
        for (int64_t i = 0; i < all.count; i++) {
            const weft_sequence one = weft_sequence_at(&all, i);
            assert_true(one.rows.begin >= 0 && one.rows.begin <= one.used_end && one.used_end <= one.rows.end);
            assert_true(one.rows.end <= s.p.seq && one.columns.begin >= 0 && one.columns.begin <= one.columns.end &&
                        one.columns.end <= s.p.kv_seq);
            for (int64_t row = one.rows.begin; row < one.rows.end; row++) {
                const weft_rows seen = weft_band_seen(&band, &one, row);
                assert_true(seen.begin >= one.columns.begin && seen.begin <= seen.end && seen.end <= one.columns.end);
            }
        }
        const int transposed = round % 2;
        const weft_reach reach = reach_of(&random, &s.p, transposed, !transposed && s.p.sequences > 0 && round % 4 == 0);
        for (int64_t block = 0; block < weft_reach_tiles(&reach); block++) {
            const weft_cut cut = weft_reach_cut(&reach, 0, block, 1);
            const weft_steps steps = weft_reach_band_steps(&reach, &cut);
            assert_true(cut.sequence >= 0 && cut.sequence < all.count);
            assert_true(cut.rows.begin >= 0 && cut.rows.begin <= cut.rows.end && cut.rows.end <= reach.rows);
            assert_true(steps.begin >= 0 && steps.begin <= steps.end &&
                        steps.end <= weft_ceil_divide(reach.columns, reach.tile_columns));
            assert_true(steps.full_begin >= steps.full_end ||
                        steps.full_end <= weft_ceil_divide(reach.columns, reach.tile_columns));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_are_what_queries_see),
                                       cmocka_unit_test(tiles_cut_every_row_once),
                                       cmocka_unit_test(wrong_lengths_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
