/* SPDX-License-Identifier: Apache-2.0 */
/* A plan on a GPU: its context, its kernel and its memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/driver/context.h"
#include "cuda/driver/module.h"
#include "cuda/l2/side_table.h"
#include "cuda/plan/backend.h"
#include "cuda/plan/live.h"
#include "order/timetable.h"
#include "plan/custom.h"

static weft_status take_context(weft_cuda_plan *c, weft_message *message) {
    weft_cuda_context gpu = {.driver = c->driver};
    const weft_status status = weft_cuda_context_take(&gpu, c->device.handle, message);
    c->context = gpu.context;
    c->retained = gpu.retained;
    return status;
}

/* How many CTAs of a kernel share an SM with this much shared memory; 0 when it cannot be asked. */
static int count_ctas(const weft_cuda_plan *c, const weft_cuda_pass *pass, uint32_t shared) {
    int ctas = 0;
    return c->driver->occupancy(&ctas, pass->function, pass->choice.threads, shared) == 0 ? ctas : 0;
}

/* Settles how many CTAs share an SM. Fewer than would fit are had by asking for more shared memory than the kernel uses. */
static weft_status limit_ctas(const weft_cuda_plan *c, weft_cuda_pass *pass, int32_t wanted, weft_message *message) {
    const uint32_t most = (uint32_t)c->device.shared_bytes - 1024; /* leaves room for what is static */
    pass->ctas = count_ctas(c, pass, pass->choice.shared_bytes);
    if (pass->ctas < 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the kernel %s does not fit an SM of this GPU", pass->choice.kernel);
    }
    if (wanted > pass->ctas) {
        return weft_fail(message, WEFT_UNSUPPORTED, "ctas %d is more than fit an SM: %d", (int)wanted, pass->ctas);
    }
    while (wanted > 0 && pass->ctas > wanted && pass->choice.shared_bytes + 1024 <= most) {
        pass->choice.shared_bytes += 1024;
        pass->ctas = count_ctas(c, pass, pass->choice.shared_bytes);
    }
    if (wanted > 0 && pass->ctas != wanted) {
        return weft_fail(message, WEFT_UNSUPPORTED, "ctas %d cannot be had with this kernel: %d share an SM", (int)wanted,
                         pass->ctas);
    }
    return WEFT_OK;
}

/* Loads a kernel into the plan's context, which is current, and gives it its shared memory. */
static weft_status load_pass(const weft_cuda_plan *c, weft_cuda_pass *pass, weft_message *message) {
    const weft_status status =
        weft_cuda_function_get(c->driver, pass->choice.image, pass->choice.kernel, &pass->function, message);
    if (status) {
        return status;
    }
    /* A function is shared by all plans of its context, so it is allowed all there is; a launch takes its own share. */
    int fixed = 0; /* what it has whatever a launch asks for */
    weft_cu_result result = c->driver->function_attribute(&fixed, WEFT_CU_FUNCTION_SHARED, pass->function);
    if (result == 0) {
        result = c->driver->function_set_attribute(pass->function, WEFT_CU_FUNCTION_MAX_DYNAMIC_SHARED,
                                                   c->device.shared_bytes - fixed);
    }
    const int32_t ctas = pass->choice.grid ? 0 : c->knobs.ctas;
    return result ? weft_cuda_fail(c->driver, result, "the kernel gets no shared memory", message)
                  : limit_ctas(c, pass, ctas, message);
}

static weft_status load(weft_cuda_plan *c, weft_message *message) {
    int pushed;
    weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    for (int i = 0; i < c->pass_count && status == WEFT_OK; i++) {
        status = load_pass(c, &c->passes[i], message);
    }
    weft_cuda_leave(c->driver, pushed);
    return status;
}

/* Chooses the kernels of all launches. */
static weft_status choose(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_cuda_choice choice = {0}, list[WEFT_CUDA_MAX_PASSES];
    int main = 0;
    const weft_status status = weft_cuda_choose(plan, &c->device, &c->family, &c->knobs, &choice, message);
    if (status) {
        return status;
    }
    list[0] = choice;
    c->pass_count = c->family->passes ? c->family->passes(plan, &choice, list, &main) : 1;
    c->main = &c->passes[main];
    for (int i = 0; i < c->pass_count; i++) {
        c->passes[i].choice = list[i];
    }
    return WEFT_OK;
}

int64_t weft_cuda_clusters(const weft_cuda_plan *c, int64_t ctas) {
    const weft_cuda_pass *pass = c->main;
    const int64_t all = (int64_t)c->device.multiprocessors * pass->ctas;
    int clusters = 0, pushed;
    if (!c->driver) {
        return weft_cuda_clusters_on_paper(&c->device, ctas) * pass->ctas;
    }
    if (ctas == 1 || ctas > all || !c->driver->cluster_occupancy || weft_cuda_enter(c->driver, c->context, &pushed, NULL)) {
        return all / ctas;
    }
    const weft_cu_launch_attribute cluster = {WEFT_CU_LAUNCH_CLUSTER, {(uint32_t)ctas, 1, 1}};
    const weft_cu_launch launch = {{(unsigned)(all / ctas * ctas), 1, 1},
                                   {(unsigned)pass->choice.threads, 1, 1},
                                   pass->choice.shared_bytes,
                                   NULL,
                                   &cluster,
                                   1};
    const weft_cu_result result = c->driver->cluster_occupancy(&clusters, pass->function, &launch);
    weft_cuda_leave(c->driver, pushed);
    return result || clusters < 1 || clusters > all / ctas ? all / ctas : clusters;
}

/* CTAs that the GPU holds at a time. A persistent worker that had to wait for another would double the time. */
static int64_t count_workers(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const int64_t ctas = (s->cluster_m ? s->cluster_m : 1) * (s->cluster_n ? s->cluster_n : 1) * weft_plan_tile_ctas(plan);
    return weft_cuda_clusters(plan->placed, ctas) * ctas;
}

/* Chooses kernels and loads them. */
static weft_status choose_and_load(weft_plan *plan, int given_machine, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_status status;
    if ((status = weft_cuda_device_get(c->driver, plan->device.index, &c->device, message)) ||
        (!given_machine && (status = weft_cuda_describe(&plan->machine, &c->device, message))) ||
        (status = choose(plan, message)) || (status = take_context(c, message))) {
        return status;
    }
    return load(c, message);
}

/* The same without a device: there is no function, and what it would occupy is known. */
static weft_status choose_on_paper(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_status status;
    if ((status = weft_cuda_device_on_paper(&plan->machine, &c->device, message)) || (status = choose(plan, message))) {
        return status;
    }
    c->main->ctas = c->main->choice.ctas;
    return c->main->ctas > 0 && c->family->cost
               ? WEFT_OK
               : weft_fail(message, WEFT_UNSUPPORTED, "the costs of %s kernels are not known", c->family->name);
}

/* Makes the choices that the schedule leaves open, once a kernel is there. */
static void complete(weft_plan *plan) {
    weft_cuda_plan *c = plan->placed;
    weft_schedule *s = &plan->schedule;
    plan->device.kernel = c->family->name; /* the caller's words are the caller's */
    plan->heads_in_tile =
        c->family->heads_in_tile ? c->family->heads_in_tile(plan, &c->device) : 1; /* by what the schedule leaves open */
    plan->joined = c->family->joins && c->family->joins(plan);
    plan->lead = c->family->lead ? c->family->lead(plan, &c->main->choice) : 0;
    if (c->family->computes) {
        c->computed = plan->problem;
        c->family->computes(&plan->problem, &c->computed);
        plan->computed = &c->computed;
    }
    s->tile_m = c->main->choice.tile_m;
    s->tile_n = c->main->choice.tile_n;
    if (c->family->complete) {
        c->family->complete(plan, &c->device, &c->main->choice, s);
    }
    s->workers = s->workers ? s->workers : count_workers(plan);
}

weft_status weft_cuda_open(weft_plan *plan, int given_machine, weft_message *message) {
    weft_cuda_plan *c = calloc(1, sizeof *c);
    if (!c) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a plan");
    }
    plan->placed = c;
    c->main = c->passes;
    plan->products = 0; /* the whole batch at once */
    size_t family;      /* a specification that cannot be read is refused with and without a GPU */
    weft_status status = weft_cuda_knobs_read(plan->device.kernel, &c->knobs, &family, message);
    if (status == WEFT_OK && plan->on_paper) {
        status = choose_on_paper(plan, message);
    } else if (status == WEFT_OK && (status = weft_cuda_driver_get(&c->driver, message)) == WEFT_OK) {
        const int mode = weft_cuda_relax(c->driver);
        status = choose_and_load(plan, given_machine, message);
        weft_cuda_restore(c->driver, mode);
    }
    if (status == WEFT_OK) {
        complete(plan);
    }
    return status;
}

/* The table of the order goes to device memory, in which the plan keeps it. */
static weft_status place_table(weft_cuda_plan *c, const uint32_t *table, int64_t count, weft_message *message) {
    const size_t bytes = (size_t)count * sizeof *table;
    weft_cu_result result = c->driver->memory_new(&c->table, bytes);
    if (result) {
        c->table = 0;
        return weft_cuda_fail(c->driver, result, "no memory on the GPU for a plan's table", message);
    }
    result = weft_cuda_copy_in(c->driver, c->table, table, bytes);
    c->main->walk.order.table = (const uint32_t *)(uintptr_t)c->table;
    return result ? weft_cuda_fail(c->driver, result, "the plan's table cannot be copied", message) : WEFT_OK;
}

static int is_dealt(const weft_plan *plan) {
    const weft_cuda_family *family = ((const weft_cuda_plan *)plan->placed)->family;
    return family->deals && family->deals(plan);
}

/* The timetable of the plan's tiles goes to device memory, too. */
static weft_status place_timetable(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const weft_walk *walk = &plan->walk;
    weft_timetable table;
    weft_status status = weft_timetable_make(&table, walk, c->family->members(plan), message);
    if (status) {
        return status;
    }
    const int64_t tiles = weft_walk_line(walk, walk->order.grid.batch, 0) * walk->cols;
    const size_t comings = (size_t)tiles * sizeof *table.comings;
    const int64_t workers = weft_smaller(walk->workers, walk->order.count);
    const size_t next = table.next ? (size_t)weft_ceil_divide(walk->order.count, 4) * 16 : 0; /* in 16 bytes */
    const size_t firsts = table.firsts ? (size_t)(workers * walk->cluster_rows) * sizeof *table.firsts : 0;
    weft_cu_result result = c->driver->memory_new(&c->timetable, comings + next + firsts);
    if (result) {
        c->timetable = 0;
        status = weft_cuda_fail(c->driver, result, "no memory on the GPU for a plan's timetable", message);
    } else if ((result = weft_cuda_copy_in(c->driver, c->timetable, table.comings, comings)) ||
               (next > 0 && (result = weft_cuda_copy_in(c->driver, c->timetable + comings, table.next,
                                                        (size_t)walk->order.count * sizeof *table.next))) ||
               (firsts > 0 &&
                (result = weft_cuda_copy_in(c->driver, c->timetable + comings + next, table.firsts, firsts)))) {
        status = weft_cuda_fail(c->driver, result, "the plan's timetable cannot be copied", message);
    }
    c->together = table.together;
    weft_timetable_free(&table);
    for (int i = 0; i < c->pass_count; i++) {
        if (c->passes[i].choice.operation) { /* it has tiles of its own */
            continue;
        }
        c->passes[i].walk.comings = (const weft_coming *)(uintptr_t)c->timetable;
        c->passes[i].walk.next = next > 0 ? (const uint32_t *)(uintptr_t)(c->timetable + comings) : NULL;
        c->passes[i].walk.firsts = firsts > 0 ? (const weft_visit *)(uintptr_t)(c->timetable + comings + next) : NULL;
    }
    return status;
}

static int takes_turns(const weft_plan *plan) {
    const weft_cuda_family *family = ((const weft_cuda_plan *)plan->placed)->family;
    return family->takes_turns && family->takes_turns(plan);
}

/* Whether the workers are to be placed by the two sides of the L2, if it has them. Grid dispatch leaves it to chance; and a
 * family whose tiles can take turns places workers by number, and not those who take tiles as they come, nor clusters. */
static int wants_sides(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    const weft_schedule *s = &plan->schedule;
    const int dealt = weft_schedule_by_domain(s) && s->domains == 2;
    const int in_turn = c->family->takes_turns && s->dispatch == WEFT_DISPATCH_DYNAMIC && !c->main->walk.next;
    const int in_clusters = c->family->takes_turns && weft_plan_tile_ctas(plan) > 1;
    return c->family->by_side && dealt && !in_turn && !in_clusters && s->dispatch != WEFT_DISPATCH_GRID;
}

void weft_cuda_facts(const weft_plan *plan, weft_kernel_facts *facts) {
    const weft_cuda_plan *c = plan->placed;
    facts->places = wants_sides(plan);
    if (c->family->facts) {
        c->family->facts(plan, c, facts);
    }
}

/* How many CTAs a launch has. */
static weft_status count_grid(weft_plan *plan, int64_t cluster, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const int64_t positions = plan->walk.order.count, workers = plan->walk.workers;
    const int64_t clusters = plan->schedule.dispatch == WEFT_DISPATCH_GRID || positions < workers ? positions : workers;
    if (clusters > INT32_MAX / cluster) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%" PRId64 " CTAs are more than a launch can have (2^31 - 1)",
                         clusters);
    }
    if (cluster > 1 && !c->driver->launch_extended) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the CUDA driver has no clusters");
    }
    c->main->grid = (uint32_t)((c->family->spreads ? workers : clusters) * cluster);
    /* Where a launch leaves SMs free while the next one begins, that would put two CTAs on those and none on others. So
     * every SM gets one; those after the last position have no work and leave at once. */
    const int64_t all = c->device.multiprocessors / cluster * cluster;
    if (c->main->choice.overlaps && c->main->ctas > 1 && positions <= workers && c->main->grid < all) {
        c->main->grid = (uint32_t)all;
    }
    return WEFT_OK;
}

/* The walks of the launches beside the plan's. A number of workers that the caller gave is theirs, too. */
static weft_status lay_out_others(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const int is_given = plan->schedule.workers != count_workers(plan);
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->pass_count && status == WEFT_OK; i++) {
        const int64_t all = (int64_t)c->device.multiprocessors * c->passes[i].ctas;
        if (&c->passes[i] != c->main) {
            status = weft_cuda_pass_lay_out(plan, &c->passes[i], is_given ? plan->schedule.workers : all, message);
        }
    }
    return status;
}

/* Whether every launch knows who has which tile. */
static int has_timetables(const weft_cuda_plan *c) {
    int i = 0;
    while (i < c->pass_count && c->passes[i].walk.next) {
        i++;
    }
    return i == c->pass_count;
}

/* What the plan holds in device memory. Its context is current. */
static weft_status place_memory(weft_plan *plan, int64_t cluster, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_status status = WEFT_OK;
    if (plan->table) {
        status = place_table(c, plan->table, plan->walk.order.count, message);
    }
    if (status == WEFT_OK && plan->kept) {
        status = weft_cuda_place_lengths(plan, message);
    }
    const int dealt = is_dealt(plan); /* then the workspace has the timetable */
    c->together = dealt;
    if (status == WEFT_OK && takes_turns(plan) && !dealt) {
        status = place_timetable(plan, message);
    }
    if (status == WEFT_OK && wants_sides(plan)) {
        status = weft_cuda_side_table(c->driver, &c->device, &c->side_of_sm, message);
    }
    if (c->side_of_sm) { /* so many that each side has enough of them; those that are not needed leave at once */
        const int64_t all = count_workers(plan);
        c->side_grid = all > c->main->grid && all <= INT32_MAX ? (uint32_t)(all / cluster * cluster) : c->main->grid;
    }
    c->paces = c->family->paces && c->family->paces(plan);
    const int takes_tickets = plan->schedule.dispatch == WEFT_DISPATCH_DYNAMIC && !dealt && !has_timetables(c);
    if (status == WEFT_OK && (takes_tickets || c->side_of_sm || c->paces)) {
        status = weft_tickets_new(c->driver, &c->tickets, message);
    }
    if (status == WEFT_OK && c->family->workspace) {
        status = weft_cuda_workspace_new(plan, message);
    }
    if (status == WEFT_OK) {
        weft_cuda_fault_new(plan);
    }
    return status;
}

weft_status weft_cuda_place(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const int64_t cluster =
        plan->schedule.cluster_m * plan->schedule.cluster_n * weft_plan_tile_ctas(plan); /* at most 4096 */
    int pushed;
    c->main->walk = plan->walk;
    weft_status status;
    if ((status = count_grid(plan, cluster, message)) || (status = lay_out_others(plan, message)) ||
        (status = weft_cuda_enter(c->driver, c->context, &pushed, message))) {
        return status;
    }
    const int mode = weft_cuda_relax(c->driver);
    status = place_memory(plan, cluster, message);
    weft_cuda_restore(c->driver, mode);
    weft_cuda_leave(c->driver, pushed);
    return status;
}

/* Freeing device memory waits for the launches that use it. */
static void free_memory(const weft_cuda_plan *c) {
    const uint64_t memory[] = {c->table, c->timetable, c->lengths, c->side_of_sm,
                               c->tickets ? weft_tickets_memory(c->tickets) : 0};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        if (memory[i]) {
            c->driver->memory_free(memory[i]);
        }
    }
}

void weft_cuda_close(weft_plan *plan) {
    weft_cuda_plan *c = plan->placed;
    int pushed;
    if (!c) {
        return;
    }
    if (c->context) {
        const int mode = weft_cuda_relax(c->driver);
        /* Twice, as one call that fails must not cost the plan's memory; else the context is gone, with its memory. */
        if (weft_cuda_enter(c->driver, c->context, &pushed, NULL) == WEFT_OK ||
            weft_cuda_enter(c->driver, c->context, &pushed, NULL) == WEFT_OK) {
            free_memory(c);
            weft_cuda_workspace_free(c);
            weft_cuda_fault_free(c);
            weft_cuda_leave(c->driver, pushed);
        }
        if (c->retained) {
            c->driver->primary_release(c->device.handle);
        }
        weft_cuda_restore(c->driver, mode);
    }
    weft_tickets_free(c->tickets);
    free(c);
    plan->placed = NULL;
}
