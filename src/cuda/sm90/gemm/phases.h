/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of A share a tile of the Hopper GEMM: neighbours, or those whose lines begin alike (weft_gemm_phases). */
#ifndef WEFT_CUDA_SM90_GEMM_PHASES_H
#define WEFT_CUDA_SM90_GEMM_PHASES_H

#include "cuda/gemm/view.h"
#include "cuda/sm90/gemm/params.h"

/* Whether a product in such tiles, as the kernel sees them, is for a variant with phases. */
int weft_gemm_wants_phases(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n);

/* The phases that align the lines of A best without more tiles than there would be; none where they are aligned. A
 * begins at `a`. */
weft_gemm_phases weft_gemm_phases_of(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n,
                                     const void *a);

/* What the lines of A begin at multiples of in such tiles, in bytes, in clusters of so many CTAs along m. */
int64_t weft_gemm_line_of_a(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n,
                            int64_t cluster_m);

#endif
