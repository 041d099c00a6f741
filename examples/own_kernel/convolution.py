# SPDX-License-Identifier: Apache-2.0
"""A convolution as an implicit GEMM: 3 x 3 filters over NHWC images, bf16.

A tile is two rows of output pixels times 128 filters. A step takes one filter position (r, s) and 64 channels: it reads the two rows
of the image that the position shifts them to, and a block of the filters.
"""

import numpy as np
from common import columns, run, step_seconds

import weft

PIXEL_ROWS, FILTERS, CHANNELS, BYTES = 2, 128, 64, 2  # of a tile; of a step; of an element


def trace(machine, images, side, channels, filters, filters_first, channels_last):
    bands, groups, chunks = side // PIXEL_ROWS, filters // FILTERS, channels // CHANNELS
    pixels = images * bands
    if filters_first:  # all filters of the same pixels, one after the other
        position, band, group = np.mgrid[:1, :pixels, :groups].reshape(3, -1)
    else:
        position, group, band = np.mgrid[:1, :groups, :pixels].reshape(3, -1)
    position, tile = np.arange(pixels * groups)[:, None], (band * groups + group)[:, None]
    step = np.arange(9 * chunks)
    shift, chunk = np.divmod(step, chunks) if channels_last else np.divmod(step, 9)[::-1]
    image, row = np.divmod(band, bands)
    parts = []
    for i in range(PIXEL_ROWS):
        source = (PIXEL_ROWS * row + i)[:, None] + shift // 3 - 1  # rows beyond the image are not read
        inside = (source >= 0) & (source < side)
        block = (image[:, None] * side + source) * chunks + chunk
        size = side * CHANNELS * BYTES
        parts.append([np.broadcast_to(column, inside.shape)[inside] for column in (position, tile, step, "image", block, size, "read")])
    block = (group[:, None] * 9 + shift) * chunks + chunk
    parts.append((position, tile, step, "filters", block, FILTERS * CHANNELS * BYTES, "read"))
    parts.append((position, tile, 9 * chunks - 1, "out", tile, PIXEL_ROWS * side * FILTERS * BYTES, "write"))
    flops = 2 * PIXEL_ROWS * side * FILTERS * CHANNELS
    return weft.Trace(**columns(*parts), time=step_seconds(machine, flops), grid=(pixels, groups),
                      flops=float(flops * step.size * pixels * groups))  # fmt: skip


def make(machine, small):
    sizes = (2, 8, 128, 256) if small else (64, 64, 256, 1024)
    return {
        "pixels, then filters": trace(machine, *sizes, False, True),
        "filters, then pixels": trace(machine, *sizes, True, True),
        "the same, channels last": trace(machine, *sizes, True, False),
    }


if __name__ == "__main__":
    results = run("convolution 3x3, NHWC", make)
