/* The command's verbs and what they share. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <jansson.h>

#include <weft/machine.h>

#include "options.h"

/* A verb: `weft NAME [WORDS] [options]`. */
typedef struct verb {
    const char *name;
    const char *words; /* what stands before the options, for the usage line */
    const char *text;
    int sets;           /* of enum option_set; with both subjects named, the first word chooses one */
    size_t least, most; /* how many words */
    int (*run)(const settings *s, const char *const *words, size_t count);
} verb;

/* The table, ended by a null name. */
extern const verb verb_table[];

int cmd_orders(const settings *s, const char *const *words, size_t count);
int cmd_order(const settings *s, const char *const *words, size_t count);
int cmd_machines(const settings *s, const char *const *words, size_t count);
int cmd_run(const settings *s, const char *const *words, size_t count);
int cmd_simulate(const settings *s, const char *const *words, size_t count);
int cmd_compare(const settings *s, const char *const *words, size_t count);
int cmd_plan(const settings *s, const char *const *words, size_t count);
int cmd_tune(const settings *s, const char *const *words, size_t count);
int cmd_reproduce(const settings *s, const char *const *words, size_t count);
int cmd_view(const settings *s, const char *const *words, size_t count);
int cmd_report(const settings *s, const char *const *words, size_t count);
int cmd_completion(const settings *s, const char *const *words, size_t count);

/* One line on standard error; returns `code`. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The exit code for a status, its message printed. */
int complain_status(weft_status status, const weft_message *message);

/* Prints an object as one line and releases it. Null, as plan/json.h leaves it, fails with a message: memory ran out. */
int print_json(json_t *object);

/* The weft_subject of "attention" or "gemm"; -1 for anything else. */
int subject_of(const char *word);

/* The same, having complained of anything else. */
int subject_or_complain(const char *verb, const char *word);

/* The exit code that a status stands for. */
int exit_code(weft_status status);

/* weft machines probe: measures the GPU, prints what it found, and writes a machine file where --output says. */
int probe_machine(const settings *s);

/* The problem, the schedule and the device that the options describe. attention_of() returns 0 with a message when options
 * contradict each other. */
int attention_of(const settings *s, weft_attention *problem, weft_message *message);
weft_gemm gemm_of(const settings *s);
weft_schedule schedule_of(const settings *s);
weft_device device_of(const settings *s);

/* Writes weft_device.kernel: a family, or "" for any, which may have options already, and more options. Returns 0 when the
 * text is too long. */
int kernel_specification(char *text, size_t size, const char *kernel, const kernel_options *o);

/* The exit code of a status of a plan or a tuning: what is missing on this machine is no mistake of the command line's. */
int device_exit_code(const weft_device *device, weft_status status);

/* Makes the plan that the options describe, or says what is wrong. */
weft_status try_plan(const settings *s, weft_subject subject, weft_plan **plan, weft_message *message);

/* Makes the plan that the options describe. Prints what is wrong and returns the exit code when it cannot. */
int make_plan(const settings *s, weft_subject subject, weft_plan **plan);

#endif
