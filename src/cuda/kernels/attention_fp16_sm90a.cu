/* The Hopper attention kernel in fp16. */
#define WEFT_ATTENTION_IN_attention_fp16_sm90a(x) x
#include "cuda/sm90/attention/entries.cuh"
