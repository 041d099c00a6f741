/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the sides of a GPU's L2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "cuda/driver/module.h"
#include "cuda/l2/sides.h"

enum { ROUNDS = 3 }; /* of each SM, of which the best counts: others may use the GPU */

/* Seconds that the measurement may take in all; alone on the GPU it takes about one. */
static const double PATIENCE = 5;

/* What the measurement needs on the device. All of it is on a stream of its own, so that it waits for no other and, given
 * up, can be left to end by itself. */
typedef struct bench {
    const weft_cuda_driver *driver;
    void *stream;
    double deadline;
    int ctas;
    uint32_t shared; /* so much that no two CTAs share an SM */
    void *fill, *flush, *measure;
    uint64_t lines, scratch, sms, counts; /* device memory */
    uint64_t scratch_bytes;
} bench;

static weft_cu_result launch(const bench *b, void *function, unsigned grid, unsigned block, void **values) {
    return b->driver->launch(function, grid, 1, 1, block, 1, 1, 0, b->stream, values, NULL);
}

/* Copies to the host what is there once all is done. WEFT_CU_NOT_READY when that is not before the deadline: other work may
 * hold an SM for as long as it likes. */
static weft_cu_result fetch(const bench *b, void *to, uint64_t from, size_t bytes) {
    const struct timespec pause = {0, 20000};
    weft_cu_result result;
    while ((result = b->driver->stream_query(b->stream)) == WEFT_CU_NOT_READY && weft_now() < b->deadline) {
        nanosleep(&pause, NULL);
    }
    result = result ? result : b->driver->copy_out_async(to, from, bytes, b->stream);
    return result ? result : b->driver->stream_synchronize(b->stream);
}

/* SM `second` reads what SM `first` has just read out of DRAM; clocks of both walks. */
static weft_cu_result measure_pair(const bench *b, uint32_t first, uint32_t second, uint64_t clocks[2]) {
    const weft_cuda_driver *d = b->driver;
    uint64_t scratch = b->scratch, count = b->scratch_bytes / 16;
    void *flush[] = {&scratch, &count};
    weft_sides_params p = {(const uint32_t *)(uintptr_t)b->lines, (weft_sides_counts *)(uintptr_t)b->counts,
                           (uint32_t *)(uintptr_t)b->sms, first, second};
    void *measure[] = {&p};
    weft_sides_counts counts;
    weft_cu_result result = launch(b, b->flush, (unsigned)b->ctas * 4, 512, flush);
    result = result ? result : d->set_words(b->counts, 0, sizeof counts / 4, b->stream);
    result = result ? result
                    : d->launch_cooperative(b->measure, (unsigned)b->ctas, 1, 1, 1, 1, 1, b->shared, b->stream, measure);
    result = result ? result : fetch(b, &counts, b->counts, sizeof counts);
    if (result == 0) {
        memcpy(clocks, counts.clocks, sizeof counts.clocks);
    }
    return result ? result : counts.late ? WEFT_CU_NOT_READY : 0;
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Measures every SM against the first; the first launch is only there to learn their numbers. */
static weft_cu_result measure_all(const bench *b, weft_cuda_sides *s) {
    uint64_t clocks[2] = {0, 0};
    weft_cu_result result = measure_pair(b, UINT32_MAX, UINT32_MAX, clocks);
    result = result ? result : fetch(b, s->sm, b->sms, (size_t)s->sms * sizeof *s->sm);
    qsort(s->sm, (size_t)s->sms, sizeof *s->sm, by_number);
    for (int i = 0; i < s->sms; i++) {
        s->latency[i] = INFINITY;
    }
    s->dram = INFINITY;
    for (int round = 0; round < ROUNDS && !result; round++) {
        for (int i = 0; i < s->sms && !result; i++) {
            result = measure_pair(b, s->sm[0], s->sm[i], clocks);
            s->latency[i] = fmin(s->latency[i], (double)clocks[1] / WEFT_SIDES_LINES);
            s->dram = fmin(s->dram, (double)clocks[0] / WEFT_SIDES_LINES);
        }
    }
    return result;
}

void weft_cuda_sides_group(weft_cuda_sides *s) {
    double sorted[WEFT_SIDES_MAX_SMS], gap = 0;
    int cut = 0;
    memcpy(sorted, s->latency, (size_t)s->sms * sizeof *sorted);
    for (int i = 1; i < s->sms; i++) { /* sorts by insertion: a thousand at most */
        const double value = sorted[i];
        int j = i;
        for (; j > 0 && sorted[j - 1] > value; j--) {
            sorted[j] = sorted[j - 1];
        }
        sorted[j] = value;
    }
    for (int i = 1; i < s->sms; i++) {
        if (sorted[i] - sorted[i - 1] > gap) {
            gap = sorted[i] - sorted[i - 1];
            cut = i;
        }
    }
    /* A gap between sides is wider than either group, and no small part of a latency; the groups are about equal. */
    const double spread = cut ? fmax(sorted[cut - 1] - sorted[0], sorted[s->sms - 1] - sorted[cut]) : 0;
    s->sides = cut && gap > spread && gap > 0.05 * sorted[0] && 4 * cut >= s->sms && 4 * (s->sms - cut) >= s->sms ? 2 : 1;
    const double border = s->sides == 2 ? (sorted[cut - 1] + sorted[cut]) / 2 : INFINITY;
    for (int side = 0; side < 2; side++) {
        s->members[side] = 0;
        s->mean[side] = 0;
        s->low[side] = INFINITY;
        s->high[side] = 0;
    }
    for (int i = 0; i < s->sms; i++) {
        const int side = s->latency[i] > border;
        s->side[i] = (unsigned char)side;
        s->members[side]++;
        s->mean[side] += s->latency[i];
        s->low[side] = fmin(s->low[side], s->latency[i]);
        s->high[side] = fmax(s->high[side], s->latency[i]);
    }
    for (int side = 0; side < s->sides; side++) {
        s->mean[side] /= s->members[side];
    }
}

static weft_status fail(const weft_cuda_driver *driver, weft_cu_result result, weft_message *message) {
    if (result == WEFT_CU_NOT_READY || result == WEFT_CU_COOPERATIVE_TOO_LARGE || result == WEFT_CU_NOT_SUPPORTED) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "the GPU's L2 cannot be measured while other work holds some of its SMs");
    }
    return weft_cuda_fail(driver, result, "the GPU's L2 cannot be measured", message);
}

static weft_status prepare(bench *b, const weft_cuda_device *device, weft_message *message) {
    const weft_cuda_driver *d = b->driver;
    weft_status status;
    if ((status = weft_cuda_function_get(d, "sides", "sides_fill", &b->fill, message)) ||
        (status = weft_cuda_function_get(d, "sides", "sides_flush", &b->flush, message)) ||
        (status = weft_cuda_function_get(d, "sides", "sides_measure", &b->measure, message))) {
        return status;
    }
    b->ctas = device->multiprocessors;
    b->shared = (uint32_t)device->shared_bytes;
    b->scratch_bytes = 4 * (uint64_t)device->l2_bytes + 16;
    b->scratch_bytes -= b->scratch_bytes % 16;
    weft_cu_result result = d->function_set_attribute(b->measure, WEFT_CU_FUNCTION_MAX_DYNAMIC_SHARED, (int)b->shared);
    result = result ? result : d->stream_new(&b->stream, WEFT_CU_STREAM_NON_BLOCKING);
    result = result ? result : d->memory_new_async(&b->lines, (size_t)WEFT_SIDES_LINES * WEFT_SIDES_STRIDE, b->stream);
    result = result ? result : d->memory_new_async(&b->scratch, b->scratch_bytes, b->stream);
    result = result ? result : d->memory_new_async(&b->sms, (size_t)b->ctas * sizeof(uint32_t), b->stream);
    result = result ? result : d->memory_new_async(&b->counts, sizeof(weft_sides_counts), b->stream);
    void *values[] = {&b->lines};
    result = result ? result : d->set_words(b->scratch, 0, b->scratch_bytes / 4, b->stream);
    result = result ? result : launch(b, b->fill, WEFT_SIDES_LINES / 256, 256, values);
    return result ? fail(d, result, message) : WEFT_OK;
}

/* In the order of the stream, so that nobody waits. */
static void free_all(const bench *b) {
    const uint64_t memory[] = {b->lines, b->scratch, b->sms, b->counts};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        if (memory[i]) {
            b->driver->memory_free_async(memory[i], b->stream);
        }
    }
    if (b->stream) {
        b->driver->stream_free(b->stream);
    }
}

/* The device's primary context is held. */
static weft_status measure(const weft_cuda_driver *driver, const weft_cuda_device *device, void *context,
                           weft_cuda_sides *sides, weft_message *message) {
    bench b = {.driver = driver, .deadline = weft_now() + PATIENCE};
    int pushed;
    weft_status status = weft_cuda_enter(driver, context, &pushed, message);
    if (status) {
        return status;
    }
    if ((status = prepare(&b, device, message)) == WEFT_OK) {
        const weft_cu_result result = measure_all(&b, sides);
        status = result ? fail(driver, result, message) : WEFT_OK;
    }
    free_all(&b);
    weft_cuda_leave(driver, pushed);
    return status;
}

weft_status weft_cuda_sides_measure(const weft_cuda_driver *driver, const weft_cuda_device *device, weft_cuda_sides *sides,
                                    weft_message *message) {
    void *context = NULL;
    memset(sides, 0, sizeof *sides);
    if (device->multiprocessors > WEFT_SIDES_MAX_SMS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%d SMs are more than can be measured", device->multiprocessors);
    }
    sides->sms = device->multiprocessors;
    const int mode = weft_cuda_relax(driver);
    weft_cu_result result = driver->primary_retain(&context, device->handle);
    weft_status status = result ? weft_cuda_fail(driver, result, "the GPU cannot be used", message)
                                : measure(driver, device, context, sides, message);
    if (result == 0) {
        driver->primary_release(device->handle);
    }
    weft_cuda_restore(driver, mode);
    if (status == WEFT_OK) {
        weft_cuda_sides_group(sides);
    }
    return status;
}
