/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that only compute: they call nothing of the system that could fail. */
#include "api.h"

/* Adds a text to what is told. */
static void add(const char *text) {
    const size_t used = strlen(api_text);
    snprintf(api_text + used, sizeof api_text - used, "%s ", text ? text : "-");
}

static void add_number(double number) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", number);
    add(text);
}

static weft_status names(weft_message *m) {
    const char *recorded;
    int32_t present;
    (void)m;
    add(weft_version());
    add(weft_status_name(WEFT_IO));
    add(weft_cpu_feature(0, &present));
    add(weft_operation_describe(1)->name);
    add(weft_order_describe(1)->name);
    add(weft_sweep_describe(1)->name);
    add(weft_dispatch_describe(1)->name);
    add(weft_dtype_name(WEFT_BF16));
    add(weft_rank_cut_name(1));
    add(weft_exchange_name(1));
    add(weft_rank_order_describe(1)->name);
    add(weft_machine_name(0));
    add(weft_profile_name(0));
    add(weft_counter_describe(0)->key);
    add(weft_elsewhere_name(0));
    add(weft_search_rule());
    add(weft_build(WEFT_DEVICE_CPU));
    add(weft_recorded(0, &recorded) ? recorded : "nothing recorded");
    add_number(weft_operation_find("gemm") + weft_order_find("hilbert") + weft_sweep_find("sawtooth") +
               weft_dispatch_find("static") + weft_dtype_find("bf16") + weft_rank_cut_find("zigzag") +
               weft_exchange_find("ring") + weft_rank_order_find("ring") + weft_counter_find("l2_misses"));
    add_number(weft_cuda_version());
    return WEFT_OK;
}

static weft_status numbers(weft_message *m) {
    static const weft_sector_model model = {1024, 64, 128, 2, 32};
    double times[] = {3, 1, 2};
    weft_traffic traffic = WEFT_TRAFFIC_INIT;
    traffic.sectors = 4;
    traffic.hits = 1;
    (void)m;
    add_number(weft_model_sectors(&model));
    add_number(weft_model_sectors_causal(&model));
    add_number(weft_model_compulsory(&model));
    add_number(weft_model_passes(4, 2, 3, 1));
    add_number(weft_model_wavefront_hits(4));
    add_number(weft_median(times, 3));
    add_number(weft_hit_rate(&traffic));
    add_number(weft_waiting_share(&api.simulation));
    add_number((double)weft_simulate_steps(api.plan));
    add_number(weft_colour_ramp(0.5));
    add(weft_rate_unit(1).name);
    add(weft_bytes_unit(1e6).name);
    add(weft_rate_text(12).text);
    add(weft_traffic_text(1e9).text);
    add(weft_memory_text(1 << 20).text);
    return WEFT_OK;
}

static weft_status problems(weft_message *m) {
    weft_buffer buffer = WEFT_BUFFER_INIT;
    weft_gemm p;
    weft_attention attention;
    add_number((double)weft_dtype_bytes(WEFT_BF16));
    add_number(weft_problem_flops(&api.gemm));
    add_number(weft_problem_init(&p, WEFT_GEMM) + weft_problem_init(&attention, WEFT_ATTENTION));
    weft_status status = weft_problem_check(&api.attention, m);
    status = status ? status : weft_problem_buffer(&api.gemm, 0, &buffer, m);
    add(buffer.name);
    return status;
}

static weft_status plans(weft_message *m) {
    weft_chunk chunk = {0, 0, 0};
    const weft_ranks ranks = weft_dist_ranks(api.dist);
    float all[4] = {1, 2, 3, 4}, part[4] = {0, 0, 0, 0};
    (void)m;
    (void)all;
    (void)part;
    add(weft_plan_kernel(api.host_plan));
    add(weft_plan_backend(api.host_plan));
    add(weft_plan_profile(api.plan));
    add(weft_plan_machine(api.plan)->name);
    add_number((double)weft_plan_workspace(api.host_plan));
    add_number(weft_plan_problem(api.plan) != NULL);
    add_number(weft_plan_walk(api.plan, sizeof(weft_walk)) != NULL);
    add_number((double)weft_dist_rows(api.dist, 0, WEFT_QUERY_ROWS) +
               weft_dist_chunk(api.dist, 0, WEFT_QUERY_ROWS, 0, &chunk));
    add_number((double)weft_dist_kept(api.dist));
    weft_ranks_text(&ranks, api_text + strlen(api_text), 200);
    weft_tunings_path(api_text + strlen(api_text), 200);
    weft_counters_ncu(NULL, 0, NULL, "weft", api_text + strlen(api_text), 2000);
    return WEFT_OK;
}

static weft_status rows(weft_message *m) {
    static float all[128 * 4], part[128 * 4];
    for (int i = 0; i < 128 * 4; i++) {
        all[i] = (float)i;
    }
    (void)m;
    weft_dist_pick(api.dist, 1, WEFT_QUERY_ROWS, all, sizeof(float), part, sizeof(float), sizeof(float));
    weft_dist_put(api.dist, 1, WEFT_QUERY_ROWS, all, sizeof(float), part, sizeof(float), sizeof(float));
    add_number((double)part[0]);
    return WEFT_OK;
}

const api_case api_names[] = {
    {"names", names, NULL, 0}, {"numbers", numbers, NULL, 0},    {"problems", problems, NULL, 0},
    {"plans", plans, NULL, 0}, {"rows of ranks", rows, NULL, 0}, {NULL, NULL, NULL, 0},
};
