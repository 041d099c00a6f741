/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning a problem: candidates, a race, and the store; and what the modes of a plan make of it. */
#include "tune/search/tune.h"

#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "tune/search/race.h"
#include "tune/store/known.h"
#include "tune/store/store.h"

/* What is known of the store while a race goes on. It is open only for as long as it is asked or written, so that no fork
 * has to wait for a race. */
typedef struct keeper {
    weft_tune_key key;
    weft_status status; /* of the last use; once that fails, the race goes on without the store */
    weft_message why;
    weft_candidates candidates;
} keeper;

/* Keeps what was measured of one candidate. */
static void keep_trial(void *user, const weft_tuned *trial) {
    keeper *k = user;
    weft_store *store = NULL;
    if (k->status == WEFT_OK && (k->status = weft_store_open(&store, 1, &k->why)) == WEFT_OK) {
        k->status = weft_store_put_trial(store, &k->key, trial, &k->why);
    }
    weft_store_close(store);
}

/* Takes up what an earlier, unfinished tuning measured. */
static void take_trial(void *user, const weft_tuned *trial) {
    const weft_candidates *c = &((keeper *)user)->candidates;
    for (size_t i = 0; i < c->count; i++) {
        if (weft_schedule_same(&c->list[i].schedule, &trial->schedule)) {
            c->list[i].rough = trial->seconds;
        }
    }
}

static void take_trials(keeper *k) {
    weft_store *store = NULL;
    if (weft_store_open(&store, 0, NULL) == WEFT_OK) {
        (void)weft_store_trials(store, &k->key, take_trial, k, NULL);
    }
    weft_store_close(store);
}

static weft_status read_options(weft_tune_options *ours, const weft_tune_options *theirs, weft_message *message) {
    const weft_tune_options init = WEFT_TUNE_INIT;
    *ours = init;
    const weft_status status = weft_struct_take_options(ours, sizeof *ours, theirs, "WEFT_TUNE_INIT", message);
    if (status) {
        return status;
    }
    if (!(ours->seconds >= 0) || !(ours->behind == 0 || ours->behind >= 1)) {
        return weft_fail(message, WEFT_INVALID, "seconds %g and behind %g must be 0, or at least 0 and 1", ours->seconds,
                         ours->behind);
    }
    ours->seconds = ours->seconds == 0 ? 10 : ours->seconds;
    ours->behind = ours->behind == 0 ? 1.3 : ours->behind;
    return WEFT_OK;
}

static void show_candidates(const weft_tune_options *o, const weft_candidates *c) {
    for (size_t i = 0; i < c->count && o->candidate; i++) {
        const weft_candidate *one = &c->list[i];
        const weft_tuned tuned = weft_race_figures(one);
        const weft_schedule chosen = weft_plan_schedule(one->plan);
        const weft_tune_figures figures = {sizeof figures, &tuned, &chosen,      weft_plan_kernel(one->plan),
                                           one->model,     i == 0, one->is_also, one->is_final};
        o->candidate(o->user, &figures);
    }
}

/* Times the candidates. */
static weft_status race(const weft_plan *draft, const weft_tune_options *o, keeper *k, weft_tuned *tuned,
                        weft_tune_state *state, weft_message *message) {
    weft_candidates *candidates = &k->candidates;
    weft_bench_options quiet = WEFT_BENCH_INIT;
    weft_bench *bench = NULL;
    quiet.retries = 4;
    weft_status status = weft_candidates_make(candidates, draft, o->also, o->also_count, message);
    const int64_t all = (int64_t)candidates->count;
    if (status == WEFT_OK && !o->exhaustive) {
        status = weft_candidates_drop(candidates, o->behind, message);
    }
    if (status == WEFT_OK && (status = weft_bench_open(&bench, candidates->list[0].plan, &quiet, message)) == WEFT_OK) {
        weft_race r = {.candidates = candidates, .bench = bench, .options = *o, .timed = keep_trial, .user = k};
        r.state.candidates = all;
        r.state.same = (int64_t)candidates->same;
        r.state.dropped = (int64_t)candidates->dropped;
        r.state.dropped_from = candidates->dropped_from;
        r.state.refused = (int64_t)candidates->refused;
        bench->patience = o->patience;
        if (k->status == WEFT_OK && !o->again) {
            take_trials(k);
        }
        status = weft_race_run(&r, message);
        *tuned = r.best;
        *state = r.state;
        state->disturbed = bench->disturbed;
        state->best = NULL;
        show_candidates(o, candidates);
    }
    weft_bench_close(bench);
    weft_candidates_free(candidates);
    return status;
}

/* Writes the result; trials are needed no longer once it is whole. */
static weft_status keep(keeper *k, const weft_tuned *tuned, weft_message *message) {
    weft_store *store = NULL;
    if (k->status == WEFT_OK && (k->status = weft_store_open(&store, 1, &k->why)) == WEFT_OK) {
        k->status = weft_store_put(store, &k->key, tuned, &k->why);
    }
    if (k->status == WEFT_OK && tuned->whole) {
        k->status = weft_store_drop_trials(store, &k->key, &k->why);
    }
    weft_store_close(store);
    if (k->status && message) {
        *message = k->why;
    }
    return k->status;
}

/* Whether the class is tuned as a whole. */
static int look_up(keeper *k, int again, weft_tuned *tuned) {
    weft_store *store = NULL;
    k->status = weft_store_open(&store, 1, &k->why);
    const int found = store && !again && weft_store_find(store, &k->key, tuned, NULL) == WEFT_OK && tuned->whole;
    weft_store_close(store);
    return found;
}

weft_status weft_tune_draft(const weft_plan *draft, const weft_tune_options *options, weft_tuned *tuned,
                            weft_tune_state *state, weft_message *message) {
    weft_tune_options o;
    weft_tune_state unseen = {0};
    keeper k;
    memset(&k, 0, sizeof k);
    memset(tuned, 0, sizeof *tuned);
    state = state ? state : &unseen;
    memset(state, 0, sizeof *state);
    weft_status status = read_options(&o, options, message);
    if (status || (status = weft_tune_key_make(&k.key, draft, message))) {
        return status;
    }
    k.status = o.forgetful ? WEFT_NOT_FOUND : WEFT_OK;
    if (!o.forgetful && look_up(&k, o.again, tuned)) {
        weft_known_put(draft, tuned);
        return WEFT_OK;
    }
    status = race(draft, &o, &k, tuned, state, message);
    if (status == WEFT_OK && !o.forgetful) {
        weft_known_put(draft, tuned);
        status = keep(&k, tuned, message);
        status = status == WEFT_UNSUPPORTED || status == WEFT_NO_MEMORY ? WEFT_IO : status;
    }
    return status;
}

weft_status weft_tune_registered(weft_plan *draft, weft_message *message) {
    weft_tuned tuned;
    weft_status status = weft_known_find(draft, &tuned, message);
    if (draft->device.mode == WEFT_STORED && status) {
        return status;
    }
    if (draft->device.mode == WEFT_MEASURE && (status || !tuned.whole)) {
        status = weft_tune_draft(draft, NULL, &tuned, NULL, message);
        if (status && !(status == WEFT_IO && tuned.seconds > 0)) { /* what cannot be stored is kept in memory */
            return status;
        }
    }
    draft->schedule = tuned.schedule;
    weft_candidates_fit(draft);
    return WEFT_OK;
}

weft_status weft_tune(const void *problem, const weft_schedule *schedule, const weft_device *device,
                      const weft_tune_options *options, weft_tuned *tuned, weft_tune_state *state, weft_message *message) {
    weft_plan draft;
    weft_tuned ours;
    weft_tune_state went;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    weft_status status = weft_plan_draft(&draft, problem, schedule, device, message);
    if (status) {
        return status;
    }
    const weft_status outcome = weft_tune_draft(&draft, options, &ours, &went, message);
    status = weft_struct_give(tuned, &ours, sizeof ours, sizeof(size_t), "WEFT_TUNED_INIT", message);
    if (status == WEFT_OK && state) {
        status = weft_struct_give(state, &went, sizeof went, sizeof(size_t), "WEFT_TUNE_STATE_INIT", message);
    }
    return outcome ? outcome : status;
}
