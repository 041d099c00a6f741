/* SPDX-License-Identifier: Apache-2.0 */
/* weft reproduce: the published studies, row by row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/names.h"
#include "cli.h"
#include "progress.h"
#include "studies/print.h"
#include "studies/study.h"
#include "table.h"

enum { STUDIES = 16, MOST_SEEDS = 1000 };

/* What the rows of all studies come to. */
typedef struct outcome {
    size_t rows, outside, known;
    json_t *object;
    int begun; /* something has been printed */
} outcome;

/* Shows the rows of a study, or adds them to the object. */
static int show(outcome *o, const settings *s, const char *name, const char *title, const study_row *rows, size_t count,
                int measured, double seconds) {
    progress_wipe();
    o->rows += count;
    o->outside += study_count(rows, count, STUDY_OUTSIDE);
    o->known += study_count(rows, count, STUDY_KNOWN);
    if (s->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            weft_json_append(&list, study_row_json(&rows[i]));
        }
        weft_json_set(&o->object, name, list);
        return EXIT_OK;
    }
    fputs(o->begun ? "\n" : "", stdout);
    o->begun = 1;
    return study_print(title, rows, count, measured, seconds);
}

/* ---- on a GPU ---- */

/* The word is a study's name, or stands for all that there are on this device. */
static int is_asked(const study_info *info, const char *which, int on_device) {
    return weft_names_agree(which, info->name) ||
           (weft_names_agree(which, "all") && (on_device ? info->run_on_device : info->run));
}

static int run_on_device(const settings *s, const char *which, outcome *o) {
    study all = {.csv_path = s->output, .sizes = s->sizes, .repeat = (size_t)s->repeat};
    study counter = {.counting = 1, .sizes = s->sizes, .repeat = (size_t)s->repeat};
    int code = device_bench_open(&all.bench, (int32_t)s->gpu);
    for (const study_info *info = study_table; info->name && progress_seen() && code == EXIT_OK; info++) {
        if (is_asked(info, which, 1) && info->run_on_device) {
            info->run_on_device(&counter);
        }
    }
    progress_begin("reproducing", counter.units);
    for (const study_info *info = study_table; info->name && !all.failed && code == EXIT_OK; info++) {
        if (is_asked(info, which, 1) && !info->run_on_device) {
            code = complain(EXIT_USAGE, "study %s has nothing to run on a GPU yet", which);
        } else if (is_asked(info, which, 1)) {
            const size_t first = all.count;
            const double begin = weft_now();
            all.info = info;
            info->run_on_device(&all);
            code = show(o, s, info->name, info->device_title, all.rows + first, all.count - first, 1, weft_now() - begin);
        }
    }
    progress_end();
    device_bench_close(all.bench);
    const int ended = study_end_csv(&all);
    code = code ? code : ended;
    code = code == EXIT_OK && all.failed ? EXIT_FAILED : code;
    study_release(&all);
    return code;
}

/* ---- simulated ---- */

static int run_simulated(const settings *s, const char *which, outcome *o) {
    const size_t seeds = s->seeds ? (size_t)s->seeds : STUDY_SEEDS;
    study list[STUDIES];
    double units = 0;
    int count = 0, code = EXIT_OK;
    memset(list, 0, sizeof list);
    for (const study_info *info = study_table; info->name && count < STUDIES && code == EXIT_OK; info++) {
        if (is_asked(info, which, 0) && !info->run) {
            code = complain(EXIT_USAGE, "study %s measures a GPU: --device cuda", which);
        } else if (is_asked(info, which, 0)) {
            code = study_gather(&list[count], info, (uint64_t)s->seed, seeds) ? EXIT_OK : EXIT_FAILED;
            units += simulations_units(&list[count++].simulations);
        }
    }
    progress_begin("reproducing", units);
    for (int i = 0; i < count && code == EXIT_OK; i++) {
        code = study_run(&list[i]) ? EXIT_OK : EXIT_FAILED;
        if (code == EXIT_OK) {
            code = show(o, s, list[i].info->name, list[i].info->title, list[i].rows, list[i].count, 0, 0);
        }
    }
    progress_end();
    for (int i = 0; i < count; i++) {
        study_release(&list[i]);
    }
    weft_json_set(&o->object, "seeds", json_integer((json_int_t)seeds));
    weft_json_set(&o->object, "seed", json_integer((json_int_t)s->seed));
    return code;
}

/* ---- the verb ---- */

static int check(const settings *s, const char *which) {
    const int on_device = s->device == WEFT_DEVICE_CUDA;
    int known = weft_names_agree(which, "all");
    for (const study_info *info = study_table; info->name; info++) {
        known |= weft_names_agree(which, info->name);
    }
    if (!known) {
        return complain(EXIT_USAGE, "study %s is not known: %s are", which, study_names(0));
    }
    if (s->sizes && !weft_names_agree(which, "energy")) {
        return complain(EXIT_USAGE, "--sizes is for the study energy");
    }
    if (s->output && !on_device) {
        return complain(EXIT_USAGE, "--output is for studies on a GPU: --device cuda");
    }
    if (s->seeds && on_device) {
        return complain(EXIT_USAGE, "--seeds is for simulated studies, not for --device cuda");
    }
    return s->seeds > MOST_SEEDS ? complain(EXIT_USAGE, "--seeds %lld is more than %d", (long long)s->seeds, MOST_SEEDS)
                                 : EXIT_OK;
}

int cmd_reproduce(const settings *s, const char *const *words, size_t count) {
    const char *which = count ? words[0] : "all";
    if (s->tolerances) {
        study_print_tolerances();
        return EXIT_OK;
    }
    outcome o = {.object = json_object()};
    int code = check(s, which);
    if (code == EXIT_OK) {
        code = s->device == WEFT_DEVICE_CUDA ? run_on_device(s, which, &o) : run_simulated(s, which, &o);
    }
    if (code == EXIT_OK && s->json) {
        weft_json_set(&o.object, "outside", json_integer((json_int_t)o.outside));
        weft_json_set(&o.object, "known_failures", json_integer((json_int_t)o.known));
        code = print_json(o.object);
        o.object = NULL;
    } else if (code == EXIT_OK) {
        char summary[192];
        snprintf(summary, sizeof summary,
                 "%zu rows, %zu outside their tolerance ('weft reproduce --tolerances' lists them), %zu known failures",
                 o.rows, o.outside, o.known);
        putchar('\n');
        table_words(summary, 0, 0, table_width());
    }
    json_decref(o.object);
    return code ? code : o.outside ? EXIT_FAILED : EXIT_OK;
}
