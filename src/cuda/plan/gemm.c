/* A GEMM on a GPU: the hot call. It checks pointers and launches; it allocates nothing and waits for nothing. */
#include "cuda/plan/backend.h"

weft_status weft_cuda_enqueue_gemm(const weft_plan *plan, const weft_gemm_data *data, void *stream, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    int pushed;
    weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    if ((status = weft_cuda_check_pointer(c, "a", data->a, 16, message)) == WEFT_OK &&
        (status = weft_cuda_check_pointer(c, "b", data->b, 16, message)) == WEFT_OK &&
        (status = weft_cuda_check_pointer(c, "c", data->c, 16, message)) == WEFT_OK) {
        status = weft_cuda_launch(plan, data, stream, message);
    }
    weft_cuda_leave(c->driver, pushed);
    return status;
}
