/* SPDX-License-Identifier: Apache-2.0 */
/* Which part a group of ranks takes at a step, what it needs of it, and who sends that. */
#include <stdlib.h>

#include "base/status.h"
#include "dist/kinds.h"

int64_t weft_dist_order_step(const weft_dist *dist, int64_t step) {
    const int back = dist->adds && dist->ranks.sweep == WEFT_SWEEP_SAWTOOTH;
    return back ? dist->rings - 1 - step : step;
}

int64_t weft_ranges_rows(const weft_range *ranges, size_t count) {
    int64_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        rows += ranges[i].end - ranges[i].begin;
    }
    return rows;
}

/* The keys of a hop's slices: ranges, ascending and apart. There are few, and most come in order. */
static weft_status find_needed(weft_hop *hop, weft_message *message) {
    const weft_dist_slices *slices = &hop->slices;
    hop->needed_count = 0;
    if (hop->room < slices->count) {
        weft_range *grown = realloc(hop->needed, slices->count * sizeof *grown);
        if (!grown) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for the keys that a rank needs");
        }
        hop->needed = grown;
        hop->room = slices->count;
    }
    for (size_t i = 0; i < slices->count; i++) {
        size_t at = i;
        for (; at > 0 && hop->needed[at - 1].begin > slices->list[i].keys.begin; at--) {
            hop->needed[at] = hop->needed[at - 1];
        }
        hop->needed[at] = slices->list[i].keys;
    }
    for (size_t i = 0; i < slices->count; i++) {
        const weft_range next = hop->needed[i];
        weft_range *last = hop->needed_count ? &hop->needed[hop->needed_count - 1] : NULL;
        if (last && next.begin <= last->end) {
            last->end = next.end > last->end ? next.end : last->end;
        } else {
            hop->needed[hop->needed_count++] = next;
        }
    }
    return WEFT_OK;
}

/* Whether the first ranges hold all rows of the others. */
static int covers(const weft_range *all, size_t count, const weft_range *some, size_t some_count) {
    size_t at = 0;
    for (size_t i = 0; i < some_count; i++) {
        while (at < count && all[at].end < some[i].end) {
            at++;
        }
        if (at == count || all[at].begin > some[i].begin) {
            return 0;
        }
    }
    return 1;
}

void weft_hop_free(weft_hop *hop) {
    weft_dist_slices_free(&hop->slices);
    free(hop->needed);
    free(hop->earlier);
    *hop = (weft_hop){0};
}

/* The part that a group takes along the ring, and who takes a part, at the n-th of the pass's parts. */
static int64_t part_at(const weft_dist *dist, int64_t ring_rank, int64_t along) {
    return weft_ring_part(&dist->ring, ring_rank, weft_dist_order_step(dist, along));
}

static int64_t taker_at(const weft_dist *dist, int64_t part, int64_t along) {
    return weft_ring_taker(&dist->ring, part, weft_dist_order_step(dist, along));
}

/* Whether parts are passed on from group to group. */
static int passes_on(const weft_dist *dist) {
    return dist->ranks.exchange == WEFT_EXCHANGE_RING && dist->pieces == 1;
}

weft_status weft_hop_needs(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_hop *hop, weft_message *message) {
    const int64_t part = part_at(dist, ring_rank, step / dist->pieces), piece = step % dist->pieces;
    const int64_t rows = weft_dist_group_of(dist, part, WEFT_KEY_ROWS).rows;
    const int64_t most = dist->pieces > 1 ? dist->ranks.most_keys : rows;
    hop->step = step;
    hop->part = part;
    hop->piece = piece;
    hop->source = hop->adds_to = ring_rank;
    hop->adds_from = -1;
    hop->adds_end = 0;
    hop->keys.begin = weft_smaller(piece * most, rows);
    hop->keys.end = weft_smaller(hop->keys.begin + most, rows);
    hop->slices.count = 0;
    const weft_status status = dist->kind->slices(dist, ring_rank, part, hop->keys, &hop->slices, message);
    return status ? status : find_needed(hop, message);
}

int64_t weft_hop_before(const weft_dist *dist, const weft_hop *hop) {
    const int64_t along = hop->step - weft_ring_lag(&dist->ring);
    return passes_on(dist) && along >= 0 ? taker_at(dist, hop->part, along) : -1;
}

int64_t weft_hop_after(const weft_dist *dist, const weft_hop *hop) {
    const int64_t along = hop->step + weft_ring_lag(&dist->ring);
    return passes_on(dist) && along < dist->rings ? taker_at(dist, hop->part, along) : -1;
}

/* Keys come from who had the part before by the order, if that needed as much; else from whose they are. Gradients go on
 * likewise. */
void weft_hop_join(const weft_dist *dist, int64_t ring_rank, weft_hop *hop, const weft_hop *before, const weft_hop *after) {
    const int64_t from = weft_hop_before(dist, hop), to = weft_hop_after(dist, hop);
    if (hop->part == ring_rank || hop->needed_count == 0) {
        return;
    }
    hop->source = hop->part;
    if (from >= 0 && covers(before->needed, before->needed_count, hop->needed, hop->needed_count)) {
        hop->source = from;
    }
    if (!dist->adds) {
        return;
    }
    hop->adds_to = hop->part;
    hop->adds_end = 1;
    if (from >= 0 && from != hop->part && before->needed_count > 0 &&
        covers(hop->needed, hop->needed_count, before->needed, before->needed_count)) {
        hop->adds_from = from;
    }
    if (to >= 0 && to != hop->part && covers(after->needed, after->needed_count, hop->needed, hop->needed_count)) {
        hop->adds_to = to;
        hop->adds_end = 0;
    }
}

/* What another group needs of a hop's part; nothing where there is no such group. */
static weft_status needs_of(const weft_dist *dist, const weft_hop *hop, int64_t other, int64_t lag, weft_hop *theirs,
                            weft_message *message) {
    return other >= 0 ? weft_hop_needs(dist, other, hop->step + lag, theirs, message) : WEFT_OK;
}

weft_status weft_hop_at(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_hop *hop, weft_message *message) {
    const int64_t lag = weft_ring_lag(&dist->ring);
    const int back = dist->adds;
    weft_hop before = {0}, after = {0};
    *hop = (weft_hop){0};
    weft_status status = weft_hop_needs(dist, ring_rank, step, hop, message);
    if (!status && hop->needed_count > 0 && hop->part != ring_rank) {
        status = needs_of(dist, hop, weft_hop_before(dist, hop), -lag, &before, message);
        status = status || !back ? status : needs_of(dist, hop, weft_hop_after(dist, hop), lag, &after, message);
    }
    if (!status) {
        weft_hop_join(dist, ring_rank, hop, &before, &after);
    }
    if (!status && hop->adds_from >= 0) {
        hop->earlier = before.needed;
        hop->earlier_count = before.needed_count;
        before.needed = NULL;
    }
    weft_hop_free(&before);
    weft_hop_free(&after);
    if (status) {
        weft_hop_free(hop);
    }
    return status;
}

void weft_moves_free(weft_move *moves, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(moves[i].ranges);
    }
}

/* Keys for whoever takes a part at a step, if it is this group that sends them. */
static weft_status add_keys(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_move_kind kind, int64_t part,
                            weft_move *moves, size_t *count, weft_message *message) {
    const int64_t along = step / dist->pieces, to = taker_at(dist, part, along);
    weft_hop hop;
    const weft_status status = to == ring_rank ? WEFT_OK : weft_hop_at(dist, to, step, &hop, message);
    if (to == ring_rank || status) {
        return status;
    }
    if (hop.source == ring_rank && hop.needed_count > 0) {
        const int64_t from = kind == WEFT_MOVE_ON ? step - weft_ring_lag(&dist->ring) : step;
        moves[(*count)++] = (weft_move){kind, to, from, hop.keys.begin, hop.needed, hop.needed_count};
        hop.needed = NULL;
    }
    weft_hop_free(&hop);
    return WEFT_OK;
}

weft_status weft_moves_at(const weft_dist *dist, int64_t ring_rank, int64_t step, weft_move moves[WEFT_MOVES],
                          size_t *count, weft_message *message) {
    const int64_t along = step / dist->pieces, before = along - weft_ring_lag(&dist->ring);
    weft_hop hop;
    *count = 0;
    weft_status status = add_keys(dist, ring_rank, step, WEFT_MOVE_OWN, ring_rank, moves, count, message);
    if (!status && passes_on(dist) && before >= 0 && part_at(dist, ring_rank, before) != ring_rank) {
        const int64_t part = part_at(dist, ring_rank, before);
        status = add_keys(dist, ring_rank, step, WEFT_MOVE_ON, part, moves, count, message);
    }
    if (!status && dist->adds) {
        status = weft_hop_at(dist, ring_rank, step, &hop, message);
        if (!status && hop.needed_count > 0 && hop.adds_to != ring_rank) {
            moves[(*count)++] =
                (weft_move){WEFT_MOVE_ADDS, hop.adds_to, step, hop.keys.begin, hop.needed, hop.needed_count};
            hop.needed = NULL;
        }
        weft_hop_free(&hop);
    }
    if (status) {
        weft_moves_free(moves, *count);
        *count = 0;
    }
    return status;
}
