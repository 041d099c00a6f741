/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a source: who does what when. */
#ifndef WEFT_SIM_TRACE_PLAY_H
#define WEFT_SIM_TRACE_PLAY_H

#include "sim/trace/trace.h"

/* Sets up the source of a trace that is otherwise whole, as options say. */
weft_status weft_trace_set_source(weft_trace *trace, const weft_trace_options *options, weft_message *message);

#endif
