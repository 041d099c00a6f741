/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: what the copy engine of a Hopper or later GPU has to know of a tensor in device memory. */
#ifndef WEFT_CUDA_DRIVER_TENSOR_MAP_H
#define WEFT_CUDA_DRIVER_TENSOR_MAP_H

#include "cuda/driver/driver.h"

enum { WEFT_TENSOR_RANK = 5 };

/* A CUtensorMap: opaque, passed to kernels by value. */
typedef struct weft_tensor_map {
    uint64_t opaque[16];
} __attribute__((aligned(64))) weft_tensor_map;

/* How long the L2 is to keep what a copy brings: the policies that createpolicy makes for a whole access. */
#define WEFT_KEEP_NORMAL UINT64_C(0x1000000000000000)
#define WEFT_KEEP_FIRST  UINT64_C(0x12F0000000000000) /* given up first */
#define WEFT_KEEP_LAST   UINT64_C(0x14F0000000000000)

/* A tensor and the box that one copy moves, the fastest axis first; that axis is contiguous. */
typedef struct weft_tensor_view {
    const void *data; /* aligned to 16 bytes */
    weft_dtype dtype;
    int32_t rank;                     /* 1 to 5 */
    int64_t length[WEFT_TENSOR_RANK]; /* elements of each axis, 1 to 2^32 - 1 */
    int64_t
        stride[WEFT_TENSOR_RANK];  /* elements from one to the next; [0] is 1; 16 bytes times a number, below 2^40 bytes */
    int32_t box[WEFT_TENSOR_RANK]; /* elements of each axis, 1 to 256 */
    int32_t swizzle;               /* 1: box rows of 128, 64 or 32 bytes, swizzled over 8 of 128; 0: rows as they are */
    int32_t narrow;                /* 1: the L2 is asked for 128 bytes at a time, 0: for 256 */
} weft_tensor_view;

/* WEFT_UNSUPPORTED when the driver has no tensor maps or the copy engine cannot take the tensor: the message names it
 * `name`. */
weft_status weft_tensor_map_make(const weft_cuda_driver *driver, const char *name, const weft_tensor_view *view,
                                 weft_tensor_map *map, weft_message *message);

/* Whether the copy engine can step through a tensor of an attention: from row to row, head to head and batch to batch by
 * multiples of 16 bytes, for elements of 2, and not by 0. */
weft_status weft_tensor_check_strides(const char *name, const weft_strides *strides, int64_t batch, int64_t seq,
                                      int64_t heads, weft_message *why);

#endif
