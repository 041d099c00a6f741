/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that goes away under a plan, on the real driver: its context is destroyed, the primary one is reset, or a kernel
 * fails. The next calls fail with a message, the plan can be destroyed, and in a new context, where the driver gives one, a
 * new plan is right. Each loss has a process of its own, as it takes all of the process's work on the GPU with it. Exits
 * 77, with one line, where there is no GPU. */
#include "attention_trial.h"

#include <sys/wait.h>
#include <unistd.h>

/* What only this test calls. */
static int (*context_create)(void **context, unsigned flags, int device);
static int (*context_destroy)(void *context);
static int (*primary_reset)(int device);
static int (*module_load)(void **module, const void *image);
static int (*module_function)(void **function, void *module, const char *name);

/* A kernel that fails. */
static const char trap[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry fails() {\n trap;\n}\n";

static void find_symbols(void) {
    const driver_symbol wanted[] = {{&context_create, "cuCtxCreate_v2"},
                                    {&context_destroy, "cuCtxDestroy_v2"},
                                    {&primary_reset, "cuDevicePrimaryCtxReset_v2"},
                                    {&module_load, "cuModuleLoadData"},
                                    {&module_function, "cuModuleGetFunction"}};
    find_driver_symbols(wanted, sizeof wanted / sizeof *wanted);
}

/* A plan whose launches take counters, a workspace or tables, by the dispatch. */
static weft_plan *some_plan(weft_attention *p, weft_dispatch dispatch) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    *p = attention(1, 4, 2, 300, 400, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    s.dispatch = dispatch;
    return plan_new(p, &s, NULL);
}

/* A new plan gives what it should. */
static void is_right(const char *when) {
    uint64_t random = random_seed(73);
    weft_attention p;
    weft_message message = {""};
    weft_plan *plan = some_plan(&p, WEFT_DISPATCH_DYNAMIC);
    problem x = problem_new(&p, &random);
    poison(&x);
    CHECK(weft_plan_run(plan, &x.device, &message) == WEFT_OK, "%s: %s", when, message.text);
    fetch(&x);
    compare(&x, when);
    weft_plan_destroy(plan);
    problem_free(&x);
}

/* Calls of a plan whose GPU is gone. */
static void is_told(const weft_plan *plan, const void *data, const char *when) {
    for (int i = 0; i < 2; i++) {
        weft_message message = {""};
        const weft_status status = i ? weft_plan_run(plan, data, &message) : weft_plan_enqueue(plan, data, NULL, &message);
        CHECK((status == WEFT_FAILED || status == WEFT_INVALID) && message.text[0] && !strchr(message.text, '\n'),
              "%s: status %d, \"%s\"", when, (int)status, message.text);
        printf("%s: %s\n", when, message.text);
    }
}

static void destroyed(weft_dispatch dispatch, const weft_cuda_device *device) {
    uint64_t random = random_seed(74);
    weft_attention p;
    void *own, *popped;
    DEMAND(context_create(&own, 0, device->handle));
    weft_plan *plan = some_plan(&p, dispatch);
    problem x = problem_new(&p, &random);
    DEMAND(weft_plan_run(plan, &x.device, NULL));
    DEMAND(driver->context_pop(&popped));
    DEMAND(context_destroy(own));
    is_told(plan, &x.device, "a context that was destroyed");
    weft_plan_destroy(plan);
    is_right("after a context was destroyed");
}

/* The primary context's handle stays, and stands for nothing until somebody retains it again. */
static void reset_primary(const weft_cuda_device *device) {
    void *context;
    DEMAND(driver->context_pop(&context));
    DEMAND(primary_reset(device->handle));
}

static void retain_again(const weft_cuda_device *device) {
    void *context;
    DEMAND(driver->primary_retain(&context, device->handle));
    DEMAND(driver->context_push(context));
}

static void reset(weft_dispatch dispatch, const weft_cuda_device *device) {
    uint64_t random = random_seed(75);
    weft_attention p;
    weft_plan *plan = some_plan(&p, dispatch);
    problem x = problem_new(&p, &random);
    DEMAND(weft_plan_run(plan, &x.device, NULL));
    reset_primary(device);
    is_told(plan, &x.device, "a context that was reset");
    weft_plan_destroy(plan);
    retain_again(device);
    is_right("after a context was reset");
}

static void failed(weft_dispatch dispatch, const weft_cuda_device *device) {
    (void)device;
    uint64_t random = random_seed(76);
    weft_attention p;
    weft_message message = {""};
    void *module, *function;
    weft_plan *plan = some_plan(&p, dispatch);
    problem x = problem_new(&p, &random);
    DEMAND(module_load(&module, trap));
    DEMAND(module_function(&function, module, "fails"));
    DEMAND(driver->launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(weft_plan_run(plan, &x.device, &message) == WEFT_FAILED, "beside a kernel that fails: \"%s\"", message.text);
    is_told(plan, &x.device, "after a kernel that failed");
    weft_plan_destroy(plan); /* and this process has no GPU any more: the driver gives it no new context */
}

int main(void) {
    void (*const losses[])(weft_dispatch, const weft_cuda_device *) = {destroyed, reset, failed};
    const weft_dispatch dispatches[] = {WEFT_DISPATCH_STATIC, WEFT_DISPATCH_DYNAMIC};
    enum { LOSSES = sizeof losses / sizeof *losses };
    int wrong = 0, skipped = 0;
    for (int i = 0; i < 2 * LOSSES; i++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            weft_cuda_device device;
            (void)open_gpu(0, &device);
            find_symbols();
            losses[i / 2](dispatches[i % 2], &device);
            exit(failures != 0);
        }
        int status = -1;
        DEMAND(child < 0 || waitpid(child, &status, 0) != child);
        skipped += WIFEXITED(status) && WEXITSTATUS(status) == 77;
        wrong += !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 77);
        if (WIFSIGNALED(status)) {
            fprintf(stderr, "loss %d, dispatch %d: ended by signal %d\n", i / 2, i % 2, WTERMSIG(status));
        }
    }
    if (skipped) {
        return 77;
    }
    printf("gone_device: %d losses: %d failed\n", 2 * LOSSES, wrong);
    return wrong != 0;
}
