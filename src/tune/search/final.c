/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a race. The fastest of many is also the luckiest. And a GPU that is short of power has the clock that suits
 * what ran before, for some 30 ms, and comes to another in 100: in short turns all run at somebody else's. So the best of
 * each tile, and the model's own, run once more in longer turns, and only what they have then counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tune/search/race.h"

enum {
    MOST_ROUNDS = 15, /* at most WEFT_RACE_ROUNDS */
    LONG_ROUNDS = 3,  /* where clocks have to settle */
    TILES = 5,        /* whose fastest candidates take part */
};

/* Rounds of a final, and of a turn the seconds before its time is taken and those that are. */
typedef struct course {
    size_t rounds;
    double warm_up, taken;
} course;

static course course_of(const weft_bench *b) {
    return b->warm_up > 0 ? (course){LONG_ROUNDS, b->warm_up, b->warm_up / 3} : (course){MOST_ROUNDS, 0, 2e-3};
}

static double turn_seconds(const course *f, const weft_candidate *c) {
    return f->warm_up + fmax(c->rough, f->taken);
}

double weft_race_final_seconds(const weft_race *r) {
    const course f = course_of(r->bench);
    return (TILES + 1) * (double)f.rounds * (f.warm_up + f.taken);
}

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
static int run_round(weft_race *r, const course *f, weft_candidate **list, size_t count, size_t round, double *times,
                     weft_message *message) {
    for (size_t i = 0; i < count && !r->stopped; i++) {
        const size_t turn = round % 2 ? count - 1 - i : i, at = (turn + round) % count; /* not always behind the same one */
        weft_candidate *one = list[at];
        double unused;
        if ((f->warm_up > 0 && !weft_race_sample(r, one, weft_race_repeats(one->rough, f->warm_up), &unused, message)) ||
            !weft_race_sample(r, one, weft_race_repeats(one->rough, f->taken), &times[at * MOST_ROUNDS + round], message)) {
            return 0;
        }
        weft_race_report(r, (double)((f->rounds - round) * count - i) * turn_seconds(f, one), 0);
    }
    return !r->stopped;
}

weft_status weft_race_final(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    const course f = course_of(r->bench);
    weft_candidate **list = malloc(c->count * sizeof(weft_candidate *));
    const size_t count = list ? list_finalists(c, list) : 0;
    double *times = malloc((count + 1) * MOST_ROUNDS * sizeof *times), needed = 0;
    int is_whole = count > 1 && times, has_memory = list && times;
    for (size_t i = 0; i < count; i++) {
        has_memory = has_memory && weft_race_has_times(list[i], NULL);
        is_whole = is_whole && has_memory;
        needed += (double)f.rounds * turn_seconds(&f, list[i]);
    }
    is_whole = is_whole && (r->options.exhaustive || weft_bench_now() - r->begin + needed < r->options.seconds);
    for (size_t round = 0; round < f.rounds && is_whole; round++) {
        is_whole = run_round(r, &f, list, count, round, times, message);
    }
    for (size_t i = 0; i < count && is_whole; i++) {
        memcpy(list[i]->times, times + i * MOST_ROUNDS, f.rounds * sizeof *times);
        list[i]->count = f.rounds;
        list[i]->is_final = 1;
    }
    free(list);
    free(times);
    return has_memory ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for the final");
}
