/* Running plans, and the simple calls that make a plan and run it at once. */
#include "plan/plan.h"
#include "plan/problem.h"
#include "plan/status.h"

/* A buffer of the caller's: from its first byte to its last. */
typedef struct buffer {
    const char *name;
    const void *data;
    size_t bytes;
    int written;
} buffer;

/* No buffer may be null, and none that is written may share memory with another. */
static weft_status check_buffers(const buffer *buffers, size_t count, weft_message *message) {
    for (size_t i = 0; i < count; i++) {
        if (!buffers[i].data) {
            return weft_fail(message, WEFT_INVALID, "%s is null", buffers[i].name);
        }
        for (size_t j = 0; j < i; j++) {
            const uintptr_t a = (uintptr_t)buffers[i].data, b = (uintptr_t)buffers[j].data;
            const int apart = a < b ? b - a >= buffers[i].bytes : a - b >= buffers[j].bytes;
            if (!apart && (buffers[i].written || buffers[j].written)) {
                return weft_fail(message, WEFT_INVALID, "%s overlaps %s", buffers[i].name, buffers[j].name);
            }
        }
    }
    return WEFT_OK;
}

static weft_status check_attention_run(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    if (!plan || !data || plan->subject != WEFT_SUBJECT_ATTENTION) {
        return weft_fail(message, WEFT_INVALID, !plan ? "plan is null" : !data ? "data is null" : "the plan is for a gemm");
    }
    const weft_attention_extents sizes = weft_attention_sizes(&plan->attention);
    const size_t bytes = weft_dtype_bytes(plan->attention.dtype);
    const buffer buffers[] = {{"q", data->q, sizes.q * bytes, 0},
                              {"k", data->k, sizes.k * bytes, 0},
                              {"v", data->v, sizes.v * bytes, 0},
                              {"o", data->o, sizes.o * bytes, 1},
                              {"lse", data->lse, sizes.lse * sizeof(float), 1}};
    return check_buffers(buffers, data->lse ? 5 : 4, message);
}

/* The plan as one run sees it. It shares everything with the plan, which other threads may be running, and holds nothing.
 */
static weft_plan watched(const weft_plan *plan, weft_progress progress, void *user) {
    weft_plan copy = *plan;
    copy.progress = progress;
    copy.progress_user = user;
    return copy;
}

weft_status weft_plan_run_attention_with_progress(const weft_plan *plan, const weft_attention_data *data,
                                                  weft_progress progress, void *user, weft_message *message) {
    const weft_status status = check_attention_run(plan, data, message);
    if (status) {
        return status;
    }
    const weft_plan copy = watched(plan, progress, user);
    return plan->backend->attention_forward(&copy, data, message);
}

weft_status weft_plan_run_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    return weft_plan_run_attention_with_progress(plan, data, NULL, NULL, message);
}

weft_status weft_plan_enqueue_attention(const weft_plan *plan, const weft_attention_data *data, void *stream,
                                        weft_message *message) {
    const weft_status status = check_attention_run(plan, data, message);
    if (status) {
        return status;
    }
    if (plan->backend->enqueue_attention) {
        return plan->backend->enqueue_attention(plan, data, stream, message);
    }
    if (stream) {
        return weft_fail(message, WEFT_INVALID, "stream is not null, and the plan is for the CPU");
    }
    return plan->backend->attention_forward(plan, data, message);
}

static weft_status check_gemm_run(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    if (!plan || !data || plan->subject != WEFT_SUBJECT_GEMM) {
        return weft_fail(message, WEFT_INVALID,
                         !plan   ? "plan is null"
                         : !data ? "data is null"
                                 : "the plan is for an attention");
    }
    const weft_gemm_extents sizes = weft_gemm_sizes(&plan->gemm);
    const size_t bytes = weft_dtype_bytes(plan->gemm.dtype);
    const buffer buffers[] = {{"a", data->a, sizes.a * bytes, 0},
                              {"b", data->b, sizes.b * bytes, 0},
                              {"c", data->c, sizes.c * weft_dtype_bytes(plan->gemm.c_dtype), 1}};
    return check_buffers(buffers, 3, message);
}

/* A device takes the whole batch at once; the CPU one product after the other, or all, as its plan says. */
static weft_status run_batch(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    const weft_gemm *p = &plan->gemm;
    weft_status status = WEFT_OK;
    if (plan->placed || plan->products == p->batch) {
        return plan->backend->gemm(plan, data, message);
    }
    for (int64_t i = 0; i < p->batch && status == WEFT_OK; i++) {
        const weft_gemm_data one = weft_gemm_product(p, data, i);
        status = plan->backend->gemm(plan, &one, message);
    }
    return status;
}

weft_status weft_plan_run_gemm_with_progress(const weft_plan *plan, const weft_gemm_data *data, weft_progress progress,
                                             void *user, weft_message *message) {
    const weft_status status = check_gemm_run(plan, data, message);
    if (status) {
        return status;
    }
    const weft_plan copy = watched(plan, progress, user);
    return run_batch(&copy, data, message);
}

weft_status weft_plan_run_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    return weft_plan_run_gemm_with_progress(plan, data, NULL, NULL, message);
}

weft_status weft_plan_enqueue_gemm(const weft_plan *plan, const weft_gemm_data *data, void *stream, weft_message *message) {
    const weft_status status = check_gemm_run(plan, data, message);
    if (status) {
        return status;
    }
    if (plan->backend->enqueue_gemm) {
        return plan->backend->enqueue_gemm(plan, data, stream, message);
    }
    if (stream) {
        return weft_fail(message, WEFT_INVALID, "stream is not null, and the plan is for the CPU");
    }
    return run_batch(plan, data, message);
}

weft_status weft_attention_forward(const weft_attention *problem, const weft_attention_data *data, weft_message *message) {
    weft_plan *plan;
    weft_status status = weft_plan_attention(&plan, problem, NULL, NULL, message);
    if (status == WEFT_OK) {
        status = weft_plan_run_attention(plan, data, message);
    }
    weft_plan_destroy(plan);
    return status;
}

weft_status weft_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                    weft_message *message) {
    weft_attention p;
    weft_status status = weft_attention_resolve(&p, problem, message);
    if (status) {
        return status;
    }
    if (!data) {
        return weft_fail(message, WEFT_INVALID, "data is null");
    }
    const weft_attention_extents sizes = weft_attention_sizes(&p);
    const size_t bytes = weft_dtype_bytes(p.dtype);
    const buffer buffers[] = {{"q", data->q, sizes.q * bytes, 0},
                              {"k", data->k, sizes.k * bytes, 0},
                              {"v", data->v, sizes.v * bytes, 0},
                              {"grad_o", data->grad_o, sizes.o * bytes, 0},
                              {"grad_q", data->grad_q, sizes.q * bytes, 1},
                              {"grad_k", data->grad_k, sizes.k * bytes, 1},
                              {"grad_v", data->grad_v, sizes.v * bytes, 1},
                              {"o", data->o, sizes.o * bytes, 0},
                              {"lse", data->lse, sizes.lse * sizeof(float), 0}};
    const size_t count = sizeof buffers / sizeof *buffers, given = data->o || data->lse ? count : count - 2;
    if ((status = check_buffers(buffers, given, message))) {
        return status;
    }
    return weft_backend_cpu.attention_backward(&p, data, message);
}

weft_status weft_gemm_multiply(const weft_gemm *problem, const weft_gemm_data *data, weft_message *message) {
    weft_plan *plan;
    weft_status status = weft_plan_gemm(&plan, problem, NULL, NULL, message);
    if (status == WEFT_OK) {
        status = weft_plan_run_gemm(plan, data, message);
    }
    weft_plan_destroy(plan);
    return status;
}
