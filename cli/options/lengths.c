#include "options/lengths.h"

#include <stdlib.h>
#include <string.h>

/* What was read, kept until the command ends: problems point to it, and are copied. */
typedef struct kept {
    struct kept *next;
    const char *text;
    int64_t count;
    int32_t starts[];
} kept;
static kept *all;

/* The length at the beginning of a list; the rest of the list, null behind the last one, or `text` when it is no length. */
static const char *next_length(const char *text, int64_t *length) {
    char item[32] = "";
    const size_t letters = strcspn(text, ",");
    if (letters >= sizeof item) {
        return text;
    }
    memcpy(item, text, letters);
    if (!options_read_integer(item, length) || *length < 0 || *length > WEFT_MAX_DIMENSION) {
        return text;
    }
    return text[letters] ? text + letters + 1 : NULL;
}

int lengths_check(const option *o, const char *text, weft_message *message) {
    int64_t sum = 0;
    for (const char *rest = text; rest;) {
        int64_t length;
        const char *next = next_length(rest, &length);
        if (next == rest) {
            return option_fail(message, "--%s %.60s is not a list of lengths like 100,2K,0", o->name, text);
        }
        if ((sum += length) > WEFT_MAX_DIMENSION) {
            return option_fail(message, "--%s %.60s adds up to more than %lld", o->name, text,
                               (long long)WEFT_MAX_DIMENSION);
        }
        rest = next;
    }
    return EXIT_OK;
}

static kept *read_list(const char *text) {
    size_t count = 1;
    for (const char *c = text; (c = strchr(c, ',')); c++) {
        count++;
    }
    kept *k = malloc(sizeof *k + (count + 1) * sizeof *k->starts);
    if (!k) {
        return NULL;
    }
    *k = (kept){all, text, (int64_t)count};
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t length;
        text = next_length(text, &length); /* lengths_check() has seen it */
        k->starts[i] = sum;
        sum += (int32_t)length;
    }
    k->starts[count] = sum;
    return all = k;
}

const int32_t *lengths_starts(const char *text, int64_t *count) {
    kept *k = all;
    while (k && strcmp(k->text, text) != 0) {
        k = k->next;
    }
    k = k ? k : read_list(text);
    *count = k ? k->count : 0;
    return k ? k->starts : NULL;
}
