/* Attention forward on a GPU: the hot call. It checks pointers and launches; it allocates nothing and waits for nothing. */
#include "cuda/plan/backend.h"

static weft_status check_pointers(const weft_cuda_plan *c, const weft_attention_data *data, weft_message *message) {
    weft_status status;
    if ((status = weft_cuda_check_pointer(c, "q", data->q, 16, message)) ||
        (status = weft_cuda_check_pointer(c, "k", data->k, 16, message)) ||
        (status = weft_cuda_check_pointer(c, "v", data->v, 16, message)) ||
        (status = weft_cuda_check_pointer(c, "o", data->o, 16, message))) {
        return status;
    }
    return data->lse ? weft_cuda_check_pointer(c, "lse", data->lse, sizeof(float), message) : WEFT_OK;
}

weft_status weft_cuda_enqueue_attention(const weft_plan *plan, const weft_attention_data *data, void *stream,
                                        weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    int pushed;
    weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    if ((status = check_pointers(c, data, message)) == WEFT_OK) {
        status = weft_cuda_launch(plan, data, stream, message);
    }
    weft_cuda_leave(c->driver, pushed);
    return status;
}
