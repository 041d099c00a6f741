/* SPDX-License-Identifier: Apache-2.0 */
/* The host's memory. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench/bench.h"

static weft_status allocate(const weft_bench *b, void **memory, size_t bytes, weft_message *message) {
    (void)b;
    *memory = malloc(bytes);
    return *memory ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
}

static void release(const weft_bench *b, void *memory) {
    (void)b;
    free(memory);
}

static weft_status copy(const weft_bench *b, void *to, const void *from, size_t bytes, weft_message *message) {
    (void)b;
    (void)message;
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static weft_status poison(const weft_bench *b, void *to, size_t bytes, weft_message *message) {
    (void)b;
    (void)message;
    memset(to, 0xff, bytes);
    return WEFT_OK;
}

const weft_bench_memory weft_bench_memory_host = {allocate, release, copy, copy, poison};
