/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_forward.h"

#include <stdlib.h>
#include <string.h>

#include "problem/problem.h"

/* A forward problem with the inputs of a backward one. */
static weft_attention_data forward_of(const weft_attention_gradients *data) {
    weft_attention_data forward = WEFT_ATTENTION_DATA_INIT;
    forward.q = data->q;
    forward.k = data->k;
    forward.v = data->v;
    forward.o = (void *)(uintptr_t)data->o;
    forward.lse = (float *)(uintptr_t)data->lse;
    forward.sinks = data->sinks;
    forward.alibi = data->alibi;
    forward.bias = data->bias;
    forward.lengths = data->lengths;
    forward.dropout_seed = data->dropout_seed;
    forward.pairs = data->pairs;
    return forward;
}

weft_status weft_bench_forward(weft_bench *b, const weft_plan *plan, weft_message *message) {
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < b->count && status == WEFT_OK; i++) {
        const weft_buffer *buffer = &b->buffers[i];
        if (strcmp(buffer->name, "o") == 0 || strcmp(buffer->name, "lse") == 0) {
            status = b->memory->allocate(b, weft_bench_pointer(&b->data, buffer), weft_bench_bytes(buffer), message);
        }
    }
    if (status) {
        return status;
    }
    weft_attention p = plan->attention;
    weft_device device = plan->device;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_plan *forward;
    p.operation = b->operation->after;
    p.extras &= ~WEFT_MAX;
    device.kernel = NULL;
    device.mode = WEFT_ESTIMATE;
    options.device = &device;
    if ((status = weft_plan_create(&forward, &p, &options, message))) {
        return status;
    }
    const weft_attention_data data = forward_of(&b->data.gradients);
    status = weft_plan_run(forward, &data, message);
    weft_plan_destroy(forward);
    return status;
}

weft_status weft_bench_host_forward(const weft_attention *p, weft_attention_gradients *data, void *memory[2],
                                    weft_progress progress, void *user) {
    weft_attention forward = *p;
    weft_plan *plan = NULL;
    forward.operation = WEFT_ATTENTION;
    forward.extras &= ~WEFT_MAX;
    memory[0] = malloc(weft_attention_sizes(p).o * weft_dtype_bytes(weft_attention_out_dtype(p)));
    memory[1] = malloc((size_t)(p->batch * p->heads * p->seq) * sizeof(float));
    data->o = memory[0];
    data->lse = memory[1];
    const weft_attention_data made = forward_of(data);
    weft_status status = memory[0] && memory[1] ? weft_plan_create(&plan, &forward, NULL, NULL) : WEFT_NO_MEMORY;
    status = status ? status : weft_plan_run_with_progress(plan, &made, progress, user, NULL);
    weft_plan_destroy(plan);
    if (status) {
        free(memory[0]);
        free(memory[1]);
    }
    return status;
}
