/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the caller's: WEFT_ORDER_CUSTOM and its table. */
#ifndef WEFT_PLAN_CUSTOM_H
#define WEFT_PLAN_CUSTOM_H

#include <weft/weft.h>

/* Whether the position p of a schedule with all choices made is meant for the L2 domain p mod domains. */
int weft_schedule_by_domain(const weft_schedule *schedule);

/* Makes a schedule with a table one of order custom, and fills in what such a schedule leaves open: its author numbers
 * tiles, so no clusters and no split tiles, and no domains, unless he asks for them. */
void weft_custom_complete(weft_schedule *schedule);

/* Whether two schedules have the same table, or none. */
int weft_custom_same(const weft_schedule *a, const weft_schedule *b);

/* Checks the caller's table against the grid of positions that the schedule has. */
weft_status weft_custom_check(const weft_schedule *schedule, weft_grid grid, weft_message *message);

#endif
