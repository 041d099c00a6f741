/* Studies: published numbers beside simulated ones. */
#ifndef WEFT_CLI_STUDY_H
#define WEFT_CLI_STUDY_H

#include <jansson.h>

#include <weft/sim.h>

/* One number. */
typedef struct study_row {
    const char *section; /* where it was published */
    char label[96];
    double published, simulated;
    double low, high; /* what the simulated value may be */
    int judged;       /* 0: shown, not judged */
} study_row;

typedef struct study {
    study_row *rows;
    size_t count, room;
    int failed; /* a simulation could not be run; the message was printed */
    int quiet;  /* no progress */
    int brief;  /* leave out rows, costly ones, that nothing published stands beside */
} study;

/* A row of the table of studies, ended by a null name. */
typedef struct study_info {
    const char *name, *title;
    const char *beside, *source; /* what the simulated numbers stand beside, "published" or "measured", and by whom */
    void (*run)(study *s);
} study_info;

extern const study_info study_table[];

/* Adds a row that must lie within a share of the published value, within an interval, or that is only shown. */
void study_within(study *s, const char *section, double published, double simulated, double share, const char *label, ...)
    __attribute__((format(printf, 6, 7)));
void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) __attribute__((format(printf, 7, 8)));
void study_show(study *s, const char *section, double published, double simulated, const char *label, ...)
    __attribute__((format(printf, 5, 6)));

/* Runs one simulation; an all-zero result when the study has failed. */
weft_simulation study_attention(study *s, const char *machine, const weft_attention *problem, const weft_schedule *schedule,
                                const weft_simulate_options *options);
weft_simulation study_gemm(study *s, const char *machine, const weft_gemm *problem, const weft_schedule *schedule,
                           const weft_simulate_options *options);
weft_machine study_machine(study *s, const char *name);

/* A row that is only shown always passes. */
int study_passes(const study_row *row);

/* The relative error; 0 where nothing but 0 was published. */
double study_error(const study_row *row);
json_t *study_row_json(const study_row *row);

void study_sawtooth(study *s);
void study_cutile(study *s);
void study_tile_scheduling(study *s);
void study_numa(study *s);
void study_h200(study *s);

#endif
