/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

/* Letters to change, add or drop to get from a to b, for short words. */
static size_t distance(const char *a, const char *b) {
    size_t row[40];
    const size_t length = strlen(b);
    if (length >= sizeof row / sizeof *row || strlen(a) >= sizeof row / sizeof *row) {
        return sizeof row;
    }
    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            const size_t replace = diagonal + (a[i] != b[j]);
            const size_t shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replace < shorter ? replace : shorter;
        }
    }
    return row[length];
}

weft_near weft_near_to(const char *name) {
    return (weft_near){name, NULL, 3}; /* two letters off at most */
}

void weft_near_try(weft_near *near, const char *candidate) {
    const size_t d = distance(near->name, candidate);
    if (d < near->least && 2 * d < strlen(near->name)) { /* fewer than half: fp8 is no mistyped fp32 */
        near->least = d;
        near->best = candidate;
    }
}

const char *weft_nearest(const char *name, const char *(*next)(int32_t i)) {
    weft_near near = weft_near_to(name);
    for (int32_t i = 0; next(i); i++) {
        weft_near_try(&near, next(i));
    }
    return near.best;
}
