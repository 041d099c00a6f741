/* SPDX-License-Identifier: Apache-2.0 */
/* As much of the CUDA runtime as the test of the study kernel calls, on a CPU. */
#ifndef WEFT_TESTS_CUDA_RUNTIME_H
#define WEFT_TESTS_CUDA_RUNTIME_H

#include "cuda/ptx/cp_async.cuh"

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaFuncAttributeMaxDynamicSharedMemorySize };

struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};
struct dim3 {
    unsigned x;
    explicit dim3(unsigned size) : x(size) {
    }
};

static inline const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "out of memory";
}
static inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) {
    *value = 232448; /* an H200's shared memory */
    return cudaSuccess;
}
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *) {
    a->sharedSizeBytes = 1024;
    return cudaSuccess;
}
static inline cudaError_t cudaFuncSetAttribute(const void *, int, int) {
    return cudaSuccess;
}
template <class T> static inline cudaError_t cudaMalloc(T **data, size_t bytes) {
    *data = (T *)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *data) {
    free(data);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes) {
    return cudaMemset(to, value, bytes);
}

/* Only for kernels whose one parameter is weft_study_params. */
static inline cudaError_t cudaLaunchKernel(const void *kernel, dim3 ctas, dim3 threads, void **arguments, size_t, int) {
    struct call {
        void (*kernel)(weft_study_params);
        const weft_study_params *p;
    } c = {(void (*)(weft_study_params))kernel, (const weft_study_params *)arguments[0]};
    const auto thread = [](void *argument) {
        const call *it = (const call *)argument;
        it->kernel(*it->p);
    };
    const auto begin = [] { /* copies that nobody waited for end with their CTA */
                            for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
                                copies = {};
                            }
    };
    emulated_launch({thread, &c, ctas.x, threads.x, begin, nullptr, nullptr});
    return cudaSuccess;
}

#endif
