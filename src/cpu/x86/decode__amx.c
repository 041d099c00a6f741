/* SPDX-License-Identifier: Apache-2.0 */
/* Decode in bf16: up to sixteen queries against a long cache of keys and values. Unpacked keys are the rows of a tile
 * register; values are paired as they are read. */
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/x86/narrow.h"
#include "cpu/x86/transpose.h"
#include "cpu/x86/vector__avx512.h"

extern const weft_cpu_decode weft_cpu_decode__avx512;

/* ROWS: queries, rows of a tile register. STEP: dims of a step of scores, or keys of a step of sums. BLOCK: keys whose
 * values are read once for every 64 dims and stay in the L1 meanwhile. */
enum { ROWS = 16, STEP = 32, BLOCK = 64, LINE = 64 };

/* Whether tile registers multiply: of other heads, vectors do. */
static int by_tiles(int rows, int64_t dim) {
    return rows > WEFT_CPU_DECODE_ROWS && dim % 64 == 0;
}

/* Whether they add values, too. Vectors have as many sums in registers for four rows, and wait less. */
static int adds_by_tiles(int rows, int64_t dim) {
    return by_tiles(rows, dim) && rows > 4;
}

/* Queries (rows, dim) as right operands: for each STEP of dims, pairs of dims x queries. */
static void pack_queries(int rows, int64_t dim, const float *q, uint16_t *to) {
    memset(to, 0, (size_t)(dim * ROWS) * sizeof *to);
    for (int r = 0; r < rows; r++) {
        for (int64_t d = 0; d < dim; d += 16) {
            uint16_t narrow[16]; /* exact: queries were bf16 */
            narrow_run(q + r * dim + d, 16, narrow);
            for (int64_t i = 0; i < 16; i++) {
                to[(d + i) / 2 * 2 * ROWS + 2 * r + i % 2] = narrow[i];
            }
        }
    }
}

/* Scores of sixteen keys. */
static inline __attribute__((always_inline)) void dot_keys(int64_t dim, const uint16_t *q, const char *k, int64_t step,
                                                           float *block) {
    _tile_zero(0);
    for (int64_t d = 0; d < dim; d += STEP) {
        _tile_loadd(4, k + 2 * d, step);
        _tile_loadd(6, q + d * ROWS, LINE);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, block, LINE);
}

/* Scores of 64 keys: four sums that do not wait for each other. */
static inline __attribute__((always_inline)) void dot_many_keys(int64_t dim, const uint16_t *q, const char *k, int64_t step,
                                                                float *block, weft_cpu_ahead *ahead) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t d = 0; d < dim; d += STEP) {
        const char *at = k + 2 * d;
        _tile_loadd(6, q + d * ROWS, LINE);
        weft_cpu_fetch(ahead, ROWS * LINE);
        _tile_loadd(4, at, step);
        _tile_dpbf16ps(0, 4, 6);
        weft_cpu_fetch(ahead, ROWS * LINE);
        _tile_loadd(5, at + ROWS * step, step);
        _tile_dpbf16ps(1, 5, 6);
        weft_cpu_fetch(ahead, ROWS * LINE);
        _tile_loadd(4, at + 2 * ROWS * step, step);
        _tile_dpbf16ps(2, 4, 6);
        weft_cpu_fetch(ahead, ROWS * LINE);
        _tile_loadd(5, at + 3 * ROWS * step, step);
        _tile_dpbf16ps(3, 5, 6);
    }
    _tile_stored(0, block, LINE);
    _tile_stored(1, block + ROWS * ROWS, LINE);
    _tile_stored(2, block + 2 * ROWS * ROWS, LINE);
    _tile_stored(3, block + 3 * ROWS * ROWS, LINE);
}

/* Sixteen keys' scores (keys, queries) to rows of queries. */
static inline void put_scores(int rows, const float *block, float *scores, int64_t pitch) {
    for (int r = 0; r < rows; r += 4) {
        for (int i = 0; i < ROWS; i += 4) {
            transpose_floats((const char *)(block + i * ROWS + r), LINE, scores + r * pitch + i, pitch);
        }
    }
}

/* Behind the rows of q. */
static void prepare(int rows, int64_t dim, float *q) {
    _Static_assert(WEFT_CPU_DECODE_FORM_ROWS * sizeof(float) >= ROWS * sizeof(uint16_t), "there is room");
    if (by_tiles(rows, dim)) {
        pack_queries(rows, dim, q, (uint16_t *)(void *)(q + WEFT_CPU_DECODE_MOST_ROWS * dim));
    }
}

/* Few rows, or few keys. */
static void dots_by_vectors(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *q, const char *k,
                            int64_t step, float *scores, int64_t pitch, weft_cpu_ahead *ahead) {
    for (int r = 0; r < rows; r += 8) {
        weft_cpu_decode__avx512.dots(dtype, (int)weft_cpu_min(8, rows - r), keys, dim, q + r * dim, k, step,
                                     scores + r * pitch, pitch, ahead);
    }
}

static void dots(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *q, const char *k, int64_t step,
                 float *scores, int64_t pitch, weft_cpu_ahead *ahead) {
    const uint16_t *packed = (const uint16_t *)(const void *)(q + WEFT_CPU_DECODE_MOST_ROWS * dim);
    float block[4 * ROWS * ROWS];
    if (!by_tiles(rows, dim) || keys < ROWS) {
        dots_by_vectors(dtype, rows, keys, dim, q, k, step, scores, pitch, ahead);
        return;
    }
    int64_t key = 0;
    for (; key + 4 * ROWS <= keys; key += 4 * ROWS) {
        dot_many_keys(dim, packed, k + key * step, step, block, ahead);
        for (int i = 0; i < 4; i++) {
            put_scores(rows, block + i * ROWS * ROWS, scores + key + i * ROWS, pitch);
        }
    }
    for (; key < keys; key += ROWS) {
        const int64_t first = key + ROWS <= keys ? key : keys - ROWS; /* the last sixteen overlap */
        weft_cpu_fetch(ahead, ROWS * 2 * dim);
        dot_keys(dim, packed, k + first * step, step, block);
        put_scores(rows, block, scores + first, pitch);
    }
}

/* Pairs of the rows of `keys` keys, a multiple of STEP, for dims 0 .. 63. */
static inline __attribute__((always_inline)) void pair_values(int64_t keys, const char *v, int64_t step, uint16_t *to,
                                                              weft_cpu_ahead *ahead) {
    for (int64_t key = 0; key < keys; key += 2, to += 2 * 64) {
        weft_cpu_fetch(ahead, 2 * 64);
        pair_rows(v + key * step, step, 64, to);
    }
}

/* Adds the values of `keys` keys to 64 dims of out, which are 4 tile registers. */
static inline __attribute__((always_inline)) void add_values(int64_t keys, const uint16_t *weights, const char *v,
                                                             int64_t step, float *out, int64_t out_step,
                                                             weft_cpu_ahead *ahead) {
    uint16_t paired[BLOCK * 64];
    pair_values(keys, v, step, paired, ahead);
    _tile_loadd(0, out, out_step);
    _tile_loadd(1, out + 16, out_step);
    _tile_loadd(2, out + 32, out_step);
    _tile_loadd(3, out + 48, out_step);
    for (int64_t key = 0; key < keys; key += STEP) {
        const uint16_t *at = paired + key * 64;
        _tile_loadd(4, weights + key * ROWS, LINE);
        weft_cpu_fetch(ahead, STEP * 64 / 4);
        _tile_loadd(5, at, 4 * LINE);
        _tile_dpbf16ps(0, 4, 5);
        weft_cpu_fetch(ahead, STEP * 64 / 4);
        _tile_loadd(6, at + 32, 4 * LINE);
        _tile_dpbf16ps(1, 4, 6);
        weft_cpu_fetch(ahead, STEP * 64 / 4);
        _tile_loadd(5, at + 64, 4 * LINE);
        _tile_dpbf16ps(2, 4, 5);
        weft_cpu_fetch(ahead, STEP * 64 / 4);
        _tile_loadd(6, at + 96, 4 * LINE);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, out, out_step);
    _tile_stored(1, out + 16, out_step);
    _tile_stored(2, out + 32, out_step);
    _tile_stored(3, out + 48, out_step);
}

static void sums(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *weights, int64_t pitch, const char *v,
                 int64_t step, float *out, weft_cpu_ahead *ahead) {
    const int64_t whole = adds_by_tiles(rows, dim) ? keys / STEP * STEP : 0;
    uint16_t narrow[BLOCK * ROWS]; /* for each STEP of keys, queries x keys */
    memset(narrow, 0, sizeof narrow);
    for (int64_t key = 0; key < whole; key += BLOCK) {
        const int64_t count = weft_cpu_min(BLOCK, whole - key);
        for (int r = 0; r < rows; r++) {
            for (int64_t i = 0; i < count; i += STEP) {
                narrow_run(weights + r * pitch + key + i, STEP, narrow + i * ROWS + r * STEP);
            }
        }
        for (int64_t d = 0; d < dim; d += 64) {
            add_values(count, narrow, v + key * step + 2 * d, step, out + d, dim * (int64_t)sizeof *out, ahead);
        }
    }
    for (int r = 0; r < rows && whole < keys; r += 8) {
        weft_cpu_decode__avx512.sums(dtype, (int)weft_cpu_min(8, rows - r), keys - whole, dim, weights + r * pitch + whole,
                                     pitch, v + whole * step, step, out + r * dim, ahead);
    }
}

static float softmax(int64_t keys, float *scores, float factor, float *max, float *sum) {
    return weft_cpu_decode__avx512.softmax(keys, scores, factor, max, sum);
}

static int takes(int64_t rows, int64_t dim) {
    return weft_cpu_decode__avx512.takes(rows, dim) || (rows <= ROWS && by_tiles((int)rows, dim));
}

const weft_cpu_decode weft_cpu_decode__amx = {takes, BLOCK, prepare, dots, sums, softmax};
