/* SPDX-License-Identifier: Apache-2.0 */
/* Problems over ranks. */
#include "api.h"

static weft_status create(weft_message *m) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    ranks.ranks = 4;
    options.ranks = &ranks;
    return weft_dist_create((weft_dist **)&api_made, &api.attention, &options, m);
}

static void tell_dist(char *text, size_t size) {
    weft_dist_json(api_made, text, size);
    weft_dist_destroy(api_made);
}

static weft_status expect(weft_message *m) {
    weft_dist_traffic traffic = WEFT_DIST_TRAFFIC_INIT;
    const weft_status status = weft_dist_expect(api.dist, 0, 0, &traffic, m);
    snprintf(api_text, sizeof api_text, "%llu %llu", (unsigned long long)traffic.sent,
             (unsigned long long)traffic.received);
    return status;
}

static weft_status simulate(weft_message *m) {
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_dist_simulation s = WEFT_DIST_SIMULATION_INIT;
    options.machine = &api.machine;
    const weft_status status = weft_dist_simulate(api.dist, &options, &s, m);
    snprintf(api_text, sizeof api_text, "%.17g %.17g", s.seconds, s.sent);
    return status;
}

static weft_status search(weft_message *m) {
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    ranks.ranks = 2;
    options.machine = &api.machine;
    return weft_dist_search_run((weft_dist_search **)&api_made, &api.attention, &ranks, &options, m);
}

static void tell_search(char *text, size_t size) {
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    size_t used = 0;
    for (size_t i = 0; weft_dist_search_row(api_made, i, &row, NULL) == WEFT_OK && used + 200 < size; i++) {
        used += weft_ranks_text(&row.ranks, text + used, size - used);
        used += (size_t)snprintf(text + used, size - used, " %.17g\n", row.simulation.seconds);
    }
    weft_dist_search_destroy(api_made);
}

static weft_status why(weft_message *m) {
    return api_length(weft_dist_search_why(api.dist_search, 0, api_text, sizeof api_text), m);
}

static weft_status text_of(weft_message *m) {
    return api_length(weft_dist_text(api.dist, api_text, sizeof api_text), m);
}

static weft_status json(weft_message *m) {
    return api_length(weft_dist_json(api.dist, api_text, sizeof api_text), m);
}

static weft_status simulation_json(weft_message *m) {
    return api_length(weft_dist_simulation_json(api.dist, &api.dist_simulation, api_text, sizeof api_text), m);
}

static weft_status ranks_json(weft_message *m) {
    const weft_ranks ranks = weft_dist_ranks(api.dist);
    return api_length(weft_ranks_json(&ranks, api_text, sizeof api_text), m);
}

static weft_status ranks_c(weft_message *m) {
    const weft_ranks ranks = weft_dist_ranks(api.dist);
    return api_length(weft_ranks_c(&ranks, api_text, sizeof api_text), m);
}

/* ---- a rank alone, which talks to itself ---- */

static weft_status threads(weft_message *m) {
    return weft_threads_create((weft_threads **)&api_made, 2, m);
}

static void tell_threads(char *text, size_t size) {
    weft_transport transport = WEFT_TRANSPORT_INIT;
    const weft_status status = weft_threads_transport(api_made, 1, &transport, NULL);
    snprintf(text, size, "%d %d of %d", status, transport.rank, transport.size);
    weft_threads_destroy(api_made);
}

/* Made, run and destroyed under faults: what is waited for is only this rank itself. */
static weft_status run(weft_message *m) {
    static float q[32 * 16], o[32 * 16];
    weft_threads *alone = NULL;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_dist_traffic traffic = WEFT_DIST_TRAFFIC_INIT;
    weft_dist *dist = NULL;
    for (int i = 0; i < 32 * 16; i++) {
        q[i] = (float)(i % 7) / 7;
    }
    p.seq = p.kv_seq = 32;
    p.head_dim = 16;
    data.q = data.k = data.v = q;
    data.o = o;
    weft_status status = weft_threads_create(&alone, 1, m);
    status = status ? status : weft_threads_transport(alone, 0, &transport, m);
    options.transport = &transport;
    status = status ? status : weft_dist_create(&dist, &p, &options, m);
    status = status ? status : weft_dist_run(dist, &data, NULL, m);
    if (dist) {
        weft_dist_counted(dist, &traffic);
    }
    snprintf(api_text, sizeof api_text, "%.9g %.9g %llu", (double)o[0], (double)o[511], (unsigned long long)traffic.sent);
    weft_dist_destroy(dist);
    weft_threads_destroy(alone);
    return status;
}

const api_case api_ranks[] = {
    {"weft_dist_create", create, tell_dist, 0},
    {"weft_dist_expect", expect, NULL, 0},
    {"weft_dist_simulate", simulate, NULL, 0},
    {"weft_dist_search_run", search, tell_search, 0},
    {"weft_dist_search_why", why, NULL, 0},
    {"weft_dist_text", text_of, NULL, 0},
    {"weft_dist_json", json, NULL, 0},
    {"weft_dist_simulation_json", simulation_json, NULL, 0},
    {"weft_ranks_json", ranks_json, NULL, 0},
    {"weft_ranks_c", ranks_c, NULL, 0},
    {"weft_threads_create", threads, tell_threads, 0},
    {"weft_dist_run", run, NULL, 0},
    {NULL, NULL, NULL, 0},
};
