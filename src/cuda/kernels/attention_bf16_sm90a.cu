/* The Hopper attention kernel in bf16. */
#define WEFT_ATTENTION_IN_attention_bf16_sm90a(x) x
#include "cuda/sm90/attention/entries.cuh"
