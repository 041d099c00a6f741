/* Plans on a real GPU: every kernel loads; problems and schedules against the reference; a captured run replayed; one plan
 * in many threads. Exits 77, with one line, where there is no GPU. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../random.h"
#include "cuda/cuda.h"
#include "cuda/module.h"
#include "cuda/study.h"
#include "plan/problem.h"
#include "ref/ref.h"

static const weft_cuda_driver *driver;
static int failures;

#define CHECK(condition, ...)                                                                                              \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
            fprintf(stderr, __VA_ARGS__);                                                                                  \
            fputc('\n', stderr);                                                                                           \
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                                            \
        }                                                                                                                  \
    } while (0)

#define DEMAND(call)                                                                                                       \
    do {                                                                                                                   \
        const int result_ = (int)(call);                                                                                   \
        if (result_) {                                                                                                     \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, result_);                                    \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* What only this test calls. */
static int (*stream_new)(void **stream, unsigned flags);
static int (*capture_begin)(void *stream, int mode);
static int (*capture_end)(void *stream, void **graph);
static int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
static int (*graph_launch)(void *executable, void *stream);

static void find_symbols(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    DEMAND(library == NULL);
    *(void **)(&stream_new) = dlsym(library, "cuStreamCreate");
    *(void **)(&capture_begin) = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)(&capture_end) = dlsym(library, "cuStreamEndCapture");
    *(void **)(&graph_instantiate) = dlsym(library, "cuGraphInstantiateWithFlags");
    *(void **)(&graph_launch) = dlsym(library, "cuGraphLaunch");
    DEMAND(!stream_new || !capture_begin || !capture_end || !graph_instantiate || !graph_launch);
}

enum { WIDEST = 1024 }; /* keys, at most */

/* An attention with its tensors here and on the GPU. */
typedef struct problem {
    weft_attention p;
    weft_attention_extents size;
    weft_attention_data host, device;
} problem;

static void *make(weft_dtype dtype, size_t count, uint64_t *random) {
    void *data = malloc(count * weft_dtype_bytes(dtype));
    DEMAND(!data);
    for (size_t i = 0; i < count; i++) {
        weft_ref_store(dtype, data, i, random ? 4 * ((double)(random_bits(random) >> 11) * 0x1p-53 - 0.5) : NAN);
    }
    return data;
}

static void *there(const void *from, size_t bytes) {
    uint64_t to = 0;
    DEMAND(driver->memory_new(&to, bytes));
    DEMAND(driver->copy_in(to, from, bytes));
    return (void *)(uintptr_t)to;
}

static problem problem_new(const weft_attention *p, uint64_t *random) {
    problem x;
    weft_message message = {""};
    if (weft_attention_resolve(&x.p, p, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    x.size = weft_attention_sizes(&x.p);
    const size_t bytes = weft_dtype_bytes(p->dtype);
    x.host = (weft_attention_data){make(p->dtype, x.size.q, random), make(p->dtype, x.size.k, random),
                                   make(p->dtype, x.size.v, random), make(p->dtype, x.size.o, NULL),
                                   make(WEFT_FP32, x.size.lse, NULL)};
    x.device = (weft_attention_data){there(x.host.q, x.size.q * bytes), there(x.host.k, x.size.k * bytes),
                                     there(x.host.v, x.size.v * bytes), there(x.host.o, x.size.o * bytes),
                                     there(x.host.lse, x.size.lse * sizeof(float))};
    return x;
}

static void poison(const problem *x) {
    const size_t bytes = x->size.o * weft_dtype_bytes(x->p.dtype);
    memset(x->host.o, 0xff, bytes);
    memset(x->host.lse, 0xff, x->size.lse * sizeof(float));
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.o, x->host.o, bytes));
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.lse, x->host.lse, x->size.lse * sizeof(float)));
}

static void fetch(const problem *x) {
    DEMAND(driver->context_synchronize());
    DEMAND(driver->copy_out(x->host.o, (uint64_t)(uintptr_t)x->device.o, x->size.o * weft_dtype_bytes(x->p.dtype)));
    DEMAND(driver->copy_out(x->host.lse, (uint64_t)(uintptr_t)x->device.lse, x->size.lse * sizeof(float)));
}

static void problem_free(problem *x) {
    const void *here[] = {x->host.q, x->host.k, x->host.v, x->host.o, x->host.lse};
    const void *far[] = {x->device.q, x->device.k, x->device.v, x->device.o, x->device.lse};
    for (int i = 0; i < 5; i++) {
        free((void *)(uintptr_t)here[i]);
        DEMAND(driver->memory_free((uint64_t)(uintptr_t)far[i]));
    }
}

/* No worse than twice a plain kernel in the same dtype. */
static void compare(const problem *x, const char *what) {
    const weft_attention *p = &x->p;
    const int64_t rows = p->batch * p->heads * p->seq;
    double error = 0, bound = 0, largest = 0;
    int wrong = 0;
#pragma omp parallel for reduction(max : error, bound, largest) reduction(+ : wrong)
    for (int64_t i = 0; i < rows; i++) {
        double weights[WIDEST], exact[256], naive[256], lse;
        float plain[WIDEST];
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        weft_ref_attention_row(p, &x->host, batch, head, row, weights, exact, &lse);
        weft_ref_attention_row_naive(p, &x->host, batch, head, row, plain, naive);
        const double got_lse = (double)x->host.lse[i];
        wrong += !(lse == -INFINITY ? got_lse == lse : fabs(got_lse - lse) <= 1e-4 * fmax(1, fabs(lse)));
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double got =
                weft_ref_load(p->dtype, x->host.o, weft_row_index(&p->o_strides, batch, row, head) + (size_t)d);
            wrong += !isfinite(got);
            error = fmax(error, fabs(got - exact[d]));
            bound = fmax(bound, 2 * fabs(naive[d] - exact[d]));
            largest = fmax(largest, fabs(exact[d]));
        }
    }
    bound = fmax(bound, (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8) * largest);
    CHECK(!wrong && error <= bound, "%s: %d wrong, error %g of %g", what, wrong, error, bound);
}

static weft_plan *plan_new(const weft_attention *p, const weft_schedule *s) {
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    gpu.kind = WEFT_DEVICE_CUDA;
    if (weft_plan_attention_on(&plan, p, s, NULL, &gpu, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    return plan;
}

static weft_attention attention(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq, int64_t kv_seq, int64_t dim,
                                weft_dtype dtype, weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = dim;
    p.dtype = dtype;
    p.mask = mask;
    return p;
}

/* Every kernel of study.def, and what measures the L2. */
static int every_kernel_loads(void) {
    static const char *const kernels[][2] = {
#define WEFT_STUDY(symbol, module, ...) {#module, #symbol},
#include "cuda/study.def"
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
    uint64_t random = 70;
    static const int64_t dims[] = {64, 128, 56, 80, 96};
    int count = 0;
    for (int32_t order = WEFT_ORDER_BLOCK_FIRST; order <= WEFT_ORDER_LONGEST_FIRST; order++) {
        for (int i = 0; i < WEFT_SWEEPS * WEFT_DISPATCHES * 2; i++, count++) {
            weft_attention p = attention(random_between(&random, 1, 2), 4, 2, random_between(&random, 1, 400),
                                         random_between(&random, 1, 400), dims[count % 5],
                                         count % 2 ? WEFT_BF16 : WEFT_FP16, (weft_mask)(count % 3));
            p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -100, 100) : 0;
            p.layout = (weft_layout)(count / 2 % 2);
            weft_schedule s = WEFT_SCHEDULE_INIT;
            s.order = order;
            s.sweep = i % WEFT_SWEEPS;
            s.dispatch = i / WEFT_SWEEPS % WEFT_DISPATCHES;
            s.table = i / WEFT_SWEEPS / WEFT_DISPATCHES;
            s.workers = random_between(&random, 0, 9);
            s.domains = random_between(&random, 1, 3);
            problem x = problem_new(&p, &random);
            weft_plan *plan = plan_new(&p, &s);
            weft_message message = {""};
            char what[1024];
            poison(&x);
            CHECK(weft_plan_run_attention(plan, &x.device, &message) == WEFT_OK, "%s", message.text);
            fetch(&x);
            weft_plan_text(plan, what, sizeof what);
            compare(&x, what);
            weft_plan_destroy(plan);
            problem_free(&x);
        }
    }
    return count;
}

/* What a captured run computes when it is replayed is what it computes when it is run, to the bit. */
static int captured(void) {
    uint64_t random = 71;
    const weft_attention p = attention(2, 8, 2, 700, 900, 128, WEFT_BF16, WEFT_MASK_CAUSAL);
    for (int32_t dispatch = 0; dispatch < WEFT_DISPATCHES; dispatch++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.dispatch = dispatch;
        s.sweep = WEFT_SWEEP_FORWARD;
        problem x = problem_new(&p, &random);
        const size_t bytes = x.size.o * weft_dtype_bytes(p.dtype);
        weft_plan *plan = plan_new(&p, &s);
        weft_message message = {""};
        void *stream, *graph, *executable, *first = malloc(bytes);
        DEMAND(!first);
        poison(&x);
        DEMAND(weft_plan_run_attention(plan, &x.device, &message));
        fetch(&x);
        compare(&x, "before a capture");
        memcpy(first, x.host.o, bytes);
        DEMAND(stream_new(&stream, 1)); /* one that does not wait for the default stream */
        DEMAND(capture_begin(stream, 0));
        for (int i = 0; i < 3; i++) {
            CHECK(weft_plan_enqueue_attention(plan, &x.device, stream, &message) == WEFT_OK, "%s", message.text);
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
        CHECK(weft_plan_enqueue_attention(o->plan, &o->x.device, stream, &message) == WEFT_OK, "%s", message.text);
    }
    DEMAND(driver->stream_synchronize(stream));
    DEMAND(driver->copy_out(o->x.host.o, (uint64_t)(uintptr_t)o->x.device.o, bytes));
    CHECK(memcmp(o->x.host.o, o->want, bytes) == 0, "a thread's result differs from the one alone");
    return NULL;
}

static int threads(void *context) {
    uint64_t random = 72;
    const weft_attention p = attention(1, 6, 3, 500, 600, 64, WEFT_FP16, WEFT_MASK_CAUSAL);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    one_thread all[THREADS];
    pthread_t handles[THREADS];
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    s.sweep = WEFT_SWEEP_FORWARD;
    weft_plan *plan = plan_new(&p, &s);
    for (int i = 0; i < THREADS; i++) {
        all[i] = (one_thread){plan, context, problem_new(&p, &random), NULL};
        const size_t bytes = all[i].x.size.o * weft_dtype_bytes(p.dtype);
        all[i].want = malloc(bytes);
        DEMAND(!all[i].want);
        DEMAND(weft_plan_run_attention(plan, &all[i].x.device, NULL));
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

/* What the host spends on a call, in microseconds, while the GPU is not waited for. */
static double enqueue_cost(int32_t dispatch) {
    enum { CALLS = 500 };
    uint64_t random = 73;
    const weft_attention p = attention(1, 1, 1, 64, 64, 64, WEFT_BF16, WEFT_MASK_NONE);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    struct timespec begin, end;
    s.dispatch = dispatch;
    problem x = problem_new(&p, &random);
    weft_plan *plan = plan_new(&p, &s);
    DEMAND(weft_plan_run_attention(plan, &x.device, NULL));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++) {
        DEMAND(weft_plan_enqueue_attention(plan, &x.device, NULL, NULL));
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    DEMAND(driver->context_synchronize());
    weft_plan_destroy(plan);
    problem_free(&x);
    return (1e6 * (double)(end.tv_sec - begin.tv_sec) + 1e-3 * (double)(end.tv_nsec - begin.tv_nsec)) / CALLS;
}

int main(void) {
    weft_message message = {""};
    weft_cuda_device device;
    void *context;
    const weft_status found = weft_cuda_driver_get(&driver, &message);
    if (found == WEFT_NOT_FOUND) {
        printf("skipped: %s\n", message.text);
        return 77;
    }
    if (found || weft_cuda_device_get(driver, 0, &device, &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    DEMAND(driver->primary_retain(&context, device.handle));
    DEMAND(driver->context_push(context));
    find_symbols();
    const int kernels = every_kernel_loads(), walks = schedules(), graphs = captured(), many = threads(context);
    printf("plan_device on %s: %d kernels loaded, %d schedules, %d captures, %d threads: %d failed\n", device.name, kernels,
           walks, graphs, many, failures);
    printf("a call costs the host %.2f us under static dispatch, %.2f under dynamic\n", enqueue_cost(WEFT_DISPATCH_STATIC),
           enqueue_cost(WEFT_DISPATCH_DYNAMIC));
    return failures != 0;
}
