/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a trace and their blocks, numbered as they are met. */
#ifndef WEFT_SIM_TRACE_BLOCKS_H
#define WEFT_SIM_TRACE_BLOCKS_H

#include "sim/trace/trace.h"

typedef struct weft_trace_name {
    char text[WEFT_TRACE_NAME];
    uint32_t next;  /* with the same hash, plus 1 */
    uint32_t first; /* declared tensors: the piece of block 0 */
    int64_t blocks; /* declared tensors: how many there are */
} weft_trace_name;

enum { WEFT_TRACE_HASHES = 1024 };

/* All zeros is empty. */
typedef struct weft_trace_blocks {
    weft_trace_name *names;
    size_t tensors, names_room;
    uint32_t by_hash[WEFT_TRACE_HASHES]; /* a name's number plus 1 */
    int declared;                        /* blocks of all tensors are numbered from the start */
    weft_trace_block *blocks;
    size_t pieces, blocks_room;
    uint32_t *table; /* (slots) a piece plus 1; slots is a power of two */
    size_t slots;
} weft_trace_blocks;

/* Makes room for `needed` elements of `size` bytes in an array that grows. Returns 0 when memory ran out. */
int weft_trace_grow(void *array, size_t *room, size_t needed, size_t size);

enum { WEFT_TRACE_WRONG = -1, WEFT_TRACE_NO_MEMORY = -2 };

/* The status of a number that could not be, below 0. */
static inline weft_status weft_trace_status(int64_t number) {
    return number == WEFT_TRACE_NO_MEMORY ? WEFT_NO_MEMORY : WEFT_INVALID;
}

/* The number of a tensor, which is new where it was not known; `blocks` is 0, or how many are declared. Below 0
 * with a message when it cannot be. */
int64_t weft_trace_tensor(weft_trace_blocks *b, const char *name, size_t length, int64_t blocks, weft_message *message);

/* The piece of a block; below 0 with a message when it cannot be. */
int64_t weft_trace_piece(weft_trace_blocks *b, int64_t tensor, int64_t block, int64_t bytes, weft_message *message);

/* Numbers the pieces anew, tensor by tensor and block by block, unless they were declared: fills number (pieces), and puts
 * the blocks in that order. Returns 0 when memory ran out. */
int weft_trace_sort_blocks(weft_trace_blocks *b, uint32_t *number);

/* Tensors as a source has them: a new array, or null when memory ran out. The names are those of `b`. */
weft_source_tensor *weft_trace_tensors(weft_trace_blocks *b);

void weft_trace_blocks_release(weft_trace_blocks *b);

#endif
