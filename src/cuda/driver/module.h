/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels compiled ahead of time and carried inside the library. */
#ifndef WEFT_CUDA_DRIVER_MODULE_H
#define WEFT_CUDA_DRIVER_MODULE_H

#include "cuda/driver/driver.h"

/* What nvcc made of one .cu file: code for several chips, and PTX for later ones, in one image. */
typedef struct weft_cuda_image {
    const char *name; /* the file's, without .cu */
    const void *bytes;
} weft_cuda_image;

/* The images of this build, ended by a null name; none where there was no nvcc. Written by cmake/kernels.cmake. */
extern const weft_cuda_image weft_cuda_images[];

/* WEFT_UNSUPPORTED when this build has no kernels at all. */
weft_status weft_cuda_has_kernels(weft_message *message);

/* The most images that a build can have. */
enum { WEFT_CUDA_MAX_IMAGES = 128 };

/* A kernel as a function of the current context, its code loaded. The first to ask for a kernel of an image loads the
 * image, for all contexts; any number of threads may ask at once.
 *
 * WEFT_UNSUPPORTED when this build has no such image, or the driver refuses it. */
weft_status weft_cuda_function_get(const weft_cuda_driver *driver, const char *image, const char *kernel, void **function,
                                   weft_message *message);

#endif
