/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against a live GPU: everything that the other studies run there, and how far it is off in all. */
#include "studies/study.h"

void device_h200(study *s) {
    if (s->misses.count == 0) { /* after the others, their launches are counted already */
        device_sawtooth(s);
        device_cutile(s);
        device_numa(s);
    } else {
        study_show_errors(s);
    }
}
