/* SPDX-License-Identifier: Apache-2.0 */
/* Machines from the inside. */
#ifndef WEFT_MACHINE_MACHINE_H
#define WEFT_MACHINE_MACHINE_H

#include <weft/machine.h>

/* A caller's machine. */
weft_status weft_machine_copy(weft_machine *ours, const weft_machine *theirs, weft_message *message);

/* How many of its GPCs have gpc_workers workers: the fewest that leave the others equal. 0: none, or no GPCs are known. */
int64_t weft_machine_large_gpcs(const weft_machine *machine);

/* This host, which does not change: asked until the system has said what it is. */
weft_status weft_machine_this_host(const weft_machine **machine, weft_message *message);

#endif
