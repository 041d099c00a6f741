/* SPDX-License-Identifier: Apache-2.0 */
/* Appends keys to a cache and rotates: see append.h. */
#ifndef WEFT_CUDA_STUDY_APPEND_CUH
#define WEFT_CUDA_STUDY_APPEND_CUH

#include "cuda/ptx/math.cuh"
#include "cuda/study/append.h"

/* Where a row comes from and goes to, and by which row of cos and sin it is rotated. */
struct study_move {
    int64_t batch, row, to_batch, to_row, position; /* to_batch: or page; below 0: it goes nowhere */
};

/* The position of a sequence's new key `i`, or query, held to what cos and sin have. */
static __device__ __forceinline__ int64_t study_position(const weft_study_append &p, int64_t sequence, int64_t i) {
    const int64_t begin = weft_sequence_added(&p.sequences, sequence).begin - weft_sequence_origin(&p.sequences, sequence);
    return weft_between((p.positions ? p.positions[sequence] : begin) + i, 0, p.rotary_rows - 1);
}

static __device__ __forceinline__ study_move study_move_key(const weft_study_append &p, int64_t token) {
    const weft_sequences *all = &p.sequences;
    const study_move nowhere = {0, 0, -1, 0, 0};
    int64_t sequence, i;
    study_move m;
    if (all->packed) {
        const int32_t *starts = all->new_starts ? all->new_starts : all->lengths.q_starts;
        sequence = weft_sequence_search(starts, all->count, token, nullptr, 0);
        i = token - starts[sequence];
        m.batch = 0;
        m.row = token;
        if (i < 0 || token >= starts[sequence + 1]) {
            return nowhere;
        }
    } else {
        i = token;
        sequence = m.batch = weft_divide_off(&i, &p.by_new);
        m.row = i;
    }
    const weft_rows columns = weft_sequence_added(all, sequence);
    if (i >= columns.end - columns.begin) { /* there is no room */
        return nowhere;
    }
    const weft_page_row at = weft_page_of(&p.pages, m.batch, columns.begin + i);
    if (at.page < 0) {
        weft_page_tell(&p.pages, m.batch, columns.begin + i);
    }
    m.to_batch = at.page;
    m.to_row = at.row;
    m.position = study_position(p, sequence, i);
    return m;
}

static __device__ __forceinline__ study_move study_move_query(const weft_study_append &p, int64_t token) {
    const weft_sequences *all = &p.sequences;
    int64_t sequence, i = token;
    study_move m;
    if (all->packed) {
        sequence =
            weft_sequence_of_row(all, token); /* behind the last: as if it had more, so that no row is left as it was */
        m.batch = 0;
        m.row = token;
        i = token - all->lengths.q_starts[sequence];
    } else {
        sequence = m.batch = weft_divide_off(&i, &p.by_queries);
        m.row = i;
    }
    m.to_batch = m.batch;
    m.to_row = m.row;
    m.position = study_position(p, sequence, p.by_position ? i : 0);
    return m;
}

/* N neighbouring elements. */
template <int N> struct alignas(2 * N) study_elements { uint16_t of[N]; };

template <int N> static __device__ __forceinline__ study_elements<N> study_read(const void *from, int64_t element) {
    return *(const study_elements<N> *)((const uint16_t *)from + element);
}

/* Rotates N pairs, of which x has the first N elements and the others, or, interleaved, pair by pair. */
template <bool BF16, int N>
static __device__ __forceinline__ void study_rotate(study_elements<N> (&x)[2], const study_elements<N> &cosines,
                                                    const study_elements<N> &sines, bool interleaved) {
    uint16_t y[2 * N];
#pragma unroll
    for (int e = 0; e < N; e++) {
        const uint16_t x0 = interleaved ? x[2 * e / N].of[2 * e % N] : x[0].of[e];
        const uint16_t x1 = interleaved ? x[(2 * e + 1) / N].of[(2 * e + 1) % N] : x[1].of[e];
        const float a = half_to_float<BF16>(x0), b = half_to_float<BF16>(x1);
        const float c = half_to_float<BF16>(cosines.of[e]), s = half_to_float<BF16>(sines.of[e]);
        const uint32_t both = pack_halves<BF16>(a * c - b * s, a * s + b * c);
        y[e] = (uint16_t)both;
        y[N + e] = (uint16_t)(both >> 16);
    }
#pragma unroll
    for (int e = 0; e < 2 * N; e++) {
        x[e / N].of[e % N] = interleaved ? y[e % 2 * N + e / 2] : y[e];
    }
}

template <bool BF16, int N>
static __device__ __forceinline__ void study_move_chunk(const weft_study_append &p, int which, int64_t item) {
    const weft_study_moved &moved = p.moved[which];
    int64_t chunk = item, head = weft_divide_off(&chunk, &moved.by_chunks);
    const int64_t token = weft_divide_off(&head, &moved.by_heads), pairs = moved.rotary_dim / (2 * N);
    const study_move m = which == WEFT_STUDY_Q ? study_move_query(p, token) : study_move_key(p, token);
    if (m.to_batch < 0) {
        return;
    }
    const weft_strides &f = moved.from_strides, &t = moved.to_strides;
    const uint16_t *from = (const uint16_t *)moved.from + (m.batch * f.batch + m.row * f.seq + head * f.head);
    uint16_t *to = (uint16_t *)moved.to + (m.to_batch * t.batch + m.to_row * t.seq + head * t.head);
    if (chunk >= pairs) {
        const int64_t at = moved.rotary_dim + (chunk - pairs) * N;
        *(study_elements<N> *)(to + at) = study_read<N>(from, at);
        return;
    }
    const int64_t half = moved.rotary_dim / 2, angle = m.position * half + chunk * N;
    const int64_t first = p.interleaved ? 2 * N * chunk : N * chunk, second = first + (p.interleaved ? N : half);
    study_elements<N> x[2] = {study_read<N>(from, first), study_read<N>(from, second)};
    study_rotate<BF16, N>(x, study_read<N>(p.cos, angle), study_read<N>(p.sin, angle), p.interleaved != 0);
    *(study_elements<N> *)(to + first) = x[0];
    *(study_elements<N> *)(to + second) = x[1];
}

template <bool BF16, int N> static __device__ __forceinline__ void study_append(const weft_study_append &p) {
    const int64_t threads = (int64_t)gridDim.x * WEFT_STUDY_APPEND_THREADS;
#pragma unroll
    for (int which = 0; which < WEFT_STUDY_MOVES; which++) {
        for (int64_t i = (int64_t)blockIdx.x * WEFT_STUDY_APPEND_THREADS + threadIdx.x; i < p.moved[which].items;
             i += threads) {
            study_move_chunk<BF16, N>(p, which, i);
        }
    }
}

#endif
