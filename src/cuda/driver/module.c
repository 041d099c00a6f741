/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver/module.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

weft_status weft_cuda_has_kernels(weft_message *message) {
    return weft_cuda_images[0].name
               ? WEFT_OK
               : weft_fail(message, WEFT_UNSUPPORTED,
                           "this build of weft has no CUDA kernels: it was made without nvcc (make CUDA=1 where nvcc is)");
}

static weft_status find_image(const char *name, size_t *number, weft_message *message) {
    const weft_status status = weft_cuda_has_kernels(message);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < WEFT_CUDA_MAX_IMAGES && weft_cuda_images[i].name; i++) {
        if (strcmp(weft_cuda_images[i].name, name) == 0) {
            *number = i;
            return WEFT_OK;
        }
    }
    return weft_fail(message, WEFT_UNSUPPORTED, "this build of weft has no CUDA kernels named %s", name);
}

/* The image as a library of the driver's, which serves every context. One that fails to load is tried again next time. */
static weft_status get_library(const weft_cuda_driver *driver, size_t number, void **library, weft_message *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *libraries[WEFT_CUDA_MAX_IMAGES]; /* each written once, under the lock */
    weft_cu_result result = 0;
    pthread_mutex_lock(&lock);
    if (!libraries[number]) {
        void *loaded = NULL;
        result = driver->library_load(&loaded, weft_cuda_images[number].bytes, NULL, NULL, 0, NULL, NULL, 0);
        libraries[number] = result ? NULL : loaded;
    }
    *library = libraries[number];
    pthread_mutex_unlock(&lock);
    if (result == WEFT_CU_NO_BINARY_FOR_GPU || result == WEFT_CU_INVALID_IMAGE ||
        result == WEFT_CU_UNSUPPORTED_PTX_VERSION) {
        char what[96];
        snprintf(what, sizeof what, "the kernels in %s have no code for this GPU and driver",
                 weft_cuda_images[number].name);
        return weft_cuda_fail(driver, result, what, message);
    }
    return result ? weft_cuda_fail(driver, result, "the kernels cannot be loaded", message) : WEFT_OK;
}

weft_status weft_cuda_function_get(const weft_cuda_driver *driver, const char *image, const char *kernel, void **function,
                                   weft_message *message) {
    size_t number = 0;
    void *library = NULL, *handle = NULL;
    weft_status status;
    *function = NULL;
    if ((status = find_image(image, &number, message)) || (status = get_library(driver, number, &library, message))) {
        return status;
    }
    /* Everything is loaded here, so that a launch never has to: loading cannot be captured in a graph. */
    weft_cu_result result = driver->library_kernel(&handle, library, kernel);
    result = result ? result : driver->kernel_function(function, handle);
    if (result == 0 && driver->function_load) {
        result = driver->function_load(*function);
    }
    if (result) {
        char what[128];
        snprintf(what, sizeof what, "the kernel %.90s cannot be loaded", kernel);
        return weft_cuda_fail(driver, result, what, message);
    }
    return WEFT_OK;
}
