/* CUDA as a backend: forward attention on a stream. */
#include "cuda/cuda.h"
#include "plan/status.h"

static const char *kernel(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->choice.kernel;
}

/* Runs on the default stream and returns when it is done. */
static weft_status attention_forward(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    int pushed;
    weft_status status = weft_cuda_enqueue_attention(plan, data, NULL, message);
    if (status || (status = weft_cuda_enter(c->driver, c->context, &pushed, message))) {
        return status;
    }
    const weft_cu_result result = c->driver->stream_synchronize(NULL);
    weft_cuda_leave(c->driver, pushed);
    return result ? weft_cuda_fail(c->driver, result, "the kernel failed", message) : WEFT_OK;
}

const weft_backend weft_backend_cuda = {
    .name = "cuda",
    .kernel = kernel,
    .open = weft_cuda_open,
    .place = weft_cuda_place,
    .close = weft_cuda_close,
    .candidates = weft_cuda_candidates,
    .attention_forward = attention_forward,
    .enqueue_attention = weft_cuda_enqueue_attention,
};
