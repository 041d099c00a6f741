/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels can take, ranked by the model that a plan's default and the tuner go by. */
#include <stdlib.h>

#include "base/status.h"
#include "search/entries.h"

/* Shapes of a family of kernels, and schedules whose traffic is simulated, too. */
enum { SHAPES = 512, SHOWN = 24 };

/* Lists the default first, then what else the kernels can take. */
static weft_status list_candidates(weft_search_entries *all, weft_message *message) {
    weft_schedule *shapes = malloc(SHAPES * sizeof *shapes);
    const weft_plan *draft = &all->draft;
    if (!shapes) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    shapes[0] = draft->schedule;
    const weft_space only = {shapes, 1, 0, 0};
    weft_search_entry entry;
    weft_schedule usual = draft->schedule;
    if (usual.order == WEFT_ORDER_CHOOSE) {
        usual.order_table = NULL; /* the caller's order is one candidate of many */
    }
    weft_status status = weft_search_lay_out(all, &usual, 0, &entry, message);
    if (status == WEFT_OK && entry.ranked.model <= 0) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "there is no model of the kernels");
    }
    status = status ? status : weft_search_append_one(all, &entry, message);
    if (status == WEFT_OK) {
        const size_t count = draft->backend->candidates ? draft->backend->candidates(draft, shapes, SHAPES) : 0;
        const weft_space every = {shapes, count, 1, 1};
        status = weft_search_append(all, count > 0 ? &every : &only, 0, message);
    }
    free(shapes);
    return status;
}

weft_status weft_search_price(weft_search_entries *all, uint64_t budget, size_t *simulated, weft_message *message) {
    weft_status status = list_candidates(all, message);
    if (status) {
        return status;
    }
    size_t priced = 0;
    all->list[0].is_default = 1;
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].ranked.model > 0) {
            all->list[priced++] = all->list[i];
        }
    }
    all->count = priced;
    weft_search_sort_priced(all->list, priced);
    *simulated = priced < SHOWN ? priced : SHOWN;
    double steps = 0;
    for (size_t i = 0; i < *simulated; i++) {
        steps += (double)all->list[i].steps;
    }
    const uint64_t limit = steps <= (double)budget ? 0 : budget / *simulated;
    all->tally.planned = steps < (double)budget ? steps : (double)budget;
    status = weft_search_simulate(all, all->list, *simulated, limit, message);
    weft_search_sort_priced(all->list, *simulated);
    return status;
}
