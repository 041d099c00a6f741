/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of threads. */
#include "cpu/thread/team.h"

#include <fenv.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

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

static int64_t owner; /* the first process to take threads; 0: none yet */

/* OpenMP's threads do not survive a fork, and a child that waits for them waits forever; so a child of a process that had
 * threads works alone. */
int64_t weft_cpu_threads(void) {
    const int64_t taker = __atomic_load_n(&owner, __ATOMIC_RELAXED);
    return taker == 0 || taker == getpid() ? omp_get_max_threads() : 1;
}

enum { NOT_ASKED, OWN_CORES, SHARED_CORES };
static int cores = NOT_ASKED;

/* Linux lists the processors that are of the first one's core: "0", or "0,8", or "0-1". An error is not remembered, as what
 * is chosen by it would differ for as long as the process lives. */
int weft_cpu_ask_cores(void) {
    char line[32];
    int error = 0;
    if (__atomic_load_n(&cores, __ATOMIC_RELAXED) == NOT_ASKED) {
        const int own =
            weft_file_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", line, sizeof line, &error) &&
            strpbrk(line, ",-") == NULL;
        __atomic_store_n(&cores, error ? NOT_ASKED : own ? OWN_CORES : SHARED_CORES, __ATOMIC_RELAXED);
    }
    return error;
}

int weft_cpu_shares_cores(void) {
    (void)weft_cpu_ask_cores();
    return __atomic_load_n(&cores, __ATOMIC_RELAXED) != OWN_CORES;
}

/* The same, by whom they are taken. */
static int64_t threads_here(void) {
    int64_t nobody = 0;
    __atomic_compare_exchange_n(&owner, &nobody, (int64_t)getpid(), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return weft_cpu_threads();
}

/* What each thread of a team does. */
typedef struct part {
    void (*body)(void *context, int64_t thread, int64_t threads);
    void *context;
    fenv_t caller;
} part;

/* In the caller's rounding and its treatment of denormals, which OpenMP's threads have from whoever started them: XLA's
 * threads flush denormals, and bits would depend on who computes what. */
static void do_part(const part *p, int64_t thread, int64_t threads) {
    fenv_t own;
    if (thread > 0) {
        fegetenv(&own);
        fesetenv(&p->caller);
    }
    p->body(p->context, thread, threads);
    if (thread > 0) {
        fesetenv(&own);
    }
}

/* One thread, or all of them even where there is less to do: OpenMP's threads end when a team is smaller than the last, and
 * new ones take longer to start than a small product to compute. */
void weft_cpu_team(int alone, void (*body)(void *context, int64_t thread, int64_t threads), void *context) {
    const int64_t threads = alone ? 1 : threads_here();
    part p = {.body = body, .context = context};
    fegetenv(&p.caller);
#pragma omp parallel num_threads((int)threads)
    do_part(&p, omp_get_thread_num(), omp_get_num_threads());
}

void weft_cpu_team_wait(void) {
#pragma omp barrier
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
