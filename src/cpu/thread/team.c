/* Work over threads. A tile's result depends on the tile and its direction alone, never on who computes it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "plan/file.h"
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

static int64_t owner; /* the first process to take threads; 0: none yet */

/* OpenMP's threads do not survive a fork, and a child that waits for them waits forever; so a child of a process that had
 * threads works alone. */
int64_t weft_cpu_threads(void) {
    const int64_t taker = __atomic_load_n(&owner, __ATOMIC_RELAXED);
    return taker == 0 || taker == getpid() ? omp_get_max_threads() : 1;
}

static int shares;
static pthread_once_t asked = PTHREAD_ONCE_INIT;

/* Linux lists the processors that are of the first one's core: "0", or "0,8", or "0-1". */
static void ask_siblings(void) {
    char line[32];
    shares = !weft_file_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", line, sizeof line) ||
             strpbrk(line, ",-") != NULL;
}

int weft_cpu_shares_cores(void) {
    pthread_once(&asked, ask_siblings);
    return shares;
}

/* The same, by whom they are taken. */
static int64_t threads_here(void) {
    int64_t nobody = 0;
    __atomic_compare_exchange_n(&owner, &nobody, (int64_t)getpid(), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return weft_cpu_threads();
}

/* One thread, or all of them even where there is less to do: OpenMP's threads end when a team is smaller than the last, and
 * new ones take longer to start than a small product to compute. */
void weft_cpu_team(int alone, void (*body)(void *context, int64_t thread, int64_t threads), void *context) {
    const int64_t threads = alone ? 1 : threads_here();
#pragma omp parallel num_threads((int)threads)
    body(context, omp_get_thread_num(), omp_get_num_threads());
}

/* Items that a team shares out. */
typedef struct shared_items {
    int64_t count, next;
    void (*item)(void *context, int64_t i);
    void *context;
} shared_items;

static void take_items(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    shared_items *s = context;
    int64_t i;
    while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->count) {
        s->item(s->context, i);
    }
}

void weft_cpu_for(int64_t count, void (*item)(void *context, int64_t i), void *context) {
    shared_items s = {count, 0, item, context};
    weft_cpu_team(count < 2, take_items, &s);
}

/* The job of all threads: the items of a stage, then what a thread does of worker 0 .. workers - 1. */
typedef struct crew {
    void (*work)(struct crew *crew, void *room, int64_t thread, int64_t threads);
    int64_t workers;
    const weft_plan *plan; /* of a walk */
    const weft_cpu_walking *how;
    weft_cpu_stage stage; /* the items; before a walk, done by all when the walk begins */
    /* What threads write has cache lines of its own, so that reading the rest never waits for them. */
    _Alignas(64) uint64_t counter; /* the next position under dynamic dispatch */
    _Alignas(64) uint64_t next;    /* item */
    _Alignas(64) int64_t done;     /* tiles, where someone wants to know */
} crew;

static void do_items(crew *c, void *room) {
    int64_t item; /* the next that nobody has taken */
    while ((item = (int64_t)__atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->stage.count) {
        c->stage.item(c->stage.context, room, item);
    }
}

/* Room for each thread that works: one buffer, so that they do not compete for many. */
typedef struct crew_rooms {
    crew *crew;
    const weft_cpu_kernel *kernel;
    char *rooms;
    int64_t count;     /* of rooms */
    size_t room, part; /* bytes that a thread asks for, and from one room to the next */
} crew_rooms;

static void do_part(void *context, int64_t thread, int64_t threads) {
    const crew_rooms *r = context;
    crew *c = r->crew;
    if (r->kernel->start) {
        r->kernel->start();
    }
    char *mine = thread < r->count ? r->rooms + r->part * (size_t)thread : NULL;
    if (mine) { /* each thread first touches the part that it uses */
        memset(mine, 0, r->room < 64 ? r->room : 64);
    }
    if (c->stage.count > 0) {
        do_items(c, mine);
#pragma omp barrier
    }
    if (thread < c->workers) {
        c->work(c, mine, thread, weft_cpu_smaller(c->workers, threads));
    }
    if (r->kernel->stop) {
        r->kernel->stop();
    }
}

static weft_status run_crew(crew *c, const weft_cpu_kernel *kernel, size_t room, weft_message *message) {
    enum { PAGE = 4096 };
    const int alone = c->workers <= 1 && c->stage.count <= 1;
    const int64_t threads = alone ? 1 : weft_cpu_threads();
    const int64_t count = c->workers > 0 ? weft_cpu_smaller(c->workers, threads) : threads;
    const double bytes = ((double)room + PAGE) * (double)count;
    const size_t part = bytes < 0x1p62 ? (room + PAGE - 1) / PAGE * PAGE : 0;
    char *rooms = bytes < 0x1p62 ? weft_cpu_alloc(part * (size_t)count) : NULL;
    if (!rooms) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu bytes in each of %lld threads", room,
                         (long long)count);
    }
    crew_rooms r = {c, kernel, rooms, count, room, part};
    weft_cpu_team(alone, do_part, &r);
    weft_cpu_free(rooms);
    return WEFT_OK;
}

/* Every tile of the visit's cluster is a visit of its own. */
static void visit_cluster(crew *c, void *room, weft_visit visit) {
    const weft_walk *walk = &c->plan->walk;
    const weft_tile first = visit.tile;
    for (int64_t i = 0; i < walk->cluster_rows * walk->cluster_cols; i++) {
        visit.tile.row = first.row + i / walk->cluster_cols;
        visit.tile.col = first.col + i % walk->cluster_cols;
        c->how->visit(c->how->context, room, &visit);
    }
}

weft_cpu_taken *weft_cpu_taken_new(int64_t tiles) {
    const double bytes = (double)tiles * sizeof(weft_cpu_taken);
    weft_cpu_taken *taken = bytes < 0x1p62 ? weft_cpu_alloc((size_t)bytes) : NULL;
    if (taken) {
        memset(taken, 0, (size_t)bytes);
    }
    return taken;
}

static void report(crew *c) {
    const weft_walk *walk = &c->plan->walk;
    const int64_t done = __atomic_add_fetch(&c->done, walk->cluster_rows * walk->cluster_cols, __ATOMIC_RELAXED);
    if (omp_get_thread_num() == 0) { /* the caller's own thread */
        const int64_t rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
        c->plan->progress(c->plan->progress_user, done, rows * walk->cols);
    }
}

/* One worker's visits. Only the first pass over a worker reports: it meets every tile once. */
static void walk_worker(crew *c, const weft_walk *walk, void *room, int64_t index, int is_first) {
    weft_worker worker = weft_worker_start(walk, index, &c->counter);
    weft_visit visit;
    while (weft_worker_next(walk, &worker, &visit)) {
        visit_cluster(c, room, visit);
        if (is_first && c->plan->progress) {
            report(c);
        }
    }
}

/* Workers that have a position; in a grid each position is a worker of its own. */
static int64_t busy_workers(const weft_walk *walk) {
    return walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : weft_cpu_smaller(walk->workers, walk->order.count);
}

/* One pass over what the others have, however many they are: so each thread meets a tile at most once more. A position that
 * a dynamic worker drew has the direction that it has in a grid. */
static void steal(crew *c, void *room, int64_t thread, int64_t threads) {
    weft_walk walk = c->plan->walk;
    const int is_drawn = walk.dispatch == WEFT_DISPATCH_DYNAMIC;
    walk.dispatch = is_drawn ? WEFT_DISPATCH_GRID : walk.dispatch;
    const int64_t busy = busy_workers(&walk);
    for (int64_t i = 0; i < busy; i++) {
        const int64_t w = (thread + i) % busy;
        if (is_drawn || w % threads != thread) {
            walk_worker(c, &walk, room, w, 0);
        }
    }
}

/* A thread is worker `thread`, `thread` + `threads`, and so on. */
static void walk_thread(crew *c, void *room, int64_t thread, int64_t threads) {
    const weft_walk *walk = &c->plan->walk;
    for (int64_t w = thread; w < busy_workers(walk); w += threads) {
        walk_worker(c, walk, room, w, 1);
    }
    if (c->how->steals) {
        steal(c, room, thread, threads);
    }
}

weft_status weft_cpu_walk(const weft_plan *plan, const weft_cpu_kernel *kernel, const weft_cpu_walking *how,
                          weft_message *message) {
    const weft_walk *walk = &plan->walk;
    const int64_t workers = how->steals ? walk->workers : weft_cpu_smaller(walk->workers, walk->order.count);
    crew c = {.work = walk_thread, .workers = workers, .plan = plan, .how = how, .stage = how->before};
    const weft_status status = run_crew(&c, kernel, how->room, message);
    if (status == WEFT_OK && plan->progress) {
        plan->progress(plan->progress_user, c.done, c.done);
    }
    return status;
}

weft_status weft_cpu_each(int64_t count, const weft_cpu_kernel *kernel, size_t room, weft_cpu_item item, void *context,
                          weft_message *message) {
    crew c = {.stage = {count, item, context}};
    return run_crew(&c, kernel, room, message);
}
