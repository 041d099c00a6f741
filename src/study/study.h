/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that is studied, from the inside. */
#ifndef WEFT_STUDY_STUDY_H
#define WEFT_STUDY_STUDY_H

#include <weft/study.h>

#include "counters/nvml.h"
#include "cuda/driver/driver.h"

struct weft_study {
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    void *context; /* the primary one, held */
    int pushed;    /* it is current until the study is closed */

    /* Counting: what is read to empty the L2, and a session for the counters that were last wanted. */
    uint64_t flush, flush_bytes;
    void *read_stream;
    void *session; /* a weft_counters of src/counters, or null */
    weft_counter wanted[WEFT_COUNTERS];
    size_t count; /* of wanted; 0: all */

    /* Workers by side: which worker the CTA on each SM stands for. */
    uint64_t worker_of_sm; /* device memory, or 0 */
    int workers;           /* one to an SM; 0: not measured yet */

    weft_nvml nvml; /* open once energy was asked for */
};

/* Ends the session, where there is one. */
void weft_study_end_session(weft_study *study);

#endif
