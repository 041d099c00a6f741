/* SPDX-License-Identifier: Apache-2.0 */
/* How a test that runs on a real GPU finds it, plans for it, and says what is wrong. */
#ifndef WEFT_TESTS_CUDA_TRIAL_CHECKS_H
#define WEFT_TESTS_CUDA_TRIAL_CHECKS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plans.h"
#include "cuda/driver/module.h"
#include "cuda/plan/backend.h"

static const weft_cuda_driver *driver;
static int failures;

#define CHECK(condition, ...)                                                                                              \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
            fprintf(stderr, __VA_ARGS__);                                                                                  \
            fputc('\n', stderr);                                                                                           \
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                                            \
        }                                                                                                                  \
    } while (0)

#define DEMAND(call)                                                                                                       \
    do {                                                                                                                   \
        const int result_ = (int)(call);                                                                                   \
        if (result_) {                                                                                                     \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, result_);                                    \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* Finds the first GPU and makes its primary context current. Ends the process with 77, which stands for skipped, where
 * there is none, it has no kernels here, or it is of another `capability`; 0: any will do. */
static inline void *open_gpu(int capability, weft_cuda_device *device) {
    weft_message message = {""};
    void *context;
    const weft_status found = weft_cuda_driver_get(&driver, &message);
    if (found == WEFT_NOT_FOUND || weft_cuda_has_kernels(&message)) {
        printf("skipped: %s\n", message.text);
        exit(77);
    }
    if (found || weft_cuda_device_get(driver, 0, device, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    if (capability && device->capability != capability) {
        printf("skipped: %s is of compute capability %d.%d\n", device->name, device->capability / 10,
               device->capability % 10);
        exit(77);
    }
    DEMAND(driver->primary_retain(&context, device->handle));
    DEMAND(driver->context_push(context));
    return context;
}

/* What a test alone calls of the driver. */
typedef struct driver_symbol {
    void *to; /* a pointer to the function */
    const char *name;
} driver_symbol;

static inline void find_driver_symbols(const driver_symbol *wanted, size_t count) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    DEMAND(library == NULL);
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, wanted[i].name);
        DEMAND(!found);
        memcpy(wanted[i].to, &found, sizeof found);
    }
}

/* A plan for a problem on the first GPU; kernel: the family, with options, or null for the best. */
static inline weft_plan *plan_new(const weft_attention *p, const weft_schedule *s, const char *kernel) {
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    if (plan_on(&plan, p, s, NULL, &gpu, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    return plan;
}

static inline weft_attention attention(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq, int64_t kv_seq,
                                       int64_t dim, weft_dtype dtype, weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = dim;
    p.dtype = dtype;
    p.mask = mask;
    return p;
}

#endif
