/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that kernels cannot read where they lie. Kernels multiply elements of 16 bits whose lines begin at multiples of
 * 16 bytes; others are copied to such lines. A product of fp32 is given to them as one whose k is longer, in one of two
 * forms:
 *
 * - in parts: an element is the sum of three of bf16 (operands_params.h). Of the nine products of parts six count, for
 *   WEFT_PRECISION_BF16X3 three; they are sections of k, those of the smallest parts first.
 * - in TF32: an element is two of 16 bits, which the instruction reads as one of TF32, cut off.
 *
 * A launch before the product's writes operands like that to the workspace, those of TF32 rounded. Those that lie along k,
 * and whose lines begin and end at multiples of 16 bytes, TF32 reads where they are. */
#ifndef WEFT_CUDA_GEMM_OPERANDS_H
#define WEFT_CUDA_GEMM_OPERANDS_H

#include "cuda/gemm/operands_params.h"
#include "cuda/plan/backend.h"

/* The product that kernels are given in place of a resolved one: as that lies in memory, or in the workspace. Its k, lda,
 * ldb and their strides count elements of 16 bits. It is the product itself unless that is of fp32 or its lines are
 * misaligned; of TF32 its `precision` still says so. */
weft_gemm weft_gemm_in_halves(const weft_gemm *p);

/* The elements that the instructions of a kernel for it read: WEFT_FP32 stands for TF32. */
weft_dtype weft_gemm_multiplied(const weft_gemm *in_halves);

/* Whether its steps have an order: parts are added from the smallest to the largest, or sums would be cut off six times as
 * often. */
int weft_gemm_has_parts(const weft_gemm *p);

/* Why it cannot be computed so under a sweep; WEFT_OK where it can. */
weft_status weft_gemm_check_parts(const weft_gemm *p, int32_t sweep, weft_message *why);

/* The launch that writes operands, where there is one: 1, else 0. `main` is the product's, which follows it. */
int weft_gemm_operands_pass(const weft_gemm *p, const weft_cuda_choice *main, weft_cuda_choice *pass);
int weft_gemm_is_operands_pass(const weft_cuda_pass *pass);
weft_gemm_operands_params weft_gemm_operands_of(const weft_gemm *p, const weft_gemm_data *data);

/* Bytes of the workspace that operands take, from its beginning on; and those that the launch reads and writes in all. */
size_t weft_gemm_operands_bytes(const weft_gemm *p);
double weft_gemm_operands_traffic(const weft_gemm *p);

/* What the product's launch reads: A and B as that of weft_gemm_in_halves(), and the workspace behind them. */
weft_gemm_data weft_gemm_data_in_halves(const weft_gemm *p, const weft_gemm_data *data);

#endif
