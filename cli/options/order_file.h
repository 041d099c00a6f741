/* SPDX-License-Identifier: Apache-2.0 */
/* The order that --order-file names. */
#ifndef WEFT_CLI_ORDER_FILE_H
#define WEFT_CLI_ORDER_FILE_H

#include "options/options.h"

/* Gives a schedule the table of --order-file, for the grid that the problem and the options have, where its order is open
 * or custom. The table stays until the command ends. */
weft_status order_file_take(const settings *s, const void *problem, const weft_plan_options *options,
                            weft_schedule *schedule, weft_message *message);

#endif
