/* SPDX-License-Identifier: Apache-2.0 */
#include "report/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

/* Room for `more` bytes at the end; null when there is none. */
static uint8_t *extend(weft_bytes *bytes, size_t more) {
    if (bytes->failed || more > SIZE_MAX / 4 - bytes->count) {
        bytes->failed = 1;
        return NULL;
    }
    if (bytes->count + more > bytes->room) {
        const size_t room = 2 * (bytes->count + more) + 256;
        uint8_t *data = realloc(bytes->data, room);
        if (!data) {
            bytes->failed = 1;
            return NULL;
        }
        bytes->data = data;
        bytes->room = room;
    }
    bytes->count += more;
    return bytes->data + bytes->count - more;
}

void weft_bytes_put(weft_bytes *bytes, const void *data, size_t count) {
    uint8_t *place = count > 0 ? extend(bytes, count) : NULL;
    if (place) {
        memcpy(place, data, count);
    }
}

void weft_bytes_text(weft_bytes *bytes, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text) {
        bytes->failed = 1;
        return;
    }
    weft_bytes_put(bytes, text, (size_t)length);
}

void weft_bytes_markup(weft_bytes *bytes, const char *text) {
    for (size_t left = strlen(text), count; left > 0; text += count, left -= count) {
        const unsigned char first = (unsigned char)*text;
        const size_t whole = weft_character_bytes((const unsigned char *)text, left);
        const int is_known = whole > 0 && (first >= ' ' || first == '\t' || first == '\n' || first == '\r');
        /* U+FFFE and U+FFFF are the only ones of more bytes that XML does not have. */
        const int is_none = whole == 3 && memcmp(text, "\xef\xbf", 2) == 0 && (unsigned char)text[2] >= 0xbe;
        const char *escape = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        escape = is_known && !is_none ? escape : "\xef\xbf\xbd"; /* U+FFFD: a character that there is not */
        count = whole > 0 ? whole : 1;
        weft_bytes_put(bytes, escape ? escape : text, escape ? strlen(escape) : count);
    }
}

void weft_bytes_number(weft_bytes *bytes, uint64_t number) {
    uint8_t coded[10];
    size_t count = 0;
    for (; number >= 128; number >>= 7) {
        coded[count++] = (uint8_t)(number | 128);
    }
    coded[count++] = (uint8_t)number;
    weft_bytes_put(bytes, coded, count);
}

void weft_bytes_signed(weft_bytes *bytes, int64_t number) {
    weft_bytes_number(bytes, number < 0 ? ~((uint64_t)number << 1) : (uint64_t)number << 1);
}

json_t *weft_bytes_json(weft_bytes *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t groups = (bytes->count + 2) / 3;
    char *text = bytes->failed ? NULL : malloc(4 * groups + 1);
    json_t *string = NULL;
    if (text) {
        for (size_t g = 0; g < groups; g++) {
            const uint8_t *in = bytes->data + 3 * g;
            const size_t left = bytes->count - 3 * g;
            const uint32_t bits =
                (uint32_t)in[0] << 16 | (left > 1 ? (uint32_t)in[1] << 8 : 0) | (left > 2 ? (uint32_t)in[2] : 0);
            text[4 * g] = digits[bits >> 18];
            text[4 * g + 1] = digits[bits >> 12 & 63];
            text[4 * g + 2] = '=';
            text[4 * g + 3] = '=';
            if (left > 1) {
                text[4 * g + 2] = digits[bits >> 6 & 63];
            }
            if (left > 2) {
                text[4 * g + 3] = digits[bits & 63];
            }
        }
        string = json_stringn_nocheck(text, 4 * groups);
    }
    free(text);
    weft_bytes_release(bytes);
    return string;
}

void weft_bytes_release(weft_bytes *bytes) {
    free(bytes->data);
    memset(bytes, 0, sizeof *bytes);
}
