/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of the CUDA driver fails in turn, alone and with all after it, with each error that drivers have; and work on
 * streams fails later, so that whoever waits is told. A plan is then not made, or a run says so, or the result is right;
 * nothing stays behind, and the same works afterwards.
 *
 * WEFT_TEST_ROUNDS says, in per cent of the usual number, how many calls fail, spread evenly (0: all). */
#include <math.h>
#include <string.h>

#include "../plans.h"
#include "fake_images.h"

enum { MOST = 1 << 16, USUAL = 8 };

/* What a plan runs on, in the memory of the fake GPU, which is the host's. */
static float *in, *out, *more;

static fake_fault *fault(void) {
    void *library = dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    fake_fault *found = library ? dlsym(library, "fake_cuda_fault") : NULL;
    assert_non_null(found);
    return found;
}

typedef struct scenario {
    const char *name;
    weft_status (*run)(weft_message *message);
} scenario;

/* Makes a plan on the GPU, runs it twice and destroys it. */
static weft_status run_plan(const void *problem, const void *data, const char *kernel, weft_message *message) {
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_plan *plan = NULL;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    weft_status status = plan_on(&plan, problem, NULL, NULL, &gpu, message);
    if (status && plan) {
        fail_msg("there is a plan, and %s", message->text);
    }
    status = status ? status : weft_plan_run(plan, data, message);
    status = status ? status : weft_plan_run(plan, data, message);
    weft_plan_destroy(plan);
    return status;
}

static weft_status product(weft_message *message) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    p.m = p.n = p.k = 64;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    data.a = data.b = in;
    data.c = out;
    return run_plan(&p, &data, NULL, message);
}

static weft_status fp32_product(weft_message *message) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    p.m = p.n = p.k = 64;
    data.a = data.b = in;
    data.c = out;
    return run_plan(&p, &data, NULL, message);
}

static weft_attention small(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 64;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    return p;
}

static weft_status forward(const char *kernel, weft_message *message) {
    const weft_attention p = small();
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = data.k = data.v = in;
    data.o = out;
    return run_plan(&p, &data, kernel, message);
}

static weft_status study(weft_message *message) {
    return forward("study", message);
}

static weft_status hopper(weft_message *message) {
    return forward(NULL, message);
}

static weft_status decode(weft_message *message) {
    weft_attention p = small();
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    p.seq = 1;
    data.q = data.k = data.v = in;
    data.o = out;
    return run_plan(&p, &data, "decode", message);
}

static weft_status backward(weft_message *message) {
    weft_attention p = small();
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    data.q = data.k = data.v = data.grad_o = data.o = in;
    data.lse = in;
    data.grad_q = out;
    data.grad_k = more;
    data.grad_v = more + MOST / 2;
    return run_plan(&p, &data, NULL, message);
}

static weft_status combine(weft_message *message) {
    weft_combine p = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    p.seq = 64;
    p.head_dim = 64;
    data.parts[0] = data.parts[1] = in;
    data.lses[0] = data.lses[1] = in;
    data.o = out;
    return run_plan(&p, &data, NULL, message);
}

static const scenario scenarios[] = {
    {"product", product}, {"fp32 product", fp32_product}, {"study", study},    {"hopper", hopper},
    {"decode", decode},   {"backward", backward},         {"combine", combine}};

static void arm(int at, int on, int later, int error) {
    *fault() = (fake_fault){.at = at, .on = on, .later = later, .error = error};
}

static fake_counts live(void) {
    return *counts();
}

/* Nothing is left that was not there before: memory, contexts on the stack, streams, events. A context that cannot be
 * entered any more takes its own with it. */
static void same_counts(const fake_counts *before, const char *name, int at, int is_lost) {
    const fake_counts now = live();
    if (is_lost && now.pushed == before->pushed && now.contexts == before->contexts) {
        return;
    }
    if (now.allocations != before->allocations || now.pushed != before->pushed || now.streams != before->streams ||
        now.events != before->events || now.contexts != before->contexts) {
        fail_msg("%s, call %d: %d allocations, %d pushed, %d streams, %d events, %d contexts are left", name, at,
                 now.allocations - before->allocations, now.pushed - before->pushed, now.streams - before->streams,
                 now.events - before->events, now.contexts - before->contexts);
    }
}

static void runs_right(const scenario *s, const float *right, const char *when) {
    weft_message message = {""};
    memset(out, 0, MOST * sizeof *out);
    if (s->run(&message)) {
        fail_msg("%s %s: %s", s->name, when, message.text);
    }
    if (memcmp(out, right, MOST * sizeof *out) != 0) {
        fail_msg("%s %s: another result", s->name, when);
    }
}

/* Returns 1 when something failed. */
static int fails_well(const scenario *s, const float *right, const fake_fault *f) {
    const fake_counts before = live();
    weft_message message = {""};
    memset(out, 0, MOST * sizeof *out);
    *fault() = *f;
    const weft_status status = s->run(&message);
    const char *failed = fault()->failed;
    arm(0, 0, 0, 0);
    if (status && !message.text[0]) {
        fail_msg("%s, call %d (%s): %s without a message", s->name, f->at, failed, weft_status_name(status));
    }
    if (!status && memcmp(out, right, MOST * sizeof *out) != 0) {
        fail_msg("%s, call %d (%s) with error %d%s: no status and a wrong result", s->name, f->at, failed, f->error,
                 f->later ? ", later" : "");
    }
    runs_right(s, right, "after a fault");
    same_counts(&before, s->name, f->at, f->on || f->later);
    return failed != NULL;
}

static void each_call_fails(void **state) {
    static const int errors[] = {1, 2, 3, 100, 201, 209, 304, 700, 719, 800, 900, 999};
    static float right[MOST];
    const char *rounds = getenv("WEFT_TEST_ROUNDS");
    const int per_cent = rounds ? atoi(rounds) : 100;
    int tried = 0, calls = 0;
    (void)state;
    script(NULL);
    const weft_cuda_driver *driver;
    uint64_t memory[3];
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(driver->memory_new(&memory[i], MOST * sizeof(float)), 0);
        memset((void *)(uintptr_t)memory[i], 0, MOST * sizeof(float));
    }
    in = (float *)(uintptr_t)memory[0];
    out = (float *)(uintptr_t)memory[1];
    more = (float *)(uintptr_t)memory[2];
    for (int i = 0; i < MOST; i++) {
        const uint32_t two = 0x3f803f00U + (uint32_t)(i % 64) * 0x10001U; /* two of bf16, about 0.5 and 1 */
        memcpy(&in[i], &two, sizeof two);
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const scenario *s = &scenarios[i];
        weft_message message = {""};
        memset(out, 0, MOST * sizeof *out);
        if (s->run(&message)) {
            fail_msg("%s: %s", s->name, message.text);
        }
        memcpy(right, out, sizeof right);
        runs_right(s, right, "again");
        arm(0, 0, 0, 0);
        runs_right(s, right, "and again");
        const int count = fault()->calls, most = per_cent ? USUAL * per_cent / 100 : count;
        const int step = most > 0 && count > most ? count / most : 1;
        calls += count;
        for (int at = 1; at <= count; at += step) {
            const int error = errors[at % (int)(sizeof errors / sizeof *errors)];
            for (int form = 0; form < 3; form++) { /* alone, with all after it, later */
                const fake_fault f = {.at = at, .on = form == 1, .later = form == 2, .error = error};
                tried += fails_well(s, right, &f);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(driver->memory_free(memory[i]), 0);
    }
    print_message("%d calls of the driver, %d faults\n", calls, tried);
    assert_true(tried > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
