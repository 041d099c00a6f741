/* SPDX-License-Identifier: Apache-2.0 */
/* weft machines: what machines there are, and one of them with the source of each number. */
#include <stdio.h>
#include <string.h>

#include <weft/report.h>

#include "base/json.h"
#include "base/names.h"
#include "cli.h"
#include "table.h"
#include "verbs/values.h"

static int show_machine(const settings *s, const char *name) {
    const weft_machine_value init = WEFT_MACHINE_VALUE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_machine_value values[MAX_VALUES];
    size_t count = 0;
    values[0] = init;
    weft_message message = {""};
    const weft_status status = weft_machine_values(name, &machine, values, MAX_VALUES, &count, &message);
    if (status) {
        return complain_status(status, &message);
    }
    return print_values(s, machine.name, machine.title, values, count < MAX_VALUES ? count : MAX_VALUES, "machine");
}

int cmd_machines(const settings *s, const char *const *words, size_t count) {
    if (count == 1 && weft_names_agree(words[0], "probe")) {
        return probe_machine(s);
    }
    if (count == 1) {
        return show_machine(s, words[0]);
    }
    if (s->output) {
        return complain(EXIT_USAGE, "--output is for 'weft machines NAME' or 'weft machines probe'");
    }
    static const table_column columns[] = {{"name", 0, 1}, {"title", 1, 1},     {"workers", 0, 0},
                                           {"L2", 0, 0},   {"DRAM TB/s", 0, 0}, {"also", 2, 1}};
    table t;
    json_t *list = json_array();
    table_begin(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; weft_machine_name(i); i++) {
        weft_machine m = WEFT_MACHINE_INIT;
        weft_message message = {""};
        const weft_status status = weft_machine_load(&m, weft_machine_name(i), &message);
        if (status) {
            json_decref(list);
            return complain_status(status, &message);
        }
        if (s->json) {
            weft_json_append(&list,
                             json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "name", m.name, "aliases", m.aliases, "title",
                                       m.title, "workers", (json_int_t)m.workers, "domains", (json_int_t)m.domains,
                                       "l2_bytes", (json_int_t)m.l2_bytes, "dram_bandwidth", m.dram_bandwidth));
        } else {
            table_add(&t, "%s", m.name);
            table_add(&t, "%s", m.title);
            table_add(&t, "%lld", (long long)m.workers);
            table_add(&t, "%lld x %s", (long long)m.domains, weft_memory_text((double)m.l2_bytes).text);
            table_add(&t, "%.2f", m.dram_bandwidth / 1e12);
            table_add(&t, "%s", m.aliases);
        }
    }
    if (s->json) {
        return print_json(json_pack("{s:o}", "machines", list));
    }
    json_decref(list);
    return table_end(&t);
}
