/* SPDX-License-Identifier: Apache-2.0 */
/* Random epilogues of products, and their buffers: for the tests of the CPU and of the GPU's kernels. */
#ifndef WEFT_TESTS_EPILOGUES_H
#define WEFT_TESTS_EPILOGUES_H

#include <string.h>

#include "base/random.h"
#include "problem/problem.h"

/* Epilogues that are drawn alone before any are combined: the extras but for a function, the activations, gated or not. */
enum { EPILOGUE_EXTRAS = 6, EPILOGUE_ACTIVATIONS = 5, EPILOGUES_ALONE = EPILOGUE_EXTRAS + 2 * EPILOGUE_ACTIVATIONS };

static inline int64_t epilogue_between(uint64_t *random, int64_t low, int64_t high) {
    return low + (int64_t)(weft_random(random) % (uint64_t)(high - low + 1));
}

/* Adds an epilogue to a product whose c_dtype is set, and whose n is made even where it is gated: `number` alone, or from
 * EPILOGUES_ALONE on any combination. `may_gate` and `may_sum`: whether the kernel has that. */
static inline void draw_epilogue(uint64_t *random, weft_gemm *p, int number, int may_gate, int may_sum) {
    const int32_t last = WEFT_GEMM_COLUMN_SUMS;
    if (number < EPILOGUE_EXTRAS) {
        p->extras = 1 << number;
    } else if (number < EPILOGUES_ALONE) {
        p->activation = (number - EPILOGUE_EXTRAS) % EPILOGUE_ACTIVATIONS;
        p->gated = (number - EPILOGUE_EXTRAS) / EPILOGUE_ACTIVATIONS;
    } else {
        p->extras = (int32_t)epilogue_between(random, 0, 2 * last - 1);
        p->activation = (int32_t)epilogue_between(random, 0, EPILOGUE_ACTIVATIONS - 1);
        p->gated = (int32_t)epilogue_between(random, 0, 2) == 0;
    }
    p->extras &= may_sum ? ~0 : ~last;
    p->gated &= may_gate;
    p->n += p->gated && p->n % 2;
    p->bias_dtype = (weft_dtype)epilogue_between(random, 0, 2);
}

/* The buffers that a product has beside A, B and C, by the index that weft_problem_buffer() gives them: 3 and later. */
enum { EPILOGUE_BUFFERS = 6, EPILOGUE_FIRST_BUFFER = 3 };

/* A field of a product's data, by its place. */
static inline void set_epilogue_pointer(weft_gemm_data *data, size_t offset, const void *pointer) {
    memcpy((char *)data + offset, &pointer, sizeof pointer);
}

#endif
