/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of a rank cost: each distinct one is simulated once. */
#ifndef WEFT_DIST_PRICES_H
#define WEFT_DIST_PRICES_H

#include "dist/dist.h"

/* What a price is of. */
enum { WEFT_PRICE_SLICE, WEFT_PRICE_HOME, WEFT_PRICE_ROUNDING, WEFT_PRICE_WHOLE };

typedef struct weft_price_key {
    int64_t kind, variant, mask, rows, keys, offset, left, right;
} weft_price_key;

typedef struct weft_price {
    weft_price_key key;
    double seconds; /* 0: nobody has asked yet */
} weft_price;

typedef struct weft_prices {
    const weft_dist *dist;          /* whose kernels are asked for; of several, their ranks alone may differ */
    weft_plan_options options;      /* of an attention's plan */
    weft_schedule schedule;         /* of them, what is chosen */
    weft_simulate_options simulate; /* of its simulation */
    int heads_apart;                /* see weft_dist_simulate_options */
    double adding;                  /* what adding results costs, in times of weft_combine */
    weft_price *table;              /* by the hash of the key */
    size_t count, room;
    weft_price last; /* that was asked for */
} weft_prices;

/* `options` have been checked, and outlive it. */
weft_status weft_prices_open(weft_prices *prices, const weft_dist_simulate_options *options, weft_message *message);
void weft_prices_close(weft_prices *prices);

/* Seconds of a slice's attention and of adding its results; of adding gradients of so many rows of keys that came home; of
 * rounding the sums of a group; and of the whole problem on one rank. */
weft_status weft_price_slice(weft_prices *prices, const weft_dist_slice *slice, double *seconds, weft_message *message);
weft_status weft_price_home(weft_prices *prices, int64_t rows, double *seconds, weft_message *message);
weft_status weft_price_rounding(weft_prices *prices, int64_t queries, int64_t keys, double *seconds, weft_message *message);
weft_status weft_price_whole(weft_prices *prices, double *seconds, weft_message *message);

/* For kinds: asks the simulator, and adds what it says to *seconds. Of a problem under options, or of adding up sums, so
 * many times, by kernels whose schedule and profile are not those of the problem. */
weft_status weft_price_ask(const weft_plan_options *options, const weft_simulate_options *simulate, const void *problem,
                           double *seconds, weft_message *message);
weft_status weft_price_combine(const weft_prices *prices, const weft_combine *c, double times, double *seconds,
                               weft_message *message);

#endif
