/* SPDX-License-Identifier: Apache-2.0 */
/* Running problems, and timing and checking them. */
#include "api.h"

enum { SEQ = 32, HEADS = 2, DIM = 16, ROWS = SEQ * HEADS * DIM };

static float q[ROWS], k[ROWS], v[ROWS], o[ROWS], dq[ROWS], dk[ROWS], dv[ROWS];

static void fill(float *values, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)((i * 2654435761U + seed) % 1000) / 1000 - 0.5F;
    }
}

static void tell_values(char *text, size_t size, const float *values, size_t count) {
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    }
    snprintf(text, size, "%016llx", (unsigned long long)hash);
}

static weft_attention small(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = p.kv_seq = SEQ;
    p.heads = p.kv_heads = HEADS;
    p.head_dim = DIM;
    fill(q, ROWS, 1);
    fill(k, ROWS, 2);
    fill(v, ROWS, 3);
    return p;
}

static void tell_o(char *text, size_t size) {
    tell_values(text, size, o, ROWS);
}

static weft_status forward(weft_message *m) {
    const weft_attention p = small();
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = q;
    data.k = k;
    data.v = v;
    data.o = o;
    return weft_attention_forward(&p, &data, m);
}

static weft_status backward(weft_message *m) {
    const weft_attention p = small();
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = data.grad_o = q;
    data.k = k;
    data.v = v;
    data.grad_q = dq;
    data.grad_k = dk;
    data.grad_v = dv;
    return weft_attention_backward(&p, &data, m);
}

static void tell_gradients(char *text, size_t size) {
    tell_values(text, size, dk, ROWS);
}

static weft_gemm_data product(void) {
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    fill(api.a, 48 * 32, 1);
    fill(api.b, 48 * 32, 2);
    data.a = api.a;
    data.b = api.b;
    data.c = api.c;
    return data;
}

static void tell_c(char *text, size_t size) {
    tell_values(text, size, api.c, 48 * 48);
}

static weft_status multiply(weft_message *m) {
    const weft_gemm_data data = product();
    return weft_gemm_multiply(&api.gemm, &data, m);
}

static weft_status combine(weft_message *m) {
    weft_combine p = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    static float lse[2][SEQ * HEADS];
    (void)small();
    p.heads = HEADS;
    p.seq = SEQ;
    p.head_dim = DIM;
    data.parts[0] = q;
    data.parts[1] = k;
    data.lses[0] = lse[0];
    data.lses[1] = lse[1];
    data.o = o;
    return weft_combine_parts(&p, &data, m);
}

static weft_status grouped(weft_message *m) {
    static const int32_t starts[] = {0, 20, 48};
    weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
    weft_grouped_gemm_data data = WEFT_GROUPED_GEMM_DATA_INIT;
    const weft_gemm_data other = product();
    p.groups = 2;
    p.rows = 48;
    p.n = 24;
    p.k = 32;
    p.starts = starts;
    data.a = other.a;
    data.b = other.b;
    data.c = api.c;
    return weft_grouped_gemm_multiply(&p, &data, m);
}

static weft_status run(weft_message *m) {
    const weft_gemm_data data = product();
    return weft_plan_run(api.host_plan, &data, m);
}

static void ignore(void *user, int64_t done, int64_t total) {
    (void)user;
    (void)done;
    (void)total;
}

static weft_status run_told(weft_message *m) {
    const weft_gemm_data data = product();
    return weft_plan_run_with_progress(api.host_plan, &data, ignore, NULL, m);
}

static weft_status enqueue(weft_message *m) {
    const weft_gemm_data data = product();
    return weft_plan_enqueue(api.host_plan, &data, NULL, m);
}

static weft_status prepare(weft_message *m) {
    const weft_gemm_data data = product();
    return weft_plan_prepare(api.host_plan, &data, NULL, m);
}

static weft_status check_plan(weft_message *m) {
    return weft_plan_check(api.host_plan, m);
}

static weft_status run_fresh(weft_message *m) {
    weft_release_memory(); /* so that scratch memory is taken anew */
    return run(m);
}

/* ---- timing and checking ---- */

static weft_status open_bench(weft_message *m) {
    weft_bench_options options = WEFT_BENCH_INIT;
    return weft_bench_open((weft_bench **)&api_made, api.host_plan, &options, m);
}

static void close_bench(char *text, size_t size) {
    snprintf(text, size, "opened");
    weft_bench_close(api_made);
}

static weft_status reset(weft_message *m) {
    return weft_bench_reset(api.bench, m);
}

static weft_status run_bench(weft_message *m) {
    return weft_bench_run(api.bench, api.host_plan, m);
}

static weft_status time_bench(weft_message *m) {
    double seconds = 0;
    return weft_bench_time(api.bench, api.host_plan, 1, &seconds, m);
}

static weft_status time_many(weft_message *m) {
    double times[2];
    return weft_bench_times(api.bench, (const weft_plan *const *)&api.host_plan, 1, 2, times, m);
}

static weft_status data_of_bench(weft_message *m) {
    const void *data = NULL;
    return weft_bench_data(api.bench, &data, m);
}

static weft_status check_bench(weft_message *m) {
    weft_check check = WEFT_CHECK_INIT;
    const weft_status status = weft_bench_check(api.bench, &check, m);
    snprintf(api_text, sizeof api_text, "%d %lld", check.passed, (long long)check.checked);
    return status;
}

static weft_status check_result(weft_message *m) {
    weft_check check = WEFT_CHECK_INIT;
    const weft_gemm_data data = product();
    const weft_status status = weft_check_result(&api.gemm, &data, NULL, &check, m);
    snprintf(api_text, sizeof api_text, "%d %lld", check.passed, (long long)check.checked);
    return status;
}

static weft_status check_some(weft_message *m) {
    weft_check check = WEFT_CHECK_INIT;
    weft_check_options options = WEFT_CHECK_OPTIONS_INIT;
    const weft_gemm_data data = product();
    options.operations = 1000;
    const weft_status status = weft_check_sample(&api.gemm, &data, NULL, &options, &check, m);
    snprintf(api_text, sizeof api_text, "%d %lld", check.passed, (long long)check.checked);
    return status;
}

const api_case api_runs[] = {
    {"weft_attention_forward", forward, tell_o, 0},
    {"weft_attention_backward", backward, tell_gradients, 0},
    {"weft_combine_parts", combine, tell_o, 0},
    {"weft_grouped_gemm_multiply", grouped, tell_c, 0},
    {"weft_gemm_multiply", multiply, tell_c, 0},
    {"weft_plan_run", run, tell_c, 0},
    {"weft_plan_run (weft_release_memory)", run_fresh, tell_c, 0},
    {"weft_plan_run_with_progress", run_told, tell_c, 0},
    {"weft_plan_enqueue", enqueue, tell_c, 0},
    {"weft_plan_prepare", prepare, NULL, 0},
    {"weft_plan_check", check_plan, NULL, 0},
    {"weft_check_result", check_result, NULL, 0},
    {"weft_check_sample", check_some, NULL, 0},
    {"weft_bench_open", open_bench, close_bench, 0},
    {"weft_bench_reset", reset, NULL, 0},
    {"weft_bench_run", run_bench, NULL, 0},
    {"weft_bench_time", time_bench, NULL, 0},
    {"weft_bench_times", time_many, NULL, 0},
    {"weft_bench_data", data_of_bench, NULL, 0},
    {"weft_bench_check", check_bench, NULL, 0},
    {NULL, NULL, NULL, 0},
};
