/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/rounds.h"
#include "base/status.h"

#include <stdlib.h>

typedef struct rounds {
    const weft_plan *plan;
    weft_grid tiles;
    weft_ref_work work;
    void *context;
    int64_t done; /* tiles */
} rounds;

/* Every tile of the cluster that begins at the visit's tile; a cluster at the edge may reach over it. */
static void visit_cluster(rounds *r, const weft_visit *visit) {
    const weft_walk *walk = &r->plan->walk;
    for (int64_t i = 0; i < walk->cluster_rows; i++) {
        for (int64_t j = 0; j < walk->cluster_cols; j++) {
            const weft_tile tile = weft_tile_at(visit->tile.batch, visit->tile.row + i, visit->tile.col + j);
            if (tile.row >= r->tiles.rows || tile.col >= r->tiles.cols) {
                continue;
            }
            r->work(r->context, visit, tile);
            r->done++;
            if (r->plan->progress) {
                r->plan->progress(r->plan->progress_user, r->done, r->tiles.batch * r->tiles.rows * r->tiles.cols);
            }
        }
    }
}

static void run_grid(rounds *r) {
    const weft_walk *walk = &r->plan->walk;
    for (int64_t position = 0; position < walk->order.count; position++) {
        weft_worker worker = weft_worker_start(walk, position, NULL);
        weft_visit visit;
        while (weft_worker_next(walk, &worker, &visit)) {
            visit_cluster(r, &visit);
        }
    }
}

static weft_status run_persistent(rounds *r, weft_message *message) {
    const weft_walk *walk = &r->plan->walk;
    /* Workers beyond the number of positions would find nothing to do. */
    const int64_t count = walk->workers < walk->order.count ? walk->workers : walk->order.count;
    weft_worker *workers = calloc((size_t)count, sizeof *workers);
    if (!workers) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers", (long long)count);
    }
    uint64_t counter = 0;
    for (int64_t w = 0; w < count; w++) {
        workers[w] = weft_worker_start(walk, w, &counter);
    }
    int busy; /* a worker that is done stays done: asking it again is harmless */
    do {
        busy = 0;
        for (int64_t w = 0; w < count; w++) {
            weft_visit visit;
            if (weft_worker_next(walk, &workers[w], &visit)) {
                visit_cluster(r, &visit);
                busy = 1;
            }
        }
    } while (busy);
    free(workers);
    return WEFT_OK;
}

weft_status weft_ref_rounds(const weft_plan *plan, weft_grid tiles, weft_ref_work work, void *context,
                            weft_message *message) {
    rounds r = {plan, tiles, work, context, 0};
    if (plan->walk.dispatch == WEFT_DISPATCH_GRID) {
        run_grid(&r);
        return WEFT_OK;
    }
    return run_persistent(&r, message);
}
