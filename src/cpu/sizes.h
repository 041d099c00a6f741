/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes. */
#ifndef WEFT_CPU_SIZES_H
#define WEFT_CPU_SIZES_H

#include <stdint.h>

/* n rounded up to a multiple of unit. */
static inline int64_t weft_cpu_pad(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static inline int64_t weft_cpu_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
