/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a trace, and what reads one. */
#ifndef WEFT_SIM_TRACE_READ_H
#define WEFT_SIM_TRACE_READ_H

#include "sim/trace/build.h"

/* The options that apply, or what is wrong with those given; null gives the defaults. */
weft_status weft_trace_options_read(weft_trace_options *options, const weft_trace_options *given, weft_message *message);

#endif
