/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What every call answers: a status, and a message for people.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID = 1,     /**< an argument is wrong; the message names it, its value and what is allowed */
    WEFT_UNSUPPORTED = 2, /**< the arguments are right, but this build or device cannot do it */
    WEFT_NOT_FOUND = 3,   /**< no such order, machine, file or device */
    WEFT_NO_MEMORY = 4,
    WEFT_IO = 5,    /**< a file could not be read or written */
    WEFT_FAILED = 6 /**< the device or its driver failed; the message says what it reports */
} weft_status;

/** One line about what went wrong. Every call that takes one accepts null, and leaves it alone when it succeeds. */
typedef struct weft_message {
    char text[256];
} weft_message;

/** A short name of a status: "ok", "invalid", ... Never null. */
WEFT_API const char *weft_status_name(weft_status status);

#ifdef __cplusplus
}
#endif

#endif
