/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/machine.h"
#include "plan/custom.h"

enum { MAX_PIECES = INT32_MAX / 2 }; /* a piece may be two halves, each with its number */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Of a visit, the steps of one CTA of a cluster that shares them out: every `split`-th, from its rank on. */
static void share_out(weft_visit *visit, int64_t rank, int64_t split) {
    visit->first += rank * visit->direction;
    visit->steps = visit->steps > rank ? (visit->steps - rank + split - 1) / split : 0;
    visit->direction *= (int32_t)split;
}

/* The next visit of a worker, whatever the dispatch. */
static int next_visit(weft_sim_walk *w, int64_t worker, int64_t domain, weft_visit *visit) {
    const weft_walk *walk = &w->walk;
    const int64_t ctas = weft_plan_tile_ctas(w->plan);
    if (w->runs.count > 0) {
        const int64_t run = w->positions[worker];
        if (run >= w->runs.count) {
            return 0;
        }
        w->passes[worker].run = weft_sim_runs_visit(&w->runs, w->plan, run, visit);
        w->positions[worker] += walk->workers;
        return 1;
    }
    if (walk->dispatch != WEFT_DISPATCH_GRID) {
        const weft_deal deal = {0, w->by_side ? (int32_t)(worker % 2) : -1, walk->reach.kind, 1, (int32_t)w->ranks[worker]};
        return weft_worker_next_dealt(walk, &w->workers[worker], deal, visit);
    }
    for (;;) {
        if (w->visits[worker] < walk->visits && w->positions[worker] >= 0) {
            const int64_t position = w->positions[worker];
            const int32_t which = w->visits[worker]++;
            const int64_t rank = w->has_parts ? w->ranks[worker] : 0;
            if (weft_walk_visit_of(walk, position, weft_divide(position, &walk->by_workers), which, walk->reach.kind, 1,
                                   rank, visit)) {
                if (!w->has_parts) {
                    share_out(visit, w->ranks[worker], ctas);
                }
                return 1;
            }
            continue;
        }
        int64_t *next = &w->next_of_domain[domain];
        const int64_t cta = w->plan->machine.handout == WEFT_HANDOUT_ROUND_ROBIN ? *next : (int64_t)w->counter++;
        *next += w->lanes;
        if (cta >= walk->order.count * ctas) {
            return 0;
        }
        w->positions[worker] = cta / ctas;
        w->ranks[worker] = cta % ctas;
        w->visits[worker] = 0;
    }
}

static void fill_visit(weft_sim_job *job, const weft_plan *plan, const weft_visit *visit, int64_t last_step) {
    const weft_walk *walk = &plan->walk;
    const int64_t rows = walk->order.grid.rows * walk->cluster_rows;
    job->position = visit->position;
    job->tile = (visit->tile.batch * rows + visit->tile.row) * walk->cols + visit->tile.col;
    job->first = visit->first;
    job->steps = visit->steps;
    job->last_step = last_step;
    job->direction = visit->direction;
    job->ring_end = visit->steps > 0 && visit->direction > 0 && visit->first > visit->last ? visit->edge + 1 : 0;
    job->blocks = visit->listed < 0 ? NULL : &walk->reach.blocks;
    job->listed = visit->listed;
}

/* How many the machine's rates are divided by: its workers, or the schedule's where several share one of them. */
static double sharers(const weft_plan *plan) {
    return (double)(plan->schedule.workers > plan->machine.workers ? plan->schedule.workers : plan->machine.workers);
}

double weft_sim_matrix_rate(const weft_machine *m, weft_dtype dtype) {
    const double rates[] = {[WEFT_FP32] = m->matrix_fp32,
                            [WEFT_FP16] = m->matrix_fp16,
                            [WEFT_BF16] = m->matrix_bf16,
                            [WEFT_FP8] = m->matrix_fp8};
    return rates[dtype];
}

/* Seconds that a step computes where no load is late: products, exponentials beside them or after them, and what else the
 * kernel does in a step. */
static double compute_seconds(const weft_sim_walk *w, const weft_visit_reads *reads) {
    const weft_machine *m = &w->plan->machine;
    const weft_profile *p = w->profile;
    if (w->kernel.step > 0) {
        return w->kernel.step / p->clock;
    }
    const double products = reads->flops / (weft_sim_matrix_rate(m, reads->dtype) * p->matrix);
    const double exponentials = reads->exponentials / m->exp_rate;
    const double scores = p->score_cycles * reads->exponentials / 1024 / (m->clock * (double)m->workers);
    const int share_sms = w->plan->schedule.workers > m->workers;
    const double beside = fmax(p->overlap * fmin(products, exponentials),
                               share_sms ? p->beside * fmin(products, exponentials + scores) : 0.0);
    return sharers(w->plan) * (products + exponentials + scores - beside) + p->step_cycles / m->clock;
}

/* The share of the machine's clock that its power leaves: less of it, the less the matrix units pause in a step. */
static double clock_share(const weft_sim_walk *w, const weft_visit_reads *reads, double step_seconds) {
    const double products = sharers(w->plan) * reads->flops / weft_sim_matrix_rate(&w->plan->machine, reads->dtype);
    return w->kernel.step > 0 ? 1.0 : 1.0 - (1.0 - w->profile->clock) * fmin(1.0, products / step_seconds);
}

double weft_sim_gpc_load(const weft_machine *m, const weft_profile *profile, int64_t worker) {
    const int64_t large = weft_machine_large_gpcs(m);
    const int as_given = profile->spread_tile == 0 && profile->spread_load == 0; /* the caller says how workers vary */
    if (as_given || worker < 0 || large == 0 || large == m->gpcs) {
        return 1.0;
    }
    const int64_t small = (m->workers - large * m->gpc_workers) / (m->gpcs - large), seat = worker % m->workers;
    const int is_large = seat >= small * m->gpcs || seat / 2 % m->gpcs < large;
    return (double)(is_large ? m->gpc_workers : small) * (double)m->gpcs / (double)m->workers;
}

/* Sets how long a step takes: what it computes, or as long as its pieces need at the worker's share of the L2's bandwidth.
 *
 * What makes steps vary is waiting in the L2's queues. A cluster asks for `apart` / asked times less than its CTAs would
 * apart, and goes at the mean of CTAs that each wait for pieces of their own. */
static void set_times(weft_sim_job *job, const weft_sim_walk *w, int64_t worker, const weft_visit_reads *reads,
                      double apart) {
    const weft_plan *plan = w->plan;
    const weft_machine *m = &plan->machine;
    const double ctas = (double)(plan->schedule.cluster_m * plan->schedule.cluster_n);
    double asked = 0;
    for (int i = 0; i < job->streams; i++) {
        asked += job->stream[i].weight;
    }
    asked += job->sums.weight;
    const double compute = compute_seconds(w, reads);
    const double loads =
        asked * (double)m->l2_sector * sharers(plan) / ctas / m->l2_bandwidth * weft_sim_gpc_load(m, w->profile, worker);
    job->step_seconds = fmax(compute / clock_share(w, reads, fmax(compute, loads)), loads);
    job->spread = asked / apart / sqrt(ctas) * (w->kernel.keeps_step ? w->profile->spread_kept : 1);
    const double load = job->load = loads / job->step_seconds;
    job->jitter = w->profile->spread_load * load * load * load * load * job->spread;
}

void weft_sim_walk_job(const weft_sim_walk *w, int64_t worker, const weft_visit *visit, int64_t pass, weft_sim_job *job) {
    const weft_plan *plan = w->plan;
    weft_visit_reads reads = {.pass = pass};
    plan->operation->reads(&w->tiling, &plan->walk.reach, visit, plan->machine.l2_sector, &reads);
    fill_visit(job, plan, visit, w->pieces.steps - 1);
    job->streams = reads.streams;
    double apart = (double)reads.sums.sectors; /* sectors that the cluster's CTAs would ask for, each for itself */
    for (int i = 0; i < reads.streams; i++) {
        job->stream[i].base = (uint32_t)(reads.stream[i].line * w->pieces.steps);
        job->stream[i].places = reads.stream[i].places;
        job->stream[i].weight = (uint32_t)reads.stream[i].sectors;
        job->stream[i].last_weight = (uint32_t)reads.stream[i].at_end;
        apart += (double)reads.stream[i].sectors * (double)reads.stream[i].shared;
    }
    job->sums.places = NULL;
    job->sums.base = (uint32_t)(reads.sums.line * w->pieces.steps);
    job->sums.weight = (uint32_t)reads.sums.sectors;
    job->sums.last_weight = (uint32_t)reads.sums.at_end;
    const uint32_t number = (uint32_t)(job->tile * w->pieces.passes + pass);
    job->out = w->first_out + number;
    job->out_weight = (uint32_t)reads.out_sectors;
    job->lead = reads.reads_out ? job->out : w->first_lead + number;
    /* A kernel of ours leaves a tile that sees nothing at once. */
    job->lead_weight = w->kernel.step > 0 && visit->steps == 0 ? 0 : (uint32_t)reads.first_sectors;
    set_times(job, w, worker, &reads, apart);
}

/* The next job of a worker: the next pass of the visit in hand, or the first of the next visit. */
static int next_job(void *context, int64_t worker, int64_t domain, weft_sim_job *job) {
    weft_sim_walk *w = context;
    weft_sim_pass *p = &w->passes[worker];
    if (++p->pass >= w->pieces.passes) {
        p->pass = 0;
        if (!next_visit(w, worker, domain, &p->visit)) {
            return 0;
        }
    }
    weft_sim_walk_job(w, worker, &p->visit, p->pass, job);
    if (p->run.sectors > 0) {
        job->out = w->first_out + (uint32_t)p->run.number;
        job->out_weight = (uint32_t)p->run.sectors + (p->run.is_last ? job->out_weight : 0);
    }
    if (w->ranks[worker] > 0 && !w->has_parts) { /* the first CTA of a cluster writes for all */
        job->out_weight = 0;
    }
    return 1;
}

static int64_t turn_of(void *context, int64_t worker, int64_t step) {
    const weft_sim_walk *w = context;
    const weft_sim_pass *p = &w->passes[worker];
    return weft_turn_at(&w->walk, p->visit.tile, p->pass, step);
}

static void draw_map(weft_sim_map *map, const weft_pieces *pieces) {
    uint32_t first = 0;
    map->sections = pieces->sections;
    map->columns = pieces->steps;
    map->column = pieces->step;
    map->read = pieces->read;
    map->tile_row = pieces->row;
    map->tile_column = pieces->column;
    for (int i = 0; i < pieces->sections; i++) {
        map->section[i].name = pieces->section[i].name;
        map->section[i].line = pieces->section[i].line;
        map->section[i].first = first;
        map->section[i].pieces = (uint32_t)(pieces->section[i].lines * pieces->steps);
        first += map->section[i].pieces;
    }
}

/* Where keys lie in pages, pieces have places: what is distinct among them is counted again. */
static weft_status place_pages(weft_sim_walk *w, const int32_t *page_table, weft_message *message) {
    const weft_plan *plan = w->plan;
    const int64_t sector = plan->machine.l2_sector, passes = w->pieces.passes;
    if (!plan->operation->place) {
        return page_table ? weft_fail(message, WEFT_INVALID, "page_table is only for an attention with cache.page above 0")
                          : WEFT_OK;
    }
    const weft_status status = plan->operation->place(&w->tiling, page_table, sector, &w->places, message);
    w->tiling.places = w->places;
    if (status == WEFT_OK && w->places) {
        plan->operation->pieces(&w->tiling, &plan->walk.reach, sector, &w->pieces);
        w->pieces.passes = passes;
    }
    return status;
}

/* Numbers the pieces: those of the streams, then what is read once, then what is written. */
static weft_status number_pieces(weft_sim_source *source, weft_sim_walk *w, const int32_t *page_table,
                                 weft_message *message) {
    const weft_plan *plan = w->plan;
    const weft_schedule *s = &plan->schedule;
    const weft_walk *walk = &plan->walk;
    int64_t tiles = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows * walk->cols;
    int64_t lines = 0, streams;
    plan->operation->pieces(&w->tiling, &walk->reach, plan->machine.l2_sector, &w->pieces);
    w->pieces.passes += w->pieces.passes == 0;
    if (w->pieces.refused) {
        return weft_fail(message, WEFT_UNSUPPORTED, "%s", w->pieces.refused);
    }
    for (int i = 0; i < w->pieces.sections; i++) {
        lines += w->pieces.section[i].lines;
    }
    if (w->pieces.largest > INT32_MAX) {
        return weft_fail(message, WEFT_UNSUPPORTED, "tiles of %lldx%lld are larger than the simulator can count",
                         (long long)s->tile_m, (long long)s->tile_n);
    }
    if (!weft_multiply(lines, w->pieces.steps, &streams) || !weft_multiply(tiles, w->pieces.passes, &tiles) ||
        streams > MAX_PIECES || tiles > (MAX_PIECES - streams) / 2) {
        return weft_fail(message, WEFT_UNSUPPORTED, "more pieces than the simulator can number (%d): choose larger tiles",
                         MAX_PIECES);
    }
    weft_status status = place_pages(w, page_table, message);
    if (status || (w->profile->runs && (status = weft_sim_runs_make(&w->runs, plan, message)))) {
        return status;
    }
    tiles = weft_larger(tiles, w->runs.count); /* each has a result, if not of a whole tile */
    if (tiles > (MAX_PIECES - streams) / 2) {
        return weft_fail(message, WEFT_UNSUPPORTED, "more runs than the simulator can number (%d)", MAX_PIECES);
    }
    w->first_lead = (uint32_t)streams;
    w->first_out = (uint32_t)(streams + tiles);
    source->pieces = (uint32_t)(streams + 2 * tiles);
    source->next = next_job;
    source->distinct = w->pieces.distinct;
    source->written = w->pieces.written + (w->runs.count > 0 ? weft_sim_runs_sectors(&w->runs, plan) : 0);
    source->sectors = source->distinct + source->written;
    source->per_piece = w->pieces.per_piece;
    source->passes = w->pieces.passes;
    draw_map(&source->map, &w->pieces);
    return WEFT_OK;
}

/* Sets what a tile of the plan takes beside its steps: as measured, or as the profile says. */
static void set_edges(weft_sim_source *source, const weft_plan *plan, const weft_profile *profile,
                      const weft_kernel_facts *kernel) {
    if (kernel->step > 0) {
        source->edges = kernel->launch + kernel->tile;
        source->between = kernel->tile;
        source->least = kernel->least / profile->clock;
    } else {
        weft_sim_set_edges(source, &plan->machine, profile, plan->walk.dispatch == WEFT_DISPATCH_GRID, plan->walk.workers);
    }
}

/* A machine need not have a rate for every dtype of a problem. */
static weft_status check_rates(const weft_plan *plan, weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = plan->operation->buffers(&plan->problem, list);
    for (size_t i = 0; i < count; i++) {
        if (weft_dtype_name(list[i].dtype) && !(weft_sim_matrix_rate(&plan->machine, list[i].dtype) > 0)) {
            return weft_fail(message, WEFT_UNSUPPORTED, "machine %s has no rate for %s: give it [rate] %s",
                             plan->machine.name, weft_dtype_name(list[i].dtype), weft_dtype_name(list[i].dtype));
        }
    }
    return WEFT_OK;
}

/* Gives the walk its timetable. Under the schedule that goes with it, a kernel makes one also of lengths that the host does
 * not know. */
static weft_status take_turns(weft_sim_walk *w, weft_message *message) {
    const int dealt = w->walk.order.kind == WEFT_ORDER_LONGEST_FIRST && w->walk.sweep == WEFT_SWEEP_SHIFT &&
                      w->walk.dispatch == WEFT_DISPATCH_DYNAMIC;
    const int known = dealt || !weft_reach_has_band(&w->walk.reach) || !weft_sequences_vary(&w->walk.reach.sequences);
    const weft_status status = weft_timetable_make(&w->timetable, &w->walk, known ? w->pieces.passes : 0, message);
    w->walk.comings = w->timetable.comings;
    w->walk.next = w->timetable.next;
    return status;
}

weft_status weft_sim_walk_make(weft_sim_source *source, weft_sim_walk *walk, const weft_plan *plan,
                               const weft_sim_settings *settings, weft_message *message) {
    const weft_profile *profile = &settings->profile;
    memset(walk, 0, sizeof *walk);
    memset(source, 0, sizeof *source);
    walk->plan = plan;
    walk->tiling = weft_plan_tiling(plan);
    walk->tiling.dq_pass = profile->dq_pass != 0;
    walk->profile = profile;
    walk->has_parts = plan->operation->splits_into_tiles && weft_plan_tile_ctas(plan) > 1;
    walk->kernel.places = 1;
    if (plan->backend->facts) {
        plan->backend->facts(plan, &walk->kernel);
    }
    weft_status status = number_pieces(source, walk, settings->page_table, message);
    if (status || (status = check_rates(plan, message))) {
        return status;
    }
    walk->walk = plan->walk;
    if (profile->in_turn && plan->operation->refused_sweep && !walk->tiling.dq_pass) {
        source->turn = turn_of;
        source->stores_first = profile->in_turn > 1;
        source->told = profile->told;
        source->add_seconds = (double)plan->machine.l2_sector * sharers(plan) / plan->machine.l2_bandwidth;
        if ((status = take_turns(walk, message))) {
            return status;
        }
    }
    if (walk->has_parts && plan->walk.dispatch == WEFT_DISPATCH_DYNAMIC && !walk->walk.next) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the simulator takes tiles that are split by a timetable alone");
    }
    const int64_t parts = walk->has_parts ? weft_plan_tile_ctas(plan) : 1; /* workers of a cluster */
    const int64_t jobs = walk->runs.count > 0 ? walk->runs.count : plan->walk.order.count;
    source->workers = smaller(plan->walk.workers, jobs) * weft_plan_tile_ctas(plan);
    source->seats = plan->machine.workers;
    /* An order that places tiles by domain numbers its workers in turn over the domains; others take them as they come. */
    const int placed = weft_schedule_by_domain(&plan->schedule) && walk->kernel.places;
    const int64_t ctas = plan->schedule.cluster_m * plan->schedule.cluster_n;
    source->run = placed || ctas >= plan->machine.handout_run ? 1 : plan->machine.handout_run / ctas;
    /* Under grid dispatch the older CTA ends, and the other one is the older. */
    walk->lanes = smaller(plan->machine.domains, source->workers);
    source->context = walk;
    if (walk->kernel.step > 0) { /* measured on a chip with such lines */
        source->room = walk->pieces.room;
        source->fetched = walk->pieces.fetched;
    }
    set_edges(source, plan, profile, &walk->kernel);
    if (weft_plan_visit_rows(plan) + plan->walk.cluster_cols > WEFT_SIM_STREAMS) {
        return weft_fail(message, WEFT_UNSUPPORTED, "the simulator takes clusters of at most %d rows and columns",
                         WEFT_SIM_STREAMS);
    }
    walk->workers = calloc((size_t)source->workers, sizeof *walk->workers);
    walk->visits = calloc((size_t)source->workers, sizeof *walk->visits);
    walk->positions = calloc((size_t)source->workers, sizeof *walk->positions);
    walk->passes = calloc((size_t)source->workers, sizeof *walk->passes);
    walk->ranks = calloc((size_t)source->workers, sizeof *walk->ranks);
    walk->next_of_domain = calloc((size_t)plan->machine.domains, sizeof *walk->next_of_domain);
    if (!walk->workers || !walk->visits || !walk->positions || !walk->passes || !walk->ranks || !walk->next_of_domain) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld workers", (long long)source->workers);
    }
    /* As the kernel does: its workers draw the positions of their side. */
    walk->by_side = placed && plan->operation->info.grid == WEFT_GRID_MATRIX &&
                    plan->walk.dispatch == WEFT_DISPATCH_DYNAMIC && plan->machine.domains == 2 &&
                    plan->schedule.domains == 2;
    for (int64_t i = 0; i < source->workers; i++) {
        walk->positions[i] = walk->runs.count > 0 ? i : -1;
        walk->passes[i].pass = walk->pieces.passes; /* none left: the first call takes a visit */
        if (plan->walk.dispatch != WEFT_DISPATCH_GRID) {
            walk->ranks[i] = i % parts;
            walk->workers[i] = walk->by_side ? weft_worker_start_by_side(&walk->walk, (int32_t)(i % 2), &walk->counter)
                                             : weft_worker_start(&walk->walk, i / parts, &walk->counter);
        }
    }
    for (int64_t d = 0; d < plan->machine.domains; d++) {
        walk->next_of_domain[d] = d;
    }
    return WEFT_OK;
}

uint64_t weft_simulate_steps(const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    const int alike = !weft_reach_has_band(&walk->reach); /* all batches */
    const int64_t batches = walk->order.grid.batch, rows = weft_walk_line(walk, 1, 0) / weft_plan_visit_rows(plan);
    const int64_t heads = walk->reach.blocks.head_stride > 0 ? rows : weft_larger(walk->reach.parts, 1); /* that differ */
    uint64_t steps = 0;
    for (int64_t line = 0; line < (alike ? 1 : batches) * heads; line++) {
        for (int64_t col = 0; col < walk->cols; col += walk->cluster_cols) {
            weft_visit visit = {.tile = weft_tile_at(line / heads, line % heads, col), .direction = 1};
            visit.ranges = weft_reach_ranges(&walk->reach, col);
            for (int32_t i = 0; i < visit.ranges; i++) {
                weft_visit_range(walk, &visit, i);
                steps += (uint64_t)visit.steps;
            }
        }
    }
    return steps * (uint64_t)(rows / heads * (alike ? batches : 1));
}

void weft_sim_walk_release(weft_sim_walk *walk) {
    free(walk->workers);
    free(walk->visits);
    free(walk->positions);
    free(walk->passes);
    free(walk->ranks);
    weft_timetable_free(&walk->timetable);
    free(walk->places);
    weft_sim_runs_release(&walk->runs);
    free(walk->next_of_domain);
}

static void release(void *context) {
    weft_sim_walk_release(context);
    free(context);
}

static weft_status open_plan(const weft_sim_subject *subject, const weft_sim_settings *settings, weft_sim_source *source,
                             weft_message *message) {
    weft_sim_walk *walk = malloc(sizeof *walk);
    if (!walk) {
        memset(source, 0, sizeof *source);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a walk");
    }
    const weft_status status = weft_sim_walk_make(source, walk, subject->of, settings, message);
    source->context = walk;
    source->release = release;
    return status;
}

static uint64_t count_steps(const void *of) {
    return weft_simulate_steps(of);
}

weft_sim_subject weft_sim_subject_of_plan(const weft_plan *plan) {
    return (weft_sim_subject){plan,        &plan->machine, weft_plan_profile(plan), plan->operation->flops(&plan->problem),
                              count_steps, open_plan};
}
