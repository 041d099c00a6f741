/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_driver.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver/driver.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/params.h"
#include "cuda/study/params.h"
#include "fake_streams.h"

#define EXPORT __attribute__((visibility("default")))

/* The prototypes come from the list that the library is loaded by, so the two cannot differ. */
#define WEFT_CUDA_SYMBOL(NEED, field, symbol, parameters) EXPORT int symbol parameters;
#include "cuda/driver/symbols.def"
#undef WEFT_CUDA_SYMBOL

EXPORT fake_counts fake_cuda_counts;
EXPORT fake_fault fake_cuda_fault;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local void *stack[16]; /* current contexts, the last on top */
static _Thread_local int depth;
static _Thread_local int capture_mode; /* a CUstreamCaptureMode: global at first */

int fake_script(const char *word, int otherwise) {
    const char *text = getenv("FAKE_CUDA"), *found = text;
    const size_t length = strlen(word);
    while (found && (found = strstr(found, word))) {
        if ((found == text || found[-1] == ' ') && found[length] == '=') {
            return atoi(found + length + 1);
        }
        found += length;
    }
    return otherwise;
}

typedef struct chip {
    const char *machine, *name;
    int capability, sms, shared, l2, clock;
} chip;

static const chip chips[] = {
#define FAKE_CHIP(...) {__VA_ARGS__},
#include "fake_chips.def"
#undef FAKE_CHIP
};
enum { CHIPS = sizeof chips / sizeof *chips, FIRST_HANDLE = 40 };

/* The GPU of a handle, as it is scripted. */
static chip chip_of(int device) {
    static const chip usual = {"h200", "NVIDIA Fake H200", 90, 12, 227 << 10, 6 << 20, 1980000};
    chip c = fake_script("chips", 0) ? chips[(device - FIRST_HANDLE) % CHIPS] : usual;
    c.capability = fake_script("capability", c.capability);
    c.sms = fake_script("sms", c.sms);
    c.shared = fake_script("shared", c.shared);
    c.l2 = fake_script("l2", c.l2);
    return c;
}

/* The GPU of the current context; contexts are addresses here. */
static char contexts[64];

static int current_device(void) {
    const char *top = depth ? stack[depth - 1] : NULL;
    return top >= contexts && top < contexts + sizeof contexts ? (int)(top - contexts) : FIRST_HANDLE;
}

static void count(int *what, int by) {
    __atomic_fetch_add(what, by, __ATOMIC_SEQ_CST);
}

/* Work that a GPU does later: whatever becomes of it is told by a later call. */
static int is_work(const char *name) {
    return strncmp(name, "cuLaunch", 8) == 0 || strstr(name, "Async");
}

/* Counts a call. Returns what it is to fail with; 0: nothing; -1: it does nothing and says that all is well. */
static int fake_call(const char *name) {
    fake_fault *f = &fake_cuda_fault;
    const int number = __atomic_add_fetch(&f->calls, 1, __ATOMIC_SEQ_CST);
    const int hit = f->at && (f->on ? number >= f->at : number == f->at);
    if (f->pending) {
        return f->pending;
    }
    if (!hit || (f->later && !is_work(name))) {
        return 0;
    }
    f->failed = f->failed ? f->failed : name;
    f->pending = f->later ? f->error : 0;
    return f->later ? -1 : f->error;
}

/* What releases something does so, and says what is wrong all the same. */
static int fake_released(const char *name, int result) {
    const int fault = fake_call(name);
    return fault > 0 ? fault : result;
}

#define FAKE_CALL                                                                                                          \
    do {                                                                                                                   \
        const int fault_of_call = fake_call(__func__);                                                                     \
        if (fault_of_call) {                                                                                               \
            return fault_of_call > 0 ? fault_of_call : 0;                                                                  \
        }                                                                                                                  \
    } while (0)

/* What a call that may wait for others says while a stream is captured: it ends the capture, unless the thread has said
 * that it knows better. */
static int unsafe(void) {
    const int ends = fake_script("capturing", 0) && capture_mode != WEFT_CU_CAPTURE_RELAXED;
    count(&fake_cuda_counts.captures_ended, ends);
    return ends ? 900 : 0;
}

/* What work on a stream says: the default one would wait for the captured one, whatever the mode. */
static int on_stream(const void *stream) {
    const int ends = fake_script("capturing", 0) && !stream;
    count(&fake_cuda_counts.captures_ended, ends);
    return ends ? 906 : 0;
}

int cuInit(unsigned flags) {
    FAKE_CALL;
    (void)flags;
    return fake_script("init", 0);
}

int cuDriverGetVersion(int *version) {
    FAKE_CALL;
    *version = fake_script("version", 13000);
    return 0;
}

int cuGetErrorName(int result, const char **text) {
    *text = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                            : "CUDA_ERROR_SCRIPTED";
    return 0;
}

int cuGetErrorString(int result, const char **text) {
    *text = result == 2 ? "out of memory" : "as scripted";
    return 0;
}

int cuDeviceGetCount(int *number) {
    FAKE_CALL;
    *number = fake_script("devices", fake_script("chips", 0) ? CHIPS : 1);
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    FAKE_CALL;
    *device = FIRST_HANDLE + ordinal; /* a handle need not be the number */
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    FAKE_CALL;
    snprintf(name, (size_t)size, "%s", chip_of(device).name);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    FAKE_CALL;
    const chip c = chip_of(device);
    switch (attribute) {
    case WEFT_CU_DEVICE_CAPABILITY_MAJOR:
        *value = c.capability / 10;
        return 0;
    case WEFT_CU_DEVICE_CAPABILITY_MINOR:
        *value = c.capability % 10;
        return 0;
    case WEFT_CU_DEVICE_MULTIPROCESSOR_COUNT:
        *value = c.sms;
        return 0;
    case WEFT_CU_DEVICE_L2_CACHE_SIZE:
        *value = c.l2;
        return 0;
    case WEFT_CU_DEVICE_MAX_SHARED_MEMORY_OPTIN:
        *value = c.shared;
        return 0;
    case WEFT_CU_DEVICE_CLOCK_RATE:
        count(&fake_cuda_counts.clock_questions, 1);
        *value = c.clock;
        return 0;
    case WEFT_CU_DEVICE_PAGEABLE_MEMORY_ACCESS:
        *value = 0;
        return 0;
    default:
        *value = 0;
        return 1; /* as a driver that does not know the attribute */
    }
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    FAKE_CALL;
    (void)device;
    *bytes = (size_t)1 << 30;
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) {
    FAKE_CALL;
    snprintf(text, (size_t)size, "0000:%02x:00.0", 0x17 + device - FIRST_HANDLE);
    return fake_script("bus", 0);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    FAKE_CALL;
    count(&fake_cuda_counts.contexts, 1);
    *context = &contexts[device % (int)sizeof contexts];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    count(&fake_cuda_counts.contexts, -1);
    return fake_released(__func__, 0);
}

int cuCtxGetCurrent(void **context) {
    FAKE_CALL;
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}

int cuCtxGetDevice(int *device) {
    FAKE_CALL;
    *device = current_device();
    return depth ? 0 : 201;
}

int cuCtxGetId(void *context, unsigned long long *id) {
    FAKE_CALL;
    *id = (unsigned long long)(uintptr_t)context;
    return fake_script("destroyed", 0) ? 709 : 0;
}

int cuCtxPushCurrent_v2(void *context) {
    FAKE_CALL;
    if (depth == 16 || fake_script("push", 0)) {
        return fake_script("push", 1);
    }
    stack[depth++] = context;
    count(&fake_cuda_counts.pushed, 1);
    return 0;
}

int cuCtxPopCurrent_v2(void **context) {
    if (depth == 0) {
        return fake_released(__func__, 201);
    }
    *context = stack[--depth];
    count(&fake_cuda_counts.pushed, -1);
    return fake_released(__func__, 0);
}

int cuCtxSynchronize(void) {
    FAKE_CALL;
    const int result = on_stream(NULL);
    return result ? result : fake_script("synchronize", 0);
}

int cuLibraryLoadData(void **library, const void *code, int *jit_options, void **jit_values, unsigned jit_count,
                      int *options, void **values, unsigned number) {
    FAKE_CALL;
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)number;
    const struct timespec while_ = {0, 2000000}; /* long enough for other threads to come by */
    nanosleep(&while_, NULL);
    const int result = unsafe();
    if (result || fake_script("load", 0)) {
        return result ? result : fake_script("load", 0);
    }
    count(&fake_cuda_counts.library_loads, 1);
    memcpy(library, &code, sizeof code);
    return 0;
}

/* A kernel is its name, kept for good, and the chip that its image is for: 90, or 0 for every one. */
static struct {
    char *name;
    int chip;
} kernels[256];

int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
    FAKE_CALL;
    int result = library ? fake_script("kernel", 0) : 1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < 256 && !result; i++) {
        if (!kernels[i].name) {
            kernels[i].name = strdup(name);
            kernels[i].chip = strstr(library, "_sm90a") ? 90 : 0; /* an image is its name: see fake_images.h */
        }
        if (strcmp(kernels[i].name, name) == 0) {
            *kernel = kernels[i].name;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* As the driver, no kernel of another chip. */
int cuKernelGetFunction(void **function, void *kernel) {
    FAKE_CALL;
    int chip = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < 256 && kernels[i].name; i++) {
        chip = kernels[i].name == kernel ? kernels[i].chip : chip;
    }
    pthread_mutex_unlock(&lock);
    *function = kernel;
    return !depth ? 201 : chip && chip != chip_of(current_device()).capability ? 209 : 0;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
    FAKE_CALL;
    (void)attribute, (void)function;
    *value = 0;
    return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
    FAKE_CALL;
    (void)function, (void)attribute;
    return value <= chip_of(current_device()).shared ? 0 : 1;
}

int cuFuncLoad(void *function) {
    FAKE_CALL;
    const int result = unsafe();
    return result ? result : function ? 0 : 1;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ctas, void *function, int threads, size_t shared) {
    FAKE_CALL;
    (void)function;
    const size_t all = (size_t)chip_of(current_device()).shared + 1024; /* of an SM, which keeps 1 KiB for each CTA */
    const int by_shared = (int)(all / (shared + 1024)), by_threads = threads > 512 ? 1 : 512 / threads;
    *ctas = by_shared < by_threads ? by_shared : by_threads;
    return 0;
}

typedef struct kernel_run {
    const char *function;
    unsigned grid;
    _Alignas(64) char parameters[WEFT_CUDA_MAX_PARAMETERS];
} kernel_run;

static int run_kernel(void *self) {
    kernel_run *r = self;
    void *parameters[] = {r->parameters};
    if (fake_run(r->function, r->grid, parameters)) {
        abort(); /* nobody asks a stream what has become of a kernel */
    }
    return 1;
}

/* Kernels of plans run when their stream comes to them: their parameters are so large. Others wait for the stream. */
static int launch(const char *function, unsigned grid, void *stream, void **parameters) {
    kernel_run r = {.function = function, .grid = grid};
    if (!stream || !fake_script("lazy", 0) || (strncmp(function, "attention_", 10) && strncmp(function, "combine_", 8))) {
        fake_stream_wait(stream);
        return fake_run(function, grid, parameters);
    }
    memcpy(r.parameters, parameters[0], sizeof r.parameters);
    fake_stream_add(stream, run_kernel, &r, sizeof r);
    return 0;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
    FAKE_CALL;
    (void)extra;
    const int result = on_stream(stream);
    if (result || fake_script("launch", 0)) {
        return result ? result : fake_script("launch", 0);
    }
    if (!depth || grid_y * grid_z * block_y * block_z != 1 || grid_x < 1 || block_x < 1 ||
        shared > (unsigned)chip_of(current_device()).shared) {
        return 1;
    }
    count(&fake_cuda_counts.launches, 1);
    if (strncmp(function, "attention_", 10) == 0) {
        const weft_study_params *p = parameters[0];
        const weft_hopper_attention_params *hopper = parameters[0];
        fake_cuda_counts.last_counter = (uint64_t)(uintptr_t)(strstr(function, "__hopper") ? hopper->counter : p->counter);
    }
    return launch(function, grid_x, stream, parameters);
}

int cuLaunchCooperativeKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters) {
    FAKE_CALL;
    return fake_script("cooperative", 0) ? fake_script("cooperative", 0)
                                         : cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                                          shared, stream, parameters, NULL);
}

int cuLaunchKernelEx(const void *launch, void *function, void **parameters, void **extra) {
    FAKE_CALL;
    const weft_cu_launch *l = launch;
    for (unsigned i = 0; i < l->count; i++) {
        if ((l->attributes[i].id == WEFT_CU_LAUNCH_OVERLAP || l->attributes[i].id == WEFT_CU_LAUNCH_CLUSTER) &&
            chip_of(current_device()).capability < 90) {
            return WEFT_CU_NOT_SUPPORTED;
        }
        /* as a capture has it */
        if (l->attributes[i].id == WEFT_CU_LAUNCH_OVERLAP &&
            fake_script("node", WEFT_CU_NODE_KERNEL) != WEFT_CU_NODE_KERNEL) {
            return 1;
        }
        fake_cuda_counts.cooperative += l->attributes[i].id == WEFT_CU_LAUNCH_COOPERATIVE;
    }
    return cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared,
                          l->stream, parameters, extra);
}

/* Keeps what it is told, as far as the fake kernels look at it: see fake_tensor. */
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, uint64_t data, const uint64_t *lengths,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
                           int promotion, int fill) {
    FAKE_CALL;
    (void)steps, (void)promotion;
    fake_tensor t = {.data = data, .type = type, .rank = (int32_t)rank, .swizzle = swizzle};
    if (fake_script("tensor_map", 0)) {
        return fake_script("tensor_map", 0);
    }
    const uint32_t bytes = type == 0 ? 1 : type == 7 ? 4 : 2; /* of an element: UINT8, FLOAT32 */
    if (rank < 1 || rank > 5 || data % 16 != 0 || interleave || fill || (swizzle && box[0] * bytes > 16u << swizzle)) {
        return 1;
    }
    for (unsigned i = 0; i < rank; i++) {
        if (lengths[i] < 1 || box[i] < 1 || box[i] > 256 || (i > 0 && (strides[i - 1] == 0 || strides[i - 1] % 16 != 0))) {
            return 1;
        }
        t.length[i] = (int64_t)lengths[i];
        t.stride[i] = i > 0 ? (int64_t)strides[i - 1] : bytes;
        t.box[i] = (int32_t)box[i];
    }
    memcpy(map, &t, sizeof t);
    return 0;
}

/* Device memory is the host's; what was given out is known. */
typedef struct block {
    struct block *next;
    char *data;
    size_t bytes;
    int ordinal; /* of the GPU */
} block;
static block *blocks;

static int memory_new(uint64_t *pointer, size_t bytes) {
    block *b = fake_script("memory", 0) ? NULL : malloc(sizeof *b);
    void *data = NULL;
    const size_t most = (size_t)fake_script("room", 1 << 30);
    if (!b || bytes == 0 || bytes > most || posix_memalign(&data, 256, bytes)) {
        free(b);
        return fake_script("memory", 2);
    }
    memset(data, 0xa5, bytes);
    pthread_mutex_lock(&lock);
    *b = (block){blocks, data, bytes, current_device() - FIRST_HANDLE};
    blocks = b;
    pthread_mutex_unlock(&lock);
    count(&fake_cuda_counts.allocations, 1);
    *pointer = (uint64_t)(uintptr_t)data;
    return 0;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    FAKE_CALL;
    const int result = unsafe();
    return result ? result : memory_new(pointer, bytes);
}

/* The library does not call this; examples do. */
EXPORT int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags);
int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags) {
    return flags == 1 ? memory_new(pointer, bytes) : 1; /* 1: CU_MEM_ATTACH_GLOBAL */
}

int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream) {
    FAKE_CALL;
    const int result = on_stream(stream);
    return result ? result : memory_new(pointer, bytes);
}

static int memory_free(uint64_t pointer) {
    int result = 1;
    pthread_mutex_lock(&lock);
    for (block **at = &blocks; *at; at = &(*at)->next) {
        block *b = *at;
        if (b->data == (char *)(uintptr_t)pointer) {
            *at = b->next;
            free(b->data);
            free(b);
            count(&fake_cuda_counts.allocations, -1);
            result = 0;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int cuMemFree_v2(uint64_t pointer) {
    const int result = unsafe();
    return fake_released(__func__, result ? result : memory_free(pointer));
}

int cuMemFreeAsync(uint64_t pointer, void *stream) {
    const int result = on_stream(stream);
    return fake_released(__func__, result ? result : memory_free(pointer));
}

/* Without it where "pinned=0" says so, as an old driver might be. */
int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    FAKE_CALL;
    uint64_t address = 0;
    int result = unsafe();
    result = result ? result : flags == WEFT_CU_HOST_MAPPED && fake_script("pinned", 1) ? memory_new(&address, bytes) : 2;
    *pointer = (void *)(uintptr_t)address;
    return result;
}

int cuMemFreeHost(void *pointer) {
    const int result = unsafe();
    return fake_released(__func__, result ? result : memory_free((uint64_t)(uintptr_t)pointer));
}

int cuMemHostGetDevicePointer_v2(uint64_t *device, void *pointer, unsigned flags) {
    FAKE_CALL;
    *device = (uint64_t)(uintptr_t)pointer;
    return flags == 0 ? 0 : 1;
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    FAKE_CALL;
    *available = *total = (size_t)1 << 30;
    return 0;
}

typedef struct memory_work {
    char *to;
    const char *from; /* null: words are set */
    size_t to_pitch, from_pitch, width, rows;
    unsigned value;
} memory_work;

static int do_memory(void *self) {
    const memory_work *w = self;
    for (size_t row = 0; row < w->rows; row++) {
        if (w->from) {
            memcpy(w->to + row * w->to_pitch, w->from + row * w->from_pitch, w->width);
        }
        for (size_t i = 0; i < w->width / sizeof w->value && !w->from; i++) {
            memcpy(w->to + i * sizeof w->value, &w->value, sizeof w->value);
        }
    }
    return 1;
}

static int on_stream_do(memory_work w, void *stream) {
    const int result = on_stream(stream);
    if (result == 0) {
        fake_stream_add(stream, do_memory, &w, sizeof w);
    }
    return result;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    FAKE_CALL;
    return on_stream_do((memory_work){(char *)(uintptr_t)to, from, 0, 0, bytes, 1, 0}, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    FAKE_CALL;
    return on_stream_do((memory_work){to, (const char *)(uintptr_t)from, 0, 0, bytes, 1, 0}, stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    FAKE_CALL;
    return cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to, from, bytes, stream);
}

int cuMemcpy2DAsync_v2(const void *copy, void *stream) {
    FAKE_CALL;
    const weft_cu_copy *c = copy;
    if (c->from.type != WEFT_CU_MEMORY_DEVICE || c->to.type != WEFT_CU_MEMORY_DEVICE || c->from.pitch < c->width ||
        c->to.pitch < c->width) {
        return 1;
    }
    return on_stream_do((memory_work){(char *)(uintptr_t)c->to.device, (const char *)(uintptr_t)c->from.device, c->to.pitch,
                                      c->from.pitch, c->width, c->rows, 0},
                        stream);
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    FAKE_CALL;
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    FAKE_CALL;
    return cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t words, void *stream) {
    FAKE_CALL;
    const int result = on_stream_do(
        (memory_work){.to = (char *)(uintptr_t)to, .width = words * sizeof value, .rows = 1, .value = value}, stream);
    return result ? result : fake_script("set", 0);
}

int cuPointerGetAttributes(unsigned number, int *attributes, void **values, uint64_t pointer) {
    FAKE_CALL;
    int known = fake_script("anywhere", 0), ordinal = 0;
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b && !known; b = b->next) {
        known = pointer >= (uint64_t)(uintptr_t)b->data && pointer < (uint64_t)(uintptr_t)b->data + b->bytes;
        ordinal = b->ordinal;
    }
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < number; i++) {
        const int value = attributes[i] == WEFT_CU_POINTER_MEMORY_TYPE ? (known ? WEFT_CU_MEMORY_DEVICE : 0)
                          : known                                      ? fake_script("ordinal", ordinal)
                                                                       : -2;
        memcpy(values[i], &value, sizeof value);
    }
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) {
    FAKE_CALL;
    *stream = flags == WEFT_CU_STREAM_NON_BLOCKING && !fake_script("stream", 0) ? fake_stream_new() : NULL;
    count(&fake_cuda_counts.streams, *stream != NULL);
    return *stream ? 0 : 1;
}

int cuStreamDestroy_v2(void *stream) {
    count(&fake_cuda_counts.streams, -1);
    fake_stream_free(stream);
    return fake_released(__func__, 0);
}

int cuStreamQuery(void *stream) {
    FAKE_CALL;
    const int result = on_stream(stream);
    return result                    ? result
           : fake_script("query", 0) ? fake_script("query", 0)
                                     : (fake_stream_done(stream) ? 0 : WEFT_CU_NOT_READY);
}

int cuGraphNodeGetType(void *node, int *type) {
    FAKE_CALL;
    *type = fake_script("node", WEFT_CU_NODE_KERNEL);
    return node ? 0 : 1;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    FAKE_CALL;
    const int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}

int cuStreamGetId(void *stream, unsigned long long *id) {
    FAKE_CALL;
    *id = (unsigned long long)(uintptr_t)stream + 1;
    return fake_script("capture", 0) ? 900 : 0; /* as a real one */
}

int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, const void **nodes, size_t *number) {
    FAKE_CALL;
    (void)stream, (void)graph;
    static void *const node = &lock; /* the one before */
    if (nodes && number) {
        *nodes = &node;
        *number = 1;
    }
    *id = (uint64_t)fake_script("capture", 0);
    *status = *id != 0;
    return 0;
}

int cuStreamSynchronize(void *stream) {
    FAKE_CALL;
    const int result = on_stream(stream);
    if (!result) {
        fake_stream_wait(stream);
    }
    return result ? result : fake_script("synchronize", 0);
}

int cuEventCreate(void **event, unsigned flags) {
    FAKE_CALL;
    (void)flags;
    *event = fake_script("event", 0) ? NULL : fake_event_new();
    count(&fake_cuda_counts.events, *event != NULL);
    return *event ? 0 : 2;
}

/* A millisecond passes from one record to the next, so that times do not depend on the machine. */
int cuEventRecord(void *event, void *stream) {
    FAKE_CALL;
    if (on_stream(stream)) {
        return 906;
    }
    fake_event_record(event, stream);
    return fake_script("record", 0);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    FAKE_CALL;
    (void)flags;
    const int result = event ? on_stream(stream) : 1;
    if (!result) {
        fake_event_await(event, stream);
    }
    return result;
}

int cuEventQuery(void *event) {
    FAKE_CALL;
    const int result = fake_script("event_query", 0);
    return result ? result : fake_event_done(event) ? 0 : WEFT_CU_NOT_READY;
}

int cuEventSynchronize(void *event) {
    FAKE_CALL;
    while (!fake_event_done(event)) {
        sched_yield();
    }
    return fake_script("synchronize", 0);
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    FAKE_CALL;
    *milliseconds = (float)(fake_event_at(end) - fake_event_at(start));
    return 0;
}

int cuEventDestroy_v2(void *event) {
    count(&fake_cuda_counts.events, -1);
    fake_event_free(event);
    return fake_released(__func__, 0);
}
