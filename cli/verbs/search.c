#include "verbs/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "tune/store/words.h"

/* Steps to simulate at most, so that a search stays within seconds: of the race and of a round of the final, all schedules
 * together, and of a schedule that is simulated whole when the final was not. A step takes 0.04 to 0.2 microseconds. */
static const uint64_t RACE_STEPS = 32000000, ROUND_STEPS = 24000000, WHOLE_STEPS = 16000000;

/* A round of the final leaves a quarter for the next, but not fewer than LEAST. */
enum { LEFT = 4, LEAST = 3 };

/* In a short race the first wave, which finds the caches empty, weighs more than it should. Schedules this near to the
 * fastest may be as fast as that when simulated whole. */
static const double NEAR = 1.1;

/* Where a wave of each would take too long, leaves all the usual ones, and of the others every so many. */
static size_t thin(candidate *list, size_t count) {
    double usual = 0, others = 0;
    for (size_t i = 0; i < count; i++) {
        *(list[i].is_usual ? &usual : &others) += (double)list[i].wave;
    }
    const double share = others > 0 ? fmax(0, fmin(1, ((double)RACE_STEPS - usual) / others)) : 1;
    double taken = 0.5;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        taken += list[i].is_usual ? 0 : share;
        if (list[i].is_usual || taken >= 1) {
            taken -= list[i].is_usual ? 0 : 1;
            list[kept++] = list[i];
        }
    }
    return kept;
}

static int by_seconds(const void *a, const void *b) {
    const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
    return x->sim.seconds != y->sim.seconds ? (x->sim.seconds > y->sim.seconds) - (x->sim.seconds < y->sim.seconds)
                                            : (x->number > y->number) - (x->number < y->number);
}

static int by_dram(const void *a, const void *b) {
    const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
    const uint64_t first = x->sim.total.dram_read_bytes, second = y->sim.total.dram_read_bytes;
    return first != second ? (first > second) - (first < second) : by_seconds(a, b);
}

/* Makes finalists of the first SEARCH_PICKED of `sorted`, taking the first of each order and tile before the second of any:
 * those are much alike, in what the race sees wrong, too. */
static void pick(candidate **sorted, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const weft_schedule *s = &sorted[i]->schedule;
        sorted[i]->turn = 0;
        for (size_t j = 0; j < i; j++) {
            const weft_schedule *t = &sorted[j]->schedule;
            sorted[i]->turn += s->order == t->order && s->tile_m == t->tile_m && s->tile_n == t->tile_n;
        }
    }
    size_t picked = 0;
    for (size_t turn = 0; turn < count && picked < SEARCH_PICKED; turn++) {
        for (size_t i = 0; i < count && picked < SEARCH_PICKED; i++) {
            picked += sorted[i]->turn == turn;
            sorted[i]->is_finalist |= sorted[i]->turn == turn;
        }
    }
}

static int finalists_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->is_finalist != y->is_finalist ? y->is_finalist - x->is_finalist
                                            : (x->number > y->number) - (x->number < y->number);
}

/* Moves the usual ones, the fastest, and those that read least of the ones that may be as fast, to the front. Returns how
 * many they are, or 0 when memory ran out. `list` is what the race left. */
static size_t choose_finalists(candidate *list, size_t count) {
    candidate **sorted = malloc(count * sizeof *sorted);
    if (!sorted) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &list[i];
        list[i].is_finalist = list[i].is_usual;
    }
    qsort(sorted, count, sizeof *sorted, by_seconds);
    pick(sorted, count);
    size_t near = 0;
    while (near < count && sorted[near]->sim.seconds <= NEAR * sorted[0]->sim.seconds) {
        near++;
    }
    qsort(sorted, near, sizeof *sorted, by_dram);
    pick(sorted, near);
    free(sorted);
    qsort(list, count, sizeof *list, finalists_first);
    size_t finalists = 0;
    while (finalists < count && list[finalists].is_finalist) {
        finalists++;
    }
    return finalists;
}

/* Simulates the finalists whole, and sorts them. Where that would take too long, all get as many steps as a round affords,
 * and the best go on to a round of their own, until they are simulated whole or hardly any are left. */
static int run_final(search *f, weft_subject subject) {
    for (size_t count = f->finalists; count > 0; count = count / LEFT > LEAST ? count / LEFT : LEAST) {
        uint64_t steps = 0;
        for (size_t i = 0; i < count; i++) {
            steps += f->list[i].steps;
        }
        f->limit = steps <= ROUND_STEPS ? 0 : ROUND_STEPS / count;
        const int code = candidates_simulate(f->list, count, subject, f->limit, 0);
        if (code) {
            return code;
        }
        candidates_sort(f->list, count);
        f->last = count;
        if (f->limit == 0 || count <= LEAST) {
            break;
        }
    }
    f->whole = 1;
    for (size_t i = 0; i < f->last; i++) {
        f->whole &= f->list[i].sim.simulated >= 1;
    }
    return EXIT_OK;
}

/* The plain schedule with the tile of `like`: the first order there is, forward, static. */
static weft_status make_plain(const candidate *like, weft_subject subject, candidate *plain) {
    settings s = like->chosen;
    s.order = subject == WEFT_SUBJECT_GEMM ? WEFT_ORDER_RASTER_N : WEFT_ORDER_HEAD_FIRST;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.dispatch = WEFT_DISPATCH_STATIC;
    s.group = 0;
    memcpy(s.tile, (int64_t[]){like->schedule.tile_m, like->schedule.tile_n, like->schedule.tile_k}, sizeof s.tile);
    return candidate_lay_out(plain, &s, subject, 0);
}

/* Finds the baseline and simulates it as the first was; or both whole, if that does not take too long. */
static int find_baseline(search *f, weft_subject subject) {
    candidate pair[2] = {f->list[0]};
    const weft_status made = make_plain(&f->list[0], subject, &pair[1]);
    if (made == WEFT_NO_MEMORY) {
        return complain(EXIT_FAILED, "out of memory");
    }
    f->is_plain = made == WEFT_OK && !weft_schedule_same(&pair[0].schedule, &pair[1].schedule);
    if (!f->is_plain && f->finalists > 1) {
        pair[1] = f->list[1];
    }
    f->has_baseline = f->is_plain || f->finalists > 1;
    const size_t count = f->has_baseline ? 2 : 1;
    const int ends = pair[0].steps <= WHOLE_STEPS && (count == 1 || pair[1].steps <= WHOLE_STEPS);
    const int code = candidates_simulate(pair, count, subject, ends ? 0 : f->limit, 0);
    f->has_baseline &= pair[1].valid;
    f->list[0] = pair[0];
    f->baseline = pair[1];
    return code;
}

int search_run(const settings *s, weft_subject subject, search *f) {
    const candidate_space usual = {0, 0, 0, 1}, every = {1, 1, 1, 1};
    candidate_list all = {NULL, 0, 0};
    memset(f, 0, sizeof *f);
    int code = candidates_append(&all, s, subject, &usual);
    code = code ? code : candidates_append(&all, s, subject, &every);
    if (code == EXIT_OK) {
        f->list = all.list;
        f->schedules = all.count;
        f->searched = thin(f->list, f->schedules);
        code = candidates_simulate(f->list, f->searched, subject, RACE_STEPS / (f->searched + 1), SEARCH_WAVES);
    }
    if (code == EXIT_OK) {
        f->searched = candidates_sort(f->list, f->searched);
        code = f->searched > 0 ? EXIT_OK : candidates_refuse(s, subject);
    }
    if (code == EXIT_OK) {
        f->finalists = choose_finalists(f->list, f->searched);
        code = f->finalists > 0 ? run_final(f, subject) : complain(EXIT_FAILED, "out of memory");
    }
    code = code ? code : find_baseline(f, subject);
    if (code) {
        free(all.list);
        f->list = NULL;
    }
    return code;
}
