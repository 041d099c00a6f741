/* SPDX-License-Identifier: Apache-2.0 */
/* bf16, 32 x 32, in tile registers: 4 of sums, 2 of A, 2 of B, each 16 rows of 64 bytes. */
#include <string.h>

#include "cpu/kernel/kernel.h"
#include "cpu/x86/narrow.h"
#include "cpu/x86/transpose.h"
#include "cpu/x86/vector__avx512.h"

/* What the processor is told about its tile registers. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Constant, because compilers may think that only its first bytes are read. */
static const tile_config whole_tiles = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void start(void) {
    _tile_loadconfig(&whole_tiles);
}

static void stop(void) {
    _tile_release();
}

/* Loading a tile that is not in the L1 takes several times as long as multiplying it, and no hardware prefetcher helps. So
 * A is prefetched some steps ahead, also beyond its end, since panels follow each other. LINE, STEP: bytes of a cache line,
 * of packed A or B in a step. */
enum { LINE = 64, STEP = 2048 };

static inline __attribute__((always_inline)) void prefetch_lines(const char *from, int64_t row, int lines) {
    for (int i = 0; i < lines; i++) {
        _mm_prefetch(from + i * row, _MM_HINT_T0);
    }
}

/* A is 32 lines, `row` bytes apart, of which a step takes 32 values; the next step's are `next` bytes on and are prefetched
 * `ahead` steps before. B is 16 pairs of rows of 32 columns a step. `prefetches_c`: the next block of C is prefetched, too.
 * The tile's number must be a literal. */
static inline __attribute__((always_inline)) void multiply_from(int64_t k, const char *a, int64_t row, int64_t next,
                                                                int ahead, int prefetches_c, const char *b, float *c,
                                                                int add) {
    const char *next_c = (const char *)(c + 32 * 32);
    enum { ROW = 32 * sizeof(float) }; /* bytes between rows of c */
    if (add) {
        _tile_loadd(0, c, ROW);
        _tile_loadd(1, c + 16, ROW);
        _tile_loadd(2, c + 16 * 32, ROW);
        _tile_loadd(3, c + 16 * 32 + 16, ROW);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; k > 0; k -= 32, a += next, b += STEP) {
        _tile_loadd(4, a, row);
        _tile_loadd(6, b, 2 * LINE);
        _tile_dpbf16ps(0, 4, 6);
        prefetch_lines(a + ahead * next, row, 16);
        _tile_loadd(7, b + LINE, 2 * LINE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + 16 * row, row);
        _tile_dpbf16ps(2, 5, 6);
        prefetch_lines(a + ahead * next + 16 * row, row, 16);
        _tile_dpbf16ps(3, 5, 7);
        if (prefetches_c) {
            prefetch_lines(next_c, LINE, 8);
            next_c += 8 * LINE;
        }
    }
    _tile_stored(0, c, ROW);
    _tile_stored(1, c + 16, ROW);
    _tile_stored(2, c + 16 * 32, ROW);
    _tile_stored(3, c + 16 * 32 + 16, ROW);
}

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    multiply_from(k, a, LINE, STEP, 2, 1, b, c, add);
}

static void multiply_unpacked(int64_t k, const void *a, int64_t step, const void *b, float *c, int add) {
    multiply_from(k, a, step, LINE, 4, 0, b, c, add);
}

static void narrow(int64_t k, const float *c, void *to) {
    narrow_pairs(k, 32, c, to);
}

#define NAME              bf16_32x32__amx
#define PACKED            uint16_t
#define AS                WEFT_BF16
#define A_LINES           32
#define A_INTERLEAVE      32
#define B_LINES           32
#define B_INTERLEAVE      2
#define DEPTH             32
#define SQUARE            8
#define TRANSPOSE         transpose_halves
#define PAIR              pair_rows
#define TRANSPOSE_PAIRS   transpose_pairs
#define NARROW_RUN        narrow_run
#define PANEL             panel_32_short__avx512
#define DECODE            decode__amx
#define RESULTS           rows__avx512
#define FETCH             60
#define FETCH_ACROSS      60
#define MULTIPLY_UNPACKED multiply_unpacked
#define NARROW            narrow
#define START             start
#define STOP              stop
#include "cpu/kernel/block.inc"
