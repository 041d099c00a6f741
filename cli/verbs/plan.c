/* weft plan: the schedule that the simulator would choose, by which rule, and what it gains. */
#include <stdio.h>

#include "base/json.h"
#include "cli.h"
#include "sweep/sweep.h"
#include "verbs/ranking.h"

/* What the recommended schedule gains over the baseline, in a line. */
static void explain(const ranking *r, char *text, size_t size) {
    if (!r->summary.has_baseline) {
        snprintf(text, size, "it is the only schedule that the options leave");
        return;
    }
    const weft_simulation *best = &r->rows[0].simulation, *other = &r->baseline.simulation;
    const double best_gb = (double)best->total.dram_read_bytes / 1e9, other_gb = (double)other->total.dram_read_bytes / 1e9;
    char name[128];
    ranking_name(&r->baseline, name, sizeof name);
    snprintf(text, size,
             "against the %s, %s: speed %+.1f %%, DRAM reads %+.1f %% (%.3f instead of %.3f GB), L2 hits %.2f instead of "
             "%.2f %%",
             r->summary.is_plain ? "plain schedule" : "next best", name, 100 * (other->seconds / best->seconds - 1),
             other_gb > 0 ? 100 * (best_gb / other_gb - 1) : 0, best_gb, other_gb, 100 * weft_hit_rate(&best->total),
             100 * weft_hit_rate(&other->total));
}

/* How many of the schedules are listed. */
static size_t shown_rows(const ranking *r) {
    enum { SHOWN = 5 };
    return r->summary.count < SHOWN ? (size_t)r->summary.count : SHOWN;
}

/* As ranking_json(), with the schedule as `weft simulate` prints it, and its name beside that. */
static json_t *row_json(const settings *s, const weft_ranked *row) {
    char name[128];
    weft_plan *plan = NULL;
    json_t *object = ranking_json(row, 0);
    ranking_name(row, name, sizeof name);
    if (ranking_plan(s, row, &plan)) {
        json_decref(object);
        return NULL;
    }
    weft_json_set(&object, "name", json_string(name));
    weft_json_set(&object, "schedule", plan_member(plan, "schedule"));
    weft_plan_destroy(plan);
    return object;
}

static json_t *as_json(const settings *s, const ranking *r) {
    const weft_search_summary *u = &r->summary;
    const size_t shown = shown_rows(r);
    char reason[320];
    json_t *rows = json_array();
    explain(r, reason, sizeof reason);
    for (size_t i = 0; i < shown; i++) {
        weft_json_append(&rows, row_json(s, &r->rows[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:o}", "machine", s->machine ? s->machine : "host",
                     "recommended", row_json(s, &r->rows[0]), "baseline",
                     u->has_baseline ? row_json(s, &r->baseline) : json_null(), "rule", weft_search_rule(), "reason",
                     reason, "schedules", (json_int_t)u->schedules, "searched", (json_int_t)u->searched, "finalists",
                     (json_int_t)u->count, "best", rows);
}

static void print_as_text(const ranking *r) {
    const weft_search_summary *u = &r->summary;
    const size_t shown = shown_rows(r);
    char name[128], reason[320], of[48] = "";
    explain(r, reason, sizeof reason);
    ranking_name(&r->rows[0], name, sizeof name);
    printf("recommended: %s\n  %s\n  rule: %s\n\n", name, reason, weft_search_rule());
    if (u->searched < u->schedules) {
        snprintf(of, sizeof of, " of %lld", (long long)u->schedules);
    }
    printf("searched: %lld%s schedules, up to %d waves of tiles each\n", (long long)u->searched, of, WEFT_SEARCH_WAVES);
    printf("final: %lld of them, simulated ", (long long)u->count);
    if (u->last < u->count) {
        printf("in rounds, the last %lld ", (long long)u->last);
    }
    if (u->whole) {
        printf("whole");
    } else {
        printf("for about %llu steps each%s", (unsigned long long)r->rows[u->last - 1].limit,
               r->rows[0].simulation.simulated < 1 ? "" : ", the recommended one whole");
    }
    printf(": those of `weft compare`, the %d fastest and the %d that read least, of many orders and tiles\n",
           WEFT_SEARCH_PICKED, WEFT_SEARCH_PICKED);
    ranking_print_header(0);
    for (size_t i = 0; i < shown; i++) {
        ranking_print(&r->rows[i], 0);
    }
}

int plan_points(const settings *points, size_t count, sweep *out) {
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        ranking r;
        code = ranking_make(&points[i], WEFT_SEARCH_ALL, &r);
        code = code ? code : sweep_put(out, i, &r.rows[0]);
        if (code == EXIT_OK && out->objects) {
            sweep_put_json(out, i, as_json(&points[i], &r));
        }
        ranking_release(&r);
    }
    return code;
}

int cmd_plan(const settings *s, const char *const *words, size_t count) {
    (void)count;
    if (check_operation(s, "plan", words[0])) {
        return EXIT_USAGE;
    }
    ranking r;
    int code = ranking_make(s, WEFT_SEARCH_ALL, &r);
    if (code == EXIT_OK && s->json) {
        code = print_json(as_json(s, &r));
    } else if (code == EXIT_OK) {
        print_as_text(&r);
    }
    ranking_release(&r);
    return code;
}
