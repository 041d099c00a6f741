/* SPDX-License-Identifier: Apache-2.0 */
/* Problems over ranks in simulated time: small cases whose times are worked out by hand, what is sent against what ranks
 * count, and what more bandwidth may do. */
#include "../cmocka_all.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "dist/links.h"
#include "dist/prices.h"
#include "dist/work.h"
#include "shared.h"

static weft_machine machine_of(const char *name) {
    weft_machine m = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&m, name, NULL), WEFT_OK);
    return m;
}

static void close_to(double got, double want) {
    if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-15)) {
        fail_msg("%.12g is not %.12g", got, want);
    }
}

/* ---- links ---- */

/* A node of GPUs with links of 1 GB/s and 1 us, and a network of 100 MB/s and 10 us. */
static weft_machine wires(int64_t topology, int64_t gpus) {
    weft_machine m = machine_of("h100");
    m.link_topology = topology;
    m.link_gpus = gpus;
    m.link_bandwidth = 1e9;
    m.link_latency = 1e-6;
    m.network_bandwidth = 1e8;
    m.network_latency = 1e-5;
    return m;
}

static void a_switch_has_a_way_in_and_a_way_out(void **state) {
    (void)state;
    const weft_machine m = wires(WEFT_TOPOLOGY_SWITCH, 4);
    weft_links l;
    assert_int_equal(weft_links_open(&l, &m, 8, NULL), WEFT_OK);
    close_to(weft_links_send(&l, 0, 1, 0, 1e6), 1e-3 + 1e-6);
    close_to(weft_links_send(&l, 1, 0, 0, 1e6), 1e-3 + 1e-6);    /* the other direction is free */
    close_to(weft_links_send(&l, 2, 1, 0, 1e6), 2e-3 + 1e-6);    /* behind the first, into the same GPU */
    close_to(weft_links_send(&l, 0, 3, 5e-4, 1e6), 2e-3 + 1e-6); /* behind the first, out of the same GPU */
    close_to(weft_links_send(&l, 0, 4, 0, 1e6), 1e-2 + 1e-5);    /* the network is another link */
    close_to(weft_links_send(&l, 0, 5, 0, 1e6), 2e-2 + 1e-5);
    close_to(weft_links_send(&l, 3, 2, 7, 0), 7); /* no bytes take no time */
    weft_links_close(&l);
}

static void rings_and_meshes_go_the_shortest_way(void **state) {
    (void)state;
    const weft_machine ring = wires(WEFT_TOPOLOGY_RING, 6), mesh = wires(WEFT_TOPOLOGY_MESH, 12);
    const weft_machine full = wires(WEFT_TOPOLOGY_FULL, 4);
    weft_links l;
    assert_int_equal(weft_links_open(&l, &ring, 6, NULL), WEFT_OK);
    close_to(weft_links_send(&l, 0, 2, 0, 1e6), 1e-3 + 2e-6);
    close_to(weft_links_send(&l, 1, 2, 0, 1e6), 2e-3 + 1e-6); /* one of these links */
    close_to(weft_links_send(&l, 0, 5, 0, 1e6), 1e-3 + 1e-6); /* backwards around */
    close_to(weft_links_send(&l, 2, 1, 0, 1e6), 1e-3 + 1e-6);
    weft_links_close(&l);
    assert_int_equal(weft_links_open(&l, &mesh, 12, NULL), WEFT_OK); /* 4 rows of 3 */
    close_to(weft_links_send(&l, 0, 11, 0, 1e6), 1e-3 + 5e-6);
    close_to(weft_links_send(&l, 5, 8, 0, 1e6), 2e-3 + 1e-6); /* down the last column, which the first went */
    close_to(weft_links_send(&l, 3, 4, 0, 1e6), 1e-3 + 1e-6);
    weft_links_close(&l);
    assert_int_equal(weft_links_open(&l, &full, 4, NULL), WEFT_OK);
    close_to(weft_links_send(&l, 0, 1, 0, 1e6), 1e-3 + 1e-6);
    close_to(weft_links_send(&l, 0, 2, 0, 1e6), 1e-3 + 1e-6); /* a link of its own */
    close_to(weft_links_send(&l, 0, 1, 0, 1e6), 2e-3 + 1e-6);
    weft_links_close(&l);
}

static void machines_without_links_are_refused(void **state) {
    (void)state;
    weft_machine m = wires(WEFT_TOPOLOGY_SWITCH, 4);
    weft_links l;
    weft_message message;
    m.network_bandwidth = m.network_latency = 0;
    assert_int_equal(weft_links_open(&l, &m, 4, &message), WEFT_OK);
    weft_links_close(&l);
    assert_int_equal(weft_links_open(&l, &m, 5, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "a node has 4 GPUs, fewer than 5 ranks"));
    m.link_gpus = 0;
    assert_int_equal(weft_links_open(&l, &m, 2, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "no [links]"));
}

/* ---- steps ---- */

static weft_attention plain(int64_t rows, weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 8;
    p.seq = p.kv_seq = rows;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    p.mask = mask;
    return p;
}

static weft_dist_simulation simulated(const weft_attention *p, const weft_ranks *ranks, const weft_machine *m) {
    weft_dist_options how = WEFT_DIST_OPTIONS_INIT;
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
    weft_dist *dist;
    weft_message message = {""};
    how.ranks = ranks;
    options.machine = m;
    if (weft_dist_create(&dist, p, &how, &message) || weft_dist_simulate(dist, &options, &sim, &message)) {
        fail_msg("%s", message.text);
    }
    weft_dist_destroy(dist);
    return sim;
}

/* Seconds of a slice without a mask, and of rounding the sums of so many queries, on a machine. */
static void price(const weft_attention *p, const weft_machine *m, int64_t queries, int64_t keys, double *slice,
                  double *rounding) {
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_dist_options how = WEFT_DIST_OPTIONS_INIT;
    weft_ranks one = WEFT_RANKS_INIT;
    weft_prices prices;
    weft_dist *dist;
    const weft_dist_slice s = {.queries = {0, queries}, .keys = {0, keys}, .mask = WEFT_MASK_NONE, .left = -1, .right = -1};
    one.ranks = 1;
    how.ranks = &one;
    options.machine = m;
    assert_int_equal(weft_dist_create(&dist, p, &how, NULL), WEFT_OK);
    assert_int_equal(weft_prices_open(&prices, &options, NULL), WEFT_OK);
    prices.dist = dist;
    assert_int_equal(weft_price_slice(&prices, &s, slice, NULL), WEFT_OK);
    assert_int_equal(weft_price_rounding(&prices, queries, keys, rounding, NULL), WEFT_OK);
    weft_prices_close(&prices);
    weft_dist_destroy(dist);
}

/* Keys of 512 rows: K and V of 8 heads of 64 elements of 2 bytes. */
enum { PART = 512, PART_BYTES = PART * 2 * 8 * 64 * 2 };

static weft_ranks ring_of(int64_t ranks) {
    weft_ranks r = WEFT_RANKS_INIT;
    r.ranks = ranks;
    r.cut = WEFT_CUT_CONTIGUOUS;
    r.exchange = WEFT_EXCHANGE_RING;
    r.order = WEFT_RANK_ORDER_RING;
    return r;
}

/* Two ranks without a mask: keys come while each computes its own. */
static void two_ranks_by_hand(void **state) {
    (void)state;
    const weft_attention p = plain(2 * PART, WEFT_MASK_NONE);
    const weft_ranks ranks = ring_of(2);
    weft_machine m = wires(WEFT_TOPOLOGY_SWITCH, 2);
    double slice, rounding;
    price(&p, &m, PART, PART, &slice, &rounding);
    assert_true(slice > 0 && rounding > 0);

    m.link_bandwidth = 1e15; /* computing alone */
    m.link_latency = 0;
    weft_dist_simulation s = simulated(&p, &ranks, &m);
    close_to(s.seconds, 2 * slice + rounding);
    close_to(s.computing, 2 * slice + rounding);
    assert_true(s.waiting <= 1e-15 && s.waiting_most <= 1e-15);
    assert_int_equal(s.sent_most, PART_BYTES);
    close_to(s.imbalance, 1);
    close_to(s.efficiency, s.ideal_seconds / s.seconds);

    m.link_latency = 1; /* latency alone */
    s = simulated(&p, &ranks, &m);
    close_to(s.seconds, 1 + PART_BYTES / 1e15 + slice + rounding);
    close_to(s.waiting_most, 1 + PART_BYTES / 1e15 - slice);

    m.link_latency = 0;
    m.link_bandwidth = PART_BYTES / (3 * slice); /* a saturated link: a message takes three slices */
    s = simulated(&p, &ranks, &m);
    close_to(s.seconds, 4 * slice + rounding);
    close_to(s.waiting, 2 * slice);

    m.link_bandwidth = PART_BYTES / (0.5 * slice); /* hidden behind computing */
    s = simulated(&p, &ranks, &m);
    close_to(s.seconds, 2 * slice + rounding);
}

/* Three ranks: what comes at the second step leaves for the third when it has come, not before. */
static void three_ranks_by_hand(void **state) {
    (void)state;
    const weft_attention p = plain(3 * PART, WEFT_MASK_NONE);
    weft_ranks ranks = ring_of(3);
    weft_machine m = wires(WEFT_TOPOLOGY_SWITCH, 3);
    double slice, rounding;
    price(&p, &m, PART, PART, &slice, &rounding);
    m.link_latency = 0;
    m.link_bandwidth = PART_BYTES / (3 * slice);
    /* A part comes after 3 slices, the next leaves then and comes after 6, and is computed in the seventh. */
    close_to(simulated(&p, &ranks, &m).seconds, 7 * slice + rounding);
    assert_int_equal(simulated(&p, &ranks, &m).sent_most, 2 * PART_BYTES);

    ranks.exchange = WEFT_EXCHANGE_ALL_GATHER; /* all leaves at once, one behind the other: the same */
    close_to(simulated(&p, &ranks, &m).seconds, 7 * slice + rounding);

    ranks.exchange = WEFT_EXCHANGE_RING;
    m.link_gpus = 2; /* rank 2 is in another node, and the network takes six slices: to rank 2, from it, and on */
    m.network_latency = 0;
    m.network_bandwidth = PART_BYTES / (6 * slice);
    const weft_dist_simulation s = simulated(&p, &ranks, &m);
    close_to(s.network, 4.0 / 6); /* of six messages the two within a node stay */
    assert_true(s.seconds > 12 * slice);
}

/* Causal, contiguous: the last rank computes all, and nobody waits for it. */
static void a_causal_ring_is_as_slow_as_its_last_rank(void **state) {
    (void)state;
    weft_attention p = plain(32 * PART, WEFT_MASK_CAUSAL);
    weft_ranks ranks = ring_of(4);
    p.heads = p.kv_heads = 64;
    weft_machine m = wires(WEFT_TOPOLOGY_SWITCH, 4);
    m.link_bandwidth = 1e15;
    m.link_latency = 0;
    const weft_dist_simulation contiguous = simulated(&p, &ranks, &m);
    assert_true(contiguous.imbalance > 1.7 && contiguous.imbalance < 1.75);
    close_to(contiguous.seconds, contiguous.computing_most);
    ranks.cut = WEFT_CUT_ZIGZAG;
    const weft_dist_simulation zigzag = simulated(&p, &ranks, &m);
    close_to(zigzag.imbalance, 1);
    assert_true(zigzag.seconds < contiguous.seconds);
    assert_true(zigzag.sent < contiguous.sent * 2);
}

/* ---- what is sent ---- */

static void sends_what_ranks_expect(void **state) {
    (void)state;
    const weft_machine m = machine_of("h100");
    uint64_t random = random_seed(41);
    for (int i = 0; random_round(&random, &i, 120); i++) {
        shared_problem s;
        weft_dist *dist;
        weft_message message = {""};
        weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
        draw_shared(&random, &s, 90, 20);
        s.p.dtype = WEFT_BF16;
        s.p.extras |= random_between(&random, 0, 3) ? 0 : WEFT_SINKS;
        s.p.softcap = random_between(&random, 0, 3) ? 0 : 2;
        if (s.ranks.cut != WEFT_CUT_STRIPED && random_between(&random, 0, 3) == 0) {
            s.p.extras |= WEFT_ALIBI;
        }
        if (s.p.operation == WEFT_ATTENTION && s.p.sequences == 0 && s.ranks.head_ranks < 2 &&
            s.ranks.exchange != WEFT_EXCHANGE_HEADS && random_between(&random, 0, 3) == 0) {
            s.p.extras |= WEFT_BIAS;
        }
        weft_dist_options how = WEFT_DIST_OPTIONS_INIT;
        weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
        how.ranks = &s.ranks;
        options.machine = &m;
        if (weft_dist_create(&dist, &s.p, &how, &message) || weft_dist_simulate(dist, &options, &sim, &message)) {
            fail_msg("%s", message.text);
        }
        uint64_t sum = 0, most = 0;
        for (int64_t rank = 0; rank < s.ranks.ranks; rank++) {
            weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
            assert_int_equal(weft_dist_expect(dist, rank, 0, &t, NULL), WEFT_OK);
            sum += t.sent;
            most = t.sent > most ? t.sent : most;
        }
        assert_int_equal(sim.sent_most, most);
        assert_true(sim.sent == (double)sum / (double)s.ranks.ranks);
        assert_true(sim.seconds >= sim.computing_most && sim.waiting >= -1e-12 && sim.computing <= sim.computing_most);
        weft_dist_destroy(dist);
    }
}

static void more_bandwidth_is_never_slower(void **state) {
    (void)state;
    uint64_t random = random_seed(42);
    for (int i = 0; random_round(&random, &i, 40); i++) {
        shared_problem s;
        weft_machine m = wires((int64_t)random_between(&random, 0, 3), random_between(&random, 2, 9));
        draw_shared(&random, &s, 90, 12);
        s.p.dtype = WEFT_BF16;
        m.link_bandwidth = 1e8;
        m.network_bandwidth = 2e7;
        double last = INFINITY;
        for (int k = 0; k < 4; k++) {
            const double seconds = simulated(&s.p, &s.ranks, &m).seconds;
            assert_true(seconds <= last * (1 + 1e-9));
            last = seconds;
            m.link_bandwidth *= 7;
            m.network_bandwidth *= 7;
            m.link_latency /= 7;
            m.network_latency /= 7;
        }
    }
}

/* ---- memory ---- */

typedef struct sized {
    const shared_problem *s;
    weft_threads *threads;
    int32_t rank;
    weft_status status;
    weft_message message;
    uint64_t taken, told;
} sized;

static void *take_buffers(void *at) {
    sized *m = at;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_dist *dist = NULL;
    weft_ranks ranks = m->s->ranks;
    ranks.ranks = 0;
    options.ranks = &ranks;
    options.transport = &transport;
    m->status = weft_threads_transport(m->threads, m->rank, &transport, &m->message);
    m->status = m->status ? m->status : weft_dist_create(&dist, &m->s->p, &options, &m->message);
    if (!m->status) {
        m->taken = dist->work->taken - dist->work->workspace_bytes;
        m->told = weft_dist_buffers(dist, m->rank, dist->work->most_queries, dist->work->most_keys);
    }
    weft_dist_destroy(dist);
    return NULL;
}

static void buffers_are_as_large_as_told(void **state) {
    (void)state;
    enum { MOST = 6 };
    uint64_t random = random_seed(43);
    for (int i = 0; random_round(&random, &i, 60); i++) {
        shared_problem s;
        weft_threads *threads;
        pthread_t thread[MOST];
        sized m[MOST];
        draw_shared(&random, &s, 90, MOST);
        const int32_t size = (int32_t)s.ranks.ranks;
        assert_int_equal(weft_threads_create(&threads, size, NULL), WEFT_OK);
        for (int32_t r = 0; r < size; r++) {
            m[r] = (sized){.s = &s, .threads = threads, .rank = r};
            assert_int_equal(pthread_create(&thread[r], NULL, take_buffers, &m[r]), 0);
        }
        for (int32_t r = 0; r < size; r++) {
            pthread_join(thread[r], NULL);
            assert_int_equal(m[r].status, WEFT_OK);
            assert_int_equal(m[r].taken, m[r].told);
        }
        weft_threads_destroy(threads);
    }
}

/* ---- the rest ---- */

static void the_search_finds_the_fastest(void **state) {
    (void)state;
    const weft_attention p = plain(8 * PART, WEFT_MASK_CAUSAL);
    const weft_machine m = machine_of("h800");
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_dist_search *search;
    weft_message message;
    char text[512];
    options.machine = &m;
    ranks.ranks = 4;
    assert_int_equal(weft_dist_search_run(&search, &p, &ranks, &options, &message), WEFT_OK);
    assert_int_equal(weft_dist_search_row(search, 0, &row, NULL), WEFT_OK);
    const double best = row.simulation.seconds;
    assert_int_equal(row.ranks.ranks, 4);
    size_t count = 0;
    for (; weft_dist_search_row(search, count, &row, NULL) == WEFT_OK; count++) {
        assert_true(best <= 1.01 * row.simulation.seconds);
        close_to(simulated(&p, &row.ranks, &m).seconds, row.simulation.seconds); /* prices are shared, times are not */
    }
    assert_true(count > 20);
    assert_int_equal(weft_dist_search_row(search, count, &row, NULL), WEFT_NOT_FOUND);
    for (size_t i = 0; i < 4; i++) {
        assert_true(weft_dist_search_why(search, i, text, sizeof text) > 0);
    }
    assert_int_equal(weft_dist_search_why(search, 4, text, sizeof text), 0);
    weft_dist_search_destroy(search);

    ranks.cut = WEFT_CUT_STRIPED; /* what is not open stays, and what the problem does not allow is said */
    ranks.exchange = WEFT_EXCHANGE_HEADS;
    assert_int_equal(weft_dist_search_run(&search, &p, &ranks, &options, &message), WEFT_OK);
    assert_int_equal(weft_dist_search_row(search, 0, &row, NULL), WEFT_OK);
    assert_true(row.ranks.cut == WEFT_CUT_STRIPED && row.ranks.exchange == WEFT_EXCHANGE_HEADS);
    weft_dist_search_destroy(search);
    ranks.ranks = 3;
    assert_int_equal(weft_dist_search_run(&search, &p, &ranks, &options, &message), WEFT_UNSUPPORTED);
    assert_null(search);
    assert_non_null(strstr(message.text, "not dealt evenly to 3 ranks"));
}

static void describes_itself(void **state) {
    (void)state;
    const weft_attention p = plain(8 * PART, WEFT_MASK_CAUSAL);
    weft_dist_options how = WEFT_DIST_OPTIONS_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_dist *dist;
    char text[2048];
    ranks.ranks = 8;
    ranks.head_ranks = 2;
    ranks.order = WEFT_RANK_ORDER_MESH_CYCLE;
    how.ranks = &ranks;
    assert_int_equal(weft_dist_create(&dist, &p, &how, NULL), WEFT_OK);
    assert_int_equal(weft_dist_text(dist, NULL, 0), weft_dist_text(dist, text, sizeof text));
    assert_non_null(
        strstr(text, "ranks      8, cut zigzag, exchange ring x heads over 2, order mesh-cycle of 2 columns\n"));
    assert_non_null(strstr(text, "512 queries and 512 keys of rank 0, in 2 chunks; 4 steps"));
    assert_int_equal(weft_dist_json(dist, NULL, 0), weft_dist_json(dist, text, sizeof text));
    json_t *object = json_loads(text, 0, NULL), *told = json_object_get(object, "ranks");
    assert_string_equal(json_string_value(json_object_get(told, "order")), "mesh-cycle");
    assert_string_equal(json_string_value(json_object_get(told, "cut")), "zigzag");
    assert_int_equal(json_integer_value(json_object_get(told, "head_ranks")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "problem"), "seq")), 8 * PART);
    json_decref(object);
    const weft_ranks chosen = weft_dist_ranks(dist);
    weft_ranks_c(&chosen, text, sizeof text);
    assert_string_equal(text, "ranks.cut = WEFT_CUT_ZIGZAG; ranks.exchange = WEFT_EXCHANGE_RING; ranks.order = "
                              "WEFT_RANK_ORDER_MESH_CYCLE; ranks.head_ranks = 2; ranks.columns = 2;");
    assert_int_equal(weft_ranks_text(&ranks, text, sizeof text), 0); /* not all are chosen */
    weft_dist_destroy(dist);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_switch_has_a_way_in_and_a_way_out),
        cmocka_unit_test(rings_and_meshes_go_the_shortest_way),
        cmocka_unit_test(machines_without_links_are_refused),
        cmocka_unit_test(two_ranks_by_hand),
        cmocka_unit_test(three_ranks_by_hand),
        cmocka_unit_test(a_causal_ring_is_as_slow_as_its_last_rank),
        cmocka_unit_test(sends_what_ranks_expect),
        cmocka_unit_test(more_bandwidth_is_never_slower),
        cmocka_unit_test(buffers_are_as_large_as_told),
        cmocka_unit_test(the_search_finds_the_fastest),
        cmocka_unit_test(describes_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
