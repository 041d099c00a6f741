/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with an order of the caller's. */
#include "../cmocka_all.h"
#include "../plans.h"
#include "../random.h"

#include <string.h>

#include <weft/search.h>
#include <weft/tune.h>

/* 4 x 5 tiles. */
static weft_gemm product(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 64;
    p.n = 80;
    p.k = 32;
    return p;
}

static weft_schedule schedule_of(const uint32_t *table, int64_t count) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = s.tile_k = 16;
    s.order_table = table;
    s.order_count = count;
    return s;
}

static weft_status create(weft_plan **plan, const weft_gemm *p, const weft_schedule *s, weft_mode mode,
                          weft_message *message) {
    weft_device device = WEFT_DEVICE_INIT;
    device.mode = mode;
    const weft_plan_options options = {sizeof options, s, NULL, &device, 0};
    return weft_plan_create(plan, p, &options, message);
}

static void refused(const weft_gemm *p, const weft_schedule *s, weft_mode mode, const char *text) {
    weft_message message = {""};
    weft_plan *plan;
    assert_int_equal(create(&plan, p, s, mode, &message), WEFT_INVALID);
    assert_null(plan);
    assert_string_equal(message.text, text);
}

static void mistakes(void **state) {
    (void)state;
    const weft_gemm p = product();
    uint32_t table[20];
    for (uint32_t i = 0; i < 20; i++) {
        table[i] = 19 - i;
    }
    weft_schedule s = schedule_of(NULL, 0);
    s.order = WEFT_ORDER_CUSTOM;
    refused(&p, &s, WEFT_ESTIMATE, "order custom needs order_table, a table of the caller's");
    s = schedule_of(table, 20);
    s.order = WEFT_ORDER_HILBERT;
    refused(&p, &s, WEFT_ESTIMATE, "order_table is given, and order is 5: order custom takes it");
    s = schedule_of(table, 19);
    refused(&p, &s, WEFT_ESTIMATE,
            "order custom: tile 0 (row 0, column 0) is missing: the order has 19 of 1 x 4 x 5 = 20 tiles");
    s = schedule_of(table, 20);
    s.cluster_m = 2;
    s.workers = 2;
    refused(
        &p, &s, WEFT_ESTIMATE,
        "order custom: tile 19 at position 0 is not in the grid of 1 x 2 x 5 = 10 tiles (a tile here is a cluster of 2x1)");
    s = schedule_of(table, 20);
    refused(&p, &s, WEFT_STORED, "order custom is not tuned or stored: its table fits one grid of tiles");
    refused(&p, &s, WEFT_MEASURE, "order custom is not tuned or stored: its table fits one grid of tiles");
    weft_tuned tuned = WEFT_TUNED_INIT;
    assert_int_equal(weft_tune(&p, &s, NULL, NULL, &tuned, NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_tuned_find(&p, &s, NULL, &tuned, NULL), WEFT_INVALID);
}

/* The plan has a table of its own, gives it back, and says in JSON which it is. */
static void a_plan_copies(void **state) {
    (void)state;
    const weft_gemm p = product();
    uint64_t random = random_seed(91);
    uint32_t *table = random_table(&random, 20), copy[20];
    weft_schedule s = schedule_of(table, 20);
    weft_plan *plan, *again;
    char text[1024];
    assert_non_null(table);
    memcpy(copy, table, sizeof copy);
    assert_int_equal(create(&plan, &p, &s, WEFT_ESTIMATE, NULL), WEFT_OK);
    memset(table, 0, sizeof copy);
    free(table);
    const weft_schedule chosen = weft_plan_schedule(plan);
    const weft_walk *walk = weft_plan_walk(plan, sizeof *walk);
    assert_int_equal(chosen.order, WEFT_ORDER_CUSTOM);
    assert_int_equal(chosen.order_count, 20);
    assert_memory_equal(chosen.order_table, copy, sizeof copy);
    for (int64_t i = 0; i < 20; i++) {
        assert_int_equal(weft_tile_index(&walk->order, weft_order_tile(&walk->order, i)), copy[i]);
    }
    assert_int_equal(create(&again, &p, &chosen, WEFT_ESTIMATE, NULL), WEFT_OK);
    const weft_schedule same = weft_plan_schedule(again);
    assert_true(weft_schedule_same(&chosen, &same) && chosen.order_table != same.order_table);
    weft_plan_text(plan, text, sizeof text);
    assert_non_null(strstr(text, "order custom from a table"));
    weft_plan_json(plan, text, sizeof text);
    assert_true(strstr(text, "\"order\": \"custom\"") && strstr(text, "\"order_hash\": \""));
    char list[128];
    snprintf(list, sizeof list, "\"order_table\": [%u, %u, %u, ", copy[0], copy[1], copy[2]);
    assert_non_null(strstr(text, list));
    weft_schedule read = WEFT_SCHEDULE_INIT;
    assert_int_equal(weft_schedule_from_json(&read, text, strlen(text), "f", NULL), WEFT_OK);
    assert_true(read.order == WEFT_ORDER_CUSTOM && weft_schedule_same(&read, &chosen) == 0); /* axis is not of this order */
    assert_int_equal(read.order_count, 20);
    assert_memory_equal(read.order_table, copy, sizeof copy);
    assert_true(read.order_hash == chosen.order_hash && read.order_hash != 0);
    free((void *)(uintptr_t)read.order_table);
    weft_plan_destroy(plan);
    weft_plan_destroy(again);
}

/* Beyond 65536 entries JSON has the hash alone. */
static void long_orders(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = 257;
    p.k = 1;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = s.tile_k = 1;
    s.order = WEFT_ORDER_CUSTOM;
    weft_plan *plan;
    char text[1024];
    assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
    assert_true(weft_plan_json(plan, text, sizeof text) < sizeof text);
    assert_true(strstr(text, "order_hash") && !strstr(text, "order_table"));
    weft_schedule read = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    weft_plan *other;
    assert_int_equal(weft_schedule_from_json(&read, text, strlen(text), "f", NULL), WEFT_OK);
    refused(&p, &read, WEFT_ESTIMATE, "order custom needs order_table, a table of the caller's");
    read.order_table = plan->table; /* given again */
    read.order_count = 257 * 257;
    assert_int_equal(create(&other, &p, &read, WEFT_ESTIMATE, NULL), WEFT_OK);
    weft_plan_destroy(other);
    const uint32_t first = plan->table[0];
    plan->table[0] = plan->table[1]; /* another order */
    plan->table[1] = first;
    assert_int_equal(create(&other, &p, &read, WEFT_ESTIMATE, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "order custom: the order has the hash "));
    weft_plan_destroy(plan);
    p.m = p.n = INT64_C(1) << 15; /* 2^30 tiles */
    assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "a table of 1073741824 positions is more than 268435456");
}

/* What JSON may have for an order, and what not. */
static void json_mistakes(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"{\"order\": \"custom\", \"order_table\": 3}", "f: schedule: \"order_table\" is not a list of tile numbers"},
        {"{\"order_table\": []}", "f: schedule: \"order_table\" is not a list of tile numbers"},
        {"{\"order_table\": [0, -1]}", "f: schedule: \"order_table\" is not a list of tile numbers"},
        {"{\"order_table\": [0, 4294967296]}", "f: schedule: \"order_table\" is not a list of tile numbers"},
        {"{\"order_table\": [0, \"1\"]}", "f: schedule: \"order_table\" is not a list of tile numbers"},
        {"{\"order_table\": [0, 1], \"loom\": 1}", "f: schedule: \"loom\" is not a choice of a schedule"},
        {"{\"order_hash\": \"12\"}", "f: schedule: \"order_hash\" is not 16 hexadecimal digits"},
        {"{\"order_hash\": \"0123456789abcdeg\"}", "f: schedule: \"order_hash\" is not 16 hexadecimal digits"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_schedule read = WEFT_SCHEDULE_INIT;
        weft_message message = {""};
        assert_int_equal(weft_schedule_from_json(&read, wrong[i][0], strlen(wrong[i][0]), "f", &message), WEFT_INVALID);
        assert_string_equal(message.text, wrong[i][1]);
        assert_null(read.order_table);
    }
}

/* The grid is the one that a plan has, whatever its machine, clusters and sweep; on the CPU all of a batch. */
static void positions(void **state) {
    (void)state;
    weft_gemm p = product();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine h200 = WEFT_MACHINE_INIT;
    weft_grid grid;
    assert_int_equal(weft_machine_load(&h200, "h200", NULL), WEFT_OK);
    p.batch = 3;
    s.tile_m = s.tile_n = s.tile_k = 16;
    for (int i = 0; i < 8; i++) {
        s.cluster_m = 1 + i % 2;
        s.sweep = i / 2 % 2 ? WEFT_SWEEP_PAIR : WEFT_SWEEP_FORWARD;
        s.workers = 4;
        const weft_plan_options options = {sizeof options, &s, i / 4 ? &h200 : NULL, NULL, 0};
        assert_int_equal(weft_plan_positions(&p, &options, &grid, NULL), WEFT_OK);
        assert_true(grid.batch == 3 && grid.rows == 4 / s.cluster_m && grid.cols == (i / 2 % 2 ? 3 : 5));
        weft_schedule own = s;
        weft_plan *plan;
        own.order = WEFT_ORDER_CUSTOM;
        assert_int_equal(plan_for(&plan, &p, &own, options.machine, NULL), WEFT_OK);
        weft_plan_destroy(plan);
    }
    assert_int_equal(weft_plan_positions(&p, NULL, NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_plan_positions(NULL, NULL, &grid, NULL), WEFT_INVALID);
}

/* A search has it beside the orders that have names; the rows point to the caller's table. */
static void a_search_has_it(void **state) {
    (void)state;
    const weft_gemm p = product();
    uint64_t random = random_seed(92);
    uint32_t *table = random_table(&random, 20);
    const weft_schedule s = schedule_of(table, 20);
    weft_machine h200 = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&h200, "h200", NULL), WEFT_OK);
    const weft_plan_options options = {sizeof options, &s, &h200, NULL, 0};
    for (int space = WEFT_SEARCH_ORDERS; space <= WEFT_SEARCH_ALL; space++) {
        weft_search_options how = WEFT_SEARCH_INIT;
        weft_ranked row = WEFT_RANKED_INIT;
        weft_search *search;
        int custom = 0, named = 0;
        how.space = (weft_search_space)space;
        assert_int_equal(weft_search_run(&search, &p, &options, &how, NULL), WEFT_OK);
        for (size_t i = 0; weft_search_row(search, i, &row, NULL) == WEFT_OK; i++) {
            weft_plan *plan;
            custom += row.schedule.order == WEFT_ORDER_CUSTOM;
            named += row.schedule.order != WEFT_ORDER_CUSTOM;
            assert_ptr_equal(row.schedule.order_table, row.schedule.order == WEFT_ORDER_CUSTOM ? table : NULL);
            assert_int_equal(plan_for(&plan, &p, &row.given, &h200, NULL), WEFT_OK);
            weft_plan_destroy(plan);
        }
        assert_true(custom >= 2 && named >= 10); /* pairs of tiles are another grid */
        weft_search_destroy(search);
    }
    free(table);
}

/* The tile is the one that the order was made for, also where kernels have others; what they would take by default is not
 * the caller's order. */
static void a_search_keeps_the_tile(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 1024;
    p.dtype = WEFT_BF16;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_machine h200 = WEFT_MACHINE_INIT;
    weft_grid grid;
    assert_int_equal(weft_machine_load(&h200, "h200", NULL), WEFT_OK);
    const weft_plan_options options = {sizeof options, &s, &h200, NULL, 0};
    assert_int_equal(weft_plan_positions(&p, &options, &grid, NULL), WEFT_OK);
    uint64_t random = random_seed(95);
    uint32_t *table = random_table(&random, grid.rows * grid.cols);
    s.order_table = table;
    s.order_count = grid.rows * grid.cols;
    weft_search_options how = WEFT_SEARCH_INIT;
    weft_ranked row = WEFT_RANKED_INIT;
    weft_search *search;
    int custom = 0;
    how.space = WEFT_SEARCH_ALL;
    assert_int_equal(weft_search_run(&search, &p, &options, &how, NULL), WEFT_OK);
    for (size_t i = 0; weft_search_row(search, i, &row, NULL) == WEFT_OK; i++) {
        assert_int_equal(weft_ceil_divide(p.m, row.schedule.tile_m), grid.rows);
        assert_int_equal(weft_ceil_divide(p.n, row.schedule.tile_n), grid.cols);
        assert_true(i > 0 || row.schedule.order != WEFT_ORDER_CUSTOM); /* any order has fewer misses than a random one */
        custom += row.schedule.order == WEFT_ORDER_CUSTOM;
    }
    assert_true(custom > 0);
    weft_search_destroy(search);
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_plan_copies),
        cmocka_unit_test(long_orders),
        cmocka_unit_test(json_mistakes),
        cmocka_unit_test(positions),
        cmocka_unit_test(a_search_has_it),
        cmocka_unit_test(a_search_keeps_the_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
