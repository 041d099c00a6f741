/* The study kernel in fp16 with a head dim of 128. */
#define WEFT_STUDY_IN_study_fp16_d128(x) x
#include "cuda/study/entries.cuh"
