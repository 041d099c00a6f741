/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "sweep/ranks.h"
#include "table.h"
#include "verbs/simulated.h"

int ranks_asked(const settings *s) {
    return s->ranks > 0 || s->head_ranks > 0 || s->mesh_columns > 0 || s->most_keys > 0 || s->cut > 0 || s->exchange > 0 ||
           s->rank_order > 0 || s->rank_sweep > 0;
}

/* What goes with one GPU only; null when all is well. */
static const char *refusal(const settings *s) {
    return s->ranks == 0                   ? "--cut, --exchange and other options of ranks need --ranks"
           : s->curve || s->per_domain     ? "--curve and --per-domain are of one GPU, not of --ranks"
           : s->trace_out                  ? "--trace-out is of one GPU, not of --ranks"
           : s->order_file || s->schedule  ? "--order-file and --schedule are of one grid, and ranks have several"
           : s->counters || s->energy      ? "--counters and --energy are of one GPU, not of --ranks"
           : s->device == WEFT_DEVICE_CUDA ? "--ranks runs on threads of the CPU: leave out --device cuda"
                                           : NULL;
}

int ranks_read(const settings *s, weft_ranks *ranks) {
    const weft_ranks init = WEFT_RANKS_INIT;
    *ranks = init;
    if (refusal(s)) {
        return complain(EXIT_USAGE, "%s", refusal(s));
    }
    ranks->ranks = s->ranks;
    ranks->cut = s->cut;
    ranks->exchange = s->exchange;
    ranks->order = s->rank_order;
    ranks->sweep = s->rank_sweep;
    ranks->head_ranks = s->head_ranks;
    ranks->columns = s->mesh_columns;
    ranks->most_keys = s->most_keys;
    return EXIT_OK;
}

/* A problem over ranks as the options have it, and how it is simulated. */
typedef struct asked {
    question q;
    weft_ranks ranks;
    weft_simulate_options simulate;
    weft_dist_simulate_options options;
} asked;

static int read_asked(const settings *s, asked *a, progress_part *part) {
    const weft_dist_simulate_options init = WEFT_DIST_SIMULATE_INIT;
    weft_message message = {""};
    const int code = ranks_read(s, &a->ranks);
    const weft_status status = code ? WEFT_OK : question_of(s, &a->q, &message);
    if (code || status) {
        return code ? code : complain_status(status, &message);
    }
    if (!s->machine) {
        const weft_status host = weft_machine_host(&a->q.machine, &message);
        if (host) {
            return complain_status(host, &message);
        }
    }
    a->simulate = simulate_options(s, NULL);
    a->options = init;
    a->options.machine = &a->q.machine;
    a->options.schedule = &a->q.schedule;
    a->options.device = s->ours ? &a->q.device : NULL;
    a->options.simulate = &a->simulate;
    a->options.progress = part && progress_seen() ? progress_told : NULL;
    a->options.progress_user = part;
    return EXIT_OK;
}

static weft_status simulate_asked(asked *a, weft_dist **dist, weft_dist_simulation *sim, weft_message *message) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    options.ranks = &a->ranks;
    const weft_status status = weft_dist_create(dist, &a->q.problem, &options, message);
    return status ? status : weft_dist_simulate(*dist, &a->options, sim, message);
}

int ranks_record(const settings *s, weft_dist_told told, void *user, weft_dist **dist, weft_dist_simulation *sim,
                 weft_machine *machine) {
    weft_message message = {""};
    progress_part part = {1, 0};
    asked a;
    const int code = read_asked(s, &a, &part);
    if (code) {
        return code;
    }
    a.options.told = told;
    a.options.told_user = user;
    *machine = a.q.machine;
    const weft_status status = simulate_asked(&a, dist, sim, &message);
    progress_part_end(&part);
    return status ? complain_status(status, &message) : EXIT_OK;
}

/* ---- printing ---- */

/* Text of a function that prints as snprintf() does, as JSON. */
json_t *ranks_json(const weft_dist *dist, const weft_dist_simulation *sim) {
    const size_t length = weft_dist_simulation_json(dist, sim, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;
    json_t *object = text && weft_dist_simulation_json(dist, sim, text, length + 1) == length
                         ? weft_json_read(text, strlen(text), 0, NULL)
                         : NULL;
    free(text);
    return object;
}

static json_t *simulation_json(const asked *a, const weft_dist *dist, const weft_dist_simulation *sim) {
    json_t *object = ranks_json(dist, sim);
    weft_json_set(&object, "machine", json_string(a->q.machine.name));
    return object;
}

static void print_machine(const weft_machine *m) {
    static const char *const words[] = {"a switch", "a link between every two", "a ring", "a mesh"};
    print_wrapped("machine    %s (%s), nodes of %" PRId64, m->name, m->title, m->link_gpus);
    if (m->link_gpus > 1) {
        print_wrapped(" with %s, %.4g GB/s", words[m->link_topology], m->link_bandwidth / 1e9);
    }
    if (m->network_bandwidth > 0) {
        print_wrapped(", network %.4g GB/s a GPU", m->network_bandwidth / 1e9);
    }
    print_wrapped("\n");
}

static void print_simulated(const weft_dist_simulation *s) {
    const weft_unit sent = weft_bytes_unit(s->sent);
    print_wrapped("predicted  %.4f ms, %s a GPU, %.1f %% of ideal (%.4f ms)\n", 1e3 * s->seconds,
                  weft_rate_text(s->tflops).text, 100 * s->efficiency, 1e3 * s->ideal_seconds);
    print_wrapped("computing  %.4f ms a rank, %.4f ms at most; imbalance of pairs %.3f\n", 1e3 * s->computing,
                  1e3 * s->computing_most, s->imbalance);
    print_wrapped("waiting    %.4f ms a rank, %.4f ms at most\n", 1e3 * s->waiting, 1e3 * s->waiting_most);
    print_wrapped("sent       %.2f %s a rank, %.2f %s at most, %.1f %% between nodes\n", s->sent * sent.factor, sent.name,
                  (double)s->sent_most * sent.factor, sent.name, 100 * s->network);
    print_wrapped("memory     %s a rank\n", weft_traffic_text((double)s->memory).text);
    print_wrapped("simulated in %.3f s, %" PRIu64 " distinct kernels; scaling is predicted, not measured\n",
                  s->elapsed_seconds, s->kernels);
}

int ranks_simulate(const settings *s) {
    weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
    weft_message message = {""};
    progress_part part = {1, 0};
    weft_dist *dist = NULL;
    asked a;
    int code = read_asked(s, &a, &part);
    if (code) {
        return code;
    }
    progress_begin("simulating ranks", 1);
    const weft_status status = simulate_asked(&a, &dist, &sim, &message);
    progress_end();
    if (status) {
        code = complain_status(status, &message);
    } else if (s->json) {
        code = print_json(simulation_json(&a, dist, &sim));
    } else {
        char text[1024];
        weft_dist_text(dist, text, sizeof text);
        print_wrapped("%s", text);
        print_machine(&a.q.machine);
        print_simulated(&sim);
    }
    weft_dist_destroy(dist);
    return code;
}

/* ---- plan ---- */

enum { SHOWN = 8, SENTENCE = 1024 };

static json_t *row_json(const asked *a, const weft_dist_ranked *row) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_dist *dist;
    char text[SENTENCE];
    options.ranks = &row->ranks;
    json_t *object = NULL;
    if (weft_dist_create(&dist, &a->q.problem, &options, NULL) == WEFT_OK) {
        object = ranks_json(dist, &row->simulation);
        json_object_del(object, "problem");
        weft_ranks_text(&row->ranks, text, sizeof text);
        weft_json_set(&object, "name", json_string(text));
        weft_ranks_c(&row->ranks, text, sizeof text);
        weft_json_set(&object, "c", json_string(text));
        weft_dist_destroy(dist);
    }
    return object;
}

static json_t *search_json(const asked *a, const weft_dist_search *search) {
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    char text[SENTENCE];
    json_t *rows = json_array(), *why = json_array();
    for (size_t i = 0; weft_dist_search_why(search, i, text, sizeof text) > 0; i++) {
        weft_json_append(&why, json_string(text));
    }
    for (size_t i = 0; weft_dist_search_row(search, i, &row, NULL) == WEFT_OK; i++) {
        weft_json_append(&rows, row_json(a, &row));
    }
    weft_dist_search_row(search, 0, &row, NULL);
    return json_pack("{s:s, s:o, s:o, s:o}", "machine", a->q.machine.name, "recommended", row_json(a, &row), "why", why,
                     "ways", rows);
}

static int print_search(const weft_dist_search *search) {
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    char text[SENTENCE];
    weft_dist_search_row(search, 0, &row, NULL);
    weft_ranks_text(&row.ranks, text, sizeof text);
    print_wrapped("recommended: %s\n", text);
    for (size_t i = 0; weft_dist_search_why(search, i, text, sizeof text) > 0; i++) {
        print_wrapped("  %s\n", text);
    }
    weft_ranks_c(&row.ranks, text, sizeof text);
    print_wrapped("in C: %s\n\n", text);
    table_column columns[TABLE_COLUMNS];
    sweep_ranks shown = {0};
    table t;
    for (size_t k = 0; k < SHOWN && weft_dist_search_row(search, k, &row, NULL) == WEFT_OK; k++) {
        sweep_ranks_look(&shown, &row);
    }
    table_begin(&t, columns, sweep_ranks_columns(&shown, columns));
    for (size_t k = 0; k < SHOWN && weft_dist_search_row(search, k, &row, NULL) == WEFT_OK; k++) {
        sweep_ranks_add(&shown, &t, &row);
    }
    return table_end(&t);
}

static int search_asked(const settings *s, asked *a, weft_dist_search **search) {
    weft_message message = {""};
    progress_part part = {1, 0};
    *search = NULL;
    const int code = read_asked(s, a, &part);
    if (code) {
        return code;
    }
    progress_begin("simulating ways to share it", 1);
    const weft_status status = weft_dist_search_run(search, &a->q.problem, &a->ranks, &a->options, &message);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

int ranks_plan(const settings *s) {
    weft_dist_search *search;
    asked a;
    int code = search_asked(s, &a, &search);
    if (code == EXIT_OK && s->json) {
        code = print_json(search_json(&a, search));
    } else if (code == EXIT_OK) {
        code = print_search(search);
    }
    weft_dist_search_destroy(search);
    return code;
}

/* ---- many points ---- */

int ranks_weigh(const settings *s, double *weight) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_message message = {""};
    weft_dist *dist = NULL;
    asked a;
    const int code = read_asked(s, &a, NULL);
    if (code) {
        return code;
    }
    options.ranks = &a.ranks;
    const weft_status status = weft_dist_create(&dist, &a.q.problem, &options, &message);
    weft_dist_destroy(dist);
    /* A kernel's share is simulated, and every step of every rank is walked. */
    *weight = 1 / (double)s->ranks + 4e-7 * (double)s->ranks * (double)s->ranks;
    return status ? complain_status(status, &message) : EXIT_OK;
}

static int simulate_point(const settings *s, size_t i, sweep *out) {
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    weft_message message = {""};
    double weight = 0;
    int code = ranks_weigh(s, &weight);
    progress_part part = {weight, 0};
    weft_dist *dist = NULL;
    asked a;
    code = code ? code : read_asked(s, &a, &part);
    if (code) {
        return code;
    }
    const weft_status status = simulate_asked(&a, &dist, &row.simulation, &message);
    progress_part_end(&part);
    row.ranks = weft_dist_ranks(dist);
    code = status ? complain_status(status, &message) : sweep_put_ranks(out, i, &row);
    if (code == EXIT_OK && out->objects) {
        sweep_put_json(out, i, simulation_json(&a, dist, &row.simulation));
    }
    weft_dist_destroy(dist);
    return code;
}

int ranks_simulate_points(const settings *points, size_t count, sweep *out) {
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = simulate_point(&points[i], i, out);
    }
    return code;
}

int ranks_plan_points(const settings *points, size_t count, sweep *out) {
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
        weft_dist_search *search;
        asked a;
        code = search_asked(&points[i], &a, &search);
        if (code == EXIT_OK) {
            weft_dist_search_row(search, 0, &row, NULL);
            code = sweep_put_ranks(out, i, &row);
        }
        if (code == EXIT_OK && out->objects) {
            sweep_put_json(out, i, search_json(&a, search));
        }
        weft_dist_search_destroy(search);
    }
    return code;
}
