/* A GPU as a machine, the sides of its L2 measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "cuda/plan/live.h"
#include "study/study.h"

/* The side of every SM, in the order of their numbers, as a comment: lines of a machine file are short. */
static void map_comment(const weft_cuda_device *device, const weft_cuda_sides *sides, char *text, size_t size) {
    enum { LINE = 100 };
    size_t used = (size_t)snprintf(
        text, size, "# %s, measured by weft machines probe.\n# The side of the L2 of SM 0, 1, 2, ...:\n", device->name);
    for (int i = 0; i < sides->sms && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%d%s", i % LINE == 0 ? "# " : "", sides->side[i],
                                 i % LINE == LINE - 1 || i == sides->sms - 1 ? "\n" : "");
    }
}

static void describe(weft_probe *p, const weft_cuda_device *device, const weft_cuda_sides *sides) {
    snprintf(p->name, sizeof p->name, "%s", device->name);
    p->capability = device->capability;
    p->multiprocessors = device->multiprocessors;
    p->l2_bytes = device->l2_bytes;
    p->sides = sides->sides;
    p->sms = sides->sms;
    for (int i = 0; i < 2; i++) {
        p->members[i] = sides->members[i];
        p->low[i] = sides->low[i];
        p->high[i] = sides->high[i];
    }
    memcpy(p->sm, sides->sm, sizeof p->sm);
    memcpy(p->latency, sides->latency, sizeof p->latency);
    memcpy(p->side, sides->side, sizeof p->side);
}

weft_status weft_probe_gpu(int32_t index, weft_probe *probe, char *text, size_t size, weft_message *message) {
    _Static_assert((int)WEFT_PROBE_SMS == (int)WEFT_SIDES_MAX_SMS && (int)WEFT_MACHINE_FILE == (int)WEFT_SHEET_MAX_BYTES,
                   "the same limits");
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_status status = WEFT_OK;
    weft_cuda_sides *sides = malloc(sizeof *sides);
    weft_sheet *sheet = malloc(sizeof *sheet);
    weft_probe *ours = calloc(1, sizeof *ours);
    char comment[2 * WEFT_SIDES_MAX_SMS];
    if (!sides || !sheet || !ours) {
        status = weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        goto done;
    }
    if ((status = weft_cuda_driver_get(&driver, message)) ||
        (status = weft_cuda_device_get(driver, index, &device, message)) ||
        (status = weft_cuda_sides_measure(driver, &device, sides, message)) ||
        (status = weft_cuda_sheet(sheet, &device, sides, message))) {
        goto done;
    }
    ours->machine = sheet->machine;
    describe(ours, &device, sides);
    map_comment(&device, sides, comment, sizeof comment);
    if (text && weft_sheet_write(sheet, comment, text, size) >= size) {
        status = weft_fail(message, WEFT_FAILED, "the machine file is too long");
    }
    status = status ? status : weft_struct_give(probe, ours, sizeof *ours, sizeof(size_t), "sizeof(weft_probe)", message);
done:
    free(sides);
    free(sheet);
    free(ours);
    return status;
}
