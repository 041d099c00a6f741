/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of threads: every item is done once, and a child of a process that had threads does not wait for them. */
#include "../../cmocka_all.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "../../plans.h"
#include "cpu/thread/team.h"
#include "report/view.h"
#include "tune/search/candidates.h"

enum { ITEMS = 1000 };

static void count_item(void *context, int64_t i) {
    __atomic_add_fetch((int *)context + i, 1, __ATOMIC_RELAXED);
}

static void once_each(void **state) {
    (void)state;
    for (int64_t count = 0; count <= ITEMS; count = 3 * count + 1) {
        int done[ITEMS] = {0};
        weft_cpu_for(count, count_item, done);
        for (int64_t i = 0; i < ITEMS; i++) {
            assert_int_equal(done[i], i < count);
        }
    }
}

/* A team as it is told to its threads. */
typedef struct roll {
    int here[4096];
    int64_t threads;
} roll;

static void enlist(void *context, int64_t thread, int64_t threads) {
    roll *r = context;
    __atomic_add_fetch(&r->here[thread], 1, __ATOMIC_RELAXED);
    __atomic_store_n(&r->threads, threads, __ATOMIC_RELAXED);
}

static void teams(void **state) {
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        roll r = {{0}, 0};
        weft_cpu_team(alone, enlist, &r);
        assert_true(r.threads >= 1 && r.threads <= (alone ? 1 : weft_cpu_threads()));
        for (int64_t i = 0; i < 4096; i++) {
            assert_int_equal(r.here[i], i < r.threads);
        }
    }
}

static void note_rounding(void *context, int64_t thread, int64_t threads) {
    (void)threads;
    ((int *)context)[thread] = fegetround();
}

/* All threads round as the caller does at the time, whatever they did before. */
static void rounding(void **state) {
    (void)state;
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        int found[4096] = {0};
        roll r = {{0}, 0};
        assert_int_equal(fesetround(modes[i]), 0);
        weft_cpu_team(0, note_rounding, found);
        assert_int_equal(fegetround(), modes[i]);
        assert_int_equal(fesetround(FE_TONEAREST), 0);
        weft_cpu_team(0, enlist, &r);
        for (int64_t thread = 0; thread < r.threads; thread++) {
            assert_int_equal(found[thread], modes[i]);
        }
    }
}

/* Asks the model about every schedule of a small product. */
static int ask_model(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 300;
    weft_candidates c;
    weft_plan draft;
    if (weft_plan_draft(&draft, &p, NULL, NULL, NULL) || weft_candidates_make(&c, &draft, NULL, 0, NULL)) {
        return 0;
    }
    const int asked = weft_candidates_drop(&c, 1e9, NULL) == WEFT_OK && c.count > 4 && c.list[c.count - 1].model > 0;
    weft_candidates_free(&c);
    return asked;
}

/* Records two schedules of a small product. */
static int make_view(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 300;
    weft_plan *plans[2] = {NULL, NULL};
    weft_view *view = NULL;
    int made = 1;
    for (int32_t i = 0; i < 2 && made; i++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.sweep = i;
        made = plan_for(&plans[i], &p, &s, NULL, NULL) == WEFT_OK;
    }
    const weft_plan *const both[] = {plans[0], plans[1]};
    static const char *const names[] = {"first", "second"};
    made = made && weft_view_create(&view, both, names, 2, NULL, 1, NULL) == WEFT_OK &&
           view->schedule[1].recording.sim.seconds > 0;
    weft_view_destroy(view);
    weft_plan_destroy(plans[0]);
    weft_plan_destroy(plans[1]);
    return made;
}

/* Whether it works here, and then in a child. The alarm ends a child that waits for threads which it does not have. */
static void works_after_a_fork(int (*work)(void)) {
    enum { MOST_SECONDS = 120 };
    assert_true(work());
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(MOST_SECONDS);
        _exit(work() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        fail_msg("signal %d ended the child", WTERMSIG(status));
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void candidates_after_a_fork(void **state) {
    (void)state;
    works_after_a_fork(ask_model);
}

static void view_after_a_fork(void **state) {
    (void)state;
    works_after_a_fork(make_view);
}

int main(void) {
#ifdef _OPENMP
    omp_set_num_threads(4); /* a team, however few cores there are */
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(once_each), cmocka_unit_test(teams), cmocka_unit_test(rounding),
                                       cmocka_unit_test(candidates_after_a_fork), cmocka_unit_test(view_after_a_fork)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
