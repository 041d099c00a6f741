/* Measuring the sides of a GPU's L2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/live.h"
#include "cuda/module.h"
#include "plan/status.h"

enum { ROUNDS = 3 }; /* of each SM, of which the best counts: others may use the GPU */

/* What the measurement needs on the device. */
typedef struct bench {
    const weft_cuda_driver *driver;
    int ctas;
    uint32_t shared; /* so much that no two CTAs share an SM */
    void *fill, *flush, *measure;
    uint64_t lines, scratch, sms, words; /* device memory; words: `arrived`, then two clocks */
    uint64_t scratch_bytes;
} bench;

static weft_cu_result launch(const bench *b, void *function, unsigned grid, unsigned block, unsigned shared,
                             void **values) {
    return b->driver->launch(function, grid, 1, 1, block, 1, 1, shared, NULL, values, NULL);
}

/* SM `second` reads what SM `first` has just read out of DRAM; clocks of both walks. */
static weft_cu_result measure_pair(const bench *b, uint32_t first, uint32_t second, uint64_t clocks[2]) {
    uint64_t scratch = b->scratch, count = b->scratch_bytes / 16;
    void *flush[] = {&scratch, &count};
    weft_sides_params p = {(const uint32_t *)(uintptr_t)b->lines,
                           (uint32_t *)(uintptr_t)b->words,
                           (uint32_t *)(uintptr_t)b->sms,
                           (uint64_t *)(uintptr_t)(b->words + 8),
                           first,
                           second};
    void *measure[] = {&p};
    weft_cu_result result = launch(b, b->flush, (unsigned)b->ctas * 4, 512, 0, flush);
    result = result ? result : b->driver->set_words(b->words, 0, 6, NULL);
    result = result ? result : launch(b, b->measure, (unsigned)b->ctas, 1, b->shared, measure);
    return result ? result : b->driver->copy_out(clocks, b->words + 8, 2 * sizeof *clocks);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Measures every SM against the first; the first launch is only there to learn their numbers. */
static weft_cu_result measure_all(const bench *b, weft_cuda_sides *s) {
    uint64_t clocks[2] = {0, 0};
    weft_cu_result result = measure_pair(b, UINT32_MAX, UINT32_MAX, clocks);
    result = result ? result : b->driver->copy_out(s->sm, b->sms, (size_t)s->sms * sizeof *s->sm);
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
    result = result ? result : d->memory_new(&b->lines, (size_t)WEFT_SIDES_LINES * WEFT_SIDES_STRIDE);
    result = result ? result : d->memory_new(&b->scratch, b->scratch_bytes);
    result = result ? result : d->memory_new(&b->sms, (size_t)b->ctas * sizeof(uint32_t));
    result = result ? result : d->memory_new(&b->words, 64);
    void *values[] = {&b->lines};
    result = result ? result : d->set_words(b->scratch, 0, b->scratch_bytes / 4, NULL);
    result = result ? result : launch(b, b->fill, WEFT_SIDES_LINES / 256, 256, 0, values);
    return result ? weft_cuda_fail(d, result, "the GPU's L2 cannot be measured", message) : WEFT_OK;
}

weft_status weft_cuda_sides_measure(const weft_cuda_driver *driver, const weft_cuda_device *device, weft_cuda_sides *sides,
                                    weft_message *message) {
    bench b = {.driver = driver};
    void *context = NULL;
    int pushed;
    memset(sides, 0, sizeof *sides);
    if (device->multiprocessors > WEFT_SIDES_MAX_SMS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%d SMs are more than can be measured", device->multiprocessors);
    }
    sides->sms = device->multiprocessors;
    weft_cu_result result = driver->primary_retain(&context, device->handle);
    if (result) {
        return weft_cuda_fail(driver, result, "the GPU cannot be used", message);
    }
    weft_status status = weft_cuda_enter(driver, context, &pushed, message);
    if (status == WEFT_OK) {
        status = prepare(&b, device, message);
        if (status == WEFT_OK && (result = measure_all(&b, sides))) {
            status = weft_cuda_fail(driver, result, "the GPU's L2 cannot be measured", message);
        }
        const uint64_t memory[] = {b.lines, b.scratch, b.sms, b.words};
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
            if (memory[i]) {
                driver->memory_free(memory[i]);
            }
        }
        weft_cuda_leave(driver, pushed);
    }
    driver->primary_release(device->handle);
    if (status == WEFT_OK) {
        weft_cuda_sides_group(sides);
    }
    return status;
}
