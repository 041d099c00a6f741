/* SPDX-License-Identifier: Apache-2.0 */
/* Fibres: made with ucontext, switched with setjmp, which costs no system call. */
#include "cuda/ptx/cluster.cuh"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

extern "C" {
#include "../../random.h"
}

enum {
    STACK = 1 << 18,
    /* Turns of all warps without anybody getting on: more than a kernel's own waits that give up (400 tries) take. */
    DEADLOCK = 3000,
    LULL = 64,        /* turns */
    QUIET = 2 * LULL, /* turns without anybody getting on, until the CTA looks at others of its cluster */
    STAY = 8,         /* turns, at most, until another CTA has its own */
    NOBODY = EMULATED_THREADS,
};

__shared__ __align__(1024) unsigned char emulated_shared[EMULATED_SHARED];
__thread emulated_index blockIdx;
__thread unsigned emulated_slot;
emulated_index gridDim;
uint64_t gridNumber;

struct fibre {
    jmp_buf at;
    bool started, done;
    unsigned asleep;       /* turns */
    const uint64_t *count; /* that it awaits a change of, or null */
    uint64_t counted;      /* what that was */
    void *stack;
    const char *what; /* it waits for, */
    uint32_t which;
};

static thread_local fibre fibres[EMULATED_THREADS];
static thread_local unsigned running = NOBODY, waiting; /* waiting: at the barrier of the CTA */
static thread_local uint64_t barriers, moves;
static thread_local uint64_t random_state;
static thread_local jmp_buf home;
static const emulated_kernel *launched;
static unsigned char *stacks[EMULATED_SLOTS]; /* kept for the next CTAs */

/* The CTAs that are there. One runs, the others wait for it to pass on. */
static std::mutex passing;
static std::condition_variable passed[EMULATED_SLOTS];
static bool present[EMULATED_SLOTS];
static unsigned next_cta;     /* the first that has not begun */
static unsigned runs, slots;  /* runs: the slot of the one */
static uint64_t all_moves;    /* of all CTAs */
static uint64_t order_random; /* of those who run */

struct meeting {
    void *items[32];
    void (*work)(void *const *all);
    int arrived;
    uint64_t held;
};
static thread_local meeting meetings[EMULATED_THREADS / 32];

unsigned emulated_thread() {
    return running;
}

void emulated_fail(const char *format, ...) {
    static std::mutex first; /* only the first to fail says so */
    first.lock();
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulate: CTA %u: ", blockIdx.x);
    if (running != NOBODY) {
        fprintf(stderr, "thread %u: ", running);
    }
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void emulated_moved() {
    moves++;
    all_moves++;
}

unsigned emulated_dice(unsigned sides) {
    return (unsigned)random_between(&random_state, 0, sides - 1);
}

static void fibre_main() {
    launched->cta(launched->argument);
    fibres[running].done = true;
    emulated_moved();
    _longjmp(home, 1);
}

static void pause(fibre *f, const char *what, uint32_t which) {
    f->what = what;
    f->which = which;
    if (_setjmp(f->at) == 0) {
        _longjmp(home, 1);
    }
}

void emulated_pause(const char *what, uint32_t which) {
    fibres[running].count = nullptr;
    pause(&fibres[running], what, which);
}

void emulated_await(const uint64_t &count, const char *what, uint32_t which) {
    fibres[running].count = &count;
    fibres[running].counted = count;
    pause(&fibres[running], what, which);
}

static bool can_run(const fibre *f) {
    return !f->done && (!f->count || *f->count != f->counted);
}

void __syncthreads() {
    const uint64_t before = barriers;
    if (++waiting == launched->threads) {
        waiting = 0;
        barriers++;
        emulated_moved();
        return;
    }
    while (barriers == before) {
        emulated_await(barriers, "barrier", 0);
    }
}

void emulated_meet(void *mine, void (*work)(void *const *all)) {
    meeting *m = &meetings[running / 32];
    const uint64_t before = m->held;
    if (m->arrived > 0 && m->work != work) {
        emulated_fail("lanes of warp %u are at different instructions that all of them take part in", running / 32);
    }
    m->work = work;
    m->items[running % 32] = mine;
    if (++m->arrived == 32) {
        m->arrived = 0;
        work(m->items);
        m->held++;
        emulated_moved();
        if (launched->converges) { /* the last to come goes on with the others: not before a lull, and they behind it */
            emulated_pause("the other lanes of warp", running / 32);
        }
        return;
    }
    while (m->held == before) {
        emulated_await(m->held, "the other lanes of warp", running / 32);
    }
}

static void run_fibre(fibre *f) {
    if (_setjmp(home) != 0) {
        return;
    }
    if (f->started) {
        _longjmp(f->at, 1);
    }
    f->started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, fibre_main, 0);
    setcontext(&context);
}

/* Says what the first thread that is not done waits for: it is most often the cause. */
[[noreturn]] static void deadlock(unsigned left) {
    for (running = 0; fibres[running].done; running++) {
    }
    emulated_fail("deadlock: it waits for %s %u, and %u threads in all do not get on%s", fibres[running].what,
                  fibres[running].which, left, emulated_absent());
}

/* One turn of a warp's lanes. Returns how many are not done. */
static unsigned turn_of_warp(unsigned warp) {
    const bool idle = emulated_dice(4) == 0;
    unsigned left = 0;
    const unsigned first = emulated_dice(32);
    if (emulated_dice(16 * LULL) == 0) { /* for others to get ahead, where nothing keeps them */
        for (unsigned i = 0; i < (launched->converges ? 32 : 1); i++) {
            fibres[warp * 32 + (first + i) % 32].asleep = LULL;
        }
    }
    for (unsigned i = 0; i < 32; i++) {
        running = warp * 32 + (first + i) % 32;
        fibre *f = &fibres[running];
        if (f->asleep > 0) {
            f->asleep--;
        } else if (!idle && can_run(f)) {
            run_fibre(f);
        }
        left += !f->done;
    }
    return left;
}

/* One turn of every warp, in a random order. */
static unsigned turn(unsigned threads) {
    const unsigned warps = threads / 32, first = emulated_dice(warps);
    unsigned left = 0;
    for (unsigned i = 0; i < warps; i++) {
        left += turn_of_warp((first + i) % warps);
    }
    running = NOBODY;
    return left;
}

static void start_fibres() {
    unsigned char *&stack = stacks[emulated_slot];
    stack = stack ? stack : (unsigned char *)malloc((size_t)EMULATED_THREADS * STACK);
    for (unsigned i = 0; i < launched->threads; i++) {
        fibres[i].started = fibres[i].done = false;
        fibres[i].asleep = 0;
        fibres[i].count = nullptr;
        fibres[i].stack = stack + (size_t)i * STACK;
    }
}

/* Lets another CTA run that is there, if any is, and returns when this one runs again; at once when it is not there. */
static void pass_on() {
    unsigned others[EMULATED_SLOTS], count = 0;
    for (unsigned i = 0; i < slots; i++) {
        if (present[i] && i != emulated_slot) {
            others[count++] = i;
        }
    }
    if (count > 0) {
        std::unique_lock<std::mutex> hold(passing);
        runs = others[random_between(&order_random, 0, count - 1)];
        passed[runs].notify_one();
        passed[emulated_slot].wait(hold, [] { return runs == emulated_slot || !present[emulated_slot]; });
    }
}

static void wait_for_first_turn() {
    std::unique_lock<std::mutex> hold(passing);
    passed[emulated_slot].wait(hold, [] { return runs == emulated_slot; });
}

static void run_turns() {
    uint64_t before = moves, all_before = all_moves;
    unsigned still = 0, all_still = 0, stay = 0;
    for (unsigned left = launched->threads; left > 0;) {
        left = turn(launched->threads);
        if (launched->turn) {
            launched->turn();
        }
        emulated_cluster_turn();
        still = moves == before ? still + 1 : 0;
        before = moves;
        all_still = all_moves == all_before ? all_still + 1 : 0;
        all_before = all_moves;
        if (still > 0 && still % QUIET == 0 && emulated_cluster_look()) {
            still = all_still = 0;
        } else if (all_still > DEADLOCK) {
            deadlock(left);
        }
        if (left > 0 && (stay-- == 0 || still > STAY)) {
            stay = emulated_dice(STAY);
            pass_on();
        }
    }
}

/* The CTAs of a slot, one after the other: in clusters one, else the next that has not begun. */
static void run_slot(unsigned number, unsigned slot) {
    emulated_slot = slot;
    wait_for_first_turn();
    for (;;) {
        blockIdx.x = number;
        random_state = gridNumber << 32 | number;
        memset(emulated_shared, 0xff, EMULATED_SHARED); /* NaN: what nobody wrote shows */
        launched->begin();
        start_fibres();
        run_turns();
        if (launched->end) {
            launched->end();
        }
        if (launched->cluster > 1 || next_cta >= launched->ctas) {
            break;
        }
        number = next_cta++;
    }
    emulated_cluster_leave();
    present[slot] = false;
    pass_on();
}

/* The CTAs from `first` on, as many as there are slots for, and those that follow them there. */
static void run_ctas(unsigned first, unsigned count) {
    std::vector<std::thread> ctas;
    next_cta = first + count;
    slots = count;
    runs = 0;
    std::fill(present, present + count, true);
    emulated_clusters_begin(launched->cluster, launched->threads);
    for (unsigned i = 0; i < count; i++) {
        ctas.emplace_back(run_slot, first + i, i);
    }
    for (std::thread &cta : ctas) {
        cta.join();
    }
    emulated_clusters_end();
}

void emulated_launch(const emulated_kernel &kernel) {
    launched = &kernel;
    gridDim.x = kernel.ctas;
    order_random = ++gridNumber;
    if (kernel.cluster < 1 || kernel.cluster > EMULATED_CLUSTER || kernel.ctas % kernel.cluster != 0) {
        emulated_fail("a launch of %u CTAs in clusters of %u", kernel.ctas, kernel.cluster);
    }
    const unsigned together = EMULATED_SLOTS / kernel.cluster * kernel.cluster;
    for (unsigned first = 0; first<kernel.ctas; first = kernel.cluster> 1 ? first + together : kernel.ctas) {
        run_ctas(first, min(together, kernel.ctas - first));
    }
}
