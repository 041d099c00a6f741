/* SPDX-License-Identifier: Apache-2.0 */
/* The bench and studies on a GPU, with the fake driver: results come back, sides are placed, failures leave nothing. */
#include "fake_images.h"

#include <string.h>

#include <weft/study.h>

#include "../plans.h"
#include "bench/bench.h"
#include "cuda/plan/backend.h"

static void nothing_left(void) {
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
    assert_int_equal(counts()->streams, 0);
}

static weft_status make(weft_plan **plan, int32_t dispatch, const char *kernel) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    p.heads = p.kv_heads = 3;
    p.seq = p.kv_seq = 500;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    s.dispatch = dispatch;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = kernel;
    return plan_on(plan, &p, &s, NULL, &device, NULL);
}

/* A run on the GPU is checked on the host; a wrong element there is found. */
static void results_come_back(void **state) {
    (void)state;
    weft_plan *plan;
    weft_bench *bench;
    weft_check found = WEFT_CHECK_INIT;
    double seconds = 0;
    script(NULL);
    assert_int_equal(make(&plan, WEFT_DISPATCH_GRID, "study"), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_false(found.passed); /* nothing ran: all is NaN */
    assert_int_equal(weft_bench_time(bench, plan, 2, &seconds, NULL), WEFT_OK);
    assert_true(seconds > 0);
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    const uint16_t wrong = 0x4700; /* 7 */
    assert_int_equal(bench->memory->write(bench, (char *)bench->data.attention.o + 20, &wrong, sizeof wrong, NULL),
                     WEFT_OK);
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    weft_bench_close(bench);
    for (int memory = 1; memory < 5; memory++) { /* of five buffers, the first ones fit */
        char text[32];
        snprintf(text, sizeof text, "memory=%d", memory + counts()->allocations);
        script(text);
        assert_int_not_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
        assert_null(bench);
    }
    script(NULL);
    weft_plan_destroy(plan);
    nothing_left();
}

static void workers_by_side(void **state) {
    (void)state;
    weft_study *study;
    weft_plan *plan, *other;
    weft_bench *bench;
    weft_message message;
    script(NULL);
    assert_int_equal(weft_study_open(&study, 0, NULL), WEFT_OK);
    assert_string_equal(weft_study_name(study), "NVIDIA Fake H200");
    assert_int_equal(weft_study_index(study), 0);
    assert_int_equal(make(&plan, WEFT_DISPATCH_STATIC, "study:ctas=1"), WEFT_OK);
    assert_int_equal(make(&other, WEFT_DISPATCH_DYNAMIC, "study:ctas=1"), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_study_place_by_side(study, bench, plan, &message), WEFT_OK);
    assert_true(((const weft_cuda_plan *)plan->placed)->worker_of_sm != 0);
    assert_int_equal(weft_study_place_by_side(study, bench, other, &message), WEFT_INVALID);
    assert_string_equal(message.text, "sides need static dispatch and one CTA on every SM");
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    weft_plan_destroy(other);
    weft_study_close(study);
    nothing_left();
    assert_int_equal(weft_study_open(&study, 7, &message), WEFT_NOT_FOUND);
    assert_null(study);
    script("memory=1");
    assert_int_not_equal(weft_study_open(&study, 0, &message), WEFT_OK);
    script(NULL);
    weft_study_close(NULL);
    nothing_left();
}

/* A kernel whose workers find their sides themselves is left as it is, and refused where the order has no sides. */
static void backward_by_side(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    weft_study *study;
    weft_bench *bench;
    weft_message message;
    script(NULL);
    assert_int_equal(weft_study_open(&study, 0, NULL), WEFT_OK);
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.heads = p.kv_heads = 4;
    p.seq = p.kv_seq = 150;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.domains = 2;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "hopper_backward";
    for (int swizzled = 0; swizzled < 2; swizzled++) {
        weft_plan *plan;
        s.order = swizzled ? WEFT_ORDER_HEAD_FIRST_SWIZZLED : WEFT_ORDER_HEAD_FIRST;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
        const weft_status status = weft_study_place_by_side(study, bench, plan, &message);
        assert_int_equal(status, swizzled ? WEFT_OK : WEFT_UNSUPPORTED);
        assert_true(swizzled || strcmp(message.text, "the workers of kernel hopper_backward are not placed by side") == 0);
        assert_int_equal(((const weft_cuda_plan *)plan->placed)->worker_of_sm, 0);
        weft_bench_close(bench);
        weft_plan_destroy(plan);
    }
    weft_study_close(study);
    nothing_left();
}

static void probed(void **state) {
    (void)state;
    weft_probe probe = WEFT_PROBE_INIT;
    weft_probed_sm sms[4];
    size_t count = 0;
    weft_message message;
    char *text = malloc(WEFT_MACHINE_FILE);
    assert_non_null(text);
    script(NULL);
    assert_int_equal(weft_probe_gpu(0, &probe, sms, 4, &count, text, WEFT_MACHINE_FILE, NULL), WEFT_OK);
    assert_int_equal(count, 12);
    assert_int_equal(probe.sides, 2);
    assert_true(sms[0].side == 0 && sms[2].side == 1 && sms[3].number == 3 && sms[1].latency > 0);
    weft_machine machine = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_parse(&machine, text, strlen(text), "text", NULL), WEFT_OK);
    assert_int_equal(machine.workers, 12);
    assert_int_equal(weft_probe_gpu(0, &probe, NULL, 0, NULL, text, 100, &message), WEFT_FAILED);
    assert_string_equal(message.text, "the machine file is too long");
    free(text);
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_come_back), cmocka_unit_test(workers_by_side),
                                       cmocka_unit_test(backward_by_side), cmocka_unit_test(probed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
