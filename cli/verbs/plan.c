/* weft plan: the schedule that the simulator would choose, by which rule, and what it gains. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "plan/describe.h"
#include "base/json.h"
#include "report/simulation_json.h"
#include "verbs/search.h"

/* What the recommended schedule gains over the baseline, in a line. */
static void explain(const search *f, char *text, size_t size) {
    if (!f->has_baseline) {
        snprintf(text, size, "it is the only schedule that the options leave");
        return;
    }
    const weft_simulation *best = &f->list[0].sim, *other = &f->baseline.sim;
    const double best_gb = (double)best->total.dram_read_bytes / 1e9, other_gb = (double)other->total.dram_read_bytes / 1e9;
    char name[128];
    candidate_name(&f->baseline, name, sizeof name);
    snprintf(text, size,
             "against the %s, %s: speed %+.1f %%, DRAM reads %+.1f %% (%.3f instead of %.3f GB), L2 hits %.2f instead of "
             "%.2f %%",
             f->is_plain ? "plain schedule" : "next best", name, 100 * (other->seconds / best->seconds - 1),
             other_gb > 0 ? 100 * (best_gb / other_gb - 1) : 0, best_gb, other_gb, 100 * weft_hit_rate(&best->total),
             100 * weft_hit_rate(&other->total));
}

/* As candidate_json(), with the schedule as `weft simulate` prints it, and its name beside that. */
static json_t *row_json(const candidate *c, weft_subject subject) {
    char name[128];
    weft_plan *plan = NULL;
    json_t *row = candidate_json(c);
    candidate_name(c, name, sizeof name);
    if (make_plan(&c->chosen, subject, &plan)) {
        json_decref(row);
        return NULL;
    }
    weft_json_set(&row, "name", json_string(name));
    weft_json_set(&row, "schedule", weft_plan_schedule_json(plan));
    weft_plan_destroy(plan);
    return row;
}

static int print_as_json(const settings *s, weft_subject subject, const search *f, size_t shown, const char *reason) {
    json_t *rows = json_array();
    for (size_t i = 0; i < shown; i++) {
        weft_json_append(&rows, row_json(&f->list[i], subject));
    }
    return print_json(json_pack("{s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:o}", "machine",
                                s->machine ? s->machine : "host", "recommended", row_json(&f->list[0], subject), "baseline",
                                f->has_baseline ? row_json(&f->baseline, subject) : json_null(), "rule", candidates_rule,
                                "reason", reason, "schedules", (json_int_t)f->schedules, "searched",
                                (json_int_t)f->searched, "finalists", (json_int_t)f->finalists, "best", rows));
}

static void print_as_text(const search *f, size_t shown, const char *reason) {
    char name[128], of[48] = "";
    candidate_name(&f->list[0], name, sizeof name);
    printf("recommended: %s\n  %s\n  rule: %s\n\n", name, reason, candidates_rule);
    if (f->searched < f->schedules) {
        snprintf(of, sizeof of, " of %zu", f->schedules);
    }
    printf("searched: %zu%s schedules, up to %d waves of tiles each\n", f->searched, of, SEARCH_WAVES);
    printf("final: %zu of them, simulated ", f->finalists);
    if (f->last < f->finalists) {
        printf("in rounds, the last %zu ", f->last);
    }
    if (f->whole) {
        printf("whole");
    } else {
        printf("for about %llu steps each%s", (unsigned long long)f->list[f->last - 1].limit,
               f->list[0].sim.simulated < 1 ? "" : ", the recommended one whole");
    }
    printf(": those of `weft compare`, the %d fastest and the %d that read least, of many orders and tiles\n",
           SEARCH_PICKED, SEARCH_PICKED);
    candidate_print_header(0);
    for (size_t i = 0; i < shown; i++) {
        candidate_print(&f->list[i]);
    }
}

int cmd_plan(const settings *s, const char *const *words, size_t count) {
    enum { SHOWN = 5 };
    (void)count;
    const int subject = subject_or_complain("plan", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    search found;
    int code = search_run(s, (weft_subject)subject, &found);
    if (code == EXIT_OK) {
        char reason[320];
        const size_t shown = found.finalists < SHOWN ? found.finalists : SHOWN;
        explain(&found, reason, sizeof reason);
        if (s->json) {
            code = print_as_json(s, (weft_subject)subject, &found, shown, reason);
        } else {
            print_as_text(&found, shown, reason);
        }
        free(found.list);
    }
    return code;
}
