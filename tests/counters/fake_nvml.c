/* SPDX-License-Identifier: Apache-2.0 */
/* An NVML without a GPU, for the tests of energy: its GPUs are the fake CUDA driver's, and every launch takes JOULES of
 * them, so that nothing depends on how fast the machine is. The counter moves in steps, as a real one.
 *
 * Built twice: whole, and with FAKE_INCOMPLETE, without the counter. The environment variable FAKE_NVML is a list of words:
 *   init=E find=E energy=E   fail with nvmlReturn_t E
 *   still=1                  the counter does not move
 *   back=1                   it goes backwards
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda/fake_driver.h"
#include "fake_nvml.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);

static int started;

static int scripted(const char *word) {
    const char *text = getenv("FAKE_NVML"), *found = text ? strstr(text, word) : NULL;
    return found ? atoi(found + strlen(word)) : 0;
}

int nvmlInit_v2(void) {
    started++;
    return scripted("init=");
}

int nvmlShutdown(void) {
    started--;
    return started < 0;
}

const char *nvmlErrorString(int result) {
    return result == 3 ? "Not Supported" : result == 6 ? "Not Found" : "As Scripted";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    *device = &started;
    return !started ? 1 : strncmp(bus, "0000:17:00.0", 12) != 0 ? 6 : scripted("find=");
}

#ifndef FAKE_INCOMPLETE
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    const char *path = getenv("WEFT_CUDA_DRIVER");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    const fake_counts *counts = driver ? (const fake_counts *)dlsym(driver, "fake_cuda_counts") : NULL;
    const unsigned long long launches = counts ? (unsigned long long)counts->launches : 0;
    const unsigned long long steps = scripted("still=") ? 0 : launches / FAKE_STEP_LAUNCHES;
    *millijoules = 1000000000 + (scripted("back=") ? -steps : steps) * FAKE_STEP_LAUNCHES * FAKE_MILLIJOULES;
    if (driver) {
        dlclose(driver);
    }
    return device != &started || started < 1 ? 1 : scripted("energy=");
}
#endif
