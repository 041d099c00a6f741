/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for multi-head latent attention, from the host's side: which problems it takes, and what it says of others. */
#include <string.h>

#include "../plans.h"
#include "fake_images.h"

static weft_attention latent(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 2;
    p.seq = 1;
    p.heads = 128;
    p.kv_heads = 1;
    p.kv_seq = 2048;
    p.head_dim = 64;
    p.head_dim_v = 512;
    p.dtype = WEFT_BF16;
    p.extras = WEFT_QV | WEFT_KV_USED;
    p.cache.page = 64;
    p.cache.pages = 100;
    return p;
}

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

static void refused(const char *scripted, const weft_attention *p, const weft_schedule *s, const char *kernel,
                    const char *text) {
    weft_message message = {""};
    weft_device device = gpu();
    weft_plan *plan;
    device.kernel = kernel;
    script(scripted);
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, message.text);
    }
    script(NULL);
}

static void takes(const weft_attention *p, const char *kernel, size_t workspace) {
    weft_message message = {""};
    weft_device device = gpu();
    weft_plan *plan;
    script(NULL);
    if (plan_on(&plan, p, NULL, NULL, &device, &message)) {
        fail_msg("%s", message.text);
    }
    assert_string_equal(weft_plan_kernel(plan), kernel);
    assert_int_equal(weft_plan_workspace(plan), workspace);
    weft_plan_destroy(plan);
}

/* Sums of 64 rows, their largest scores and sums of weights, for as many runs as there can be, and 16 bytes a sequence. */
static size_t room(int64_t sequences, int64_t tiles, int64_t runs) {
    return (size_t)(tiles * runs * 64 * 514 * 4 + sequences * 16);
}

static void takes_latent_attention(void **state) {
    (void)state;
    weft_attention p = latent();
    takes(&p, "mla_bf16_d512_64x64_main", room(2, 4, 6)); /* 8 leaves in runs of 2, and 2 more where a window begins */
    p.dtype = WEFT_FP16;
    p.heads = 16;
    takes(&p, "mla_fp16_d512_64x64_main", room(2, 2, 6));
    p.kv_seq = 256;
    p.head_dim = 8;
    p.head_dim_v = 8;
    takes(&p, "mla_fp16_d512_64x64_main", 0);
    p = latent();
    p.batch = 1;
    p.sequences = 3;
    p.seq = 5;
    p.extras |= WEFT_STARTS;
    takes(&p, "mla_bf16_d512_64x64_main", room(3, 10 + 3, 6)); /* a tile more for each sequence */
}

static void refuses_by_name(void **state) {
    (void)state;
    weft_attention p = latent();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    refused("capability=80", &p, NULL, "mla", "mla: NVIDIA Fake H200 is of compute capability 8.0, and 9.0 is needed");
    refused("shared=100000", &p, NULL, "mla", "mla: it has no kernel of this dtype for this GPU's shared memory");
    p.extras = WEFT_KV_USED;
    refused(NULL, &p, NULL, "mla", "mla: it needs qv");
    p = latent();
    p.dtype = WEFT_FP32;
    refused(NULL, &p, NULL, "mla", "mla: dtype fp32 is not fp16 or bf16");
    p = latent();
    p.cache.append = 1;
    refused(NULL, &p, NULL, "mla", "mla: it has no appended keys");
    p = latent();
    p.cache.rotary_dim = 64;
    p.cache.rotary_rows = 100;
    refused(NULL, &p, NULL, "mla", "mla: it has no rotated queries and keys");
    p = latent();
    p.extras |= WEFT_ALIBI;
    refused(NULL, &p, NULL, "mla", "mla: it has no alibi");
    p = latent();
    p.head_dim = 72;
    p.head_dim_v = 504;
    refused(NULL, &p, NULL, "mla", "mla: head dims of 72 and, for V, 504 are more than 64 and 512");
    p = latent();
    p.head_dim_v = 508;
    refused(NULL, &p, NULL, "mla", "mla: it has no head dims that are no multiple of 8");
    p = latent();
    p.kv_seq = p.seq = 1 << 20;
    refused(NULL, &p, NULL, "mla", "mla: it is for few queries: their workspace would be of more than 16 GB");
    p = latent();
    p.qv_strides = (weft_strides){.batch = 128 * 516, .seq = 128 * 516, .head = 516};
    refused(NULL, &p, NULL, "mla", "mla: strides of qv (66048, 66048, 516) are not multiples of 8 elements");
    p = latent();
    s.tile_m = 128;
    refused(NULL, &p, &s, "mla", "mla: it has tiles of 64x256, not 128x0");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    refused(NULL, &p, &s, "mla", "static dispatch only");
    refused(NULL, &p, NULL, "mla:precise", "mla: it has no precise math");
    p.head_dim_v = 64;
    refused(NULL, &p, NULL, "decode", "decode: it has no queries for the values (qv)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_latent_attention), cmocka_unit_test(refuses_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
