/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/search/race.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/status.h"

enum {
    ROUNDS = WEFT_RACE_ROUNDS,
    MOST_RACING = 48,  /* after the first run of each */
    LEAST_RACING = 16, /* however far behind: a first run can be lucky */
};
static const double FIRST_CUT = 1.25; /* how far behind the best first run one may be to stay */

/* Waiting for a quiet moment is part of the race: the caller is told, and may stop it. */
static int on_waiting(void *user) {
    weft_race *r = user;
    weft_race_report(r, r->state.left, 0);
    return r->stopped;
}

static void tell(const weft_race *r, const weft_candidate *c) {
    if (r->timed && c->rough > 0) {
        const weft_tuned figures = weft_race_figures(c);
        r->timed(r->user, &figures);
    }
}

static int by_rough(const void *a, const void *b) {
    const weft_candidate *x = *(weft_candidate *const *)a, *y = *(weft_candidate *const *)b;
    return x->racing != y->racing ? y->racing - x->racing : (x->rough > y->rough) - (x->rough < y->rough);
}

/* The better of two runs of each is its rough time: the first warms up. What was timed in an earlier, unfinished tuning
 * has its rough time already. Past half of the time the rest is left out: the likeliest come first. */
static weft_status first_runs(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    double best = 0, spent = 0;
    size_t done = 0;
    for (size_t i = 0; i < c->count && !r->stopped; i++) {
        weft_candidate *one = &c->list[i];
        const int late = !r->options.exhaustive && spent > r->options.seconds / 2 && !one->stays;
        if (one->rough == 0 && late) {
            one->racing = 0;
            r->state.racing--;
            r->state.untimed++;
            continue;
        }
        if (one->rough == 0) {
            double first, second;
            if (!weft_race_sample(r, one, 1, &first, message) ||
                !weft_race_sample(r, one, weft_race_repeats(first, WEFT_RACE_SAMPLE), &second, message)) {
                continue;
            }
            one->rough = fmin(first, second);
            tell(r, one);
        }
        done++;
        best = best == 0 || one->rough < best ? one->rough : best;
        spent = weft_bench_now() - r->begin;
        const double later = ROUNDS * 8 * best + weft_race_final_seconds(r);
        weft_race_report(r, spent / (double)done * (double)(c->count - done) + later, 0);
    }
    return done ? WEFT_OK : WEFT_FAILED;
}

/* Leaves in the race those within `behind` of the best rough time, at most MOST_RACING; the model's own stays. */
static weft_status first_cut(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    weft_candidate **order = malloc(c->count * sizeof(weft_candidate *));
    if (!order) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu candidates", c->count);
    }
    for (size_t i = 0; i < c->count; i++) {
        order[i] = &c->list[i];
        c->list[i].racing = c->list[i].rough > 0;
    }
    qsort(order, c->count, sizeof *order, by_rough);
    r->state.racing = 0;
    for (size_t i = 0; i < c->count; i++) {
        weft_candidate *one = order[i];
        const int near = i < LEAST_RACING || (i < MOST_RACING && one->rough <= FIRST_CUT * order[0]->rough);
        one->racing = one->rough > 0 && (near || one->stays);
        r->state.racing += one->racing;
    }
    free(order);
    return WEFT_OK;
}

/* How far behind the best median one may be after so many rounds: less and less, as medians become surer. */
static double margin(size_t round) {
    return round < 3 ? INFINITY : round < 5 ? 1.10 : round < 9 ? 1.05 : 1.02;
}

/* The shortest of a candidate's times. Noise only adds: one whose best run is behind is behind. */
static double least(const weft_candidate *c) {
    double time = INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        time = fmin(time, c->times[i]);
    }
    return time;
}

static void cut(weft_race *r, size_t round) {
    weft_candidates *c = r->candidates;
    double best = INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        best = c->list[i].racing ? fmin(best, weft_race_figures(&c->list[i]).seconds) : best;
    }
    for (size_t i = 1; i < c->count; i++) {
        weft_candidate *one = &c->list[i];
        if (one->racing && !one->stays && least(one) > margin(round) * best) {
            one->racing = 0;
            r->state.racing--;
            tell(r, one);
        }
    }
}

/* A step with which one comes past each of `count` once. */
static size_t random_step(size_t count, uint64_t *seed) {
    for (;;) {
        const size_t step = 1 + weft_random(seed) % count;
        size_t a = count, b = step;
        while (b != 0) {
            const size_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) {
            return step;
        }
    }
}

/* Rounds in which each that is racing runs once, in another order every round: a GPU that was idle or did light work a
 * moment ago has a higher clock for a while, so nobody may always come behind the same one. */
static weft_status rounds(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    uint64_t seed = 1;
    for (size_t round = 1; round <= ROUNDS && !r->stopped; round++) {
        const double begin = weft_bench_now();
        const size_t step = random_step(c->count, &seed);
        for (size_t i = 0; i < c->count && !r->stopped; i++) {
            weft_candidate *one = &c->list[(i * step + round * 7) % c->count];
            double seconds;
            if (!one->racing ||
                !weft_race_sample(r, one, weft_race_repeats(one->rough, WEFT_RACE_SAMPLE), &seconds, message)) {
                continue;
            }
            if (!weft_race_has_times(one, message)) {
                return WEFT_NO_MEMORY;
            }
            one->times[one->count++] = seconds;
            const double rest = (weft_bench_now() - begin) * (double)(ROUNDS - round + 1);
            weft_race_report(r, rest + weft_race_final_seconds(r), 0);
        }
        cut(r, round);
        const double elapsed = weft_bench_now() - r->begin;
        if (round >= 5 && !r->options.exhaustive && elapsed > r->options.seconds) {
            break;
        }
    }
    return WEFT_OK;
}

weft_status weft_race_run(weft_race *r, weft_message *message) {
    weft_candidates *c = r->candidates;
    r->begin = weft_bench_now();
    r->state.racing = (int64_t)c->count;
    r->bench->waiting = on_waiting;
    r->bench->waiting_user = r;
    weft_status status = first_runs(r, message);
    if (status == WEFT_OK && !r->stopped && (status = first_cut(r, message)) == WEFT_OK &&
        (status = rounds(r, message)) == WEFT_OK && !r->stopped) {
        status = weft_race_final(r, message);
    }
    for (size_t i = 0; i < c->count; i++) {
        tell(r, &c->list[i]);
    }
    if (r->no_memory) { /* what left the race for that may be the fastest */
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory to time candidates");
    }
    if (status == WEFT_OK) {
        weft_race_report(r, 0, 1);
        r->best.whole = !r->stopped;
    }
    return status;
}
