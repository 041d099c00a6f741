/* SPDX-License-Identifier: Apache-2.0 */
#include "counters/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/environment.h"
#include "base/status.h"

/* dlsym gives an object pointer; POSIX says that its bits are the function's. */
static int find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static weft_status load(weft_nvml *nvml, weft_message *message) {
    const char *path = weft_environment(WEFT_VARIABLE_NVML), *missing = NULL;
    nvml->library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        const char *reason = dlerror();
        return weft_fail(message, WEFT_NOT_FOUND, "energy needs NVML, which comes with the driver: %.160s",
                         reason ? reason : "libnvidia-ml.so.1 does not load");
    }
    missing = find(nvml->library, "nvmlErrorString", &nvml->error_text) ? missing : "nvmlErrorString";
#define SYMBOL(field, name, parameters) missing = find(nvml->library, name, &nvml->field) ? missing : name;
#include "counters/nvml_symbols.def"
#undef SYMBOL
    return missing ? weft_fail(message, WEFT_UNSUPPORTED, "NVML has no %s: it is too old, or not NVML", missing) : WEFT_OK;
}

weft_status weft_nvml_find(weft_message *message) {
    weft_nvml nvml = {0};
    const weft_status status = load(&nvml, message);
    if (nvml.library) {
        dlclose(nvml.library);
    }
    return status;
}

static const char *text_of(const weft_nvml *nvml, int result) {
    const char *text = nvml->error_text(result);
    return text ? text : "unknown error";
}

weft_status weft_nvml_energy(const weft_nvml *nvml, double *joules, weft_message *message) {
    unsigned long long millijoules = 0;
    const int result = nvml->energy(nvml->device, &millijoules);
    *joules = 1e-3 * (double)millijoules;
    return result ? weft_fail(message, WEFT_FAILED, "NVML could not read the energy counter: %.80s (%d)",
                              text_of(nvml, result), result)
                  : WEFT_OK;
}

/* Once NVML has started. */
static weft_status take_device(weft_nvml *nvml, const char *name, const char *bus, weft_message *message) {
    unsigned long long unused;
    int result = nvml->device_by_bus(bus, &nvml->device);
    if (result) {
        return weft_fail(message, result == WEFT_NVML_NOT_FOUND ? WEFT_NOT_FOUND : WEFT_FAILED,
                         "NVML does not find %.60s at PCI bus id %.20s: %.80s (%d)", name, bus, text_of(nvml, result),
                         result);
    }
    result = nvml->energy(nvml->device, &unused);
    return result ? weft_fail(message, result == WEFT_NVML_NOT_SUPPORTED ? WEFT_UNSUPPORTED : WEFT_FAILED,
                              "%.60s has no energy counter that NVML can read: %.80s (%d)", name, text_of(nvml, result),
                              result)
                  : WEFT_OK;
}

static void unload(weft_nvml *nvml) {
    if (nvml->library) {
        dlclose(nvml->library);
    }
    memset(nvml, 0, sizeof *nvml);
}

weft_status weft_nvml_open(weft_nvml *nvml, const char *name, const char *bus, weft_message *message) {
    memset(nvml, 0, sizeof *nvml);
    weft_status status = load(nvml, message);
    const int result = status ? 0 : nvml->init();
    if (result) {
        status = weft_fail(message, WEFT_FAILED, "NVML does not start: %.80s (%d)", text_of(nvml, result), result);
    }
    if (status) {
        unload(nvml);
        return status;
    }
    status = take_device(nvml, name, bus, message);
    if (status) {
        weft_nvml_close(nvml);
    }
    return status;
}

void weft_nvml_close(weft_nvml *nvml) {
    if (nvml->library) {
        nvml->shutdown();
    }
    unload(nvml);
}
