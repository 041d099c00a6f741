/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Closed forms for L2 sectors and misses of attention: one batch, one head, square tiles, as in Zhu, Pan, Ding.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/** S queries and keys, tiles of T, head dim D, E bytes an element, C bytes a sector. */
typedef struct weft_sector_model {
    double s, t, d, e, c;
} weft_sector_model;

/** Sectors that the workers ask for: Q and O once, K and V once per query tile. 2 (S D E / C) (1 + S / T); under a causal
 * mask K and V only up to the diagonal: 2 (S D E / C) (1/2 + S / 2T). The publication's approximations, kept as they are.
 */
WEFT_API double weft_model_sectors(const weft_sector_model *m);
WEFT_API double weft_model_sectors_causal(const weft_sector_model *m);

/** Sectors of Q, K, V and O: what an infinite cache misses. */
WEFT_API double weft_model_compulsory(const weft_sector_model *m);

/** Misses of `passes` passes of all workers in step over n bytes, in a cache of c bytes that replaces the oldest, over the
 * distinct sectors: all upward, 1 while it fits and `passes` beyond; alternating, 1 + (passes - 1) (1 - c / n). */
WEFT_API double weft_model_passes(double n, double c, double passes, int sawtooth);

/** Hit rate of n workers in step on data that does not fit: 1 - 1 / n. */
WEFT_API double weft_model_wavefront_hits(double workers);

#ifdef __cplusplus
}
#endif

#endif
