/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Weft inside XLA, and so under jax.jit: handlers of XLA's typed foreign function interface.
 *
 * Register each by its name for its platform (from Python: weft.jax does). A call site carries what is to be computed by
 * value, as two attributes that are arrays of int64: `problem` holds the bytes of a weft_attention, weft_gemm or
 * weft_grouped_gemm, `schedule` those of a weft_schedule; so a compiled program may be stored, and run in another process.
 * Buffers are packed:
 *
 *   weft_xla_attention_…           arguments q, k, v; results o and, where the caller wants it, lse (float32)
 *   weft_xla_attention_backward_…  arguments q, k, v, grad_o, o, lse; results grad_q, grad_k, grad_v
 *   weft_xla_gemm_…                arguments a, b; result c; beta is 0
 *   weft_xla_grouped_gemm_…        arguments a, b and starts or counts (int32); result c, of which rows of no group are not
 *                                  written
 *
 * What `extras` name follows in the order of weft_problem_buffer(): of an attention as arguments sinks, alibi, bias and
 * lengths (int32), as results max behind lse, grad_sinks and, where the caller wants it, grad_bias; of a product as
 * arguments bias, residual and scales, as a result column_sums. Dropout takes one attribute more, `seed`, an array of one
 * int64.
 *
 * On CUDA the work is put on XLA's stream, and nothing is waited for. The plan is made by the first call of its kind on a
 * device, and kept for the life of the process, as a compiled program may run again at any time. The handlers do not claim
 * that XLA may capture them in a command buffer: under dynamic dispatch a plan can be part of 1024 captures only.
 */
#ifndef WEFT_XLA_H
#define WEFT_XLA_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An XLA_FFI_Handler: takes an XLA_FFI_CallFrame, returns an XLA_FFI_Error or null. */
WEFT_API void *weft_xla_attention_cpu(void *call_frame);
WEFT_API void *weft_xla_attention_cuda(void *call_frame);
WEFT_API void *weft_xla_attention_backward_cpu(void *call_frame);
WEFT_API void *weft_xla_attention_backward_cuda(void *call_frame);
WEFT_API void *weft_xla_gemm_cpu(void *call_frame);
WEFT_API void *weft_xla_gemm_cuda(void *call_frame);
WEFT_API void *weft_xla_grouped_gemm_cpu(void *call_frame);
WEFT_API void *weft_xla_grouped_gemm_cuda(void *call_frame);

#ifdef __cplusplus
}
#endif

#endif
