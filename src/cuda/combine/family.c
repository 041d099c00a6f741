/* SPDX-License-Identifier: Apache-2.0 */
/* The combine kernel's host side. */
#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/combine/params.h"
#include "cuda/plan/backend.h"
#include "problem/combine.h"

_Static_assert(sizeof(weft_combine_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_schedule *s = &plan->schedule;
    const int64_t parts = plan->problem.combine.parts;
    (void)knobs; /* its math is precise */
    if ((s->tile_m != 0 && s->tile_m != WEFT_COMBINE_ROWS) || (s->tile_n != 0 && s->tile_n != parts)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "its tiles are %d rows of all parts, not %" PRId64 "x%" PRId64,
                         WEFT_COMBINE_ROWS, s->tile_m, s->tile_n);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1 || s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if (s->dispatch == WEFT_DISPATCH_DYNAMIC || s->sweep > WEFT_SWEEP_FORWARD) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has static and grid dispatch and forward sweeps only");
    }
    *choice = (weft_cuda_choice){.image = "combine",
                                 .kernel = "combine_parts",
                                 .tile_m = WEFT_COMBINE_ROWS,
                                 .tile_n = parts,
                                 .threads = WEFT_COMBINE_THREADS,
                                 .overlaps = device->capability >= 90};
    return WEFT_OK;
}

static int is_aligned(const void *data, const weft_strides *s) {
    return (uintptr_t)data % 16 == 0 && (s->batch | s->seq | s->head) % WEFT_COMBINE_CHUNK == 0;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    (void)pass;
    (void)counters;
    (void)message;
    const weft_combine *p = &plan->problem.combine;
    const weft_combine_data *data = buffers;
    weft_combine_params *to = parameters;
    int chunks = p->head_dim % WEFT_COMBINE_CHUNK == 0 && is_aligned(data->o, &p->o_strides);
    memset(to, 0, sizeof *to);
    for (int64_t i = 0; i < p->parts; i++) {
        to->parts[i] = data->parts[i];
        to->lses[i] = data->lses[i];
        chunks = chunks && is_aligned(data->parts[i], &p->part_strides);
    }
    to->o = data->o;
    to->lse = p->sum ? NULL : data->lse;
    to->part_strides = p->part_strides;
    to->o_strides = p->o_strides;
    to->order = walk->order;
    to->rows = weft_combine_rows(p);
    to->chunk = chunks ? WEFT_COMBINE_CHUNK : 1;
    to->by_seq = weft_divisor_make((uint64_t)p->seq);
    to->by_heads = weft_divisor_make((uint64_t)p->heads);
    to->by_chunks = weft_divisor_make((uint64_t)(p->head_dim / to->chunk));
    to->count = (int32_t)p->parts;
    to->dtype = (int32_t)p->dtype;
    to->o_dtype = (int32_t)p->o_dtype;
    to->lse_stride = p->lse_stride;
    to->into = p->into;
    to->sum = p->sum;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_combine = {
    .name = "combine",
    .parameter_bytes = sizeof(weft_combine_params),
    .choose = choose,
    .fill = fill,
};
