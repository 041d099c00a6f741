/* SPDX-License-Identifier: Apache-2.0 */
/* Work over threads. A tile's result depends on the tile and its direction alone, never on who computes it. */
#include "cpu/thread/walk.h"

#include <string.h>

#include "base/status.h"
#include "cpu/memory.h"
#include "cpu/thread/team.h"

/* The job of all threads: the items of a stage, then what a thread does of worker 0 .. workers - 1. */
typedef struct crew {
    int64_t workers;
    const weft_walk *walk; /* null: items only */
    const weft_cpu_visitor *visitor;
    weft_cpu_stage stage;
    const weft_cpu_kernel *kernel;
    char *scratch;           /* of all threads: one buffer, so that they do not compete for many */
    int64_t threads;         /* that have scratch memory */
    size_t bytes, from_next; /* that a thread asks for, and from one thread's to the next */
    /* What threads write has cache lines of its own, so that reading the rest never waits for them. */
    _Alignas(64) uint64_t counter; /* the next position under dynamic dispatch */
    _Alignas(64) uint64_t next;    /* item */
    _Alignas(64) int64_t done;     /* tiles, where someone wants to know */
} crew;

static void do_items(crew *c, void *scratch) {
    int64_t item; /* the next that nobody has taken */
    while ((item = (int64_t)__atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->stage.count) {
        c->stage.item(c->stage.context, scratch, item);
    }
}

/* One thread on a walk. */
typedef struct walker {
    crew *crew;
    void *scratch;
    int64_t thread, threads;
} walker;

/* Every tile of the visit's cluster is a visit of its own. */
static void visit_cluster(const walker *w, weft_visit visit) {
    const crew *c = w->crew;
    const weft_tile first = visit.tile;
    for (int64_t i = 0; i < c->walk->cluster_rows * c->walk->cluster_cols; i++) {
        visit.tile.row = first.row + i / c->walk->cluster_cols;
        visit.tile.col = first.col + i % c->walk->cluster_cols;
        c->visitor->visit(c->visitor->context, w->scratch, &visit);
    }
}

static void report(const walker *w) {
    crew *c = w->crew;
    const weft_walk *walk = c->walk;
    const int64_t done = __atomic_add_fetch(&c->done, walk->cluster_rows * walk->cluster_cols, __ATOMIC_RELAXED);
    if (w->thread == 0) { /* the caller's own thread */
        const int64_t rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
        c->visitor->progress(c->visitor->progress_user, done, rows * walk->cols);
    }
}

/* One worker's visits. Only the first pass over a worker reports: it meets every tile once. */
static void walk_worker(const walker *w, const weft_walk *walk, int64_t index, int is_first) {
    weft_worker worker = weft_worker_start(walk, index, &w->crew->counter);
    weft_visit visit;
    while (weft_worker_next(walk, &worker, &visit)) {
        visit_cluster(w, visit);
        if (is_first && w->crew->visitor->progress) {
            report(w);
        }
    }
}

/* Workers that have a position; in a grid each position is a worker of its own. */
static int64_t busy_workers(const weft_walk *walk) {
    return walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : weft_cpu_min(walk->workers, walk->order.count);
}

/* One pass over what the others have, however many they are: so each thread meets a tile at most once more. A position that
 * a dynamic worker drew has the direction that it has in a grid. */
static void steal(const walker *w) {
    weft_walk walk = *w->crew->walk;
    const int is_drawn = walk.dispatch == WEFT_DISPATCH_DYNAMIC;
    walk.dispatch = is_drawn ? WEFT_DISPATCH_GRID : walk.dispatch;
    const int64_t busy = busy_workers(&walk);
    for (int64_t i = 0; i < busy; i++) {
        const int64_t index = (w->thread + i) % busy;
        if (is_drawn || index % w->threads != w->thread) {
            walk_worker(w, &walk, index, 0);
        }
    }
}

/* A thread is worker `thread`, `thread` + `threads`, and so on. */
static void walk_thread(const walker *w) {
    const weft_walk *walk = w->crew->walk;
    for (int64_t index = w->thread; index < busy_workers(walk); index += w->threads) {
        walk_worker(w, walk, index, 1);
    }
    if (w->crew->visitor->steals) {
        steal(w);
    }
}

static void do_part(void *context, int64_t thread, int64_t threads) {
    crew *c = context;
    if (c->kernel && c->kernel->start) {
        c->kernel->start();
    }
    char *mine = thread < c->threads ? c->scratch + c->from_next * (size_t)thread : NULL;
    if (mine) { /* each thread first touches the part that it uses */
        memset(mine, 0, c->bytes < 64 ? c->bytes : 64);
    }
    if (c->stage.count > 0) {
        do_items(c, mine);
        weft_cpu_team_wait();
    }
    if (thread < c->workers) {
        walk_thread(&(walker){c, mine, thread, weft_cpu_min(c->workers, threads)});
    }
    if (c->kernel && c->kernel->stop) {
        c->kernel->stop();
    }
}

static weft_status run_crew(crew *c, weft_message *message) {
    enum { PAGE = 4096 };
    const int alone = c->workers <= 1 && c->stage.count <= 1;
    const int64_t threads = alone ? 1 : weft_cpu_threads();
    c->threads = c->workers > 0 ? weft_cpu_min(c->workers, threads) : threads;
    const double bytes = ((double)c->bytes + PAGE) * (double)c->threads;
    c->from_next = bytes < 0x1p62 ? (c->bytes + PAGE - 1) / PAGE * PAGE : 0;
    c->scratch = bytes < 0x1p62 ? weft_cpu_alloc(c->from_next * (size_t)c->threads) : NULL;
    if (!c->scratch) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu bytes in each of %lld threads", c->bytes,
                         (long long)c->threads);
    }
    weft_cpu_team(alone, do_part, c);
    weft_cpu_free(c->scratch);
    return WEFT_OK;
}

weft_status weft_cpu_walk(const weft_walk *walk, const weft_cpu_visitor *visitor, weft_message *message) {
    crew c = {.workers = visitor->steals ? walk->workers : weft_cpu_min(walk->workers, walk->order.count),
              .walk = walk,
              .visitor = visitor,
              .stage = visitor->before,
              .kernel = visitor->kernel,
              .bytes = visitor->scratch};
    const weft_status status = run_crew(&c, message);
    if (status == WEFT_OK && visitor->progress) {
        visitor->progress(visitor->progress_user, c.done, c.done);
    }
    return status;
}

weft_status weft_cpu_each(int64_t count, const weft_cpu_kernel *kernel, size_t scratch, weft_cpu_item item, void *context,
                          weft_message *message) {
    crew c = {.stage = {count, item, context}, .kernel = kernel, .bytes = scratch};
    return run_crew(&c, message);
}

typedef struct plain_visit {
    void (*visit)(void *context, const weft_visit *visit);
    void *context;
} plain_visit;

static void visit_plainly(void *context, void *scratch, const weft_visit *visit) {
    const plain_visit *plain = context;
    (void)scratch;
    plain->visit(plain->context, visit);
}

weft_status weft_cpu_run_tiles(const weft_walk *walk, void (*visit)(void *context, const weft_visit *visit), void *context,
                               weft_progress progress, void *user, weft_message *message) {
    plain_visit plain = {visit, context};
    const weft_cpu_visitor visitor = {
        .visit = visit_plainly, .context = &plain, .progress = progress, .progress_user = user};
    return weft_cpu_walk(walk, &visitor, message);
}

weft_cpu_taken *weft_cpu_taken_new(int64_t tiles) {
    const double bytes = (double)tiles * sizeof(weft_cpu_taken);
    weft_cpu_taken *taken = bytes < 0x1p62 ? weft_cpu_alloc((size_t)bytes) : NULL;
    if (taken) {
        memset(taken, 0, (size_t)bytes);
    }
    return taken;
}
