/* SPDX-License-Identifier: Apache-2.0 */
/* Names of cuts, exchanges and orders across ranks, by number, which begins at 1. */
#include <string.h>

#include <weft/dist.h>

static const char *const cuts[] = {"contiguous", "striped", "zigzag", "balanced", "m", "k"};
static const char *const exchanges[] = {"ring", "all-gather", "heads"};
static const weft_name orders[] = {
#define WEFT_RANK_ORDER(ID, function, name, lag, text) {name, text},
#include <weft/orders.def>
};

enum { CUTS = sizeof cuts / sizeof *cuts, EXCHANGES = sizeof exchanges / sizeof *exchanges };

static const char *name_of(const char *const *names, int32_t count, int32_t number) {
    return number > 0 && number <= count ? names[number - 1] : NULL;
}

static int32_t find(const char *const *names, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            return i + 1;
        }
    }
    return 0;
}

const char *weft_rank_cut_name(int32_t cut) {
    return name_of(cuts, CUTS, cut);
}

int32_t weft_rank_cut_find(const char *name) {
    return find(cuts, CUTS, name);
}

const char *weft_exchange_name(int32_t exchange) {
    return name_of(exchanges, EXCHANGES, exchange);
}

int32_t weft_exchange_find(const char *name) {
    return find(exchanges, EXCHANGES, name);
}

const weft_name *weft_rank_order_describe(int32_t order) {
    return order > 0 && order <= WEFT_RANK_ORDERS ? &orders[order - 1] : NULL;
}

int32_t weft_rank_order_find(const char *name) {
    for (int32_t i = 1; i <= WEFT_RANK_ORDERS; i++) {
        if (name && strcmp(name, orders[i - 1].name) == 0) {
            return i;
        }
    }
    return 0;
}
