/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and lengths of a cache that lead nowhere, which only the GPU reads: who is told, when, and once. */
#include <string.h>

#include "../plans.h"
#include "fake_images.h"

enum { BATCH = 2, HEADS = 2, DIM = 64, PAGE = 4, EACH = 3, PAGES = 6 };

/* A cache in the memory of the fake GPU, which is the host's, and a plan for it. */
typedef struct fixture {
    const weft_cuda_driver *driver;
    weft_plan *plan;
    uint64_t memory[6];
    int32_t *table, *used;
    weft_attention_data data;
} fixture;

static void *take_memory(fixture *f, int which, size_t bytes) {
    assert_int_equal(f->driver->memory_new(&f->memory[which], bytes), 0);
    memset((void *)(uintptr_t)f->memory[which], 0, bytes);
    return (void *)(uintptr_t)f->memory[which];
}

static fixture begin(const char *kernel) {
    fixture f = {.data = WEFT_ATTENTION_DATA_INIT};
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    p.batch = BATCH;
    p.heads = HEADS;
    p.kv_heads = 1;
    p.seq = 1;
    p.kv_seq = EACH * PAGE;
    p.head_dim = DIM;
    p.dtype = WEFT_BF16;
    p.cache.page = PAGE;
    p.cache.pages = PAGES;
    p.extras = WEFT_KV_USED;
    assert_int_equal(plan_on(&f.plan, &p, NULL, NULL, &gpu, NULL), WEFT_OK);
    assert_int_equal(weft_cuda_driver_get(&f.driver, NULL), WEFT_OK);
    f.data.q = take_memory(&f, 0, BATCH * HEADS * DIM * 2);
    f.data.o = take_memory(&f, 1, BATCH * HEADS * DIM * 2);
    f.data.k = take_memory(&f, 2, PAGES * PAGE * DIM * 2);
    f.data.v = take_memory(&f, 3, PAGES * PAGE * DIM * 2);
    f.table = take_memory(&f, 4, BATCH * EACH * sizeof *f.table);
    f.used = take_memory(&f, 5, BATCH * sizeof *f.used);
    f.data.cache.table = f.table;
    f.data.lengths.kv_used = f.used;
    f.used[0] = 9;
    f.used[1] = 5;
    for (int32_t i = 0; i < BATCH * EACH; i++) {
        f.table[i] = i;
    }
    return f;
}

static void end(fixture *f) {
    weft_plan_destroy(f->plan);
    for (size_t i = 0; i < sizeof f->memory / sizeof *f->memory; i++) {
        assert_int_equal(f->driver->memory_free(f->memory[i]), 0);
    }
}

static void enqueues(const fixture *f, const char *told) {
    weft_message message = {""};
    assert_int_equal(weft_plan_enqueue(f->plan, &f->data, NULL, &message), *told ? WEFT_INVALID : WEFT_OK);
    assert_string_equal(message.text, told);
}

static void checks(const fixture *f, const char *told) {
    weft_message message = {""};
    assert_int_equal(weft_plan_check(f->plan, &message), *told ? WEFT_INVALID : WEFT_OK);
    assert_string_equal(message.text, told);
}

static const char *const kernels[] = {"decode", "study"};

static void tells_of_entries(void **state) {
    (void)state;
    script(NULL);
    for (int i = 0; i < 2; i++) {
        fixture f = begin(kernels[i]);
        f.table[5] = -1; /* which no key needs */
        enqueues(&f, "");
        enqueues(&f, "");
        f.table[4] = 6;
        enqueues(&f, "");
        f.table[4] = 4; /* what was wrong is told, whatever is there by now */
        enqueues(&f, "in an earlier run cache.table of sequence 1, entry 1 was 6, and there are 6 pages");
        enqueues(&f, "");
        checks(&f, "");
        f.table[0] = INT32_MIN;
        enqueues(&f, "");
        checks(&f, "in an earlier run cache.table of sequence 0, entry 0 was -2147483648, and there are 6 pages");
        checks(&f, "");
        weft_message message = {""}; /* a run that waits tells of itself */
        assert_int_equal(weft_plan_run(f.plan, &f.data, &message), WEFT_INVALID);
        assert_string_equal(message.text, "cache.table of sequence 0, entry 0 was -2147483648, and there are 6 pages");
        checks(&f, "");
        end(&f);
    }
}

static void tells_of_lengths(void **state) {
    (void)state;
    script(NULL);
    for (int i = 0; i < 2; i++) {
        fixture f = begin(kernels[i]);
        f.used[1] = 0;
        enqueues(&f, "");
        f.used[1] = EACH * PAGE;
        enqueues(&f, "");
        checks(&f, "");
        f.used[1] = EACH * PAGE + 1;
        enqueues(&f, "");
        checks(&f, "in an earlier run lengths.kv_used of sequence 1 was 13, not between 0 and 12");
        f.used[1] = -7;
        enqueues(&f, "");
        enqueues(&f, "in an earlier run lengths.kv_used of sequence 1 was -7, not between 0 and 12");
        end(&f);
    }
}

/* Without pinned memory nobody tells, and all else is as it was; plans without a cache take none. */
static void goes_without(void **state) {
    (void)state;
    script("pinned=0");
    fixture f = begin("decode");
    f.table[0] = -1;
    enqueues(&f, "");
    enqueues(&f, "");
    checks(&f, "");
    end(&f);
    script(NULL);
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = p.kv_seq = 64;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = "study";
    const int before = counts()->allocations;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.dispatch = WEFT_DISPATCH_GRID;
    assert_int_equal(plan_on(&f.plan, &p, &s, NULL, &gpu, NULL), WEFT_OK);
    assert_int_equal(counts()->allocations, before);
    checks(&f, "");
    weft_plan_destroy(f.plan);
    assert_int_equal(plan_on(&f.plan, &p, NULL, NULL, NULL, NULL), WEFT_OK);
    checks(&f, ""); /* on the CPU */
    weft_plan_destroy(f.plan);
    assert_int_equal(weft_plan_check(NULL, NULL), WEFT_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_of_entries), cmocka_unit_test(tells_of_lengths),
                                       cmocka_unit_test(goes_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
