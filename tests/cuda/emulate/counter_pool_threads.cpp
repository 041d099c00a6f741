/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of counters, by threads that stand for CTAs: launches that run at the same time, each again and again, with CTAs
 * that come when they like. Every launch has to draw each of its tickets once. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <thread>
#include <vector>

#define WEFT_CUDA_PTX_GRID_CUH /* in its place: */
#define __device__
#define __forceinline__ inline
#include <stdint.h>

static __thread uint64_t launch; /* of the CTA */

/* Now and then another CTA comes between any two of these. */
static void dawdle() {
    static __thread uint64_t random;
    random = (random + launch) * 6364136223846793005u + 1442695040888963407u;
    if (random >> 60 == 0) {
        sched_yield();
    }
}

static inline uint64_t grid_identity(const void *) {
    return launch;
}
template <class T> static inline T grid_load(const T *from) {
    dawdle();
    return *(const volatile T *)from;
}
template <class T> static inline void grid_store(T *to, T value) {
    dawdle();
    *(volatile T *)to = value;
}
static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __nanosleep(unsigned) {
    sched_yield();
}
static inline unsigned atomicCAS(unsigned *to, unsigned expected, unsigned value) {
    dawdle();
    __atomic_compare_exchange_n(to, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline unsigned atomicExch(unsigned *to, unsigned value) {
    return __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST);
}

#include "cuda/plan/counter_pool.cuh"

enum { LAUNCHES = 6, CTAS = 4, TICKETS = 40, TIMES = 400 };

static weft_counter_pool pool;
static pthread_barrier_t between[LAUNCHES]; /* the CTAs of a launch and of the next */
static int drawn[LAUNCHES][TICKETS];
static int wrong;

/* A CTA of the `number`-th launch, TIMES times: draws tickets, then leaves. */
static void cta(unsigned number, unsigned index) {
    uint64_t random = 1 + number * CTAS + index;
    launch = number + 1;
    for (int time = 0; time < TIMES; time++) {
        pthread_barrier_wait(&between[number]);
        for (random = random * 6364136223846793005u + 1442695040888963407u; random >> 61; random = random * 5 + 1) {
            sched_yield();
        }
        uint64_t *counters = counter_pool_join(&pool, nullptr);
        for (uint64_t ticket; (ticket = __atomic_fetch_add(&counters[0], 1, __ATOMIC_SEQ_CST)) < TICKETS;) {
            __atomic_fetch_add(&drawn[number][ticket], 1, __ATOMIC_SEQ_CST);
            sched_yield();
        }
        if (__atomic_fetch_add(&counters[2], 1, __ATOMIC_SEQ_CST) == CTAS - 1) {
            memset(counters, 0, sizeof pool.sets[0].counters);
            counter_pool_give_back(counters);
        }
        if (pthread_barrier_wait(&between[number]) == PTHREAD_BARRIER_SERIAL_THREAD) {
            for (int &times : drawn[number]) {
                __atomic_fetch_add(&wrong, times != 1, __ATOMIC_SEQ_CST);
                times = 0;
            }
        }
    }
}

int main() {
    std::vector<std::thread> ctas;
    for (unsigned i = 0; i < LAUNCHES; i++) {
        pthread_barrier_init(&between[i], nullptr, CTAS);
    }
    for (unsigned i = 0; i < LAUNCHES * CTAS; i++) {
        ctas.emplace_back(cta, i / CTAS, i % CTAS);
    }
    for (std::thread &one : ctas) {
        one.join();
    }
    for (const weft_counter_set &set : pool.sets) {
        wrong += set.owner || set.counters[0] || set.counters[1] || set.counters[2];
    }
    const int excess = pool.lock != 0 || pool.used > LAUNCHES;
    printf("counter_pool: %d tickets not drawn once, %u sets used, %d left behind\n", wrong, pool.used, excess);
    return wrong || excess;
}
