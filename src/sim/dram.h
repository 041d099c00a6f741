/* SPDX-License-Identifier: Apache-2.0 */
/* DRAM as a queue: it serves sectors one after the other. What was written may wait in the L2 until nothing is read. */
#ifndef WEFT_SIM_DRAM_H
#define WEFT_SIM_DRAM_H

#include <stdint.h>

typedef struct weft_dram {
    double seconds;   /* per sector */
    double latency;   /* seconds */
    double free_at;   /* when it has served all that was asked of it */
    double unwritten; /* seconds that what was written and waits will take */
    double kept;      /* the most that waits */
} weft_dram;

/* Writes as much of what waits as fits into the time since DRAM was last asked, which is over then. */
static inline void weft_dram_drain(weft_dram *dram, double now) {
    const double idle = now - dram->free_at;
    if (idle > 0 && dram->kept > 0) {
        dram->unwritten -= idle < dram->unwritten ? idle : dram->unwritten;
        dram->free_at = now;
    }
}

/* When the last of `weight` sectors is read. */
static inline double weft_dram_read(weft_dram *dram, uint32_t weight, double now) {
    weft_dram_drain(dram, now);
    dram->free_at = (dram->free_at > now ? dram->free_at : now) + weight * dram->seconds;
    return dram->free_at + dram->latency;
}

/* Writes sectors, or lets them wait. */
static inline void weft_dram_write(weft_dram *dram, uint32_t weight, double now) {
    weft_dram_drain(dram, now);
    dram->unwritten += weight * dram->seconds;
    if (dram->unwritten > dram->kept) {
        dram->free_at = (dram->free_at > now ? dram->free_at : now) + dram->unwritten - dram->kept;
        dram->unwritten = dram->kept;
    }
}

#endif
