/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/rows.h"

#include <stdlib.h>

#include "base/json.h"
#include "cli.h"

static int put(sweep *out, const sweep_row *row) {
    if (out->count == out->room) {
        const size_t room = out->room ? 2 * out->room : 256;
        sweep_row *grown = realloc(out->rows, room * sizeof *grown);
        if (!grown) {
            return complain(EXIT_FAILED, "out of memory");
        }
        out->rows = grown;
        out->room = room;
    }
    out->rows[out->count++] = *row;
    return EXIT_OK;
}

int sweep_put(sweep *out, size_t i, const weft_ranked *row) {
    const sweep_row added = {out->first + i, *row, {0}};
    return put(out, &added);
}

int sweep_put_ranks(sweep *out, size_t i, const weft_dist_ranked *row) {
    const sweep_row added = {out->first + i, WEFT_RANKED_INIT, *row};
    return put(out, &added);
}

/* The options that vary, with their values at a point. */
static json_t *point_json(const axes *all, size_t point) {
    json_t *object = json_object();
    for (size_t i = 0; i < all->count; i++) {
        const option *o = all->list[i].option;
        const char *value = axes_value(all, i, point);
        int64_t number;
        const int whole = (o->type == OPTION_INTEGER || o->type == OPTION_COUNT) && options_read_integer(value, &number);
        weft_json_set(&object, o->name,
                      whole                    ? json_integer((json_int_t)number)
                      : o->type == OPTION_REAL ? json_real(strtod(value, NULL))
                                               : json_string(value));
    }
    return object;
}

void sweep_put_json(sweep *out, size_t i, json_t *object) {
    weft_json_set(&object, "point", point_json(out->axes, out->first + i));
    weft_json_append(&out->objects, object);
}
