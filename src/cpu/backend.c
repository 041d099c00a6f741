/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend: the plan's tiles over threads, by kernels chosen by what the processor has. */
#include "cpu/backend.h"

#include <string.h>

#include "base/status.h"
#include "cpu/attention/attention.h"
#include "cpu/attention/cache.h"
#include "cpu/attention/tile.h"
#include "cpu/combine.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/grouped.h"
#include "cpu/gemm/tile.h"
#include "cpu/kernel/kernel.h"
#include "cpu/memory.h"
#include "cpu/thread/team.h"
#include "cpu/thread/walk.h"
#include "problem/problem.h"

/* What this backend has for an operation. One without a row runs by the operation's own function for a tile. */
typedef struct cpu_operation {
    const weft_cpu_kernel *(*kernel)(const weft_plan *plan);
    void (*choose)(weft_plan *plan); /* fills in what the schedule leaves open */
    size_t (*candidates)(const weft_plan *draft, weft_schedule *list, size_t capacity);
    double (*cost)(const weft_plan *plan);
    weft_status (*run)(const weft_plan *plan, const void *data, weft_message *message);
} cpu_operation;

static const weft_cpu_kernel *attention_kernel(const weft_plan *plan) {
    return weft_cpu_choose(WEFT_CPU_ATTENTION, plan->attention.dtype);
}

static const weft_cpu_kernel *gemm_kernel(const weft_plan *plan) {
    return weft_cpu_choose(WEFT_CPU_PRODUCTS, plan->gemm.dtype);
}

static const weft_cpu_kernel *grouped_kernel(const weft_plan *plan) {
    return weft_cpu_choose(WEFT_CPU_PRODUCTS, plan->problem.grouped.dtype);
}

/* The plan with the lengths and pairs that the data of a run brings. */
static weft_status take_lengths(weft_plan *plan, const weft_lengths *lengths, const weft_pairs *pairs,
                                weft_message *message) {
    weft_attention given = plan->attention;
    weft_status status = weft_attention_take_lengths(&given, lengths, &plan->attention.lengths, message);
    given.lengths = plan->attention.lengths;
    status = status ? status : weft_attention_take_pairs(&given, pairs, &plan->attention.pairs, message);
    plan->walk.reach.sequences.lengths = plan->attention.lengths;
    plan->walk.reach.blocks.pairs = plan->attention.pairs;
    return status;
}

static weft_status run_attention(const weft_plan *plan, const void *data, weft_message *message) {
    const weft_attention_data *d = data;
    weft_plan own = *plan;
    weft_attention_data with = *d;
    void *memory = NULL;
    weft_status status = take_lengths(&own, &d->lengths, &d->pairs, message);
    status = status ? status : weft_attention_take_cache(&own.attention, &d->cache, message);
    own.walk.reach.sequences.new_starts = own.attention.cache.new_starts;
    status = status ? status : weft_cpu_cache_begin(&own.attention, &with, &memory, message);
    status = status ? status : weft_cpu_attention(&own, &with, message);
    weft_cpu_free(memory);
    return status;
}

static weft_status run_backward(const weft_plan *plan, const void *data, weft_message *message) {
    const weft_attention_gradients *d = data;
    weft_plan own = *plan;
    const weft_status status = take_lengths(&own, &d->lengths, &d->pairs, message);
    return status ? status : weft_cpu_attention_backward(&own, d, message);
}

/* One product after the other, or all at once, as the plan says. */
static weft_status run_gemm(const weft_plan *plan, const void *data, weft_message *message) {
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->gemm.batch && status == WEFT_OK; i += plan->products) {
        const weft_gemm_data part = weft_gemm_product(&plan->gemm, data, i);
        status = weft_cpu_gemm(plan, &part, i, message);
    }
    return status;
}

static const cpu_operation operations[] = {
    [WEFT_ATTENTION] = {attention_kernel, weft_cpu_attention_choose, weft_cpu_attention_candidates, weft_cpu_attention_cost,
                        run_attention},
    [WEFT_ATTENTION_BACKWARD] = {attention_kernel, weft_cpu_backward_choose, NULL, NULL, run_backward},
    [WEFT_GEMM] = {gemm_kernel, weft_cpu_gemm_choose, weft_cpu_gemm_candidates, weft_cpu_gemm_plan_cost, run_gemm},
    [WEFT_COMBINE] = {.run = weft_cpu_combine},
    [WEFT_GROUPED_GEMM] = {grouped_kernel, weft_cpu_grouped_choose, NULL, NULL, weft_cpu_grouped},
};

static const cpu_operation *operation_of(const weft_plan *plan) {
    static const cpu_operation none;
    const size_t number = (size_t)plan->operation->info.operation;
    return number < sizeof operations / sizeof *operations ? &operations[number] : &none;
}

static const char *kernel(const weft_plan *plan) {
    const cpu_operation *o = operation_of(plan);
    return o->kernel ? o->kernel(plan)->name : "tile";
}

/* Fills in what a schedule leaves open, where the machine is this host. */
static weft_status open_plan(weft_plan *plan, int given_machine, weft_message *message) {
    weft_schedule *s = &plan->schedule;
    if (s->order == WEFT_ORDER_CUSTOM && operation_of(plan)->run == run_gemm) {
        plan->products = plan->gemm.batch; /* the caller's table is over all of the batch, on every machine */
    }
    if (given_machine) {
        return WEFT_OK;
    }
    s->workers = s->workers == 0 ? weft_cpu_threads() : s->workers; /* one each, however many cores there are */
    if (s->tile_m < 0 || s->tile_n < 0 || s->tile_k < 0) {          /* reported later */
        return WEFT_OK;
    }
    if (operation_of(plan)->choose) {
        const int error = weft_cpu_ask_cores(); /* choices depend on it */
        if (error) {
            return weft_fail(message, WEFT_IO, "this host's CPU cannot be described: /sys: %s", strerror(error));
        }
        operation_of(plan)->choose(plan);
    }
    return WEFT_OK;
}

static size_t candidates(const weft_plan *draft, weft_schedule *list, size_t capacity) {
    const cpu_operation *o = operation_of(draft);
    return o->candidates ? o->candidates(draft, list, capacity) : 0;
}

static double cost(const weft_plan *plan) {
    const cpu_operation *o = operation_of(plan);
    return o->cost ? o->cost(plan) : 0;
}

/* An operation without kernels here: its own function for a tile, over threads. */
typedef struct tiled {
    const weft_plan *plan;
    weft_tiling tiling;
    const void *data;
} tiled;

static void visit_tile(void *context, const weft_visit *visit) {
    const tiled *t = context;
    t->plan->operation->tile(&t->tiling, t->data, visit);
}

static weft_status run(const weft_plan *plan, const void *data, weft_message *message) {
    const cpu_operation *o = operation_of(plan);
    if (o->run) {
        return o->run(plan, data, message);
    }
    if (!plan->operation->tile) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the CPU does not run %s", plan->operation->info.name);
    }
    tiled t = {plan, weft_plan_tiling(plan), data};
    return weft_cpu_run_tiles(&plan->walk, visit_tile, &t, plan->progress, plan->progress_user, message);
}

const weft_backend weft_backend_cpu = {
    .name = "cpu",
    .kernel = kernel,
    .open = open_plan,
    .candidates = candidates,
    .cost = cost,
    .run = run,
};
