/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over threads: every tile is visited, and stealing costs one more look at a tile for each thread, however many
 * workers a schedule has. */
#include "../../ref/tensors.h"

#include <unistd.h>

#include "../../plans.h"
#include "cpu/thread/walk.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { HEADS = 3, BLOCKS = 7, TILES = HEADS * BLOCKS, THREADS = 4 };

typedef struct tally {
    int visits[TILES];
} tally;

static void count_visit(void *context, void *room, const weft_visit *visit) {
    tally *t = context;
    assert_non_null(room);
    __atomic_fetch_add(&t->visits[visit->tile.head * BLOCKS + visit->tile.block], 1, __ATOMIC_RELAXED);
}

static weft_attention problem(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = HEADS;
    p.seq = 8 * BLOCKS;
    p.kv_seq = 24;
    p.head_dim = 16;
    p.dtype = WEFT_FP32;
    return p;
}

static weft_schedule schedule_of(int64_t workers, int32_t dispatch) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = 8;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.workers = workers;
    s.dispatch = dispatch;
    return s;
}

static void visits_do_not_grow_with_workers(void **state) {
    (void)state;
#ifdef _OPENMP
    omp_set_num_threads(THREADS);
#endif
    static const int64_t workers[] = {1, 3, THREADS, TILES, 64, 1000};
    const weft_attention p = problem();
    for (int32_t dispatch = 1; dispatch <= WEFT_DISPATCHES; dispatch++) {
        for (size_t i = 0; i < 2 * sizeof workers / sizeof *workers; i++) {
            const weft_schedule s = schedule_of(workers[i / 2], dispatch);
            const int steals = i % 2;
            tally t = {{0}};
            weft_plan *plan;
            assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
            const weft_cpu_visitor visitor = {.visit = count_visit, .context = &t, .scratch = 64, .steals = steals};
            assert_int_equal(weft_cpu_walk(weft_plan_walk(plan, sizeof(weft_walk)), &visitor, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            for (int tile = 0; tile < TILES; tile++) {
                assert_in_range(t.visits[tile], 1, steals ? THREADS + 1 : 1); /* dynamic: its drawer looks again */
            }
        }
    }
}

typedef struct trace {
    tally t;
    int64_t done, total, calls;
    int place; /* visits so far */
    int order[TILES];
} trace;

static void trace_visit(void *context, const weft_visit *visit) {
    trace *t = context;
    const int tile = (int)(visit->tile.head * BLOCKS + visit->tile.block);
    __atomic_fetch_add(&t->t.visits[tile], 1, __ATOMIC_RELAXED);
    t->order[__atomic_fetch_add(&t->place, 1, __ATOMIC_RELAXED) % TILES] = tile;
}

static void tick(void *user, int64_t done, int64_t total) {
    trace *t = user;
    assert_true(done >= t->done && done <= total);
    t->done = done;
    t->total = total;
    t->calls++;
}

/* An operation without kernels: every tile once, one worker's in the walk's order, and progress to the end. */
static void tiles_without_kernels(void **state) {
    (void)state;
    const weft_attention p = problem();
    for (int i = 0; i < 3 * WEFT_DISPATCHES; i++) {
#ifdef _OPENMP
        omp_set_num_threads(1 + i);
#endif
        const weft_schedule s = schedule_of(i < WEFT_DISPATCHES ? 1 : i, 1 + i % WEFT_DISPATCHES);
        weft_plan *plan;
        trace t = {.place = 0};
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        const weft_walk *walk = weft_plan_walk(plan, sizeof(weft_walk));
        assert_int_equal(weft_cpu_run_tiles(walk, trace_visit, &t, tick, &t, NULL), WEFT_OK);
        assert_int_equal(t.place, TILES);
        for (int tile = 0; tile < TILES; tile++) {
            const weft_tile at = weft_order_tile(&walk->order, tile);
            assert_int_equal(t.t.visits[tile], 1);
            assert_true(i >= WEFT_DISPATCHES || t.order[tile] == at.head * BLOCKS + at.block);
        }
        assert_true(t.calls >= 1 && t.done == TILES && t.total == TILES);
        t = (trace){.place = 0};
        assert_int_equal(weft_cpu_run_tiles(walk, trace_visit, &t, NULL, NULL, NULL), WEFT_OK);
        assert_true(t.place == TILES && t.calls == 0);
        weft_plan_destroy(plan);
    }
}

/* The bits of one worker, in a time that a look of each worker at each other would exceed a thousandfold. */
static void very_many_workers(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    const weft_attention p = problem();
    tensors t = tensors_new(&random, &p);
    float *first = malloc(t.size.o * sizeof *first);
    assert_non_null(first);
    alarm(3600); /* ends a walk that would take hours */
    for (int64_t workers = 1; workers <= 1000000; workers *= 1000000) {
        const weft_schedule s = schedule_of(workers, WEFT_DISPATCH_STATIC);
        weft_plan *plan;
        tensors_poison_outputs(&t);
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &t.data, NULL), WEFT_OK);
        weft_plan_destroy(plan);
        if (workers == 1) {
            memcpy(first, t.data.o, t.size.o * sizeof *first);
        }
        assert_memory_equal(first, t.data.o, t.size.o * sizeof *first);
    }
    alarm(0);
    free(first);
    tensors_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(visits_do_not_grow_with_workers),
                                       cmocka_unit_test(tiles_without_kernels), cmocka_unit_test(very_many_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
