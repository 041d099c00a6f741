/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and problems for tests: what the library takes in structs, as arguments. */
#ifndef WEFT_TESTS_PLANS_H
#define WEFT_TESTS_PLANS_H

#include <stdlib.h>

#include "base/random.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* A random order of `count` tiles, the caller's to free. */
static inline uint32_t *random_table(uint64_t *random, int64_t count) {
    uint32_t *table = (uint32_t *)malloc((size_t)count * sizeof *table); /* also C++ */
    for (int64_t i = 0; table && i < count; i++) {
        const int64_t other = (int64_t)(weft_random(random) % (uint64_t)(i + 1));
        table[i] = table[other];
        table[other] = (uint32_t)i;
    }
    return table;
}

/* Entries of tables that tests make, at most. */
enum { MOST_IN_RANDOM_TABLE = 1 << 22 };

/* A schedule of order custom that has no table gets a random one, unless that is vast. */
static inline weft_status plan_on(weft_plan **plan, const void *problem, const weft_schedule *schedule,
                                  const weft_machine *machine, const weft_device *device, weft_message *message) {
    const weft_schedule none = WEFT_SCHEDULE_INIT;
    weft_schedule s = schedule ? *schedule : none;
    const weft_plan_options options = {sizeof options, schedule ? &s : NULL, machine, device, 0};
    uint32_t *table = NULL;
    if (s.order == WEFT_ORDER_CUSTOM && !s.order_table) {
        weft_grid grid;
        const weft_status status = weft_plan_positions(problem, &options, &grid, message);
        if (status) {
            *plan = NULL;
            return status;
        }
        s.order_count = grid.batch * grid.rows * grid.cols;
        uint64_t random = (uint64_t)(grid.rows * 1000 + grid.cols);
        if (s.order_count <= MOST_IN_RANDOM_TABLE) {
            s.order_table = table = random_table(&random, s.order_count);
        }
    }
    const weft_status status = weft_plan_create(plan, problem, &options, message);
    free(table); /* the plan has its own */
    return status;
}

static inline weft_status plan_for(weft_plan **plan, const void *problem, const weft_schedule *schedule,
                                   const weft_machine *machine, weft_message *message) {
    return plan_on(plan, problem, schedule, machine, NULL, message);
}

static inline weft_status resolve_attention(weft_attention *resolved, const weft_attention *problem,
                                            weft_message *message) {
    const weft_operation_row *row;
    weft_problem p = {{0, 0}};
    const weft_status status = weft_problem_resolve(&p, &row, problem, message);
    *resolved = p.attention;
    return status;
}

static inline weft_status resolve_gemm(weft_gemm *resolved, const weft_gemm *problem, weft_message *message) {
    const weft_operation_row *row;
    weft_problem p = {{0, 0}};
    const weft_status status = weft_problem_resolve(&p, &row, problem, message);
    *resolved = p.gemm;
    return status;
}

/* The data of a product without an epilogue. */
static inline weft_gemm_data gemm_data(const void *a, const void *b, void *c) {
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    data.a = a;
    data.b = b;
    data.c = c;
    return data;
}

/* Zeros for a problem that does not pass its check. */
static inline weft_attention_extents attention_sizes(const weft_attention *problem) {
    weft_attention p;
    const weft_attention_extents none = {0, 0, 0, 0, 0, 0};
    return resolve_attention(&p, problem, NULL) ? none : weft_attention_sizes(&p);
}

static inline weft_gemm_extents gemm_sizes(const weft_gemm *problem) {
    weft_gemm p;
    const weft_gemm_extents none = {0, 0, 0, 0};
    return resolve_gemm(&p, problem, NULL) ? none : weft_gemm_sizes(&p);
}

#endif
