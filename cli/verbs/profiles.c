/* SPDX-License-Identifier: Apache-2.0 */
/* weft profiles: what kernels the simulator knows, and one of them with the source of each number. */
#include <stdio.h>

#include "base/json.h"
#include "cli.h"
#include "table.h"
#include "verbs/values.h"

static int show_profile(const settings *s, const char *name) {
    const weft_machine_value init = WEFT_MACHINE_VALUE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_machine_value values[MAX_VALUES];
    size_t count = 0;
    values[0] = init;
    weft_message message = {""};
    const weft_status status = weft_profile_values(name, &profile, values, MAX_VALUES, &count, &message);
    return status
               ? complain_status(status, &message)
               : print_values(s, profile.name, profile.title, values, count < MAX_VALUES ? count : MAX_VALUES, "profile");
}

int cmd_profiles(const settings *s, const char *const *words, size_t count) {
    if (count == 1) {
        return show_profile(s, words[0]);
    }
    if (s->output) {
        return complain(EXIT_USAGE, "--output is for 'weft profiles NAME'");
    }
    static const table_column columns[] = {
        {"name", 0, 1}, {"title", 1, 1}, {"steps ahead", 0, 0}, {"spread of a step", 0, 0}, {"of a tile", 0, 0}};
    table t;
    json_t *list = json_array();
    table_begin(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; weft_profile_name(i); i++) {
        weft_profile p = WEFT_PROFILE_INIT;
        weft_message message = {""};
        const weft_status status = weft_profile_load(&p, weft_profile_name(i), &message);
        if (status) {
            json_decref(list);
            return complain_status(status, &message);
        }
        if (s->json) {
            weft_json_append(&list,
                             json_pack("{s:s, s:s, s:I, s:f, s:f}", "name", p.name, "title", p.title, "stages",
                                       (json_int_t)p.stages, "spread_step", p.spread_step, "spread_tile", p.spread_tile));
        } else {
            table_add(&t, "%s", p.name);
            table_add(&t, "%s", p.title);
            table_add(&t, "%lld", (long long)p.stages);
            table_add(&t, "%g", p.spread_step);
            table_add(&t, "%g", p.spread_tile);
        }
    }
    if (s->json) {
        return print_json(json_pack("{s:o}", "profiles", list));
    }
    json_decref(list);
    return table_end(&t);
}
