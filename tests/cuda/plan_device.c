/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on a real GPU: every kernel loads; problems and schedules against the reference; a captured run replayed, also with
 * other lengths; one plan in many threads. Exits 77, with one line, where there is no GPU. */
#include "attention_trial.h"

#include <pthread.h>

#include "cuda/driver/module.h"
#include "cuda/study/params.h"

/* What only this test calls. */
static int (*stream_new)(void **stream, unsigned flags);
static int (*capture_begin)(void *stream, int mode);
static int (*capture_end)(void *stream, void **graph);
static int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
static int (*graph_launch)(void *executable, void *stream);

static void find_symbols(void) {
    const driver_symbol wanted[] = {{&stream_new, "cuStreamCreate"},
                                    {&capture_begin, "cuStreamBeginCapture_v2"},
                                    {&capture_end, "cuStreamEndCapture"},
                                    {&graph_instantiate, "cuGraphInstantiateWithFlags"},
                                    {&graph_launch, "cuGraphLaunch"}};
    find_driver_symbols(wanted, sizeof wanted / sizeof *wanted);
}

/* Every kernel of the portable families forward, and what measures the L2. */
static int every_kernel_loads(void) {
    static const char *const kernels[][2] = {
#define WEFT_STUDY(symbol, module, ...) {#module, #symbol},
#define WEFT_STUDY_GENERAL              WEFT_STUDY
#include "cuda/study/variants.def"
#define WEFT_PORTABLE_GEMM(symbol, module, ...) {#module, #symbol},
#include "cuda/gemm/variants.def"
        {"sides", "sides_fill"},
        {"sides", "sides_flush"},
        {"sides", "sides_measure"},
    };
    const int count = (int)(sizeof kernels / sizeof *kernels);
    for (int i = 0; i < count; i++) {
        weft_message message = {""};
        void *function;
        int local = -1;
        CHECK(weft_cuda_function_get(driver, kernels[i][0], kernels[i][1], &function, &message) == WEFT_OK, "%s",
              message.text);
        CHECK(function && driver->function_attribute(&local, WEFT_CU_FUNCTION_LOCAL_BYTES, function) == 0 && local == 0,
              "%s has %d bytes of local memory", kernels[i][1], local);
    }
    return count;
}

static int schedules(void) {
    uint64_t random = random_seed(70);
    static const int64_t dims[] = {64, 128, 56, 80, 96};
    int count = 0;
    for (int32_t order = WEFT_ORDER_BLOCK_FIRST; order <= WEFT_ORDER_CUSTOM; order++) {
        for (int i = 0; i < WEFT_COMMON_SWEEPS * WEFT_DISPATCHES * 2; i++, count++) {
            weft_attention p = attention(random_between(&random, 1, 2), 4, 2, random_between(&random, 1, 400),
                                         random_between(&random, 1, 400), dims[count % 5],
                                         count % 2 ? WEFT_BF16 : WEFT_FP16, (weft_mask)(count % 3));
            p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -100, 100) : 0;
            p.layout = (weft_layout)(count / 2 % 2);
            weft_schedule s = WEFT_SCHEDULE_INIT;
            s.order = order;
            s.sweep = 1 + i % WEFT_COMMON_SWEEPS;
            s.dispatch = 1 + i / WEFT_COMMON_SWEEPS % WEFT_DISPATCHES;
            s.table = i / WEFT_COMMON_SWEEPS / WEFT_DISPATCHES;
            s.workers = random_between(&random, 0, 9);
            s.domains = random_between(&random, 1, 3);
            problem x = problem_new(&p, &random);
            weft_plan *plan = plan_new(&p, &s, NULL);
            weft_message message = {""};
            char what[1024];
            poison(&x);
            CHECK(weft_plan_run(plan, &x.device, &message) == WEFT_OK, "%s", message.text);
            fetch(&x);
            weft_plan_text(plan, what, sizeof what);
            compare(&x, what);
            weft_plan_destroy(plan);
            problem_free(&x);
        }
    }
    return count;
}

/* Masks, lengths of the plan and of the run, and changes of scores, by the portable kernel. */
static int masked(void) {
    enum { ROUNDS = 60 };
    uint64_t random = random_seed(73);
    for (int i = 0; i < ROUNDS; i++) {
        weft_attention p = attention(random_between(&random, 1, 3), 4, 2, random_between(&random, 60, 300),
                                     random_between(&random, 60, 300), random_between(&random, 1, 256),
                                     i % 2 ? WEFT_BF16 : WEFT_FP16, WEFT_MASK_NONE);
        lengths room;
        draw_band(&random, &p, &room);
        p.softcap = i % 3 == 0 ? 10 : 0;
        p.extras |= (i % 4 == 0 ? WEFT_ALIBI : 0) | (i % 5 == 0 ? WEFT_SINKS : 0);
        p.dropout = i % 7 == 0 ? 0.2 : 0;
        const weft_schedule s = WEFT_SCHEDULE_INIT;
        problem x = problem_new(&p, &random);
        weft_plan *plan = plan_new(&x.asked, &s, "study");
        weft_message message = {""};
        char what[1024];
        poison(&x);
        CHECK(weft_plan_run(plan, &x.device, &message) == WEFT_OK, "%s", message.text);
        fetch(&x);
        weft_plan_text(plan, what, sizeof what);
        compare(&x, what);
        weft_plan_destroy(plan);
        problem_free(&x);
    }
    return ROUNDS;
}

/* One capture, replayed with one set of lengths after the other, which are only in device memory. */
static int captured_lengths(const char *kernel) {
    enum { SEQUENCES = 3, SETS = 4 };
    static const int32_t starts[SETS][SEQUENCES + 1] = {{0, 100, 250, 700}, {0, 0, 0, 7}, {0, 699, 700, 700}, {0, 1, 2, 3}};
    static const int32_t used[SETS][SEQUENCES] = {{100, 20, 450}, {0, 0, 7}, {600, 0, 0}, {1, 0, 1}};
    uint64_t random = random_seed(74);
    weft_attention p = attention(1, 4, 2, 700, 700, 128, WEFT_BF16, WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
    p.sequences = SEQUENCES;
    p.extras = WEFT_STARTS | WEFT_KV_USED;
    const weft_schedule s = WEFT_SCHEDULE_INIT;
    problem x = problem_new(&p, &random);
    x.device.lengths.q_starts = there(starts[0], sizeof starts[0]);
    x.device.lengths.kv_used = there(used[0], sizeof used[0]);
    weft_plan *plan = plan_new(&p, &s, kernel);
    weft_message message = {""};
    void *stream, *graph, *executable;
    DEMAND(stream_new(&stream, 1));
    DEMAND(capture_begin(stream, 0));
    CHECK(weft_plan_enqueue(plan, &x.device, stream, &message) == WEFT_OK, "%s", message.text);
    DEMAND(capture_end(stream, &graph));
    DEMAND(graph_instantiate(&executable, graph, 0));
    for (int i = 0; i < SETS; i++) {
        x.p.lengths = (weft_lengths){.q_starts = starts[i], .kv_used = used[i]};
        DEMAND(driver->copy_in((uint64_t)(uintptr_t)x.device.lengths.q_starts, starts[i], sizeof starts[i]));
        DEMAND(driver->copy_in((uint64_t)(uintptr_t)x.device.lengths.kv_used, used[i], sizeof used[i]));
        poison(&x);
        DEMAND(driver->context_synchronize());
        DEMAND(graph_launch(executable, stream));
        fetch(&x);
        compare(&x, "a replay with other lengths");
    }
    weft_plan_destroy(plan);
    problem_free(&x);
    return SETS;
}

/* What a captured run computes when it is replayed is what it computes when it is run, to the bit. */
static int captured(void) {
    uint64_t random = random_seed(71);
    const weft_attention p = attention(2, 8, 2, 700, 900, 128, WEFT_BF16, WEFT_MASK_CAUSAL);
    for (int32_t dispatch = 1; dispatch <= WEFT_DISPATCHES; dispatch++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.dispatch = dispatch;
        s.sweep = WEFT_SWEEP_FORWARD;
        problem x = problem_new(&p, &random);
        const size_t bytes = x.size.o * weft_dtype_bytes(p.dtype);
        weft_plan *plan = plan_new(&p, &s, NULL);
        weft_message message = {""};
        void *stream, *graph, *executable, *first = malloc(bytes);
        DEMAND(!first);
        poison(&x);
        DEMAND(weft_plan_run(plan, &x.device, &message));
        fetch(&x);
        compare(&x, "before a capture");
        memcpy(first, x.host.o, bytes);
        DEMAND(stream_new(&stream, 1)); /* one that does not wait for the default stream */
        DEMAND(capture_begin(stream, 0));
        for (int i = 0; i < 3; i++) {
            CHECK(weft_plan_enqueue(plan, &x.device, stream, &message) == WEFT_OK, "%s", message.text);
        }
        DEMAND(capture_end(stream, &graph));
        DEMAND(graph_instantiate(&executable, graph, 0));
        for (int i = 0; i < 5; i++) {
            poison(&x);
            DEMAND(driver->context_synchronize());
            DEMAND(graph_launch(executable, stream));
            fetch(&x);
            CHECK(memcmp(first, x.host.o, bytes) == 0, "replay %d under dispatch %d differs", i, dispatch);
        }
        free(first);
        weft_plan_destroy(plan);
        problem_free(&x);
    }
    return WEFT_DISPATCHES;
}

typedef struct one_thread {
    const weft_plan *plan;
    void *context;
    problem x;
    void *want;
} one_thread;

enum { THREADS = 8, RUNS = 50 };

static void *run_many(void *argument) {
    const one_thread *o = argument;
    const size_t bytes = o->x.size.o * weft_dtype_bytes(o->x.p.dtype);
    void *stream;
    DEMAND(driver->context_push(o->context));
    DEMAND(stream_new(&stream, 1));
    for (int i = 0; i < RUNS; i++) {
        weft_message message = {""};
        CHECK(weft_plan_enqueue(o->plan, &o->x.device, stream, &message) == WEFT_OK, "%s", message.text);
    }
    DEMAND(driver->stream_synchronize(stream));
    DEMAND(driver->copy_out(o->x.host.o, (uint64_t)(uintptr_t)o->x.device.o, bytes));
    CHECK(memcmp(o->x.host.o, o->want, bytes) == 0, "a thread's result differs from the one alone");
    return NULL;
}

static int threads(void *context) {
    uint64_t random = random_seed(72);
    const weft_attention p = attention(1, 6, 3, 500, 600, 64, WEFT_FP16, WEFT_MASK_CAUSAL);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    one_thread all[THREADS];
    pthread_t handles[THREADS];
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    s.sweep = WEFT_SWEEP_FORWARD;
    weft_plan *plan = plan_new(&p, &s, NULL);
    for (int i = 0; i < THREADS; i++) {
        all[i] = (one_thread){plan, context, problem_new(&p, &random), NULL};
        const size_t bytes = all[i].x.size.o * weft_dtype_bytes(p.dtype);
        all[i].want = malloc(bytes);
        DEMAND(!all[i].want);
        DEMAND(weft_plan_run(plan, &all[i].x.device, NULL));
        fetch(&all[i].x);
        compare(&all[i].x, "before threads");
        memcpy(all[i].want, all[i].x.host.o, bytes);
        poison(&all[i].x);
    }
    DEMAND(driver->context_synchronize());
    for (int i = 0; i < THREADS; i++) {
        DEMAND(pthread_create(&handles[i], NULL, run_many, &all[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        free(all[i].want);
        problem_free(&all[i].x);
    }
    weft_plan_destroy(plan);
    return THREADS;
}

int main(void) {
    weft_cuda_device device;
    void *context = open_gpu(0, &device);
    find_symbols();
    const int kernels = every_kernel_loads(), walks = schedules(), masks = masked(), graphs = captured();
    const int replays = captured_lengths("study") + captured_lengths(NULL), many = threads(context);
    printf("plan_device on %s: %d kernels loaded, %d schedules, %d masks, %d captures, %d replays with other lengths, "
           "%d threads: %d failed\n",
           device.name, kernels, walks, masks, graphs, replays, many, failures);
    printf("a call costs the host %.2f us under static dispatch, %.2f under dynamic\n",
           enqueue_cost(WEFT_DISPATCH_STATIC, NULL), enqueue_cost(WEFT_DISPATCH_DYNAMIC, NULL));
    return failures != 0;
}
