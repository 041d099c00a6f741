/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a machine, the sides of its L2 measured. */
#include <stdio.h>
#include <stdlib.h>

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
    for (int i = 0; i < 2; i++) {
        p->members[i] = sides->members[i];
        p->low[i] = sides->low[i];
        p->high[i] = sides->high[i];
    }
}

static void list_sms(const weft_cuda_sides *sides, weft_probed_sm *sms, size_t room, size_t *count) {
    for (size_t i = 0; sms && i < (size_t)sides->sms && i < room; i++) {
        sms[i] = (weft_probed_sm){sides->sm[i], sides->side[i], sides->latency[i]};
    }
    if (count) {
        *count = (size_t)sides->sms;
    }
}

weft_status weft_probe_gpu(int32_t index, weft_probe *probe, weft_probed_sm *sms, size_t room, size_t *count, char *text,
                           size_t size, weft_message *message) {
    _Static_assert((int)WEFT_MACHINE_FILE == (int)WEFT_SHEET_MAX_BYTES, "the same limit");
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_probe ours = WEFT_PROBE_INIT;
    weft_status status = WEFT_OK;
    weft_cuda_sides *sides = malloc(sizeof *sides);
    weft_sheet *sheet = malloc(sizeof *sheet);
    char comment[2 * WEFT_SIDES_MAX_SMS];
    if (!sides || !sheet) {
        status = weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        goto done;
    }
    if ((status = weft_cuda_driver_get(&driver, message)) ||
        (status = weft_cuda_device_get(driver, index, &device, message)) ||
        (status = weft_cuda_sides_measure(driver, &device, sides, message)) ||
        (status = weft_cuda_sheet(sheet, &device, sides, message))) {
        goto done;
    }
    ours.machine = sheet->machine;
    describe(&ours, &device, sides);
    list_sms(sides, sms, room, count);
    map_comment(&device, sides, comment, sizeof comment);
    if (text && weft_sheet_write(sheet, comment, text, size) >= size) {
        status = weft_fail(message, WEFT_FAILED, "the machine file is too long");
        goto done;
    }
    status = weft_struct_give(probe, &ours, sizeof ours, sizeof(size_t), "WEFT_PROBE_INIT", message);
done:
    free(sides);
    free(sheet);
    return status;
}
