/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/nccl/library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/environment.h"
#include "base/status.h"

/* Fills the struct; returns the name of an entry point that is missing, or null. */
static const char *fill(weft_nccl_library *nccl, void *library) {
    const char *missing = NULL;
#define WEFT_NCCL_SYMBOL(result, field, symbol, parameters)                                                                \
    *(void **)(&nccl->field) = dlsym(library, #symbol);                                                                    \
    missing = nccl->field || missing ? missing : #symbol;
#include "dist/nccl/symbols.def"
#undef WEFT_NCCL_SYMBOL
    return missing;
}

static weft_status load(weft_nccl_library *nccl, weft_message *message) {
    const char *wanted = weft_environment(WEFT_VARIABLE_NCCL_LIBRARY);
    void *library = dlopen(wanted ? wanted : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        return weft_fail(message, WEFT_NOT_FOUND, "no NCCL: %.180s", reason ? reason : "libnccl.so.2 does not load");
    }
    weft_status status = WEFT_OK;
    const char *missing = fill(nccl, library);
    if (nccl->version && nccl->version(&nccl->release) == 0 && nccl->release < WEFT_NCCL_OLDEST) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "NCCL is too old: it is number %d, and weft needs %d (2.14) or newer",
                           nccl->release, WEFT_NCCL_OLDEST);
    } else if (missing) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "NCCL has no %s: it is too old, or not NCCL", missing);
    }
    if (status) {
        dlclose(library);
    }
    return status;
}

weft_status weft_nccl_library_get(const weft_nccl_library **library, weft_message *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static weft_nccl_library shared; /* written once, under the lock */
    static int loaded;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (!loaded) {
        status = load(&shared, message);
        loaded = status == WEFT_OK;
    }
    pthread_mutex_unlock(&lock);
    *library = status ? NULL : &shared;
    return status;
}

weft_status weft_nccl_fail(const weft_nccl_library *library, int result, const char *what, weft_message *message) {
    const char *text = library->error_text(result);
    return weft_fail(message, WEFT_FAILED, "%s: NCCL: %.160s", what, text ? text : "unknown error");
}

weft_status weft_nccl_id_make(weft_nccl_id *id, weft_message *message) {
    const weft_nccl_library *library;
    const weft_status status =
        id ? weft_nccl_library_get(&library, message) : weft_fail(message, WEFT_INVALID, "id is null");
    const int result = status ? 0 : library->id_make(id);
    return result ? weft_nccl_fail(library, result, "an id for ranks", message) : status;
}

weft_status weft_nccl_version(int32_t *version, weft_message *message) {
    const weft_nccl_library *library;
    const weft_status status =
        version ? weft_nccl_library_get(&library, message) : weft_fail(message, WEFT_INVALID, "version is null");
    if (!status) {
        *version = library->release;
    }
    return status;
}
