/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a rank, and what it keeps and counts. */
#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "problem/problem.h"

weft_status weft_dist_run(weft_dist *dist, const void *data, const weft_dist_run_options *options, weft_message *message) {
    weft_dist_run_options ours = WEFT_DIST_RUN_INIT;
    if (!dist) {
        return weft_fail(message, WEFT_INVALID, "dist is null");
    }
    weft_dist_work *work = dist->work;
    if (!work) {
        return weft_fail(message, WEFT_INVALID, "it is on paper, without a transport: it can be simulated, not run");
    }
    weft_data checked;
    weft_status status = weft_struct_take_options(&ours, sizeof ours, options, "WEFT_DIST_RUN_INIT", message);
    status = status ? status : dist->kind->check_data(work, data, &checked, message);
    if (status) {
        return status;
    }
    if (ours.stream && !work->memory.on_device) {
        return weft_fail(message, WEFT_INVALID, "stream is not null, and ranks compute on the CPU");
    }
    work->memory.stream = ours.stream;
    weft_io_begin(&work->io);
    status = dist->kind->run(work, &checked, weft_dist_kept(dist) > 0 ? ours.kept : NULL, message);
    status = status ? status : weft_io_settle(&work->io, message);
    weft_io_end(&work->io, status);
    return status;
}

size_t weft_dist_kept(const weft_dist *dist) {
    const int keeps = dist && dist->keeps && dist->pieces == 1 && dist->rings > 1 &&
                      (!dist->adds || dist->ranks.sweep == WEFT_SWEEP_SAWTOOTH);
    int64_t most = 0;
    for (int64_t i = 0; keeps && i < dist->rings; i++) {
        most = weft_larger(most, weft_dist_group_of(dist, i, WEFT_KEY_ROWS).rows);
    }
    return (size_t)most * (keeps ? weft_dist_key_bytes(dist) : 0);
}

void weft_dist_counted(const weft_dist *dist, weft_dist_traffic *traffic) {
    const weft_dist_traffic none = WEFT_DIST_TRAFFIC_INIT;
    weft_struct_give(traffic, dist && dist->work ? &dist->work->io.counted : &none, sizeof none, sizeof(size_t),
                     "WEFT_DIST_TRAFFIC_INIT", NULL);
}
