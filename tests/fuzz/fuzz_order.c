/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: three bytes that stand for a grid, then any bytes as an order file. What is accepted must visit every
 * tile once, what is refused must say why. */
#include <stdlib.h>

#include <weft/weft.h>

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEAD = 3 };
    if (size < HEAD) {
        return 0;
    }
    const weft_grid grid = {1 + data[0] % 3, 1 + data[1] % 6, 1 + data[2] % 6};
    const size_t count = (size_t)(grid.batch * grid.rows * grid.cols);
    uint32_t *table = malloc(count * sizeof *table); /* no longer than it has to be */
    unsigned char *seen = calloc(count, 1);
    weft_message message = {""};
    require(table && seen);
    const weft_status status = weft_order_read((const char *)data + HEAD, size - HEAD, "fuzz", grid, table, &message);
    if (status == WEFT_OK) {
        for (size_t i = 0; i < count; i++) {
            require(table[i] < count && !seen[table[i]]++);
        }
        require(message.text[0] == '\0');
    } else {
        require(status == WEFT_INVALID && strncmp(message.text, "fuzz:", 5) == 0);
        require(memchr(message.text, 0, sizeof message.text) != NULL);
    }
    free(table);
    free(seen);
    return 0;
}
