/* SPDX-License-Identifier: Apache-2.0 */
/* weft compare: one problem under every order and sweep that is left open, side by side. */
#include <stdlib.h>

#include "base/json.h"
#include "cli.h"
#include "sweep/rows.h"
#include "verbs/count.h"

static json_t *as_json(const settings *s, const ranking *r, const device_case *counted) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < r->summary.count; i++) {
        json_t *row = ranking_json(&r->rows[i], r->measured[i]);
        if (counted) {
            weft_json_set(&row, "counters", device_case_json(&counted[i]));
        }
        weft_json_append(&rows, row);
    }
    const char *own = s->device == WEFT_DEVICE_CUDA ? "gpu" : "host";
    return json_pack("{s:s, s:o}", "machine", s->machine ? s->machine : own, "schedules", rows);
}

int compare_points(const settings *points, size_t count, sweep *out) {
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        ranking r;
        code = ranking_make(&points[i], WEFT_SEARCH_ORDERS, &r);
        for (int64_t k = 0; k < r.summary.count && code == EXIT_OK; k++) {
            code = sweep_put(out, i, &r.rows[k]);
        }
        if (code == EXIT_OK && out->objects) {
            sweep_put_json(out, i, as_json(&points[i], &r, NULL));
        }
        ranking_release(&r);
    }
    return code;
}

int cmd_compare(const settings *s, const char *const *words, size_t count) {
    (void)count;
    if (check_operation(s, "compare", words[0])) {
        return EXIT_USAGE;
    }
    if (s->counters && s->device != WEFT_DEVICE_CUDA) {
        return complain(EXIT_USAGE, "--counters are of a GPU: --device cuda");
    }
    device_case *counted = NULL;
    ranking r;
    int code = ranking_make(s, WEFT_SEARCH_ORDERS, &r);
    if (code == EXIT_OK && s->device >= 0) {
        code = ranking_measure(s, &r);
    }
    if (code == EXIT_OK && s->counters) {
        counted = calloc((size_t)r.summary.count + 1, sizeof *counted);
        code = counted ? count_ranking(s, &r, counted) : complain(EXIT_FAILED, "out of memory");
    }
    if (code == EXIT_OK && s->json) {
        code = print_json(as_json(s, &r, counted));
    } else if (code == EXIT_OK) {
        code = ranking_print(&r, (size_t)r.summary.count, s->device >= 0, counted);
    }
    free(counted);
    ranking_release(&r);
    return code;
}
