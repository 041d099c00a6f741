/* The end of a race. The fastest of many is also the luckiest. And a GPU that is short of power lowers its clock by what
 * ran a moment ago, which in short turns is somebody else. So the best of each tile, and the model's own, run once more in
 * longer turns, and only what they have then counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/status.h"
#include "tune/race.h"

enum {
    FINAL = 15, /* rounds; at most WEFT_RACE_ROUNDS */
    TILES = 5,  /* whose fastest candidates take part */
};
static const double SAMPLE = 2e-3; /* seconds, at least */

static int have_same_tile(const weft_candidate *a, const weft_candidate *b) {
    return a->plan->schedule.tile_m == b->plan->schedule.tile_m && a->plan->schedule.tile_n == b->plan->schedule.tile_n;
}

/* The fastest whose tile none of `list` has; null: there is none. */
static weft_candidate *fastest_of_other_tiles(const weft_candidates *c, weft_candidate *const *list, size_t count) {
    weft_candidate *best = NULL;
    for (size_t i = 0; i < c->count; i++) {
        weft_candidate *one = &c->list[i];
        int is_other = one->rough > 0;
        for (size_t k = 0; k < count; k++) {
            is_other = is_other && !have_same_tile(one, list[k]);
        }
        if (is_other && (!best || weft_race_figures(one).seconds < weft_race_figures(best).seconds)) {
            best = one;
        }
    }
    return best;
}

/* The fastest of each tile, the model's own, and those that were asked for. `list` has room for all candidates. */
static size_t list_finalists(const weft_candidates *c, weft_candidate **list) {
    size_t count = 0;
    weft_candidate *next;
    while (count < TILES && (next = fastest_of_other_tiles(c, list, count))) {
        next->is_final = 1;
        list[count++] = next;
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->list[i].rough > 0 && (i == 0 || c->list[i].stays) && !c->list[i].is_final) {
            list[count++] = &c->list[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        list[i]->is_final = 0; /* until it is over */
    }
    return count;
}

/* One turn of each finalist: it runs alone until the clock has settled, then its time is taken. */
static int final_round(weft_race *r, weft_candidate **list, size_t count, size_t round, double *times,
                       weft_message *message) {
    const double taken = fmax(SAMPLE, r->bench->settle / 2);
    for (size_t i = 0; i < count && !r->stopped; i++) {
        const size_t turn = round % 2 ? count - 1 - i : i, at = (turn + round) % count; /* not always behind the same one */
        const double rough = list[at]->rough;
        double unused;
        if ((r->bench->settle > 0 &&
             !weft_race_sample(r, list[at], weft_race_repeats(rough, r->bench->settle), &unused, message)) ||
            !weft_race_sample(r, list[at], weft_race_repeats(rough, taken), &times[at * FINAL + round], message)) {
            return 0;
        }
        weft_race_report(r, (double)((FINAL - round) * count - i) * (r->bench->settle + fmax(rough, taken)), 0);
    }
    return !r->stopped;
}

weft_status weft_race_final(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    weft_candidate **list = malloc(c->count * sizeof(weft_candidate *));
    const size_t count = list ? list_finalists(c, list) : 0;
    double *times = malloc((count + 1) * FINAL * sizeof *times), needed = 0;
    int is_whole = count > 1 && times;
    for (size_t i = 0; i < count; i++) {
        is_whole = is_whole && weft_race_has_times(list[i], NULL);
        needed += FINAL * (r->bench->settle + fmax(list[i]->rough, fmax(SAMPLE, r->bench->settle / 2)));
    }
    is_whole = is_whole && (r->options.exhaustive || weft_bench_now() - r->begin + needed < r->options.seconds);
    for (size_t round = 0; round < FINAL && is_whole; round++) {
        is_whole = final_round(r, list, count, round, times, message);
    }
    for (size_t i = 0; i < count && is_whole; i++) {
        memcpy(list[i]->times, times + i * FINAL, FINAL * sizeof *times);
        list[i]->count = FINAL;
        list[i]->is_final = 1;
    }
    const int has_memory = list && times;
    free(list);
    free(times);
    return has_memory ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for the final");
}
