#include "studies/device_sides.h"

#include <stdlib.h>

#include "cuda/plan/live.h"
#include "base/status.h"

/* SM numbers may have gaps, so the table is larger than the number of SMs. */
enum { TABLE = WEFT_SIDES_MAX_SMS };

/* Even workers to the SMs of one side, odd ones to those of the other; where a side has more, its last take what is left.
 */
static weft_status number_workers(const weft_cuda_sides *sides, uint32_t *worker_of_sm, weft_message *message) {
    int next[2] = {0, 1};
    for (int i = 0; i < sides->sms; i++) {
        int side = sides->side[i];
        side = next[side] < sides->sms ? side : 1 - side;
        if (sides->sm[i] >= TABLE) {
            return weft_fail(message, WEFT_UNSUPPORTED, "SM %u is beyond %d", (unsigned)sides->sm[i], (int)TABLE);
        }
        worker_of_sm[sides->sm[i]] = (uint32_t)next[side];
        next[side] += 2;
    }
    return WEFT_OK;
}

static weft_status measure(device_sides *s, const weft_cuda_plan *c, weft_message *message) {
    uint32_t worker_of_sm[TABLE] = {0};
    weft_cuda_sides *sides = malloc(sizeof *sides);
    if (!sides) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    weft_status status = weft_cuda_sides_measure(c->driver, &c->device, sides, message);
    if (status == WEFT_OK && sides->sides != 2) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "the L2 of this GPU has no sides");
    }
    if (status == WEFT_OK) {
        status = number_workers(sides, worker_of_sm, message);
    }
    if (status == WEFT_OK) {
        weft_cu_result result = c->driver->memory_new(&s->worker_of_sm, sizeof worker_of_sm);
        result = result ? result : c->driver->copy_in(s->worker_of_sm, worker_of_sm, sizeof worker_of_sm);
        status = result ? weft_cuda_fail(c->driver, result, "the sides cannot be copied", message) : WEFT_OK;
        s->workers = status ? 0 : sides->sms;
    }
    free(sides);
    return status;
}

weft_status device_sides_place(device_sides *sides, weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const weft_status status = sides->workers ? WEFT_OK : measure(sides, c, message);
    if (status) {
        return status;
    }
    if (plan->walk.dispatch != WEFT_DISPATCH_STATIC || plan->walk.workers != sides->workers || c->ctas != 1) {
        return weft_fail(message, WEFT_INVALID, "sides need static dispatch and one CTA on every SM");
    }
    c->worker_of_sm = sides->worker_of_sm;
    return WEFT_OK;
}

weft_status device_sides_poison(const weft_cuda_driver *driver, uint64_t o, size_t bytes, weft_message *message) {
    const weft_cu_result result = driver->set_words(o, UINT32_MAX, bytes / 4, NULL);
    return result ? weft_cuda_fail(driver, result, "the result cannot be cleared", message) : WEFT_OK;
}

weft_status device_sides_check(const weft_cuda_driver *driver, uint64_t o, size_t bytes, weft_message *message) {
    uint32_t *words = malloc(bytes);
    if (!words) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    const weft_cu_result result = driver->copy_out(words, o, bytes);
    size_t missing = 0;
    for (size_t i = 0; !result && i < bytes / sizeof *words; i++) {
        missing += words[i] == UINT32_MAX;
    }
    free(words);
    return result    ? weft_cuda_fail(driver, result, "the result cannot be copied back", message)
           : missing ? weft_fail(message, WEFT_FAILED, "the GPU did not place one CTA on every SM: sides cannot be studied")
                     : WEFT_OK;
}

void device_sides_close(device_sides *sides, const weft_cuda_driver *driver) {
    if (sides->worker_of_sm) {
        driver->memory_free(sides->worker_of_sm);
    }
}
