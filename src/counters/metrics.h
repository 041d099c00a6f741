/* SPDX-License-Identifier: Apache-2.0 */
/* Which counters a chip has, and how they are collected: CUPTI's host side, which needs no GPU. */
#ifndef WEFT_COUNTERS_METRICS_H
#define WEFT_COUNTERS_METRICS_H

#include "counters/counters.h"
#include "counters/cupti.h"

typedef struct weft_metrics {
    void *host;                         /* CUPTI's object */
    const char *metrics[WEFT_COUNTERS]; /* the names of those that the chip has */
    size_t place[WEFT_COUNTERS];        /* of each among those wanted */
    size_t count;
    uint8_t *config; /* says what is collected in which pass */
    size_t config_bytes, passes;
} weft_metrics;

/* Chooses those of the wanted counters that the chip has ("GH100"). `availability` is CUPTI's image of what its driver lets
 * through, or null for all. WEFT_UNSUPPORTED when CUPTI does not know the chip or it has none of them. */
weft_status weft_metrics_open(weft_metrics *m, const weft_cupti *cupti, const char *chip, const uint8_t *availability,
                              const weft_counter *wanted, size_t count, weft_message *message);
void weft_metrics_close(weft_metrics *m, const weft_cupti *cupti);

#endif
