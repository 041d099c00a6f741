/* Fibres: made with ucontext, switched with setjmp, which costs no system call. */
#include "emulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

extern "C" {
#include "../../random.h"
}

enum {
    STACK = 1 << 18,
    /* Turns of all warps without anybody getting on: more than a kernel's own waits that give up (400 tries) take. */
    DEADLOCK = 3000,
    LULL = 64, /* turns */
    NOBODY = EMULATED_THREADS,
};

alignas(1024) unsigned char emulated_shared[EMULATED_SHARED];
emulated_index blockIdx, gridDim;

struct fibre {
    jmp_buf at;
    bool started, done;
    unsigned asleep; /* turns */
    void *stack;
    const char *what; /* it waits for, */
    uint32_t which;
};

static fibre fibres[EMULATED_THREADS];
static unsigned running, waiting; /* waiting: at the barrier of the CTA */
static uint64_t barriers, moves;
static uint64_t random_state;
static jmp_buf home;
static const emulated_kernel *launched;

struct meeting {
    void *items[32];
    int arrived;
    uint64_t held;
};
static meeting meetings[EMULATED_THREADS / 32];

unsigned emulated_thread() {
    return running;
}

void emulated_fail(const char *format, ...) {
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
}

unsigned emulated_dice(unsigned sides) {
    return (unsigned)random_between(&random_state, 0, sides - 1);
}

static void fibre_main() {
    launched->cta(launched->argument);
    fibres[running].done = true;
    moves++;
    _longjmp(home, 1);
}

void emulated_pause(const char *what, uint32_t which) {
    fibre *f = &fibres[running];
    f->what = what;
    f->which = which;
    if (_setjmp(f->at) == 0) {
        _longjmp(home, 1);
    }
}

void __syncthreads() {
    const uint64_t before = barriers;
    if (++waiting == launched->threads) {
        waiting = 0;
        barriers++;
        moves++;
        return;
    }
    while (barriers == before) {
        emulated_pause("barrier", 0);
    }
}

void emulated_meet(void *mine, void (*work)(void *const *all)) {
    meeting *m = &meetings[running / 32];
    const uint64_t before = m->held;
    m->items[running % 32] = mine;
    if (++m->arrived == 32) {
        m->arrived = 0;
        work(m->items);
        m->held++;
        moves++;
        return;
    }
    while (m->held == before) {
        emulated_pause("the other lanes of warp", running / 32);
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
    emulated_fail("deadlock: it waits for %s %u, and %u threads in all do not get on", fibres[running].what,
                  fibres[running].which, left);
}

/* One turn of a warp's lanes. Returns how many are not done. */
static unsigned turn_of_warp(unsigned warp) {
    const bool idle = emulated_dice(4) == 0;
    unsigned left = 0;
    if (emulated_dice(16 * LULL) == 0) { /* for other lanes to get ahead, where nothing keeps them */
        fibres[warp * 32 + emulated_dice(32)].asleep = LULL;
    }
    for (running = warp * 32; running < warp * 32 + 32; running++) {
        fibre *f = &fibres[running];
        if (f->asleep > 0) {
            f->asleep--;
        } else if (!f->done && !idle) {
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

static void run_cta() {
    const unsigned threads = launched->threads;
    memset(emulated_shared, 0xff, EMULATED_SHARED); /* NaN: what nobody wrote shows */
    memset(meetings, 0, sizeof meetings);
    waiting = 0;
    launched->begin();
    for (unsigned i = 0; i < threads; i++) {
        fibres[i].started = fibres[i].done = false;
        fibres[i].asleep = 0;
        fibres[i].stack = fibres[i].stack ? fibres[i].stack : malloc(STACK);
    }
    uint64_t before = moves;
    int still = 0;
    for (unsigned left = threads; left > 0;) {
        left = turn(threads);
        if (launched->turn) {
            launched->turn();
        }
        still = moves == before ? still + 1 : 0;
        before = moves;
        if (still > DEADLOCK) {
            deadlock(left);
        }
    }
    if (launched->end) {
        launched->end();
    }
}

void emulated_launch(const emulated_kernel &kernel) {
    launched = &kernel;
    gridDim.x = kernel.ctas;
    for (blockIdx.x = 0; blockIdx.x < kernel.ctas; blockIdx.x++) {
        run_cta();
    }
}
