/* The plan's walk over threads. A tile's result depends on the tile and its direction alone, never on who computes it. */
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "plan/status.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
static int omp_get_max_threads(void) {
    return 1;
}
static int omp_get_num_threads(void) {
    return 1;
}
#endif

enum { ALIGNMENT = 64 };

weft_status weft_cpu_check_tile(const weft_plan *plan, weft_message *message) {
    const weft_schedule *s = &plan->schedule;
    if ((double)s->tile_m * (double)s->tile_n > 0x1p28 || s->tile_m > 1 << 20 || s->tile_n > 1 << 20 ||
        s->tile_k > 1 << 20) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "a tile of %lldx%lld is too large for a thread: at most 2^28 elements, 2^20 a side",
                         (long long)s->tile_m, (long long)s->tile_n);
    }
    return WEFT_OK;
}

/* The job of all threads. */
typedef struct crew {
    const weft_plan *plan;
    weft_cpu_work work;
    void *context;
    uint64_t counter; /* of dynamic dispatch */
    int64_t done;     /* tiles */
} crew;

/* Every tile of the visit's cluster is a visit of its own. */
static void visit_cluster(crew *c, float *room, weft_visit visit) {
    const weft_walk *walk = &c->plan->walk;
    const weft_tile first = visit.tile;
    const int64_t tiles = walk->cluster_rows * walk->cluster_cols;
    for (int64_t i = 0; i < tiles; i++) {
        visit.tile.row = first.row + i / walk->cluster_cols;
        visit.tile.col = first.col + i % walk->cluster_cols;
        c->work(c->context, room, &visit);
    }
    const int64_t done = __atomic_add_fetch(&c->done, tiles, __ATOMIC_RELAXED);
    if (c->plan->progress && omp_get_thread_num() == 0) { /* the caller's own thread */
        const int64_t rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
        c->plan->progress(c->plan->progress_user, done, rows * walk->cols);
    }
}

static void run_worker(crew *c, int64_t index, float *room) {
    const weft_walk *walk = &c->plan->walk;
    weft_worker worker = weft_worker_start(walk, index, &c->counter);
    weft_visit visit;
    while (weft_worker_next(walk, &worker, &visit)) {
        visit_cluster(c, room, visit);
    }
}

weft_status weft_cpu_threads(const weft_plan *plan, size_t room, weft_cpu_work work, void *context, weft_message *message) {
    const weft_walk *walk = &plan->walk;
    const int64_t workers = walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : walk->workers;
    const int64_t most = workers < omp_get_max_threads() ? workers : omp_get_max_threads();
    const size_t bytes = (room * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    crew c = {plan, work, context, 0, 0};
    int failed = 0;
#pragma omp parallel num_threads((int)most) reduction(| : failed)
    {
        float *mine = aligned_alloc(ALIGNMENT, bytes);
        failed = mine == NULL;
        if (mine) {
            memset(mine, 0, bytes); /* first touched by the thread that uses it */
            for (int64_t w = omp_get_thread_num(); w < workers; w += omp_get_num_threads()) {
                run_worker(&c, w, mine);
            }
        }
        free(mine);
    }
    if (failed) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu bytes in each of %lld threads", bytes,
                         (long long)most);
    }
    if (plan->progress) {
        plan->progress(plan->progress_user, c.done, c.done);
    }
    return WEFT_OK;
}
