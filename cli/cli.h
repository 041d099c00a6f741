/* SPDX-License-Identifier: Apache-2.0 */
/* The command's verbs and what they share. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <jansson.h>

#include <weft/machine.h>

#include "options/options.h"

/* A verb: `weft NAME [WORDS] [options]`. */
typedef struct verb {
    const char *name;
    const char *words;  /* what stands before the options, for the usage line, as help_expand() takes it */
    const char *text;   /* the same; "": help does not list it */
    int sets;           /* of enum option_set; with SET_PROBLEM, a word names an operation */
    size_t least, most; /* how many words */
    int (*run)(const settings *s, const char *const *words, size_t count);
    const char *examples[2]; /* what follows the name, or the subject and its problem */
} verb;

/* The table, ended by a null name. */
extern const verb verb_table[];

int cmd_orders(const settings *s, const char *const *words, size_t count);
int cmd_order(const settings *s, const char *const *words, size_t count);
int cmd_machines(const settings *s, const char *const *words, size_t count);
int cmd_profiles(const settings *s, const char *const *words, size_t count);
int cmd_run(const settings *s, const char *const *words, size_t count);
int cmd_simulate(const settings *s, const char *const *words, size_t count);
int cmd_compare(const settings *s, const char *const *words, size_t count);
int cmd_plan(const settings *s, const char *const *words, size_t count);
int cmd_tune(const settings *s, const char *const *words, size_t count);
int cmd_reproduce(const settings *s, const char *const *words, size_t count);
int cmd_view(const settings *s, const char *const *words, size_t count);
int cmd_report(const settings *s, const char *const *words, size_t count);
int cmd_doctor(const settings *s, const char *const *words, size_t count);
int cmd_man(const settings *s, const char *const *words, size_t count);
int cmd_completion(const settings *s, const char *const *words, size_t count);

/* What stands before every complaint from now on, as "seq 4096: "; "" for nothing. Not copied. */
void complain_about(const char *what);

/* One line on standard error; returns `code`. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory ran out: takes back what was printed so far, unless it is out, and says so. Returns EXIT_FAILED. */
int complain_no_memory(void);

/* Whether the user was told what is wrong. */
int has_complained(void);

/* The exit code for a status, its message printed. */
int complain_status(weft_status status, const weft_message *message);

/* Prints an object as one line and releases it. Null, as plan/json.h leaves it, fails with a message: memory ran out. */
int print_json(json_t *object);

/* EXIT_OK when the word of a verb names an operation, which settings then have; else complains: "'run x' is not known". */
int check_operation(const settings *s, const char *verb, const char *word);

/* For verbs that take plans or traces: EXIT_OK when the words are one operation's, with no option that only traces have;
 * else complains. */
int check_plan_words(const settings *s, const char *verb, const char *const *words, size_t count);

/* The exit code that a status stands for. */
int exit_code(weft_status status);

/* weft machines probe: measures the GPU, prints what it found, and writes a machine file where --output says. */
int probe_machine(const settings *s);

/* Room for any problem. Each begins with struct_size and operation. */
typedef union problem {
    struct {
        size_t struct_size;
        int32_t operation;
    };
    weft_attention attention;
    weft_gemm gemm;
    weft_grouped_gemm grouped;
    int64_t room[64];
} problem;

/* The problem, the schedule and the device that the options describe. problem_of() returns 0 with a message when options
 * contradict each other. */
int problem_of(const settings *s, problem *p, weft_message *message);
weft_schedule schedule_of(const settings *s);
weft_device device_of(const settings *s);

/* All of that, as the library takes it. Its options point into it. */
typedef struct question {
    problem problem;
    weft_schedule schedule;
    weft_device device;
    weft_machine machine;
    weft_plan_options options;
} question;
weft_status question_of(const settings *s, question *q, weft_message *message);

/* Writes weft_device.kernel: a family, or "" for any, which may have options already, and more options. Returns 0 when the
 * text is too long. */
int kernel_specification(char *text, size_t size, const char *kernel, const kernel_options *o);

/* The exit code of a status of a plan or a tuning: what is missing on this machine is no mistake of the command line's. */
int device_exit_code(const weft_device *device, weft_status status);

/* Makes the plan that the options describe. Prints what is wrong and returns the exit code when it cannot. */
int make_plan(const settings *s, weft_plan **plan);

/* A plan as weft_plan_json() has it, or a member of that: a new object, or null when memory ran out. */
json_t *plan_json(const weft_plan *plan);
json_t *plan_member(const weft_plan *plan, const char *member);

#endif
