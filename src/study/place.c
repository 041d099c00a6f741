/* SPDX-License-Identifier: Apache-2.0 */
/* Work laid out by the sides of a GPU's L2. */
#include <stdlib.h>

#include "base/status.h"
#include "bench/bench.h"
#include "cuda/plan/backend.h"
#include "cuda/plan/live.h"
#include "study/study.h"

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

static weft_status measure(weft_study *s, weft_message *message) {
    uint32_t worker_of_sm[TABLE] = {0};
    weft_cuda_sides *sides = malloc(sizeof *sides);
    if (!sides) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    weft_status status = weft_cuda_sides_measure(s->driver, &s->device, sides, message);
    if (status == WEFT_OK && sides->sides != 2) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "the L2 of this GPU has no sides");
    }
    if (status == WEFT_OK) {
        status = number_workers(sides, worker_of_sm, message);
    }
    if (status == WEFT_OK) {
        weft_cu_result result = s->driver->memory_new(&s->worker_of_sm, sizeof worker_of_sm);
        result = result ? result : s->driver->copy_in(s->worker_of_sm, worker_of_sm, sizeof worker_of_sm);
        status = result ? weft_cuda_fail(s->driver, result, "the sides cannot be copied", message) : WEFT_OK;
        s->workers = status ? 0 : sides->sms;
    }
    free(sides);
    return status;
}

/* That every SM runs one CTA is how the GPU places them, not a promise: if it did not, a worker's tiles would be missing.
 * So what runs write is set to what no kernel leaves behind, all bits set, and looked for after a run. */
static weft_status check(weft_bench *bench, const weft_plan *plan, weft_message *message) {
    size_t missing = 0;
    weft_status status = weft_bench_reset(bench, message);
    status = status ? status : weft_bench_run(bench, plan, message);
    for (size_t i = 0; i < bench->count && status == WEFT_OK; i++) {
        const weft_buffer *buffer = &bench->buffers[i];
        const size_t bytes = weft_bench_bytes(buffer);
        uint32_t *words = buffer->is_written && !buffer->optional ? malloc(bytes + sizeof *words) : NULL;
        if (words) {
            status = bench->memory->read(bench, words, *weft_bench_pointer(&bench->data, buffer), bytes, message);
        } else if (buffer->is_written && !buffer->optional) {
            status = weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        }
        for (size_t k = 0; words && k < bytes / sizeof *words; k++) {
            missing += words[k] == UINT32_MAX;
        }
        free(words);
    }
    return status || !missing
               ? status
               : weft_fail(message, WEFT_FAILED, "the GPU did not place one CTA on every SM: sides cannot be studied");
}

weft_status weft_study_place_by_side(weft_study *s, weft_bench *bench, weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    if (!c) {
        return weft_fail(message, WEFT_INVALID, "the plan is not for a GPU");
    }
    if (c->family->by_side) { /* the kernel's workers find their sides themselves */
        return c->side_of_sm ? WEFT_OK
                             : weft_fail(message, WEFT_UNSUPPORTED, "the workers of kernel %s are not placed by side",
                                         c->family->name);
    }
    const weft_status status = s->workers ? WEFT_OK : measure(s, message);
    if (status) {
        return status;
    }
    if (plan->walk.dispatch != WEFT_DISPATCH_STATIC || plan->walk.workers != s->workers || c->main->ctas != 1) {
        return weft_fail(message, WEFT_INVALID, "sides need static dispatch and one CTA on every SM");
    }
    c->worker_of_sm = s->worker_of_sm;
    return check(bench, plan, message);
}
