/* SPDX-License-Identifier: Apache-2.0 */
/* The rule by which one schedule is put before another. */
#include <math.h>
#include <stdlib.h>

#include "search/entries.h"

/* Times and bytes this near to the least are as good: less is noise of the simulator, and of what models were fitted to. */
#define AS_FAST   1.01
#define AS_FRUGAL 1.02

const char *weft_search_rule(void) {
    return "of the schedules within 1 % of the fastest, those within 2 % of the least DRAM reads; of these the one that "
           "asks the L2 for the fewest sectors, and of equals the one that misses the fewest";
}

static int compare(double x, double y) {
    return (x > y) - (x < y);
}

/* Within a grade, what the next one was chosen by decides: sectors and misses, DRAM reads, time. */
static int by_rule(const void *a, const void *b) {
    const weft_search_entry *x = a, *y = b;
    const weft_simulation *first = &x->ranked.simulation, *second = &y->ranked.simulation;
    if (x->grade != y->grade) {
        return x->grade - y->grade;
    }
    const int sectors = compare((double)first->total.sectors, (double)second->total.sectors);
    const int dram = compare((double)first->total.dram_read_bytes, (double)second->total.dram_read_bytes);
    const int seconds = compare(first->seconds, second->seconds);
    const int misses = compare((double)first->total.misses, (double)second->total.misses);
    const int order = x->grade == 0 ? (sectors ? sectors : misses) : x->grade == 1 ? dram : seconds;
    return order ? order : seconds ? seconds : dram ? dram : compare((double)x->number, (double)y->number);
}

size_t weft_search_sort(weft_search_entry *list, size_t count) {
    double fastest = INFINITY, least = INFINITY;
    size_t valid = 0;
    for (size_t i = 0; i < count; i++) {
        fastest = list[i].valid ? fmin(fastest, list[i].ranked.simulation.seconds) : fastest;
        valid += list[i].valid != 0;
    }
    for (size_t i = 0; i < count; i++) {
        const weft_simulation *sim = &list[i].ranked.simulation;
        list[i].grade = !list[i].valid ? 3 : sim->seconds > AS_FAST * fastest ? 2 : 1;
        least = list[i].grade == 1 ? fmin(least, (double)sim->total.dram_read_bytes) : least;
    }
    for (size_t i = 0; i < count; i++) {
        const double read = (double)list[i].ranked.simulation.total.dram_read_bytes;
        list[i].grade -= list[i].grade == 1 && read <= AS_FRUGAL * least;
    }
    qsort(list, count, sizeof *list, by_rule);
    return valid;
}

const char *weft_search_rule_priced(void) {
    return "first what a plan takes by default, by the model of the kernels and the rules that were measured beside it; "
           "then "
           "by the model, and within 1 % of its least time by DRAM reads when simulated";
}

/* The default; then what the model has within 1 %, by what it reads, which is not known of what the simulator does not
 * take; then the others. */
static int by_price(const void *a, const void *b) {
    const weft_search_entry *x = a, *y = b;
    if (x->is_default != y->is_default) {
        return y->is_default - x->is_default;
    }
    if (x->grade != y->grade || x->grade == 1) {
        return x->grade != y->grade ? x->grade - y->grade : compare(x->ranked.model, y->ranked.model);
    }
    const double first = x->valid ? (double)x->ranked.simulation.total.dram_read_bytes : INFINITY;
    const double second = y->valid ? (double)y->ranked.simulation.total.dram_read_bytes : INFINITY;
    return first != second ? compare(first, second) : compare((double)x->number, (double)y->number);
}

void weft_search_sort_priced(weft_search_entry *list, size_t count) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, list[i].ranked.model);
    }
    for (size_t i = 0; i < count; i++) {
        list[i].grade = list[i].ranked.model > AS_FAST * least;
    }
    qsort(list, count, sizeof *list, by_price);
}
