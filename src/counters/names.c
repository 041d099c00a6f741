/* SPDX-License-Identifier: Apache-2.0 */
/* What the counters are called, here and under ncu. */
#include <stdio.h>
#include <string.h>

#include "counters/counters.h"

static const weft_counter_info infos[] = {
#define COUNTER(id, key, metric, unit, text) {key, metric, unit, text},
#include <weft/counters.def>
#undef COUNTER
};

const weft_counter_info *weft_counter_describe(int32_t counter) {
    return counter >= 0 && counter < WEFT_COUNTERS ? &infos[counter] : NULL;
}

int32_t weft_counter_find(const char *key) {
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        if (key && strcmp(infos[i].key, key) == 0) {
            return i;
        }
    }
    return -1;
}

/* Appends to a text of `length` so far, of which only `size` bytes with the null are kept; returns the new length. */
static size_t append(char *text, size_t size, size_t length, const char *piece) {
    const size_t room = length < size ? size - length : 0;
    snprintf(room ? text + length : NULL, room, "%s", piece);
    return length + strlen(piece);
}

size_t weft_counters_ncu(const weft_counter *wanted, size_t count, const char *kernel, const char *command, char *text,
                         size_t size) {
    size_t length = append(text, size, 0, "ncu --clock-control none ");
    if (kernel) {
        length = append(text, size, length, "--kernel-name 'regex:");
        length = append(text, size, length, kernel);
        length = append(text, size, length, "' ");
    }
    length = append(text, size, length, "--metrics ");
    for (size_t i = 0; i < (wanted ? count : WEFT_COUNTERS); i++) {
        const weft_counter_info *info = weft_counter_describe(wanted ? (int32_t)wanted[i] : (int32_t)i);
        length = append(text, size, length, i ? "," : "");
        length = append(text, size, length, info ? info->metric : "");
    }
    length = append(text, size, length, " ");
    return append(text, size, length, command);
}
