#include "sweep/ranks.h"

#include <inttypes.h>
#include <stdio.h>

static const table_column columns[] = {{"way", 0, 1},       {"ms", 0, 0},         {"TFLOP/s a GPU", 1, 0},
                                       {"ideal %", 0, 0},   {"waiting ms", 2, 0}, {"sent MB", 3, 0},
                                       {"network %", 5, 0}, {"imbalance", 6, 0},  {"memory GB", 4, 0}};

table_column sweep_ranks_column(size_t i) {
    return columns[i];
}

const char *sweep_ranks_head(size_t i) {
    return i < sizeof columns / sizeof *columns ? columns[i].head : NULL;
}

void sweep_ranks_cell(const weft_dist_ranked *row, size_t i, char *text, size_t size) {
    const weft_dist_simulation *s = &row->simulation;
    const double values[] = {1e3 * s->seconds, s->tflops,        100 * s->efficiency, 1e3 * s->waiting,
                             s->sent / 1e6,    100 * s->network, s->imbalance,        (double)s->memory / 1e9};
    static const int digits[] = {4, 1, 1, 4, 3, 1, 3, 3};
    if (i == 0) {
        weft_ranks_text(&row->ranks, text, size);
    } else {
        snprintf(text, size, "%.*f", digits[i - 1], values[i - 1]);
    }
}

void sweep_ranks_csv_heads(void) {
    puts("cut,exchange,order,sweep,head_ranks,columns,most_keys,seconds,tflops,efficiency,ideal_seconds,computing,"
         "computing_most,"
         "waiting,waiting_most,imbalance,sent,sent_most,network,memory");
}

void sweep_ranks_csv(const weft_dist_ranked *row) {
    const weft_dist_simulation *s = &row->simulation;
    const weft_ranks *r = &row->ranks;
    printf("%s,%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64, weft_rank_cut_name(r->cut), weft_exchange_name(r->exchange),
           weft_rank_order_describe(r->order)->name, weft_sweep_describe(r->sweep)->name, r->head_ranks, r->columns,
           r->most_keys);
    printf(",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.9g,%" PRIu64 "\n", s->seconds, s->tflops,
           s->efficiency, s->ideal_seconds, s->computing, s->computing_most, s->waiting, s->waiting_most, s->imbalance,
           s->sent, s->sent_most, s->network, s->memory);
}
