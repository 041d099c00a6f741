#include "studies/device_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cpu/threads.h"
#include "cuda/module.h"
#include "base/random.h"
#include "ref/ref.h"
#include "studies/device_sides.h"
#include "verbs/gpu.h"
#include "verbs/measure_host.h"

enum { THREADS = 512, MOST_REPEATS = 9, PATTERN = 1 << 20 }; /* PATTERN random numbers are copied over and over */

struct device_bench {
    gpu g; /* its buffers grow as problems ask for them; there is no LSE */
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    int pushed;                  /* the context is current until the bench is closed */
    uint64_t flush, flush_bytes; /* read to empty the L2 */
    void *read_stream;
    size_t bytes[GPU_BUFFERS]; /* of each */
    weft_dtype dtype;          /* of what they hold */
    device_sides sides;
};

static int failed(const device_bench *b, weft_cu_result result, const char *what) {
    weft_message message = {""};
    return complain_status(weft_cuda_fail(b->driver, result, what, &message), &message);
}

const char *device_bench_name(const device_bench *bench) {
    return bench->device.name;
}

static weft_status take_device(device_bench *b, int32_t index, weft_message *message) {
    weft_status status;
    if ((status = weft_cuda_driver_get(&b->driver, message)) ||
        (status = weft_cuda_device_get(b->driver, index, &b->device, message))) {
        return status;
    }
    b->g.driver = b->driver;
    weft_cu_result result = b->driver->primary_retain(&b->g.context, b->device.handle);
    if (result) {
        b->g.context = NULL;
        return weft_cuda_fail(b->driver, result, "the GPU cannot be used", message);
    }
    if ((status = weft_cuda_enter(b->driver, b->g.context, &b->pushed, message)) ||
        (status = weft_cuda_function_get(b->driver, "read_stream", "read_stream", &b->read_stream, message))) {
        return status;
    }
    b->flush_bytes = 4 * (uint64_t)b->device.l2_bytes / 16 * 16;
    result = b->driver->memory_new(&b->flush, b->flush_bytes + 16);
    result = result ? result : b->driver->set_words(b->flush, 0, (b->flush_bytes + 16) / 4, NULL);
    result = result ? result : b->driver->event_new(&b->g.start, 0);
    result = result ? result : b->driver->event_new(&b->g.end, 0);
    return result ? weft_cuda_fail(b->driver, result, "no memory on the GPU", message) : WEFT_OK;
}

int device_bench_open(device_bench **bench, int32_t index) {
    weft_message message = {""};
    device_bench *b = *bench = calloc(1, sizeof *b);
    const weft_status status = b ? take_device(b, index, &message) : WEFT_NO_MEMORY;
    if (status) {
        device_bench_close(b);
        *bench = NULL;
        return b ? complain(EXIT_FAILED, "%s", message.text) : complain(EXIT_FAILED, "out of memory");
    }
    return EXIT_OK;
}

void device_bench_close(device_bench *b) {
    if (b && b->g.context) {
        if (b->flush) {
            b->driver->memory_free(b->flush);
        }
        device_sides_close(&b->sides, b->driver);
        weft_cuda_leave(b->driver, b->pushed);
        gpu_close(&b->g);
    }
    free(b);
}

/* ---- inputs ---- */

/* Random normal numbers of a dtype, as many as PATTERN; the caller frees them. */
static void *make_pattern(weft_dtype dtype, uint64_t seed) {
    void *pattern = malloc(PATTERN * weft_dtype_bytes(dtype));
    for (size_t i = 0; pattern && i < PATTERN; i++) {
        const double u = weft_random_real(&seed), v = weft_random_real(&seed);
        weft_ref_store(dtype, pattern, i, sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
    return pattern;
}

static weft_cu_result fill(const device_bench *b, uint64_t to, size_t bytes, const void *pattern, size_t pattern_bytes) {
    weft_cu_result result = 0;
    for (size_t at = 0; at < bytes && !result; at += pattern_bytes) {
        result = b->driver->copy_in(to + at, pattern, bytes - at < pattern_bytes ? bytes - at : pattern_bytes);
    }
    return result;
}

/* Buffers that hold a plan's problem, filled anew when they have to grow or the dtype changes. */
static int take_buffers(device_bench *b, const weft_plan *plan) {
    const int is_gemm = plan->subject == WEFT_SUBJECT_GEMM;
    const weft_dtype dtype = is_gemm ? plan->gemm.dtype : plan->attention.dtype;
    const size_t element = weft_dtype_bytes(dtype);
    gpu_buffer list[GPU_BUFFERS];
    const size_t count = gpu_buffers(plan, list) - (is_gemm ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        if (list[i].bytes <= b->bytes[i] && dtype == b->dtype) {
            continue;
        }
        if (b->g.memory[i]) {
            b->driver->memory_free(b->g.memory[i]);
            b->g.memory[i] = 0;
        }
        b->bytes[i] = 0;
        void *pattern = make_pattern(dtype, (uint64_t)i + 1);
        if (!pattern) {
            return complain(EXIT_FAILED, "out of memory");
        }
        weft_cu_result result = b->driver->memory_new(&b->g.memory[i], list[i].bytes);
        result = result ? result : fill(b, b->g.memory[i], list[i].bytes, pattern, PATTERN * element);
        free(pattern);
        if (result) {
            return failed(b, result, "the problem does not fit the GPU's memory");
        }
        b->bytes[i] = list[i].bytes;
    }
    b->dtype = dtype;
    return EXIT_OK;
}

/* ---- running ---- */

/* A plan that is ready to run, and where. */
typedef struct ready {
    device_bench *bench;
    weft_plan *plan;
} ready;

static weft_status empty_cache(void *user, weft_message *message) {
    const device_bench *b = ((const ready *)user)->bench;
    uint64_t count = b->flush_bytes / 16, buffer = b->flush, sink = b->flush + b->flush_bytes;
    void *values[] = {&buffer, &count, &sink};
    weft_cu_result result = b->driver->launch(b->read_stream, 4 * (unsigned)b->device.multiprocessors, 1, 1, THREADS, 1, 1,
                                              0, NULL, values, NULL);
    result = result ? result : b->driver->context_synchronize();
    return result ? weft_cuda_fail(b->driver, result, "the L2 cannot be emptied", message) : WEFT_OK;
}

static weft_status launch(void *user, weft_message *message) {
    const ready *r = user;
    const weft_status status = gpu_enqueue(&r->bench->g, r->plan, message);
    if (status) {
        return status;
    }
    const weft_cu_result result = r->bench->driver->context_synchronize();
    return result ? weft_cuda_fail(r->bench->driver, result, "the kernel failed", message) : WEFT_OK;
}

/* All in turns, so that what heat does to the clocks is done to each of them. Long ones are run less often. */
static int time_all(const ready *plans, device_case *cases, size_t count) {
    double total = 0;
    int code = EXIT_OK;
    double(*times)[MOST_REPEATS] = calloc(count, sizeof *times);
    if (!times) {
        return complain(EXIT_FAILED, "out of memory");
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) { /* the first run of each is not counted */
        if (plans[i].plan) {
            code = gpu_time(&plans[i].bench->g, plans[i].plan, &times[i][0]);
            total += times[i][0];
        }
    }
    const int repeats = total > 1.0 ? 3 : total > 0.3 ? 5 : MOST_REPEATS;
    for (int turn = 0; turn < repeats && code == EXIT_OK; turn++) {
        for (size_t i = 0; i < count && code == EXIT_OK; i++) {
            code = plans[i].plan ? gpu_time(&plans[i].bench->g, plans[i].plan, &times[i][turn]) : EXIT_OK;
        }
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        if (plans[i].plan) {
            cases[i].seconds = median(times[i], (size_t)repeats);
            const weft_plan *plan = plans[i].plan;
            const double flops =
                plan->subject == WEFT_SUBJECT_GEMM ? weft_gemm_flops(&plan->gemm) : weft_attention_flops(&plan->attention);
            cases[i].tflops = flops / cases[i].seconds / 1e12;
        }
    }
    free(times);
    return code;
}

/* What studies look at. Rates and stalls would take further passes. */
static const weft_counter traffic[] = {
    WEFT_COUNTER_L2_SECTORS, WEFT_COUNTER_L2_SECTORS_FROM_SM, WEFT_COUNTER_FABRIC_SECTORS,   WEFT_COUNTER_L2_HITS,
    WEFT_COUNTER_L2_MISSES,  WEFT_COUNTER_SM_READ_SECTORS,    WEFT_COUNTER_SM_WRITE_SECTORS, WEFT_COUNTER_L1_SECTORS,
    WEFT_COUNTER_L1_HITS,    WEFT_COUNTER_DRAM_READ_BYTES,    WEFT_COUNTER_DRAM_WRITE_BYTES};
enum { TRAFFIC = sizeof traffic / sizeof *traffic };

static int count_all(device_bench *b, ready *plans, device_case *cases, size_t count, int all) {
    const weft_counters_request request = {b->g.context, b->device.handle, all ? NULL : traffic, all ? 0 : TRAFFIC, NULL};
    weft_counters *session = NULL;
    weft_message message = {""};
    weft_status status = weft_counters_open(&session, &request, &message);
    if (status) {
        char command[1024], ncu[3072];
        device_command(command, sizeof command);
        weft_counters_ncu(NULL, 0, "^(attention|gemm)", command, ncu, sizeof ncu);
        return complain(EXIT_FAILED, "%s; or run: %s", message.text, ncu);
    }
    for (size_t i = 0; i < count && !status; i++) {
        const weft_counters_work work = {empty_cache, launch, &plans[i]};
        double values[WEFT_COUNTERS];
        status = plans[i].plan ? weft_counters_measure(session, &work, values, &message) : WEFT_OK;
        for (int k = 0; k < (all ? WEFT_COUNTERS : TRAFFIC) && plans[i].plan && !status; k++) {
            cases[i].values[all ? k : (int)traffic[k]] = values[k];
        }
    }
    weft_counters_close(session);
    return status ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

/* Runs a plan that was placed by sides once, and makes sure that no tile is missing. */
static int check_placed(ready *r) {
    const device_bench *b = r->bench;
    const size_t bytes = weft_attention_sizes(&r->plan->attention).o * weft_dtype_bytes(b->dtype);
    weft_message message = {""};
    weft_status status = device_sides_poison(b->driver, b->g.memory[3], bytes, &message);
    status = status ? status : launch(r, &message);
    status = status ? status : device_sides_check(b->driver, b->g.memory[3], bytes, &message);
    return status ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

/* Makes the plan of a case, and buffers for it. A refused plan is left null when it may be skipped. */
static int make_ready(device_bench *b, device_case *c, ready *r, int skip) {
    weft_message message = {""};
    r->bench = b;
    r->plan = NULL;
    c->kernel[0] = '\0';
    c->seconds = c->tflops = NAN;
    memset(&c->sim, 0, sizeof c->sim);
    for (int i = 0; i < WEFT_COUNTERS; i++) {
        c->values[i] = NAN;
    }
    c->device.struct_size = sizeof c->device;
    c->device.kind = WEFT_DEVICE_CUDA;
    c->device.index = b->device.index;
    const weft_status status =
        c->subject == WEFT_SUBJECT_GEMM
            ? weft_plan_gemm_on(&r->plan, &c->gemm, &c->schedule, NULL, &c->device, &message)
            : weft_plan_attention_on(&r->plan, &c->problem, &c->schedule, NULL, &c->device, &message);
    if (status) {
        return skip && status == WEFT_UNSUPPORTED ? EXIT_OK : complain(exit_code(status), "%s", message.text);
    }
    c->schedule = weft_plan_schedule(r->plan);
    snprintf(c->kernel, sizeof c->kernel, "%s", r->plan->backend->kernel(r->plan));
    if (c->by_side && device_sides_place(&b->sides, r->plan, &message) != WEFT_OK) {
        return complain(EXIT_FAILED, "%s", message.text);
    }
    const int code = take_buffers(b, r->plan);
    return code || !c->by_side ? code : check_placed(r);
}

/* Cases that are simulated over threads. */
typedef struct simulating {
    const ready *plans;
    device_case *cases;
    int bad; /* a message was printed */
} simulating;

static void simulate_one(void *context, int64_t i) {
    simulating *s = context;
    if (s->plans[i].plan && !s->cases[i].no_simulation) {
        weft_message message = {""};
        if (weft_simulate(s->plans[i].plan, NULL, &s->cases[i].sim, NULL, &message) != WEFT_OK) {
            __atomic_store_n(&s->bad, complain(EXIT_FAILED, "%s", message.text), __ATOMIC_RELAXED);
        }
    }
}

static int simulate_all(const ready *plans, device_case *cases, size_t count) {
    simulating s = {plans, cases, EXIT_OK};
    weft_cpu_for((int64_t)count, simulate_one, &s);
    return s.bad;
}

int device_bench_run(device_bench *bench, device_case *cases, size_t count, int tasks, int skip) {
    ready *plans = calloc(count, sizeof *plans);
    if (!plans) {
        return complain(EXIT_FAILED, "out of memory");
    }
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = make_ready(bench, &cases[i], &plans[i], skip);
    }
    if (code == EXIT_OK && (tasks & DEVICE_TIME)) {
        code = time_all(plans, cases, count);
    }
    if (code == EXIT_OK && (tasks & (DEVICE_COUNT | DEVICE_COUNT_TRAFFIC))) {
        code = count_all(bench, plans, cases, count, tasks & DEVICE_COUNT);
    }
    if (code == EXIT_OK && (tasks & DEVICE_SIMULATE)) {
        code = simulate_all(plans, cases, count);
    }
    for (size_t i = 0; i < count; i++) {
        weft_plan_destroy(plans[i].plan);
    }
    free(plans);
    return code;
}
