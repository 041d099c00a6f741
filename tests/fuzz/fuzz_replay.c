/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against a replay of the same plan, sector by sector. */
#include "draw.h"

#include "../sim/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t seed = draw_from(data, size);
    const int kind = (int)random_between(&seed, 0, 5);
    replay_one(&seed, kind);
    return 0;
}
