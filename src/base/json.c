#include "base/json.h"

#include <stdlib.h>

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
