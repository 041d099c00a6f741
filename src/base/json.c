/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_if(json_t **whole, int added) {
    if (!added) {
        json_decref(*whole);
        *whole = NULL;
    }
}

void weft_json_set(json_t **object, const char *key, json_t *value) {
    keep_if(object, json_object_set_new(*object, key, value) == 0);
}

void weft_json_append(json_t **list, json_t *value) {
    keep_if(list, json_array_append_new(*list, value) == 0);
}

char *weft_json_text(const json_t *value, size_t flags) {
    const size_t length = value ? json_dumpb(value, NULL, 0, flags) : 0;
    char *text = length > 0 ? malloc(length + 1) : NULL;
    if (text && json_dumpb(value, text, length, flags) != length) {
        free(text);
        return NULL;
    }
    if (text) {
        text[length] = '\0';
    }
    return text;
}

size_t weft_json_print(json_t *value, char *text, size_t size) {
    char *whole = weft_json_text(value, JSON_SORT_KEYS);
    json_decref(value);
    const size_t length = whole ? strlen(whole) : 0;
    if (size > 0) {
        snprintf(text, size, "%s", whole ? whole : "");
    }
    free(whole);
    return length;
}

int weft_json_lacked_memory(const json_error_t *error) {
    return json_error_code(error) == json_error_out_of_memory || (error->line < 0 && !error->text[0]);
}

/* No letter is left out twice, and memory does not run out twice at the same place: what two readings agree on is so. */
json_t *weft_json_read(const char *text, size_t length, size_t flags, json_error_t *error) {
    json_error_t first, second;
    json_t *value = json_loadb(text, length, flags, &first);
    json_t *again = json_loadb(text, length, flags, &second);
    const int agree = value && again ? json_equal(value, again)
                                     : !value && !again && first.line == second.line && first.column == second.column &&
                                           strcmp(first.text, second.text) == 0;
    if (!agree) {
        json_decref(value);
        value = NULL;
        first.line = -1;
        first.text[0] = '\0';
    }
    json_decref(again);
    if (error) {
        *error = first;
    }
    return value;
}
