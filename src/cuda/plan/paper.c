/* SPDX-License-Identifier: Apache-2.0 */
/* Chips that need not be here: what their driver would say of them. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"

enum { LARGEST_CLUSTER = 8 };

typedef struct chip {
    const char *name;
    int capability;
    int clusters[LARGEST_CLUSTER]; /* of 1, 2, ... CTAs that run at the same time */
} chip;

static const chip chips[] = {
#define WEFT_CUDA_CHIP(name, capability, ...) {name, capability, {__VA_ARGS__}},
#include "cuda/plan/chips.def"
#undef WEFT_CUDA_CHIP
};

static const chip *find(const char *name) {
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        if (strcmp(chips[i].name, name) == 0) {
            return &chips[i];
        }
    }
    return NULL;
}

/* A file may describe another chip under a name of the list: then the costs are not of that. */
int weft_cuda_knows(const weft_machine *machine) {
    const chip *c = find(machine->name);
    return c && machine->workers == c->clusters[0];
}

weft_status weft_cuda_device_on_paper(const weft_machine *machine, weft_cuda_device *device, weft_message *message) {
    if (!weft_cuda_knows(machine)) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the costs of kernels on %s are not known", machine->name);
    }
    *device = (weft_cuda_device){.capability = find(machine->name)->capability,
                                 .multiprocessors = (int)machine->workers,
                                 .l2_bytes = (int)(machine->l2_bytes * machine->domains),
                                 .shared_bytes = (int)machine->shared_bytes,
                                 .clock = (int)(machine->clock / 1e3)};
    snprintf(device->name, sizeof device->name, "%s", machine->name);
    return WEFT_OK;
}

int64_t weft_cuda_clusters_on_paper(const weft_cuda_device *device, int64_t ctas) {
    const chip *c = find(device->name);
    return ctas <= LARGEST_CLUSTER ? c->clusters[ctas - 1] : device->multiprocessors / ctas;
}
