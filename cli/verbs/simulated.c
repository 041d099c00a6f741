/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/simulated.h"

#include <stdio.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "table.h"

static void print_traffic(const char *name, const weft_traffic *t) {
    print_wrapped("%-10s%14llu sectors, %llu from SMs, %llu hits, %llu misses (%.2f %% hits)\n", name,
                  (unsigned long long)t->sectors, (unsigned long long)t->sectors_from_sm, (unsigned long long)t->hits,
                  (unsigned long long)t->misses, 100 * weft_hit_rate(t));
}

void print_simulation(const weft_machine *machine, const weft_simulation *sim, const weft_traffic *domains) {
    print_traffic("L2", &sim->total);
    for (int64_t d = 0; domains && d < machine->domains; d++) {
        char name[40];
        snprintf(name, sizeof name, "  domain %lld", (long long)d);
        print_traffic(name, &domains[d]);
    }
    print_wrapped("%-10s%14llu sectors\n", "fabric", (unsigned long long)sim->total.fabric_sectors);
    if (sim->total.added > 0) {
        print_wrapped("%-10s%14llu sectors to sums of dQ, %.1f %% of the time waiting for turns\n", "adds",
                      (unsigned long long)sim->total.added, 100 * weft_waiting_share(sim));
    }
    const weft_unit unit = weft_bytes_unit((double)sim->total.dram_read_bytes);
    print_wrapped("%-10s%14.3f %s read, %s written\n", "DRAM", (double)sim->total.dram_read_bytes * unit.factor, unit.name,
                  weft_traffic_text((double)sim->total.dram_write_bytes).text);
    print_wrapped("%-10s%14llu misses\n", "compulsory", (unsigned long long)sim->compulsory_misses);
    print_wrapped("%-10s%14.4f ms%s%s\n", "predicted", 1e3 * sim->seconds, sim->tflops > 0 ? ", " : "",
                  sim->tflops > 0 ? weft_rate_text(sim->tflops).text : "");
    print_wrapped("simulated in %.3f s, %llu visits, seed %llu, profile %s\n", sim->elapsed_seconds,
                  (unsigned long long)sim->piece_visits, (unsigned long long)sim->seed, sim->profile);
}

enum { CURVE_WIDTH = 60, CURVE_HEAD = 27, CURVE_MARK = 16 };

size_t curve_points(const weft_machine *machine) {
    return machine->l2_home == WEFT_HOME_SPLIT ? CURVE_POINTS / 3 : CURVE_POINTS;
}

int print_curve(const settings *s, const weft_machine *machine, const weft_curve_point *points, json_t *problem,
                json_t *schedule) {
    const size_t count = curve_points(machine);
    if (s->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            weft_json_append(&list, json_pack("{s:I, s:I}", "l2_bytes", (json_int_t)points[i].l2_bytes, "misses",
                                              (json_int_t)points[i].misses));
        }
        return print_json(json_pack("{s:s, s:o, s:o, s:I, s:o}", "machine", machine->name, "problem", problem, "schedule",
                                    schedule, "l2_bytes", (json_int_t)machine->l2_bytes, "curve", list));
    }
    const int width = table_width(), room = width - CURVE_HEAD - CURVE_MARK;
    const int longest = width == 0 || room > CURVE_WIDTH ? CURVE_WIDTH : room > 1 ? room : 1;
    int marked = 0;
    printf("%10s %14s\n", "L2 (MiB)", "misses");
    for (size_t i = 0; i < count; i++) {
        const int here = !marked && points[i].l2_bytes >= machine->l2_bytes;
        marked |= here;
        const int length = (int)((double)longest * (double)points[i].misses / (double)points[0].misses);
        printf("%10.1f %14llu %c", (double)points[i].l2_bytes / (1 << 20), (unsigned long long)points[i].misses,
               here ? '>' : ' ');
        for (int c = 0; c < length; c++) {
            putchar('#');
        }
        puts(here ? " <- this machine" : "");
    }
    return EXIT_OK;
}
