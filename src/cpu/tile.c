/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/tile.h"

#include "base/status.h"
#include "cpu/sizes.h"

const int64_t weft_cpu_lengths[WEFT_CPU_ALL_LENGTHS] = {48, 64, 96, 128, 192, 256, 288, 384, 512, 768};

size_t weft_cpu_list_lengths(int64_t given, int64_t length, const int64_t *from, size_t from_count, int64_t *to) {
    size_t count = 0;
    for (size_t i = 0; given == 0 && i < from_count; i++) {
        if (i == 0 || from[i] <= length) {
            to[count++] = from[i] < length ? from[i] : length;
        }
    }
    to[count] = given;
    return count ? count : 1;
}

size_t weft_cpu_list_tiles(const weft_schedule *s, const int64_t *m, size_t ms, const int64_t *n, size_t ns,
                           weft_schedule *to, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < ms * ns; i++) {
        for (int32_t dispatch = WEFT_DISPATCH_STATIC; dispatch <= WEFT_DISPATCH_DYNAMIC; dispatch++) {
            if (count < capacity && (s->dispatch == WEFT_DISPATCH_CHOOSE || s->dispatch == dispatch)) {
                to[count] = *s;
                to[count].tile_m = m[i / ns];
                to[count].tile_n = n[i % ns];
                to[count++].dispatch = dispatch; /* grid is static here */
            }
        }
    }
    return count;
}

int64_t weft_cpu_fitting_lines(int64_t bytes, int64_t memory) {
    const int64_t lines = memory / bytes / 96 * 96;
    return lines < 96 ? 96 : lines > 480 ? 480 : lines;
}

weft_cpu_axis weft_cpu_cut_axis(int64_t length, int64_t asked, int64_t lines) {
    const int64_t tile = weft_cpu_min(asked, length); /* any size may be asked for */
    const int64_t whole = length / tile, rest = length - whole * tile, one = weft_cpu_pad(tile, lines);
    return (weft_cpu_axis){(double)(whole + (rest > 0)), (double)one,
                           (double)whole * (double)one + (double)weft_cpu_pad(rest, lines)};
}

weft_cpu_spent weft_cpu_spend(weft_cpu_fetching f, double grids, weft_cpu_axis m, weft_cpu_axis n) {
    return (weft_cpu_spent){grids * m.tiles * n.tiles, m.one * n.one + f.m * m.one + f.n * n.one,
                            grids * (m.all * n.all + f.m * m.all * n.tiles + f.n * n.all * m.tiles)};
}

weft_status weft_cpu_check_tile(const weft_plan *plan, weft_message *message) {
    const weft_schedule *s = &plan->schedule;
    if ((double)s->tile_m * (double)s->tile_n > 0x1p28 || s->tile_m > 1 << 20 || s->tile_n > 1 << 20 ||
        s->tile_k > 1 << 20) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "a tile of %lldx%lld is too large for a thread: at most 2^28 elements, 2^20 a side",
                         (long long)s->tile_m, (long long)s->tile_n);
    }
    return WEFT_OK;
}
