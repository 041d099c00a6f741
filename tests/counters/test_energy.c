/* SPDX-License-Identifier: Apache-2.0 */
/* Energy without a GPU, by the fake driver and a fake NVML: what a run takes, and what is refused, and when. */
#include "../cuda/fake_images.h"

#include <math.h>
#include <string.h>

#include <weft/study.h>

#include "counters/nvml.h"
#include "fake_nvml.h"

/* A product on the fake GPU, which one launch computes. */
typedef struct trial {
    weft_study *study;
    weft_plan *plan;
    weft_bench *bench;
} trial;

static void nvml(const char *library, const char *text) {
    script(NULL);
    assert_int_equal(setenv("WEFT_NVML", library, 1), 0);
    assert_int_equal(setenv("FAKE_NVML", text, 1), 0);
}

static trial trial_new(void) {
    trial t = {NULL, NULL, NULL};
    weft_gemm p = WEFT_GEMM_INIT;
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_message message = {""};
    p.m = p.n = p.k = 16;
    p.dtype = p.c_dtype = WEFT_BF16;
    gpu.kind = WEFT_DEVICE_CUDA;
    options.device = &gpu;
    if (weft_study_open(&t.study, 0, &message) || weft_plan_create(&t.plan, &p, &options, &message) ||
        weft_bench_open(&t.bench, t.plan, NULL, &message)) {
        fail_msg("%s", message.text);
    }
    return t;
}

static void trial_free(trial *t) {
    weft_bench_close(t->bench);
    weft_plan_destroy(t->plan);
    weft_study_close(t->study);
}

static void of_a_run(void **state) {
    (void)state;
    nvml(FAKE_NVML, "");
    trial t = trial_new();
    weft_energy energy = WEFT_ENERGY_INIT;
    weft_message message = {""};
    for (int again = 0; again < 2; again++) {
        const int before = counts()->launches;
        if (weft_study_energy(t.study, t.bench, t.plan, 0.01, &energy, &message)) {
            fail_msg("%s", message.text);
        }
        assert_true(fabs(energy.joules - 1e-3 * FAKE_MILLIJOULES) < 1e-12); /* whatever the steps of the counter */
        assert_true(energy.seconds > 0 && fabs(energy.watts * energy.seconds / energy.joules - 1) < 1e-12);
        assert_in_range(energy.runs, FAKE_STEP_LAUNCHES, counts()->launches - before);
        assert_int_equal(energy.runs % FAKE_STEP_LAUNCHES, 0);
    }
    trial_free(&t);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

/* Without a launch where that is known before. */
static void refused(const char *library, const char *script_of_nvml, const char *script_of_driver, weft_status expected,
                    const char *text) {
    weft_energy energy = WEFT_ENERGY_INIT;
    weft_message message = {""};
    nvml(library, script_of_nvml);
    trial t = trial_new();
    script(script_of_driver);
    const int before = counts()->launches;
    const weft_status checked = weft_study_check_energy(t.study, &message);
    assert_int_equal(counts()->launches, before);
    const weft_status status = weft_study_energy(t.study, t.bench, t.plan, 0.01, &energy, &message);
    if (status != expected || !strstr(message.text, text)) {
        fail_msg("%d, %s: not %s", (int)status, message.text, text);
    }
    assert_true(checked == expected ? counts()->launches == before : checked == WEFT_OK);
    assert_true(energy.joules == 0); /* untouched */
    trial_free(&t);
}

static void refusals(void **state) {
    (void)state;
    refused("/none/libnvidia-ml.so.1", "", NULL, WEFT_NOT_FOUND, "energy needs NVML, which comes with the driver: /none/");
    refused(FAKE_NVML_INCOMPLETE, "", NULL, WEFT_UNSUPPORTED, "NVML has no nvmlDeviceGetTotalEnergyConsumption");
    refused(FAKE_NVML, "init=9", NULL, WEFT_FAILED, "NVML does not start: As Scripted (9)");
    refused(FAKE_NVML, "find=6", NULL, WEFT_NOT_FOUND, "NVML does not find NVIDIA Fake H200 at PCI bus id 0000:17:00.0");
    refused(FAKE_NVML, "energy=3", NULL, WEFT_UNSUPPORTED,
            "NVIDIA Fake H200 has no energy counter that NVML can read: Not Supported (3)");
    refused(FAKE_NVML, "", "bus=1", WEFT_UNSUPPORTED, "the CUDA driver does not tell the PCI bus id");
    refused(FAKE_NVML, "still=1", NULL, WEFT_FAILED, "the GPU's energy counter stands still: 1000000.000 J before");
    refused(FAKE_NVML, "back=1", NULL, WEFT_FAILED, "the GPU's energy counter went back, from ");
    refused(FAKE_NVML, "", "launch=701", WEFT_FAILED, "the kernel cannot be launched");
}

static void of_a_gpu(void **state) {
    (void)state;
    nvml(FAKE_NVML, "");
    trial t = trial_new();
    weft_gemm p = WEFT_GEMM_INIT;
    weft_plan *plan;
    weft_bench *bench;
    weft_energy energy = WEFT_ENERGY_INIT;
    weft_message message = {""};
    p.m = p.n = p.k = 16;
    assert_int_equal(weft_plan_create(&plan, &p, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_study_energy(t.study, bench, plan, 0, &energy, &message), WEFT_INVALID);
    assert_string_equal(message.text, "energy is of a GPU, and the plan is for the CPU");
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_run), cmocka_unit_test(refusals), cmocka_unit_test(of_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
