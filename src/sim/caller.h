/* SPDX-License-Identifier: Apache-2.0 */
/* A caller's source as what is simulated. */
#ifndef WEFT_SIM_CALLER_H
#define WEFT_SIM_CALLER_H

#include <weft/source.h>

#include "sim/subject.h"

/* Copies a caller's source and checks it for a machine. */
weft_status weft_source_read(weft_source *ours, const weft_source *given, const weft_machine *machine,
                             weft_message *message);

/* Both must outlive the subject; the source has been read. */
weft_sim_subject weft_sim_subject_of_source(const weft_source *source, const weft_machine *machine);

#endif
