/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the library, each made again and again while the system fails it: api.c. A case is one public function. */
#ifndef WEFT_TESTS_FAULTS_API_H
#define WEFT_TESTS_FAULTS_API_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/bench.h>
#include <weft/check.h>
#include <weft/dist.h>
#include <weft/machine.h>
#include <weft/model.h>
#include <weft/profile.h>
#include <weft/report.h>
#include <weft/search.h>
#include <weft/sim.h>
#include <weft/source.h>
#include <weft/stream.h>
#include <weft/study.h>
#include <weft/trace.h>
#include <weft/tune.h>
#include <weft/weft.h>

#include "faults.h"

enum { API_TEXT = 1 << 18 };

typedef struct api_case {
    const char *name;
    /* The call, while something fails. One that gives no status gives WEFT_NO_MEMORY where its result stands for that. */
    weft_status (*call)(weft_message *message);
    /* What it gave, as text; and releases that. Null: api_text has it. */
    void (*tell)(char *text, size_t size);
    int varies; /* 1: the answer depends on the clock, and is not compared */
} api_case;

/* Tables that end with a null name. */
extern const api_case api_plans[], api_runs[], api_simulations[], api_stores[], api_pages[], api_ranks[], api_names[];

/* What the cases share; made once, while nothing fails. */
typedef struct api_world {
    char folder[64], path[128]; /* for files; the file that is written */
    weft_machine machine;
    weft_gemm gemm;
    weft_attention attention;
    weft_plan *plan, *host_plan; /* of the product on the machine, and here */
    weft_plan *attention_plan;   /* on the machine */
    weft_simulation simulation;
    weft_bench *bench;
    weft_search *search;
    weft_view *view;
    weft_trace *trace;
    weft_dist *dist;
    weft_dist_search *dist_search;
    weft_dist_simulation dist_simulation;
    float *a, *b, *c;
} api_world;
extern api_world api;

/* Where calls write texts; what they make, which is null where they fail. */
extern char api_text[API_TEXT];
extern void *api_made;

/* A text's length as a status. */
weft_status api_length(size_t length, weft_message *message);

/* Reads the file that a case wrote. */
void api_tell_file(char *text, size_t size);

/* Reports a function that went wrong, and ends. */
void api_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
