/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products over ranks, which are threads here: held to the fp64 reference and to one rank's result, whatever is cut
 * and exchanged, the same bits each time, and as many bytes sent as was said before, by the run and by the simulator; also
 * when messages are late and overtake each other. */
#include "../cmocka_all.h"

#include <math.h>
#include <string.h>

#include "dist/kinds.h"
#include "on_threads.h"
#include "problem/problem.h"

static void run_all(const whole_product *w, part_product *parts, uint64_t *shakes) {
    const int32_t size = (int32_t)w->ranks.ranks;
    for (int32_t rank = 0; rank < size; rank++) {
        parts[rank] = product_part_of(w, rank);
    }
    threads_run(size, NULL, parts, thread_rank_run, 0, shakes);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(61);
    for (int i = 0; random_round(&random, &i, 120); i++) {
        whole_product w;
        part_product parts[MOST_RANKS], again[MOST_RANKS];
        draw_product(&random, &w, 90, 1, MOST_RANKS);
        fill_product(&w, &random);
        run_all(&w, parts, NULL);
        check_product(&w, parts);
        run_all(&w, again, &random);
        for (int32_t rank = 0; rank < w.ranks.ranks; rank++) {
            if (parts[rank].c.at) {
                assert_memory_equal(parts[rank].c.at, again[rank].c.at, parts[rank].c.bytes);
            }
            free_product_part(&parts[rank]);
            free_product_part(&again[rank]);
        }
        free_product(&w);
    }
}

/* ---- what is sent, and what is taken ---- */

static weft_dist *on_paper(const whole_product *w) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_message message = {""};
    weft_dist *dist;
    options.ranks = &w->ranks;
    if (weft_dist_create(&dist, &w->p, &options, &message)) {
        fail_msg("%s", message.text);
    }
    return dist;
}

static void simulates_what_ranks_send(void **state) {
    (void)state;
    weft_machine m = WEFT_MACHINE_INIT;
    uint64_t random = random_seed(62);
    assert_int_equal(weft_machine_load(&m, "h100", NULL), WEFT_OK);
    for (int i = 0; random_round(&random, &i, 60); i++) {
        whole_product w;
        weft_message message = {""};
        weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
        weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
        draw_product(&random, &w, 300, 1, 20);
        weft_dist *dist = on_paper(&w);
        options.machine = &m;
        if (weft_dist_simulate(dist, &options, &sim, &message)) {
            fail_msg("%s", message.text);
        }
        uint64_t sum = 0, most = 0, received = 0;
        for (int64_t rank = 0; rank < w.ranks.ranks; rank++) {
            weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
            assert_int_equal(weft_dist_expect(dist, rank, 0, &t, NULL), WEFT_OK);
            sum += t.sent;
            received += t.received;
            most = t.sent > most ? t.sent : most;
        }
        assert_int_equal(sum, received);
        assert_int_equal(sim.sent_most, most);
        assert_true(sim.sent == (double)sum / (double)w.ranks.ranks);
        assert_true(sim.seconds >= sim.computing_most * (1 - 1e-12) && sim.waiting >= -1e-12 * sim.seconds);
        assert_true(sim.computing <= sim.computing_most * (1 + 1e-12));
        weft_dist_destroy(dist);
    }
}

/* Even shares: each rank sends all shards but one, of A in its dtype or of C in fp32. */
static void sends_each_shard_once(void **state) {
    (void)state;
    for (int64_t ranks = 1; ranks <= 8; ranks *= 2) {
        for (int32_t cut = WEFT_CUT_M; cut <= WEFT_CUT_K; cut++) {
            const weft_gemm fresh = WEFT_GEMM_INIT;
            const weft_ranks none = WEFT_RANKS_INIT;
            whole_product w = {.p = fresh, .ranks = none};
            weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
            w.p.m = 64;
            w.p.n = 48;
            w.p.k = 80;
            w.p.dtype = WEFT_BF16;
            w.ranks.ranks = ranks;
            w.ranks.cut = cut;
            weft_dist *dist = on_paper(&w);
            assert_int_equal(weft_dist_expect(dist, ranks - 1, 0, &t, NULL), WEFT_OK);
            const int64_t row = cut == WEFT_CUT_M ? 80 * 2 : 48 * 4;
            assert_int_equal(t.sent, (ranks - 1) * (64 / ranks) * row);
            assert_int_equal(t.messages, ranks - 1);
            weft_dist_destroy(dist);
        }
    }
}

/* Cut m begins with own rows and cut k ends with them, and each computes every row of m once. */
static void each_row_is_computed_once(void **state) {
    (void)state;
    uint64_t random = random_seed(63);
    for (int i = 0; random_round(&random, &i, 100); i++) {
        whole_product w;
        draw_product(&random, &w, 90, 1, 12);
        w.ranks.sweep = WEFT_SWEEP_CHOOSE;
        weft_dist *dist = on_paper(&w);
        for (int64_t rank = 0; rank < w.ranks.ranks; rank++) {
            int64_t rows = 0;
            for (int64_t step = 0; step < dist->steps; step++) {
                weft_hop hop;
                assert_int_equal(weft_hop_at(dist, rank, step, &hop, NULL), WEFT_OK);
                rows += weft_ranges_rows(hop.needed, hop.needed_count);
                const int64_t along = step / dist->pieces;
                if (along == (w.ranks.cut == WEFT_CUT_M ? 0 : dist->rings - 1)) {
                    assert_int_equal(hop.part, rank);
                }
                weft_hop_free(&hop);
            }
            assert_int_equal(rows, weft_dist_rows(dist, rank, WEFT_OWN_LINES) > 0 ? w.p.m : 0);
        }
        weft_dist_destroy(dist);
    }
}

/* Links that take no time leave no waiting; slow ones are waited for. */
static void slow_links_are_waited_for(void **state) {
    (void)state;
    weft_machine m = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&m, "h100", NULL), WEFT_OK);
    for (int32_t cut = WEFT_CUT_M; cut <= WEFT_CUT_K; cut++) {
        const weft_gemm fresh = WEFT_GEMM_INIT;
        const weft_ranks none = WEFT_RANKS_INIT;
        whole_product w = {.p = fresh, .ranks = none};
        w.p.m = w.p.n = w.p.k = 4096;
        w.p.dtype = w.p.c_dtype = WEFT_BF16;
        w.ranks.ranks = 4;
        w.ranks.cut = cut;
        weft_dist *dist = on_paper(&w);
        weft_dist_simulation sim[2] = {WEFT_DIST_SIMULATION_INIT, WEFT_DIST_SIMULATION_INIT};
        for (int slow = 0; slow < 2; slow++) {
            weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
            m.link_bandwidth = slow ? 1e9 : 1e15;
            m.link_latency = 1e-12;
            options.machine = &m;
            assert_int_equal(weft_dist_simulate(dist, &options, &sim[slow], NULL), WEFT_OK);
        }
        assert_true(sim[0].waiting_most < 0.01 * sim[0].seconds);
        const double share = cut == WEFT_CUT_M ? 1024 * 4096 * 2.0 : 1024 * 4096 * 4.0;
        assert_true(sim[1].seconds > 3 * share / 1e9 && sim[1].seconds < 3 * share / 1e9 + sim[0].seconds);
        assert_true(sim[0].computing == sim[1].computing);
        weft_dist_destroy(dist);
    }
}

typedef struct sized {
    const whole_product *w;
    weft_transport transport;
    weft_status status;
    uint64_t taken, told;
} sized;

static void *take_buffers(void *at) {
    sized *s = at;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_dist *dist;
    weft_ranks ranks = s->w->ranks;
    ranks.ranks = 0;
    options.ranks = &ranks;
    options.transport = &s->transport;
    s->status = weft_dist_create(&dist, &s->w->p, &options, NULL);
    if (!s->status) {
        const weft_gemm *p = &s->w->p;
        const int32_t rank = s->transport.rank;
        const uint64_t own = (uint64_t)weft_dist_rows(dist, rank, WEFT_OWN_LINES), n = (uint64_t)p->n;
        const uint64_t rows = (uint64_t)weft_dist_rows(dist, rank, WEFT_PART_ROWS), m = (uint64_t)p->m;
        const uint64_t k = (uint64_t)p->k;
        const int by_k = ranks.cut == WEFT_CUT_K;
        const uint64_t tensors = (by_k ? m * own + own * n : rows * k + k * own) * weft_dtype_bytes(p->dtype) +
                                 (by_k ? rows * n : m * own) * weft_dtype_bytes(p->c_dtype);
        s->taken = dist->work->taken - dist->work->workspace_bytes + (uint64_t)p->batch * tensors;
        s->told = dist->kind->memory(dist, rank, dist->work->most_queries, dist->work->most_keys);
    }
    weft_dist_destroy(dist);
    return NULL;
}

static void buffers_are_as_large_as_told(void **state) {
    (void)state;
    uint64_t random = random_seed(64);
    for (int i = 0; random_round(&random, &i, 40); i++) {
        whole_product w;
        weft_threads *threads;
        draw_product(&random, &w, 90, 1, 6);
        assert_int_equal(weft_threads_create(&threads, (int32_t)w.ranks.ranks, NULL), WEFT_OK);
        for (int32_t rank = 0; rank < w.ranks.ranks; rank++) { /* nothing is sent: one after the other */
            sized s = {.w = &w, .transport = WEFT_TRANSPORT_INIT};
            assert_int_equal(weft_threads_transport(threads, rank, &s.transport, NULL), WEFT_OK);
            take_buffers(&s);
            assert_int_equal(s.status, WEFT_OK);
            assert_int_equal(s.taken, s.told);
        }
        weft_threads_destroy(threads);
    }
}

/* ---- the rest ---- */

static void refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *says;
        int32_t cut, exchange, extras, activation, gated, sweep;
        int64_t head_ranks;
        double beta;
    } cases[] = {
        {"cut zigzag is of attention", WEFT_CUT_ZIGZAG, 0, 0, 0, 0, 0, 0, 0},
        {"no heads to exchange", 0, WEFT_EXCHANGE_HEADS, 0, 0, 0, 0, 0, 0},
        {"no heads to exchange", 0, 0, 0, 0, 0, 0, 2, 0},
        {"gated halves", 0, 0, 0, WEFT_SILU, 1, 0, 0, 0},
        {"column sums", 0, 0, WEFT_GEMM_COLUMN_SUMS, 0, 0, 0, 0, 0},
        {"a function", WEFT_CUT_K, 0, WEFT_GEMM_FUNCTION, 0, 0, 0, 0, 0},
        {"cut k and beta", WEFT_CUT_K, 0, 0, 0, 0, 0, 0, 1},
        {"cut k and a residual", WEFT_CUT_K, 0, WEFT_GEMM_RESIDUAL, 0, 0, 0, 0, 0},
        {"cut k and an activation", WEFT_CUT_K, 0, 0, WEFT_RELU, 0, 0, 0, 0},
        {"cut m and sweep sawtooth", WEFT_CUT_M, 0, 0, 0, 0, WEFT_SWEEP_SAWTOOTH, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_gemm p = WEFT_GEMM_INIT;
        weft_ranks ranks = WEFT_RANKS_INIT;
        weft_dist *dist;
        weft_message message = {""};
        p.m = p.n = p.k = 16;
        p.extras = cases[i].extras;
        p.activation = cases[i].activation;
        p.gated = cases[i].gated;
        p.beta = cases[i].beta;
        ranks.ranks = 4;
        ranks.cut = cases[i].cut;
        ranks.exchange = cases[i].exchange;
        ranks.sweep = cases[i].sweep;
        ranks.head_ranks = cases[i].head_ranks;
        const weft_dist_options options = {sizeof options, &ranks, NULL, NULL, NULL, 0};
        assert_int_equal(weft_dist_create(&dist, &p, &options, &message), WEFT_UNSUPPORTED);
        assert_null(dist);
        if (!strstr(message.text, cases[i].says)) {
            fail_msg("\"%s\" does not say \"%s\"", message.text, cases[i].says);
        }
    }
}

/* Data is checked before anything is sent, by what this rank has. */
static void data_is_checked(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_threads *threads;
    weft_message message;
    weft_dist *dist;
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4] = {0};
    p.m = p.n = 2;
    p.k = 3;
    ranks.cut = WEFT_CUT_K;
    assert_int_equal(weft_threads_create(&threads, 1, NULL), WEFT_OK);
    assert_int_equal(weft_threads_transport(threads, 0, &transport, NULL), WEFT_OK);
    const weft_dist_options options = {sizeof options, &ranks, &transport, NULL, NULL, 0};
    assert_int_equal(weft_dist_create(&dist, &p, &options, NULL), WEFT_OK);
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    data.a = a;
    data.c = c;
    assert_int_equal(weft_dist_run(dist, &data, NULL, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "b is null"));
    data.b = c;
    assert_int_equal(weft_dist_run(dist, &data, NULL, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "overlap"));
    data.b = b;
    assert_int_equal(weft_dist_run(dist, &data, NULL, &message), WEFT_OK);
    assert_true(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
    weft_dist_destroy(dist);
    weft_threads_destroy(threads);
}

static void the_search_takes_both_cuts(void **state) {
    (void)state;
    weft_machine m = WEFT_MACHINE_INIT;
    weft_gemm p = WEFT_GEMM_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    weft_dist_search *search;
    char text[512];
    int cuts[2] = {0, 0};
    assert_int_equal(weft_machine_load(&m, "h100", NULL), WEFT_OK);
    options.machine = &m;
    p.m = 4096;
    p.n = 1024;
    p.k = 512;
    p.dtype = p.c_dtype = WEFT_BF16;
    ranks.ranks = 4;
    assert_int_equal(weft_dist_search_run(&search, &p, &ranks, &options, NULL), WEFT_OK);
    assert_int_equal(weft_dist_search_row(search, 0, &row, NULL), WEFT_OK);
    const double best = row.simulation.seconds;
    for (size_t i = 0; weft_dist_search_row(search, i, &row, NULL) == WEFT_OK; i++) {
        assert_true(best <= 1.01 * row.simulation.seconds);
        assert_true(row.ranks.cut == WEFT_CUT_M || row.ranks.cut == WEFT_CUT_K);
        cuts[row.ranks.cut == WEFT_CUT_K]++;
    }
    assert_true(cuts[0] == 3 && cuts[1] == 3); /* ring in two orders, and all-gather */
    weft_dist_search_row(search, 0, &row, NULL);
    weft_ranks_text(&row.ranks, text, sizeof text);
    assert_non_null(strstr(text, "cut m")); /* 512 elements of a row of A are fewer bytes than 1024 of fp32 */
    weft_dist_search_destroy(search);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(simulates_what_ranks_send),
        cmocka_unit_test(sends_each_shard_once),
        cmocka_unit_test(each_row_is_computed_once),
        cmocka_unit_test(slow_links_are_waited_for),
        cmocka_unit_test(buffers_are_as_large_as_told),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(data_is_checked),
        cmocka_unit_test(the_search_takes_both_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
