/* Walks over threads: every tile is visited, and stealing costs one more look at a tile for each thread, however many
 * workers a schedule has. */
#include "../ref/tensors.h"

#include <unistd.h>

#include "cpu/cpu.h"

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
            assert_int_equal(weft_plan_attention(&plan, &p, &s, NULL, NULL), WEFT_OK);
            const weft_cpu_walking how = {.visit = count_visit, .context = &t, .room = 64, .steals = steals};
            assert_int_equal(weft_cpu_walk(plan, weft_cpu_choose(WEFT_SUBJECT_ATTENTION, p.dtype), &how, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            for (int tile = 0; tile < TILES; tile++) {
                assert_in_range(t.visits[tile], 1, steals ? THREADS + 1 : 1); /* dynamic: its drawer looks again */
            }
        }
    }
}

/* The bits of one worker, in a time that a look of each worker at each other would exceed a thousandfold. */
static void very_many_workers(void **state) {
    (void)state;
    uint64_t random = 5;
    const weft_attention p = problem();
    tensors t = tensors_new(&random, &p);
    float *first = malloc(t.size.o * sizeof *first);
    assert_non_null(first);
    alarm(3600); /* ends a walk that would take hours */
    for (int64_t workers = 1; workers <= 1000000; workers *= 1000000) {
        const weft_schedule s = schedule_of(workers, WEFT_DISPATCH_STATIC);
        weft_plan *plan;
        tensors_poison_outputs(&t);
        assert_int_equal(weft_plan_attention(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run_attention(plan, &t.data, NULL), WEFT_OK);
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
                                       cmocka_unit_test(very_many_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
