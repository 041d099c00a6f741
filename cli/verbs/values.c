/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/file.h"
#include "base/json.h"
#include "cli.h"
#include "table.h"

/* Writes the file that gives these values again, without its comments. What no file gave is left out. */
static int write_values(const settings *s, const weft_machine_value *values, size_t count, const char *option) {
    enum { LINE = 512 };
    char *text = malloc(count * LINE + 1), *end = text;
    if (!text) {
        return complain(EXIT_FAILED, "out of memory");
    }
    *end = '\0';
    for (size_t i = 0; i < count; i++) {
        const weft_machine_value *v = &values[i];
        if (i == 0 || strcmp(v->section, values[i - 1].section) != 0) {
            end += snprintf(end, LINE / 4, "%s[%s]\n", i ? "\n" : "", v->section);
        }
        if (v->value[0] && strcmp(v->source, "not given") != 0) {
            end += snprintf(end, LINE / 4 * 3, "%s = %s%s%s\n", v->key, v->value, v->source[0] ? " | " : "", v->source);
        }
    }
    weft_message message = {""};
    const weft_status status = weft_file_write(s->output, text, strlen(text), &message);
    free(text);
    if (status) {
        return complain_status(status, &message);
    }
    if (!s->json) {
        print_wrapped("written to %s; --%s %s%s uses it. Reports call it %s until its name in the file is another\n",
                      s->output, option, strchr(s->output, '/') ? "" : "./", s->output, values[0].value);
    }
    return EXIT_OK;
}

int print_values(const settings *s, const char *name, const char *title, const weft_machine_value *values, size_t count,
                 const char *option) {
    if (s->output) {
        const int code = write_values(s, values, count, option);
        if (code || !s->json) {
            return code;
        }
    }
    if (s->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            const weft_machine_value *v = &values[i];
            weft_json_append(&list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "section", v->section, "key", v->key, "value",
                                              v->value, "unit", v->unit, "source", v->source));
        }
        return print_json(json_pack("{s:s, s:s, s:o}", "name", name, "title", title, "values", list));
    }
    print_wrapped("%s: %s\n", name, title);
    for (size_t i = 0; i < count; i++) {
        const weft_machine_value *v = &values[i];
        char key[64], value[160];
        snprintf(key, sizeof key, "%s.%s", v->section, v->key);
        const double bytes = strcmp(v->unit, "bytes") == 0 ? strtod(v->value, NULL) : 0;
        snprintf(value, sizeof value, "%s%s%s%s%s", v->value, *v->unit ? " " : "", v->unit, bytes >= 1024 ? " = " : "",
                 bytes >= 1024 ? weft_memory_text(bytes).text : "");
        print_wrapped("  %-26s%-*s%s\n", key, *v->source ? 30 : 0, value, v->source);
    }
    return EXIT_OK;
}
