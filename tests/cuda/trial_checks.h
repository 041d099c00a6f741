/* How a test that runs on a real GPU finds it, and says what is wrong. */
#ifndef WEFT_TESTS_CUDA_TRIAL_CHECKS_H
#define WEFT_TESTS_CUDA_TRIAL_CHECKS_H

#include <stdio.h>
#include <stdlib.h>

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

#endif
