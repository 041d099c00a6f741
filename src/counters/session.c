/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: ranges that the caller replays, pass by pass. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "counters/metrics.h"

struct weft_counters {
    weft_cupti cupti;
    weft_metrics metrics;
    void *context;
    size_t wanted;  /* how many values a measurement gives */
    void *profiler; /* CUPTI's object, while the range profiler is on */
    uint8_t *data;  /* what the passes counted */
    size_t data_bytes;
};

/* Asks whether the chip, its driver and their set-up let a process read counters, and says what does not. */
static weft_status check_device(const weft_cupti *cupti, int32_t device, weft_message *message) {
    weft_cupti_device_supported s = {.size = WEFT_CUPTI_SIZE(weft_cupti_device_supported, api), .device = device, .api = 0};
    const weft_status status =
        weft_cupti_check(cupti, cupti->device_supported(&s), "ask whether the GPU has counters", message);
    if (status || s.supported == WEFT_CUPTI_SUPPORTED) {
        return status;
    }
    const struct {
        int32_t level;
        const char *text;
    } reasons[] = {{s.architecture, "the chip is too old"},
                   {s.sli, "SLI is on"},
                   {s.vgpu, "it is a virtual GPU without profiling"},
                   {s.confidential_compute, "confidential computing is on"},
                   {s.cmp, "it is a mining processor"},
                   {s.wsl, "WSL does not pass them on"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].level != WEFT_CUPTI_SUPPORTED) {
            return weft_fail(message, WEFT_UNSUPPORTED, "GPU %d gives no hardware counters: %s", device, reasons[i].text);
        }
    }
    return weft_fail(message, WEFT_UNSUPPORTED, "GPU %d gives no hardware counters", device);
}

/* The image of the counters that the driver lets through; the caller frees it. */
static weft_status read_availability(const weft_cupti *cupti, void *context, uint8_t **image, weft_message *message) {
    static const char doing[] = "ask which counters are free";
    weft_cupti_availability a = {WEFT_CUPTI_SIZE(weft_cupti_availability, image), NULL, context, 0, NULL};
    weft_status status = weft_cupti_check(cupti, cupti->availability(&a), doing, message);
    if (status) {
        return status;
    }
    *image = a.image = calloc(a.bytes ? a.bytes : 1, 1);
    return *image ? weft_cupti_check(cupti, cupti->availability(&a), doing, message)
                  : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
}

static weft_status choose_metrics(weft_counters *c, const weft_counters_request *r, const weft_counter *wanted,
                                  weft_message *message) {
    /* Never undone: another session of the process may be using the profiler. */
    weft_cupti_initialize initialize = {WEFT_CUPTI_SIZE(weft_cupti_initialize, reserved), NULL};
    weft_status status = weft_cupti_check(&c->cupti, c->cupti.initialize(&initialize), "start", message);
    if (!status) {
        status = check_device(&c->cupti, r->device, message);
    }
    weft_cupti_chip_name chip = {WEFT_CUPTI_SIZE(weft_cupti_chip_name, name), NULL, (size_t)r->device, NULL};
    if (!status) {
        status = weft_cupti_check(&c->cupti, c->cupti.chip_name(&chip), "name the chip", message);
    }
    uint8_t *availability = NULL;
    if (!status) {
        status = read_availability(&c->cupti, r->context, &availability, message);
    }
    if (!status) {
        status = weft_metrics_open(&c->metrics, &c->cupti, chip.name, availability, wanted, c->wanted, message);
    }
    free(availability);
    return status;
}

/* Turns the range profiler on and makes room for one range. */
static weft_status enable(weft_counters *c, weft_message *message) {
    weft_cupti_enable on = {WEFT_CUPTI_SIZE(weft_cupti_enable, profiler), NULL, c->context, NULL};
    weft_status status = weft_cupti_check(&c->cupti, c->cupti.enable(&on), "turn the range profiler on", message);
    if (status) {
        return status;
    }
    c->profiler = on.profiler;
    weft_cupti_data_size size = {
        WEFT_CUPTI_SIZE(weft_cupti_data_size, bytes), NULL, c->profiler, c->metrics.metrics, c->metrics.count, 1, 1, 0};
    status = weft_cupti_check(&c->cupti, c->cupti.data_size(&size), "size its data", message);
    if (status) {
        return status;
    }
    c->data_bytes = size.bytes;
    free(c->data);
    c->data = calloc(size.bytes ? size.bytes : 1, 1);
    return c->data ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
}

static void disable(weft_counters *c) {
    if (c->profiler) {
        weft_cupti_range off = {WEFT_CUPTI_SIZE(weft_cupti_range, profiler), NULL, c->profiler};
        c->cupti.disable(&off);
        c->profiler = NULL;
    }
}

static weft_status check_request(const weft_counters_request *r, weft_message *message) {
    if (!r || !r->context || r->device < 0) {
        return weft_fail(message, WEFT_INVALID, "counters need a context and its device");
    }
    if (r->wanted && (r->count < 1 || r->count > WEFT_COUNTERS)) {
        return weft_fail(message, WEFT_INVALID, "%zu counters were asked for: 1 to %d are allowed", r->count,
                         WEFT_COUNTERS);
    }
    int seen[WEFT_COUNTERS] = {0};
    for (size_t i = 0; r->wanted && i < r->count; i++) {
        const int32_t counter = (int32_t)r->wanted[i];
        if (!weft_counter_describe(counter) || seen[counter]++) {
            return weft_fail(message, WEFT_INVALID, "counter %d is not known, or is asked for twice", counter);
        }
    }
    return WEFT_OK;
}

weft_status weft_counters_open(weft_counters **session, const weft_counters_request *request, weft_message *message) {
    *session = NULL;
    weft_status status = check_request(request, message);
    if (status) {
        return status;
    }
    weft_counter all[WEFT_COUNTERS];
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        all[i] = (weft_counter)i;
    }
    weft_counters *c = calloc(1, sizeof *c);
    if (!c) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    c->wanted = request->wanted ? request->count : WEFT_COUNTERS;
    status = weft_cupti_load(&c->cupti, request->library, message);
    if (!status) {
        status = choose_metrics(c, request, request->wanted ? request->wanted : all, message);
    }
    if (!status) {
        c->context = request->context;
        status = enable(c, message);
    }
    if (status) {
        weft_counters_close(c);
        return status;
    }
    *session = c;
    return WEFT_OK;
}

void weft_counters_close(weft_counters *session) {
    if (!session) {
        return;
    }
    disable(session);
    if (session->cupti.library) {
        weft_metrics_close(&session->metrics, &session->cupti);
    }
    weft_cupti_unload(&session->cupti);
    free(session->data);
    free(session);
}

size_t weft_counters_passes(const weft_counters *session) {
    return session->metrics.passes;
}

/* Empties the data and begins with the first pass. */
static weft_status begin(weft_counters *c, weft_message *message) {
    weft_cupti_data_initialize empty = {WEFT_CUPTI_SIZE(weft_cupti_data_initialize, data), NULL, c->profiler, c->data_bytes,
                                        c->data};
    weft_status status = weft_cupti_check(&c->cupti, c->cupti.data_initialize(&empty), "empty its data", message);
    if (status) {
        return status;
    }
    weft_cupti_set_config set = {.size = WEFT_CUPTI_SIZE(weft_cupti_set_config, target_nesting),
                                 .profiler = c->profiler,
                                 .config_bytes = c->metrics.config_bytes,
                                 .config = c->metrics.config,
                                 .data_bytes = c->data_bytes,
                                 .data = c->data,
                                 .range = WEFT_CUPTI_USER_RANGE,
                                 .replay = WEFT_CUPTI_USER_REPLAY,
                                 .ranges_per_pass = 1,
                                 .nesting_levels = 1,
                                 .least_nesting = 1,
                                 .pass = 0,
                                 .target_nesting = 1};
    return weft_cupti_check(&c->cupti, c->cupti.set_config(&set), "take the counters", message);
}

/* One pass; *last is set when no other is needed. The range is always ended. */
static weft_status run_pass(weft_counters *c, const weft_counters_work *work, int *last, weft_message *message) {
    weft_status status = work->prepare ? work->prepare(work->user, message) : WEFT_OK;
    if (status) {
        return status;
    }
    weft_cupti_range range = {WEFT_CUPTI_SIZE(weft_cupti_range, profiler), NULL, c->profiler};
    status = weft_cupti_check(&c->cupti, c->cupti.start(&range), "start a pass", message);
    if (status) {
        return status;
    }
    weft_cupti_push push = {WEFT_CUPTI_SIZE(weft_cupti_push, name), NULL, c->profiler, "weft"};
    status = weft_cupti_check(&c->cupti, c->cupti.push(&push), "begin a range", message);
    if (!status) {
        status = work->launch(work->user, message);
        const int popped = c->cupti.pop(&range);
        status = status ? status : weft_cupti_check(&c->cupti, popped, "end a range", message);
    }
    weft_cupti_stop stop = {.size = WEFT_CUPTI_SIZE(weft_cupti_stop, all_submitted), .profiler = c->profiler};
    const int stopped = c->cupti.stop(&stop);
    *last = stop.all_submitted;
    return status ? status : weft_cupti_check(&c->cupti, stopped, "end a pass", message);
}

static weft_status evaluate(weft_counters *c, double *values, weft_message *message) {
    weft_cupti_decode decode = {WEFT_CUPTI_SIZE(weft_cupti_decode, dropped), NULL, c->profiler, 0};
    weft_status status = weft_cupti_check(&c->cupti, c->cupti.decode(&decode), "read the counters", message);
    if (status) {
        return status;
    }
    double found[WEFT_COUNTERS];
    weft_cupti_evaluate e = {WEFT_CUPTI_SIZE(weft_cupti_evaluate, values),
                             NULL,
                             c->metrics.host,
                             c->data,
                             c->data_bytes,
                             0,
                             c->metrics.metrics,
                             c->metrics.count,
                             found};
    status = weft_cupti_check(&c->cupti, c->cupti.evaluate(&e), "evaluate the counters", message);
    for (size_t i = 0; !status && i < c->wanted; i++) {
        values[i] = NAN;
    }
    for (size_t i = 0; !status && i < c->metrics.count; i++) {
        values[c->metrics.place[i]] = found[i];
    }
    return status;
}

weft_status weft_counters_measure(weft_counters *session, const weft_counters_work *work, double *values,
                                  weft_message *message) {
    weft_status status = session->profiler ? WEFT_OK : enable(session, message);
    status = status ? status : begin(session, message);
    int last = 0;
    for (size_t pass = 0; !status && !last; pass++) {
        if (pass > 2 * session->metrics.passes) {
            status =
                weft_fail(message, WEFT_UNSUPPORTED, "CUPTI asked for more than its %zu passes", session->metrics.passes);
        } else {
            status = run_pass(session, work, &last, message);
        }
    }
    status = status ? status : evaluate(session, values, message);
    if (status) { /* a profiler that was left between passes loses those of the next measurement */
        disable(session);
    }
    return status;
}
