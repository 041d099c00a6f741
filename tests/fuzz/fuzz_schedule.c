/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as a schedule in JSON. What is accepted is a schedule that survives being written and read
 * again; what is refused says where. */
#include <weft/tune.h>

#include "require.h"

/* Written and read again, a schedule with every choice made is the same. */
static void check_again(weft_schedule s) {
    static char text[1 << 20];
    weft_schedule again = WEFT_SCHEDULE_INIT;
    s.order = s.order ? s.order : s.order_table ? WEFT_ORDER_CUSTOM : WEFT_ORDER_RASTER_N;
    s.sweep = s.sweep ? s.sweep : WEFT_SWEEP_FORWARD;
    s.dispatch = s.dispatch ? s.dispatch : WEFT_DISPATCH_GRID;
    int64_t *const numbers[] = {&s.tile_m, &s.tile_n, &s.cluster_m, &s.cluster_n, &s.workers, &s.group, &s.domains};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i] = *numbers[i] ? *numbers[i] : 1;
    }
    const int is_grouped = (weft_order_describe(s.order)->parameter & WEFT_PARAMETER_GROUP) != 0;
    const int is_matrix = weft_order_grid(s.order) == WEFT_GRID_MATRIX;
    s.axis = !is_grouped || !is_matrix ? WEFT_AXIS_CHOOSE : s.axis ? s.axis : WEFT_AXIS_N;
    s.group = is_grouped ? s.group : 0;
    s.domains = weft_order_describe(s.order)->parameter & WEFT_PARAMETER_DOMAINS ? s.domains : 0;
    if (s.order != WEFT_ORDER_CUSTOM) { /* a table is written only of that one */
        s.order_table = NULL;
        s.order_count = 0;
    } else if (s.domains == 1) {
        s.domains = 0;
    }
    s.split = s.split > 1 ? s.split : 0;
    const size_t length = weft_schedule_json(&s, text, sizeof text);
    require(length > 0 && length < sizeof text);
    require(weft_schedule_from_json(&again, text, length, "again", NULL) == WEFT_OK && weft_schedule_same(&s, &again));
    free((void *)(uintptr_t)again.order_table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const weft_schedule none = WEFT_SCHEDULE_INIT;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    schedule.workers = -5;
    const weft_status status = weft_schedule_from_json(&schedule, (const char *)data, size, "fuzz", &message);
    if (status == WEFT_OK) {
        require(schedule.order >= 0 && schedule.order <= WEFT_ORDER_KINDS && schedule.sweep <= WEFT_SWEEPS);
        require(schedule.tile_m >= 0 && schedule.workers >= 0 && schedule.split >= 0 && schedule.cluster_n >= 0);
        check_again(schedule);
        free((void *)(uintptr_t)schedule.order_table);
    } else {
        require(status == WEFT_INVALID && weft_schedule_same(&schedule, &none));
        require(strncmp(message.text, "fuzz: ", 6) == 0 && memchr(message.text, 0, sizeof message.text) != NULL);
    }
    return 0;
}
