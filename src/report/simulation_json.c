/* SPDX-License-Identifier: Apache-2.0 */
#include "report/simulation_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "plan/describe.h"

double weft_hit_rate(const weft_traffic *t) {
    return t->sectors > 0 ? (double)t->hits / (double)(t->hits + t->misses) : 0.0;
}

double weft_waiting_share(const weft_simulation *sim) {
    return sim->seconds > 0 ? 1e-9 * (double)sim->total.waited / sim->seconds : 0.0;
}

static json_t *l2_json(const weft_traffic *t) {
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "sectors", (json_int_t)t->sectors, "sectors_from_sm",
                     (json_int_t)t->sectors_from_sm, "hits", (json_int_t)t->hits, "misses", (json_int_t)t->misses,
                     "hit_rate", weft_hit_rate(t));
}

static json_t *traffic_json(const weft_traffic *t) {
    json_t *object = json_pack("{s:o, s:{s:I}, s:{s:I}, s:{s:I, s:I}}", "l2", l2_json(t), "fabric", "sectors",
                               (json_int_t)t->fabric_sectors, "llc", "hits", (json_int_t)t->llc_hits, "dram", "read_bytes",
                               (json_int_t)t->dram_read_bytes, "write_bytes", (json_int_t)t->dram_write_bytes);
    if (t->added > 0) {
        weft_json_set(&object, "added_sectors", json_integer((json_int_t)t->added));
    }
    return object;
}

/* What came out of whatever was simulated, on a machine. Takes the references to problem and schedule. */
static json_t *result_json(const weft_machine *machine, json_t *problem, json_t *schedule, const weft_simulation *sim,
                           const weft_traffic *domains) {
    json_t *object = traffic_json(&sim->total);
    weft_json_set(&object, "machine", json_string(machine->name));
    weft_json_set(&object, "problem", problem);
    weft_json_set(&object, "schedule", schedule);
    weft_json_set(&object, "compulsory_misses", json_integer((json_int_t)sim->compulsory_misses));
    weft_json_set(&object, "piece_visits", json_integer((json_int_t)sim->piece_visits));
    weft_json_set(&object, "predicted", json_pack("{s:f, s:f}", "seconds", sim->seconds, "tflops", sim->tflops));
    if (sim->total.added > 0) {
        weft_json_set(&object, "waited", json_real(weft_waiting_share(sim)));
    }
    weft_json_set(&object, "elapsed_seconds", json_real(sim->elapsed_seconds));
    weft_json_set(&object, "seed", json_integer((json_int_t)sim->seed));
    weft_json_set(&object, "profile", json_string(sim->profile));
    if (domains) {
        json_t *list = json_array();
        for (int64_t d = 0; d < machine->domains; d++) {
            weft_json_append(&list, traffic_json(&domains[d]));
        }
        weft_json_set(&object, "domains", list);
    }
    return object;
}

/* The text of an object, which it releases: as weft_simulation_json(). */
static size_t write_text(json_t *object, char *text, size_t size) {
    char *whole = weft_json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    const size_t length = whole ? strlen(whole) : 0;
    if (size > 0) {
        snprintf(text, size, "%s", whole ? whole : "");
    }
    free(whole);
    json_decref(object);
    return length;
}

json_t *weft_simulation_object(const weft_plan *plan, const weft_simulation *sim, const weft_traffic *domains) {
    return result_json(&plan->machine, weft_plan_problem_json(plan), weft_plan_schedule_json(plan), sim, domains);
}

size_t weft_simulation_json(const weft_plan *plan, const weft_simulation *simulation, const weft_traffic *domains,
                            char *text, size_t size) {
    return write_text(weft_simulation_object(plan, simulation, domains), text, size);
}

/* ---- sources ---- */

json_t *weft_source_problem_json(const weft_source *source) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < source->tensor_count; i++) {
        const weft_source_tensor *t = &source->tensors[i];
        weft_json_append(&tensors, json_pack("{s:s, s:I, s:I}", "name", t->name, "blocks", (json_int_t)t->blocks,
                                             "block_bytes", (json_int_t)t->block_bytes));
    }
    return json_pack("{s:s, s:s, s:I, s:I, s:o}", "kind", "trace", "name", source->name ? source->name : "", "jobs",
                     (json_int_t)source->jobs, "steps", (json_int_t)source->steps, "tensors", tensors);
}

json_t *weft_source_simulation_object(const weft_source *source, const weft_machine *machine, const weft_simulation *sim,
                                      const weft_traffic *domains) {
    json_t *schedule =
        json_pack("{s:I, s:I}", "workers", (json_int_t)(source->workers > 0 ? source->workers : machine->workers),
                  "cluster", (json_int_t)(source->cluster > 0 ? source->cluster : 1));
    return result_json(machine, weft_source_problem_json(source), schedule, sim, domains);
}

size_t weft_source_simulation_json(const weft_source *source, const weft_machine *machine,
                                   const weft_simulation *simulation, const weft_traffic *domains, char *text,
                                   size_t size) {
    return write_text(weft_source_simulation_object(source, machine, simulation, domains), text, size);
}
