/* SPDX-License-Identifier: Apache-2.0 */
/* Who has which rows, what a rank computes at a step, and what is sent for it: every pair that the mask shows is computed
 * once, and whoever computes something has been sent it. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "shared.h"

static void refused_or(weft_status status, const weft_message *message) {
    if (status) {
        fail_msg("%s", message->text);
    }
}

/* The row of all ranks' that is row `local` of a group. */
static int64_t global_row(const weft_dist *dist, int64_t ring_rank, int32_t of, int64_t local) {
    const weft_dist_group group = weft_dist_group_of(dist, ring_rank, of);
    for (int64_t i = group.first; i < group.end; i++) {
        int64_t before;
        const weft_chunk chunk = weft_dist_group_chunk(&group, i, &before);
        if (local >= before && local < before + chunk.count) {
            return chunk.begin + (local - before) * chunk.stride;
        }
    }
    fail_msg("row %lld of %lld", (long long)local, (long long)group.rows);
    return -1;
}

static int sees(const weft_dist_slice *s, int64_t i, int64_t j) {
    const int64_t at = i + s->offset;
    switch (s->mask) {
    case WEFT_MASK_CAUSAL:
        return j <= at;
    case WEFT_MASK_WINDOW:
        return (s->left < 0 || j >= at - s->left) && (s->right < 0 || j <= at + s->right);
    default:
        return 1;
    }
}

static void every_row_is_one_ranks(void **state) {
    (void)state;
    uint64_t random = random_seed(21);
    for (int i = 0; random_round(&random, &i, 400); i++) {
        shared_problem s;
        weft_dist *dist;
        weft_message message;
        draw_shared(&random, &s, 300, 40);
        const weft_dist_options options = {sizeof options, &s.ranks, NULL, NULL, NULL, 0};
        refused_or(weft_dist_create(&dist, &s.p, &options, &message), &message);
        for (int32_t of = WEFT_QUERY_ROWS; of <= WEFT_KEY_ROWS; of++) {
            const int64_t rows = of == WEFT_QUERY_ROWS ? s.p.seq : s.p.kv_seq;
            int64_t sum = 0, most = 0, least = rows;
            unsigned char seen[300] = {0};
            for (int64_t rank = 0; rank < s.ranks.ranks; rank++) {
                weft_chunk chunk;
                int64_t count = 0;
                for (int64_t n = 0; weft_dist_chunk(dist, rank, of, n, &chunk); n++) {
                    for (int64_t row = 0; row < chunk.count; row++) {
                        assert_int_equal(seen[chunk.begin + row * chunk.stride]++, 0);
                    }
                    count += chunk.count;
                }
                assert_int_equal(count, weft_dist_rows(dist, rank, of));
                assert_true(count > 0);
                sum += count;
                most = count > most ? count : most;
                least = count < least ? count : least;
            }
            assert_int_equal(sum, rows);
            assert_true(most - least <= (s.ranks.cut == WEFT_CUT_CONTIGUOUS || s.ranks.cut == WEFT_CUT_STRIPED ? 1 : 8));
        }
        weft_dist_destroy(dist);
    }
}

static void every_pair_is_computed_once(void **state) {
    (void)state;
    enum { MOST = 90 };
    static unsigned char seen[2 * MOST][2 * MOST];
    uint64_t random = random_seed(22);
    for (int i = 0; random_round(&random, &i, 600); i++) {
        shared_problem s;
        weft_dist *dist;
        weft_message message;
        draw_shared(&random, &s, MOST, 12);
        const weft_dist_options options = {sizeof options, &s.ranks, NULL, NULL, NULL, 0};
        refused_or(weft_dist_create(&dist, &s.p, &options, &message), &message);
        memset(seen, 0, sizeof seen);
        double pairs = 0, counted = 0;
        for (int64_t ring_rank = 0; ring_rank < dist->rings; ring_rank++) {
            for (int64_t step = 0; step < dist->steps; step++) {
                weft_hop hop;
                refused_or(weft_hop_at(dist, ring_rank, step, &hop, &message), &message);
                for (size_t n = 0; n < hop.slices.count; n++) {
                    const weft_dist_slice *slice = &hop.slices.list[n];
                    assert_true(slice->keys.begin >= hop.keys.begin && slice->keys.end <= hop.keys.end);
                    pairs += slice->pairs;
                    for (int64_t q = slice->queries.begin; q < slice->queries.end; q++) {
                        for (int64_t k = slice->keys.begin; k < slice->keys.end; k++) {
                            if (sees(slice, q - slice->queries.begin, k - slice->keys.begin)) {
                                const int64_t row = global_row(dist, ring_rank, WEFT_QUERY_ROWS, q);
                                seen[row][global_row(dist, hop.part, WEFT_KEY_ROWS, k)]++;
                                counted++;
                            }
                        }
                    }
                }
                weft_hop_free(&hop);
            }
        }
        for (int64_t row = 0; row < s.p.seq; row++) {
            const weft_rows visible = weft_seen_keys(&dist->problem.attention, 0, row);
            const int none = dist->problem.attention.sequences > 0 && row >= s.p.lengths.q_starts[s.p.sequences];
            for (int64_t key = 0; key < s.p.kv_seq; key++) {
                const int want = !none && key >= visible.begin && key < visible.end;
                if (seen[row][key] != want) {
                    fail_msg("query %lld and key %lld: computed %d times, not %d", (long long)row, (long long)key,
                             seen[row][key], want);
                }
            }
        }
        assert_true(pairs == counted);
        weft_dist_destroy(dist);
    }
}

/* Chunks of a rank lie one behind the other, so a hop of a causal zigzag is one slice, not two or three. */
static void neighbours_are_one_slice(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    const weft_dist_options options = {sizeof options, &ranks, NULL, NULL, NULL, 0};
    weft_dist *dist;
    p.seq = p.kv_seq = 96;
    p.head_dim = 16;
    p.dtype = WEFT_FP32;
    p.mask = WEFT_MASK_CAUSAL;
    ranks.ranks = 4;
    ranks.cut = WEFT_CUT_ZIGZAG;
    for (int has_slopes = 0; has_slopes < 2; has_slopes++) { /* slopes go by positions, which chunks do not share */
        p.extras = has_slopes ? WEFT_ALIBI : 0;
        assert_int_equal(weft_dist_create(&dist, &p, &options, NULL), WEFT_OK);
        size_t slices = 0;
        for (int64_t rank = 0; rank < 4; rank++) {
            for (int64_t step = 0; step < 4; step++) {
                weft_hop hop;
                assert_int_equal(weft_hop_at(dist, rank, step, &hop, NULL), WEFT_OK);
                assert_true(has_slopes || hop.slices.count == 1);
                slices += hop.slices.count;
                weft_hop_free(&hop);
            }
        }
        assert_int_equal(slices, has_slopes ? 28 : 16); /* rank 3 has two neighbours, which are one chunk */
        weft_dist_destroy(dist);
    }
}

static int holds(const weft_range *all, size_t count, const weft_range *some, size_t some_count) {
    for (size_t i = 0; i < some_count; i++) {
        for (int64_t row = some[i].begin; row < some[i].end; row++) {
            int found = 0;
            for (size_t j = 0; j < count; j++) {
                found |= row >= all[j].begin && row < all[j].end;
            }
            if (!found) {
                return 0;
            }
        }
    }
    return 1;
}

static int same(const weft_range *a, size_t a_count, const weft_range *b, size_t b_count) {
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

/* Whoever sends something has it, and whoever needs something is sent it, by one. */
static void what_is_needed_is_sent(void **state) {
    (void)state;
    uint64_t random = random_seed(23);
    for (int i = 0; random_round(&random, &i, 300); i++) {
        shared_problem s;
        weft_dist *dist;
        weft_message message;
        draw_shared(&random, &s, 90, 12);
        const weft_dist_options options = {sizeof options, &s.ranks, NULL, NULL, NULL, 0};
        refused_or(weft_dist_create(&dist, &s.p, &options, &message), &message);
        const int back = s.p.operation == WEFT_ATTENTION_BACKWARD;
        uint64_t sent = 0, received = 0;
        for (int64_t rank = 0; rank < s.ranks.ranks; rank++) {
            weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
            refused_or(weft_dist_expect(dist, rank, 0, &t, &message), &message);
            sent += t.sent;
            received += t.received;
        }
        assert_int_equal(sent, received);
        for (int64_t step = 0; step < dist->steps; step++) {
            int64_t keys_moves = 0, wanted = 0;
            for (int64_t r = 0; r < dist->rings; r++) {
                weft_hop hop;
                weft_move moves[WEFT_MOVES];
                size_t count;
                refused_or(weft_hop_at(dist, r, step, &hop, &message), &message);
                refused_or(weft_moves_at(dist, r, step, moves, &count, &message), &message);
                wanted += hop.source != r && hop.needed_count > 0;
                for (size_t n = 0; n < count; n++) {
                    weft_hop theirs, mine;
                    refused_or(weft_hop_at(dist, moves[n].to, step, &theirs, &message), &message);
                    if (moves[n].kind == WEFT_MOVE_ADDS) {
                        assert_true(same(moves[n].ranges, moves[n].count, hop.needed, hop.needed_count));
                        assert_int_equal(moves[n].to, hop.adds_to);
                        assert_int_equal(hop.adds_end, hop.part == moves[n].to);
                        if (!hop.adds_end) { /* who goes on with it knows */
                            const int64_t next = step + weft_ring_lag(&dist->ring);
                            weft_hop further;
                            refused_or(weft_hop_at(dist, moves[n].to, next, &further, &message), &message);
                            assert_int_equal(further.part, hop.part);
                            assert_int_equal(further.adds_from, r);
                            assert_true(same(further.earlier, further.earlier_count, hop.needed, hop.needed_count));
                            assert_true(holds(further.needed, further.needed_count, hop.needed, hop.needed_count));
                            weft_hop_free(&further);
                        }
                    } else {
                        keys_moves++;
                        assert_int_equal(theirs.source, r);
                        assert_true(same(moves[n].ranges, moves[n].count, theirs.needed, theirs.needed_count));
                        assert_true(moves[n].kind == WEFT_MOVE_ON || theirs.part == r);
                        if (moves[n].kind == WEFT_MOVE_ON) {
                            refused_or(weft_hop_at(dist, r, moves[n].step, &mine, &message), &message);
                            assert_int_equal(mine.part, theirs.part);
                            assert_true(holds(mine.needed, mine.needed_count, moves[n].ranges, moves[n].count));
                            assert_true(step - moves[n].step == weft_ring_lag(&dist->ring));
                            weft_hop_free(&mine);
                        }
                    }
                    weft_hop_free(&theirs);
                }
                assert_true(!back || hop.needed_count == 0 || hop.part == r || hop.adds_to != r);
                weft_hop_free(&hop);
                weft_moves_free(moves, count);
            }
            assert_int_equal(keys_moves, wanted);
        }
        weft_dist_destroy(dist);
    }
}

static void refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *says;
        int32_t extras;
        double dropout;
        int64_t ranks, head_ranks;
        int32_t cut, exchange;
    } cases[] = {
        {"dropout", 0, 0.1, 2, 0, 0, 0},
        {"maximum", WEFT_MAX, 0, 2, 0, 0, 0},
        {"slopes of a striped cut", WEFT_ALIBI, 0, 2, 0, WEFT_CUT_STRIPED, 0},
        {"head_ranks 3 does not divide ranks 4", 0, 0, 4, 3, 0, 0},
        {"ranks 200 are more", 0, 0, 200, 0, 0, 0},
        {"cut 9", 0, 0, 2, 0, 9, 0},
        {"not dealt evenly to 8 ranks", 0, 0, 8, 8, 0, 0},
        {"exchange heads is between all", 0, 0, 4, 2, 0, WEFT_EXCHANGE_HEADS},
        {"known to the data only", WEFT_KV_USED, 0, 2, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        weft_ranks ranks = WEFT_RANKS_INIT;
        weft_dist *dist;
        weft_message message = {""};
        p.seq = p.kv_seq = 100;
        p.heads = p.kv_heads = 4;
        p.head_dim = 16;
        p.extras = cases[i].extras;
        p.dropout = cases[i].dropout;
        ranks.ranks = cases[i].ranks;
        ranks.head_ranks = cases[i].head_ranks;
        ranks.cut = cases[i].cut;
        ranks.exchange = cases[i].exchange;
        const weft_dist_options options = {sizeof options, &ranks, NULL, NULL, NULL, 0};
        assert_int_not_equal(weft_dist_create(&dist, &p, &options, &message), WEFT_OK);
        assert_null(dist);
        if (!strstr(message.text, cases[i].says)) {
            fail_msg("\"%s\" does not say \"%s\"", message.text, cases[i].says);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_one_ranks),   cmocka_unit_test(every_pair_is_computed_once),
        cmocka_unit_test(neighbours_are_one_slice), cmocka_unit_test(what_is_needed_is_sent),
        cmocka_unit_test(refuses_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
