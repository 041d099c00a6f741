/* SPDX-License-Identifier: Apache-2.0 */
/* Status and messages, for every part of the library. */
#ifndef WEFT_BASE_STATUS_H
#define WEFT_BASE_STATUS_H

#include <weft/weft.h>

/* Writes a message (when there is room for one) and returns the status: `return weft_fail(message, WEFT_INVALID, ...)`. */
weft_status weft_fail(weft_message *message, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* *product = a * b for a, b >= 0; returns 0 when that exceeds 2^62, the bound of every size in weft. */
int weft_multiply(int64_t a, int64_t b, int64_t *product);

#endif
