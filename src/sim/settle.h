/* SPDX-License-Identifier: Apache-2.0 */
/* A long launch in part. After a few waves, and then now and then, the last half of its steps is held against the quarter
 * before. When they hit as often and go as fast, the launch has settled: it ends there, and that half is taken to go on to
 * the end. */
#ifndef WEFT_SIM_SETTLE_H
#define WEFT_SIM_SETTLE_H

#include <weft/sim.h>

/* What had happened after so many steps. */
typedef struct weft_sim_mark {
    uint64_t steps;
    double seconds;
    weft_traffic traffic;
} weft_sim_mark;

/* Whether the steps from `middle` to `end` are like those from `begin` to `middle`: less than a point of hits and half a
 * per cent of the pace apart. */
int weft_sim_settled(const weft_sim_mark *begin, const weft_sim_mark *middle, const weft_sim_mark *end);

/* What all `steps` of a launch do, if it goes on from `end` as it went from `middle` to there. */
weft_sim_mark weft_sim_forecast(const weft_sim_mark *middle, const weft_sim_mark *end, uint64_t steps);

#endif
