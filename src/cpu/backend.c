/* The CPU backend: the plan's tiles over threads, by kernels chosen by what the processor has. */
#include "cpu/attention/attention.h"
#include "cpu/attention/tile.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/tile.h"
#include "cpu/kernel/kernel.h"
#include "cpu/thread/team.h"
#include "plan/plan.h"

static const char *kernel(const weft_plan *plan) {
    return weft_cpu_choose(plan->subject, plan->subject == WEFT_SUBJECT_GEMM ? plan->gemm.dtype : plan->attention.dtype)
        ->name;
}

/* Fills in what a schedule leaves open, where the machine is this host. */
static weft_status open_plan(weft_plan *plan, int given_machine, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    (void)message;
    if (given_machine) {
        return WEFT_OK;
    }
    s->workers = s->workers == 0 ? weft_cpu_threads() : s->workers; /* one each, however many cores there are */
    if (s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) {          /* reported later */
        return WEFT_OK;
    }
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        weft_cpu_gemm_choose(plan);
    } else {
        weft_cpu_attention_choose(plan);
    }
    return WEFT_OK;
}

static size_t candidates(const weft_plan *draft, weft_schedule *list, size_t capacity) {
    return draft->subject == WEFT_SUBJECT_GEMM ? weft_cpu_gemm_candidates(draft, list, capacity)
                                               : weft_cpu_attention_candidates(draft, list, capacity);
}

static double cost(const weft_plan *plan) {
    return plan->subject == WEFT_SUBJECT_GEMM ? weft_cpu_gemm_plan_cost(plan) : weft_cpu_attention_cost(plan);
}

const weft_backend weft_backend_cpu = {
    .name = "cpu",
    .kernel = kernel,
    .open = open_plan,
    .candidates = candidates,
    .cost = cost,
    .attention_forward = weft_cpu_attention,
    .attention_backward = weft_cpu_attention_backward,
    .gemm = weft_cpu_gemm,
};
