/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter sweep as a table, as CSV or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "cli.h"
#include "sweep/ranks.h"
#include "sweep/rows.h"

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

/* The columns behind the schedule; each has one unit. */
typedef struct units {
    weft_unit bytes, rate;
    char dram[16];
} units;

static units choose_units(const sweep *out) {
    double bytes = 0, rate = 0;
    units u;
    for (size_t r = 0; r < out->count; r++) { /* the least says in what unit a column is */
        const weft_simulation *sim = &out->rows[r].ranked.simulation;
        const double read = (double)sim->total.dram_read_bytes;
        bytes = read > 0 && (bytes <= 0 || read < bytes) ? read : bytes;
        rate = sim->tflops > 0 && (rate <= 0 || sim->tflops < rate) ? sim->tflops : rate;
    }
    u.bytes = weft_bytes_unit(bytes);
    u.rate = weft_rate_unit(rate);
    snprintf(u.dram, sizeof u.dram, "DRAM %s", u.bytes.name);
    return u;
}

static void add_numbers(table *t, const units *u, const weft_simulation *sim, int adds) {
    const weft_traffic *traffic = &sim->total;
    const double values[NUMBERS + OF_ADDS] = {100 * weft_hit_rate(traffic),
                                              (double)traffic->misses / 1e6,
                                              (double)traffic->fabric_sectors / 1e6,
                                              (double)traffic->dram_read_bytes * u->bytes.factor,
                                              1e3 * sim->seconds,
                                              sim->tflops * u->rate.factor,
                                              (double)traffic->added / 1e6,
                                              100 * weft_waiting_share(sim)};
    static const int digits[NUMBERS + OF_ADDS] = {2, 2, 2, 3, 4, 2, 2, 2};
    for (size_t i = 0; i < (size_t)NUMBERS + (adds ? OF_ADDS : 0); i++) {
        sim->seconds > 0 ? table_add(t, "%.*f", digits[i], values[i]) : table_add(t, "-"); /* not simulated */
    }
}

static int print_table(const sweep *out) {
    const int over_ranks = out->settings->ranks > 0, adds = has_adds(out);
    const units u = choose_units(out);
    const table_column numbers[] = {{"schedule", 0, 1},  {"hits %", 3, 0}, {"misses M", 4, 0},
                                    {"fabric M", 6, 0},  {u.dram, 2, 0},   {"ms", 0, 0},
                                    {u.rate.name, 1, 0}, {"adds M", 7, 0}, {"waits %", 5, 0}};
    const size_t others = 1 + NUMBERS + (adds ? (size_t)OF_ADDS : 0);
    table_column columns[TABLE_COLUMNS] = {{NULL, 0, 0}};
    sweep_ranks ranks = {0};
    size_t count = 0;
    table t;
    for (; count < out->axes->count; count++) {
        columns[count].head = out->axes->list[count].option->name;
    }
    for (size_t r = 0; r < out->count && over_ranks; r++) {
        sweep_ranks_look(&ranks, &out->rows[r].over);
    }
    if (!over_ranks) {
        memcpy(columns + count, numbers, others * sizeof *numbers);
    }
    count += over_ranks ? sweep_ranks_columns(&ranks, columns + count) : others;
    table_begin(&t, columns, count);
    for (size_t r = 0; r < out->count; r++) {
        const sweep_row *row = &out->rows[r];
        for (size_t i = 0; i < out->axes->count; i++) {
            table_add(&t, "%s", axes_value(out->axes, i, row->point));
        }
        if (over_ranks) {
            sweep_ranks_add(&ranks, &t, &row->over);
        } else {
            char name[CELL];
            weft_search_name(&row->ranked, name, sizeof name);
            table_add(&t, "%s", name);
            add_numbers(&t, &u, &row->ranked.simulation, adds);
        }
    }
    return table_end(&t);
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
