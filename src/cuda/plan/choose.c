/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel a plan takes on a GPU, or why there is none. */
#include <stdarg.h>
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

/* Appends to a message, as far as it has room. */
static void add(weft_message *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(weft_message *to, const char *format, ...) {
    const size_t used = strlen(to->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to->text + used, sizeof to->text - used, format, arguments);
    va_end(arguments);
}

/* Why no family fits: those of the GPU's chip, each with its reason, then those of other chips, in a word. */
static weft_status none_fits(const weft_cuda_device *device, weft_message *reasons, const weft_message *others, int needed,
                             weft_message *message) {
    if (others->text[0]) {
        add(reasons, "%s%s: %.40s is of compute capability %d.%d, and %d.%d is needed", reasons->text[0] ? "; " : "",
            others->text, device->name, device->capability / 10, device->capability % 10, needed / 10, needed % 10);
    }
    return weft_fail(message, WEFT_UNSUPPORTED, "no CUDA kernel fits: %.225s",
                     reasons->text[0] ? reasons->text : "there is none yet for this kind of problem");
}

weft_status weft_cuda_choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_family **family,
                             weft_cuda_knobs *knobs, weft_cuda_choice *choice, weft_message *message) {
    weft_message reasons = {""}, others = {""};
    size_t length;
    int named = 0, needed = 0;
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
            add(&others, "%s%s", others.text[0] ? ", " : "", rows[i].family->name);
            needed = needed && needed < rows[i].least ? needed : rows[i].least;
        } else if (rows[i].family->choose(plan, device, knobs, choice, &why) == WEFT_OK) {
            *family = rows[i].family;
            return WEFT_OK;
        } else {
            add(&reasons, "%s%s: %s", reasons.text[0] ? "; " : "", rows[i].family->name, why.text);
        }
    }
    return length > 0 && !named ? no_such_family(plan, length, message)
                                : none_fits(device, &reasons, &others, needed, message);
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
