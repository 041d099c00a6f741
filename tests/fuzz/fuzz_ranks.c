/* SPDX-License-Identifier: Apache-2.0 */
/* Orders across ranks: each part is at one rank at each step and comes by all, and who takes it is the inverse. */
#include <weft/order.h>

#include "require.h"

enum { MOST = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes in = {data, size};
    weft_ring ring = {(int32_t)next_between(&in, 1, WEFT_RANK_ORDERS), next_between(&in, 1, MOST), 1};
    ring.columns = next_between(&in, 1, ring.ranks);
    const int64_t lag = weft_ring_lag(&ring), rank = next_byte(&in) % ring.ranks;
    uint32_t parts_of_rank = 0;
    require(lag == 1 || lag == 2);
    for (int64_t step = 0; step < ring.ranks; step++) {
        uint32_t parts = 0;
        for (int64_t r = 0; r < ring.ranks; r++) {
            const int64_t part = weft_ring_part(&ring, r, step);
            require(part >= 0 && part < ring.ranks && !(parts >> part & 1));
            require(weft_ring_taker(&ring, part, step) == r && (step > 0 || part == r));
            parts |= UINT32_C(1) << part;
        }
        parts_of_rank |= UINT32_C(1) << weft_ring_part(&ring, rank, step);
    }
    require(parts_of_rank == (uint32_t)((UINT64_C(1) << ring.ranks) - 1));
    require(weft_ring_rank(&ring, weft_ring_place(&ring, rank)) == rank);
    const int64_t count = next_between(&in, 1, MOST), number = next_number(&in) >> 2, wrapped = weft_wrap(number, count);
    require(wrapped >= 0 && wrapped < count && (number - wrapped) % count == 0);
    return 0;
}
