/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning on the CPU: modes of a plan, what the race does, what is looked up where. Times are scripted, so that nothing here
 * depends on how fast or busy the machine is. */
#include "scripted_bench.h"
#include "stores.h"

#include <math.h>
#include <pthread.h>

#include <weft/tune.h>

#include "../plans.h"
#include "plan/plan.h"
#include "tune/search/race.h"
#include "tune/store/known.h"
#include "tune/store/store.h"

static weft_attention small(int64_t seq) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = seq;
    p.head_dim = 32;
    p.dtype = WEFT_FP32;
    return p;
}

static weft_device in_mode(weft_mode mode) {
    weft_device device = WEFT_DEVICE_INIT;
    device.mode = mode;
    return device;
}

typedef struct watch {
    int calls, stop_at, candidates, estimates, also;
    int finals, own_finals, tiles; /* in the final, of those the model's own, and of how many kinds of tile_m */
    int64_t tile_m, best_tile_m;
    int late;              /* far behind, and timed for longer than it takes to see that */
    double elapsed, least; /* seconds of the fastest in the final */
} watch;

static int on_progress(void *user, const weft_tune_state *state) {
    watch *w = user;
    assert_true(state->left >= 0 && state->elapsed >= w->elapsed && state->racing <= state->candidates + 1);
    assert_true(!state->best || state->best->seconds > 0);
    w->elapsed = state->elapsed;
    return ++w->calls == w->stop_at;
}

static void on_candidate(void *user, const weft_tune_figures *f) {
    watch *w = user;
    w->candidates++;
    w->estimates += f->is_estimate;
    w->also += f->is_also;
    if (f->is_final) {
        w->finals++;
        w->own_finals += f->is_estimate;
        w->tiles += f->chosen->tile_m != w->tile_m;
        w->tile_m = f->chosen->tile_m;
        if (w->least == 0 || f->tuned->seconds < w->least) {
            w->least = f->tuned->seconds;
            w->best_tile_m = f->chosen->tile_m;
        }
        assert_true(f->tuned->seconds > 0 && f->tuned->runs > 0);
    }
    w->late += !f->is_estimate && !f->is_also && !f->is_final && f->tuned->seconds > 1.2e-3 && f->tuned->runs > 3;
    assert_true(f->kernel[0] && f->chosen->tile_m > 0 && f->chosen->order > 0);
}

/* A plan in mode stored is refused, measured in mode measure, and then taken from what was measured, for the whole class.
 */
static void modes(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    const weft_attention p = small(65), near = small(71), far = small(200);
    weft_device measure = in_mode(WEFT_MEASURE), stored = in_mode(WEFT_STORED), wrong = in_mode((weft_mode)3);
    weft_schedule open = WEFT_SCHEDULE_INIT;
    weft_machine host = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_plan *plan = NULL;
    weft_tuned tuned = WEFT_TUNED_INIT;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &stored, &message), WEFT_NOT_FOUND);
    assert_null(plan);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &wrong, &message), WEFT_INVALID);
    weft_machine_host(&host, NULL);
    assert_int_equal(plan_on(&plan, &p, NULL, &host, &measure, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "mode measure"));

    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &measure, &message), WEFT_OK);
    const weft_schedule first = weft_plan_schedule(plan);
    weft_plan_destroy(plan);
    assert_int_equal(weft_tuned_find(&p, NULL, NULL, &tuned, NULL), WEFT_OK);
    assert_true(tuned.seconds > 0 && tuned.runs > 0 && tuned.whole && tuned.date > 1500000000);

    weft_known_clear(); /* as another process: from the file */
    assert_int_equal(plan_on(&plan, &near, &open, NULL, &stored, &message), WEFT_OK);
    const weft_schedule again = weft_plan_schedule(plan);
    weft_plan_destroy(plan);
    assert_int_equal(again.order, first.order);
    assert_int_equal(again.tile_m <= 75 && again.tile_n <= 75, 1);
    assert_int_equal(plan_on(&plan, &far, NULL, NULL, &stored, &message), WEFT_NOT_FOUND);
    open.order = WEFT_ORDER_REVERSE; /* something else was given */
    assert_int_equal(plan_on(&plan, &p, &open, NULL, &stored, &message), WEFT_NOT_FOUND);
    int64_t count = 0;
    assert_int_equal(weft_tuned_forget(&near, NULL, NULL, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &stored, &message), WEFT_NOT_FOUND);
    store_end();
}

static void gemm_measured(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 100, p.n = 90, p.k = 40;
    const weft_device measure = in_mode(WEFT_MEASURE);
    weft_plan *plan = NULL;
    float a[100 * 40], b[40 * 90], c[100 * 90];
    for (int i = 0; i < 100 * 40; i++) {
        a[i] = (float)(i % 7);
    }
    for (int i = 0; i < 40 * 90; i++) {
        b[i] = (float)(i % 5);
    }
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &measure, NULL), WEFT_OK);
    const weft_gemm_data data = gemm_data(a, b, c);
    assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
    float sum = 0;
    for (int k = 0; k < 40; k++) {
        sum += a[3 * 40 + k] * b[k * 90 + 11];
    }
    assert_true(c[3 * 90 + 11] == sum);
    weft_plan_destroy(plan);
    store_end();
}

/* What is given stays; candidates that are asked for stay to the end; every candidate is shown once. */
static void given_and_also(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    const weft_attention p = small(150);
    weft_schedule given = WEFT_SCHEDULE_INIT, also[2] = {WEFT_SCHEDULE_INIT, WEFT_SCHEDULE_INIT};
    given.order = WEFT_ORDER_BLOCK_FIRST;
    also[0].order = also[1].order = WEFT_ORDER_BLOCK_FIRST;
    also[0].tile_m = 17;
    also[1].tile_m = 4096; /* cut to the problem */
    watch w = {0};
    weft_tune_options o = WEFT_TUNE_INIT;
    o.progress = on_progress;
    o.candidate = on_candidate;
    o.user = &w;
    o.also = also;
    o.also_count = 2;
    o.behind = 100;
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_tune_state s = WEFT_TUNE_STATE_INIT;
    assert_int_equal(weft_tune(&p, &given, NULL, &o, &tuned, &s, NULL), WEFT_OK);
    assert_true(tuned.schedule.order == WEFT_ORDER_BLOCK_FIRST || tuned.schedule.order == WEFT_ORDER_CHOOSE);
    assert_int_equal(w.candidates, s.candidates - s.dropped);
    assert_int_equal(w.estimates, 1);
    assert_int_equal(w.also, 2);
    assert_true(s.runs > 0 && s.estimate > 0);
    const int64_t runs = s.runs;
    assert_int_equal(weft_tune(&p, &given, NULL, NULL, &tuned, &s, NULL), WEFT_OK); /* known: nothing runs */
    assert_true(runs > 0 && s.runs == 0);
    store_end();
}

/* Tiles of 64 queries are the best; the rest of a schedule makes little difference. */
static double by_tile(const weft_plan *plan, int64_t repeats) {
    const weft_schedule *s = &plan->schedule;
    (void)repeats;
    return 1e-3 * (1 + 0.01 * fabs((double)s->tile_m - 64) + 1e-5 * (double)(s->tile_n + s->order));
}

/* Tiles of 48 are lucky until the final, whose turns are of several runs. */
static double lucky(const weft_plan *plan, int64_t repeats) {
    return by_tile(plan, repeats) * (plan->schedule.tile_m != 48 ? 1 : repeats > 1 ? 2 : 0.8);
}

/* At the end the best of several tiles and the model's own are timed once more, and the fastest is taken; but not where
 * there is no time for it. Who is far behind leaves after three rounds. */
static void final(void **state) {
    (void)state;
    const weft_attention p = small(150);
    const script scripts[] = {by_tile, lucky};
    watch w;
    weft_tune_options o = WEFT_TUNE_INIT;
    o.candidate = on_candidate;
    o.user = &w;
    o.behind = 100;
    o.forgetful = 1;
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_tune_state s = WEFT_TUNE_STATE_INIT;
    for (int i = 0; i < 2; i++) {
        w = (watch){0};
        scripted_bench(scripts[i]);
        assert_int_equal(weft_tune(&p, NULL, NULL, &o, &tuned, &s, NULL), WEFT_OK);
        assert_int_equal(w.best_tile_m, 64);
        assert_int_equal(tuned.runs, 15);
        assert_true(tuned.seconds >= w.least && tuned.seconds <= 1.01 * w.least); /* the model's own wins a tie */
        assert_true(w.finals >= 4 && w.finals <= 6 && w.own_finals == 1 && w.tiles >= 2);
        assert_int_equal(w.late, 0);
        assert_int_equal(s.untimed, 0);
    }
    w = (watch){0};
    o.seconds = 1e-3;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, &tuned, &s, NULL), WEFT_OK);
    assert_int_equal(s.untimed, s.candidates - s.dropped - 1); /* all but the model's own */
    assert_true(w.finals == 0 && tuned.seconds > 0);
    scripted_bench(NULL);
}

/* Stopped early: what was measured is stored, and the same call goes on from there. */
static void stopped(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    const weft_attention p = small(300);
    watch w = {.stop_at = 2};
    weft_tune_options o = WEFT_TUNE_INIT;
    o.progress = on_progress;
    o.user = &w;
    o.exhaustive = 1;
    weft_tuned tuned = WEFT_TUNED_INIT, whole = WEFT_TUNED_INIT;
    weft_tune_state s = WEFT_TUNE_STATE_INIT;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, &tuned, &s, NULL), WEFT_OK);
    assert_int_equal(tuned.whole, 0);
    assert_true(tuned.seconds > 0 && s.runs > 0);
    const weft_device stored = in_mode(WEFT_STORED);
    weft_plan *plan = NULL;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &stored, NULL), WEFT_OK); /* better than nothing */
    weft_plan_destroy(plan);
    w = (watch){0};
    o.exhaustive = 0;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, &whole, &s, NULL), WEFT_OK);
    assert_int_equal(whole.whole, 1);
    store_end();
}

static void not_writable(void **state) {
    (void)state;
    weft_known_clear();
    assert_int_equal(setenv("WEFT_TUNING_DB", "/none/such/tuning.db", 1), 0);
    const weft_attention p = small(64);
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_message message = {""};
    assert_int_equal(weft_tune(&p, NULL, NULL, NULL, &tuned, NULL, &message), WEFT_IO);
    assert_true(tuned.seconds > 0 && strstr(message.text, "/none/such/tuning.db"));
    weft_known_clear();
    const weft_device measure = in_mode(WEFT_MEASURE), stored = in_mode(WEFT_STORED);
    weft_plan *plan = NULL;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &measure, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &stored, NULL), WEFT_OK); /* this process remembers */
    weft_plan_destroy(plan);
}

static void bad_calls(void **state) {
    (void)state;
    const weft_attention p = small(64);
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_tune_options o = WEFT_TUNE_INIT;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, NULL, NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_tune(NULL, NULL, NULL, &o, &tuned, NULL, NULL), WEFT_INVALID);
    o.struct_size = 3;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, &tuned, NULL, NULL), WEFT_INVALID);
    o.struct_size = sizeof o;
    o.behind = 0.5;
    assert_int_equal(weft_tune(&p, NULL, NULL, &o, &tuned, NULL, NULL), WEFT_INVALID);
    weft_device device = WEFT_DEVICE_INIT;
    device.kernel = ":ctas=1";
    assert_int_equal(weft_tuned_find(&p, NULL, &device, &tuned, NULL), WEFT_INVALID);
    assert_int_equal(weft_tunings_import("/none/such.json", NULL, NULL), WEFT_NOT_FOUND);
    assert_int_equal(weft_tunings_import(NULL, NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_tunings_list(NULL, NULL, NULL), WEFT_INVALID);
}

/* Another process's tuning is seen once the file has changed; until then nothing but memory and the file's date is asked.
 */
static void seen_later(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    const weft_attention p = small(90);
    weft_tuned tuned = {.schedule = WEFT_SCHEDULE_INIT, .seconds = 1, .runs = 3, .date = 5, .whole = 1},
               found = WEFT_TUNED_INIT;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_tuned_find(&p, NULL, NULL, &found, NULL), WEFT_NOT_FOUND);
    }
    weft_plan draft;
    weft_tune_key key;
    weft_store *store;
    assert_int_equal(weft_plan_draft(&draft, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_tune_key_make(&key, &draft, NULL), WEFT_OK);
    assert_int_equal(weft_store_open(&store, 1, NULL), WEFT_OK);
    assert_int_equal(weft_store_put(store, &key, &tuned, NULL), WEFT_OK);
    assert_int_equal(weft_tuned_find(&p, NULL, NULL, &found, NULL), WEFT_OK); /* also while the writer is open */
    weft_store_close(store);
    assert_true(found.seconds == 1 && found.date == 5);
    assert_int_equal(unlink(store_path), 0); /* what is known needs no file */
    assert_int_equal(weft_tuned_find(&p, NULL, NULL, &found, NULL), WEFT_OK);
    store_end();
}

/* Any number of threads may look up at once. */
static void *look_up(void *user) {
    const weft_attention p = small(111);
    weft_tuned tuned = WEFT_TUNED_INIT;
    for (int i = 0; i < 20000; i++) {
        if (weft_tuned_find(&p, NULL, NULL, &tuned, NULL) != WEFT_OK) {
            *(int *)user = 1;
        }
    }
    return NULL;
}

static void from_threads(void **state) {
    (void)state;
    store_begin();
    weft_known_clear();
    for (int64_t seq = 111; seq < 4000; seq += 97) { /* a table with something in it */
        const weft_attention other = small(seq);
        weft_plan draft;
        const weft_tuned tuned = {.schedule = WEFT_SCHEDULE_INIT, .seconds = 1, .whole = 1};
        assert_int_equal(weft_plan_draft(&draft, &other, NULL, NULL, NULL), WEFT_OK);
        weft_known_put(&draft, &tuned);
    }
    pthread_t threads[4];
    int failed[4] = {0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, &failed[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failed[i], 0);
    }
    store_end();
}

/* Figures: medians and quartiles of known times. */
static void figures(void **state) {
    (void)state;
    double times[] = {4, 1, 3, 2, 5};
    const weft_candidate c = {.times = times, .count = 5, .rough = 9};
    const weft_tuned t = weft_race_figures(&c);
    assert_true(t.seconds == 3 && t.runs == 5 && t.spread > 0.66 && t.spread < 0.67);
    const weft_candidate none = {.rough = 9};
    assert_true(weft_race_figures(&none).seconds == 9 && weft_race_figures(&none).runs == 0);
}

static int add_seconds(void *user, const weft_tuning *t) {
    *(double *)user += t->tuned.seconds;
    return 0;
}

static void exchanged(void **state) {
    (void)state;
    char path[160];
    int64_t count = 0;
    double sum = 0;
    weft_message message = {""};
    store_begin();
    weft_known_clear();
    weft_plan draft;
    weft_tune_key key;
    weft_store *store;
    for (int64_t seq = 100; seq <= 400; seq += 100) {
        const weft_attention p = small(seq);
        weft_tuned t = {
            .schedule = WEFT_SCHEDULE_INIT, .seconds = (double)seq, .spread = 0.5, .runs = 7, .date = 50, .whole = 1};
        t.schedule.tile_m = 48;
        assert_int_equal(weft_plan_draft(&draft, &p, NULL, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_tune_key_make(&key, &draft, NULL), WEFT_OK);
        assert_int_equal(weft_store_open(&store, 1, NULL), WEFT_OK);
        assert_int_equal(weft_store_put(store, &key, &t, NULL), WEFT_OK);
        weft_store_close(store);
    }
    snprintf(path, sizeof path, "%s/tunings.json", store_folder);
    assert_int_equal(weft_tunings_export(path, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(weft_tunings_import(path, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0); /* nothing there is older */
    assert_int_equal(weft_tunings_forget(&count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(weft_tunings_import(path, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(weft_tunings_list(add_seconds, &sum, NULL), WEFT_OK);
    assert_true(sum == 1000);
    static const char *const wrong[] = {
        "",
        "[1]",
        "{}",
        "{\"weft_tunings\": 2, \"rows\": []}",
        "{\"weft_tunings\": 1, \"rows\": [{\"device\": 3}]}",
        "{\"weft_tunings\": 1, \"rows\": [{\"device\": \"d\", \"driver\": 0, \"build\": \"b\", "
        "\"problem\": \"p\", \"given\": \"\", \"schedule\": \"order=spiral\", \"seconds\": 1, "
        "\"spread\": 0, \"runs\": 1, \"date\": 1, \"whole\": true}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(wrong[i], file);
        fclose(file);
        assert_int_equal(weft_tunings_import(path, &count, &message), WEFT_INVALID);
        assert_int_equal(count, 0);
    }
    store_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),   cmocka_unit_test(modes),          cmocka_unit_test(gemm_measured),
        cmocka_unit_test(stopped),   cmocka_unit_test(given_and_also), cmocka_unit_test(not_writable),
        cmocka_unit_test(bad_calls), cmocka_unit_test(seen_later),     cmocka_unit_test(from_threads),
        cmocka_unit_test(exchanged), cmocka_unit_test(final)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
