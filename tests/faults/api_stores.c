/* SPDX-License-Identifier: Apache-2.0 */
/* What was tuned, and the store of it. The store holds the tuning of one problem, of one candidate. */
#include "api.h"

static weft_gemm problem(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 32;
    return p;
}

static weft_schedule schedule(void) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.order = WEFT_ORDER_RASTER_N;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.workers = 1;
    return s;
}

/* Lets the library forget what it has read, so that the next call asks the store. */
static void unlearn(void) {
    weft_gemm other = problem();
    int64_t count = 0;
    other.m = 64;
    (void)weft_tuned_forget(&other, NULL, NULL, &count, NULL);
}

static void tell_and_unlearn(char *text, size_t size) {
    snprintf(text, size, "%s", api_text);
    unlearn();
}

static weft_status tune_again(int again, weft_message *m) {
    const weft_gemm p = problem();
    const weft_schedule s = schedule();
    weft_tune_options options = WEFT_TUNE_INIT;
    weft_tuned tuned = WEFT_TUNED_INIT;
    options.seconds = 1e-3;
    options.again = again;
    const weft_status status = weft_tune(&p, &s, NULL, &options, &tuned, NULL, m);
    weft_schedule_write(&tuned.schedule, api_text);
    return status;
}

/* One candidate, whose tile the problem gives: its schedule does not depend on times. */
static weft_status tune(weft_message *m) {
    return tune_again(1, m);
}

static weft_status tuned_before(weft_message *m) {
    return tune_again(0, m);
}

static weft_status find(weft_message *m) {
    const weft_gemm p = problem();
    const weft_schedule s = schedule();
    weft_tuned tuned = WEFT_TUNED_INIT;
    const weft_status status = weft_tuned_find(&p, &s, NULL, &tuned, m);
    weft_schedule_write(&tuned.schedule, api_text);
    return status;
}

static weft_status plan_stored(weft_message *m) {
    const weft_gemm p = problem();
    const weft_schedule s = schedule();
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_device device = WEFT_DEVICE_INIT;
    device.mode = WEFT_STORED;
    options.device = &device;
    options.schedule = &s;
    return weft_plan_create((weft_plan **)&api_made, &p, &options, m);
}

static void tell_plan(char *text, size_t size) {
    weft_plan_json(api_made, text, size);
    weft_plan_destroy(api_made);
    unlearn();
}

static int add(void *user, const weft_tuning *row) {
    const size_t used = strlen(user);
    snprintf((char *)user + used, sizeof api_text - used, "%s %s\n", row->problem, row->given);
    return 0;
}

static weft_status list(weft_message *m) {
    return weft_tunings_list(add, api_text, m);
}

static const char *export_path(void) {
    static char path[96];
    snprintf(path, sizeof path, "%s/tunings.json", api.folder);
    return path;
}

static weft_status export(weft_message *m) {
    int64_t count = 0;
    const weft_status status = weft_tunings_export(export_path(), &count, m);
    snprintf(api_text, sizeof api_text, "%lld", (long long)count);
    return status;
}

static weft_status import(weft_message *m) {
    int64_t count = 0;
    return weft_tunings_import(export_path(), &count, m);
}

/* Of another problem, so that there is always one left. */
static weft_status forget(weft_message *m) {
    weft_gemm p = problem();
    const weft_schedule s = schedule();
    int64_t count = 0;
    p.m = 64;
    const weft_status status = weft_tuned_forget(&p, &s, NULL, &count, m);
    snprintf(api_text, sizeof api_text, "%lld", (long long)count);
    return status;
}

/* After this there is none: the last of the cases. */
static weft_status forget_all(weft_message *m) {
    int64_t count = 0;
    return weft_tunings_forget(&count, m);
}

/* The notice of a store that was set aside would be a loss. */
static weft_status notice(weft_message *m) {
    weft_message said = {""};
    (void)m;
    if (weft_tunings_notice(&said)) {
        api_fail("the store tells: %s", said.text);
    }
    return WEFT_OK;
}

const api_case api_stores[] = {
    {"weft_tune", tune, tell_and_unlearn, 0},
    {"weft_tune (tuned before)", tuned_before, tell_and_unlearn, 0},
    {"weft_tuned_find", find, tell_and_unlearn, 0},
    {"weft_plan_create (stored)", plan_stored, tell_plan, 0},
    {"weft_tunings_list", list, NULL, 0},
    {"weft_tunings_export", export, NULL, 0},
    {"weft_tunings_import", import, NULL, 0},
    {"weft_tuned_forget", forget, NULL, 0},
    {"weft_tunings_notice", notice, NULL, 0},
    {"weft_tunings_forget", forget_all, NULL, 0},
    {NULL, NULL, NULL, 0},
};
