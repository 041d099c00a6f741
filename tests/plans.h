/* Plans and problems for tests: what the library takes in structs, as arguments. */
#ifndef WEFT_TESTS_PLANS_H
#define WEFT_TESTS_PLANS_H

#include "plan/plan.h"
#include "problem/problem.h"

static inline weft_status plan_on(weft_plan **plan, const void *problem, const weft_schedule *schedule,
                                  const weft_machine *machine, const weft_device *device, weft_message *message) {
    const weft_plan_options options = {sizeof options, schedule, machine, device};
    return weft_plan_create(plan, problem, &options, message);
}

static inline weft_status plan_for(weft_plan **plan, const void *problem, const weft_schedule *schedule,
                                   const weft_machine *machine, weft_message *message) {
    return plan_on(plan, problem, schedule, machine, NULL, message);
}

static inline weft_status resolve_attention(weft_attention *resolved, const weft_attention *problem,
                                            weft_message *message) {
    const weft_operation_row *row;
    weft_problem p = {{0, 0}};
    const weft_status status = weft_problem_resolve(&p, &row, problem, message);
    *resolved = p.attention;
    return status;
}

static inline weft_status resolve_gemm(weft_gemm *resolved, const weft_gemm *problem, weft_message *message) {
    const weft_operation_row *row;
    weft_problem p = {{0, 0}};
    const weft_status status = weft_problem_resolve(&p, &row, problem, message);
    *resolved = p.gemm;
    return status;
}

/* Zeros for a problem that does not pass its check. */
static inline weft_attention_extents attention_sizes(const weft_attention *problem) {
    weft_attention p;
    const weft_attention_extents none = {0, 0, 0, 0, 0};
    return resolve_attention(&p, problem, NULL) ? none : weft_attention_sizes(&p);
}

static inline weft_gemm_extents gemm_sizes(const weft_gemm *problem) {
    weft_gemm p;
    const weft_gemm_extents none = {0, 0, 0};
    return resolve_gemm(&p, problem, NULL) ? none : weft_gemm_sizes(&p);
}

#endif
