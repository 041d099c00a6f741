/* SPDX-License-Identifier: Apache-2.0 */
/* The launch that writes operands, of fp32 products or of misaligned lines, as the kernels of 16-bit elements read them:
 * plain C for the host, and CUDA for the kernel. */
#ifndef WEFT_CUDA_GEMM_OPERANDS_PARAMS_H
#define WEFT_CUDA_GEMM_OPERANDS_PARAMS_H

#include <stdint.h>

/* A CTA takes so many lines by so many elements of k. */
enum { WEFT_GEMM_OPERAND_TILE = 64, WEFT_GEMM_OPERAND_THREADS = 256 };

/* The parts of an element x: x1 + x2 + x3 = x, each x less those before it, rounded to bf16. Where x is not finite, x1 is
 * not, and the others are 0; products of those are finite, so that infinities do not meet others of their own making. */
enum {
    WEFT_GEMM_PART_WHOLE = 0, /* x1 */
    WEFT_GEMM_PART_FIRST = 1, /* x1, or 0 where x is not finite */
    WEFT_GEMM_PART_SECOND = 2,
    WEFT_GEMM_PART_THIRD = 3
};

/* A or B of one product or of a batch. */
typedef struct weft_gemm_operand_copy {
    const void *from;
    void *to;           /* lines of all products, (sections, padded) of 16 bits each, or without sections (padded) as they
                           are; null: it is read where it lies */
    int64_t ld, stride; /* of `from`, in elements: from a line to the next, from a product to the next */
    int32_t lines;      /* rows of A, columns of B */
    int32_t along_k;    /* 1: its elements are contiguous along k; 0: along m or n */
    uint32_t parts;     /* of which section each is, four bits each, the first ones lowest */
    uint32_t ctas;      /* of a product */
    uint32_t all_ctas;  /* of the batch */
} weft_gemm_operand_copy;

/* Launch: a.all_ctas + b.all_ctas CTAs. */
typedef struct weft_gemm_operands_params {
    weft_gemm_operand_copy a, b;
    int32_t k, padded; /* elements of a line, and with zeros behind them up to the next 16 bytes */
    int64_t distance;  /* elements of 16 bits from a line of what is written to the next */
    int32_t sections;  /* of a line, each a part of all elements; 0: elements are rounded to TF32 */
    int32_t narrow;    /* 1: elements are of 16 bits, and copied as they are; there are no sections */
} weft_gemm_operands_params;

#endif
