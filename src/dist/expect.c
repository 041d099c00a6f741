/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank sends and receives in a run, by the steps that it will take. */
#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"

/* What a group sends for a step: either tensor of each range is a message. */
static weft_status count_moves(const weft_dist *dist, int64_t ring_rank, int64_t step, int kept, weft_dist_traffic *sum,
                               weft_message *message) {
    weft_move moves[WEFT_MOVES];
    size_t count;
    const weft_status status = weft_moves_at(dist, ring_rank, step, moves, &count, message);
    for (size_t i = 0; i < count && !status; i++) {
        const int adds = moves[i].kind == WEFT_MOVE_ADDS;
        const uint64_t rows = (uint64_t)weft_ranges_rows(moves[i].ranges, moves[i].count);
        if (adds || !kept || step > 0) {
            sum->sent += rows * (adds ? weft_dist_add_bytes(dist) : weft_dist_key_bytes(dist));
            sum->messages += weft_dist_messages(dist, adds) * moves[i].count;
        }
    }
    if (!status) {
        weft_moves_free(moves, count);
    }
    return status;
}

weft_status weft_dist_expect(const weft_dist *dist, int64_t rank, int32_t kept, weft_dist_traffic *traffic,
                             weft_message *message) {
    weft_dist_traffic t = WEFT_DIST_TRAFFIC_INIT;
    if (!dist || rank < 0 || rank >= dist->ranks.ranks) {
        return weft_fail(message, WEFT_INVALID, "rank %lld is not one of %lld", (long long)rank,
                         (long long)(dist ? dist->ranks.ranks : 0));
    }
    const int64_t mine = rank / dist->ranks.head_ranks;
    const int back = dist->adds;
    weft_status status = WEFT_OK;
    kept = kept && back && weft_dist_kept(dist) > 0;
    for (int64_t step = 0; step < dist->steps && !status; step++) {
        weft_hop hop;
        status = count_moves(dist, mine, step, kept, &t, message);
        status = status ? status : weft_hop_at(dist, mine, step, &hop, message);
        if (status) {
            break;
        }
        if (hop.source != mine && hop.needed_count > 0 && !(kept && step == 0)) {
            t.received += (uint64_t)weft_ranges_rows(hop.needed, hop.needed_count) * weft_dist_key_bytes(dist);
        }
        t.received += (uint64_t)weft_ranges_rows(hop.earlier, hop.earlier_count) * weft_dist_add_bytes(dist);
        weft_hop_free(&hop);
        const int64_t taker = weft_ring_taker(&dist->ring, mine, weft_dist_order_step(dist, step / dist->pieces));
        if (back && taker != mine && !(status = weft_hop_at(dist, taker, step, &hop, message))) {
            t.received +=
                hop.adds_end ? (uint64_t)weft_ranges_rows(hop.needed, hop.needed_count) * weft_dist_add_bytes(dist) : 0;
            weft_hop_free(&hop);
        }
    }
    if (status) {
        return status;
    }
    if (dist->ranks.head_ranks > 1) {
        t.sent += weft_dist_heads_bytes(dist, rank, 1);
        t.received += weft_dist_heads_bytes(dist, rank, 0);
        t.messages += (uint64_t)weft_dist_heads_messages(dist);
    }
    const uint64_t others = (uint64_t)dist->ranks.ranks - 1, told = dist->kind->told(dist);
    t.sent += others * told;
    t.received += others * told;
    t.messages += told > 0 ? others : 0;
    return weft_struct_give(traffic, &t, sizeof t, sizeof(size_t), "WEFT_DIST_TRAFFIC_INIT", message);
}
