/* SPDX-License-Identifier: Apache-2.0 */
/* weft view --ranks: a page that plays who computes with whose keys, when, and who waits. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "verbs/ranks.h"

enum { WAYS = 2, MOST_RANKS = 128 };

/* Ways that are shown side by side: what tells most of what the user has left open. */
static int ways_of(const settings *s, settings ways[WAYS]) {
    static const int32_t cuts[WAYS] = {WEFT_CUT_CONTIGUOUS, WEFT_CUT_ZIGZAG};
    static const int32_t exchanges[WAYS] = {WEFT_EXCHANGE_RING, WEFT_EXCHANGE_ALL_GATHER};
    const int is_open = s->cut == 0 || s->exchange == 0;
    for (int i = 0; i < WAYS; i++) {
        ways[i] = *s;
        if (s->cut == 0) {
            ways[i].cut = cuts[i];
        } else if (s->exchange == 0) {
            ways[i].exchange = exchanges[i];
        }
    }
    return is_open ? WAYS : 1;
}

/* Adds a bar to a list: [rank, part, begin, end]. */
static void add_bar(void *user, const weft_rank_step *step) {
    if (step->end > step->begin) {
        weft_json_append(user,
                         json_pack("[I, I, f, f]", (json_int_t)step->rank, (json_int_t)step->part, step->begin, step->end));
    }
}

/* Appends a way and its bars, and sets the machine. */
static int add_way(const settings *s, int by_cut, json_t **list, weft_machine *machine) {
    weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
    weft_dist *dist = NULL;
    json_t *bars = json_array();
    const int code = ranks_record(s, add_bar, &bars, &dist, &sim, machine);
    if (code == EXIT_OK) {
        const weft_ranks ranks = weft_dist_ranks(dist);
        const char *name = by_cut ? weft_rank_cut_name(ranks.cut) : weft_exchange_name(ranks.exchange);
        weft_json_append(list,
                         json_pack("{s:s, s:o, s:o}", "name", name, "simulation", ranks_json(dist, &sim), "bars", bars));
    } else {
        json_decref(bars);
    }
    weft_dist_destroy(dist);
    return code;
}

static json_t *colours(void) {
    json_t *ramp = json_array();
    for (int i = 0; i < 64; i++) {
        weft_json_append(&ramp, json_integer(weft_colour_ramp(i / 63.0)));
    }
    return ramp;
}

/* Writes the page, or prints its data. Takes the reference. */
static int put(const settings *s, json_t *data) {
    weft_message message = {"out of memory"};
    char *text = s->output ? weft_json_text(data, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    const weft_status status = !s->output ? WEFT_OK : text ? weft_page_write(text, s->output, &message) : WEFT_NO_MEMORY;
    free(text);
    if (status || s->json) {
        const int code = status ? complain_status(status, &message) : print_json(json_incref(data));
        json_decref(data);
        return code;
    }
    json_decref(data);
    printf("open %s\n", s->output);
    return EXIT_OK;
}

int ranks_view(const settings *s) {
    settings ways[WAYS];
    weft_machine machine = WEFT_MACHINE_INIT;
    json_t *list = json_array();
    int code = EXIT_OK;
    if (s->text || s->svg || s->schedules) {
        return complain(EXIT_USAGE,
                        "a view of ranks is a page of its own: give -o FILE.html, without --text, --svg and --schedules");
    }
    if (s->ranks > MOST_RANKS) {
        return complain(EXIT_USAGE, "%lld ranks are too many to look at: at most %d", (long long)s->ranks, (int)MOST_RANKS);
    }
    const int count = ways_of(s, ways), by_cut = s->cut == 0 || s->exchange != 0;
    progress_begin("simulating ranks", count);
    for (int i = 0; i < count && code == EXIT_OK; i++) {
        code = add_way(&ways[i], by_cut, &list, &machine);
    }
    progress_end();
    if (code) {
        json_decref(list);
        return code;
    }
    return put(s, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "kind", "ranks", "weft", weft_version(), "command",
                            s->command, "machine", machine.title, "ramp", colours(), "ways", list));
}
