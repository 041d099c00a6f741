/* SPDX-License-Identifier: Apache-2.0 */
/* What general variants know beside plain ones: which keys each query sees, and what becomes of scores and weights. */
#ifndef WEFT_CUDA_STUDY_GENERAL_CUH
#define WEFT_CUDA_STUDY_GENERAL_CUH

#include "cuda/study/bias.cuh"
#include "cuda/study/feed.cuh"
#include "problem/dropout.h"

/* The run of keys that a query sees. */
struct study_run {
    int begin, end;
};

/* Those of the tile at work, in shared memory. */
template <class S> static __device__ __forceinline__ study_run *study_runs() {
    extern __shared__ __align__(256) unsigned char study_shared[];
    static_assert(sizeof(study_run) == WEFT_STUDY_RUN_BYTES, "there is room for them");
    return (study_run *)(study_shared + S::ring_at + S::ring * S::slot_bytes);
}

/* Works out the runs of a tile; whoever reads them waits for all threads. */
template <class S>
static __device__ __forceinline__ void study_set_runs(const weft_study_params &p, const study_general_job &job) {
    for (int row = (int)threadIdx.x; row < S::tile_m; row += S::threads) {
        weft_rows seen = {0, 0};
        if (row < job.rows) {
            seen = weft_band_seen(&p.walk.reach.band, &job.sequence, job.first_row + row);
        }
        study_runs<S>()[row] = study_run{(int)seen.begin, (int)seen.end};
    }
}

/* What a tile is beside its visit; tile.batch and the sequence's number say where its extras are. */
template <class S>
static __device__ __forceinline__ void study_describe(const weft_study_params &p, const weft_visit &visit,
                                                      study_general_job *job) {
    const weft_study_general &g = p.general;
    const weft_tile &t = visit.tile;
    const int64_t line = t.batch * p.heads + t.head, row = visit.cut.rows.begin;
    const int bytes = g.bias_type == WEFT_BIAS_BOOL ? 1 : g.bias_type == WEFT_BIAS_FP32 ? 4 : 2;
    const float log2e = 1.44269504f;
    job->sequence = weft_sequence_at(&p.walk.reach.sequences, visit.cut.sequence);
    weft_length_tell(&g.pages, &p.walk.reach.sequences, visit.cut.sequence);
    job->needed[0] = (int)weft_band_seen(&p.walk.reach.band, &job->sequence, row).begin;
    job->needed[1] = (int)weft_band_seen(&p.walk.reach.band, &job->sequence,
                                         weft_smaller(visit.cut.rows.end, job->sequence.used_end) - 1)
                         .end;
    job->first_row = (int)row;
    job->rows = (int)(visit.cut.rows.end - row);
    job->line = line;
    job->position = weft_band_position(&p.walk.reach.band, &job->sequence, row) + job->sequence.columns.begin;
    job->slope = g.alibi ? log2e * g.alibi[visit.cut.sequence * g.alibi_stride + t.head] : 0;
    job->sink = g.sinks ? log2e * g.sinks[t.head] : -INFINITY;
    job->bias = g.bias ? (const char *)g.bias + bytes * (t.batch * g.bias_strides.batch + t.head * g.bias_strides.head +
                                                         row * g.bias_strides.seq)
                       : nullptr;
    job->max = g.max ? g.max + line * p.seq + row : nullptr;
}

/* A raw score in base 2, capped. */
template <class S> static __device__ __forceinline__ float study_capped(const weft_study_general &g, float score) {
    if (S::precise) {
        return g.cap * tanhf(0.5f * g.scale * score);
    }
    /* tanh(x) = 1 - 2 / (1 + e^2x), which is as exact as the sum of a softmax can tell */
    return g.cap - 2 * g.cap * reciprocal_flushed(1 + exp2_flushed(1.44269504f * g.scale * score));
}

/* Hides what the bits of a block mask, and a tree mask, hide of a piece that begins with `key`. A word is of 32 keys. Tree
 * masks and most block masks have few such pieces. */
template <class S>
static __device__ __forceinline__ void study_hide_pairs(const weft_study_params &p, const study_general_job &job, int row,
                                                        int key, int32_t bits_at,
                                                        float (&scores)[S::bands][S::piece / 8][4]) {
    static_assert(S::piece % 32 == 0 || S::piece == 16, "a piece is whole words, or in one");
    const int column = (int)(thread_index() % 4 * 2);
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t at = job.first_row + min(row + b * 16 + half * 8, job.rows - 1);
#pragma unroll
            for (int first = 0; first < S::piece; first += 32) {
                const uint32_t word = weft_pairs_word(&p.walk.reach.blocks, &job.sequence, bits_at,
                                                      job.visit.tile.batch * p.seq + at, at, (key + first) / 32 * 32) >>
                                      (key % 32 + column);
#pragma unroll
                for (int n = first / 8; n < first / 8 + 4 && n < S::piece / 8; n++) {
                    scores[b][n][2 * half] = word >> n % 4 * 8 & 1 ? scores[b][n][2 * half] : -INFINITY;
                    scores[b][n][2 * half + 1] = word >> n % 4 * 8 & 2 ? scores[b][n][2 * half + 1] : -INFINITY;
                }
            }
        }
    }
}

/* Makes raw scores what the softmax takes: scaled, in base 2, capped, biased and masked. bits_at: of the piece's block of a
 * block mask, see weft_pairs. */
template <class S>
static __device__ __forceinline__ void study_settle_piece(const weft_study_params &p, const study_general_job &job,
                                                          int piece, int32_t bits_at,
                                                          float (&scores)[S::bands][S::piece / 8][4]) {
    const weft_study_general &g = p.general;
    const uint32_t thread = thread_index();
    const int row = (int)(study_warp_row<S>(thread) + thread % 32 / 4), column = (int)(thread % 4 * 2);
    const int key = piece * S::piece;
    const bool full = piece >= (int)job.visit.full_begin * S::pieces && piece < (int)job.visit.full_end * S::pieces;
    const bool masked = p.mask_every_block || !full;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[b][n][i] = g.cap != 0 ? study_capped<S>(g, scores[b][n][i]) : scores[b][n][i] * g.scale;
            }
        }
    }
    if (g.alibi) {
#pragma unroll
        for (int b = 0; b < S::bands; b++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float away = (float)(job.position + row + b * 16 + half * 8 - key - column);
#pragma unroll
                for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        scores[b][n][2 * half + e] -= job.slope * fabsf(away - (float)(n * 8 + e));
                    }
                }
            }
        }
    }
    if (g.bias) {
        study_add_bias<S>(p, job.bias, row, job.rows, key, scores);
    }
    if (bits_at >= 0 || (masked && p.walk.reach.blocks.pairs.tree)) {
        study_hide_pairs<S>(p, job, row, key, bits_at, scores);
    }
    if (!masked) {
        return;
    }
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const study_run run = study_runs<S>()[row + b * 16 + half * 8];
            const int begin = run.begin - key - column, end = run.end - key - column;
#pragma unroll
            for (int n = 0; n < S::piece / 8; n++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &score = scores[b][n][2 * half + e];
                    score = n * 8 + e >= begin && n * 8 + e < end ? score : -INFINITY;
                }
            }
        }
    }
}

/* The random words of this lane's weights of 8 keys from `key` on, in rows `row` and row + 8. Two lanes have the two halves
 * of four keys that share their words, so each works them out for one of the rows. All lanes of the warp come here. */
static __device__ __forceinline__ void study_random_words(uint32_t (&words)[2][2], uint64_t seed, int64_t line, int row,
                                                          int key) {
    const int lane = (int)(thread_index() % 32), odd = lane % 2;
    const weft_philox w = weft_dropout_words(seed, line, row + 8 * odd, key + lane % 4 / 2 * 4);
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const uint32_t mine = odd ? w.word[2 + e] : w.word[e];
        const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? w.word[e] : w.word[2 + e], 1);
        words[0][e] = odd ? other : mine;
        words[1][e] = odd ? mine : other;
    }
}

/* Drops weights of 16 keys, the k-th of the piece, in the lanes where an mma wants its A operand. */
template <class S>
static __device__ __forceinline__ void study_drop(uint32_t (&weights)[S::bands][4], const weft_study_params &p,
                                                  const study_general_job &job, int piece, int k) {
    const uint32_t limit = p.general.dropout_limit;
    if (limit == 0) {
        return;
    }
    const uint32_t thread = thread_index();
    const int row = job.first_row + (int)(study_warp_row<S>(thread) + thread % 32 / 4);
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int block = 0; block < 2; block++) {
            uint32_t words[2][2];
            study_random_words(words, p.general.dropout_seed, job.line, row + b * 16,
                               piece * S::piece + k * 16 + block * 8);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                weights[b][2 * block + half] &=
                    (words[half][0] < limit ? 0 : 0xffffu) | (words[half][1] < limit ? 0 : 0xffff0000u);
            }
        }
    }
}

#endif
