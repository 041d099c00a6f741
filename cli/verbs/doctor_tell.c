/* SPDX-License-Identifier: Apache-2.0 */
/* How weft doctor tells of what it finds: text, or JSON. */
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "table.h"
#include "verbs/doctor.h"

void doctor_begin(doctor *d, const char *section) {
    if (d->titled) {
        putchar('\n');
    }
    d->section = section;
    d->titled = 0;
}

void doctor_tell(doctor *d, finding f, const char *name, const char *advice, const char *format, ...) {
    static const char *const marks[] = {[NO] = "no", [WORKS] = "ok", [NOTE] = "-"};
    char text[768], line[832];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (d->json) {
        weft_json_append(&d->list,
                         json_pack("{s:s, s:s, s:o, s:s, s:s}", "section", d->section, "name", name, "works",
                                   f == NOTE ? json_null() : json_boolean(f == WORKS), "text", text, "advice", advice));
        return;
    }
    if (!d->titled++) {
        printf("%s\n", d->section);
    }
    snprintf(line, sizeof line, "%s: %s", name, text);
    table_item(marks[f], line, 6, table_width());
    if (f == NO && advice[0]) {
        printf("      ");
        snprintf(line, sizeof line, "-> %s", advice);
        table_words(line, 6, 9, table_width());
    }
}
