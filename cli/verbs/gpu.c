#include "verbs/gpu.h"

#include <stdlib.h>

#include "cli.h"
#include "cuda/plan/backend.h"

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

size_t gpu_buffers(const weft_plan *plan, gpu_buffer list[GPU_BUFFERS]) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm_extents sizes = weft_gemm_sizes(&plan->gemm);
        const size_t bytes = weft_dtype_bytes(plan->gemm.dtype), c_bytes = weft_dtype_bytes(plan->gemm.c_dtype);
        list[0] = (gpu_buffer){sizes.a * bytes, 0, 1};
        list[1] = (gpu_buffer){sizes.b * bytes, 0, 1};
        list[2] = (gpu_buffer){sizes.c * c_bytes, 1, plan->gemm.beta != 0};
        return 3;
    }
    const weft_attention_extents sizes = weft_attention_sizes(&plan->attention);
    const size_t bytes = weft_dtype_bytes(plan->attention.dtype);
    list[0] = (gpu_buffer){sizes.q * bytes, 0, 1};
    list[1] = (gpu_buffer){sizes.k * bytes, 0, 1};
    list[2] = (gpu_buffer){sizes.v * bytes, 0, 1};
    list[3] = (gpu_buffer){sizes.o * bytes, 1, 0};
    list[4] = (gpu_buffer){sizes.lse * sizeof(float), 1, 0};
    return 5;
}

/* The host's buffers, in the same order. */
static void host_buffers(const weft_plan *plan, const void *host, void *list[GPU_BUFFERS]) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm_data *data = host;
        list[0] = (void *)(uintptr_t)data->a;
        list[1] = (void *)(uintptr_t)data->b;
        list[2] = data->c;
    } else {
        const weft_attention_data *data = host;
        list[0] = (void *)(uintptr_t)data->q;
        list[1] = (void *)(uintptr_t)data->k;
        list[2] = (void *)(uintptr_t)data->v;
        list[3] = data->o;
        list[4] = data->lse;
    }
}

int gpu_open(gpu *g, const weft_plan *plan, const void *host) {
    const weft_cuda_plan *placed = plan->placed;
    const weft_cuda_driver *d = placed->driver;
    gpu_buffer buffers[GPU_BUFFERS];
    void *from[GPU_BUFFERS];
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
    const size_t count = gpu_buffers(plan, buffers);
    host_buffers(plan, host, from);
    for (size_t i = 0; i < count && result == 0; i++) {
        result = d->memory_new(&g->memory[i], (buffers[i].bytes + 3) / 4 * 4); /* they are set in words */
        result = result ? result : d->copy_in(g->memory[i], from[i], buffers[i].bytes);
    }
    result = result ? result : d->event_new(&g->start, 0);
    result = result ? result : d->event_new(&g->end, 0);
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the problem cannot be copied to the GPU") : EXIT_OK;
}

weft_status gpu_enqueue(const gpu *g, const weft_plan *plan, weft_message *message) {
    void *at[GPU_BUFFERS];
    for (size_t i = 0; i < GPU_BUFFERS; i++) {
        at[i] = (void *)(uintptr_t)g->memory[i];
    }
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm_data data = {at[0], at[1], at[2]};
        return weft_plan_enqueue_gemm(plan, &data, NULL, message);
    }
    const weft_attention_data data = {at[0], at[1], at[2], at[3], at[4]};
    return weft_plan_enqueue_attention(plan, &data, NULL, message);
}

int gpu_time(gpu *g, const weft_plan *plan, double *seconds) {
    const weft_cuda_driver *d = g->driver;
    weft_message message = {""};
    float milliseconds = 0;
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    weft_status status = WEFT_OK;
    weft_cu_result result = d->event_record(g->start, NULL);
    if (result == 0 && (status = gpu_enqueue(g, plan, &message)) == WEFT_OK) {
        result = d->event_record(g->end, NULL);
        result = result ? result : d->event_synchronize(g->end);
        result = result ? result : d->event_elapsed(&milliseconds, g->start, g->end);
    }
    weft_cuda_leave(d, pushed);
    *seconds = 1e-3 * (double)milliseconds;
    return status ? complain_status(status, &message) : result ? fail(g, result, "the kernel failed") : EXIT_OK;
}

int gpu_poison(gpu *g, const weft_plan *plan, const void *host) {
    const weft_cuda_driver *d = g->driver;
    gpu_buffer buffers[GPU_BUFFERS];
    void *from[GPU_BUFFERS];
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    const size_t count = gpu_buffers(plan, buffers);
    host_buffers(plan, host, from);
    weft_cu_result result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (buffers[i].written && g->memory[i]) { /* all bits set is NaN in every dtype */
            result = buffers[i].read ? d->copy_in(g->memory[i], from[i], buffers[i].bytes)
                                     : d->set_words(g->memory[i], UINT32_MAX, (buffers[i].bytes + 3) / 4, NULL);
        }
    }
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the GPU's memory cannot be set") : EXIT_OK;
}

int gpu_fetch(gpu *g, const weft_plan *plan, const void *host) {
    const weft_cuda_driver *d = g->driver;
    gpu_buffer buffers[GPU_BUFFERS];
    void *to[GPU_BUFFERS];
    int pushed;
    const int code = enter(g, &pushed);
    if (code) {
        return code;
    }
    const size_t count = gpu_buffers(plan, buffers);
    host_buffers(plan, host, to);
    weft_cu_result result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = buffers[i].written ? d->copy_out(to[i], g->memory[i], buffers[i].bytes) : 0;
    }
    weft_cuda_leave(d, pushed);
    return result ? fail(g, result, "the result cannot be copied back") : EXIT_OK;
}

void gpu_close(gpu *g) {
    const weft_cuda_driver *d = g->driver;
    int pushed, device = 0;
    if (!g->context || weft_cuda_enter(d, g->context, &pushed, NULL)) {
        return;
    }
    for (size_t i = 0; i < GPU_BUFFERS; i++) {
        if (g->memory[i]) {
            d->memory_free(g->memory[i]);
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
