/* What a consumer leaves of a run: its half of the output, or sums that wait to be merged. */
#ifndef WEFT_CUDA_SM90_MLA_STORE_CUH
#define WEFT_CUDA_SM90_MLA_STORE_CUH

#include "cuda/sm90/mla/sweep.cuh"

/* The sums of a row's weights, of both consumers. `parity` tells this run from the one before. */
template <class S, int WHO>
static __device__ __forceinline__ void mla_add_up(mla_consumer<S, WHO> &consumer, uint32_t parity) {
    float(&sums)[2][WEFT_MLA_ROWS] = consumer.desk.sums[parity];
    mla_rows &rows = consumer.rows;
    const int row = consumer.first_row();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows.sum[i] += __shfl_xor_sync(~0u, rows.sum[i], 1);
        rows.sum[i] += __shfl_xor_sync(~0u, rows.sum[i], 2);
        if (thread_index() % 4 == 0) {
            sums[WHO][row + 8 * i] = rows.sum[i];
        }
    }
    barrier_sync(1, 256);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows.sum[i] = sums[0][row + 8 * i] + sums[1][row + 8 * i];
    }
}

/* A thread's columns of its row `which`, 0 or 1: as the decode kernel stores them. */
template <class S, int WHO>
static __device__ __forceinline__ void mla_store_row(const mla_consumer<S, WHO> &consumer, const mla_view &view, int which,
                                                     const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
    const weft_decode_params &p = consumer.p;
    const int index = view.row + consumer.first_row() + 8 * which, query = (int)weft_divide(index, &p.by_group);
    const int head = view.kv_head * p.group + index - query * p.group, column = 2 * (int)(thread_index() % 4);
    const decode_total total = decode_total_of(p, head, consumer.rows.max[which], consumer.rows.sum[which]);
    uint16_t *to = (uint16_t *)p.o + view.batch * p.o_strides.batch + (view.s.rows.begin + query) * p.o_strides.seq +
                   head * p.o_strides.head;
#pragma unroll
    for (int i = 0; i < WEFT_MLA_DEPTH_V / 16; i++) {
        const int at = 256 * WHO + 8 * i + column;
        if (at < p.head_dim_v) {
            *(uint32_t *)(to + at) =
                pack_halves<S::bf16>(total.scale * out[4 * i + 2 * which], total.scale * out[4 * i + 2 * which + 1]);
        }
    }
    if (WHO == 0 && p.lse && column == 0) {
        p.lse[((int64_t)view.batch * p.heads + head) * p.seq + view.s.rows.begin + query] = total.lse;
    }
}

/* The same, for whoever merges. */
template <class S, int WHO>
static __device__ __forceinline__ void mla_leave_row(const mla_consumer<S, WHO> &consumer, int place, int which,
                                                     const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
    const int64_t at = (int64_t)place * WEFT_MLA_ROWS + consumer.first_row() + 8 * which;
    const int column = 2 * (int)(thread_index() % 4);
    float *to = consumer.p.sums + at * WEFT_MLA_DEPTH_V + 256 * WHO + column;
#pragma unroll
    for (int i = 0; i < WEFT_MLA_DEPTH_V / 16; i++) {
        *(float2 *)(to + 8 * i) = make_float2(out[4 * i + 2 * which], out[4 * i + 2 * which + 1]);
    }
    if (WHO == 0 && column == 0) {
        *(float2 *)(consumer.p.stats + 2 * at) = make_float2(consumer.rows.max[which], consumer.rows.sum[which]);
    }
}

template <class S, int WHO>
static __device__ __forceinline__ void mla_store(const mla_consumer<S, WHO> &consumer, const decode_run &run,
                                                 const mla_view &view, const float (&out)[WEFT_MLA_DEPTH_V / 4]) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
        if (consumer.first_row() + 8 * which < view.count) {
            if (run.count == 1) {
                mla_store_row(consumer, view, which, out);
            } else {
                mla_leave_row(consumer, run.place, which, out);
            }
        }
    }
}

/* Of a run whose sums were left, whether they were the last of its sequence and tile: see mla_count(). */
static __device__ __forceinline__ bool mla_collect(mla_desk &desk, uint32_t number, decode_run &run) {
    mbarrier_wait(shared_address(&desk.counted), number % 2);
    run = desk.runs[number % 4];
    return desk.is_last;
}

/* The output of a sequence and tile, by both consumers: its runs' sums as the nodes of a tree, in whatever CTA's hands. */
template <class S> static __device__ __forceinline__ void mla_merge(const weft_decode_params &p, const decode_run &run) {
    const mla_view view = mla_view_of(p, run);
    constexpr int columns = 8, threads = S::depth / columns; /* that share a row */
    const int part = (int)threadIdx.x % threads;
    const decode_merger<S, columns> merger = {p, run.place - run.number * run.tiles, run.first, part, threads, run.tiles};
#pragma unroll 1
    for (int row = (int)(threadIdx.x - 128) / threads; row < min(view.count, S::rows); row += 256 / threads) {
        decode_node<columns> nodes[WEFT_DECODE_EIGHT];
        merger.merge(nodes, row, run.first, run.first + run.count);
        decode_store<S>(p, view.s, view.batch, run.tile, row, part, nodes[0]);
    }
}

#endif
