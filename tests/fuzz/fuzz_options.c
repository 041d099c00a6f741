/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser, fed with command lines: it answers with a status and a terminated message, whatever it is given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "options/axes.h"

enum { MAX_WORDS = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Arguments are separated by newlines. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    char *text = malloc(size);
    if (!text) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    char *arguments[MAX_WORDS];
    int count = 0;
    for (char *rest = text; rest && count < MAX_WORDS;) {
        char *next = strchr(rest, '\n');
        if (next) {
            *next++ = '\0';
        }
        arguments[count++] = rest;
        rest = next;
    }
    settings s = settings_none();
    axes swept = {.count = 0};
    s.axes = data[0] & SET_SWEEP ? &swept : NULL;
    const char *words[4];
    size_t found = 0;
    weft_message message;
    memset(message.text, '#', sizeof message.text);
    const int status =
        options_parse(&s, data[0], operation_bits(data[0] % 4), count, arguments, words, 4, &found, &message);
    const int terminated = memchr(message.text, '\0', sizeof message.text) != NULL;
    if (found > 4 || (status != EXIT_OK && (status != EXIT_USAGE || !terminated))) {
        abort();
    }
    if (status == EXIT_OK && (s.workers < 0 || s.tile[0] < 0 || s.cluster[1] < 0 || s.order > WEFT_ORDER_KINDS)) {
        abort();
    }
    if (status == EXIT_OK) {
        const size_t points = axes_points(&swept);
        const settings last = axes_settings(&swept, &s, points - 1);
        if (points < 1 || points > AXES_POINTS || last.workers < 0 || last.tile[0] < 0 || last.order > WEFT_ORDER_KINDS) {
            abort();
        }
    }
    axes_release(&swept);
    free(text);
    return 0;
}
