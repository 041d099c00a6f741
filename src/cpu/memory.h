/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the CPU backend: buffers for all threads, and pieces of one that belongs to a thread. */
#ifndef WEFT_CPU_MEMORY_H
#define WEFT_CPU_MEMORY_H

#include <stddef.h>

/* Memory on a cache line, or null; kernels may read a little beyond its end. */
void *weft_cpu_alloc(size_t bytes);
void weft_cpu_free(void *buffer);

/* The next `bytes` of scratch memory, on a cache line; null: only counts them. */
static inline void *weft_cpu_carve(char *scratch, size_t *used, size_t bytes) {
    char *here = scratch ? scratch + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return here;
}

#endif
