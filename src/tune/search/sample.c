/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of candidates, what they say, and telling the caller. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/statistics.h"
#include "base/status.h"
#include "tune/search/race.h"

static const double TIE = 1.01; /* within this of the best, the model's own choice is taken */

weft_tuned weft_race_figures(const weft_candidate *c) {
    double sorted[WEFT_RACE_ROUNDS];
    const size_t count = c->count < WEFT_RACE_ROUNDS ? c->count : WEFT_RACE_ROUNDS;
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

int weft_race_sample(weft_race *r, weft_candidate *c, int64_t repeats, double *seconds, weft_message *message) {
    const weft_status status = weft_bench_time(r->bench, c->plan, repeats, seconds, message);
    if (status) {
        r->no_memory |= status == WEFT_NO_MEMORY;
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
    return (int64_t)ceil(fmin(sample_seconds / seconds, 64 * sample_seconds / WEFT_RACE_SAMPLE));
}

int weft_race_has_times(weft_candidate *c, weft_message *message) {
    if (!c->times && !(c->times = malloc(WEFT_RACE_ROUNDS * sizeof *c->times))) {
        (void)weft_fail(message, WEFT_NO_MEMORY, "no memory for times");
    }
    return c->times != NULL;
}
