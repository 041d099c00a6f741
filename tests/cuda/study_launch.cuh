/* SPDX-License-Identifier: Apache-2.0 */
/* Launching the study kernel's variants from a test: the table, and the parameters of a problem under a schedule. */
#ifndef WEFT_TESTS_CUDA_STUDY_LAUNCH_CUH
#define WEFT_TESTS_CUDA_STUDY_LAUNCH_CUH

#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include "cuda/study/fill.h"
#include "problem/attention.h"
}

#ifdef WEFT_EMULATED
#include "emulate/runtime.h"
#endif

#define CHECK(call)                                                                                                        \
    do {                                                                                                                   \
        const cudaError_t error = (call);                                                                                  \
        if (error != cudaSuccess) {                                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));                                 \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#define WEFT_STUDY(symbol, ...) extern "C" __global__ void symbol(const __grid_constant__ weft_study_params p);
#define WEFT_STUDY_GENERAL      WEFT_STUDY
#include "cuda/study/variants.def"

static const weft_study_variant variants[] = {
#define WEFT_STUDY(...)         WEFT_STUDY_VARIANT(__VA_ARGS__),
#define WEFT_STUDY_GENERAL(...) WEFT_STUDY_GENERAL_VARIANT(__VA_ARGS__),
#include "cuda/study/variants.def"
};

static const void *const entries[] = {
#define WEFT_STUDY(symbol, ...) (const void *)symbol,
#define WEFT_STUDY_GENERAL      WEFT_STUDY
#include "cuda/study/variants.def"
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* Everything that is not the problem: a schedule and the kernel's own knobs. */
typedef struct knobs {
    weft_order_kind order;
    weft_sweep sweep;
    weft_dispatch dispatch;
    int64_t workers, group, domains;
    int table, mask_every_block, no_prefetch; /* table: 1 the order's own, 2 shuffled */
    int by_sm;                                /* static dispatch, one CTA an SM: the worker follows from the SM */
    unsigned more_shared;                     /* bytes beyond what the variant needs */
} knobs;

/* What a launch borrows from the device, shared by all launches. */
typedef struct lent {
    uint64_t *counter;
    uint32_t *table; /* room for `places` positions */
    int64_t places;
    uint32_t *worker_of_sm;
    int sms;
} lent;

#ifdef WEFT_EMULATED
static inline void number_workers(lent *l) { /* see emulate/cuda/ptx/thread.cuh */
    static uint32_t workers[] = {3, 2, 1, 0};
    l->worker_of_sm = workers;
    l->sms = 4;
}
#else
static __global__ void mark_sm(uint32_t *marks) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    marks[sm] = 1;
}

/* Numbers the workers from the last SM to the first, whatever numbers the SMs have. */
static inline void number_workers(lent *l) {
    enum { MOST = 1024 };
    static uint32_t marks[MOST];
    CHECK(cudaDeviceGetAttribute(&l->sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaMalloc(&l->worker_of_sm, sizeof marks));
    CHECK(cudaMemset(l->worker_of_sm, 0, sizeof marks));
    mark_sm<<<(unsigned)l->sms * 64, 1024>>>(l->worker_of_sm);
    CHECK(cudaMemcpy(marks, l->worker_of_sm, sizeof marks, cudaMemcpyDeviceToHost));
    uint32_t next = 0;
    for (int sm = MOST - 1; sm >= 0; sm--) {
        marks[sm] = marks[sm] ? next++ : 0;
    }
    CHECK(cudaMemcpy(l->worker_of_sm, marks, sizeof marks, cudaMemcpyHostToDevice));
    l->sms = next == (uint32_t)l->sms ? l->sms : 0; /* 0: not every SM was seen, so workers are not placed by SM */
}
#endif

static inline lent lend(int64_t places) {
    lent l;
    l.places = places;
    number_workers(&l);
    CHECK(cudaMalloc(&l.counter, sizeof *l.counter));
    CHECK(cudaMalloc(&l.table, (size_t)places * sizeof *l.table));
    return l;
}

static inline void lend_back(const lent *l) {
    CHECK(cudaFree(l->counter));
    CHECK(cudaFree(l->table));
#ifndef WEFT_EMULATED
    CHECK(cudaFree(l->worker_of_sm));
#endif
}

/* Lets a variant use its shared memory; 0 when the device has not as much. */
static inline int variant_prepare(int variant, unsigned more_shared) {
    int most;
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, entries[variant]));
    if (variants[variant].shared_bytes + more_shared + a.sharedSizeBytes > (size_t)most) {
        return 0;
    }
    CHECK(cudaFuncSetAttribute(entries[variant], cudaFuncAttributeMaxDynamicSharedMemorySize,
                               (int)(variants[variant].shared_bytes + more_shared)));
    return 1;
}

/* Parameters of a resolved problem with device buffers. */
static inline weft_study_params study_params(int variant, const weft_attention *p, const weft_attention_data *data,
                                             const knobs *k, const lent *l) {
    const weft_study_variant *v = &variants[variant];
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = v->tile_m;
    schedule.tile_n = v->tile_n;
    const weft_tiling tiling = {(const weft_problem *)(const void *)p, &schedule, 1, 0, 0, 0, 0, nullptr};
    weft_grid tiles;
    weft_reach reach;
    weft_order order;
    weft_walk walk;
    weft_study_params s;
    weft_attention_lay_out(&tiling, &tiles, &reach);
    reach.sequences.lengths = data->lengths;
    reach.blocks.pairs = data->pairs;
    if (!weft_order_init(&order, k->order, weft_walk_positions(tiles, k->sweep, 1, 1), k->group, WEFT_AXIS_N, k->domains) ||
        !weft_walk_init(&walk, &order, tiles, k->sweep, k->dispatch, 1, 1, k->workers, reach)) {
        fprintf(stderr, "%s: the walk was refused\n", v->symbol);
        exit(1);
    }
    weft_study_fill(&s, p, data, &walk);
    s.mask_every_block = k->mask_every_block;
    s.no_prefetch = k->no_prefetch;
    s.counter = k->dispatch == WEFT_DISPATCH_DYNAMIC ? l->counter : NULL;
    s.worker_of_sm = k->by_sm ? l->worker_of_sm : NULL;
    if (k->table && order.count <= l->places) {
        uint32_t *table = (uint32_t *)malloc((size_t)order.count * sizeof *table);
        if (!table || !weft_order_fill_table(&order, table)) {
            exit(1);
        }
        for (int64_t i = 0; i < order.count && k->table > 1; i++) { /* an order of the caller's */
            const int64_t other = i * 7919 % (i + 1);
            const uint32_t tile = table[i];
            table[i] = table[other];
            table[other] = tile;
        }
        CHECK(cudaMemcpy(l->table, table, (size_t)order.count * sizeof *table, cudaMemcpyHostToDevice));
        free(table);
        s.walk.order.table = l->table;
    }
    return s;
}

/* Starts a variant on the default stream. */
static inline void study_launch(int variant, weft_study_params *s, unsigned more_shared) {
    const int64_t ctas = s->walk.dispatch == WEFT_DISPATCH_GRID ? s->walk.order.count : s->walk.workers;
    if (s->counter) {
        CHECK(cudaMemsetAsync(s->counter, 0, sizeof *s->counter));
    }
    void *arguments[] = {s};
    CHECK(cudaLaunchKernel(entries[variant], dim3((unsigned)ctas), dim3((unsigned)variants[variant].threads), arguments,
                           variants[variant].shared_bytes + more_shared, 0));
}

#endif
