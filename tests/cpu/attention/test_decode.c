/* SPDX-License-Identifier: Apache-2.0 */
/* Decode obeys its plan: the order and sweep in which keys are first read, the number of workers, and progress. Each part
 * of K is out of reach until it is touched, and the touch is written down. */
#include "../../ref/tensors.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "../../plans.h"
#include "cpu/attention/decode.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { PART = 1536, PARTS = 3, DIM = 64, HEADS = 5, GROUP = 4, TOUCHES = HEADS * PARTS };
static const size_t PART_BYTES = PART * DIM * sizeof(float); /* whole pages, even of 64 KiB */

static char *keys; /* (HEADS, PARTS * PART, DIM) */
static int touched[TOUCHES], touches, elsewhere;
static pthread_t caller;
static struct sigaction before;

static void on_touch(int number, siginfo_t *info, void *context) {
    (void)context;
    const uintptr_t at = (uintptr_t)info->si_addr, base = (uintptr_t)keys;
    if (at < base || at >= base + TOUCHES * PART_BYTES) {
        sigaction(number, &before, NULL); /* not ours: it comes again, and ends the process */
        return;
    }
    const size_t part = (at - base) / PART_BYTES;
    const int place = __atomic_fetch_add(&touches, 1, __ATOMIC_RELAXED);
    if (place < TOUCHES) {
        touched[place] = (int)part;
    }
    if (!pthread_equal(pthread_self(), caller)) {
        __atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
    }
    mprotect(keys + part * PART_BYTES, PART_BYTES, PROT_READ);
}

static weft_attention problem(int64_t group) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.kv_heads = HEADS;
    p.heads = HEADS * group;
    p.seq = 1;
    p.kv_seq = PARTS * PART;
    p.head_dim = DIM;
    p.dtype = WEFT_FP32;
    p.layout = WEFT_BHSD;
    return p;
}

typedef struct ticks {
    int64_t done, total, calls;
} ticks;

static void tick(void *user, int64_t done, int64_t total) {
    ticks *t = user;
    assert_true(done > t->done || (done == total && t->done == total));
    assert_true(done <= total);
    *t = (ticks){done, total, t->calls + 1};
}

/* Runs a plan and writes down which parts of K are read first. */
static void trace(const weft_plan *plan, const weft_attention_data *data, ticks *ticked) {
    struct sigaction action = {.sa_sigaction = on_touch, .sa_flags = SA_SIGINFO};
    touches = elsewhere = 0;
    caller = pthread_self();
    assert_int_equal(mprotect(keys, TOUCHES * PART_BYTES, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    const weft_status status = weft_plan_run_with_progress(plan, data, tick, ticked, NULL);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(touches, TOUCHES);
}

/* What one worker would touch, by the plan's own walk. */
static void check_order(const weft_plan *plan) {
    const weft_walk *walk = weft_plan_walk(plan, sizeof(weft_walk));
    uint64_t counter = 0;
    int place = 0;
    for (int64_t index = 0; index < (walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count : 1); index++) {
        weft_worker worker = weft_worker_start(walk, index, &counter);
        weft_visit visit;
        while (weft_worker_next(walk, &worker, &visit)) {
            for (int64_t i = 0, step = visit.first; i < visit.steps; i++, step += visit.direction) {
                assert_int_equal(touched[place++], visit.tile.head * PARTS + step);
            }
        }
    }
    assert_int_equal(place, TOUCHES);
}

static void plans_are_obeyed(void **state) {
    (void)state;
    uint64_t random = random_seed(3);
#ifdef _OPENMP
    omp_set_num_threads(4);
#endif
    keys = mmap(NULL, TOUCHES * PART_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(keys != MAP_FAILED);
    for (int round = 0; random_round(&random, &round, 2 * WEFT_COMMON_SWEEPS * WEFT_DISPATCHES); round++) {
        const int64_t group = round % 2 ? GROUP : 1;
        const weft_attention p = problem(group);
        tensors t = tensors_new(&random, &p);
        const size_t bytes = t.size.o * sizeof(float);
        float *want = malloc(bytes);
        assert_non_null(want);
        assert_int_equal(weft_attention_forward(&p, &t.data, NULL), WEFT_OK);
        memcpy(want, t.data.o, bytes);
        assert_int_equal(mprotect(keys, TOUCHES * PART_BYTES, PROT_READ | PROT_WRITE), 0);
        memcpy(keys, t.k, TOUCHES * PART_BYTES);
        t.data.k = keys;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.workers = 1;
        s.sweep = 1 + round / 2 % WEFT_COMMON_SWEEPS;
        s.dispatch = 1 + round / 2 / WEFT_COMMON_SWEEPS % WEFT_DISPATCHES;
        s.order = round % 3 ? WEFT_ORDER_HEAD_FIRST_SWIZZLED : WEFT_ORDER_BLOCK_FIRST; /* heads in another order, or not */
        s.domains = 2;
        weft_plan *plan;
        ticks ticked = {0, 0, 0};
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        tensors_poison_outputs(&t);
        trace(plan, &t.data, &ticked);
        check_order(plan);
        assert_int_equal(elsewhere, 0); /* one worker: the caller's own thread */
        assert_memory_equal(t.data.o, want, bytes);
        assert_true(ticked.calls >= 2 && ticked.done == HEADS && ticked.total == HEADS);
        weft_plan_destroy(plan);
        free(want);
        tensors_free(&t);
    }
    munmap(keys, TOUCHES * PART_BYTES);
}

/* What the plan says: a tile has the queries of all heads that share a kv head, and a part of the keys. Said again, it is
 * the same plan; another tile is taken as it was given. */
static void plans_say_so(void **state) {
    (void)state;
    for (int64_t group = 1; group <= GROUP; group += GROUP - 1) {
        const weft_attention p = problem(group);
        char text[1024], again[1024];
        weft_plan *plan;
        assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
        weft_schedule s = weft_plan_schedule(plan);
        assert_int_equal(s.tile_m, group);
        assert_int_equal(s.tile_n, PART);
        assert_int_equal(plan->heads_in_tile, group);
        assert_int_equal(weft_plan_walk(plan, sizeof(weft_walk))->order.count, HEADS);
        assert_true(weft_cpu_decodes(plan));
        weft_plan_text(plan, text, sizeof text);
        weft_plan_destroy(plan);
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        weft_plan_text(plan, again, sizeof again);
        assert_string_equal(text, again);
        weft_plan_destroy(plan);
        s.tile_m = 1;
        s.tile_n = 64;
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_walk(plan, sizeof(weft_walk))->order.count, HEADS * group);
        assert_false(weft_cpu_decodes(plan));
        weft_plan_destroy(plan);
    }
}

/* The kernel may change between plan and run: WEFT_CPU. A tile of more heads than its blocks have columns is still one. */
static void other_kernels(void **state) {
    (void)state;
    uint64_t random = random_seed(4);
    weft_attention p = problem(12);
    weft_message message;
    weft_plan *plan;
    p.kv_heads = 1;
    p.heads = 12;
    tensors t = tensors_new(&random, &p);
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, &message), WEFT_OK);
    assert_int_equal(setenv("WEFT_CPU", "generic", 1), 0);
    assert_int_equal(weft_plan_run(plan, &t.data, &message), WEFT_OK);
    unsetenv("WEFT_CPU");
    double weights[PARTS * PART], exact[DIM], lse;
    for (int64_t head = 0; head < p.heads; head++) {
        lse = weft_ref_attention_row(&t.p, &t.data, 0, head, 0, weights, exact).lse;
        for (int64_t d = 0; d < DIM; d++) {
            assert_true(fabs((double)((const float *)t.data.o)[head * DIM + d] - exact[d]) < 1e-5);
        }
        assert_true(fabs((double)t.data.lse[head] - lse) < 1e-5 * fabs(lse));
    }
    weft_plan_destroy(plan);
    tensors_free(&t);
}

/* Heads that lie side by side are read together, as many as leave work for every thread. That changes no bit, for one query
 * of a kv head and for many; results are those of the reference. */
static void heads_side_by_side(void **state) {
    (void)state;
    static const int64_t groups[] = {1, 2, 3, 4, 7, 8, 12};
    uint64_t random = random_seed(5);
#ifdef _OPENMP
    omp_set_num_threads(8);
#endif
    for (int i = 0; i < 3 * (int)(sizeof groups / sizeof *groups); i++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        p.dtype = (weft_dtype)(i % 3);
        p.batch = 2;
        p.kv_heads = i % 2 ? 8 : 6;
        p.heads = p.kv_heads * groups[i / 3];
        p.seq = 1;
        p.kv_seq = PART + 700 + i;
        p.head_dim = i % 4 ? 64 : 40;
        p.o_dtype = i % 2 ? 1 + WEFT_FP32 : 0;
        tensors t = tensors_new(&random, &p);
        const weft_dtype out = weft_attention_out_dtype(&t.p);
        const size_t bytes = t.size.o * weft_dtype_bytes(out);
        char *want = malloc(bytes);
        assert_non_null(want);
        for (int64_t workers = 1; workers <= 8; workers++) {
            weft_schedule s = WEFT_SCHEDULE_INIT;
            weft_plan *plan;
            s.workers = workers;
            assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
            tensors_poison_outputs(&t);
            assert_int_equal(weft_plan_run(plan, &t.data, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            if (workers == 1) {
                memcpy(want, t.data.o, bytes);
            }
            assert_memory_equal(t.data.o, want, bytes);
        }
        double *weights = malloc((size_t)p.kv_seq * sizeof *weights), exact[64];
        assert_non_null(weights);
        const double bound = p.dtype == WEFT_FP32 ? 1e-5 : p.dtype == WEFT_FP16 ? 1e-3 : 8e-3;
        for (int64_t head = 0; head < p.heads; head++) {
            weft_ref_attention_row(&t.p, &t.data, 1, head, 0, weights, exact);
            for (int64_t d = 0; d < p.head_dim; d++) {
                const size_t at = weft_row_index(&t.p.o_strides, 1, 0, head) + (size_t)d;
                assert_true(fabs(weft_ref_load(out, t.data.o, at) - exact[d]) < bound);
            }
        }
        free(weights);
        free(want);
        tensors_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_obeyed), cmocka_unit_test(plans_say_so),
                                       cmocka_unit_test(other_kernels), cmocka_unit_test(heads_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
