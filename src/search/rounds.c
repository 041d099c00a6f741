/* SPDX-License-Identifier: Apache-2.0 */
/* Successive halving: all schedules for a small share of their steps, then fewer and fewer for larger and larger shares. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "search/entries.h"

/* A round takes one part of the steps that are left, and a quarter of its schedules goes on, or more where these can be
 * simulated whole next; so few are not divided any more. */
enum { PARTS = 3, LEFT = 4, LEAST = 6 };

/* Those whose neighbours are tried in the end. */
enum { BEST = 4 };

/* In a part the first wave, which finds the caches empty, weighs more than in the whole. Schedules this near to the fastest
 * may be as fast as that when simulated whole. */
static const double NEAR = 1.1;

/* Steps vary, so a whole simulation may be this much faster than its bound. */
static const double BOUND = 0.97;

/* No whole simulation takes less. */
static double least_of(const weft_search_entry *e) {
    return BOUND * fmax(e->bound.steps, e->bound.dram);
}

/* The time of the whole by that of a part: which has no last wave, of which a share is idle. */
static void estimate(weft_search_entry *e) {
    const weft_simulation *s = &e->ranked.simulation;
    const double tail = s->simulated < 1 ? fmax(1, e->bound.waves) : 1;
    e->estimate = !e->valid ? INFINITY : fmax(tail * s->seconds, least_of(e));
}

/* Moves what may still be the best to the front, and returns how many these are. A schedule is out when its bound alone is
 * more than `seconds`. */
static size_t drop_bounded(weft_search_entry *list, size_t count, double seconds) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (least_of(&list[i]) <= seconds) {
            const weft_search_entry entry = list[i];
            list[i] = list[kept];
            list[kept++] = entry;
        }
    }
    return kept;
}

/* Where a wave of each would take too long, moves those that could be among the fastest by their bounds to the front; of
 * these all the usual ones, and of the others every so many. */
static size_t thin(weft_search_entry *list, size_t count, double steps) {
    double least = INFINITY, waves = 0, usual = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, least_of(&list[i]));
        waves += (double)list[i].wave;
    }
    if (waves <= steps) {
        return count;
    }
    count = drop_bounded(list, count, NEAR * least);
    waves = 0;
    for (size_t i = 0; i < count; i++) {
        waves += (double)list[i].wave;
        usual += list[i].is_usual ? (double)list[i].wave : 0;
    }
    const double share = waves > usual ? fmax(0, fmin(1, (steps - usual) / (waves - usual))) : 1;
    double taken = 0.5;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        taken += list[i].is_usual ? 0 : share;
        if (list[i].is_usual || taken >= 1) {
            const weft_search_entry entry = list[i];
            taken -= entry.is_usual ? 0 : 1;
            list[i] = list[kept];
            list[kept++] = entry;
        }
    }
    return kept;
}

static int by_seconds(const void *a, const void *b) {
    const weft_search_entry *x = *(weft_search_entry *const *)a, *y = *(weft_search_entry *const *)b;
    return x->estimate != y->estimate ? (x->estimate > y->estimate) - (x->estimate < y->estimate)
                                      : (x->number > y->number) - (x->number < y->number);
}

static int by_dram(const void *a, const void *b) {
    const weft_search_entry *x = *(weft_search_entry *const *)a, *y = *(weft_search_entry *const *)b;
    const uint64_t first = x->ranked.simulation.total.dram_read_bytes, second = y->ranked.simulation.total.dram_read_bytes;
    return first != second ? (first > second) - (first < second) : by_seconds(a, b);
}

/* Lets the first `most` of `sorted` stay, taking the first of each order, tile and dispatch before the second of any: those
 * are much alike, in what a part gets wrong, too. Dispatches differ only once workers have drifted apart. */
static void pick(weft_search_entry **sorted, size_t count, size_t most) {
    for (size_t i = 0; i < count; i++) {
        const weft_schedule *s = &sorted[i]->ranked.schedule;
        sorted[i]->rank = 0;
        for (size_t j = 0; j < i; j++) {
            const weft_schedule *t = &sorted[j]->ranked.schedule;
            sorted[i]->rank +=
                s->order == t->order && s->tile_m == t->tile_m && s->tile_n == t->tile_n && s->dispatch == t->dispatch;
        }
    }
    size_t picked = 0;
    for (size_t rank = 0; rank < count && picked < most; rank++) {
        for (size_t i = 0; i < count && picked < most; i++) {
            picked += sorted[i]->rank == rank;
            sorted[i]->stays |= sorted[i]->rank == rank;
        }
    }
}

static int stays_first(const void *a, const void *b) {
    const weft_search_entry *x = a, *y = b;
    return x->stays != y->stays ? y->stays - x->stays : (x->number > y->number) - (x->number < y->number);
}

/* Moves about `most` to the front: the fastest, as many that read least of those that may be as fast, and the usual ones
 * where there is room for them. Returns how many they are; 0 when memory ran out. */
static size_t choose(weft_search_entry *list, size_t count, size_t most) {
    weft_search_entry **sorted = malloc(count * sizeof *sorted);
    if (!sorted) {
        return 0;
    }
    size_t usual = 0, near = 0, chosen = 0;
    for (size_t i = 0; i < count; i++) {
        list[i].stays = 0;
        sorted[i] = &list[i];
        usual += list[i].is_usual && list[i].valid;
    }
    qsort(sorted, count, sizeof *sorted, by_seconds);
    for (size_t i = 0; i < count && 2 * usual <= most; i++) {
        list[i].stays = list[i].is_usual && list[i].valid;
    }
    pick(sorted, count, most / 2);
    while (near < count && sorted[near]->estimate <= NEAR * sorted[0]->estimate) {
        near++;
    }
    qsort(sorted, near, sizeof *sorted, by_dram);
    pick(sorted, near, most / 2);
    free(sorted);
    qsort(list, count, sizeof *list, stays_first);
    while (chosen < count && list[chosen].stays) {
        chosen++;
    }
    return chosen;
}

/* The least estimate. */
static double fastest(weft_search_entry *list, size_t count) {
    double seconds = INFINITY;
    for (size_t i = 0; i < count; i++) {
        estimate(&list[i]);
        seconds = fmin(seconds, list[i].estimate);
    }
    return seconds;
}

static double all_steps(const weft_search_entry *list, size_t count) {
    double steps = 0;
    for (size_t i = 0; i < count; i++) {
        steps += (double)list[i].steps;
    }
    return steps;
}

/* ---- the neighbours of the best ---- */

/* Whether two schedules differ in one choice: tile, order with its group, sweep or dispatch. */
static int are_neighbours(const weft_schedule *a, const weft_schedule *b) {
    return (a->tile_m != b->tile_m || a->tile_n != b->tile_n || a->tile_k != b->tile_k) +
               (a->order != b->order || a->group != b->group) + (a->sweep != b->sweep) + (a->dispatch != b->dispatch) ==
           1;
}

/* Moves those of list[count ...] that are neighbours of `of`, and may be better than the best, behind the first `count`, as
 * many as `steps` allow. Returns how many these are. */
static size_t find_neighbours(weft_search_entry *list, size_t count, size_t all, const weft_schedule *of, uint64_t limit,
                              double *steps) {
    const double best = list[0].ranked.simulation.seconds;
    size_t found = 0;
    for (size_t i = count; i < all; i++) {
        const weft_search_entry entry = list[i];
        const double cost =
            limit > 0 && limit < entry.steps ? fmax((double)limit, (double)entry.wave) : (double)entry.steps;
        if (cost <= *steps && least_of(&entry) <= best && are_neighbours(of, &entry.ranked.schedule)) {
            list[i] = list[count + found];
            list[count + found++] = entry;
            *steps -= cost;
        }
    }
    return found;
}

/* Rounds judge by parts, and a part may be wrong about one choice: dispatches differ late, and the last wave only at the
 * end. So the best few are held against all that differ from them in one choice, for as many steps, until none is better.
 */
static weft_status try_neighbours(weft_search_entries *all, size_t *count, uint64_t limit, double steps,
                                  weft_message *message) {
    size_t before;
    do {
        const double had = steps;
        before = all->list[0].number;
        size_t found = 0;
        for (size_t i = 0; i < BEST && i < *count; i++) {
            found += find_neighbours(all->list, *count + found, all->count, &all->list[i].ranked.schedule, limit, &steps);
        }
        all->tally.planned = all->tally.done + (had - steps);
        const weft_status status = weft_search_simulate(all, all->list + *count, found, limit, message);
        if (status) {
            return status;
        }
        *count = weft_search_sort(all->list, *count + found);
    } while (all->list[0].number != before);
    return WEFT_OK;
}

weft_status weft_search_race(weft_search_entries *all, uint64_t budget, size_t *first, size_t *last, uint64_t *limit,
                             weft_message *message) {
    weft_search_entry *list = all->list;
    size_t count = all->count;
    *first = *last = 0;
    all->tally.planned = fmin((double)budget, all_steps(list, count));
    const int at_once = all->tally.planned < (double)budget;
    const double last_steps = at_once ? 0 : (double)budget / 4;
    double left = (double)budget - last_steps;
    size_t before = 0; /* how many took part in the round before, of which the usual ones may all have stayed */
    for (;;) {
        const double whole = all_steps(list, count);
        const int is_last = whole <= left || count <= LEAST || count == before;
        const double spent = is_last ? left : left / PARTS;
        all->tally.planned = all->tally.done + fmin(whole, left) + last_steps / 2; /* the neighbours may be few */
        count = *first == 0 && !is_last ? thin(list, count, spent) : count;
        *first = *first ? *first : count;
        *limit = whole <= left ? 0 : (uint64_t)(spent / (double)count) + 1;
        const weft_status status = weft_search_simulate(all, list, count, *limit, message);
        if (status) {
            return status;
        }
        before = count;
        const size_t valid = weft_search_sort(list, count);
        if (is_last || valid == 0) {
            *last = valid;
            return valid == 0 ? WEFT_FAILED : at_once ? WEFT_OK : try_neighbours(all, last, *limit, last_steps, message);
        }
        left -= spent;
        count = drop_bounded(list, valid, NEAR * fastest(list, valid));
        const double affordable = left / (all_steps(list, count) / (double)count);
        const size_t fit = affordable < (double)count / 2 ? (size_t)affordable : count / 2;
        const size_t next = fit > count / LEFT ? fit : count / LEFT;
        count = choose(list, count, next > LEAST ? next : LEAST);
        if (count == 0) {
            return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        }
    }
}
