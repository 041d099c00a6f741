/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of any grid: small ones visit every tile once, alike computed and by table; of vast ones every position is a tile;
 * and what they divide with divides. */
#include <weft/plan.h>

#include "require.h"

enum { MOST_TILES = 2 * 9 * 9 };

static int is_same(weft_tile a, weft_tile b) {
    return a.batch == b.batch && a.row == b.row && a.col == b.col;
}

static int is_inside(weft_tile t, weft_grid g) {
    return t.batch >= 0 && t.row >= 0 && t.col >= 0 && t.batch < g.batch && t.row < g.rows && t.col < g.cols;
}

static int64_t distance(weft_tile a, weft_tile b) {
    return llabs(a.row - b.row) + llabs(a.col - b.col);
}

static void small_order(bytes *in) {
    uint32_t table[MOST_TILES], filled[MOST_TILES];
    unsigned char seen[MOST_TILES] = {0};
    const weft_order_kind kind = (weft_order_kind)next_between(in, 1, WEFT_ORDER_KINDS);
    const weft_grid grid = {next_between(in, 1, 2), next_between(in, 1, 9), next_between(in, 1, 9)};
    const int64_t group = next_between(in, 0, 11);
    const weft_axis axis = (weft_axis)next_between(in, 0, 2);
    const uint8_t mistake = next_byte(in);
    weft_order order;
    require(weft_order_init(&order, kind, grid, group, axis, next_between(in, 1, 11)));
    require(order.count == grid.batch * grid.rows * grid.cols);
    weft_tile last = weft_tile_at(-1, 0, 0);
    for (int64_t p = 0; p < order.count; p++) {
        const weft_tile tile = weft_order_compute(&order, p);
        require(is_inside(tile, grid));
        const int64_t index = weft_tile_index(&order, tile);
        require(seen[index]++ == 0 && is_same(weft_tile_of_index(&order, index), tile));
        require(kind != WEFT_ORDER_HILBERT || last.batch != tile.batch || distance(last, tile) == 1);
        table[p] = (uint32_t)index;
        last = tile;
    }
    require(weft_order_fill_table(&order, filled) && memcmp(table, filled, (size_t)order.count * sizeof *table) == 0);
    const weft_order computed = order;
    order.table = table;
    for (int64_t p = 0; p < order.count; p++) {
        require(is_same(weft_order_tile(&order, p), weft_order_tile(&computed, p)));
    }
    require(weft_order_check(table, order.count, grid, NULL) == WEFT_OK);
    if (mistake >= 0xf0) { /* a message takes longer than all of the above */
        weft_message message = {""};
        table[mistake % order.count] += 1 + mistake % 3;
        require(weft_order_check(table, order.count, grid, &message) == WEFT_INVALID && message.text[0]);
    }
}

static void vast_order(bytes *in) {
    const weft_order_kind kind = (weft_order_kind)next_between(in, 0, WEFT_ORDER_KINDS + 1);
    const uint8_t shifts = next_byte(in);
    weft_grid grid = {next_number(in), next_number(in), next_number(in)};
    if (shifts) { /* most of all triples have far too many tiles */
        grid.batch >>= 40 + shifts % 23;
        grid.rows >>= 30 + shifts % 31;
        grid.cols >>= 20 + shifts % 41;
    }
    const int64_t group = next_number(in), domains = next_number(in) >> shifts % 64;
    weft_order order;
    const int made = weft_order_init(&order, kind, grid, group, (weft_axis)next_between(in, 0, 2), domains);
    require(made == (order.count > 0));
    if (made) {
        require(order.count == grid.batch * grid.rows * grid.cols && order.count <= (int64_t)1 << 62);
        const int64_t any = (int64_t)((uint64_t)next_number(in) % (uint64_t)order.count);
        const int64_t positions[] = {0, any, order.count - 1};
        for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
            const weft_tile tile = weft_order_compute(&order, positions[i]);
            require(is_inside(tile, grid));
            require(is_same(weft_tile_of_index(&order, weft_tile_index(&order, tile)), tile));
        }
    }
}

static void division(bytes *in) {
    const uint64_t value = (uint64_t)next_number(in) >> (2 + next_byte(in) % 62);
    const weft_divisor d = weft_divisor_make(value ? value : 1);
    for (int i = 0; i < 4; i++) {
        const int64_t random = (int64_t)((uint64_t)next_number(in) >> (1 + next_byte(in) % 63));
        const int64_t near = (int64_t)d.value <= random ? random - random % (int64_t)d.value : random;
        const int64_t numbers[] = {random, near, near > 0 ? near - 1 : 0};
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
            int64_t rest = numbers[n];
            require(weft_divide(rest, &d) == rest / (int64_t)d.value);
            require(d.value >> 32 || rest >> 32 ||
                    weft_divide_short((uint32_t)rest, &d) == (uint32_t)rest / (uint32_t)d.value);
            require(weft_divide_off(&rest, &d) == numbers[n] / (int64_t)d.value);
            require(rest == numbers[n] % (int64_t)d.value);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes in = {data, size};
    const uint8_t part = next_byte(&in);
    (part % 8 == 0 ? division : part % 8 < 3 ? vast_order : small_order)(&in);
    return 0;
}
