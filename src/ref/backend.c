/* The reference as a backend: always there, never fast. */
#include "ref/ref.h"

const weft_backend weft_backend_ref = {
    .name = "ref",
    .kernel = NULL,
    .attention_forward = weft_ref_attention_tiled,
    .attention_backward = weft_ref_attention_backward,
    .gemm = weft_ref_gemm_tiled,
};
