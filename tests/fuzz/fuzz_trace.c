/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as a trace, CSV or binary. What is accepted can be simulated, and counts what it reads; what
 * is refused says where. */
#include <weft/trace.h>

#include "require.h"

static void simulate(const weft_trace *trace) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    require(weft_machine_load(&machine, "mi300x", &message) == WEFT_OK);
    const weft_source *s = weft_trace_source(trace);
    if (s->workers > 4096 || s->steps > 1 << 16) { /* nothing new, but slow */
        return;
    }
    const weft_status status = weft_simulate_source(s, &machine, NULL, &sim, NULL, &message);
    require(status == WEFT_OK || status == WEFT_UNSUPPORTED || status == WEFT_NO_MEMORY);
    require(status != WEFT_OK || sim.total.hits + sim.total.misses == sim.total.sectors);
    require(status != WEFT_OK || sim.piece_visits <= weft_trace_records(trace));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weft_trace *trace;
    weft_message message = {""};
    const weft_status status = weft_trace_parse(&trace, data, size, "fuzz", NULL, &message);
    require((status == WEFT_OK) == (trace != NULL));
    if (status == WEFT_OK) {
        require(weft_trace_records(trace) > 0 && message.text[0] == '\0');
        simulate(trace);
    } else {
        require(strncmp(message.text, "fuzz:", 5) == 0 && memchr(message.text, 0, sizeof message.text) != NULL);
    }
    weft_trace_destroy(trace);
    return 0;
}
