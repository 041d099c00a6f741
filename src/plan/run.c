/* SPDX-License-Identifier: Apache-2.0 */
/* Running plans, and the simple calls that make a plan and run it at once. */
#include "base/status.h"
#include "base/struct.h"
#include "plan/plan.h"

static weft_status check_plan(const weft_plan *plan, weft_message *message) {
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    if (plan->on_paper) {
        return weft_fail(message, WEFT_INVALID, "the plan is on paper: it can be simulated, not run");
    }
    return weft_problem_check_dtypes(&plan->problem, plan->operation, plan->backend->name, message);
}

static weft_status check_run(const weft_plan *plan, const void *data, weft_data *copy, weft_message *message) {
    const weft_status status = check_plan(plan, message);
    return status ? status : weft_data_check(copy, plan->operation, &plan->problem, data, message);
}

weft_status weft_plan_run_with_progress(const weft_plan *plan, const void *data, weft_progress progress, void *user,
                                        weft_message *message) {
    weft_data checked;
    const weft_status status = check_run(plan, data, &checked, message);
    if (status) {
        return status;
    }
    /* The plan as one run sees it. It shares everything with the plan, which other threads may be running. */
    weft_plan watched = *plan;
    watched.progress = progress;
    watched.progress_user = user;
    return plan->backend->run(&watched, &checked, message);
}

weft_status weft_plan_run(const weft_plan *plan, const void *data, weft_message *message) {
    return weft_plan_run_with_progress(plan, data, NULL, NULL, message);
}

static weft_status fail_stream(weft_message *message) {
    return weft_fail(message, WEFT_INVALID, "stream is not null, and the plan is for the CPU");
}

weft_status weft_plan_enqueue(const weft_plan *plan, const void *data, void *stream, weft_message *message) {
    weft_data checked;
    const weft_status status = check_run(plan, data, &checked, message);
    if (status) {
        return status;
    }
    if (plan->backend->enqueue) {
        return plan->backend->enqueue(plan, &checked, stream, message);
    }
    return stream ? fail_stream(message) : plan->backend->run(plan, &checked, message);
}

weft_status weft_plan_prepare(const weft_plan *plan, const void *data, void *stream, weft_message *message) {
    weft_data checked;
    weft_status status = check_plan(plan, message);
    status = status ? status : weft_data_check_lengths(&checked, plan->operation, &plan->problem, data, message);
    if (status) {
        return status;
    }
    if (plan->backend->prepare) {
        return plan->backend->prepare(plan, &checked, stream, message);
    }
    return stream ? fail_stream(message) : WEFT_OK;
}

weft_status weft_plan_check(const weft_plan *plan, weft_message *message) {
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    return plan->backend->check && !plan->on_paper ? plan->backend->check(plan, message) : WEFT_OK;
}

static weft_status create_and_run(const void *problem, const void *data, weft_message *message) {
    weft_plan *plan;
    weft_status status = weft_plan_create(&plan, problem, NULL, message);
    if (status == WEFT_OK) {
        status = weft_plan_run(plan, data, message);
    }
    weft_plan_destroy(plan);
    return status;
}

weft_status weft_attention_forward(const weft_attention *problem, const weft_attention_data *data, weft_message *message) {
    return create_and_run(problem, data, message);
}

weft_status weft_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                    weft_message *message) {
    weft_attention p = WEFT_ATTENTION_INIT;
    const weft_status status =
        weft_struct_take(&p, sizeof p, sizeof(size_t) + sizeof(int64_t), problem, "WEFT_ATTENTION_INIT", message);
    p.operation = WEFT_ATTENTION_BACKWARD;
    return status ? status : create_and_run(&p, data, message);
}

weft_status weft_gemm_multiply(const weft_gemm *problem, const weft_gemm_data *data, weft_message *message) {
    return create_and_run(problem, data, message);
}

weft_status weft_combine_parts(const weft_combine *problem, const weft_combine_data *data, weft_message *message) {
    return create_and_run(problem, data, message);
}

weft_status weft_grouped_gemm_multiply(const weft_grouped_gemm *problem, const weft_grouped_gemm_data *data,
                                       weft_message *message) {
    return create_and_run(problem, data, message);
}
