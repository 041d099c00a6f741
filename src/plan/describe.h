/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as JSON, for the library's weft_plan_json() and for the command. */
#ifndef WEFT_PLAN_DESCRIBE_H
#define WEFT_PLAN_DESCRIBE_H

#include <jansson.h>

#include "plan/plan.h"

/* A new object (the caller's to release), or null when memory ran out. */
json_t *weft_problem_json(const weft_operation_info *info, const weft_problem *problem);
json_t *weft_plan_problem_json(const weft_plan *plan);
json_t *weft_plan_schedule_json(const weft_plan *plan);
json_t *weft_schedule_object(const weft_schedule *schedule); /* every choice made */

#endif
