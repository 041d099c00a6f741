/* A parameter sweep as a table, as CSV or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "cli.h"
#include "sweep/sweep.h"

/* ---- CSV ---- */

static void print_quoted(const char *text) {
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, stdout);
    }
    putchar('"');
}

/* Whether a row adds to sums: columns tell of that where one does. */
static int has_adds(const sweep *out) {
    int adds = 0;
    for (size_t r = 0; r < out->count; r++) {
        adds |= out->rows[r].ranked.simulation.total.added > 0;
    }
    return adds;
}

/* The columns behind the schedule; empty ones where the simulator does not take it. */
static void print_counts(const weft_simulation *sim, int adds) {
    const weft_traffic *t = &sim->total;
    const uint64_t before[] = {t->sectors, t->sectors_from_sm, t->hits, t->misses};
    const uint64_t after[] = {t->fabric_sectors, t->llc_hits, t->dram_read_bytes, t->dram_write_bytes,
                              sim->compulsory_misses};
    if (sim->seconds <= 0) {
        puts(adds ? ",,,,,,,,,,,,,,," : ",,,,,,,,,,,,,");
        return;
    }
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        printf(",%" PRIu64, before[i]);
    }
    printf(",%.9g", weft_hit_rate(t));
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        printf(",%" PRIu64, after[i]);
    }
    printf(",%.9g,%.9g,%.9g,%s", sim->seconds, sim->tflops, sim->simulated, sim->profile);
    if (adds) {
        printf(",%" PRIu64 ",%.9g", t->added, weft_waiting_share(sim));
    }
    putchar('\n');
}

static void print_heads(int adds) {
    printf("schedule,sectors,sectors_from_sm,hits,misses,hit_rate,fabric_sectors,llc_hits,dram_read_bytes,dram_write_bytes,"
           "compulsory_misses,seconds,tflops,simulated,profile%s\n",
           adds ? ",added_sectors,waited" : "");
}

static void print_csv(const sweep *out) {
    const int adds = has_adds(out), over_ranks = out->settings->ranks > 0;
    for (size_t i = 0; i < out->axes->count; i++) {
        printf("%s,", out->axes->list[i].option->name);
    }
    over_ranks ? sweep_ranks_csv_heads() : print_heads(adds);
    for (size_t r = 0; r < out->count; r++) {
        const sweep_row *row = &out->rows[r];
        char name[WEFT_SEARCH_NAME];
        for (size_t i = 0; i < out->axes->count; i++) {
            print_quoted(axes_value(out->axes, i, row->point));
            putchar(',');
        }
        if (over_ranks) {
            sweep_ranks_csv(&row->over);
            continue;
        }
        weft_search_name(&row->ranked, name, sizeof name);
        print_quoted(name);
        print_counts(&row->ranked.simulation, adds);
    }
}

/* ---- a table ---- */

enum { CELL = WEFT_SEARCH_NAME, NUMBERS = 6, OF_ADDS = 2 };

static const char *const heads[NUMBERS + OF_ADDS] = {"hits %", "misses M", "fabric M", "DRAM GB",
                                                     "ms",     "rate",     "adds M",   "waits %"};

/* The text of a cell: axes, then the schedule, then numbers. A null row gives the head. */
static void write_cell(const sweep *out, const sweep_row *row, size_t column, char text[CELL]) {
    const size_t axes = out->axes->count;
    text[0] = '\0';
    if (column < axes) {
        snprintf(text, CELL, "%s", row ? axes_value(out->axes, column, row->point) : out->axes->list[column].option->name);
    } else if (out->settings->ranks > 0) {
        row ? sweep_ranks_cell(&row->over, column - axes, text, CELL)
            : (void)snprintf(text, CELL, "%s", sweep_ranks_head(column - axes));
    } else if (column == axes) {
        row ? weft_search_name(&row->ranked, text, CELL) : (size_t)snprintf(text, CELL, "schedule");
    } else if (!row) {
        snprintf(text, CELL, "%s", heads[column - axes - 1]);
    } else if (row->ranked.simulation.seconds <= 0) { /* the simulator does not take it */
        snprintf(text, CELL, "-");
    } else if (column - axes == NUMBERS) {
        snprintf(text, CELL, "%s", weft_rate_text(row->ranked.simulation.tflops).text);
    } else if (column - axes > NUMBERS) {
        const weft_simulation *sim = &row->ranked.simulation;
        snprintf(text, CELL, "%.2f",
                 column - axes == NUMBERS + 1 ? (double)sim->total.added / 1e6 : 100 * weft_waiting_share(sim));
    } else {
        const weft_traffic *t = &row->ranked.simulation.total;
        const double values[] = {100 * weft_hit_rate(t), (double)t->misses / 1e6, (double)t->fabric_sectors / 1e6,
                                 (double)t->dram_read_bytes / 1e9, 1e3 * row->ranked.simulation.seconds};
        static const int digits[] = {2, 2, 2, 3, 4};
        const size_t i = column - axes - 1;
        snprintf(text, CELL, "%.*f", digits[i], values[i]);
    }
}

/* Columns behind the axes. */
static size_t count_columns(const sweep *out) {
    size_t columns = 0;
    while (out->settings->ranks > 0 && sweep_ranks_head(columns)) {
        columns++;
    }
    return columns ? columns : 1 + NUMBERS + (has_adds(out) ? OF_ADDS : 0);
}

static int print_table(const sweep *out) {
    const size_t columns = out->axes->count + count_columns(out), schedule = out->axes->count;
    int *widths = calloc(columns, sizeof *widths);
    char text[CELL];
    if (!widths) {
        return complain(EXIT_FAILED, "out of memory");
    }
    for (int draw = 0; draw < 2; draw++) {
        for (size_t r = 0; r <= out->count; r++) {
            for (size_t c = 0; c < columns; c++) {
                write_cell(out, r ? &out->rows[r - 1] : NULL, c, text);
                const int length = (int)strlen(text);
                if (draw) { /* words to the left, numbers to the right */
                    printf("%s%*s", c ? "  " : "", c == schedule ? -widths[c] : widths[c], text);
                }
                widths[c] = length > widths[c] ? length : widths[c];
            }
            if (draw) {
                putchar('\n');
            }
        }
    }
    free(widths);
    return EXIT_OK;
}

int sweep_print(const sweep *out) {
    if (out->settings->json) {
        return print_json(json_incref(out->objects));
    }
    if (out->settings->csv) {
        print_csv(out);
        return EXIT_OK;
    }
    return print_table(out);
}
