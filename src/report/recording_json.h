/* SPDX-License-Identifier: Apache-2.0 */
/* A recording as JSON, compact enough for a page: columns of numbers, each as its difference to the one before, in base 64.
 *
 * {"seconds": s, "frames": F, "workers": W, "domains": D, "visits": V, "ticks": T,
 *  "visit": base64 of the columns worker, tile, position, begin, length, steps, first, last, line0, line1, lookups, misses:
 *           V numbers each,
 *           every one the signed difference to the one before it in its column; times in ticks of seconds / T
 *  "map": {"steps", "step", "read", "lines_per_cell", "steps_per_cell", "rows", "cols", "full",
 *          "sections": [{"name", "line", "lines", "first_row", "rows"}]}
 *  "resident": base64 of F x D maps: runs (cells to skip, then cells that now have a level: count x 8 + level), each map
 *              against the frame before, ended by a run that skips to the end
 *  "place": base64 of F x W signed differences to the frame before of 2 (step + 1) + missed
 *  "counters": base64 of the columns sectors, hits, misses, fabric, DRAM sectors read, sectors held of what is read step by
 *              step, and of the rest: F x D numbers each, signed differences to the frame before
 *  "reuse": {"first": bin, "bins": n, "sector": bytes, "most": sectors,
 *            "data": base64 of F x (n + 1) bytes, 255 log(1 + sectors) / log(1 + most); the last of a frame: first
 * touches}} */
#ifndef WEFT_REPORT_RECORDING_JSON_H
#define WEFT_REPORT_RECORDING_JSON_H

#include <jansson.h>

#include "sim/recording.h"

/* `sector` is in bytes. A new object (the caller's to release), or null when memory ran out. */
json_t *weft_recording_json(const weft_recording *recording, int64_t sector);

#endif
