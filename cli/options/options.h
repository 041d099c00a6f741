/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the command: one list, read by the parser, the help, the completion and the messages. Its own stand in a
 * table; those of problems are the fields that the library describes. */
#ifndef WEFT_CLI_OPTIONS_H
#define WEFT_CLI_OPTIONS_H

#include <stddef.h>

#include <weft/profile.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Fields of problems that options can set, of all operations, each name once. */
enum { PROBLEM_OPTIONS = 64 };

/* A number, two of them, a real, the number of a choice or a list, as the option's type has it. */
typedef union option_value {
    int64_t integer;
    int64_t pair[2];
    double real;
    int32_t code;
    const char *text; /* a list, which lengths.h reads */
} option_value;

/* Everything that options can set, with defaults in place: settings_none(). Absent words are null, absent choices -1, and
 * in the schedule absent numbers are 0. */
typedef struct settings {
    int32_t operation; /* what the words and --backward name; 0: nothing */
    uint64_t given;    /* bits: the problem options that were given */
    option_value value[PROBLEM_OPTIONS];
    int64_t tile[3], cluster[2];
    int32_t order, sweep, dispatch, axis, table;
    int64_t workers, group, domains, split;
    const char *machine, *kernel, *order_file;
    const uint32_t *order_table; /* of an order custom that --schedule has, kept until the command ends */
    int64_t order_count;
    uint64_t order_hash; /* 0, or that of an order which --order-file has to give */
    int32_t device, precise, mask_every_block, no_prefetch, counters, energy, check_all, show;
    int32_t deterministic; /* all runs are: it changes nothing */
    int64_t gpu, ctas, repeat;
    int64_t seed, seeds, stages, limit, width;
    const char *sizes; /* of a study */
    double drift;      /* NaN: not given */
    const char *profile_name;
    const weft_profile *profile; /* that of profile_name */
    int32_t per_domain, curve, tolerances, ours;
    double step_seconds;
    const char *trace_out;
    const char *schedules, *schedule, *output;
    int32_t cost; /* a weft_search_cost */
    int32_t text, svg;
    int32_t mode, list, export, forget, exhaustive, again, all; /* of tuning */
    const char *file, *import, *also;
    double budget, behind, patience;
    const char *command;                                /* the whole line, for what is kept */
    int64_t ranks, head_ranks, mesh_columns, most_keys; /* of problems over ranks */
    int32_t cut, exchange, rank_order, rank_sweep;
    int32_t verbose, json, help, help_all;
    int32_t csv, plot; /* of sweeps */
    struct axes *axes; /* where lists and ranges go; null: each option takes one value */
} settings;

/* Options of a kernel: see weft_device. */
typedef struct kernel_options {
    int32_t precise, mask_every_block, no_prefetch;
    int64_t ctas; /* 0: as many as fit */
} kernel_options;

/* What an option applies to: an option is offered by the verbs that name one of its sets. */
enum option_set {
    SET_COMMON = 1,
    SET_PROBLEM = 2, /* fields of problems, of the operations that the words name */
    SET_SWEEP = 4,   /* the verb takes lists and ranges */
    SET_SCHEDULE = 8,
    SET_RUN = 16,
    SET_SHOW = 32,
    SET_SIMULATE = 64,
    SET_SEED = 128,
    SET_DEVICE = 256,
    SET_OUTPUT = 512,
    SET_VIEW = 1024,
    SET_TUNE = 2048,
    SET_PLAN = 4096,
    SET_STUDY = 8192,
    SET_TRACE = 16384,
    SET_RANKS = 32768,
    SET_TRAFFIC = 65536,

    /* What a verb has no set of: */
    RARE = 1 << 20,     /* only --help-all lists it */
    OF_TRACES = 1 << 21 /* applies to traces, too */
};

typedef enum option_type {
    OPTION_FLAG,    /* int32_t, set to 1 */
    OPTION_INTEGER, /* int64_t, K, M and G for powers of 1024 */
    OPTION_COUNT,   /* the same, at least 1 */
    OPTION_REAL,    /* double, finite */
    OPTION_WORD,    /* const char * */
    OPTION_MACHINE, /* const char *, a machine's name as the library spells it, or a path */
    OPTION_CHOICE,  /* int32_t, the number of a name */
    OPTION_PAIR,    /* int64_t[2]: 4096,0 or -1,128 */
    OPTION_LENGTHS, /* const char *: 100,2K,0, each at least 0 */
    OPTION_SHAPE    /* int64_t[2] or [3]: 128x64 or 128x64x32, each at least 1 */
} option_type;

typedef struct option {
    const char *name; /* without the two dashes */
    option_type type;
    int sets;             /* of enum option_set */
    const char *argument; /* in the help: N, NAME, ... */
    const char *text;
    size_t offset;                    /* in settings */
    const char *(*choice)(int32_t i); /* OPTION_CHOICE: the i-th name, null past the last */
    int number; /* OPTION_SHAPE: how many sides at most; OPTION_CHOICE: the number of the first, one more than of none */
} option;

/* The command's own options, ended by a null name. */
extern const option option_table[];

/* All options by number, the problems' first; null past the last. */
const option *option_at(size_t number);

/* Of an option of problems: its number in settings, and the operations that have it, as bits. Of any other: -1, 0. */
int option_number(const option *o);
uint32_t option_operations(const option *o);

/* A field's name as an option's: kv_heads is --kv-heads. */
enum { OPTION_NAME = 32 };
void option_spell(const char *field, char name[OPTION_NAME]);

/* The field of an operation that an option sets; null when there is none. */
const weft_field *option_field(const option *o, int32_t operation);

/* An option by its name; null when there is none. */
const option *option_find(const char *name, size_t length);

/* Operations as bits: one and those that a flag makes of it, or all with 0. */
uint32_t operation_bits(int32_t operation);

/* Whether a flag makes this operation of another, as --backward makes attention-backward of attention: that other; 0. */
int32_t operation_base(int32_t operation);

/* Settings before any option is read. */
settings settings_none(void);

/* Reads `arguments` (without program and verb). Words that are not options go to `words`, at most `room` of them, with
 * their number in *count. Of SET_PROBLEM, the options of `operations` (bits) apply. Returns EXIT_OK, or EXIT_USAGE with a
 * message; EXIT_FAILED when memory ran out. */
int options_parse(settings *s, int sets, uint32_t operations, int count_in, char *const *arguments, const char **words,
                  size_t room, size_t *count, weft_message *message);

/* What the flags that were given make of an operation: itself, or attention-backward of attention. */
int32_t operation_made(const settings *s, int32_t operation);

/* Reads one value of an option into the settings. Returns EXIT_OK, or EXIT_USAGE with a message. */
int option_read(const option *o, settings *s, const char *text, weft_message *message);

/* Sets a field of problems as its option would. */
void settings_give(settings *s, const char *name, option_value value);

/* The length at the beginning of a list like 100,2K,0. Returns the rest of the list, null behind the last one, or `text`
 * when it is no length. */
const char *options_next_length(const char *text, int64_t *length);

/* Writes what is wrong; returns EXIT_USAGE. */
int option_fail(weft_message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A size with an optional suffix; returns 0 when it is not one or too large. */
int options_read_integer(const char *text, int64_t *value);

/* The letter that stands for an option, as in -o; 0: none does. */
char options_letter(const option *o);

#endif
