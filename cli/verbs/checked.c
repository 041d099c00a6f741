/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/checked.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "table.h"

weft_check_options checked_options(const settings *s, progress_part *part) {
    static const double SECONDS = 2;
    weft_check_options o = WEFT_CHECK_OPTIONS_INIT;
    o.operations = s->check_all ? HUGE_VAL : 0;
    o.seconds = s->check_all ? 0 : SECONDS;
    o.seed = (uint64_t)s->seed;
    o.progress = part && progress_seen() ? progress_told : NULL;
    o.progress_user = part;
    return o;
}

void checked_print(const weft_check *c) {
    print_wrapped("check: error %.3g, allowed %.3g, %" PRId64, c->max_error, c->bound, c->checked);
    if (c->checked < c->total) {
        print_wrapped(" of %" PRId64 " %s compared, drawn at random (--check-all compares all)", c->total, c->unit);
    } else {
        print_wrapped(" %s compared", c->unit);
    }
    print_wrapped(": %s\n", c->passed ? "passed" : "FAILED");
}

json_t *checked_json(const weft_check *c) {
    return json_pack("{s:f, s:f, s:I, s:I, s:b}", "max_error", isfinite(c->max_error) ? c->max_error : DBL_MAX, "bound",
                     c->bound, "checked", (json_int_t)c->checked, "total", (json_int_t)c->total, "passed", c->passed);
}
