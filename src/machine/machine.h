/* Machines from the inside. */
#ifndef WEFT_MACHINE_MACHINE_H
#define WEFT_MACHINE_MACHINE_H

#include <weft/machine.h>

/* A caller's machine. */
weft_status weft_machine_copy(weft_machine *ours, const weft_machine *theirs, weft_message *message);

/* This host, which does not change: asked once. */
const weft_machine *weft_machine_this_host(void);

#endif
