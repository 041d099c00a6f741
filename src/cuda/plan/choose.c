/* Which kernel a plan takes on a GPU, or why there is none. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/driver/module.h"
#include "cuda/plan/backend.h"

#define WEFT_CUDA_FAMILY(name, OPERATION, least, most) extern const weft_cuda_family weft_cuda_##name;
#include "cuda/plan/families.def"
#undef WEFT_CUDA_FAMILY

typedef struct row {
    const weft_cuda_family *family;
    int32_t operation;
    int least, most;
} row;

static const row rows[] = {
#define WEFT_CUDA_FAMILY(name, OPERATION, least, most) {&weft_cuda_##name, OPERATION, least, most},
#include "cuda/plan/families.def"
#undef WEFT_CUDA_FAMILY
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Whether a row is the family that is asked for, by the first `length` characters of `text`; 0: any is. */
static int is_named(const row *r, const char *text, size_t length) {
    return length == 0 || (strlen(r->family->name) == length && strncmp(r->family->name, text, length) == 0);
}

static int is_for(const row *r, const weft_plan *plan) {
    return weft_operation_at(r->operation) == plan->operation;
}

static weft_status no_such_family(const weft_plan *plan, size_t length, weft_message *message) {
    char there[128] = "";
    for (size_t i = 0; i < ROWS; i++) {
        if (is_for(&rows[i], plan)) {
            const size_t used = strlen(there);
            snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "", rows[i].family->name);
        }
    }
    return weft_fail(message, WEFT_NOT_FOUND,
                     "no family of CUDA kernels for this kind of problem is named %.*s: there are %s",
                     length < 40 ? (int)length : 40, plan->device.kernel, there);
}

weft_status weft_cuda_choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_family **family,
                             weft_cuda_knobs *knobs, weft_cuda_choice *choice, weft_message *message) {
    weft_message reasons = {""};
    size_t used = 0, length;
    int named = 0;
    weft_status status;
    if ((status = weft_cuda_knobs_read(plan->device.kernel, knobs, &length, message)) ||
        (!plan->on_paper && (status = weft_cuda_has_kernels(message)))) {
        return status;
    }
    for (size_t i = 0; i < ROWS; i++) {
        weft_message why = {""};
        if (!is_for(&rows[i], plan) || !is_named(&rows[i], plan->device.kernel, length)) {
            continue;
        }
        named = 1;
        if (device->capability < rows[i].least || device->capability > rows[i].most) {
            snprintf(why.text, sizeof why.text, "%.40s is of compute capability %d.%d, and %d.%d is needed", device->name,
                     device->capability / 10, device->capability % 10, rows[i].least / 10, rows[i].least % 10);
        } else if (rows[i].family->choose(plan, device, knobs, choice, &why) == WEFT_OK) {
            *family = rows[i].family;
            return WEFT_OK;
        }
        const int wrote = snprintf(reasons.text + used, sizeof reasons.text - used, "%s%s: %s", used ? "; " : "",
                                   rows[i].family->name, why.text);
        used += wrote > 0 ? (size_t)wrote : 0;
        used = used < sizeof reasons.text ? used : sizeof reasons.text - 1;
    }
    if (length > 0 && !named) {
        return no_such_family(plan, length, message);
    }
    return weft_fail(message, WEFT_UNSUPPORTED, "no CUDA kernel fits: %.225s",
                     used ? reasons.text : "there is none yet for this kind of problem");
}

size_t weft_cuda_candidates(const weft_plan *plan, weft_schedule *list, size_t capacity) {
    const weft_cuda_driver *driver;
    const weft_cuda_family *family;
    weft_cuda_device device;
    weft_cuda_knobs knobs;
    weft_cuda_choice choice;
    if (capacity == 0 ||
        (plan->on_paper
             ? weft_cuda_device_on_paper(&plan->machine, &device, NULL)
             : weft_cuda_driver_get(&driver, NULL) || weft_cuda_device_get(driver, plan->device.index, &device, NULL)) ||
        weft_cuda_choose(plan, &device, &family, &knobs, &choice, NULL)) {
        return 0;
    }
    if (family->candidates) {
        return family->candidates(plan, &device, &knobs, list, capacity);
    }
    list[0] = plan->schedule;
    list[0].tile_m = choice.tile_m;
    list[0].tile_n = choice.tile_n;
    return 1;
}

double weft_cuda_cost(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->family->cost ? c->family->cost(plan, &c->device) : 0;
}
