/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that simulate a caller's source. */
#include <math.h>

#include "base/names.h"
#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "sim/caller.h"

enum { MAX_PIECES = INT32_MAX / 2, MAX_WORKERS = 1 << 20, MAX_TENSORS = 1 << 16 };

static int is_between(int64_t number, int64_t least, int64_t most) {
    return number >= least && number <= most;
}

static weft_status check_tensors(const weft_source *s, int64_t sector, weft_message *message) {
    int64_t pieces = 0, product;
    for (size_t i = 0; i < s->tensor_count; i++) {
        const weft_source_tensor *t = &s->tensors[i];
        if (!t->name || !is_between(t->blocks, 1, MAX_PIECES) || t->bytes < 0 ||
            !is_between(t->block_bytes, 1, INT32_MAX * sector) || !weft_multiply(t->blocks, t->block_bytes, &product)) {
            return weft_fail(message, WEFT_INVALID, "tensor %zu (%.40s): %lld blocks of %lld bytes are none or too many", i,
                             t->name ? t->name : "no name", (long long)t->blocks, (long long)t->block_bytes);
        }
        if (!weft_is_line(t->name)) {
            return weft_fail(message, WEFT_INVALID, "the name of tensor %zu is no line of UTF-8", i);
        }
        pieces += t->blocks;
        if (pieces > MAX_PIECES) {
            return weft_fail(message, WEFT_UNSUPPORTED, "more blocks than the simulator can number (%d): take larger ones",
                             (int)MAX_PIECES);
        }
    }
    return WEFT_OK;
}

weft_status weft_source_read(weft_source *s, const weft_source *given, const weft_machine *machine, weft_message *message) {
    const weft_source init = WEFT_SOURCE_INIT;
    *s = init;
    const weft_status status = given ? weft_struct_take(s, sizeof *s, sizeof(size_t), given, "WEFT_SOURCE_INIT", message)
                                     : weft_fail(message, WEFT_INVALID, "source is null");
    if (status) {
        return status;
    }
    if (!s->next || !s->step || !s->tensors || s->tensor_count < 1 || s->tensor_count > MAX_TENSORS) {
        return weft_fail(message, WEFT_INVALID, "a source has the functions next and step, and 1 to %d tensors",
                         (int)MAX_TENSORS);
    }
    if (!is_between(s->workers, 0, MAX_WORKERS) || !is_between(s->cluster, 0, 1024) ||
        !is_between(s->run, 0, MAX_WORKERS)) {
        return weft_fail(message, WEFT_INVALID, "a source has at most %d workers, and 1024 SMs in a cluster",
                         (int)MAX_WORKERS);
    }
    if (s->rows < 0 || s->cols < 0 || s->jobs < 0 || !(s->flops >= 0 && isfinite(s->flops))) {
        return weft_fail(message, WEFT_INVALID, "rows, cols, jobs and flops of a source are not negative");
    }
    if (!(s->room >= 0 && s->room <= 1024) || !(s->fetched >= 0 && s->fetched <= 1024)) {
        return weft_fail(message, WEFT_INVALID, "room %g or fetched %g of a source is not between 0 and 1024", s->room,
                         s->fetched);
    }
    if (s->name && !weft_is_line(s->name)) {
        return weft_fail(message, WEFT_INVALID, "the name of a source is no line of UTF-8");
    }
    return check_tensors(s, machine->l2_sector, message);
}

weft_status weft_simulate_source(const weft_source *source, const weft_machine *machine,
                                 const weft_simulate_options *options, weft_simulation *simulation, weft_traffic *domains,
                                 weft_message *message) {
    weft_source s;
    weft_machine m;
    weft_status status;
    if (!simulation || !machine) {
        return weft_fail(message, WEFT_INVALID, !machine ? "machine is null" : "simulation is null");
    }
    if ((status = weft_machine_copy(&m, machine, message)) || (status = weft_source_read(&s, source, &m, message))) {
        return status;
    }
    if (options && options->limit != 0 && s.steps == 0) {
        return weft_fail(message, WEFT_INVALID, "a limit needs a source that says how many steps it has");
    }
    const weft_sim_subject subject = weft_sim_subject_of_source(&s, &m);
    return weft_sim_simulate_for(&subject, options, simulation, domains, message);
}

weft_status weft_simulate_source_curve(const weft_source *source, const weft_machine *machine,
                                       const weft_simulate_options *options, weft_curve_point *points, size_t count,
                                       weft_message *message) {
    weft_source s;
    weft_machine m;
    weft_status status;
    if (!machine) {
        return weft_fail(message, WEFT_INVALID, "machine is null");
    }
    if ((status = weft_machine_copy(&m, machine, message)) || (status = weft_source_read(&s, source, &m, message))) {
        return status;
    }
    const weft_sim_subject subject = weft_sim_subject_of_source(&s, &m);
    return weft_sim_curve(&subject, options, points, count, message);
}
