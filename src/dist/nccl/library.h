/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL, found at run time. */
#ifndef WEFT_DIST_NCCL_LIBRARY_H
#define WEFT_DIST_NCCL_LIBRARY_H

#include <weft/nccl.h>

/* Numbers as in nccl.h. */
enum {
    WEFT_NCCL_OLDEST = 21400, /* where communicators began not to block */
    WEFT_NCCL_IN_PROGRESS = 7,
    WEFT_NCCL_BYTES = 1, /* an ncclDataType_t */
    WEFT_NCCL_MAGIC = (int)0xcafebeef
};

/* An ncclConfig_t as it was in 2.14: its size and version say that there is no more. */
typedef struct weft_nccl_config {
    size_t size;
    int magic, version, blocking;
} weft_nccl_config;

/* The entry points: the rows of symbols.def. */
typedef struct weft_nccl_library {
#define WEFT_NCCL_SYMBOL(result, field, symbol, parameters) result(*field) parameters;
#include "dist/nccl/symbols.def"
#undef WEFT_NCCL_SYMBOL
    int release; /* what ncclGetVersion says */
} weft_nccl_library;

/* Loaded by the first call that succeeds; later calls return the same. WEFT_NOT_FOUND when there is none, WEFT_UNSUPPORTED
 * when it is too old. */
weft_status weft_nccl_library_get(const weft_nccl_library **library, weft_message *message);

/* "<what>: NCCL: <text>", WEFT_FAILED. */
weft_status weft_nccl_fail(const weft_nccl_library *library, int result, const char *what, weft_message *message);

#endif
