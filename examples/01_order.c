/* SPDX-License-Identifier: Apache-2.0 */
/* Step 1: an order is a function from a position to a tile. Only the header is needed. */
#include <stdio.h>

#include <weft/order.h>

int main(void) {
    const weft_grid grid = {1, 4, 6}; /* one batch, 4 rows, 6 columns of tiles */
    weft_order order;
    if (!weft_order_init(&order, WEFT_ORDER_HILBERT, grid, 0, WEFT_AXIS_N, 1)) {
        return 1;
    }
    for (int64_t position = 0; position < order.count; position++) {
        const weft_tile tile = weft_order_tile(&order, position);
        printf("%lld: row %lld, column %lld\n", (long long)position, (long long)tile.m, (long long)tile.n);
    }
    return 0;
}
