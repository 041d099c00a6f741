#include "tune/search/race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "base/statistics.h"
#include "base/status.h"

enum {
    ROUNDS = WEFT_RACE_ROUNDS,
    MOST_RACING = 48,  /* after the first run of each */
    LEAST_RACING = 16, /* however far behind: a first run can be lucky */
};
static const double SAMPLE = 5e-4;    /* seconds that a sample should take at least: short runs are repeated */
static const double FIRST_CUT = 1.25; /* how far behind the best first run one may be to stay */
static const double TIE = 1.01;       /* within this of the best, the model's own choice is taken */

weft_tuned weft_race_figures(const weft_candidate *c) {
    double sorted[ROUNDS];
    const size_t count = c->count < ROUNDS ? c->count : ROUNDS;
    weft_tuned t = {.struct_size = sizeof t,
                    .schedule = c->schedule,
                    .seconds = c->rough,
                    .runs = (int64_t)count,
                    .date = (int64_t)time(NULL)};
    if (count > 0) {
        memcpy(sorted, c->times, count * sizeof *sorted);
        weft_sort(sorted, count);
        t.seconds = weft_quantile(sorted, count, 0.5);
        t.spread = (weft_quantile(sorted, count, 0.75) - weft_quantile(sorted, count, 0.25)) / t.seconds;
    }
    return t;
}

/* The one with the least median, of those that were timed for as long as anyone. Null before any run. */
static const weft_candidate *fastest(const weft_candidates *c) {
    const weft_candidate *best = NULL;
    double least = 0;
    size_t most = 0;
    int is_final = 0;
    for (size_t i = 0; i < c->count; i++) {
        most = c->list[i].count > most ? c->list[i].count : most;
        is_final |= c->list[i].is_final;
    }
    for (size_t i = 0; i < c->count; i++) {
        const weft_candidate *one = &c->list[i];
        const int counts = one->rough > 0 && (is_final ? one->is_final : one->count + 1 >= most);
        const double seconds = counts ? weft_race_figures(one).seconds : 0;
        if (counts && (!best || seconds < least)) {
            best = one;
            least = seconds;
        }
    }
    return best;
}

/* The fastest; the model's own where it is as good as that. */
static const weft_candidate *leader(const weft_candidates *c) {
    const weft_candidate *best = fastest(c), *own = &c->list[0];
    const int is_as_good =
        best && own->rough > 0 && weft_race_figures(own).seconds <= TIE * weft_race_figures(best).seconds;
    return is_as_good ? own : best;
}

void weft_race_report(weft_race *r, double left, int last) {
    const double now = weft_bench_now();
    if (!last && now - r->reported < 0.05) {
        return;
    }
    const weft_candidate *best = leader(r->candidates);
    r->reported = now;
    r->state.elapsed = now - r->begin;
    r->state.left = fmax(0, fmin(left, r->options.exhaustive ? left : r->options.seconds - r->state.elapsed));
    if (best) {
        r->best = weft_race_figures(best);
        r->state.best = &r->best;
    }
    r->state.estimate = r->candidates->list[0].rough > 0 ? weft_race_figures(&r->candidates->list[0]).seconds : 0;
    r->stopped = r->stopped || (!last && r->options.progress && r->options.progress(r->options.user, &r->state) != 0);
}

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

int weft_race_sample(weft_race *r, weft_candidate *c, int64_t repeats, double *seconds, weft_message *message) {
    if (weft_bench_time(r->bench, c->plan, repeats, seconds, message) != WEFT_OK) {
        c->racing = 0;
        c->rough = 0;
        r->state.refused++;
        r->state.racing--;
        return 0;
    }
    r->state.runs += repeats;
    return 1;
}

int64_t weft_race_repeats(double seconds, double sample_seconds) {
    return (int64_t)ceil(fmin(sample_seconds / seconds, 64 * sample_seconds / SAMPLE));
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
                !weft_race_sample(r, one, weft_race_repeats(first, SAMPLE), &second, message)) {
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

int weft_race_has_times(weft_candidate *c, weft_message *message) {
    if (!c->times && !(c->times = malloc(ROUNDS * sizeof *c->times))) {
        (void)weft_fail(message, WEFT_NO_MEMORY, "no memory for times");
    }
    return c->times != NULL;
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
            if (!one->racing || !weft_race_sample(r, one, weft_race_repeats(one->rough, SAMPLE), &seconds, message)) {
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
    if (status == WEFT_OK) {
        weft_race_report(r, 0, 1);
        r->best.whole = !r->stopped;
    }
    return status;
}
