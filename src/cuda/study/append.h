/* SPDX-License-Identifier: Apache-2.0 */
/* What precedes the study kernel where an attention appends keys or rotates: parameters, plain C for the host and CUDA for
 * the kernel.
 *
 * One launch writes the new keys, rotated, and their values to the cache, and the rotated queries to the workspace. A
 * thread moves one chunk of a row at a time: of what is rotated, elements of both halves of the pairs. */
#ifndef WEFT_CUDA_STUDY_APPEND_H
#define WEFT_CUDA_STUDY_APPEND_H

#include <weft/order/pages.h>
#include <weft/order/sequence.h>
#include <weft/weft.h>

enum { WEFT_STUDY_APPEND_THREADS = 256, WEFT_STUDY_APPEND_MOST_CTAS = 4096 };

/* Elements of a chunk, where everything is aligned to 16 bytes; else 1. */
enum { WEFT_STUDY_APPEND_CHUNK = 8 };

/* Rows to move. All strides are in elements. */
typedef struct weft_study_moved {
    const void *from;
    void *to;
    weft_strides from_strides, to_strides;
    int64_t items;          /* chunks of all rows and heads; 0: there are none */
    weft_divisor by_chunks; /* of a row */
    weft_divisor by_heads;
    int32_t rotary_dim; /* elements from the first on that are rotated */
} weft_study_moved;

typedef enum weft_study_moves {
    WEFT_STUDY_K = 0,
    WEFT_STUDY_V = 1,
    WEFT_STUDY_Q = 2,
    WEFT_STUDY_MOVES = 3
} weft_study_moves;

/* Passed by value; pointers are to device memory. A grid of any size, of WEFT_STUDY_APPEND_THREADS threads. */
typedef struct weft_study_append {
    weft_study_moved moved[WEFT_STUDY_MOVES];
    weft_sequences sequences;
    weft_pages pages;
    weft_divisor by_new, by_queries; /* of a batch; not packed */
    const void *cos, *sin;           /* (rotary_rows, rotary_dim / 2) */
    const int32_t *positions;        /* of each sequence's first new key, or null: behind its keys */
    int64_t rotary_rows;
    int32_t interleaved;
    int32_t by_position; /* 1: query i is rotated as new key i; 0: all as the first */
    int32_t chunk;       /* WEFT_STUDY_APPEND_CHUNK or 1 */
} weft_study_append;

#endif
