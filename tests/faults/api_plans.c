/* SPDX-License-Identifier: Apache-2.0 */
/* Machines, profiles, problems, plans, orders. */
#include "api.h"

static const weft_machine no_machine = WEFT_MACHINE_INIT;
static weft_machine machine;
static const weft_profile no_profile = WEFT_PROFILE_INIT;
static weft_profile profile;

/* ---- plans ---- */

static weft_status make_plan(const void *problem, const weft_machine *of, weft_message *m) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.machine = of;
    return weft_plan_create((weft_plan **)&api_made, problem, &options, m);
}

static weft_status create(weft_message *m) {
    return make_plan(&api.attention, &api.machine, m);
}

static weft_status create_here(weft_message *m) {
    return make_plan(&api.gemm, NULL, m);
}

/* The order's table is made, and so is what a mask of slices needs. */
static weft_status create_table(weft_message *m) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    static const int32_t starts[] = {0, 40, 128};
    weft_attention packed = api.attention;
    packed.batch = 1;
    packed.sequences = 2;
    packed.lengths.q_starts = packed.lengths.kv_starts = starts;
    schedule.order = WEFT_ORDER_LONGEST_FIRST;
    options.schedule = &schedule;
    options.machine = &api.machine;
    return weft_plan_create((weft_plan **)&api_made, &packed, &options, m);
}

static void tell_plan(char *text, size_t size) {
    weft_plan_json(api_made, text, size);
    weft_plan_destroy(api_made);
}

static weft_status text_of(weft_message *m) {
    return api_length(weft_plan_text(api.plan, api_text, sizeof api_text), m);
}

static weft_status outline(weft_message *m) {
    return api_length(weft_plan_outline(api.plan, api_text, sizeof api_text), m);
}

static weft_status title(weft_message *m) {
    return api_length(weft_plan_title(api.attention_plan, api_text, sizeof api_text), m);
}

static weft_status json(weft_message *m) {
    return api_length(weft_plan_json(api.plan, api_text, sizeof api_text), m);
}

static weft_status schedule_json(weft_message *m) {
    const weft_schedule schedule = weft_plan_schedule(api.plan);
    return api_length(weft_schedule_json(&schedule, api_text, sizeof api_text), m);
}

static weft_status from_json(weft_message *m) {
    static const char text[] = "{\"tile\": [64, 64, 32], \"order\": \"raster-n\", \"sweep\": \"forward\"}";
    weft_schedule read = WEFT_SCHEDULE_INIT;
    const weft_status status = weft_schedule_from_json(&read, text, sizeof text - 1, "a text", m);
    weft_schedule_write(&read, api_text);
    return status;
}

static weft_status read_words(weft_message *m) {
    weft_schedule read = WEFT_SCHEDULE_INIT;
    const weft_status status = weft_schedule_read(&read, "tile_m=64 order=raster-n", m);
    snprintf(api_text, sizeof api_text, "%d", weft_schedule_same(&read, &read));
    return status;
}

static weft_status positions(weft_message *m) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_grid grid = {0, 0, 0};
    options.machine = &api.machine;
    const weft_status status = weft_plan_positions(&api.attention, &options, &grid, m);
    snprintf(api_text, sizeof api_text, "%d %d %d", (int)grid.batch, (int)grid.rows, (int)grid.cols);
    return status;
}

/* ---- orders ---- */

static const weft_grid grid = {1, 2, 2};

static weft_status check_order(weft_message *m) {
    static const uint32_t table[] = {3, 1, 0, 2};
    return weft_order_check(table, 4, grid, m);
}

static weft_status read_order(weft_message *m) {
    static const char text[] = "3\n1\n0\n2\n";
    uint32_t table[4] = {0};
    const weft_status status = weft_order_read(text, sizeof text - 1, "a text", grid, table, m);
    snprintf(api_text, sizeof api_text, "%u %u %u %u", table[0], table[1], table[2], table[3]);
    return status;
}

/* ---- machines and profiles ---- */

static void tell_machine(char *text, size_t size) {
    snprintf(text, size, "%s %lld %lld %g", machine.name, (long long)machine.workers, (long long)machine.l2_bytes,
             machine.clock);
}

static weft_status load(weft_message *m) {
    machine = no_machine;
    return weft_machine_load(&machine, "h100", m);
}

static const char *sheet_path(void) {
    static char path[96];
    snprintf(path, sizeof path, "%s/h100.ini", api.folder);
    return path;
}

static const char *machine_text(void) {
    static char text[16384];
    weft_machine_value values[64];
    size_t count = 0, used = 0;
    if (text[0]) {
        return text;
    }
    for (size_t i = 0; i < 64; i++) {
        const weft_machine_value none = WEFT_MACHINE_VALUE_INIT;
        values[i] = none;
    }
    (void)weft_machine_values("h100", NULL, values, 64, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(values[i].section, values[i - 1].section) != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "[%s]\n", values[i].section);
        }
        if (values[i].value[0] && strcmp(values[i].source, "not given") != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s = %s%s%s\n", values[i].key, values[i].value,
                                     values[i].source[0] ? " | " : "", values[i].source);
        }
    }
    FILE *file = fopen(sheet_path(), "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        api_fail("%s cannot be written", sheet_path());
    }
    return text;
}

static weft_status load_file(weft_message *m) {
    machine = no_machine;
    return weft_machine_load(&machine, sheet_path(), m);
}

static weft_status parse(weft_message *m) {
    const char *text = machine_text();
    machine = no_machine;
    return weft_machine_parse(&machine, text, strlen(text), "a text", m);
}

static weft_status host(weft_message *m) {
    machine = no_machine;
    return weft_machine_host(&machine, m);
}

static weft_status gpu(weft_message *m) {
    machine = no_machine;
    (void)weft_machine_gpu(&machine, 0, m); /* there is none here: it says so */
    return WEFT_OK;
}

static weft_status values(weft_message *m) {
    weft_machine_value list[4];
    size_t count = 0;
    for (size_t i = 0; i < 4; i++) {
        const weft_machine_value none = WEFT_MACHINE_VALUE_INIT;
        list[i] = none;
    }
    const weft_status status = weft_machine_values("h100", &machine, list, 4, &count, m);
    snprintf(api_text, sizeof api_text, "%zu %s %s", count, list[0].key, list[3].value);
    return status;
}

static void tell_profile(char *text, size_t size) {
    snprintf(text, size, "%s %g", profile.name, profile.spread_tile);
}

static weft_status load_profile(weft_message *m) {
    profile = no_profile;
    return weft_profile_load(&profile, "hopper-attention", m);
}

static weft_status parse_profile(weft_message *m) {
    static const char text[] = "[profile]\nname = none\n";
    profile = no_profile;
    (void)weft_profile_parse(&profile, text, sizeof text - 1, "a text", m); /* it lacks keys: it says so */
    snprintf(profile.name, sizeof profile.name, "%.20s", m->text);
    return WEFT_OK;
}

static weft_status profile_values(weft_message *m) {
    size_t count = 0;
    const weft_status status = weft_profile_values("hopper-attention", &profile, NULL, 0, &count, m);
    snprintf(api_text, sizeof api_text, "%zu", count);
    return status;
}

const api_case api_plans[] = {
    {"weft_plan_create", create, tell_plan, 0},
    {"weft_plan_create (host)", create_here, tell_plan, 0},
    {"weft_plan_create (table)", create_table, tell_plan, 0},
    {"weft_plan_text", text_of, NULL, 0},
    {"weft_plan_outline", outline, NULL, 0},
    {"weft_plan_title", title, NULL, 0},
    {"weft_plan_json", json, NULL, 0},
    {"weft_schedule_json", schedule_json, NULL, 0},
    {"weft_schedule_from_json", from_json, NULL, 0},
    {"weft_schedule_read", read_words, NULL, 0},
    {"weft_plan_positions", positions, NULL, 0},
    {"weft_order_check", check_order, NULL, 0},
    {"weft_order_read", read_order, NULL, 0},
    {"weft_machine_load", load, tell_machine, 0},
    {"weft_machine_parse", parse, tell_machine, 0},
    {"weft_machine_load (file)", load_file, tell_machine, 0},
    {"weft_machine_host", host, tell_machine, 0},
    {"weft_machine_gpu", gpu, NULL, 0},
    {"weft_machine_values", values, NULL, 0},
    {"weft_profile_load", load_profile, tell_profile, 0},
    {"weft_profile_parse", parse_profile, tell_profile, 0},
    {"weft_profile_values", profile_values, NULL, 0},
    {NULL, NULL, NULL, 0},
};
