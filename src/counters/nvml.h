/* SPDX-License-Identifier: Apache-2.0 */
/* The energy counter of a GPU, through NVML, which comes with the driver and is loaded when it is first asked for. */
#ifndef WEFT_COUNTERS_NVML_H
#define WEFT_COUNTERS_NVML_H

#include <weft/weft.h>

enum { WEFT_NVML_NOT_SUPPORTED = 3, WEFT_NVML_NOT_FOUND = 6 };

typedef struct weft_nvml {
    void *library; /* null: not open */
    void *device;
    const char *(*error_text)(int result);
#define SYMBOL(field, name, parameters) int(*field) parameters;
#include "counters/nvml_symbols.def"
#undef SYMBOL
} weft_nvml;

/* Finds the GPU with a name and a PCI bus id ("0000:17:00.0"), and reads its counter once. WEFT_NVML in the environment
 * names another library. On failure nothing is open, and the status is
 *   WEFT_NOT_FOUND    there is no NVML, or it does not know the GPU
 *   WEFT_UNSUPPORTED  NVML is too old, or the GPU has no such counter */
weft_status weft_nvml_open(weft_nvml *nvml, const char *name, const char *bus, weft_message *message);

/* Joules that the GPU has used since the driver was loaded. The counter moves every 20 to 100 ms. */
weft_status weft_nvml_energy(const weft_nvml *nvml, double *joules, weft_message *message);

/* What is not open may be closed. */
void weft_nvml_close(weft_nvml *nvml);

/* Whether there is an NVML with all that is needed; no GPU is asked. */
weft_status weft_nvml_find(weft_message *message);

#endif
