/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What every order is made of: division without dividing, the tile, and the order itself.
 */
#ifndef WEFT_ORDER_BASE_H
#define WEFT_ORDER_BASE_H

#include <stdint.h>

#if defined(__CUDACC__)
#define WEFT_INLINE static __host__ __device__ __forceinline__
#else
#define WEFT_INLINE static inline
#endif

/** Sets all of a struct to 0, in both languages without a warning. */
#if defined(__cplusplus)
#define WEFT_ZERO                                                                                                          \
    {}
#else
#define WEFT_ZERO                                                                                                          \
    { 0 }
#endif

/** High 64 bits of the 128-bit product. */
WEFT_INLINE uint64_t weft_multiply_high(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#elif defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)a * b >> 64);
#else
    const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t carry = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (carry >> 32);
#endif
}

/** A divisor prepared once, so that dividing by it costs one wide multiplication and a shift. */
typedef struct weft_divisor {
    uint64_t value;
    uint64_t multiplier; /**< 0 for a divisor of 1 */
    uint32_t shift;
} weft_divisor;

/** Prepares a divisor between 1 and 2^62.
 *
 * With 2^(bits-1) < value <= 2^bits and multiplier = floor(2^(63+bits) / value) + 1, the quotient
 * floor(n * multiplier / 2^(63+bits)) is exact for every n < 2^63 (Granlund and Montgomery's bound).
 */
WEFT_INLINE weft_divisor weft_divisor_make(uint64_t value) {
    weft_divisor d;
    d.value = value;
    d.multiplier = 0;
    d.shift = 0;
    if (value <= 1) {
        return d;
    }
    uint32_t bits = 1;
    while ((1ull << bits) < value) {
        bits++;
    }
    /* Long division of 2^(63+bits) by value, a bit at a time: done once, and no 128-bit type needed. */
    uint64_t quotient = 0, remainder = 0;
    for (uint32_t i = 0; i <= 63 + bits; i++) {
        remainder = remainder * 2 + (i == 0);
        quotient = quotient * 2 + (remainder >= value);
        remainder -= remainder >= value ? value : 0;
    }
    d.multiplier = quotient + 1;
    d.shift = bits - 1;
    return d;
}

/** floor(n / d) for 0 <= n < 2^63. */
WEFT_INLINE int64_t weft_divide(int64_t n, const weft_divisor *d) {
    if (d->multiplier == 0) {
        return n;
    }
    return (int64_t)(weft_multiply_high((uint64_t)n, d->multiplier) >> d->shift);
}

/** The same for n below 2^32, which takes a GPU half as many multiplications. */
WEFT_INLINE uint32_t weft_divide_short(uint32_t n, const weft_divisor *d) {
    if (d->multiplier == 0) {
        return n;
    }
    const uint64_t low = (uint64_t)n * (uint32_t)d->multiplier >> 32, high = (uint64_t)n * (uint32_t)(d->multiplier >> 32);
    return (uint32_t)((low + high) >> 32 >> d->shift);
}

/** Replaces *n by n mod d and returns floor(n / d). */
WEFT_INLINE int64_t weft_divide_off(int64_t *n, const weft_divisor *d) {
    const int64_t quotient = weft_divide(*n, d);
    *n -= quotient * (int64_t)d->value;
    return quotient;
}

/** ceil(a / b) for a >= 0, b >= 1, without overflow. */
WEFT_INLINE int64_t weft_ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/** One tile of the grid. A GEMM calls its coordinates m and n; attention calls them head and (query) block. */
typedef struct weft_tile {
    int64_t batch;
    union {
        int64_t row;
        int64_t m;
        int64_t head;
    };
    union {
        int64_t col;
        int64_t n;
        int64_t block;
    };
} weft_tile;

WEFT_INLINE weft_tile weft_tile_at(int64_t batch, int64_t row, int64_t col) {
    weft_tile t;
    t.batch = batch;
    t.row = row;
    t.col = col;
    return t;
}

/** The tiles to visit: batch x rows x cols, where rows x cols is tiles_m x tiles_n or heads x query blocks. */
typedef struct weft_grid {
    int64_t batch, rows, cols;
} weft_grid;

/** Which axis the bands of `group` and `serpentine` are cut across. */
typedef enum weft_axis {
    WEFT_AXIS_CHOOSE = 0,
    WEFT_AXIS_N = 1, /**< bands of g columns, walked down m (the default) */
    WEFT_AXIS_M = 2  /**< bands of g rows, walked along n */
} weft_axis;

/** What the rows and columns of a grid are. */
typedef enum weft_grid_kind {
    WEFT_GRID_MATRIX = 0, /**< tiles of a matrix: rows are m, columns are n */
    WEFT_GRID_HEADS = 1,  /**< rows are heads, columns are blocks of queries, or of keys in a backward pass */
    WEFT_GRID_ANY = 2     /**< of an order that applies to either */
} weft_grid_kind;

/** What an order takes: a set of bits. */
typedef enum weft_parameter {
    WEFT_PARAMETER_NONE = 0,
    WEFT_PARAMETER_GROUP = 1,
    WEFT_PARAMETER_DOMAINS = 2,
    WEFT_PARAMETER_BOTH = 3
} weft_parameter;

/** An order, ready to be asked: a plain value that can be passed to a kernel. Filled by weft_order_init(). */
typedef struct weft_order {
    int32_t kind;          /**< a weft_order_kind */
    int32_t axis;          /**< a weft_axis */
    weft_grid grid;        /**< the tiles */
    int64_t count;         /**< positions: batch * rows * cols */
    int64_t group;         /**< lines in a band, at most the axis' length */
    int64_t domains;       /**< positions go to domain position mod domains */
    int64_t bands;         /**< bands across the axis, or a domain's share of it, the last one perhaps narrower */
    weft_divisor by_batch; /**< rows * cols, the tiles of one batch */
    weft_divisor by_rows, by_cols, by_domains;
    weft_divisor by_band;       /**< tiles in a full band */
    weft_divisor by_group;      /**< lines in a full band */
    weft_divisor by_last_group; /**< lines in the last band */
    const uint32_t *table;      /**< position to tile index, or null to compute (see weft_order_fill_table) */
} weft_order;

/** A tile's index when the grid is laid out row by row; the inverse of weft_tile_of_index(). */
WEFT_INLINE int64_t weft_tile_index(const weft_order *order, weft_tile tile) {
    return (tile.batch * order->grid.rows + tile.row) * order->grid.cols + tile.col;
}

WEFT_INLINE weft_tile weft_tile_of_index(const weft_order *order, int64_t index) {
    const int64_t line = weft_divide_off(&index, &order->by_cols);
    int64_t row = line;
    const int64_t batch = weft_divide_off(&row, &order->by_rows);
    return weft_tile_at(batch, row, index);
}

#endif
