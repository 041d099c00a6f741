/* SPDX-License-Identifier: Apache-2.0 */
/* Loading CUPTI. */
#include "counters/cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/status.h"

/* By name, where the linker looks; then where CUDA's installers put it. */
static const char *const places[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                     "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/usr/local/cuda/lib64/libcupti.so"};
enum { PLACES = sizeof places / sizeof *places };

/* CUPTI hooks itself into the driver, so it stays mapped once it is loaded. */
static void *open_library(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* dlsym gives an object pointer; POSIX says that its bits are the function's. */
static int find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static weft_status resolve(weft_cupti *cupti, weft_message *message) {
    int (*version)(uint32_t *);
    if (!find(cupti->library, "cuptiGetVersion", &version) || version(&cupti->version) != WEFT_CUPTI_SUCCESS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "CUPTI does not say which version it is");
    }
    if (cupti->version < WEFT_CUPTI_OLDEST) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "CUPTI is version %u, and hardware counters need %d (CUDA 12.8) or later", cupti->version,
                         WEFT_CUPTI_OLDEST);
    }
    const char *missing = NULL;
    missing = find(cupti->library, "cuptiGetResultString", &cupti->result_string) ? missing : "cuptiGetResultString";
#define SYMBOL(field, name, type) missing = find(cupti->library, name, &cupti->field) ? missing : name;
#include "counters/cupti_symbols.def"
#undef SYMBOL
    if (missing) {
        return weft_fail(message, WEFT_UNSUPPORTED, "CUPTI version %u has no %s", cupti->version, missing);
    }
    return WEFT_OK;
}

weft_status weft_cupti_load(weft_cupti *cupti, const char *path, weft_message *message) {
    memset(cupti, 0, sizeof *cupti);
    path = path ? path : weft_environment(WEFT_VARIABLE_CUPTI);
    if (path) {
        cupti->library = open_library(path);
    }
    for (size_t i = 0; !path && !cupti->library && i < PLACES; i++) {
        cupti->library = open_library(places[i]);
    }
    if (!cupti->library) {
        return path ? weft_fail(message, WEFT_NOT_FOUND, "CUPTI is not at %.180s", path)
                    : weft_fail(
                          message, WEFT_NOT_FOUND,
                          "hardware counters need CUPTI (libcupti.so of CUDA 12.8 or later), which is not installed or not "
                          "in LD_LIBRARY_PATH");
    }
    const weft_status status = resolve(cupti, message);
    if (status) {
        weft_cupti_unload(cupti);
    }
    return status;
}

void weft_cupti_unload(weft_cupti *cupti) {
    if (cupti->library) {
        dlclose(cupti->library);
    }
    memset(cupti, 0, sizeof *cupti);
}

weft_status weft_cupti_check(const weft_cupti *cupti, int result, const char *doing, weft_message *message) {
    if (result == WEFT_CUPTI_SUCCESS) {
        return WEFT_OK;
    }
    if (result == WEFT_CUPTI_INSUFFICIENT_PRIVILEGES) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "the driver keeps hardware counters for the administrator: run as root, or load the nvidia module "
                         "with NVreg_RestrictProfilingToAdminUsers=0");
    }
    const char *text = NULL;
    if (cupti->result_string(result, &text) != WEFT_CUPTI_SUCCESS || !text) {
        text = "unknown";
    }
    return weft_fail(message, WEFT_UNSUPPORTED, "CUPTI could not %s: %.80s (%d)", doing, text, result);
}
