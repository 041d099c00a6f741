/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the caller's: what a table has to be, and what a file of tiles may look like. */
#include "../cmocka_all.h"
#include "../plans.h"
#include "../random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order/table.h"

static const weft_grid GRID = {1, 2, 3};

/* Reads `text` for a grid; returns the message, "" when the order is right. */
static const char *read_text(const char *text, weft_grid grid) {
    static weft_message message;
    uint32_t table[64];
    message.text[0] = '\0';
    const weft_status status = weft_order_read(text, strlen(text), "f", grid, table, &message);
    assert_true(status == WEFT_OK ? message.text[0] == '\0' : message.text[0] != '\0');
    return message.text;
}

static void tables(void **state) {
    (void)state;
    weft_message message = {""};
    const uint32_t right[] = {5, 0, 4, 1, 3, 2}, twice[] = {5, 0, 4, 0, 3, 2}, outside[] = {5, 0, 6, 1, 3, 2};
    assert_int_equal(weft_order_check(right, 6, GRID, NULL), WEFT_OK);
    assert_int_equal(weft_order_check(twice, 6, GRID, &message), WEFT_INVALID);
    assert_string_equal(message.text, "tile 0 (row 0, column 0) is visited twice, at position 1 and position 3");
    assert_int_equal(weft_order_check(outside, 6, GRID, &message), WEFT_INVALID);
    assert_string_equal(message.text, "tile 6 at position 2 is not in the grid of 1 x 2 x 3 = 6 tiles");
    assert_int_equal(weft_order_check(right, 5, GRID, &message), WEFT_INVALID);
    assert_string_equal(message.text, "tile 2 (row 0, column 2) is missing: the order has 5 of 1 x 2 x 3 = 6 tiles");
    assert_int_equal(weft_order_check(right, 6, (weft_grid){2, 2, 3}, &message), WEFT_INVALID);
    assert_string_equal(message.text,
                        "tile 6 (batch 1, row 0, column 0) is missing: the order has 6 of 2 x 2 x 3 = 12 tiles");
    assert_int_equal(weft_order_check(NULL, 0, GRID, &message), WEFT_INVALID);
    assert_int_equal(weft_order_check(NULL, 6, GRID, &message), WEFT_INVALID);
    assert_int_equal(weft_order_check(right, -1, GRID, &message), WEFT_INVALID);
    assert_int_equal(weft_order_check(right, 6, (weft_grid){1, 0, 3}, &message), WEFT_INVALID);
    assert_int_equal(weft_order_check(right, 6, (weft_grid){1 << 10, 1 << 10, 1 << 10}, &message), WEFT_UNSUPPORTED);
    assert_int_equal(weft_order_check(right, 6, (weft_grid){INT64_MAX, INT64_MAX, INT64_MAX}, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "is more than 268435456 entries"));
    assert_true(weft_table_hash(right, 6) != weft_table_hash(twice, 6));
}

static void files(void **state) {
    (void)state;
    const weft_grid two = {2, 1, 3};
    assert_string_equal(read_text("0\n1\n2\n3\n4\n5\n", GRID), "");
    assert_string_equal(read_text("# all\n\n 5\r\n4 # last\n\t3\n2\n1\n0", GRID), "");
    assert_string_equal(read_text("1,2\n0 , 0\n0 1\n1\t1\n1,0\n0,2\n", GRID), "");
    assert_string_equal(read_text("1,0,2\n0,0,0\n0,0,1\n1,0,1\n1,0,0\n0,0,2\n", two), "");
    assert_string_equal(read_text("0,0\n", two),
                        "f:1: row and column are not enough: the grid has 2 batches, so a line is 'batch,row,column'");
    assert_string_equal(read_text("0\n1\n# here\n2\n1\n4\n5\n", GRID),
                        "f: tile 1 (row 0, column 1) is visited twice, at line 2 and line 5");
    assert_string_equal(read_text("0\n1\n2\n4\n5\n", GRID),
                        "f: tile 3 (row 1, column 0) is missing: the order has 5 of 1 x 2 x 3 = 6 tiles");
    assert_string_equal(read_text("", GRID),
                        "f: tile 0 (row 0, column 0) is missing: the order has 0 of 1 x 2 x 3 = 6 tiles");
    assert_string_equal(read_text("0\n1\n2\n3\n4\n5\n\n3\n", GRID), "f:8: the order goes on after all 6 tiles");
    assert_string_equal(read_text("0\n6\n", GRID), "f:2: tile 6 is not in the grid of 1 x 2 x 3 tiles");
    assert_string_equal(read_text("0\n4294967296\n", GRID), "f:2: tile 4294967296 is not in the grid of 1 x 2 x 3 tiles");
    assert_non_null(strstr(read_text("99999999999999999999999999\n", GRID), "is not in the grid"));
    assert_string_equal(read_text("0,0\n2,0\n", GRID), "f:2: row 2, column 0 is not in the grid of 1 x 2 x 3 tiles");
    assert_string_equal(read_text("2,0,0\n", two), "f:1: batch 2, row 0, column 0 is not in the grid of 2 x 1 x 3 tiles");
    assert_string_equal(read_text("0\n0,1\n", GRID), "f:2: 2 numbers, and the lines before have 1");
    static const char *const wrong[][2] = {{"0\nx\n", "f:2: 'x' cannot be read"},
                                           {"-1\n", "f:1: '-' cannot be read"},
                                           {"0.5\n", "f:1: '.' cannot be read"},
                                           {"1,\n", "f:1: a number is missing"},
                                           {",1\n", "f:1: ',' cannot be read"},
                                           {"0,0,0,0\n", "f:1: '0' cannot be read"},
                                           {"1,,2\n", "f:1: ',' cannot be read"},
                                           {"\x7f"
                                            "ELF",
                                            "f:1: byte 0x7f cannot be read"},
                                           {"[0, 1]\n", "f:1: '[' cannot be read"},
                                           {"\xef\xbb\xbf"
                                            "0\n",
                                            "f:1: byte 0xef"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_non_null(strstr(read_text(wrong[i][0], GRID), wrong[i][1]));
    }
    weft_message message;
    uint32_t entry;
    assert_int_equal(weft_order_read("0\n\0\n", 4, "f", (weft_grid){1, 1, 1}, &entry, &message), WEFT_INVALID);
    assert_int_equal(weft_order_read(NULL, 0, "f", GRID, &entry, &message), WEFT_INVALID);
}

/* Any order, written in any of the ways, is read back; with one tile replaced by another it is refused, and both are
 * named. */
static void random_orders(void **state) {
    (void)state;
    enum { MOST = 400 };
    uint64_t random = random_seed(90);
    char *text = malloc(MOST * 64);
    uint32_t *got = malloc(MOST * sizeof *got);
    assert_true(text && got);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        const weft_grid grid = {random_between(&random, 1, 3), random_between(&random, 1, 11),
                                random_between(&random, 1, 12)};
        const int64_t count = grid.batch * grid.rows * grid.cols;
        const int form = grid.batch > 1 ? 1 + 2 * (round % 2) : 1 + round % 3;
        uint32_t *table = random_table(&random, count);
        assert_non_null(table);
        const int64_t bad = count > 1 && round % 4 == 3 ? random_between(&random, 1, count - 1) : 0;
        const uint32_t lost = table[bad];
        table[bad] = bad ? table[bad - 1] : table[bad];
        size_t used = 0;
        int64_t line = 1, line_of_bad = 0;
        for (int64_t i = 0; i < count; i++, line++) {
            if (random_between(&random, 0, 5) == 0) {
                used += (size_t)sprintf(text + used, "%s\n", random_between(&random, 0, 1) ? "  # 1, 2" : "");
                line++;
            }
            const long long row = table[i] / grid.cols, col = table[i] % grid.cols;
            line_of_bad = i == bad ? line : line_of_bad;
            used += (size_t)(form == 1   ? sprintf(text + used, "%u\n", table[i])
                             : form == 2 ? sprintf(text + used, "%lld,%lld\n", row, col)
                                         : sprintf(text + used, "%lld %lld %lld\n", row / (long long)grid.rows,
                                                   row % (long long)grid.rows, col));
        }
        weft_message message = {""};
        const weft_status status = weft_order_read(text, used, "f", grid, got, &message);
        if (bad) {
            char tile[32], place[32];
            snprintf(tile, sizeof tile, "tile %u (", table[bad]);
            snprintf(place, sizeof place, "line %lld", (long long)line_of_bad);
            assert_int_equal(status, WEFT_INVALID);
            assert_true(strstr(message.text, tile) && strstr(message.text, place));
            assert_int_equal(weft_order_check(table, count, grid, NULL), WEFT_INVALID);
            table[bad] = lost;
            assert_int_equal(weft_order_check(table, count, grid, NULL), WEFT_OK);
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_memory_equal(got, table, (size_t)count * sizeof *table);
        }
        free(table);
    }
    free(text);
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(files),
        cmocka_unit_test(random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
