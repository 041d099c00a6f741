/* SPDX-License-Identifier: Apache-2.0 */
/* What the parameters of the portable kernels say of a problem. */
#ifndef WEFT_TESTS_CUDA_FAKE_STUDY_H
#define WEFT_TESTS_CUDA_FAKE_STUDY_H

#include "cuda/study/params.h"
#include "fake_driver.h"

/* The problem that the parameters describe; dtype, head dim and tile are in the kernel's name. Returns 0 where they do not
 * go together. */
int fake_study_problem(const char *kernel, const weft_study_params *p, weft_attention *problem);

/* What a general variant reads beside: the band in place of the slice, head dims and what becomes of scores. */
void fake_study_general(const weft_study_params *p, weft_attention *problem, weft_attention_data *data);

#endif
