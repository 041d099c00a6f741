/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *weft_version(void) {
    return WEFT_VERSION;
}

const char *weft_status_name(weft_status status) {
    switch (status) {
    case WEFT_OK:
        return "ok";
    case WEFT_INVALID:
        return "invalid";
    case WEFT_UNSUPPORTED:
        return "unsupported";
    case WEFT_NOT_FOUND:
        return "not found";
    case WEFT_NO_MEMORY:
        return "out of memory";
    case WEFT_IO:
        return "input/output error";
    case WEFT_FAILED:
        return "failed";
    }
    return "unknown status";
}

weft_status weft_fail(weft_message *message, weft_status status, const char *format, ...) {
    if (message) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message->text, sizeof message->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

int weft_multiply(int64_t a, int64_t b, int64_t *product) {
    return !__builtin_mul_overflow(a, b, product) && *product <= INT64_C(1) << 62;
}
