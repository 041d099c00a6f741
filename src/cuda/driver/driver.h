/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, found at run time: nothing of CUDA is linked, so one library serves machines with and without a GPU. */
#ifndef WEFT_CUDA_DRIVER_DRIVER_H
#define WEFT_CUDA_DRIVER_DRIVER_H

#include <weft/weft.h>

/* The CUDA version that compiled this build's kernels (13000 for 13.0); 0: none. Written by cmake/kernels.cmake. */
extern const int weft_cuda_toolkit;

typedef int weft_cu_result; /* a CUresult */

/* The results and attributes that weft looks at, numbered as in cuda.h. */
enum {
    WEFT_CU_OUT_OF_MEMORY = 2,
    WEFT_CU_STUB_LIBRARY = 34,
    WEFT_CU_NO_DEVICE = 100,
    WEFT_CU_INVALID_IMAGE = 200,
    WEFT_CU_NO_BINARY_FOR_GPU = 209,
    WEFT_CU_UNSUPPORTED_PTX_VERSION = 222,
    WEFT_CU_NOT_READY = 600,
    WEFT_CU_COOPERATIVE_TOO_LARGE = 720,
    WEFT_CU_NOT_SUPPORTED = 801,

    WEFT_CU_DEVICE_CLOCK_RATE = 13, /* kHz */
    WEFT_CU_DEVICE_MULTIPROCESSOR_COUNT = 16,
    WEFT_CU_DEVICE_MEMORY_CLOCK_RATE = 36,       /* kHz */
    WEFT_CU_DEVICE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
    WEFT_CU_DEVICE_L2_CACHE_SIZE = 38,
    WEFT_CU_DEVICE_CAPABILITY_MAJOR = 75,
    WEFT_CU_DEVICE_CAPABILITY_MINOR = 76,
    WEFT_CU_DEVICE_PAGEABLE_MEMORY_ACCESS = 88,
    WEFT_CU_DEVICE_MAX_SHARED_MEMORY_OPTIN = 97,

    WEFT_CU_FUNCTION_SHARED = 1,
    WEFT_CU_FUNCTION_LOCAL_BYTES = 3,
    WEFT_CU_FUNCTION_REGISTERS = 4,
    WEFT_CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,

    WEFT_CU_POINTER_MEMORY_TYPE = 2,
    WEFT_CU_POINTER_DEVICE_ORDINAL = 9,
    WEFT_CU_MEMORY_HOST = 1, /* a CUmemorytype; 0 where CUDA does not know the pointer */
    WEFT_CU_MEMORY_DEVICE = 2,

    WEFT_CU_CAPTURE_NONE = 0,    /* a CUstreamCaptureStatus */
    WEFT_CU_CAPTURE_RELAXED = 2, /* a CUstreamCaptureMode */
    WEFT_CU_NODE_KERNEL = 0,     /* a CUgraphNodeType */

    WEFT_CU_EVENT_UNTIMED = 2,

    WEFT_CU_HOST_MAPPED = 2, /* pinned memory that GPUs can reach */

    WEFT_CU_STREAM_NON_BLOCKING = 1 /* of its own: neither it nor the default stream waits for the other */
};

/* A CUlaunchConfig and its attributes. */
enum { WEFT_CU_LAUNCH_COOPERATIVE = 2, WEFT_CU_LAUNCH_CLUSTER = 4, WEFT_CU_LAUNCH_OVERLAP = 6 };

typedef struct weft_cu_launch_attribute {
    int id;
    uint32_t value[16] __attribute__((aligned(8))); /* of a cluster: CTAs along x, y, z; of an overlap: 1 */
} weft_cu_launch_attribute;

typedef struct weft_cu_launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    const weft_cu_launch_attribute *attributes;
    unsigned count;
} weft_cu_launch;

/* A CUDA_MEMCPY2D: rows of memory, from one place to another. */
typedef struct weft_cu_place {
    size_t x, y;
    int type; /* a CUmemorytype */
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
} weft_cu_place;

typedef struct weft_cu_copy {
    weft_cu_place from, to;
    size_t width, rows;
} weft_cu_copy;

/* The entry points: the rows of symbols.def. */
typedef struct weft_cuda_driver {
#define WEFT_CUDA_SYMBOL(NEED, field, symbol, parameters) weft_cu_result(*field) parameters;
#include "cuda/driver/symbols.def"
#undef WEFT_CUDA_SYMBOL
    int release; /* what cuDriverGetVersion says: 13000 for CUDA 13.0 */
} weft_cuda_driver;

/* The driver, loaded and started by the first call that succeeds; later calls return the same. The library is libcuda.so.1,
 * or what the environment variable WEFT_CUDA_DRIVER names.
 *
 * WEFT_NOT_FOUND when there is no driver or no GPU, WEFT_UNSUPPORTED when the driver is too old, WEFT_FAILED when it does
 * not start. */
weft_status weft_cuda_driver_get(const weft_cuda_driver **driver, weft_message *message);

/* Says what the driver answered: "<what>: <text> (<NAME>)". WEFT_NO_MEMORY when memory ran out, else WEFT_FAILED. */
weft_status weft_cuda_fail(const weft_cuda_driver *driver, weft_cu_result result, const char *what, weft_message *message);

/* A GPU, as the driver describes it. */
typedef struct weft_cuda_device {
    int index, handle; /* its number for the caller, and the driver's */
    int capability;    /* 10 major + minor: 90 is 9.0 */
    int multiprocessors;
    int l2_bytes;
    int shared_bytes;     /* that a CTA can have, when it asks for it */
    int clock;            /* kHz */
    int memory_clock;     /* kHz, two transfers a cycle; 0 where the driver does not tell */
    int memory_bus;       /* bits; 0 where the driver does not tell */
    int reads_any_memory; /* whether it can read memory that CUDA does not know, as the host allocates it */
    size_t memory_bytes;
    char name[96];
} weft_cuda_device;

/* WEFT_NOT_FOUND when there is no such device. */
weft_status weft_cuda_device_get(const weft_cuda_driver *driver, int index, weft_cuda_device *device,
                                 weft_message *message);

/* Makes `context` current, if it is not already: *pushed says whether weft_cuda_leave() has something to undo. */
weft_status weft_cuda_enter(const weft_cuda_driver *driver, void *context, int *pushed, weft_message *message);
void weft_cuda_leave(const weft_cuda_driver *driver, int pushed);

/* While any thread captures a stream, calls such as those that allocate fail and end its capture, because they might wait
 * for what it captures. weft's do not: between these two the calling thread may make them. What it does there goes on
 * streams of weft's own, since the default stream may be part of the capture. Returns what weft_cuda_restore() takes. */
int weft_cuda_relax(const weft_cuda_driver *driver);
void weft_cuda_restore(const weft_cuda_driver *driver, int mode);

/* Copies to the GPU, on a stream of its own, and waits for it. */
weft_cu_result weft_cuda_copy_in(const weft_cuda_driver *driver, uint64_t to, const void *from, size_t bytes);

#endif
