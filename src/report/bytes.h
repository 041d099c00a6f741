/* SPDX-License-Identifier: Apache-2.0 */
/* A growing row of bytes, and numbers in it: seven bits to a byte, the last byte of a number below 128. */
#ifndef WEFT_REPORT_BYTES_H
#define WEFT_REPORT_BYTES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft_bytes {
    uint8_t *data;
    size_t count, room;
    int failed; /* memory ran out: what was put since is lost */
} weft_bytes;

void weft_bytes_put(weft_bytes *bytes, const void *data, size_t count);
void weft_bytes_text(weft_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text as SVG and HTML have it, between tags. */
void weft_bytes_markup(weft_bytes *bytes, const char *text);

/* A number, and a number of either sign (0, -1, 1, -2, ... become 0, 1, 2, 3, ...). */
void weft_bytes_number(weft_bytes *bytes, uint64_t number);
void weft_bytes_signed(weft_bytes *bytes, int64_t number);

/* All of it in base 64, as a JSON string; releases the bytes. Null when memory ran out. */
json_t *weft_bytes_json(weft_bytes *bytes);
void weft_bytes_release(weft_bytes *bytes);

#endif
