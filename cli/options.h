/* Options of the command: one table, read by the parser, the help, the completion and the messages. */
#ifndef WEFT_CLI_OPTIONS_H
#define WEFT_CLI_OPTIONS_H

#include <stddef.h>

#include <weft/weft.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* For a number whose default is another option's value. */
#define NOT_GIVEN INT64_MIN

/* Everything that options can set, with defaults in place: settings_none(). Absent words are null, absent choices -1, and
 * in the schedule absent numbers are 0. */
typedef struct settings {
    int64_t batch, heads, kv_heads, seq, kv_seq, head_dim, offset;
    int64_t m, n, k;
    double scale; /* NaN: not given */
    double alpha, beta;
    int32_t causal, bottom_right;
    int32_t dtype, c_dtype, layout, a_major, b_major, c_major;
    int64_t tile[3], cluster[2];
    int32_t order, sweep, dispatch, axis, table;
    int64_t workers, group, domains, split;
    const char *machine, *kernel;
    int32_t device, precise, mask_every_block, no_prefetch, counters, show;
    int64_t gpu, ctas, repeat;
    int64_t seed, stages, limit;
    double drift; /* NaN: not given */
    int32_t per_domain, curve;
    const char *schedules, *output;
    int32_t text, svg;
    int32_t mode, list, export, forget, exhaustive, again, all; /* of tuning */
    const char *file, *import, *also;
    double budget, behind, patience;
    const char *command; /* the whole line, for what is kept */
    int32_t verbose, json, help;
} settings;

/* Options of a kernel: see weft_device. */
typedef struct kernel_options {
    int32_t precise, mask_every_block, no_prefetch;
    int64_t ctas; /* 0: as many as fit */
} kernel_options;

/* What an option applies to: an option is offered by the verbs that name one of its sets. */
enum option_set {
    SET_COMMON = 1,
    SET_ATTENTION = 2,
    SET_GEMM = 4,
    SET_SCHEDULE = 8,
    SET_RUN = 16,
    SET_SHOW = 32,
    SET_SIMULATE = 64,
    SET_SEED = 128,
    SET_DEVICE = 256,
    SET_OUTPUT = 512,
    SET_VIEW = 1024,
    SET_TUNE = 2048
};

typedef enum option_type {
    OPTION_FLAG,    /* int32_t, set to 1 */
    OPTION_INTEGER, /* int64_t, K, M and G for powers of 1024 */
    OPTION_COUNT,   /* the same, at least 1 */
    OPTION_REAL,    /* double, finite */
    OPTION_WORD,    /* const char * */
    OPTION_CHOICE,  /* int32_t, the number of a name */
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
    int sides;                        /* OPTION_SHAPE: how many at most */
} option;

/* The table, ended by a null name. */
extern const option option_table[];

/* Settings before any option is read. */
settings settings_none(void);

/* Reads `arguments` (without program and verb). Words that are not options go to `words`, at most `room` of them, with
 * their number in *count. Returns EXIT_OK, or EXIT_USAGE with a message. */
int options_parse(settings *s, int sets, int count_in, char *const *arguments, const char **words, size_t room,
                  size_t *count, weft_message *message);

/* A size with an optional suffix; returns 0 when it is not one or too large. */
int options_read_integer(const char *text, int64_t *value);

/* The letter that stands for an option, as in -o; 0: none does. */
char options_letter(const option *o);

/* The name nearest to a mistyped one among `next(0)`, `next(1)`, ...; null when none is near. */
const char *options_nearest(const char *name, const char *(*next)(int32_t i));

#endif
