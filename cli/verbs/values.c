#include "verbs/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"

int print_values(const settings *s, const char *name, const char *title, const weft_machine_value *values, size_t count) {
    if (s->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            const weft_machine_value *v = &values[i];
            weft_json_append(&list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "section", v->section, "key", v->key, "value",
                                              v->value, "unit", v->unit, "source", v->source));
        }
        return print_json(json_pack("{s:s, s:s, s:o}", "name", name, "title", title, "values", list));
    }
    printf("%s: %s\n", name, title);
    for (size_t i = 0; i < count; i++) {
        const weft_machine_value *v = &values[i];
        char key[64], value[160];
        snprintf(key, sizeof key, "%s.%s", v->section, v->key);
        const double bytes = strcmp(v->unit, "bytes") == 0 ? strtod(v->value, NULL) : 0;
        snprintf(value, sizeof value, "%s %s%s%s", v->value, v->unit, bytes >= 1024 ? " = " : "",
                 bytes >= 1024 ? weft_memory_text(bytes).text : "");
        printf("  %-26s%-30s%s\n", key, value, v->source);
    }
    return EXIT_OK;
}
