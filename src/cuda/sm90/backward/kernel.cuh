/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper backward: one tile of keys of the walk after the other.
 *
 * A CTA is a producer warpgroup, of which one thread asks for tiles and has K, V, Q and dO copied into shared memory and
 * two warps, narrow, add dQ to memory (general: another works out who sees what), and two consumer warpgroups. Narrow, each
 * has 64 keys, whose dK and dV it holds in registers; wide, both have the same 64 keys, and one holds dV, the other dK. */
#ifndef WEFT_CUDA_SM90_BACKWARD_KERNEL_CUH
#define WEFT_CUDA_SM90_BACKWARD_KERNEL_CUH

#include "cuda/sm90/backward/dq.cuh"
#include "cuda/sm90/backward/feed.cuh"
#include "cuda/sm90/backward/join.cuh"
#include "cuda/sm90/backward/queries.cuh"
#include "cuda/sm90/backward/store.cuh"
#include "cuda/sm90/backward/sweep.cuh"
#include "cuda/sm90/backward/wide.cuh"

template <class S>
static __device__ __forceinline__ void backward_consume(const weft_hopper_backward_params &p, backward_desk<S> &desk,
                                                        uint32_t base, uint32_t group) {
    backward_consumer<S> consumer(p, desk, base, group);
    for (uint32_t tiles = 0;; tiles++) {
        mbarrier_wait(shared_address(&desk.kv_full), tiles % 2);
        const backward_job_of_form<S> &next = desk.job[tiles % 2];
        if constexpr (!S::general) {
            backward_await_late();
        }
        if (!next.more) {
            return;
        }
        const struct { int batch, head, key, rows; } job = {next.batch, next.head, next.key, backward_rows<S>(p, next)};
        float dk[S::depth / 2], dv[S::depth / 2];
        if (next.steps > 0) {
            if constexpr (S::general) {
                backward_clean_keys<S>(next, base, group);
            }
            consumer.sweep(dk, dv);
        } else {
#pragma unroll
            for (int i = 0; i < S::depth / 2; i++) {
                dk[i] = dv[i] = 0;
            }
        }
        const weft_strides &ks = p.k_strides, &vs = p.v_strides;
        char *grad_k = (char *)p.grad_k + 2 * (job.batch * ks.batch + job.head * ks.head + job.key * ks.seq);
        char *grad_v = (char *)p.grad_v + 2 * (job.batch * vs.batch + job.head * vs.head + job.key * vs.seq);
        const float kept = S::full ? p.full.kept : 1.0f;
        if (p.splits > 1) {
            backward_join<S> join(p, desk, base, group, tiles);
            const backward_joined of_dv = {grad_v, 2 * vs.seq, job.rows, p.head_dim_v, kept};
            const backward_joined of_dk = {grad_k, 2 * ks.seq, job.rows, p.head_dim, p.scale};
            backward_join_narrow<S>(join, dv, dk, of_dv, of_dk);
            fence_shared_for_async(); /* numbers were where copies go next */
            __syncwarp();
            consumer.release(desk.kv_empty);
            continue;
        }
        __syncwarp();
        consumer.release(desk.kv_empty); /* nothing of the tile is read any more */
        const uint32_t place = consumer.free_place(consumer.steps);
        if constexpr (S::general) {
            backward_store<S>(job.rows, p.head_dim_v, group * 64, dv, kept, place, grad_v, 2 * vs.seq);
            backward_store<S>(job.rows, p.head_dim, group * 64, dk, p.scale, place, grad_k, 2 * ks.seq);
        } else {
            uint32_t boxes = 0;
            consumer.free_place(consumer.steps + 1);
            backward_store_late<S>(group * 64, dv, kept, base + S::ds_at, boxes, &p.to_v, job.rows, job.key, job.head,
                                   job.batch);
            backward_store_late<S>(group * 64, dk, p.scale, base + S::ds_at, boxes, &p.to_k, job.rows, job.key, job.head,
                                   job.batch);
        }
    }
}

template <class S> static __device__ __forceinline__ void backward_main(const weft_hopper_backward_params &p) {
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    const uint32_t base = shared_address(hopper_shared);
    backward_desk<S> &desk = *(backward_desk<S> *)(hopper_shared + S::bytes);
    static_assert(sizeof desk <= WEFT_HOPPER_BACKWARD_DESK, "see there");
    const uint32_t group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); /* the producer's is 0 */
    if (threadIdx.x == 0) {
        backward_start<S>(p, desk);
    } else if (threadIdx.x == 32) {
        desk.begin(p.splits);
    } else if (threadIdx.x >= 64 && threadIdx.x < 68) { /* what copies are described by */
        tma_prefetch_map(threadIdx.x == 64 ? &p.k : threadIdx.x == 65 ? &p.v : threadIdx.x == 66 ? &p.q : &p.grad_o);
    }
    __syncthreads();
    if (p.splits > 1) { /* nobody tells a CTA anything before it is there */
        cluster_meet(false);
    }
    grid_let_next();
    if (group == 0) {
        registers_lower<S::producer_registers>();
        const uint32_t warp = threadIdx.x / 32;
        if (warp == 0 && elect_one()) {
            backward_produce<S>(p, desk, base);
        } else if (warp == 1 || warp == 2) {
            if constexpr (!S::wide) {
                backward_add<S>(p, desk, base, warp - 1);
            }
        } else if (warp == 3) {
            if constexpr (S::general) {
                backward_look<S>(p, desk);
            }
        }
    } else {
        registers_raise<S::consumer_registers>();
        if constexpr (!S::wide) {
            backward_consume<S>(p, desk, base, group - 1);
        } else if (group == 1) {
            backward_consume_wide<S, 0>(p, desk, base);
        } else {
            backward_consume_wide<S, 1>(p, desk, base);
        }
    }
}

/* The last launch. */
template <class S> static __device__ __forceinline__ void backward_last(const weft_hopper_backward_params &p) {
    if constexpr (S::wide) {
        backward_dq<S>(p);
    } else {
        backward_end<S>(p);
    }
}

#endif
