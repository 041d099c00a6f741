#include "tune/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/tune.h>

#include "cpu/cpu.h"
#include "cuda/plan/knobs.h"
#include "tune/identity.h"
#include "tune/words.h"

int64_t weft_tune_bucket(int64_t length) {
    if (length <= 16) {
        return length;
    }
    const int shift = 63 - __builtin_clzll((unsigned long long)length) - 3; /* leaves 8 ... 15 */
    return length >> shift << shift;
}

/* The class of a problem, as numbers. Strides and scales are left out: they change little. */
typedef struct shape {
    int64_t value[12];
} shape;

/* Keys that the last query sees, which is where a causal mask with an offset ends. */
static int64_t keys_seen(const weft_attention *p) {
    if (p->mask == WEFT_MASK_NONE) {
        return p->kv_seq;
    }
    const int64_t seen = p->seq + p->offset;
    return seen < 0 ? 0 : seen > p->kv_seq ? p->kv_seq : seen;
}

static shape shape_of(const weft_plan *draft) {
    if (draft->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm *p = &draft->gemm;
        return (shape){{WEFT_SUBJECT_GEMM, p->dtype, p->c_dtype, p->a_major, p->b_major, p->c_major, p->beta != 0,
                        weft_tune_bucket(p->m), weft_tune_bucket(p->n), weft_tune_bucket(p->k),
                        weft_tune_bucket(p->batch)}};
    }
    const weft_attention *p = &draft->attention;
    return (shape){{WEFT_SUBJECT_ATTENTION, p->dtype, p->head_dim, p->mask != WEFT_MASK_NONE, p->heads / p->kv_heads,
                    weft_tune_bucket(p->batch * p->heads), weft_tune_bucket(p->seq), weft_tune_bucket(p->kv_seq),
                    weft_tune_bucket(keys_seen(p))}};
}

static const char *major_name(int64_t major) {
    return major == WEFT_ROW_MAJOR ? "row" : "col";
}

static void problem_text(const shape *s, char *text, size_t size) {
    const int64_t *v = s->value;
    if (v[0] == WEFT_SUBJECT_GEMM) {
        snprintf(text, size,
                 "gemm %s to %s, a %s, b %s, c %s%s, m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64,
                 weft_dtype_name((weft_dtype)v[1]), weft_dtype_name((weft_dtype)v[2]), major_name(v[3]), major_name(v[4]),
                 major_name(v[5]), v[6] ? ", added to c" : "", v[7], v[8], v[9], v[10]);
    } else {
        char seen[48] = "";
        if (v[3]) {
            snprintf(seen, sizeof seen, ", causal to %" PRId64, v[8]);
        }
        snprintf(text, size,
                 "attention %s, head dim %" PRId64 ", heads %" PRId64 " by %" PRId64 ", queries %" PRId64 ", keys %" PRId64
                 "%s",
                 weft_dtype_name((weft_dtype)v[1]), v[2], v[5], v[4], v[6], v[7], seen);
    }
}

/* The specification of the kernel in its normal form. */
typedef struct kernel_text {
    char text[128];
} kernel_text;

static kernel_text kernel_of(const weft_plan *draft) {
    kernel_text kernel;
    weft_cuda_knobs_normalize(draft->device.kernel, kernel.text, sizeof kernel.text);
    return kernel;
}

weft_status weft_tune_key_make(weft_tune_key *key, const weft_plan *draft, weft_message *message) {
    const shape s = shape_of(draft);
    char words[WEFT_WORDS];
    weft_cuda_knobs knobs;
    size_t family;
    memset(key, 0, sizeof *key);
    const weft_status status = weft_cuda_knobs_read(draft->device.kernel, &knobs, &family, message);
    if (status) {
        return status;
    }
    key->build = weft_build(draft->device.kind);
    problem_text(&s, key->problem, sizeof key->problem);
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
    const shape s = shape_of(draft);
    int64_t *v = number->value;
    size_t count = 0;
    memcpy(v, s.value, sizeof s.value);
    count += sizeof s.value / sizeof *s.value;
    v[count++] = draft->device.kind;
    v[count++] = draft->device.kind == WEFT_DEVICE_CPU ? weft_cpu_threads() : draft->device.index;
    const kernel_text kernel = kernel_of(draft);
    v[count++] = 0;
    for (const char *c = kernel.text; *c; c++) {
        v[count - 1] = (int64_t)(((uint64_t)v[count - 1] ^ (uint64_t)*c) * UINT64_C(0x9e3779b97f4a7c15));
    }
#define WEFT_SCHEDULE_NUMBER(field)           v[count++] = (int64_t)draft->schedule.field;
#define WEFT_SCHEDULE_CODE(field, find, name) v[count++] = (int64_t)draft->schedule.field;
#include "tune/schedule_fields.def"
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)v[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    for (; count < sizeof number->value / sizeof *v; count++) {
        v[count] = 0;
    }
    number->hash = hash;
}
