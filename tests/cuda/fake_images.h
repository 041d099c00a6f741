/* SPDX-License-Identifier: Apache-2.0 */
/* Images for the fake driver, in place of the library's own, so that these tests are the same with and without
 * nvcc. Each is its name, by which the fake driver knows the chip that it is for. */
#ifndef WEFT_TESTS_CUDA_FAKE_IMAGES_H
#define WEFT_TESTS_CUDA_FAKE_IMAGES_H

#include <dlfcn.h>
#include <stdlib.h>

#include "../cmocka_all.h"
#include "cuda/driver/module.h"
#include "fake_driver.h"

const weft_cuda_image weft_cuda_images[] = {
    {"study_bf16_d56", "study_bf16_d56"},
    {"study_bf16_d64", "study_bf16_d64"},
    {"study_bf16_d80", "study_bf16_d80"},
    {"study_bf16_d96", "study_bf16_d96"},
    {"study_bf16_d128", "study_bf16_d128"},
    {"study_fp16_d56", "study_fp16_d56"},
    {"study_fp16_d64", "study_fp16_d64"},
    {"study_fp16_d80", "study_fp16_d80"},
    {"study_fp16_d96", "study_fp16_d96"},
    {"study_fp16_d128", "study_fp16_d128"},
    {"study_bf16_general", "study_bf16_general"},
    {"study_fp16_general", "study_fp16_general"},
    {"study_append", "study_append"},
    {"decode_bf16", "decode_bf16"},
    {"decode_fp16", "decode_fp16"},
    {"decode_deal", "decode_deal"},
    {"mla_bf16_sm90a", "mla_bf16_sm90a"},
    {"mla_fp16_sm90a", "mla_fp16_sm90a"},
    {"combine", "combine"},
    {"study_backward_bf16", "study_backward_bf16"},
    {"study_backward_fp16", "study_backward_fp16"},
    {"hopper_backward_deal_sm90a", "hopper_backward_deal_sm90a"},
    {"hopper_backward_bf16_sm90a", "hopper_backward_bf16_sm90a"},
    {"hopper_backward_fp16_sm90a", "hopper_backward_fp16_sm90a"},
    {"hopper_backward_bf16_general_sm90a", "hopper_backward_bf16_general_sm90a"},
    {"hopper_backward_fp16_general_sm90a", "hopper_backward_fp16_general_sm90a"},
    {"hopper_backward_bf16_wide_sm90a", "hopper_backward_bf16_wide_sm90a"},
    {"hopper_backward_fp16_wide_sm90a", "hopper_backward_fp16_wide_sm90a"},
    {"hopper_backward_bf16_wide_general_sm90a", "hopper_backward_bf16_wide_general_sm90a"},
    {"hopper_backward_fp16_wide_general_sm90a", "hopper_backward_fp16_wide_general_sm90a"},
    {"hopper_backward_bf16_full_sm90a", "hopper_backward_bf16_full_sm90a"},
    {"hopper_backward_fp16_full_sm90a", "hopper_backward_fp16_full_sm90a"},
    {"hopper_backward_bf16_wide_full_sm90a", "hopper_backward_bf16_wide_full_sm90a"},
    {"hopper_backward_fp16_wide_full_sm90a", "hopper_backward_fp16_wide_full_sm90a"},
    {"sides", "sides"},
    {"read_stream", "read_stream"},
    {"attention_bf16_sm90a", "attention_bf16_sm90a"},
    {"attention_fp16_sm90a", "attention_fp16_sm90a"},
    {"attention_bf16_masks_sm90a", "attention_bf16_masks_sm90a"},
    {"attention_fp16_masks_sm90a", "attention_fp16_masks_sm90a"},
    {"attention_bf16_scores_sm90a", "attention_bf16_scores_sm90a"},
    {"attention_fp16_scores_sm90a", "attention_fp16_scores_sm90a"},
    {"attention_bf16_pairs_sm90a", "attention_bf16_pairs_sm90a"},
    {"attention_fp16_pairs_sm90a", "attention_fp16_pairs_sm90a"},
    {"attention_bf16_pages_sm90a", "attention_bf16_pages_sm90a"},
    {"attention_fp16_pages_sm90a", "attention_fp16_pages_sm90a"},
    {"attention_bf16_bias_sm90a", "attention_bf16_bias_sm90a"},
    {"attention_fp16_bias_sm90a", "attention_fp16_bias_sm90a"},
    {"gemm_bf16_kk_sm90a", "gemm_bf16_kk_sm90a"},
    {"gemm_bf16_kn_sm90a", "gemm_bf16_kn_sm90a"},
    {"gemm_bf16_mk_sm90a", "gemm_bf16_mk_sm90a"},
    {"gemm_bf16_mn_sm90a", "gemm_bf16_mn_sm90a"},
    {"gemm_fp16_kk_sm90a", "gemm_fp16_kk_sm90a"},
    {"gemm_fp16_kn_sm90a", "gemm_fp16_kn_sm90a"},
    {"gemm_fp16_mk_sm90a", "gemm_fp16_mk_sm90a"},
    {"gemm_fp16_mn_sm90a", "gemm_fp16_mn_sm90a"},
    {"gemm_bf16_kk_by_phase_sm90a", "gemm_bf16_kk_by_phase_sm90a"},
    {"gemm_bf16_kn_by_phase_sm90a", "gemm_bf16_kn_by_phase_sm90a"},
    {"gemm_fp16_kk_by_phase_sm90a", "gemm_fp16_kk_by_phase_sm90a"},
    {"gemm_fp16_kn_by_phase_sm90a", "gemm_fp16_kn_by_phase_sm90a"},
    {"gemm_bf16_kk", "gemm_bf16_kk"},
    {"gemm_bf16_kn", "gemm_bf16_kn"},
    {"gemm_bf16_mk", "gemm_bf16_mk"},
    {"gemm_bf16_mn", "gemm_bf16_mn"},
    {"gemm_fp16_kk", "gemm_fp16_kk"},
    {"gemm_fp16_kn", "gemm_fp16_kn"},
    {"gemm_fp16_mk", "gemm_fp16_mk"},
    {"gemm_fp16_mn", "gemm_fp16_mn"},
    {"grouped_bf16_kk_sm90a", "grouped_bf16_kk_sm90a"},
    {"grouped_bf16_kn_sm90a", "grouped_bf16_kn_sm90a"},
    {"grouped_fp16_kk_sm90a", "grouped_fp16_kk_sm90a"},
    {"grouped_fp16_kn_sm90a", "grouped_fp16_kn_sm90a"},
    {"grouped_bf16_kk", "grouped_bf16_kk"},
    {"grouped_bf16_kn", "grouped_bf16_kn"},
    {"grouped_fp16_kk", "grouped_fp16_kk"},
    {"grouped_fp16_kn", "grouped_fp16_kn"},
    {"gemm_bf16_kk_widths_sm90a", "gemm_bf16_kk_widths_sm90a"},
    {"gemm_bf16_mk_widths_sm90a", "gemm_bf16_mk_widths_sm90a"},
    {"gemm_fp16_kk_widths_sm90a", "gemm_fp16_kk_widths_sm90a"},
    {"gemm_fp16_mk_widths_sm90a", "gemm_fp16_mk_widths_sm90a"},
    {"gemm_bf16_kk_transposed_sm90a", "gemm_bf16_kk_transposed_sm90a"},
    {"gemm_bf16_mk_transposed_sm90a", "gemm_bf16_mk_transposed_sm90a"},
    {"gemm_fp16_kk_transposed_sm90a", "gemm_fp16_kk_transposed_sm90a"},
    {"gemm_fp16_mk_transposed_sm90a", "gemm_fp16_mk_transposed_sm90a"},
    {"gemm_bf16_kk_fused_sm90a", "gemm_bf16_kk_fused_sm90a"},
    {"gemm_bf16_kn_fused_sm90a", "gemm_bf16_kn_fused_sm90a"},
    {"gemm_fp16_kk_fused_sm90a", "gemm_fp16_kk_fused_sm90a"},
    {"gemm_fp16_kn_fused_sm90a", "gemm_fp16_kn_fused_sm90a"},
    {"gemm_bf16_kk_fused", "gemm_bf16_kk_fused"},
    {"gemm_bf16_kn_fused", "gemm_bf16_kn_fused"},
    {"gemm_bf16_mk_fused", "gemm_bf16_mk_fused"},
    {"gemm_bf16_mn_fused", "gemm_bf16_mn_fused"},
    {"gemm_fp16_kk_fused", "gemm_fp16_kk_fused"},
    {"gemm_fp16_kn_fused", "gemm_fp16_kn_fused"},
    {"gemm_fp16_mk_fused", "gemm_fp16_mk_fused"},
    {"gemm_fp16_mn_fused", "gemm_fp16_mn_fused"},
    {"gemm_tf32_kk_sm90a", "gemm_tf32_kk_sm90a"},
    {"gemm_tf32_kk_by_phase_sm90a", "gemm_tf32_kk_by_phase_sm90a"},
    {"gemm_tf32_kk_fused_sm90a", "gemm_tf32_kk_fused_sm90a"},
    {"gemm_tf32_kk", "gemm_tf32_kk"},
    {"gemm_tf32_kk_fused", "gemm_tf32_kk_fused"},
    {"gemm_column_sums", "gemm_column_sums"},
    {"gemm_operands", "gemm_operands"},
    {NULL, NULL},
};
const int weft_cuda_toolkit = 13000;

static inline fake_counts *counts(void) {
    void *library = dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    fake_counts *found = dlsym(library, "fake_cuda_counts");
    assert_non_null(found);
    return found;
}

/* Scripts the fake driver; null: all well. */
static inline void script(const char *text) {
    assert_int_equal(setenv("WEFT_CUDA_DRIVER", FAKE_CUDA_LIBRARY, 1), 0);
    assert_int_equal(text ? setenv("FAKE_CUDA", text, 1) : unsetenv("FAKE_CUDA"), 0);
}

#endif
