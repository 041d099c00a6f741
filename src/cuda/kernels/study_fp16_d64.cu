/* The study kernel in fp16 with a head dim of 64. */
#define WEFT_STUDY_IN_study_fp16_d64(x) x
#include "cuda/study/entries.cuh"
