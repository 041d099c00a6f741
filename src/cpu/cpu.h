/* The CPU backend: the plan's tiles over threads, fp32 arithmetic in vectors, kernels chosen by what the processor has. */
#ifndef WEFT_CPU_CPU_H
#define WEFT_CPU_CPU_H

#include "plan/plan.h"

/* The kernels of one feature. All matrices are fp32 and row-major; columns come in whole vectors of `width` floats, so
 * buffers are padded to that, and what lies in the padding is computed and never looked at. */
typedef struct weft_cpu_kernels {
    const char *name;
    int64_t width;

    /* c (rows, cols) = a (rows, depth) b (depth, cols), added to what c holds when `add` is set. */
    void (*multiply)(int64_t rows, int64_t cols, int64_t depth, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float *c, int64_t ldc, int add);

    /* row (cols) becomes 2^(factor row - max); returns the sum. Relative error below 2^-22 for results that are normal;
     * below -126 the result is 0. */
    float (*exponentials)(float *row, int64_t cols, float factor, float max);

    /* The largest of a row; -inf for none. */
    float (*largest)(const float *row, int64_t cols);

    /* row (cols) *= factor */
    void (*scale)(float *row, int64_t cols, float factor);
} weft_cpu_kernels;

/* The kernels for this processor: the first of kernels.def that it can run, or the one that the environment variable
 * WEFT_CPU names, if it can run that. */
const weft_cpu_kernels *weft_cpu_choose(void);

/* The i-th row of kernels.def, null past the last; *usable tells whether this processor can run it. */
const weft_cpu_kernels *weft_cpu_kernels_at(size_t i, int *usable);

/* `count` elements from data[index] as floats, and back, rounded to nearest. */
void weft_cpu_load(weft_dtype dtype, const void *data, size_t index, int64_t count, float *to);
void weft_cpu_store(weft_dtype dtype, void *data, size_t index, int64_t count, const float *from);

/* WEFT_UNSUPPORTED when a thread could not hold the plan's tile. */
weft_status weft_cpu_check_tile(const weft_plan *plan, weft_message *message);

/* What a backend's worker does with one visit, and the buffers it has for it. */
typedef void (*weft_cpu_work)(void *context, float *room, const weft_visit *visit);

/* Runs the plan's walk over threads, one worker each, every thread with `room` floats of its own. */
weft_status weft_cpu_threads(const weft_plan *plan, size_t room, weft_cpu_work work, void *context, weft_message *message);

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message);
weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message);

#endif
