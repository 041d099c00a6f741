/* SPDX-License-Identifier: Apache-2.0 */
/* A sheet as a file's text. */
#include "sheet/sheet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sheet/ini.h"

/* What was written so far, and what did not fit. */
typedef struct writer {
    char *text;
    size_t size, length;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t left = w->length < w->size ? w->size - w->length : 0;
    const int wrote = vsnprintf(left ? w->text + w->length : NULL, left, format, arguments);
    va_end(arguments);
    w->length += wrote > 0 ? (size_t)wrote : 0;
}

size_t weft_sheet_write(const weft_sheet *sheet, const char *comment, char *text, size_t size) {
    writer w = {text, size, 0};
    put(&w, "%s", comment ? comment : "");
    for (int i = 0; i < sheet->form->count; i++) {
        const weft_key *key = &sheet->form->keys[i];
        char value[96];
        if (i == 0 || strcmp(key->section, key[-1].section) != 0) {
            put(&w, "%s[%s]\n", w.length ? "\n" : "", key->section);
        }
        weft_key_write(key, &sheet->machine, value, sizeof value);
        if (key->type == WEFT_KEY_IS_TEXT) {
            put(&w, "%s = %s\n", key->key, value);
        } else { /* a line has room for the value and most of its source */
            const size_t used = strlen(key->key) + strlen(value) + strlen(" =  | ");
            put(&w, "%s = %s | %.*s\n", key->key, value, (int)(WEFT_INI_MAX_LINE - used), sheet->source[i]);
        }
    }
    return w.length;
}
