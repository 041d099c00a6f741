/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of 64 queries whose keys are shared out, step by step, among the CTAs of a cluster and the warpgroups of each. For
 * few queries, and for fewer tiles than there are SMs.
 *
 * Each warpgroup goes through its steps as if there were no others. Then each owns every so-many-th 8 columns of the
 * output: it gets the others' sums of those by way of its CTA's shared memory, where queries, K and V are not needed any
 * more, puts them together, always in the same order, and stores them. So nothing but shared memory is needed, and the
 * result does not depend on who is first. */
#ifndef WEFT_CUDA_SM90_ATTENTION_PARTS_CUH
#define WEFT_CUDA_SM90_ATTENTION_PARTS_CUH

#include "cuda/sm90/attention/store.cuh"

/* A warpgroup's steps: every so-many-th of the tile's, so that all read what lies together at about the same time. The last
 * query of the tile sees all steps. */
template <class S>
static __device__ __forceinline__ hopper_share hopper_part_of(const weft_hopper_attention_params &p, const hopper_job &job,
                                                              uint32_t group) {
    const int end = min(job.row + (64 >> p.pack_bits), p.seq);
    const int least = min(job.row + 1 + p.offset, p.kv_seq), most = min(end + p.offset, p.kv_seq);
    hopper_share share = {};
    const int ctas = (int)cluster_size();
    share.own = max(job.steps - (int)group + S::groups - 1, 0) / S::groups; /* of its CTA's */
    share.unmasked = least > 0 ? (int)((uint32_t)least / S::keys) : 0;
    share.first = (int)cluster_rank() + (int)group * ctas;
    share.stride = S::groups * ctas;
    const int others = (share.first + (share.own - 1) * share.stride) * S::keys; /* keys before its last step */
    share.part = S::part > 0 && share.own > 1 && most - others <= S::part;
    share.whole = share.own - share.part;
    if (share.part && least - others >= S::part) {
        share.unmasked = INT32_MAX; /* it ends where the keys do */
    }
    return share;
}

/* Where what was sent lies in a CTA's shared memory: for each warpgroup of it, from every part, 16 bytes of each thread for
 * each eight columns that it owns; and from every part the shifts and sums of the 64 rows. A part is a warpgroup of the
 * cluster. */
template <class S> struct hopper_mail {
    uint32_t parts, columns; /* in eights: that a warpgroup owns, at most */
    uint32_t me, base;

    __device__ __forceinline__ hopper_mail(uint32_t address, uint32_t group) {
        constexpr uint32_t eights = S::depth / 8, most = S::groups * WEFT_HOPPER_MAX_SPLIT;
        static_assert(S::groups * (eights + most - 1) * 2048 + most * 512 <= S::v_at + S::stages * S::kv_bytes,
                      "there is room");
        parts = S::groups * cluster_size();
        columns = (eights + parts - 1) / parts;
        me = S::groups * cluster_rank() + group;
        base = address;
    }

    /* For the warpgroup `to` of the CTA. */
    __device__ __forceinline__ uint32_t values(uint32_t to, uint32_t from, uint32_t column) const {
        return base + ((to * parts + from) * columns + column) * 2048 + thread_index() % 128 * 16;
    }

    /* Of the thread's row r, or r + 8. */
    __device__ __forceinline__ uint32_t row(uint32_t from, int half) const {
        const uint32_t thread = thread_index() % 128;
        return base + S::groups * parts * columns * 2048 + from * 512 +
               (thread / 32 * 16 + (uint32_t)half * 8 + thread % 32 / 4) * 8;
    }
};

/* Sends everybody their columns, and all rows' shifts, in base 2, and sums. */
template <class S>
static __device__ __forceinline__ void hopper_send(const hopper_mail<S> &mail, const float (&out)[S::depth / 2],
                                                   const float (&shift)[2], const float (&sum)[2]) {
    uint32_t to = 0, column = 0;
#pragma unroll
    for (int i = 0; i < S::depth / 8; i++) {
        cluster_store(cluster_address(mail.values(to % S::groups, mail.me, column), to / S::groups),
                      {out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]});
        if (++to == mail.parts) {
            to = 0;
            column++;
        }
    }
    if (thread_index() % 4 == 0) {
        for (uint32_t cta = 0; cta < mail.parts / S::groups; cta++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                cluster_store(cluster_address(mail.row(mail.me, half), cta), {shift[half], sum[half]});
            }
        }
    }
}

/* The shift and sum of a row over all keys. */
template <class S>
static __device__ __forceinline__ void hopper_whole_row(const hopper_mail<S> &mail, int half, float &shift, float &sum) {
    float got[2];
    shift = HOPPER_NO_SHIFT;
    sum = 0;
    for (uint32_t from = 0; from < mail.parts; from++) {
        shared_load(mail.row(from, half), got);
        const float larger = fmaxf(shift, got[0]);
        sum = sum * exp2_flushed(shift - larger) + got[1] * exp2_flushed(got[0] - larger);
        shift = larger;
    }
}

/* Puts together what arrived, and stores output and LSE. */
template <class S>
static __device__ __forceinline__ void hopper_store_parts(const weft_hopper_attention_params &p, const hopper_job &job,
                                                          uint32_t group, const hopper_mail<S> &mail) {
    const hopper_place at[2] = {{p, job, 0, 0}, {p, job, 0, 1}};
    float shift[2], sum[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        hopper_whole_row(mail, half, shift[half], sum[half]);
        if (p.sinks && at[half].query < hopper_end<S>(p, job)) {
            float grown; /* the others' sums are multiplied by what the new shift says */
            hopper_sink(p.sinks[at[half].head] * 1.442695041f, shift[half], sum[half], grown);
        }
        if (p.lse && mail.me == 0 && thread_index() % 4 == 0) {
            hopper_store_lse<S>(p, job, at[half], shift[half], sum[half]);
        }
    }
    for (uint32_t column = 0; column < mail.columns; column++) {
        const int first = (int)(column * mail.parts + mail.me) * 8; /* of eight */
        float values[4] = {0, 0, 0, 0};
        if (first >= p.head_dim) {
            break;
        }
        for (uint32_t from = 0; from < mail.parts; from++) {
            float got[4], row[2];
            shared_load(mail.values(group, from, column), got);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                shared_load(mail.row(from, half), row);
                const float factor = exp2_flushed(row[0] - shift[half]);
                values[2 * half] += got[2 * half] * factor;
                values[2 * half + 1] += got[2 * half + 1] * factor;
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float inverse = sum[half] == 0 ? 0 : reciprocal_flushed(sum[half]);
            if (at[half].query < hopper_end<S>(p, job)) {
                char *to = (char *)p.o + 2 * (job.batch * p.o_strides.batch + at[half].head * p.o_strides.head +
                                              at[half].query * p.o_strides.seq + first + (int)thread_index() % 4 * 2);
                *(uint32_t *)to = pack_halves<S::bf16>(values[2 * half] * inverse, values[2 * half + 1] * inverse);
            }
        }
    }
}

/* A consumer warpgroup's way through its part of the one tile. */
template <class S>
static __device__ __forceinline__ void hopper_consume_part(const weft_hopper_attention_params &p, hopper_desk<S> &desk,
                                                           uint32_t base, uint32_t group) {
    hopper_consumer<S> consumer(p, desk, base, group);
    float out[S::depth / 2];
    uint32_t weights[S::keys / 4];
    hopper_rows rows = {};
#pragma unroll
    for (int i = 0; i < S::depth / 2; i++) {
        out[i] = 0;
    }
    consumer.next_tile();
    const hopper_share share = hopper_part_of<S>(p, consumer.job, group);
    if (share.own > 0) {
        consumer.begin(weights, rows, share);
        consumer.sweep(out, weights, rows, share);
        consumer.close(out, weights, share.own > 1, share.part);
    }
    float shift[2], sum[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        sum[half] = hopper_sum_of_row(rows.sum[half]);
        shift[half] = sum[half] == 0 ? HOPPER_NO_SHIFT : hopper_in_base_2<S>(rows.shift[half], p.scale_log2);
    }
    const hopper_mail<S> mail(base, group);
    cluster_meet(false); /* everybody's shared memory is free */
    hopper_send<S>(mail, out, shift, sum);
    cluster_meet(true); /* everything has arrived */
    hopper_store_parts<S>(p, consumer.job, group, mail);
}

#endif
