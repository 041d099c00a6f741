#include "tune/search/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/tune.h>

#include "cpu/thread/team.h"
#include "tune/search/identity.h"

/* The knobs of the device that a caller can turn. */
static const struct {
    const char *name;
    size_t offset;
} knobs[] = {{"precise", offsetof(weft_device, precise)},
             {"mask_every_block", offsetof(weft_device, mask_every_block)},
             {"no_prefetch", offsetof(weft_device, no_prefetch)},
             {"ctas", offsetof(weft_device, ctas)}};
enum { KNOBS = sizeof knobs / sizeof *knobs };

static int32_t knob(const weft_device *device, size_t i) {
    int32_t value;
    memcpy(&value, (const char *)device + knobs[i].offset, sizeof value);
    return value;
}

weft_status weft_tune_key_make(weft_tune_key *key, const weft_plan *draft, weft_message *message) {
    int64_t numbers[WEFT_KEY_NUMBERS];
    char words[WEFT_WORDS];
    memset(key, 0, sizeof *key);
    key->build = weft_build(draft->device.kind);
    draft->operation->key(&draft->problem, numbers, key->problem, sizeof key->problem);
    weft_schedule_write(&draft->schedule, words);
    snprintf(key->given, sizeof key->given, "%s", words);
    for (size_t i = 0; i < KNOBS; i++) {
        if (knob(&draft->device, i) != 0) {
            const size_t used = strlen(key->given);
            snprintf(key->given + used, sizeof key->given - used, "%s%s=%d", used ? " " : "", knobs[i].name,
                     (int)knob(&draft->device, i));
        }
    }
    if (draft->device.kernel) {
        const size_t used = strlen(key->given);
        snprintf(key->given + used, sizeof key->given - used, "%skernel=%.40s", used ? " " : "", draft->device.kernel);
    }
    return weft_tune_identify(draft, key->device, sizeof key->device, &key->driver, message);
}

void weft_tune_number_make(weft_tune_number *number, const weft_plan *draft) {
    int64_t *v = number->value;
    char text[1];
    memset(v, 0, sizeof number->value);
    v[0] = draft->operation->info.operation;
    draft->operation->key(&draft->problem, v + 1, text, sizeof text);
    size_t count = 1 + WEFT_KEY_NUMBERS;
    v[count++] = draft->device.kind;
    v[count++] = draft->device.kind == WEFT_DEVICE_CPU ? weft_cpu_threads() : draft->device.index;
    for (size_t i = 0; i < KNOBS; i++) {
        v[count++] = knob(&draft->device, i);
    }
    v[count++] = 0;
    for (const char *c = draft->device.kernel; c && *c; c++) {
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
