/* Images for the fake driver, in place of the library's own, so that these tests are the same with and without nvcc. */
#ifndef WEFT_TESTS_CUDA_FAKE_IMAGES_H
#define WEFT_TESTS_CUDA_FAKE_IMAGES_H

#include <dlfcn.h>
#include <stdlib.h>

#include "../cmocka_all.h"
#include "cuda/driver/module.h"
#include "fake_driver.h"

const weft_cuda_image weft_cuda_images[] = {
    {"study_bf16_d56", "1"},
    {"study_bf16_d64", "2"},
    {"study_bf16_d80", "3"},
    {"study_bf16_d96", "4"},
    {"study_bf16_d128", "5"},
    {"study_fp16_d56", "6"},
    {"study_fp16_d64", "7"},
    {"study_fp16_d80", "8"},
    {"study_fp16_d96", "9"},
    {"study_fp16_d128", "0"},
    {"study_bf16_general", "p"},
    {"study_fp16_general", "q"},
    {"study_append", "a"},
    {"decode_bf16", "d"},
    {"decode_fp16", "e"},
    {"decode_deal", "f"},
    {"mla_bf16_sm90a", "m"},
    {"mla_fp16_sm90a", "n"},
    {"combine", "c"},
    {"study_backward_bf16", "v"},
    {"study_backward_fp16", "w"},
    {"hopper_backward_deal_sm90a", "y"},
    {"hopper_backward_bf16_sm90a", "z"},
    {"hopper_backward_fp16_sm90a", "a"},
    {"hopper_backward_bf16_general_sm90a", "1"},
    {"hopper_backward_fp16_general_sm90a", "2"},
    {"hopper_backward_bf16_wide_sm90a", "3"},
    {"hopper_backward_fp16_wide_sm90a", "4"},
    {"hopper_backward_bf16_wide_general_sm90a", "5"},
    {"hopper_backward_fp16_wide_general_sm90a", "6"},
    {"hopper_backward_bf16_full_sm90a", "7"},
    {"hopper_backward_fp16_full_sm90a", "8"},
    {"hopper_backward_bf16_wide_full_sm90a", "9"},
    {"hopper_backward_fp16_wide_full_sm90a", "0"},
    {"sides", "s"},
    {"read_stream", "r"},
    {"attention_bf16_sm90a", "b"},
    {"attention_fp16_sm90a", "f"},
    {"attention_bf16_masks_sm90a", "p"},
    {"attention_fp16_masks_sm90a", "q"},
    {"attention_bf16_scores_sm90a", "t"},
    {"attention_fp16_scores_sm90a", "u"},
    {"attention_bf16_pairs_sm90a", "v"},
    {"attention_fp16_pairs_sm90a", "w"},
    {"attention_bf16_pages_sm90a", "x"},
    {"attention_fp16_pages_sm90a", "x"},
    {"attention_bf16_bias_sm90a", "x"},
    {"attention_fp16_bias_sm90a", "y"},
    {"gemm_bf16_kk_sm90a", "c"},
    {"gemm_bf16_kn_sm90a", "d"},
    {"gemm_bf16_mk_sm90a", "e"},
    {"gemm_bf16_mn_sm90a", "g"},
    {"gemm_fp16_kk_sm90a", "h"},
    {"gemm_fp16_kn_sm90a", "i"},
    {"gemm_fp16_mk_sm90a", "j"},
    {"gemm_fp16_mn_sm90a", "k"},
    {"gemm_bf16_kk_by_phase_sm90a", "l"},
    {"gemm_bf16_kn_by_phase_sm90a", "m"},
    {"gemm_fp16_kk_by_phase_sm90a", "n"},
    {"gemm_fp16_kn_by_phase_sm90a", "o"},
    {"gemm_bf16_kk", "p"},
    {"gemm_bf16_kn", "q"},
    {"gemm_bf16_mk", "r"},
    {"gemm_bf16_mn", "s"},
    {"gemm_fp16_kk", "t"},
    {"gemm_fp16_kn", "u"},
    {"gemm_fp16_mk", "v"},
    {"gemm_fp16_mn", "w"},
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
