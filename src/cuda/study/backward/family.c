/* SPDX-License-Identifier: Apache-2.0 */
/* The portable backward's host side: which variant, its launches, and their parameters. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/study/backward/params.h"
#include "cuda/study/fill.h"
#include "problem/problem.h"

static const weft_study_backward_variant variants[] = {
#define WEFT_STUDY_BACKWARD(...) WEFT_STUDY_BACKWARD_VARIANT(__VA_ARGS__),
#include "cuda/study/backward/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_study_backward_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* The launches of a run: see params.h. */
enum { DQ = 0, DK_DV = 1, SINKS = 2 };

/* Whether two positions of a tensor share an element, so that their gradients would have to be added up. */
static int repeats(const weft_strides *s, int64_t batch, int64_t seq, int64_t heads) {
    return (s->batch == 0 && batch > 1) || (s->seq == 0 && seq > 1) || (s->head == 0 && heads > 1);
}

/* What no variant does, in words; or null. */
static const char *refused(const weft_attention *p, const weft_cuda_knobs *knobs) {
    if (p->dtype != WEFT_FP16 && p->dtype != WEFT_BF16) {
        return "dtypes other than fp16 and bf16";
    }
    if (knobs->precise) {
        return "precise math";
    }
    if (repeats(&p->q_strides, p->batch, p->seq, p->heads) || repeats(&p->k_strides, p->batch, p->kv_seq, p->kv_heads) ||
        repeats(&p->v_strides, p->batch, p->kv_seq, p->kv_heads)) {
        return "gradients of inputs that a stride of 0 repeats";
    }
    return weft_attention_lacks(p, (WEFT_HAS_UNCACHED & ~WEFT_HAS_LARGE_DIM) | WEFT_HAS_FP32_OUT);
}

/* Whether a tile and its steps do not cross the blocks of a block mask, if there is one, whichever of them are queries. */
static int fits_blocks(const weft_study_backward_variant *v, const weft_attention *p) {
    return p->block_rows == 0 || ((p->block_rows % v->tile == 0 || p->seq <= p->block_rows) &&
                                  (p->block_columns % v->tile == 0 || p->kv_seq <= p->block_columns));
}

/* The first variant of the least head dims that a problem fits into, with the schedule's tile, if it has one. */
static const weft_study_backward_variant *find(const weft_attention *p, const weft_schedule *s,
                                               const weft_cuda_device *device) {
    const weft_study_backward_variant *best = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_backward_variant *v = &variants[i];
        const int takes = v->dtype == p->dtype && p->head_dim <= v->head_dim && p->head_dim_v <= v->head_dim_v;
        const int fits = (s->tile_m == 0 || s->tile_m == v->tile) && (s->tile_n == 0 || s->tile_n == v->tile) &&
                         v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= (uint32_t)device->shared_bytes && fits_blocks(v, p);
        best = takes && fits && (!best || v->head_dim < best->head_dim) ? v : best;
    }
    return best;
}

/* Why no variant has the schedule's tile: there is none, or the GPU has not the memory for it. */
static weft_status explain_tile(const weft_attention *p, const weft_schedule *s, const weft_cuda_device *device,
                                weft_message *why) {
    weft_cuda_device roomy = *device;
    roomy.shared_bytes = INT32_MAX;
    return weft_fail(why, WEFT_UNSUPPORTED,
                     find(p, s, &roomy) ? "tile %" PRId64 "x%" PRId64 " for head_dim %" PRId64 " (V: %" PRId64
                                          ") needs more shared memory than this GPU has"
                                        : "tile %" PRId64 "x%" PRId64 " for head_dim %" PRId64 " (V: %" PRId64
                                          ") is not compiled",
                     s->tile_m, s->tile_n, p->head_dim, p->head_dim_v);
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_schedule *s = &plan->schedule;
    const weft_attention *p = &plan->attention;
    const char *lacks = refused(p, knobs);
    const weft_study_backward_variant *v = lacks ? NULL : find(p, s, device);
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1 || s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if (s->sweep > WEFT_COMMON_SWEEPS) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no sweep %s", weft_sweep_describe(s->sweep)->name);
    }
    if (!v && p->block_rows > 0) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "no tile of %s divides a mask's blocks of %" PRId64 " queries x %" PRId64 " keys",
                         p->head_dim > 192 ? "64x64 or 32x32" : "64x64", p->block_rows, p->block_columns);
    }
    if (!v) {
        return explain_tile(p, s, device, why);
    }
    *choice =
        (weft_cuda_choice){v->module, v->dk_dv, v->tile, v->tile, v->threads, v->shared_bytes, .overlaps = 0, .ctas = 0};
    return WEFT_OK;
}

static const weft_study_backward_variant *variant_of(const weft_cuda_choice *choice) {
    size_t i = 0;
    while (strcmp(variants[i].dk_dv, choice->kernel) != 0) {
        i++;
    }
    return &variants[i];
}

static int passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_study_backward_variant *v = variant_of(choice);
    const int has_sinks = (plan->attention.extras & WEFT_SINKS) != 0;
    list[DQ] = list[DK_DV] = *choice;
    list[DQ].kernel = v->dq;
    list[DQ].operation = WEFT_ATTENTION;
    list[SINKS] = (weft_cuda_choice){
        .image = v->module, .kernel = v->sinks, .threads = WEFT_STUDY_SINKS_THREADS, .grid = plan->attention.heads};
    *main = DK_DV;
    return has_sinks ? SINKS + 1 : SINKS;
}

/* Tiles of keys that come first are the longest under a causal mask, and grid dispatch takes them first. */
static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    (void)plan;
    (void)device;
    (void)choice;
    if (schedule->order == WEFT_ORDER_CHOOSE) {
        schedule->order = WEFT_ORDER_HEAD_FIRST;
        schedule->dispatch = schedule->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_GRID : schedule->dispatch;
    }
}

static size_t workspace(const weft_plan *plan) {
    return WEFT_STUDY_BACKWARD_WORKSPACE(weft_attention_sizes(&plan->attention).lse);
}

/* What the forward pass took. */
static weft_attention_data inputs_of(const weft_attention_gradients *data) {
    weft_attention_data inputs = WEFT_ATTENTION_DATA_INIT;
    inputs.q = data->q;
    inputs.k = data->k;
    inputs.v = data->v;
    inputs.o = (void *)(uintptr_t)data->o;
    inputs.lse = (float *)(uintptr_t)data->lse;
    inputs.sinks = data->sinks;
    inputs.alibi = data->alibi;
    inputs.bias = data->bias;
    inputs.dropout_seed = data->dropout_seed;
    return inputs;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    const weft_attention_gradients *data = buffers;
    const weft_attention_data inputs = inputs_of(data);
    weft_study_backward_params *to = parameters;
    if (!data->o) { /* nor has it an lse */
        return weft_fail(message, WEFT_INVALID, "o is null, and is not computed again on a GPU");
    }
    memset(to, 0, sizeof *to);
    weft_study_fill(&to->forward, p, &inputs, walk);
    to->forward.mask_every_block = c->knobs.mask_every_block;
    to->forward.no_prefetch = c->knobs.no_prefetch;
    to->forward.counter = counters->own ? counters->own + (pass - c->passes) : NULL;
    to->forward.walk.reach.transposed = pass != &c->passes[DQ];
    to->grad_o = data->grad_o;
    to->grad_q = data->grad_q;
    to->grad_k = data->grad_k;
    to->grad_v = data->grad_v;
    to->grad_sinks = data->grad_sinks;
    to->grad_bias = p->extras & WEFT_BIAS ? data->grad_bias : NULL;
    to->log2_sums = data->workspace;
    to->deltas = to->log2_sums + weft_attention_sizes(p).lse;
    to->grad_o_unit = weft_study_unit(data->grad_o, &p->o_strides);
    to->grad_q_unit = weft_study_out_unit(p, data->grad_q, &p->q_strides);
    to->grad_k_unit = weft_study_out_unit(p, data->grad_k, &p->k_strides);
    to->grad_v_unit = weft_study_out_unit(p, data->grad_v, &p->v_strides);
    to->scale = (float)p->scale;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_study_backward = {
    .name = "study",
    .parameter_bytes = sizeof(weft_study_backward_params),
    .choose = choose,
    .passes = passes,
    .complete = complete,
    .workspace = workspace,
    .fill = fill,
};
