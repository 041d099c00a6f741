/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is, and which one is taken.
 *
 * All products are made of blocks: a few rows of A times a few columns of B, the sums in registers. Both operands are
 * packed first, into panels that the block reads from front to back. Attention is computed transposed, scores as keys x
 * queries and output as dims x queries: then softmax runs across queries in every lane, and the weights are the next
 * product's operand as they stand.
 */
#ifndef WEFT_CPU_KERNEL_KERNEL_H
#define WEFT_CPU_KERNEL_KERNEL_H

#include <weft/weft.h>

#include "cpu/sizes.h"

/* The symbol of a kernel or of a part of one, and its name as text. */
#define WEFT_CPU_SYMBOL(name)  WEFT_CPU_PREFIX(name)
#define WEFT_CPU_PREFIX(name)  weft_cpu_##name
#define WEFT_CPU_TEXT(name)    WEFT_CPU_LITERAL(name)
#define WEFT_CPU_LITERAL(name) #name

/* How a kernel takes an operand: panels of `lines` rows of A or columns of B. Value k of a line is at
 * ((k / interleave) * lines + line) * interleave + k % interleave. Lines and values that are missing are 0. */
typedef struct weft_cpu_operand {
    int lines, interleave;
} weft_cpu_operand;

/* Where a panel comes from: element (line, k) is at index + line * line_stride + k * k_stride of data. */
typedef struct weft_cpu_source {
    weft_dtype dtype;
    const void *data;
    size_t index;
    int64_t line_stride, k_stride;
    int64_t lines, k; /* how many there are */
} weft_cpu_source;

/* The keys of a panel that each query sees: begin[j] .. end[j] - 1. */
typedef struct weft_cpu_seen {
    int32_t *begin, *end;
} weft_cpu_seen;

/* The most columns and rows that a block of any kernel has, and the most depth. */
enum { WEFT_CPU_MOST_COLUMNS = 64, WEFT_CPU_MOST_LINES = 32, WEFT_CPU_MOST_DEPTH = 32 };

/* What products become before they are weights: score = scale product, then cap tanh(score / cap) where there is a cap,
 * then less by alibi |position - key| where there are positions. Keys count from the panel's first. */
typedef struct weft_cpu_change {
    float scale, cap, alibi;
    const float *positions; /* (columns), or null */
} weft_cpu_change;

/* What is done to a panel of scores: `keys` rows of one float for each of the block's columns, which are queries. */
typedef struct weft_cpu_panel {
    /* Scores become weights 2^(factor score - max), with max[] the largest factor score so far; sum[] grows by the weights,
     * and rescale[] becomes what the sum and output so far were multiplied by: returns 0 when that is 1 everywhere.
     * seen says which of the keys each query sees; null: all. Relative error of a weight below 2^-21, or 2^-17 where
     * weights are rounded to bf16 next; below 2^-126 a weight is 0. */
    int (*softmax)(int64_t keys, float *scores, float factor, const weft_cpu_seen *seen, float *max, float *sum,
                   float *rescale);

    /* c (rows, columns) *= factors (columns) */
    void (*scale)(int64_t rows, float *c, const float *factors);

    /* Backward: scores become weights 2^(factor score - lse2), and grads, which hold the gradients of the weights, become
     * weight * (grad - delta), the gradients of the scores. */
    void (*differentiate)(int64_t keys, float *scores, float *grads, float factor, const weft_cpu_seen *seen,
                          const float *lse2, const float *delta);

    /* Products become scores; slopes (keys, columns), if not null, become what the cap multiplies gradients by: 1 - tanh^2.
     */
    void (*change)(int64_t keys, float *scores, const weft_cpu_change *change, float *slopes);
} weft_cpu_panel;

/* Decode: queries that every kernel multiplies with unpacked keys, and the most that any does; and rows of room behind
 * these for a form of a kernel's own. */
enum { WEFT_CPU_DECODE_ROWS = 2, WEFT_CPU_DECODE_MOST_ROWS = 16, WEFT_CPU_DECODE_FORM_ROWS = 8 };

/* Memory that is read next, to be prefetched meanwhile: `rows` rows of `bytes` bytes, `step` apart. */
typedef struct weft_cpu_ahead {
    const char *at;
    int64_t rows, step, bytes;
    int64_t fetched; /* of the row at `at` */
} weft_cpu_ahead;

/* Prefetches the next so many bytes, a line at a time, into the L2. */
static inline void weft_cpu_fetch(weft_cpu_ahead *ahead, int64_t bytes) {
    enum { LINE = 64 };
    for (; bytes > 0 && ahead->rows > 0; bytes -= LINE) {
        __builtin_prefetch(ahead->at + ahead->fetched, 0, 2);
        ahead->fetched += LINE;
        if (ahead->fetched >= ahead->bytes) {
            ahead->fetched = 0;
            ahead->at += ahead->step;
            ahead->rows--;
        }
    }
}

/* Decode: products of a few rows with unpacked keys and values, `step` bytes apart. Rows of scores and of weights are
 * `pitch` floats apart. Arrays hold WEFT_CPU_DECODE_MOST_ROWS rows; those past the last may be written. */
typedef struct weft_cpu_decode {
    /* Whether this beats packing a block for so many rows. True for WEFT_CPU_DECODE_ROWS. */
    int (*takes)(int64_t rows, int64_t dim);

    /* Keys that it takes at a time where a worker reads several heads, one head after the other; 0: it does best with one
     * head and many keys. A multiple of 64. */
    int64_t block;

    /* Adds its own form of the queries behind q (WEFT_CPU_DECODE_MOST_ROWS, dim). Null: it has none. */
    void (*prepare)(int rows, int64_t dim, float *q);

    /* scores (rows, keys) = q (rows, dim) times keys */
    void (*dots)(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *q, const char *k, int64_t step,
                 float *scores, int64_t pitch, weft_cpu_ahead *ahead);

    /* out (rows, dim) += weights (rows, keys) times values */
    void (*sums)(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *weights, int64_t pitch, const char *v,
                 int64_t step, float *out, weft_cpu_ahead *ahead);

    /* Scores of one row become weights 2^(factor score - max), with *max the largest factor score so far; *sum grows by the
     * weights. Returns the factor by which the sum was rescaled; the caller rescales the output. The row holds a multiple
     * of 64 floats. */
    float (*softmax)(int64_t keys, float *scores, float factor, float *max, float *sum);
} weft_cpu_decode;

/* Storing results. */
typedef struct weft_cpu_rows {
    /* `count` floats times the factor to a dtype, rounded to nearest. They come in pieces of `width`, `pitch` apart. */
    void (*store)(weft_dtype dtype, int64_t count, const float *from, int64_t width, int64_t pitch, float factor, void *to);

    /* The same for `rows` rows of `count` floats, `pitch` floats apart, to rows `step` bytes apart. */
    void (*store_rows)(weft_dtype dtype, int64_t rows, int64_t count, const float *from, int64_t pitch, float factor,
                       void *to, int64_t step);

    /* to (columns, rows) = c (rows, columns) transposed; both multiples of 4 */
    void (*transpose)(int64_t rows, int64_t columns, const float *c, float *to);
} weft_cpu_rows;

/* A block kernel, and the packing that goes with it. */
typedef struct weft_cpu_kernel {
    const char *name;      /* "bf16_8x12__neon_bfmmla": dtype of the operands, rows x columns, feature */
    weft_dtype dtype;      /* of packed values */
    weft_cpu_operand a, b; /* a.lines rows and b.lines columns */
    int depth;             /* k comes in multiples of this */
    int fetch;             /* about how many products take as long as fetching a value from beyond the L2 and packing it */
    int fetch_across;      /* the same when values of one k are contiguous, and packing does not transpose */

    /* c (rows, columns) = A B, or is increased by it when `add` is set. */
    void (*multiply)(int64_t k, const void *a, const void *b, float *c, int add);

    /* The same where only the first `rows` of c matter; null where that is not faster. */
    void (*multiply_part)(int rows, int64_t k, const void *a, const void *b, float *c, int add);

    /* The same where only the first half of the columns matters, with A packed or not: its rows are line_step bytes apart,
     * values of a row k_step. Null where that is not faster. */
    void (*multiply_half)(int64_t k, const void *a, int64_t line_step, int64_t k_step, const void *b, float *c, int add);

    /* The same with A unpacked, its rows `step` bytes apart, k a multiple of depth; null where A must be packed. */
    void (*multiply_unpacked)(int64_t k, const void *a, int64_t step, const void *b, float *c, int add);

    /* The same with B unpacked, its rows `step` bytes apart and contiguous, which is packed on the way: its loads hide
     * among the products. k is a multiple of depth; null where B must be packed before. */
    void (*multiply_and_pack)(int64_t k, const void *a, const void *b, int64_t step, void *packed, float *c, int add);

    /* Packs a panel, with k padded to `depth`. */
    void (*pack_a)(const weft_cpu_source *source, void *to);
    void (*pack_b)(const weft_cpu_source *source, void *to);

    /* c (k, columns) as a panel of B, k a multiple of depth; null: c is one already. */
    void (*narrow)(int64_t k, const float *c, void *to);

    const weft_cpu_panel *panel;
    const weft_cpu_decode *decode;
    const weft_cpu_rows *rows;

    void (*start)(void), (*stop)(void); /* called by each thread around its work; may be null */
} weft_cpu_kernel;

/* The kernel for a dtype on this processor: the first of kernels.def that takes it, or the one whose feature or name the
 * environment variable WEFT_CPU gives, if this processor can run it and it takes the dtype. Attention takes one of fp16
 * only when told to. */
typedef enum weft_cpu_use { WEFT_CPU_PRODUCTS, WEFT_CPU_ATTENTION } weft_cpu_use;
const weft_cpu_kernel *weft_cpu_choose(weft_cpu_use use, weft_dtype dtype);

/* The i-th row of kernels.def, null past the last; *usable tells whether this processor can run it. */
const weft_cpu_kernel *weft_cpu_kernel_at(size_t i, int *usable);

/* Bytes of one panel of A or B with k values. */
static inline size_t weft_cpu_panel_bytes(const weft_cpu_kernel *kernel, weft_cpu_operand operand, int64_t k) {
    return (size_t)(weft_cpu_pad(k, kernel->depth) * operand.lines) * weft_dtype_bytes(kernel->dtype);
}

/* Whether a block of which so many columns matter has a shorter way. */
static inline int weft_cpu_is_half(const weft_cpu_kernel *kernel, int64_t columns) {
    return kernel->multiply_half && 2 * columns <= kernel->b.lines;
}

/* A block of which the first `rows` rows and `columns` columns matter; more than there are means all. */
static inline void weft_cpu_multiply(const weft_cpu_kernel *kernel, int64_t rows, int64_t columns, int64_t k, const void *a,
                                     const void *b, float *c, int add) {
    if (weft_cpu_is_half(kernel, columns)) {
        const int64_t element = (int64_t)weft_dtype_bytes(kernel->dtype);
        kernel->multiply_half(k, a, element, element * kernel->a.lines, b, c, add);
    } else if (rows < kernel->a.lines && kernel->multiply_part) {
        kernel->multiply_part((int)rows, k, a, b, c, add);
    } else {
        kernel->multiply(k, a, b, c, add);
    }
}

#endif
