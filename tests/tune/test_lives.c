/* SPDX-License-Identifier: Apache-2.0 */
/* Plans come and go: in sixteen threads at once, in children of forks, and by the thousand in one process whose memory
 * stays as it is. Whoever computes has what one thread alone has. */
#include "../cmocka_all.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/bench.h>
#include <weft/sim.h>
#include <weft/tune.h>

#include "../plans.h"
#include "../random.h"
#include "stores.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
enum {
    THREADS = 16,
    CHILDREN = 12,
    WATCHED = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer), /* by who replaces malloc and fork */
};

/* A small problem of any operation, and how it is scheduled. */
typedef struct work {
    union {
        weft_attention attention;
        weft_gemm gemm;
        weft_combine combine;
        weft_grouped_gemm grouped;
    } p;
    weft_schedule schedule;
} work;

static work draw(uint64_t *random) {
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_BF16, WEFT_FP16};
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_dtype dtype = dtypes[random_between(random, 0, 2)];
    const int64_t which = random_between(random, 0, 4);
    work w = {.schedule = open};
    w.schedule.sweep = random_between(random, 0, 1) ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_CHOOSE;
    if (which < 2) {
        weft_attention *p = &w.p.attention;
        *p = (weft_attention)WEFT_ATTENTION_INIT;
        p->operation = which ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
        p->seq = random_between(random, 1, 90);
        p->kv_seq = random_between(random, 1, 90);
        p->kv_heads = random_between(random, 1, 3);
        p->heads = p->kv_heads * random_between(random, 1, 2);
        p->head_dim = 8 * random_between(random, 1, 5);
        p->mask = random_between(random, 0, 1) ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
        p->dtype = dtype;
    } else if (which == 2) {
        weft_gemm *p = &w.p.gemm;
        *p = (weft_gemm)WEFT_GEMM_INIT;
        p->m = random_between(random, 1, 90);
        p->n = random_between(random, 1, 90);
        p->k = random_between(random, 1, 90);
        p->dtype = dtype;
    } else if (which == 3) {
        weft_combine *p = &w.p.combine;
        *p = (weft_combine)WEFT_COMBINE_INIT;
        p->parts = random_between(random, 1, 4);
        p->seq = random_between(random, 1, 90);
        p->head_dim = random_between(random, 1, 64);
        p->dtype = dtype;
        w.schedule = open; /* which has one sweep */
    } else {
        weft_grouped_gemm *p = &w.p.grouped;
        *p = (weft_grouped_gemm)WEFT_GROUPED_GEMM_INIT;
        p->groups = random_between(random, 1, 5);
        p->rows = random_between(random, 1, 90);
        p->n = random_between(random, 1, 90);
        p->k = random_between(random, 1, 60);
        p->dtype = dtype;
    }
    return w;
}

/* A plan's life: made, run, checked, destroyed. Returns the first line that was not as it should be; 0: none. */
static int live(const work *w, int checks) {
    const weft_bench_options options = WEFT_BENCH_INIT;
    weft_check check = WEFT_CHECK_INIT;
    weft_plan *plan = NULL;
    weft_bench *bench = NULL;
    int line = 0;
    if (plan_for(&plan, &w->p, &w->schedule, NULL, NULL)) {
        return __LINE__;
    }
    if (weft_bench_open(&bench, plan, &options, NULL) || weft_bench_run(bench, plan, NULL)) {
        line = __LINE__;
    } else if (checks && (weft_bench_check(bench, &check, NULL) || !check.passed)) {
        line = __LINE__;
    }
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    return line;
}

/* What else a thread may do with a problem: have it simulated, or tuned with a store that all threads share. */
static int use(const work *w, uint64_t *random) {
    const int64_t what = random_between(random, 0, 7);
    if (what == 0 && w->p.gemm.operation != WEFT_GROUPED_GEMM) { /* whose rows the simulator would have to know */
        weft_simulate_options options = WEFT_SIMULATE_INIT;
        weft_simulation found = WEFT_SIMULATION_INIT;
        weft_machine h100 = WEFT_MACHINE_INIT;
        weft_plan *plan = NULL;
        int line = weft_machine_load(&h100, "h100", NULL) ? __LINE__ : 0;
        line = line ? line : plan_for(&plan, &w->p, &w->schedule, &h100, NULL) ? __LINE__ : 0;
        line = line ? line : weft_simulate(plan, &options, &found, NULL, NULL) ? __LINE__ : 0;
        weft_plan_destroy(plan);
        return line;
    }
    if (what == 1) {
        weft_tune_options options = WEFT_TUNE_INIT;
        weft_tuned tuned = WEFT_TUNED_INIT;
        options.seconds = 1e-3; /* the candidates that the model puts first, at least */
        return weft_tune(&w->p, NULL, NULL, &options, &tuned, NULL, NULL) ? __LINE__ : 0;
    }
    if (what == 2) {
        weft_tuned tuned = WEFT_TUNED_INIT;
        const weft_status status = weft_tuned_find(&w->p, NULL, NULL, &tuned, NULL);
        return status == WEFT_OK || status == WEFT_NOT_FOUND ? 0 : __LINE__;
    }
    return live(w, 1);
}

typedef struct thread_life {
    pthread_t thread;
    uint64_t random;
    int rounds, line;
} thread_life;

static void *thread_lives(void *at) {
    thread_life *t = at;
    for (int i = 0; i < t->rounds && !t->line; i++) {
        const work w = draw(&t->random);
        t->line = use(&w, &t->random);
    }
    weft_release_memory(); /* of this thread */
    return NULL;
}

static void in_threads(void **state) {
    (void)state;
    uint64_t random = random_seed(2902);
    thread_life threads[THREADS];
    store_begin();
    for (int i = 0; random_round(&random, &i, 2);) {
        for (int j = 0; j < THREADS; j++) {
            threads[j] = (thread_life){.random = random_bits(&random), .rounds = 6};
            assert_int_equal(pthread_create(&threads[j].thread, NULL, thread_lives, &threads[j]), 0);
        }
        for (int j = 0; j < THREADS; j++) {
            pthread_join(threads[j].thread, NULL);
            if (threads[j].line) {
                fail_msg("thread %d: line %d", j, threads[j].line);
            }
        }
        i++;
    }
    store_end();
}

/* A child computes, simulates and tunes. */
static pid_t start_child(uint64_t *random) {
    const work w = draw(random);
    uint64_t own = random_bits(random);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int line = 0;
        for (int n = 0; n < 6 && !line; n++) {
            line = use(&w, &own);
        }
        _exit(line != 0);
    }
    return child;
}

static void wait_for(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Of a process that has not computed yet, and then of one that has. */
static void in_a_child(void **state) {
    (void)state;
    uint64_t random = random_seed(2901);
    if (WATCHED) {
        skip();
    }
    store_begin();
    wait_for(start_child(&random));
    const work w = draw(&random);
    assert_int_equal(live(&w, 1), 0);
    wait_for(start_child(&random));
    store_end();
}

/* While other threads are in the middle of their work. */
static void in_children_of_threads(void **state) {
    (void)state;
    uint64_t random = random_seed(2904);
    thread_life busy[3];
    if (WATCHED) {
        skip();
    }
    store_begin();
    for (int j = 0; j < 3; j++) {
        busy[j] = (thread_life){.random = random_bits(&random), .rounds = 40};
        assert_int_equal(pthread_create(&busy[j].thread, NULL, thread_lives, &busy[j]), 0);
    }
    for (int i = 0; i < CHILDREN; i++) {
        const pid_t child = start_child(&random);
        const work w = draw(&random);
        assert_int_equal(live(&w, 1), 0);
        wait_for(child);
    }
    for (int j = 0; j < 3; j++) {
        pthread_join(busy[j].thread, NULL);
        assert_int_equal(busy[j].line, 0);
    }
    store_end();
}

/* What is kept between plans is what the largest needs, so it stops growing. The allocator counts what it keeps for itself,
 * too, a few hundred bytes more or less; one kind of work that lost its smallest allocation each time would be more. */
static void memory_stays(void **state) {
    (void)state;
    const size_t plans = 10 * (size_t)random_setting("WEFT_TEST_ROUNDS", 100);
    uint64_t random = random_seed(2903);
    work list[8];
    const size_t kinds = sizeof list / sizeof *list, least = 16 * (plans / kinds);
    if (WATCHED) {
        skip(); /* who searches for leaks itself */
    }
    for (size_t i = 0; i < kinds; i++) {
        list[i] = draw(&random);
        assert_int_equal(live(&list[i], 0), 0);
        assert_int_equal(live(&list[i], 0), 0);
    }
    weft_release_memory();
    const size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < plans; i++) {
        assert_int_equal(live(&list[i % kinds], 0), 0);
    }
    weft_release_memory();
    assert_true(mallinfo2().uordblks < before + least);
}

/* The memory is looked at before threads come and go: OpenMP frees what they had at its own time. */
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_child), cmocka_unit_test(memory_stays),
                                       cmocka_unit_test(in_threads), cmocka_unit_test(in_children_of_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
