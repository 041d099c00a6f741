/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products: the tiles of a GEMM, each of the product of its group. */
#include "cpu/gemm/grouped.h"

#include "cpu/gemm/job.h"
#include "cpu/gemm/tile.h"
#include "cpu/tile.h"
#include "problem/grouped_gemm.h"

/* The tile of one product with the mean number of rows, and a batch of them as large as all. */
void weft_cpu_grouped_choose(weft_plan *plan) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    weft_plan one = *plan;
    one.gemm = weft_grouped_gemm_product(p);
    one.gemm.m = weft_smaller(weft_grouped_gemm_mean_rows(p), p->rows);
    one.products = one.gemm.batch;
    weft_cpu_gemm_choose(&one);
    weft_schedule *s = &plan->schedule;
    s->tile_m = one.schedule.tile_m;
    s->tile_n = one.schedule.tile_n;
    s->tile_k = one.schedule.tile_k;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_DYNAMIC : s->dispatch; /* groups are not alike */
}

typedef struct grouped {
    weft_cpu_gemm_job job; /* of a group with all rows */
    const weft_grouped_gemm *problem;
    const weft_grouped_gemm_data *data;
    weft_groups groups;
} grouped;

static void grouped_tile(void *context, void *scratch, const weft_visit *visit) {
    const grouped *all = context;
    weft_group_finger finger = {0, 0};
    weft_group_rows rows;
    if (!weft_groups_find(&all->groups, &finger, (int32_t)visit->tile.m, &rows) || rows.count == 0) {
        return;
    }
    weft_cpu_gemm_job job = all->job;
    const weft_gemm_data data = weft_grouped_gemm_at(all->problem, all->data, &rows);
    job.data = &data;
    job.a.source.data = data.a;
    job.a.source.lines = weft_smaller(rows.count, all->groups.tile);
    job.a.panels = weft_ceil_divide(job.a.source.lines, job.a.layout.lines);
    job.b.source.data = data.b;
    weft_visit first = *visit; /* of the rows from there on */
    first.tile.m = 0;
    weft_cpu_gemm_tile(&job, scratch, &first);
}

weft_status weft_cpu_grouped(const weft_plan *plan, const void *data, weft_message *message) {
    const weft_grouped_gemm *p = &plan->problem.grouped;
    const int32_t *bounds = weft_grouped_gemm_bounds(p, data);
    weft_status status = weft_grouped_gemm_check_bounds(p, bounds, message);
    status = status ? status : weft_cpu_check_tile(plan, message);
    if (status) {
        return status;
    }
    const weft_group_rows first = {0, 0, 0};
    const weft_gemm_data whole = weft_grouped_gemm_at(p, data, &first);
    weft_plan product = *plan;
    product.gemm = weft_grouped_gemm_product(p);
    const weft_schedule *s = &plan->schedule;
    grouped all = {weft_cpu_gemm_job_of(&product, &whole), p, data,
                   weft_grouped_gemm_groups(p, bounds, s->tile_m, s->cluster_m)};
    weft_cpu_visitor visitor = {.kernel = all.job.kernel,
                                .visit = grouped_tile,
                                .context = &all,
                                .progress = plan->progress,
                                .progress_user = plan->progress_user};
    weft_cpu_gemm_lay_out(&all.job, NULL, &visitor.scratch);
    return weft_cpu_walk(&plan->walk, &visitor, message);
}
