/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/reuse.h"

#include <stdlib.h>
#include <string.h>

int weft_reuse_init(weft_reuse *reuse, uint32_t ids, uint64_t sectors) {
    memset(reuse, 0, sizeof *reuse);
    reuse->ids = ids;
    reuse->room = ids * 2 + 64;
    reuse->bins = sectors / WEFT_REUSE_BIN + 2;
    reuse->last = calloc(ids, sizeof *reuse->last);
    reuse->weight_of = calloc(ids, sizeof *reuse->weight_of);
    reuse->piece_at = calloc((size_t)reuse->room + 1, sizeof *reuse->piece_at);
    reuse->tree = calloc((size_t)reuse->room + 1, sizeof *reuse->tree);
    reuse->histogram = calloc(reuse->bins, sizeof *reuse->histogram);
    return reuse->last && reuse->weight_of && reuse->piece_at && reuse->tree && reuse->histogram;
}

void weft_reuse_release(weft_reuse *reuse) {
    free(reuse->last);
    free(reuse->weight_of);
    free(reuse->piece_at);
    free(reuse->tree);
    free(reuse->histogram);
    memset(reuse, 0, sizeof *reuse);
}

static void add(weft_reuse *reuse, uint32_t moment, int64_t weight) {
    for (; moment <= reuse->room; moment += moment & (~moment + 1)) {
        reuse->tree[moment] += weight;
    }
}

static int64_t sum_to(const weft_reuse *reuse, uint32_t moment) {
    int64_t sum = 0;
    for (; moment > 0; moment &= moment - 1) {
        sum += reuse->tree[moment];
    }
    return sum;
}

/* Moments run out: number the last touches anew, in their order. */
static void renumber(weft_reuse *reuse) {
    uint32_t next = 0;
    for (uint32_t moment = 1; moment <= reuse->now; moment++) {
        const uint32_t id = reuse->piece_at[moment];
        if (id < reuse->ids && reuse->last[id] == moment) {
            reuse->last[id] = ++next;
            reuse->piece_at[next] = id;
        }
    }
    reuse->now = next;
    memset(reuse->tree, 0, ((size_t)reuse->room + 1) * sizeof *reuse->tree);
    for (uint32_t moment = 1; moment <= next; moment++) {
        add(reuse, moment, reuse->weight_of[reuse->piece_at[moment]]);
    }
}

/* Bin 4 i + f holds distances from 2^i (1 + f / 4) sectors. */
static unsigned profile_bin(uint64_t distance) {
    unsigned power = 0;
    while (power < 31 && distance >> (power + 1) != 0) {
        power++;
    }
    return 4 * power + (unsigned)((power >= 2 ? distance >> (power - 2) : distance << (2 - power)) & 3);
}

static void count(weft_reuse *reuse, int64_t distance, uint32_t sectors) {
    if (reuse->profile) {
        reuse->profile[profile_bin((uint64_t)distance)] += sectors;
    }
    const uint64_t bin = (uint64_t)distance / WEFT_REUSE_BIN;
    reuse->histogram[bin < reuse->bins ? bin : reuse->bins - 1] += sectors;
}

/* `counted` is how many sectors may hit or miss. */
static void touch(weft_reuse *reuse, uint32_t id, uint32_t weight, uint32_t counted) {
    const uint32_t last = reuse->last[id];
    if (last == reuse->now && last != 0) { /* touched again at once: only itself lies between */
        count(reuse, weight, counted);
        return;
    }
    if (last == 0) {
        reuse->cold += counted;
        if (reuse->profile) {
            reuse->profile[WEFT_PROFILE_FIRST] += counted;
        }
    } else {
        count(reuse, sum_to(reuse, reuse->now) - sum_to(reuse, last - 1), counted);
        add(reuse, last, -(int64_t)reuse->weight_of[id]);
    }
    if (reuse->now == reuse->room) {
        reuse->last[id] = 0;
        renumber(reuse);
    }
    reuse->last[id] = ++reuse->now;
    reuse->piece_at[reuse->now] = id;
    reuse->weight_of[id] = weight;
    add(reuse, reuse->now, weight);
}

void weft_reuse_read(weft_reuse *reuse, uint32_t id, uint32_t weight) {
    touch(reuse, id, weight, weight);
}

void weft_reuse_write(weft_reuse *reuse, uint32_t id, uint32_t weight, int misses) {
    reuse->cold += misses ? weight : 0;
    touch(reuse, id, weight, 0);
}

uint64_t weft_reuse_misses(const weft_reuse *reuse, uint64_t capacity) {
    uint64_t misses = reuse->cold;
    for (uint64_t bin = (capacity + WEFT_REUSE_BIN) / WEFT_REUSE_BIN; bin < reuse->bins; bin++) {
        misses += reuse->histogram[bin];
    }
    return misses;
}
