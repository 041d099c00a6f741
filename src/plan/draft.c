/* Drafts of plans, and the calls that make a plan of one: by the model, or as it was tuned. */
#include <string.h>

#include "plan/plan.h"
#include "plan/problem.h"
#include "plan/status.h"

/* The part of a draft that both subjects share. */
static weft_status draft_rest(weft_plan *draft, const weft_schedule *schedule, const weft_device *device,
                              weft_message *message) {
    const weft_status status = weft_device_copy(&draft->device, device, message);
    draft->backend = draft->device.kind == WEFT_DEVICE_CUDA ? &weft_backend_cuda : &weft_backend_cpu;
    return status ? status : weft_schedule_copy(&draft->schedule, schedule, message);
}

weft_status weft_plan_draft_attention(weft_plan *draft, const weft_attention *problem, const weft_schedule *schedule,
                                      const weft_device *device, weft_message *message) {
    memset(draft, 0, sizeof *draft);
    draft->subject = WEFT_SUBJECT_ATTENTION;
    const weft_status status = weft_attention_resolve(&draft->attention, problem, message);
    return status ? status : draft_rest(draft, schedule, device, message);
}

weft_status weft_plan_draft_gemm(weft_plan *draft, const weft_gemm *problem, const weft_schedule *schedule,
                                 const weft_device *device, weft_message *message) {
    memset(draft, 0, sizeof *draft);
    draft->subject = WEFT_SUBJECT_GEMM;
    const weft_status status = weft_gemm_resolve(&draft->gemm, problem, message);
    return status ? status : draft_rest(draft, schedule, device, message);
}

/* Makes a plan of a draft in the mode that its device asks for. */
static weft_status make_in_mode(weft_plan **plan, weft_plan *draft, const weft_machine *machine, weft_message *message) {
    const weft_mode mode = draft->device.mode;
    if (mode == WEFT_ESTIMATE) {
        return weft_plan_make(plan, draft, machine, message);
    }
    if (machine) {
        return weft_fail(message, WEFT_INVALID, "a machine is given, and mode %s is for the device itself",
                         mode == WEFT_MEASURE ? "measure" : "stored");
    }
    const weft_schedule open = draft->schedule;
    weft_message why = {""};
    weft_status status = weft_tune_settle(draft, message);
    if (status || (status = weft_plan_make(plan, draft, NULL, &why)) == WEFT_OK) {
        return status;
    }
    /* What fits one length of a class may not fit another: a cluster that does not divide its grid. */
    draft->schedule = open;
    return mode == WEFT_MEASURE
               ? weft_plan_make(plan, draft, NULL, message)
               : weft_fail(message, WEFT_NOT_FOUND, "what was tuned does not fit this length: %.200s", why.text);
}

weft_status weft_plan_attention_on(weft_plan **plan, const weft_attention *problem, const weft_schedule *schedule,
                                   const weft_machine *machine, const weft_device *device, weft_message *message) {
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    *plan = NULL;
    weft_plan draft;
    const weft_status status = weft_plan_draft_attention(&draft, problem, schedule, device, message);
    return status ? status : make_in_mode(plan, &draft, machine, message);
}

weft_status weft_plan_attention(weft_plan **plan, const weft_attention *problem, const weft_schedule *schedule,
                                const weft_machine *machine, weft_message *message) {
    return weft_plan_attention_on(plan, problem, schedule, machine, NULL, message);
}

weft_status weft_plan_gemm_on(weft_plan **plan, const weft_gemm *problem, const weft_schedule *schedule,
                              const weft_machine *machine, const weft_device *device, weft_message *message) {
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    *plan = NULL;
    weft_plan draft;
    const weft_status status = weft_plan_draft_gemm(&draft, problem, schedule, device, message);
    return status ? status : make_in_mode(plan, &draft, machine, message);
}

weft_status weft_plan_gemm(weft_plan **plan, const weft_gemm *problem, const weft_schedule *schedule,
                           const weft_machine *machine, weft_message *message) {
    return weft_plan_gemm_on(plan, problem, schedule, machine, NULL, message);
}
