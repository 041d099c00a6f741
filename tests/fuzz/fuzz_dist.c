/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions and products over ranks, on paper: any choices are made or refused; of what is made each row is at one rank,
 * what is picked and put is whole again, all that is sent is received, and it can be described and, if small, simulated. */
#include "draw.h"

#include <jansson.h>

#include "../dist/shared.h"
#include <weft/dist.h>

enum { MOST_ROWS = 60, MOST_RANKS = 9 };

/* Each row is in one chunk of one rank; picked from a list of numbers and put back, they are all there. */
static void check_rows(const weft_dist *dist, int64_t ranks, int32_t of, int64_t rows) {
    uint16_t all[MOST_ROWS], back[MOST_ROWS], part[MOST_ROWS];
    unsigned char seen[MOST_ROWS] = {0};
    require(rows <= MOST_ROWS);
    for (int64_t i = 0; i < rows; i++) {
        all[i] = (uint16_t)(i * 257);
        back[i] = 0xffff;
    }
    for (int64_t rank = 0; rank < ranks; rank++) {
        const int64_t count = weft_dist_rows(dist, rank, of);
        int64_t at = 0;
        weft_chunk chunk;
        require(count >= 0 && count <= rows);
        weft_dist_pick(dist, rank, of, all, sizeof *all, part, sizeof *part, sizeof *part);
        for (int64_t number = 0; weft_dist_chunk(dist, rank, of, number, &chunk); number++) {
            for (int64_t i = 0; i < chunk.count; i++, at++) {
                const int64_t row = chunk.begin + i * chunk.stride;
                require(row >= 0 && row < rows && seen[row]++ == 0 && at < count && part[at] == all[row]);
            }
        }
        require(at == count);
        weft_dist_put(dist, rank, of, back, sizeof *back, part, sizeof *part, sizeof *part);
    }
    for (int64_t i = 0; i < rows; i++) {
        require(seen[i] ? back[i] == all[i] : back[i] == 0xffff);
    }
}

static void check_texts(const weft_dist *dist) {
    static char text[1 << 16];
    const weft_ranks ranks = weft_dist_ranks(dist);
    require(weft_dist_text(dist, text, sizeof text) > 0 && weft_ranks_text(&ranks, text, sizeof text) > 0);
    require(weft_ranks_c(&ranks, text, sizeof text) > 0 && weft_ranks_json(&ranks, text, sizeof text) > 0);
    size_t length = weft_dist_json(dist, text, sizeof text);
    require(length > 0 && length < sizeof text);
    json_t *value = json_loads(text, 0, NULL);
    require(value != NULL);
    json_decref(value);
    require(weft_dist_json(dist, text, 1) == length && text[0] == '\0');
}

static void check_traffic(const weft_dist *dist, int64_t ranks, int32_t kept) {
    uint64_t sent = 0, received = 0;
    for (int64_t rank = 0; rank < ranks; rank++) {
        weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
        require(weft_dist_expect(dist, rank, kept, &t, NULL) == WEFT_OK);
        sent += t.sent;
        received += t.received;
    }
    require(sent == received);
}

static void simulate(const weft_dist *dist, uint64_t *seed) {
    static weft_machine machine = WEFT_MACHINE_INIT;
    if (!machine.name[0]) {
        require(weft_machine_load(&machine, "h200", NULL) == WEFT_OK);
    }
    weft_dist_simulate_options o = WEFT_DIST_SIMULATE_INIT;
    weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
    weft_message message = {""};
    o.machine = &machine;
    o.adding = (double)random_between(seed, 0, 4);
    const weft_status status = weft_dist_simulate(dist, &o, &sim, &message);
    require(status == WEFT_OK || message.text[0]);
    require(status != WEFT_OK || (sim.seconds > 0 && sim.computing >= 0 && sim.waiting >= 0 && sim.imbalance >= 1 - 1e-9));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t seed = draw_from(data, size);
    shared_problem s;
    weft_dist_options o = WEFT_DIST_OPTIONS_INIT;
    weft_message message = {""};
    weft_dist *dist = NULL;
    weft_gemm product = WEFT_GEMM_INIT;
    draw_shared(&seed, &s, MOST_ROWS, MOST_RANKS);
    const int is_product = random_between(&seed, 0, 3) == 0, is_wild = random_between(&seed, 0, 3) == 0;
    if (is_product) {
        product.m = random_between(&seed, 1, MOST_ROWS);
        product.n = 8 * random_between(&seed, 1, 7);
        product.k = 8 * random_between(&seed, 1, 7);
        product.batch = random_between(&seed, 1, 2);
        s.ranks.cut = (int32_t)random_between(&seed, WEFT_CUT_M, WEFT_CUT_K);
        s.ranks.exchange = s.ranks.sweep = 0;
        s.ranks.most_keys = s.ranks.head_ranks = 0;
    }
    if (is_wild) {
        int64_t *const numbers[] = {&s.ranks.ranks, &s.ranks.columns, &s.ranks.most_keys, &s.ranks.head_ranks};
        int32_t *const codes[] = {&s.ranks.cut, &s.ranks.exchange, &s.ranks.order, &s.ranks.sweep};
        *numbers[random_between(&seed, 0, 3)] = random_between(&seed, -5, 100);
        *codes[random_between(&seed, 0, 3)] = (int32_t)random_between(&seed, -2, 20);
        s.p.dropout = random_between(&seed, 0, 3) ? 0 : 0.5;
        s.p.extras |= random_between(&seed, 0, 3) ? 0 : WEFT_MAX;
    }
    o.ranks = &s.ranks;
    const void *problem = is_product ? (const void *)&product : &s.p;
    const weft_status status = weft_dist_create(&dist, problem, &o, &message);
    require((status == WEFT_OK) == (dist != NULL) && (status == WEFT_OK || message.text[0]));
    if (dist) {
        const int64_t ranks = weft_dist_ranks(dist).ranks;
        if (!is_product) {
            check_rows(dist, ranks, WEFT_QUERY_ROWS, s.p.seq);
            check_rows(dist, ranks, WEFT_KEY_ROWS, s.p.kv_seq);
        }
        check_traffic(dist, ranks, 0);
        check_texts(dist);
        if (random_between(&seed, 0, 15) == 0) {
            simulate(dist, &seed);
        }
    }
    weft_dist_destroy(dist);
    return 0;
}
