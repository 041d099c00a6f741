/* SPDX-License-Identifier: Apache-2.0 */
/* What weft doctor finds, and how it tells of it. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>

typedef enum finding { NO, WORKS, NOTE } finding;

typedef struct doctor {
    int json;
    const char *section; /* that the next findings are of */
    int titled;          /* its title was printed */
    json_t *list;        /* with --json, the findings */
} doctor;

void doctor_begin(doctor *d, const char *section);

/* A finding, with what to do where something does not work: "" where nothing can be done. */
void doctor_tell(doctor *d, finding f, const char *name, const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What others bring, and weft loads or is loaded by: MPI, NCCL, NVML, CUPTI, Python. */
void doctor_examine_others(doctor *d);

#endif
