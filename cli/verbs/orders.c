/* SPDX-License-Identifier: Apache-2.0 */
/* weft orders: the rows of orders.def. */
#include <stdio.h>

#include <weft/dist.h>

#include "base/json.h"
#include "cli.h"
#include "table.h"

/* What the orders of a grid are for: the first operation that has such a grid, or any. */
static const char *grid_name(weft_grid_kind grid) {
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        if (weft_operation_describe(i)->grid == grid) {
            return weft_operation_describe(i)->name;
        }
    }
    return "any";
}

static const char *parameter_name(weft_parameter parameter) {
    static const char *const names[] = {"", "group", "domains", "group, domains"};
    return names[parameter];
}

static json_t *names_json(const weft_name *(*describe)(int32_t)) {
    json_t *list = json_array();
    for (int32_t i = 1; describe(i); i++) {
        weft_json_append(&list, json_pack("{s:s, s:s}", "name", describe(i)->name, "text", describe(i)->text));
    }
    return list;
}

static int print_as_json(void) {
    json_t *orders = json_array();
    for (int32_t i = 1; weft_order_describe(i); i++) {
        const weft_order_info *o = weft_order_describe(i);
        json_t *row = json_pack("{s:s, s:s, s:s}", "name", o->name, "subject", grid_name(o->grid), "text", o->text);
        if (o->parameter != WEFT_PARAMETER_NONE) {
            weft_json_set(&row, "parameter", json_string(parameter_name(o->parameter)));
        }
        weft_json_append(&orders, row);
    }
    return print_json(json_pack("{s:o, s:o, s:o, s:o}", "orders", orders, "sweeps", names_json(weft_sweep_describe),
                                "dispatches", names_json(weft_dispatch_describe), "rank_orders",
                                names_json(weft_rank_order_describe)));
}

static void print_names(const char *title, const weft_name *(*describe)(int32_t)) {
    print_wrapped("\n%s\n", title);
    for (int32_t i = 1; describe(i); i++) {
        print_wrapped("  %-22s%s\n", describe(i)->name, describe(i)->text);
    }
}

int cmd_orders(const settings *s, const char *const *words, size_t count) {
    (void)words;
    (void)count;
    if (s->json) {
        return print_as_json();
    }
    for (int grid = 0; grid <= WEFT_GRID_ANY; grid++) {
        print_wrapped("%sorders for %s\n", grid ? "\n" : "", grid_name((weft_grid_kind)grid));
        for (int32_t i = 1; weft_order_describe(i); i++) {
            const weft_order_info *o = weft_order_describe(i);
            if ((int)o->grid == grid) {
                const char *parameter = parameter_name(o->parameter);
                print_wrapped("  %-22s%s%s%s%s\n", o->name, o->text, *parameter ? " (" : "", parameter,
                              *parameter ? ")" : "");
            }
        }
    }
    print_names("sweeps", weft_sweep_describe);
    print_names("dispatches", weft_dispatch_describe);
    print_names("orders across ranks (--rank-order)", weft_rank_order_describe);
    return EXIT_OK;
}
