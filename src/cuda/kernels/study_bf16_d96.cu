/* The study kernel in bf16 with a head dim of 96. */
#define WEFT_STUDY_IN_study_bf16_d96(x) x
#include "cuda/study/entries.cuh"
