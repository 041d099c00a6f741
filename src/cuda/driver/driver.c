/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/environment.h"
#include "base/status.h"

/* cuLibraryLoadData came with CUDA 12.0; what a toolkit compiles needs a driver of its own generation. */
static int oldest_release(void) {
    const int toolkit = weft_cuda_toolkit / 1000 * 1000;
    return toolkit > 12000 ? toolkit : 12000;
}

static weft_status fail_old(int release, weft_message *message) {
    const int oldest = oldest_release();
    return weft_fail(message, WEFT_UNSUPPORTED,
                     "the CUDA driver is too old: it is for CUDA %d.%d, and weft needs one for %d.%d or newer",
                     release / 1000, release % 1000 / 10, oldest / 1000, oldest % 1000 / 10);
}

/* Fills the struct; returns the name of a required entry point that is missing, or null. */
static const char *fill(weft_cuda_driver *driver, void *library) {
    const char *missing = NULL;
#define WEFT_CUDA_REQUIRED 1
#define WEFT_CUDA_OPTIONAL 0
#define WEFT_CUDA_SYMBOL(NEED, field, symbol, parameters)                                                                  \
    *(void **)(&driver->field) = dlsym(library, #symbol);                                                                  \
    if (WEFT_CUDA_##NEED && !driver->field && !missing) {                                                                  \
        missing = #symbol;                                                                                                 \
    }
#include "cuda/driver/symbols.def"
#undef WEFT_CUDA_SYMBOL
#undef WEFT_CUDA_REQUIRED
#undef WEFT_CUDA_OPTIONAL
    return missing;
}

static weft_status start(weft_cuda_driver *driver, weft_message *message) {
    const weft_cu_result result = driver->init(0);
    int count = 0;
    if (result == WEFT_CU_NO_DEVICE || (result == 0 && driver->device_count(&count) == 0 && count == 0)) {
        return weft_fail(message, WEFT_NOT_FOUND, "no GPU: the CUDA driver is here and finds no device");
    }
    if (result == WEFT_CU_STUB_LIBRARY) {
        return weft_fail(message, WEFT_NOT_FOUND, "no CUDA driver: the libcuda found here is a toolkit's stub");
    }
    return result ? weft_cuda_fail(driver, result, "the CUDA driver does not start", message) : WEFT_OK;
}

static weft_status load(weft_cuda_driver *driver, weft_message *message) {
    const char *wanted = weft_environment(WEFT_VARIABLE_CUDA_DRIVER);
    void *library = dlopen(wanted ? wanted : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        return weft_fail(message, WEFT_NOT_FOUND, "no CUDA driver: %.180s", reason ? reason : "libcuda.so.1 does not load");
    }
    weft_status status = WEFT_OK;
    const char *missing = fill(driver, library);
    driver->release = 0;
    if (driver->version && driver->version(&driver->release) == 0 && driver->release < oldest_release()) {
        status = fail_old(driver->release, message);
    } else if (missing) {
        status =
            weft_fail(message, WEFT_UNSUPPORTED, "the CUDA driver has no %s: it is too old, or not a CUDA driver", missing);
    } else {
        status = start(driver, message);
    }
    if (status) {
        dlclose(library);
    }
    return status;
}

weft_status weft_cuda_driver_get(const weft_cuda_driver **driver, weft_message *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static weft_cuda_driver shared; /* written once, under the lock */
    static int loaded;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (!loaded) {
        status = load(&shared, message);
        loaded = status == WEFT_OK;
    }
    pthread_mutex_unlock(&lock);
    *driver = status ? NULL : &shared;
    return status;
}

weft_status weft_cuda_fail(const weft_cuda_driver *driver, weft_cu_result result, const char *what, weft_message *message) {
    const char *name = NULL, *text = NULL;
    driver->error_name(result, &name);
    driver->error_text(result, &text);
    return weft_fail(message, result == WEFT_CU_OUT_OF_MEMORY ? WEFT_NO_MEMORY : WEFT_FAILED, "%s: %s (%s)", what,
                     text ? text : "unknown error", name ? name : "no name");
}

/* The highest clocks, where the driver tells. It asks the device for them, which takes much longer than other attributes:
 * once is enough. */
static void ask_clocks(const weft_cuda_driver *driver, weft_cuda_device *device) {
    enum { DEVICES = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct { int clock, memory_clock, known; } clocks[DEVICES];
    const int is_kept = device->index < DEVICES;
    pthread_mutex_lock(&lock);
    if (is_kept && clocks[device->index].known) {
        device->clock = clocks[device->index].clock;
        device->memory_clock = clocks[device->index].memory_clock;
    } else {
        (void)driver->device_attribute(&device->clock, WEFT_CU_DEVICE_CLOCK_RATE, device->handle);
        (void)driver->device_attribute(&device->memory_clock, WEFT_CU_DEVICE_MEMORY_CLOCK_RATE, device->handle);
    }
    if (is_kept) {
        clocks[device->index].clock = device->clock;
        clocks[device->index].memory_clock = device->memory_clock;
        clocks[device->index].known = 1;
    }
    pthread_mutex_unlock(&lock);
}

weft_status weft_cuda_device_get(const weft_cuda_driver *driver, int index, weft_cuda_device *device,
                                 weft_message *message) {
    int count = 0, major = 0, minor = 0;
    weft_cu_result result = driver->device_count(&count);
    memset(device, 0, sizeof *device);
    if (result == 0 && (index < 0 || index >= count)) {
        return weft_fail(message, WEFT_NOT_FOUND, "no GPU %d: there %s %d", index, count == 1 ? "is" : "are", count);
    }
    device->index = index;
    const struct {
        int attribute, *value, needed;
    } wanted[] = {{WEFT_CU_DEVICE_CAPABILITY_MAJOR, &major, 1},
                  {WEFT_CU_DEVICE_CAPABILITY_MINOR, &minor, 1},
                  {WEFT_CU_DEVICE_MULTIPROCESSOR_COUNT, &device->multiprocessors, 1},
                  {WEFT_CU_DEVICE_L2_CACHE_SIZE, &device->l2_bytes, 1},
                  {WEFT_CU_DEVICE_MAX_SHARED_MEMORY_OPTIN, &device->shared_bytes, 1},
                  {WEFT_CU_DEVICE_GLOBAL_MEMORY_BUS_WIDTH, &device->memory_bus, 0},
                  {WEFT_CU_DEVICE_PAGEABLE_MEMORY_ACCESS, &device->reads_any_memory, 0}};
    result = result ? result : driver->device_get(&device->handle, index);
    result = result ? result : driver->device_name(device->name, (int)sizeof device->name, device->handle);
    result = result ? result : driver->device_memory(&device->memory_bytes, device->handle);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !result; i++) {
        const weft_cu_result answer = driver->device_attribute(wanted[i].value, wanted[i].attribute, device->handle);
        result = wanted[i].needed ? answer : 0;
    }
    device->capability = 10 * major + minor;
    if (result == 0) {
        ask_clocks(driver, device);
    }
    return result ? weft_cuda_fail(driver, result, "the CUDA driver does not describe the GPU", message) : WEFT_OK;
}

weft_status weft_cuda_enter(const weft_cuda_driver *driver, void *context, int *pushed, weft_message *message) {
    void *current = NULL;
    *pushed = 0;
    weft_cu_result result = driver->context_current(&current);
    if (result == 0 && current != context) {
        /* A context that was destroyed can be pushed, but a driver that is to pop it crashes. */
        unsigned long long id;
        result = driver->context_id ? driver->context_id(context, &id) : 0;
        result = result ? result : driver->context_push(context);
        *pushed = result == 0;
    }
    return result ? weft_cuda_fail(driver, result, "the GPU's context cannot be used", message) : WEFT_OK;
}

void weft_cuda_leave(const weft_cuda_driver *driver, int pushed) {
    void *context;
    if (pushed) {
        driver->context_pop(&context);
    }
}

int weft_cuda_relax(const weft_cuda_driver *driver) {
    int mode = WEFT_CU_CAPTURE_RELAXED;
    return driver->capture_mode(&mode) == 0 ? mode : WEFT_CU_CAPTURE_RELAXED; /* the mode before */
}

void weft_cuda_restore(const weft_cuda_driver *driver, int mode) {
    if (mode != WEFT_CU_CAPTURE_RELAXED) {
        driver->capture_mode(&mode);
    }
}

weft_cu_result weft_cuda_copy_in(const weft_cuda_driver *driver, uint64_t to, const void *from, size_t bytes) {
    void *stream;
    weft_cu_result result = driver->stream_new(&stream, WEFT_CU_STREAM_NON_BLOCKING);
    if (result) {
        return result;
    }
    result = driver->copy_in_async(to, from, bytes, stream);
    result = result ? result : driver->stream_synchronize(stream);
    driver->stream_free(stream);
    return result;
}

int32_t weft_cuda_version(void) {
    return weft_cuda_toolkit;
}
