/* SPDX-License-Identifier: Apache-2.0 */
/* Captured launches on a real GPU: the executables of a graph and of its clone run at the same time, a child graph runs in
 * two branches, and every launch computes all of its tiles; a launch follows something that is no kernel; plans are made
 * and destroyed while another thread captures. Exits 77, with one line, where there is no GPU. */
#include "attention_trial.h"

#include <pthread.h>

#include "../plans.h"
#include "cuda/sm90/attention/params.h"
#include "cuda/sm90/gemm/params.h"
#include "cuda/study/params.h"

/* CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct node_params {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    void *kernel, *context;
} node_params;

enum { KERNEL_NODE = 0, NON_BLOCKING = 1 }; /* a CUgraphNodeType; a flag of streams */

/* What only this test calls. */
static int (*capture_begin)(void *stream, int mode);
static int (*capture_end)(void *stream, void **graph);
static int (*graph_new)(void **graph, unsigned flags);
static int (*graph_clone)(void **clone, void *graph);
static int (*graph_nodes)(void *graph, void **nodes, size_t *count);
static int (*graph_child)(void **node, void *graph, void *const *after, size_t count, void *child);
static int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
static int (*graph_launch)(void *executable, void *stream);
static int (*stream_create)(void **stream, unsigned flags);
static int (*stream_destroy)(void *stream);
static int (*node_type)(void *node, int *type);
static int (*node_get)(void *node, node_params *params);
static int (*node_set)(void *node, const node_params *params);

static void find_symbols(void) {
    const driver_symbol wanted[] = {{&capture_begin, "cuStreamBeginCapture_v2"},
                                    {&capture_end, "cuStreamEndCapture"},
                                    {&graph_new, "cuGraphCreate"},
                                    {&graph_clone, "cuGraphClone"},
                                    {&graph_nodes, "cuGraphGetNodes"},
                                    {&graph_child, "cuGraphAddChildGraphNode"},
                                    {&graph_launch, "cuGraphLaunch"},
                                    {&graph_instantiate, "cuGraphInstantiateWithFlags"},
                                    {&stream_create, "cuStreamCreate"},
                                    {&stream_destroy, "cuStreamDestroy_v2"},
                                    {&node_type, "cuGraphNodeGetType"},
                                    {&node_get, "cuGraphKernelNodeGetParams_v2"},
                                    {&node_set, "cuGraphKernelNodeSetParams_v2"}};
    find_driver_symbols(wanted, sizeof wanted / sizeof *wanted);
}

static void *stream_new(unsigned flags) {
    void *stream;
    DEMAND(stream_create(&stream, flags));
    return stream;
}

/* The one kernel of a graph. */
static void *kernel_of(void *graph) {
    void *nodes[8], *kernel = NULL;
    size_t count = 8;
    DEMAND(graph_nodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        int type = -1;
        DEMAND(node_type(nodes[i], &type));
        kernel = type == KERNEL_NODE ? nodes[i] : kernel;
    }
    DEMAND(!kernel);
    return kernel;
}

/* A plan with two sets of buffers, and what they hold when all is done. */
typedef struct subject {
    const char *name;
    weft_plan *plan;
    problem x[2];  /* an attention's */
    uint64_t c[2]; /* a product's result; a and b are `a` */
    uint64_t a;
    size_t bytes; /* of a result */
    void *want[2], *got;
} subject;

static uint64_t result_of(const subject *s, int i) {
    return s->a ? s->c[i] : (uint64_t)(uintptr_t)s->x[i].device.o;
}

static weft_status enqueue(const subject *s, int i, void *stream, weft_message *message) {
    void *a = (void *)(uintptr_t)s->a;
    const weft_gemm_data data = gemm_data(a, a, (void *)(uintptr_t)s->c[i]);
    return s->a ? weft_plan_enqueue(s->plan, &data, stream, message)
                : weft_plan_enqueue(s->plan, &s->x[i].device, stream, message);
}

/* Gives a launch's parameters the buffers of another's; all else stays as it was captured, the counters too. */
static void exchange_buffers(const subject *s, void *to, const void *from) {
    if (s->a) {
        ((weft_gemm_params *)to)->c = ((const weft_gemm_params *)from)->c;
    } else if (strcmp(s->plan->device.kernel, "study") == 0) {
        weft_study_params *p = to;
        const weft_study_params *other = from;
        p->q = other->q, p->k = other->k, p->v = other->v, p->o = other->o, p->lse = other->lse;
    } else {
        weft_hopper_attention_params *p = to;
        const weft_hopper_attention_params *other = from;
        p->q = other->q, p->k = other->k, p->v = other->v, p->o_map = other->o_map, p->o = other->o, p->lse = other->lse;
    }
}

static void *capture(const subject *s, int i) {
    void *graph, *stream = stream_new(NON_BLOCKING);
    weft_message message = {""};
    DEMAND(capture_begin(stream, 0));
    CHECK(enqueue(s, i, stream, &message) == WEFT_OK, "%s: %s", s->name, message.text);
    DEMAND(capture_end(stream, &graph));
    DEMAND(stream_destroy(stream));
    return graph;
}

/* A clone of the graph that works on the second set of buffers. */
static void *clone_of(const subject *s, void *graph) {
    /* The driver's copies are not aligned as tensor maps are. */
    _Alignas(64) unsigned char bytes[WEFT_CUDA_MAX_PARAMETERS], others_bytes[WEFT_CUDA_MAX_PARAMETERS];
    void *clone, *other = capture(s, 1);
    node_params params, others;
    DEMAND(graph_clone(&clone, graph));
    DEMAND(node_get(kernel_of(clone), &params));
    DEMAND(node_get(kernel_of(other), &others));
    const weft_cuda_plan *c = s->plan->placed;
    memcpy(bytes, params.parameters[0], c->family->parameter_bytes);
    memcpy(others_bytes, others.parameters[0], c->family->parameter_bytes);
    exchange_buffers(s, bytes, others_bytes);
    void *arguments[] = {bytes};
    params.parameters = arguments;
    DEMAND(node_set(kernel_of(clone), &params));
    return clone;
}

static void spoil(const subject *s) {
    for (int i = 0; i < 2; i++) {
        DEMAND(driver->set_words(result_of(s, i), UINT32_MAX, s->bytes / 4, NULL));
    }
    DEMAND(driver->context_synchronize());
}

static void judge(const subject *s, const char *what, int round) {
    DEMAND(driver->context_synchronize());
    for (int i = 0; i < 2; i++) {
        size_t wrong = 0;
        DEMAND(driver->copy_out(s->got, result_of(s, i), s->bytes));
        for (size_t j = 0; j < s->bytes / 2; j++) {
            wrong += ((const uint16_t *)s->got)[j] != ((const uint16_t *)s->want[i])[j];
        }
        CHECK(wrong == 0, "%s, %s, round %d: %zu of %zu elements of launch %d are wrong", s->name, what, round, wrong,
              s->bytes / 2, i);
    }
}

/* Two executables on two streams, then one child graph in two branches, many times. */
static void at_once(subject *s, int rounds) {
    void *first = capture(s, 0), *second = clone_of(s, first), *executables[2], *parent, *node, *both;
    void *streams[] = {stream_new(NON_BLOCKING), stream_new(NON_BLOCKING)};
    DEMAND(graph_instantiate(&executables[0], first, 0));
    DEMAND(graph_instantiate(&executables[1], second, 0));
    DEMAND(graph_new(&parent, 0));
    DEMAND(graph_child(&node, parent, NULL, 0, first));
    DEMAND(graph_child(&node, parent, NULL, 0, second));
    DEMAND(graph_instantiate(&both, parent, 0));
    for (int i = 0; i < 2; i++) {
        s->want[i] = malloc(s->bytes);
        DEMAND(!s->want[i]);
        DEMAND(enqueue(s, i, NULL, NULL));
        DEMAND(driver->context_synchronize());
        DEMAND(driver->copy_out(s->want[i], result_of(s, i), s->bytes));
    }
    s->got = malloc(s->bytes);
    DEMAND(!s->got);
    for (int round = 0; round < rounds; round++) {
        spoil(s);
        for (int i = 0; i < 4; i++) { /* twice each, so that launches meet in every way */
            DEMAND(graph_launch(executables[(i + round) % 2], streams[(i + round) % 2]));
        }
        judge(s, "two executables", round);
        spoil(s);
        DEMAND(graph_launch(both, streams[0]));
        judge(s, "two branches", round);
    }
    DEMAND(stream_destroy(streams[0]));
    DEMAND(stream_destroy(streams[1]));
}

static void subject_free(subject *s) {
    weft_plan_destroy(s->plan);
    for (int i = 0; i < 2; i++) {
        if (s->a) {
            DEMAND(driver->memory_free(s->c[i]));
        } else {
            problem_free(&s->x[i]);
        }
        free(s->want[i]);
    }
    if (s->a) {
        DEMAND(driver->memory_free(s->a));
    }
    free(s->got);
}

/* Fewer workers than SMs, so that two launches run at the same time; tiles of all lengths. */
static void attentions(const char *kernel, int64_t workers, int32_t sweep, int rounds) {
    uint64_t random = random_seed(90);
    const weft_attention p =
        attention(1, 4, 4, 2048, 2048, 64, WEFT_BF16, sweep == WEFT_SWEEP_FORWARD ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE);
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.dispatch = WEFT_DISPATCH_DYNAMIC;
    schedule.sweep = sweep;
    schedule.order = sweep == WEFT_SWEEP_FORWARD ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_HEAD_FIRST;
    schedule.workers = workers;
    subject s = {.name = kernel, .plan = plan_new(&p, &schedule, kernel)};
    s.x[0] = problem_new(&p, &random);
    s.x[1] = problem_new(&p, &random);
    s.bytes = s.x[0].size.o * 2;
    at_once(&s, rounds);
    subject_free(&s);
}

static void products(int32_t order, int32_t dispatch, int64_t workers, int rounds) {
    enum { SIDE = 2048 };
    uint64_t random = random_seed(91);
    weft_gemm p = WEFT_GEMM_INIT;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    weft_message message = {""};
    subject s = {.name = dispatch == WEFT_DISPATCH_DYNAMIC ? "a product" : "a product by side"};
    p.m = p.n = p.k = SIDE;
    p.dtype = p.c_dtype = WEFT_BF16;
    device.kind = WEFT_DEVICE_CUDA;
    schedule.order = order;
    schedule.dispatch = dispatch;
    schedule.domains = 2;
    schedule.tile_m = schedule.tile_n = 128;
    schedule.cluster_m = schedule.cluster_n = 1;
    schedule.workers = workers;
    if (plan_on(&s.plan, &p, &schedule, NULL, &device, &message)) {
        CHECK(0, "%s", message.text);
        return;
    }
    s.bytes = (size_t)SIDE * SIDE * 2;
    void *host = make(WEFT_BF16, (size_t)SIDE * SIDE, &random);
    s.a = (uint64_t)(uintptr_t)there(host, s.bytes);
    for (int i = 0; i < 2; i++) {
        s.c[i] = (uint64_t)(uintptr_t)there(host, s.bytes);
    }
    free(host);
    at_once(&s, rounds);
    subject_free(&s);
}

/* A captured launch after a memset, which is no kernel. */
static void after_memset(int32_t dispatch) {
    uint64_t random = random_seed(92);
    const weft_attention p = attention(1, 4, 4, 512, 512, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    void *graph, *executable, *stream = stream_new(NON_BLOCKING);
    s.dispatch = dispatch;
    problem x = problem_new(&p, &random);
    weft_plan *plan = plan_new(&p, &s, NULL);
    DEMAND(capture_begin(stream, 0));
    DEMAND(driver->set_words((uint64_t)(uintptr_t)x.device.o, UINT32_MAX, x.size.o / 2, stream));
    CHECK(weft_plan_enqueue(plan, &x.device, stream, &message) == WEFT_OK, "dispatch %d after a memset: %s", (int)dispatch,
          message.text);
    const int ended = capture_end(stream, &graph);
    CHECK(ended == 0, "dispatch %d after a memset: the capture ends with %d", (int)dispatch, ended);
    if (ended == 0 && graph_instantiate(&executable, graph, 0) == 0) {
        poison(&x);
        DEMAND(graph_launch(executable, stream));
        fetch(&x);
        compare(&x, "after a memset");
    }
    weft_plan_destroy(plan);
    problem_free(&x);
    DEMAND(stream_destroy(stream));
}

/* Makes plans, of which one measures the L2, and destroys them. */
static void *make_plans(void *context) {
    const weft_attention p = attention(1, 4, 4, 512, 512, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    weft_schedule table = WEFT_SCHEDULE_INIT, by_side = WEFT_SCHEDULE_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    weft_gemm g = WEFT_GEMM_INIT;
    DEMAND(driver->context_push(context));
    device.kind = WEFT_DEVICE_CUDA;
    g.m = g.n = g.k = 2048;
    g.dtype = g.c_dtype = WEFT_BF16;
    by_side.order = WEFT_ORDER_SERPENTINE_SWIZZLED;
    by_side.domains = 2;
    table.table = 1;
    table.dispatch = WEFT_DISPATCH_DYNAMIC;
    for (int i = 0; i < 20; i++) {
        weft_message message = {""};
        weft_plan *plan = NULL;
        CHECK(plan_on(&plan, &p, &table, NULL, &device, &message) == WEFT_OK, "%s", message.text);
        weft_plan_destroy(plan);
        CHECK(plan_on(&plan, &g, &by_side, NULL, &device, &message) == WEFT_OK, "%s", message.text);
        weft_plan_destroy(plan);
    }
    return NULL;
}

/* Another thread makes plans while this one captures a stream, one that the default stream waits for or not. */
static void while_capturing(void *context, unsigned flags) {
    uint64_t random = random_seed(93);
    const weft_attention p = attention(1, 4, 4, 512, 512, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    void *graph, *stream = stream_new(flags);
    pthread_t thread;
    problem x = problem_new(&p, &random);
    weft_plan *plan = plan_new(&p, NULL, NULL);
    DEMAND(driver->context_synchronize());
    DEMAND(capture_begin(stream, 0));
    DEMAND(weft_plan_enqueue(plan, &x.device, stream, NULL));
    DEMAND(pthread_create(&thread, NULL, make_plans, context));
    pthread_join(thread, NULL);
    const weft_status status = weft_plan_enqueue(plan, &x.device, stream, NULL);
    const int ended = capture_end(stream, &graph);
    CHECK(status == WEFT_OK && ended == 0, "a capture of a stream with flags %u, while plans are made: %d, ends with %d",
          flags, (int)status, ended);
    weft_plan_destroy(plan);
    problem_free(&x);
    DEMAND(stream_destroy(stream));
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    weft_cuda_device device;
    void *context = open_gpu(90, &device);
    find_symbols();
    for (int64_t workers = 20; workers <= device.multiprocessors; workers += 56) { /* half of them, or all, at once */
        attentions("hopper_attention", workers, WEFT_SWEEP_FORWARD, rounds);
        attentions("hopper_attention", workers, WEFT_SWEEP_SAWTOOTH, rounds);
        attentions("study", workers, WEFT_SWEEP_FORWARD, rounds);
        products(WEFT_ORDER_SERPENTINE, WEFT_DISPATCH_DYNAMIC, workers, rounds);
        products(WEFT_ORDER_SERPENTINE_SWIZZLED, WEFT_DISPATCH_STATIC, workers, rounds);
    }
    after_memset(WEFT_DISPATCH_STATIC);
    after_memset(WEFT_DISPATCH_DYNAMIC);
    while_capturing(context, NON_BLOCKING);
    while_capturing(context, 0);
    printf("graphs_device on %s: %d failed\n", device.name, failures);
    return failures != 0;
}
