/* SPDX-License-Identifier: Apache-2.0 */
/* What the copy engine moves of A and B for the Hopper GEMM, and what it asks of their lines. */
#ifndef WEFT_CUDA_SM90_GEMM_BOXES_H
#define WEFT_CUDA_SM90_GEMM_BOXES_H

#include "cuda/driver/tensor_map.h"

/* The copy engine takes lines and matrices that begin at multiples of 16 bytes. */
weft_status weft_gemm_check_distance(const char *name, int64_t distance, weft_dtype dtype, weft_message *why);

/* Rows of a box of A or columns of one of B. CTAs that share them take a box each, as large as the layout allows: 8 rows
 * are what the copy engine swizzles together. Where there are fewer than a tile has, and no such boxes, one CTA takes all.
 */
int32_t weft_gemm_box_rows(int mn_major, int64_t rows, int64_t sharers);

/* Rows of a tile that are loaded: where a product has fewer, those that it has, to the nearest 8. In clusters of two
 * dimensions every CTA must have a box. */
int32_t weft_gemm_loaded_rows(const weft_schedule *s, int mn_major, int64_t length, int64_t tile);

/* Where tiles of a product of that length begin at the latest, if they are to lie within it, to the nearest 16 bytes. What
 * two tiles have in common is stored twice, so nothing may be added to it, nor may it be added up; and lines that run along
 * m or n would begin anywhere. */
int32_t weft_gemm_last_of(const weft_gemm *p, int mn_major, int64_t length, int64_t tile);

/* One of A and B: `mn` is its length along m or n, and `mn_major` whether that axis is contiguous. */
weft_tensor_view weft_gemm_view_of_operand(const weft_gemm *p, const void *data, int mn_major, int64_t mn, int64_t ld,
                                           int64_t stride, int32_t rows);

#endif
