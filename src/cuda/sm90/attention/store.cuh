/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a tile, from the registers of a warpgroup to memory.
 *
 * Where two tiles have room for their queries, it goes by way of those of its own tile, which are not needed any more, and
 * from there by the copy engine; otherwise four lanes exchange words so that each stores 16 bytes. */
#ifndef WEFT_CUDA_SM90_ATTENTION_STORE_CUH
#define WEFT_CUDA_SM90_ATTENTION_STORE_CUH

#include "cuda/ptx/stmatrix.cuh"
#include "cuda/sm90/attention/sweep.cuh"

/* Exchanges among four lanes: a lane had words of four pieces, and gets all four words of its own piece. */
static __device__ __forceinline__ void hopper_gather(uint32_t (&words)[4]) {
    const uint32_t lane = thread_index();
    const bool upper = lane & 2, odd = lane & 1;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + 2], 2);
        words[i] = upper ? got : words[i];
        words[i + 2] = upper ? words[i + 2] : got;
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
        words[i] = odd ? got : words[i];
        words[i + 1] = odd ? words[i + 1] : got;
    }
}

/* A row of the tile, of the thread's two: its query and head. */
struct hopper_place {
    int query, head;

    __device__ __forceinline__ hopper_place(const weft_hopper_attention_params &p, const hopper_job &job, uint32_t group,
                                            int half) {
        const int thread = (int)thread_index();
        const int row = (int)group * 64 + thread % 128 / 32 * 16 + half * 8 + thread % 32 / 4;
        query = job.row + (row >> p.pack_bits);
        head = (job.head << p.pack_bits) + (row & ((1 << p.pack_bits) - 1));
    }
};

/* The sum of a row, of which four lanes have a part each. */
static __device__ __forceinline__ float hopper_sum_of_row(float sum) {
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}

/* shift: in base 2. */
template <class S>
static __device__ __forceinline__ void hopper_store_lse(const weft_hopper_attention_params &p, const hopper_job &job,
                                                        const hopper_place &at, float shift, float sum) {
    const float ln2 = 0.693147181f;
    if (at.query < hopper_end<S>(p, job)) {
        p.lse[(job.batch * p.heads + at.head) * p.seq + at.query] =
            sum == 0 ? -INFINITY : ln2 * (shift + log2_flushed(sum));
    }
}

/* Adds a sink, a score in base 2, to a row's sum. Where it is above the row's shift it becomes the shift, and what was
 * summed up, output included, has to be multiplied by `grown`, which is below 1. */
static __device__ __forceinline__ void hopper_sink(float sink, float &shift, float &sum, float &grown) {
    const float most = sum == 0 ? sink : fmaxf(sink, shift); /* a row that saw nothing has no shift */
    grown = sum == 0 ? 0 : exp2_flushed(shift - most);
    sum = sum * grown + (sink == -INFINITY ? 0 : exp2_flushed(sink - most));
    shift = most;
}

/* What the thread's two rows have to be multiplied by; stores their LSE. scale: of the shifts, see hopper_in_base_2(). */
template <class S>
static __device__ __forceinline__ void hopper_finish(const weft_hopper_attention_params &p, const hopper_job &job,
                                                     const hopper_rows &rows, uint32_t group, float scale,
                                                     float (&inverse)[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = hopper_sum_of_row(rows.sum[half]);
        float shift = hopper_in_base_2<S>(rows.shift[half], scale);
        const hopper_place at(p, job, group, half);
        float grown = 1;
        if (p.sinks && at.query < hopper_end<S>(p, job)) {
            hopper_sink(p.sinks[at.head] * 1.442695041f, shift, sum, grown);
        }
        inverse[half] = sum == 0 ? 0 : grown * reciprocal_flushed(sum);
        if (p.lse && thread_index() % 4 == 0) {
            hopper_store_lse<S>(p, job, at, shift, sum);
        }
    }
}

template <class S>
static __device__ __forceinline__ void hopper_store_direct(const weft_hopper_attention_params &p, const hopper_job &job,
                                                           uint32_t group, const float (&out)[S::depth / 2],
                                                           const float (&inverse)[2]) {
    const int lane = (int)thread_index() % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hopper_place at(p, job, group, half);
        char *to = (char *)p.o + lane % 4 * 16 +
                   2 * (job.batch * p.o_strides.batch + at.head * p.o_strides.head + at.query * p.o_strides.seq);
#pragma unroll
        for (int j = 0; j < S::depth / 32; j++) {
            uint32_t words[4]; /* of pieces of 8 columns */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int from = (4 * j + i) * 4 + 2 * half;
                words[i] = pack_halves<S::bf16>(out[from] * inverse[half], out[from + 1] * inverse[half]);
            }
            hopper_gather(words);
            if (at.query < hopper_end<S>(p, job) && 32 * j + lane % 4 * 8 < p.head_dim) {
                store_16(to + 64 * j, words, p.keep_o);
            }
        }
    }
}

/* to: where the warpgroup's queries were, 64 rows of 128 bytes for each 64 columns, swizzled. Rows and columns beyond the
 * tensor are not stored by the copy engine. */
template <class S>
static __device__ __forceinline__ void hopper_store_staged(const weft_hopper_attention_params &p, const hopper_job &job,
                                                           uint32_t group, const float (&out)[S::depth / 2],
                                                           const float (&inverse)[2], uint32_t to) {
    const uint32_t thread = thread_index() % 128, lane = thread % 32;
    /* Lanes 8 i .. 8 i + 7 name the rows of matrix i: rows 0 and 8 of 8 columns, then of the next 8. */
    const uint32_t row = thread / 32 * 16 + lane % 16, first = to + row * 128 + ((lane / 16) ^ (lane % 8)) * 16;
#pragma unroll
    for (int j = 0; j < S::depth / 16; j++) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = pack_halves<S::bf16>(out[8 * j + 2 * i] * inverse[i % 2], out[8 * j + 2 * i + 1] * inverse[i % 2]);
        }
        stmatrix_x4((first ^ (uint32_t)(j % 4 * 32)) + (uint32_t)(j / 4) * S::q_box, words);
    }
    fence_shared_for_async();
    barrier_sync(8 + group, 128);
    const int query = job.row + ((int)group * 64 >> p.pack_bits);
    if (thread == 0 && query < hopper_end<S>(p, job)) {
#pragma unroll 1
        for (int box = 0; box < S::boxes; box++) {
            tma_store_5d(&p.o_map, to + (uint32_t)box * S::q_box, box * 64, 0, query, job.head, job.batch, p.keep_o);
        }
        tma_store_commit();
    }
}

/* Whether the copy engine may store all 64 rows of a warpgroup: those behind the tile's last query may be another tile's.
 */
template <class S>
static __device__ __forceinline__ bool hopper_is_whole(const weft_hopper_attention_params &p, const hopper_job &job,
                                                       uint32_t group) {
    return !S::masks || job.row + (((int)group * 64 + 64) >> p.pack_bits) <= job.end || job.end == p.seq;
}

/* Divides by the sums and stores output and LSE of a tile, by its number. */
template <class S>
static __device__ __forceinline__ void hopper_store(hopper_consumer<S> &consumer, const hopper_job &job, uint32_t tile,
                                                    const hopper_rows &rows, const float (&out)[S::depth / 2]) {
    float inverse[2];
    hopper_finish<S>(consumer.p, job, rows, consumer.group, consumer.scale(), inverse);
    if (S::stages_o && hopper_is_whole<S>(consumer.p, job, consumer.group)) {
        consumer.give_back_q();
        hopper_store_staged<S>(consumer.p, job, consumer.group, out, inverse, consumer.q + tile % S::q_slots * S::q_bytes);
        consumer.to_give_back = (int)(tile % S::q_slots);
    } else {
        hopper_store_direct<S>(consumer.p, job, consumer.group, out, inverse);
        if (S::stages_o) {
            consumer.give_back_q();
            __syncwarp();
            consumer.release(consumer.desk.q_empty[tile % S::q_slots]);
        }
    }
}

/* A tile of which the warpgroup sees no key. */
template <class S> static __device__ __forceinline__ void hopper_store_nothing(hopper_consumer<S> &consumer) {
    const hopper_rows rows = {};
    float out[S::depth / 2];
#pragma unroll
    for (int i = 0; i < S::depth / 2; i++) {
        out[i] = 0;
    }
    hopper_store<S>(consumer, consumer.job, consumer.tiles - 1, rows, out);
    if (!S::stages_o) {
        consumer.release_q();
    }
}

#endif
