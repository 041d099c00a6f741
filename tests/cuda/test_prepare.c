/* SPDX-License-Identifier: Apache-2.0 */
/* weft_plan_prepare(): what it launches, what it needs, and what runs that are prepared need. */
#include <string.h>

#include "../plans.h"
#include "fake_images.h"

enum { BATCH = 3, HEADS = 4, DIM = 64, KEYS = 600 };

/* Tensors in the memory of the fake GPU, which is the host's, and a plan for them. */
typedef struct fixture {
    const weft_cuda_driver *driver;
    weft_plan *plan;
    uint64_t memory[6];
    weft_attention_data data, lengths; /* of a run; what weft_plan_prepare() needs of it */
} fixture;

static void *take_memory(fixture *f, int which, size_t bytes) {
    assert_int_equal(f->driver->memory_new(&f->memory[which], bytes), 0);
    memset((void *)(uintptr_t)f->memory[which], 0, bytes);
    return (void *)(uintptr_t)f->memory[which];
}

static weft_attention problem(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = BATCH;
    p.heads = HEADS;
    p.kv_heads = 2;
    p.seq = 1;
    p.kv_seq = KEYS;
    p.head_dim = DIM;
    p.dtype = WEFT_BF16;
    p.extras = WEFT_KV_USED;
    return p;
}

static fixture begin(void) {
    fixture f = {.data = WEFT_ATTENTION_DATA_INIT, .lengths = WEFT_ATTENTION_DATA_INIT};
    const weft_attention p = problem();
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = "decode";
    script(NULL);
    assert_int_equal(plan_on(&f.plan, &p, NULL, NULL, &gpu, NULL), WEFT_OK);
    assert_int_equal(weft_cuda_driver_get(&f.driver, NULL), WEFT_OK);
    f.data.q = take_memory(&f, 0, BATCH * HEADS * DIM * 2);
    f.data.o = take_memory(&f, 1, BATCH * HEADS * DIM * 2);
    f.data.k = take_memory(&f, 2, BATCH * KEYS * 2 * DIM * 2);
    f.data.v = take_memory(&f, 3, BATCH * KEYS * 2 * DIM * 2);
    int32_t *used = take_memory(&f, 4, BATCH * sizeof *used);
    used[0] = 5;
    used[1] = 600;
    f.lengths.lengths.kv_used = f.data.lengths.kv_used = used;
    f.lengths.workspace = f.data.workspace = take_memory(&f, 5, weft_plan_workspace(f.plan));
    return f;
}

static void end(fixture *f) {
    weft_plan_destroy(f->plan);
    for (size_t i = 0; i < sizeof f->memory / sizeof *f->memory; i++) {
        assert_int_equal(f->driver->memory_free(f->memory[i]), 0);
    }
}

static void prepare_is(const weft_plan *plan, const void *data, const char *told) {
    weft_message message = {""};
    const weft_status status = weft_plan_prepare(plan, data, NULL, &message);
    assert_string_equal(message.text, told);
    assert_int_equal(status, *told ? WEFT_INVALID : WEFT_OK);
}

static void run_is(const weft_plan *plan, const void *data, const char *told) {
    weft_message message = {""};
    const weft_status status = weft_plan_enqueue(plan, data, NULL, &message);
    assert_string_equal(message.text, told);
    assert_int_equal(status, *told ? WEFT_INVALID : WEFT_OK);
}

/* One launch, and none of a run's; those of a run are as many with and without it, and find what was prepared. */
static void launches(void **state) {
    (void)state;
    fixture f = begin();
    const int before = counts()->launches, memory = counts()->allocations;
    prepare_is(f.plan, &f.lengths, "");
    assert_int_equal(counts()->launches, before + 1);
    f.data.prepared = 1;
    for (int i = 0; i < 2; i++) {
        run_is(f.plan, &f.data, "");
        assert_int_equal(counts()->launches, before + 3 + 2 * i);
    }
    script("capture=7");
    prepare_is(f.plan, &f.lengths, "");
    run_is(f.plan, &f.data, "");
    script(NULL);
    memset(f.data.workspace, 0, weft_plan_workspace(f.plan));
    assert_int_equal(weft_plan_enqueue(f.plan, &f.data, NULL, NULL), WEFT_FAILED); /* by the fake kernel, which looks */
    f.data.prepared = 0;
    run_is(f.plan, &f.data, "");
    assert_int_equal(counts()->allocations, memory);
    end(&f);
}

static void refuses(void **state) {
    (void)state;
    fixture f = begin();
    const char *without = "workspace is null: runs are prepared in a workspace that they bring";
    const weft_gemm_data gemm = WEFT_GEMM_DATA_INIT;
    weft_attention_data data = f.lengths;
    prepare_is(NULL, &f.lengths, "plan is null");
    prepare_is(f.plan, NULL, "the data is null");
    prepare_is(f.plan, &gemm, "the plan is for attention, and the data for gemm");
    data.workspace = NULL;
    prepare_is(f.plan, &data, without);
    data = f.lengths;
    data.lengths.kv_used = NULL;
    prepare_is(f.plan, &data, "lengths.kv_used is null");
    data = f.lengths;
    data.prepared = 2;
    prepare_is(f.plan, &data, "prepared 2 is neither 0 nor 1");
    data = f.lengths;
    data.q = &data; /* no address of the GPU, and not looked at */
    prepare_is(f.plan, &data, "");
    f.data.prepared = -1;
    run_is(f.plan, &f.data, "prepared -1 is neither 0 nor 1");
    f.data.prepared = 1;
    f.data.workspace = NULL;
    run_is(f.plan, &f.data, without);
    end(&f);
}

/* Plans with nothing to prepare: runs that are said to be prepared are as any other. */
static void goes_without(void **state) {
    (void)state;
    fixture f = begin();
    weft_attention p = problem();
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_gemm gemm = WEFT_GEMM_INIT;
    weft_gemm_data factors = WEFT_GEMM_DATA_INIT;
    weft_plan *plan;
    const int before = counts()->launches;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = "study";
    f.data.prepared = 1;
    f.data.workspace = f.lengths.workspace = NULL;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &gpu, NULL), WEFT_OK);
    prepare_is(plan, &f.lengths, "");
    assert_int_equal(counts()->launches, before);
    run_is(plan, &f.data, "");
    weft_plan_destroy(plan);
    p.dtype = WEFT_BF16;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, NULL, NULL), WEFT_OK); /* on the CPU */
    prepare_is(plan, &f.lengths, "");
    run_is(plan, &f.data, "");
    assert_int_equal(weft_plan_prepare(plan, &f.lengths, &f, NULL), WEFT_INVALID); /* a stream */
    weft_plan_destroy(plan);
    gemm.m = gemm.n = gemm.k = 8;
    assert_int_equal(plan_on(&plan, &gemm, NULL, NULL, NULL, NULL), WEFT_OK);
    prepare_is(plan, &factors, "");
    weft_plan_destroy(plan);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(launches), cmocka_unit_test(refuses),
                                       cmocka_unit_test(goes_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
