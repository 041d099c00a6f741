/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of plans, and the call that makes a plan of one: by the model, or as it was tuned. */
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "plan/plan.h"

weft_status weft_plan_draft(weft_plan *draft, const void *problem, const weft_schedule *schedule, const weft_device *device,
                            weft_message *message) {
    memset(draft, 0, sizeof *draft);
    weft_status status;
    if ((status = weft_problem_resolve(&draft->problem, &draft->operation, problem, message)) ||
        (status = weft_device_copy(&draft->device, device, message)) ||
        (status = weft_schedule_copy(&draft->schedule, schedule, message))) {
        return status;
    }
    draft->backend = weft_registered.backends[draft->device.kind];
    return WEFT_OK;
}

int weft_plan_put_on_paper(weft_plan *draft, const weft_machine *machine) {
    for (int32_t kind = 0; kind < (int32_t)(sizeof weft_registered.backends / sizeof *weft_registered.backends); kind++) {
        const weft_backend *backend = weft_registered.backends[kind];
        if (backend->knows && backend->knows(machine)) {
            draft->backend = backend;
            draft->device.kind = (weft_device_kind)kind;
            draft->machine = *machine;
            draft->on_paper = 1;
            return 1;
        }
    }
    return 0;
}

/* Makes a plan of a draft in the mode that its device asks for. */
static weft_status make_in_mode(weft_plan **plan, weft_plan *draft, const weft_machine *machine, weft_message *message) {
    const weft_mode mode = draft->device.mode;
    if (mode == WEFT_ESTIMATE) {
        return weft_plan_make(plan, draft, machine, message);
    }
    if (mode == WEFT_PAPER) {
        const weft_backend *wanted = draft->backend;
        if (!machine) {
            return weft_fail(message, WEFT_INVALID, "a plan on paper is for a machine: give one");
        }
        return weft_plan_put_on_paper(draft, machine) && draft->backend == wanted
                   ? weft_plan_lay_out(plan, draft, machine, message)
                   : weft_fail(message, WEFT_UNSUPPORTED, "the costs of %s kernels on %s are not known", wanted->name,
                               machine->name);
    }
    if (machine) {
        return weft_fail(message, WEFT_INVALID, "a machine is given, and mode %s is for the device itself",
                         mode == WEFT_MEASURE ? "measure" : "stored");
    }
    const weft_schedule open = draft->schedule;
    weft_message why = {""};
    weft_status status = weft_registered.tune(draft, message);
    if (status || (status = weft_plan_make(plan, draft, NULL, &why)) == WEFT_OK) {
        return status;
    }
    /* What fits one length of a class may not fit another: a cluster that does not divide its grid. */
    draft->schedule = open;
    return mode == WEFT_MEASURE
               ? weft_plan_make(plan, draft, NULL, message)
               : weft_fail(message, WEFT_NOT_FOUND, "what was tuned does not fit this length: %.200s", why.text);
}

weft_status weft_plan_draft_with(weft_plan *draft, weft_machine *machine, const weft_machine **given, const void *problem,
                                 const weft_plan_options *options, weft_message *message) {
    weft_plan_options o = WEFT_PLAN_OPTIONS_INIT;
    weft_status status = weft_struct_take_options(&o, sizeof o, options, "WEFT_PLAN_OPTIONS_INIT", message);
    if (status || (status = weft_plan_draft(draft, problem, o.schedule, o.device, message)) ||
        (o.machine && (status = weft_machine_copy(machine, o.machine, message)))) {
        return status;
    }
    draft->brings_workspace = o.brings_workspace != 0;
    *given = o.machine ? machine : NULL;
    return WEFT_OK;
}

weft_status weft_plan_create(weft_plan **plan, const void *problem, const weft_plan_options *options,
                             weft_message *message) {
    weft_plan draft;
    weft_machine machine;
    const weft_machine *given;
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    *plan = NULL;
    const weft_status status = weft_plan_draft_with(&draft, &machine, &given, problem, options, message);
    return status ? status : make_in_mode(plan, &draft, given, message);
}

weft_status weft_plan_positions(const void *problem, const weft_plan_options *options, weft_grid *grid,
                                weft_message *message) {
    weft_plan draft, *plan;
    weft_machine machine;
    const weft_machine *given;
    if (!grid) {
        return weft_fail(message, WEFT_INVALID, "grid is null");
    }
    weft_status status = weft_plan_draft_with(&draft, &machine, &given, problem, options, message);
    if (status == WEFT_OK && draft.device.mode == WEFT_PAPER && given) {
        weft_plan_put_on_paper(&draft, given);
    }
    draft.schedule.order = WEFT_ORDER_CUSTOM;
    draft.is_outline = 1;
    if (status == WEFT_OK && (status = weft_plan_lay_out(&plan, &draft, given, message)) == WEFT_OK) {
        *grid = plan->walk.order.grid;
        weft_plan_destroy(plan);
    }
    return status;
}
