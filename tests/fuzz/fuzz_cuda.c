/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a GPU that is none (tests/cuda/fake_driver.h), filled with anything: they are made or refused, and so are
 * launches, which the driver takes no further than their parameters. */
#include <stdio.h>

#include "../cuda/fake_images.h"
#include "../plans.h"
#include "take.h"

#include "cuda/plan/knobs.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    script("anywhere=1 launch=701 room=1000000");
    return 0;
}

/* Anywhere, or where tensors may begin, far from the others. */
static void *take_pointer(input *in, uint64_t number) {
    const uint64_t address = take(in) % 4 ? number << 60 : (uint64_t)take(in);
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* What the kernels take, if the sizes are right, since few inputs get there by themselves. */
static void tidy_attention(weft_attention *p) {
    p->dtype = p->dtype == WEFT_FP16 ? WEFT_FP16 : WEFT_BF16;
    p->mask = (weft_mask)(p->mask % 3);
    p->layout = (weft_layout)(p->layout % 2);
    p->offset = p->mask == WEFT_MASK_CAUSAL ? p->offset : 0;
    p->kv_heads = p->kv_heads == 0 || p->heads % p->kv_heads ? p->heads : p->kv_heads;
    p->head_dim = p->head_dim / 8 * 8;
    p->scale = 0;
    p->left = p->right = 0;
}

static void tidy_gemm(weft_gemm *p) {
    p->dtype = p->dtype == WEFT_FP16 || p->dtype == WEFT_FP32 ? p->dtype : WEFT_BF16;
    p->precision = (int32_t)((uint32_t)p->precision % 3);
    p->c_dtype = (weft_dtype)(p->c_dtype & 1 ? WEFT_FP32 : p->dtype);
    p->a_major = (weft_major)(p->a_major & 1);
    p->b_major = (weft_major)(p->b_major & 1);
    p->c_major = (weft_major)(p->c_major & 1);
    p->lda = p->ldb = p->ldc = (p->lda & INT32_MAX) / 8 * 8;
    p->m = p->m / 8 * 8;
    p->n = p->n / 8 * 8;
    p->k = p->k / 8 * 8;
    p->a_stride = p->b_stride = p->c_stride = 0;
    p->alpha = 1;
    p->beta = p->beta == 0 ? 0 : 1;
    p->extras &= 2 * WEFT_GEMM_COLUMN_SUMS - 1;
    p->activation &= 3;
    p->gated &= 1;
    p->bias_dtype = (weft_dtype)(p->bias_dtype & 1);
    p->ld_residual = p->residual_stride = 0;
}

/* A specification: none, of words in any order, or any text. What can be read means the same in its normal form. */
enum { KERNEL = 64 };

static const char *take_kernel(input *in, char text[KERNEL]) {
    static const char *const words[] = {
        "study", "hopper_attention", ":", ",", "precise", "mask-every-block", "no-prefetch", "ctas=", "1", "2"};
    const uint64_t kind = (uint64_t)take(in) % 4;
    if (kind == 0) {
        return NULL;
    }
    text[0] = '\0';
    for (size_t used = 0; used + 20 < KERNEL && in->left > 1 && take(in) % 8 != 0; used = strlen(text)) {
        const char any[2] = {(char)take(in), '\0'};
        const size_t word = (uint64_t)take(in) % (sizeof words / sizeof *words);
        snprintf(text + used, KERNEL - used, "%s", kind == 1 ? any : words[word]);
    }
    weft_cuda_knobs knobs, again;
    size_t family, same;
    if (weft_cuda_knobs_read(text, &knobs, &family, NULL) == WEFT_OK) {
        char normal[2 * KERNEL];
        weft_cuda_knobs_normalize(text, normal, sizeof normal);
        if (weft_cuda_knobs_read(normal, &again, &same, NULL) || same != family || memcmp(text, normal, family) != 0 ||
            memcmp(&knobs, &again, sizeof knobs) != 0) {
            abort();
        }
    }
    return kind == 3 ? "study" : text;
}

/* A run of a plan of an attention, forward or backward. */
static weft_status run_attention(const weft_plan *plan, int32_t operation, input *in, weft_message *message) {
    const weft_attention_data forward = {.struct_size = sizeof forward,
                                         .operation = WEFT_ATTENTION,
                                         .q = take_pointer(in, 1),
                                         .k = take_pointer(in, 2),
                                         .v = take_pointer(in, 3),
                                         .o = take_pointer(in, 4),
                                         .lse = take_pointer(in, 5),
                                         .workspace = take_pointer(in, 6),
                                         .prepared = (int32_t)take(in)};
    if (operation == WEFT_ATTENTION) {
        weft_plan_prepare(plan, &forward, NULL, message);
        return weft_plan_enqueue(plan, &forward, NULL, message);
    }
    const weft_attention_gradients backward = {.struct_size = sizeof backward,
                                               .operation = WEFT_ATTENTION_BACKWARD,
                                               .q = forward.q,
                                               .k = forward.k,
                                               .v = forward.v,
                                               .o = forward.o,
                                               .lse = forward.lse,
                                               .grad_o = take_pointer(in, 6),
                                               .grad_q = take_pointer(in, 7),
                                               .grad_k = take_pointer(in, 8),
                                               .grad_v = take_pointer(in, 9),
                                               .workspace = take(in) % 2 ? take_pointer(in, 10) : NULL};
    return weft_plan_enqueue(plan, &backward, NULL, message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    weft_message message;
    memset(message.text, '#', sizeof message.text);
    weft_plan *plan = NULL;
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    char kernel[KERNEL];
    gpu.kernel = take_kernel(&in, kernel);
    gpu.index = (int32_t)take_or(&in, 0);
    /* What the library chooses is the larger part: most schedules leave most open. */
    const int64_t open = take(&in);
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    if (open % 4 == 0) {
        schedule = take_schedule(&in);
        schedule.split = take_or(&in, 0);
    } else if (open % 4 == 1) {
        schedule.tile_m = 64 * (take(&in) % 5);
        schedule.tile_n = 32 * (take(&in) % 9);
        schedule.cluster_m = take(&in) % 5;
        schedule.cluster_n = take(&in) % 5;
        schedule.split = take(&in) % 9;
    }
    weft_status status;
    const int tidy = take(&in) % 4 != 0;
    const uint64_t kind = (uint64_t)take(&in) % 5;
    if (kind == 0 || kind == 2) {
        weft_attention p = take_attention(&in);
        if (tidy) {
            tidy_attention(&p);
        }
        p.operation = open / 4 % 4 == 3 ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
        expect(plan_on(&plan, &p, &schedule, NULL, &gpu, &message), &message, plan);
        status = plan ? run_attention(plan, p.operation, &in, &message) : WEFT_FAILED;
    } else if (kind == 4) {
        weft_combine p = take_combine(&in);
        if (tidy) {
            p.dtype = (weft_dtype)((uint64_t)p.dtype % 3);
            p.o_dtype = (weft_dtype)((uint64_t)p.o_dtype % 3);
            p.layout = (weft_layout)((uint64_t)p.layout % 2);
            p.into &= 1;
            p.sum &= 1;
            p.lse_stride = 0;
        }
        weft_combine_data where = WEFT_COMBINE_DATA_INIT;
        for (uint64_t i = 0; i < WEFT_MOST_PARTS; i++) {
            where.parts[i] = take_pointer(&in, 1);
            where.lses[i] = take_pointer(&in, 2);
        }
        where.o = take_pointer(&in, 3);
        where.lse = take_pointer(&in, 4);
        expect(plan_on(&plan, &p, &schedule, NULL, &gpu, &message), &message, plan);
        status = plan ? weft_plan_enqueue(plan, &where, NULL, &message) : WEFT_FAILED;
    } else {
        weft_gemm p = take_gemm(&in);
        if (tidy) {
            tidy_gemm(&p);
        }
        expect(plan_on(&plan, &p, &schedule, NULL, &gpu, &message), &message, plan);
        weft_gemm_data where = WEFT_GEMM_DATA_INIT;
        where.a = take_pointer(&in, 1);
        where.b = take_pointer(&in, 2);
        where.c = take_pointer(&in, 3);
        where.bias = take_pointer(&in, 4);
        where.residual = take_pointer(&in, 5);
        where.scale = take_pointer(&in, 6);
        where.row_scale = take_pointer(&in, 7);
        where.column_scale = take_pointer(&in, 8);
        where.column_sums = take_pointer(&in, 9);
        where.workspace = take_pointer(&in, 10);
        status = plan ? weft_plan_enqueue(plan, &where, NULL, &message) : WEFT_FAILED;
    }
    char text[64];
    if (status == WEFT_OK || (plan && weft_plan_text(plan, text, sizeof text) == 0)) {
        abort();
    }
    weft_plan_destroy(plan);
    return 0;
}
