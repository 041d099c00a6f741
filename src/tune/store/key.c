/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/store/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/tune.h>

#include "base/status.h"
#include "cpu/thread/team.h"
#include "cuda/plan/knobs.h"
#include "tune/store/identity.h"

/* The specification of the kernel in its normal form. */
typedef struct kernel_text {
    char text[128];
} kernel_text;

static kernel_text kernel_of(const weft_plan *draft) {
    kernel_text kernel = {""};
    weft_cuda_knobs_normalize(draft->device.kernel, kernel.text, sizeof kernel.text);
    return kernel;
}

weft_status weft_tune_key_make(weft_tune_key *key, const weft_plan *draft, weft_message *message) {
    int64_t numbers[WEFT_KEY_NUMBERS];
    char words[WEFT_WORDS];
    weft_cuda_knobs knobs;
    size_t family;
    memset(key, 0, sizeof *key);
    if (draft->schedule.order_table) {
        return weft_fail(message, WEFT_INVALID, "order custom is not tuned or stored: its table fits one grid of tiles");
    }
    const weft_status status = weft_cuda_knobs_read(draft->device.kernel, &knobs, &family, message);
    if (status) {
        return status;
    }
    key->build = weft_build(draft->device.kind);
    draft->operation->key(&draft->problem, numbers, key->problem, sizeof key->problem);
    weft_schedule_write(&draft->schedule, words);
    snprintf(key->given, sizeof key->given, "%s", words);
    const kernel_text kernel = kernel_of(draft);
    if (kernel.text[0]) {
        const size_t used = strlen(key->given);
        snprintf(key->given + used, sizeof key->given - used, "%skernel=%.100s", used ? " " : "", kernel.text);
    }
    return weft_tune_identify(draft, key->device, sizeof key->device, &key->driver, message);
}

void weft_tune_number_make(weft_tune_number *number, const weft_plan *draft) {
    char text[1];
    memset(number, 0, sizeof *number);
    int64_t *v = number->value;
    v[0] = draft->operation->info.operation;
    draft->operation->key(&draft->problem, v + 1, text, sizeof text);
    size_t count = 1 + WEFT_KEY_NUMBERS;
    v[count++] = draft->device.kind;
    v[count++] = draft->device.kind == WEFT_DEVICE_CPU ? weft_cpu_threads() : draft->device.index;
    const kernel_text kernel = kernel_of(draft);
    v[count++] = 0;
    for (const char *c = kernel.text; *c; c++) {
        v[count - 1] = (int64_t)(((uint64_t)v[count - 1] ^ (uint64_t)*c) * UINT64_C(0x9e3779b97f4a7c15));
    }
#define WEFT_SCHEDULE_NUMBER(field)           v[count++] = (int64_t)draft->schedule.field;
#define WEFT_SCHEDULE_CODE(field, find, name) v[count++] = (int64_t)draft->schedule.field;
#include "plan/schedule_fields.def"
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)v[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    number->hash = hash;
}
