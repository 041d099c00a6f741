/* SPDX-License-Identifier: Apache-2.0 */
#include "options/lengths.h"

#include <stdlib.h>
#include <string.h>

#include "options/options.h"

/* What was read, kept until the command ends: problems point to it, and are copied. */
typedef struct kept {
    struct kept *next;
    const char *text;
    int64_t count;
    int32_t starts[]; /* count + 1 of them; behind these, the lengths */
} kept;
static kept *all;

static kept *read_list(const char *text) {
    size_t count = 1;
    for (const char *c = text; (c = strchr(c, ',')); c++) {
        count++;
    }
    kept *k = malloc(sizeof *k + (2 * count + 1) * sizeof *k->starts);
    if (!k) {
        return NULL;
    }
    *k = (kept){all, text, (int64_t)count};
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t length;
        text = options_next_length(text, &length); /* the option was read before */
        k->starts[i] = sum;
        k->starts[count + 1 + i] = (int32_t)length;
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

const int32_t *lengths_counts(const char *text, int64_t *count) {
    const int32_t *starts = lengths_starts(text, count);
    return starts ? starts + *count + 1 : NULL;
}
