#include "gpu.h"

#include <stdlib.h>

#include "cli.h"
#include "cuda/cuda.h"

static int fail(const gpu *g, weft_cu_result result, const char *what) {
    weft_message message = {""};
    return complain_status(weft_cuda_fail(g->driver, result, what, &message), &message);
}

/* Makes the GPU's context current for a while. */
static int enter(const gpu *g, int *pushed) {
    weft_message message = {""};
    const weft_status status = weft_cuda_enter(g->driver, g->context, pushed, &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

static weft_cu_result copy_there(const weft_cuda_driver *d, uint64_t *to, const void *from, size_t bytes) {
    const weft_cu_result result = d->memory_new(to, bytes);
    return result ? result : d->copy_in(*to, from, bytes);
}

int gpu_open(gpu *g, const weft_plan *plan, const weft_attention_data *host) {
    const weft_cuda_plan *placed = plan->placed;
    const weft_cuda_driver *d = placed->driver;
    const weft_attention_extents sizes = weft_attention_sizes(&plan->attention);
    const size_t bytes = weft_dtype_bytes(plan->attention.dtype);
    int pushed;
    g->driver = d;
    /* The context stays the plan's, and is held here so that it outlives it. */
    weft_cu_result result = d->primary_retain(&g->context, placed->device.handle);
    if (result) {
        g->context = NULL;
        return fail(g, result, "the GPU cannot be used");
    }
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    g->o_bytes = sizes.o * bytes;
    g->lse_bytes = sizes.lse * sizeof(float);
    result = copy_there(d, &g->q, host->q, sizes.q * bytes);
    result = result ? result : copy_there(d, &g->k, host->k, sizes.k * bytes);
    result = result ? result : copy_there(d, &g->v, host->v, sizes.v * bytes);
    result = result ? result : copy_there(d, &g->o, host->o, g->o_bytes);
    result = result ? result : copy_there(d, &g->lse, host->lse, g->lse_bytes);
    result = result ? result : d->event_new(&g->start, 0);
    result = result ? result : d->event_new(&g->end, 0);
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the problem cannot be copied to the GPU") : EXIT_OK;
}

int gpu_time(gpu *g, const weft_plan *plan, double *seconds) {
    const weft_cuda_driver *d = g->driver;
    const weft_attention_data data = {(const void *)(uintptr_t)g->q, (const void *)(uintptr_t)g->k,
                                      (const void *)(uintptr_t)g->v, (void *)(uintptr_t)g->o, (float *)(uintptr_t)g->lse};
    weft_message message = {""};
    float milliseconds = 0;
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    weft_status status = WEFT_OK;
    weft_cu_result result = d->event_record(g->start, NULL);
    if (result == 0 && (status = weft_plan_enqueue_attention(plan, &data, NULL, &message)) == WEFT_OK) {
        result = d->event_record(g->end, NULL);
        result = result ? result : d->event_synchronize(g->end);
        result = result ? result : d->event_elapsed(&milliseconds, g->start, g->end);
    }
    weft_cuda_leave(d, pushed);
    *seconds = 1e-3 * (double)milliseconds;
    return status ? complain_status(status, &message) : result ? fail(g, result, "the kernel failed") : EXIT_OK;
}

int gpu_poison(gpu *g) {
    const weft_cuda_driver *d = g->driver;
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    /* Rows of O are multiples of 16 bytes. All bits set is NaN in every dtype. */
    weft_cu_result result = d->set_words(g->o, UINT32_MAX, g->o_bytes / 4, NULL);
    result = result ? result : d->set_words(g->lse, UINT32_MAX, g->lse_bytes / 4, NULL);
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the GPU's memory cannot be set") : EXIT_OK;
}

int gpu_fetch(gpu *g, const weft_attention_data *host) {
    const weft_cuda_driver *d = g->driver;
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    weft_cu_result result = d->copy_out(host->o, g->o, g->o_bytes);
    result = result ? result : d->copy_out(host->lse, g->lse, g->lse_bytes);
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the result cannot be copied back") : EXIT_OK;
}

void gpu_close(gpu *g) {
    const weft_cuda_driver *d = g->driver;
    int pushed, device = 0;
    if (!g->context || weft_cuda_enter(d, g->context, &pushed, NULL)) {
        return;
    }
    const uint64_t memory[] = {g->q, g->k, g->v, g->o, g->lse};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        if (memory[i]) {
            d->memory_free(memory[i]);
        }
    }
    if (g->start) {
        d->event_free(g->start);
    }
    if (g->end) {
        d->event_free(g->end);
    }
    const weft_cu_result result = d->context_device(&device);
    weft_cuda_leave(d, pushed);
    if (result == 0) {
        d->primary_release(device);
    }
    g->context = NULL;
}

int64_t gpu_runs(int64_t asked, double seconds) {
    const double worth = seconds > 0 ? 0.5 / seconds : 200;
    return asked > 0 ? asked : worth < 5 ? 5 : worth > 200 ? 200 : (int64_t)worth;
}
