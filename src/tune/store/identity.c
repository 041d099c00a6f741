#include "tune/store/identity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <weft/tune.h>

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

/* What the processor calls itself; where it has no name, its maker's number and its own. */
static void processor(char *name, size_t size) {
    char line[256], model[80] = "", maker[16] = "", part[16] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        (void)(take(line, "model name", model, sizeof model) || take(line, "CPU implementer", maker, sizeof maker) ||
               take(line, "CPU part", part, sizeof part));
    }
    if (file) {
        fclose(file);
    }
    if (model[0]) {
        snprintf(name, size, "%s", model);
    } else {
        snprintf(name, size, "CPU %s %s", maker[0] ? maker : "unknown", part);
    }
}

weft_status weft_tune_identify(const weft_plan *draft, char *device, size_t size, int32_t *driver, weft_message *message) {
    if (draft->device.kind == WEFT_DEVICE_CPU) {
        char name[80];
        processor(name, sizeof name);
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
