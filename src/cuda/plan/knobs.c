/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/plan/knobs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* The options, in the order of the normal form. One with a `most` above 1 takes a number from 1 to that. */
static const struct {
    const char *name;
    size_t offset;
    int32_t most;
} options[] = {{"precise", offsetof(weft_cuda_knobs, precise), 1},
               {"mask-every-block", offsetof(weft_cuda_knobs, mask_every_block), 1},
               {"no-prefetch", offsetof(weft_cuda_knobs, no_prefetch), 1},
               {"keep-keys", offsetof(weft_cuda_knobs, keep_keys), 1},
               {"ctas", offsetof(weft_cuda_knobs, ctas), WEFT_CUDA_MAX_CTAS}};
enum { OPTIONS = sizeof options / sizeof *options };

static const char known[] = "precise, mask-every-block, no-prefetch, keep-keys, ctas=1 to ctas=32";

static int32_t value_of(const weft_cuda_knobs *knobs, size_t i) {
    int32_t value;
    memcpy(&value, (const char *)knobs + options[i].offset, sizeof value);
    return value;
}

/* A number from 1 to `most`, of digits alone; 0: it is none. */
static int32_t number_of(const char *text, size_t length, int32_t most) {
    int32_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > most) {
            return 0;
        }
        value = 10 * value + (text[i] - '0');
    }
    return value <= most ? value : 0;
}

static weft_status read_option(const char *text, size_t length, weft_cuda_knobs *knobs, weft_message *message) {
    const char *equals = memchr(text, '=', length);
    const size_t name = equals ? (size_t)(equals - text) : length;
    const int shown = length < 40 ? (int)length : 40;
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strlen(options[i].name) != name || memcmp(options[i].name, text, name) != 0) {
            continue;
        }
        const int takes_number = options[i].most > 1;
        const int32_t number = takes_number && equals ? number_of(equals + 1, length - name - 1, options[i].most) : 0;
        const int32_t value = takes_number ? number : !equals;
        if (value == 0) {
            return weft_fail(message, WEFT_INVALID, "kernel option %.*s: there are %s", shown, text, known);
        }
        if (value_of(knobs, i) != 0) {
            return weft_fail(message, WEFT_INVALID, "kernel option %s is given twice", options[i].name);
        }
        memcpy((char *)knobs + options[i].offset, &value, sizeof value);
        return WEFT_OK;
    }
    return weft_fail(message, WEFT_INVALID, "kernel option \"%.*s\" is unknown: there are %s", shown, text, known);
}

weft_status weft_cuda_knobs_read(const char *text, weft_cuda_knobs *knobs, size_t *family, weft_message *message) {
    weft_status status = WEFT_OK;
    memset(knobs, 0, sizeof *knobs);
    text = text ? text : "";
    *family = strcspn(text, ":");
    const char *at = text + *family;
    while (status == WEFT_OK && *at) { /* at the colon, or at a comma */
        const size_t length = strcspn(at + 1, ",");
        status = read_option(at + 1, length, knobs, message);
        at += 1 + length;
    }
    return status;
}

weft_status weft_cuda_knobs_refuse(const weft_cuda_knobs *knobs, weft_message *why) {
    const int asked =
        knobs->precise || knobs->mask_every_block || knobs->no_prefetch || knobs->keep_keys || knobs->ctas > 1;
    return !asked ? WEFT_OK
                  : weft_fail(why, WEFT_UNSUPPORTED,
                              "it has no precise math, mask-every-block, no-prefetch, keep-keys or CTAs that share");
}

void weft_cuda_knobs_normalize(const char *text, char *normal, size_t size) {
    weft_cuda_knobs knobs;
    size_t family;
    text = text ? text : "";
    if (weft_cuda_knobs_read(text, &knobs, &family, NULL)) {
        snprintf(normal, size, "%s", text);
        return;
    }
    snprintf(normal, size, "%.*s", family < size ? (int)family : (int)size, text);
    char mark = ':';
    for (size_t i = 0; i < OPTIONS; i++) {
        const int32_t value = value_of(&knobs, i);
        const size_t used = strlen(normal);
        if (value == 0) {
            continue;
        }
        if (options[i].most > 1) {
            snprintf(normal + used, size - used, "%c%s=%d", mark, options[i].name, (int)value);
        } else {
            snprintf(normal + used, size - used, "%c%s", mark, options[i].name);
        }
        mark = ',';
    }
}
