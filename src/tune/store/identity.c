/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/store/identity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <weft/tune.h>

#include "base/file.h"
#include "base/status.h"
#include "cpu/thread/team.h"
#include "cuda/driver/driver.h"

/* Takes the value of a line "key   : value" of /proc/cpuinfo, if it is one. */
static int take(const char *line, const char *key, char *value, size_t size) {
    const size_t length = strlen(key);
    const char *colon = strchr(line, ':');
    if (strncmp(line, key, length) != 0 || !colon || value[0]) {
        return 0;
    }
    colon++;
    while (isspace((unsigned char)*colon)) {
        colon++;
    }
    snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    return 1;
}

/* What the processor calls itself; where it has no name, its maker's number and its own. The first processor's lines are
 * at the beginning. */
static weft_status processor(char *name, size_t size, weft_message *message) {
    char text[4096], model[80] = "", maker[16] = "", part[16] = "";
    int error = 0;
    weft_file_head("/proc/cpuinfo", text, sizeof text, &error);
    if (error) {
        return weft_fail(message, WEFT_IO, "/proc/cpuinfo: %s", strerror(error));
    }
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        (void)(take(line, "model name", model, sizeof model) || take(line, "CPU implementer", maker, sizeof maker) ||
               take(line, "CPU part", part, sizeof part));
    }
    if (model[0]) {
        snprintf(name, size, "%s", model);
    } else {
        snprintf(name, size, "CPU %s %s", maker[0] ? maker : "unknown", part);
    }
    return WEFT_OK;
}

weft_status weft_tune_identify(const weft_plan *draft, char *device, size_t size, int32_t *driver, weft_message *message) {
    if (draft->device.kind == WEFT_DEVICE_CPU) {
        char name[80];
        const weft_status status = processor(name, sizeof name, message);
        if (status) {
            return status;
        }
        *driver = 0;
        snprintf(device, size, "%s, %d threads, %s", name, (int)weft_cpu_threads(), draft->backend->kernel(draft));
        return WEFT_OK;
    }
    const weft_cuda_driver *cuda;
    weft_cuda_device found;
    weft_status status = weft_cuda_driver_get(&cuda, message);
    if (status == WEFT_OK && (status = weft_cuda_device_get(cuda, draft->device.index, &found, message)) == WEFT_OK) {
        *driver = cuda->release / 1000;
        snprintf(device, size, "%s, %d SMs", found.name, found.multiprocessors);
    }
    return status;
}
