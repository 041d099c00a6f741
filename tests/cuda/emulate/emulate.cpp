/* Fibres: made with ucontext, switched with setjmp, which costs no system call. */
#include "cuda/ptx/cp_async.cuh"

#include <setjmp.h>
#include <stdio.h>
#include <ucontext.h>

enum { MOST = 512, STACK = 1 << 18, SHARED = 256 << 10 };

alignas(1024) unsigned char study_shared[SHARED];
emulated_index blockIdx;
emulated_copies emulated_copies_of[MOST];

struct fibre {
    jmp_buf at;
    bool started, done;
    void *stack;
};

static fibre fibres[MOST];
static unsigned running, count, waiting; /* waiting: at the barrier */
static uint64_t barriers;
static jmp_buf home;
static void (*entry)(void *);
static void *entry_argument;

struct meeting {
    void *items[32];
    int arrived;
    uint64_t held;
};
static meeting meetings[MOST / 32];

unsigned emulated_thread() {
    return running;
}

static void fibre_main() {
    entry(entry_argument);
    fibres[running].done = true;
    _longjmp(home, 1);
}

/* Lets others run. */
static void pause_fibre() {
    if (_setjmp(fibres[running].at) == 0) {
        _longjmp(home, 1);
    }
}

void __syncthreads() {
    const uint64_t before = barriers;
    if (++waiting == count) {
        waiting = 0;
        barriers++;
        return;
    }
    while (barriers == before) {
        pause_fibre();
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
        return;
    }
    while (m->held == before) {
        pause_fibre();
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

void emulated_launch(void (*cta)(void *), void *argument, unsigned ctas, unsigned threads) {
    entry = cta;
    entry_argument = argument;
    count = threads;
    for (blockIdx.x = 0; blockIdx.x < ctas; blockIdx.x++) {
        memset(study_shared, 0xff, SHARED); /* NaN: what nobody wrote shows */
        waiting = 0;
        for (unsigned i = 0; i < threads; i++) {
            emulated_copies_of[i] = emulated_copies();
            fibres[i].started = fibres[i].done = false;
            fibres[i].stack = fibres[i].stack ? fibres[i].stack : malloc(STACK);
        }
        for (unsigned left = threads; left > 0;) {
            left = 0;
            for (running = 0; running < threads; running++) {
                if (!fibres[running].done) {
                    run_fibre(&fibres[running]);
                    left += !fibres[running].done;
                }
            }
        }
        if (waiting != 0) {
            fprintf(stderr, "emulate: %u threads left the CTA while others wait\n", count - waiting);
            exit(1);
        }
    }
}
