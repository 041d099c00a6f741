#include "device_sides.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/module.h"
#include "plan/status.h"

/* The SM of each CTA of a launch with one CTA an SM: the kernel that measures sides writes them down. */
static weft_cu_result read_sms(const weft_cuda_plan *c, void *function, uint32_t *sm_of_cta) {
    const weft_cuda_driver *d = c->driver;
    const unsigned ctas = (unsigned)c->device.multiprocessors;
    const unsigned shared = (unsigned)c->device.shared_bytes;
    uint64_t memory = 0; /* a line of words, then the SMs */
    weft_cu_result result = d->memory_new(&memory, 128 + ctas * sizeof *sm_of_cta);
    if (result) {
        return result;
    }
    weft_sides_params p = {(const uint32_t *)(uintptr_t)memory,
                           (uint32_t *)(uintptr_t)memory,
                           (uint32_t *)(uintptr_t)(memory + 128),
                           (uint64_t *)(uintptr_t)(memory + 64),
                           UINT32_MAX,
                           UINT32_MAX};
    void *values[] = {&p};
    result = d->set_words(memory, 0, 32, NULL);
    result = result ? result : d->function_set_attribute(function, WEFT_CU_FUNCTION_MAX_DYNAMIC_SHARED, (int)shared);
    result = result ? result : d->launch(function, ctas, 1, 1, 1, 1, 1, shared, NULL, values, NULL);
    result = result ? result : d->copy_out(sm_of_cta, memory + 128, ctas * sizeof *sm_of_cta);
    d->memory_free(memory);
    return result;
}

/* The side of an SM: 0 or 1. */
static int side_of(const weft_cuda_sides *sides, uint32_t sm) {
    int i = 0;
    while (i < sides->sms - 1 && sides->sm[i] != sm) {
        i++;
    }
    return sides->side[i];
}

/* Even workers to the CTAs of one side, odd ones to those of the other; where a side has more, its last take what is left.
 */
static void number_workers(device_sides *s, const weft_cuda_sides *sides, const uint32_t *sm_of_cta) {
    int next[2] = {0, 1};
    s->workers = sides->sms;
    for (int cta = 0; cta < s->workers; cta++) {
        int side = side_of(sides, sm_of_cta[cta]);
        side = next[side] < s->workers ? side : 1 - side;
        s->worker_of_cta[cta] = next[side];
        next[side] += 2;
    }
}

static weft_status measure(device_sides *s, const weft_cuda_plan *c, weft_message *message) {
    uint32_t sm_of_cta[WEFT_SIDES_MAX_SMS];
    void *function;
    weft_cuda_sides *sides = malloc(sizeof *sides);
    if (!sides) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    weft_status status = weft_cuda_sides_measure(c->driver, &c->device, sides, message);
    if (status == WEFT_OK && sides->sides != 2) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "the L2 of this GPU has no sides");
    }
    if (status == WEFT_OK) {
        status = weft_cuda_function_get(c->driver, "sides", "sides_measure", &function, message);
    }
    if (status == WEFT_OK) {
        const weft_cu_result result = read_sms(c, function, sm_of_cta);
        status = result ? weft_cuda_fail(c->driver, result, "the order of CTAs cannot be read", message) : WEFT_OK;
    }
    if (status == WEFT_OK) {
        number_workers(s, sides, sm_of_cta);
    }
    free(sides);
    return status;
}

weft_status device_sides_place(device_sides *sides, weft_plan *plan, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    if (!sides->workers) {
        const weft_status status = measure(sides, c, message);
        if (status) {
            return status;
        }
    }
    const int64_t count = plan->walk.order.count, workers = sides->workers;
    if (plan->walk.dispatch != WEFT_DISPATCH_STATIC || plan->walk.workers != workers || !plan->table) {
        return weft_fail(message, WEFT_INVALID, "sides need static dispatch, one CTA an SM and a table");
    }
    uint32_t *table = malloc((size_t)count * sizeof *table);
    if (!table) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    memcpy(table, plan->table, (size_t)count * sizeof *table);
    /* Whole rounds only: the last, shorter one has no place for every worker. */
    for (int64_t round = 0; (round + 1) * workers <= count; round++) {
        for (int64_t cta = 0; cta < workers; cta++) {
            table[round * workers + cta] = plan->table[round * workers + sides->worker_of_cta[cta]];
        }
    }
    const weft_cu_result result = c->driver->copy_in(c->table, table, (size_t)count * sizeof *table);
    free(table);
    return result ? weft_cuda_fail(c->driver, result, "the plan's table cannot be copied", message) : WEFT_OK;
}
