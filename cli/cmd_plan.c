/* weft plan: the schedule that the simulator would choose, and why. */
#include <stdio.h>
#include <stdlib.h>

#include "candidates.h"
#include "cli.h"
#include "plan/json.h"
#include "report/simulation_json.h"
#include "simulated.h"

/* The plain schedule that the best one is measured against: the first order of the plainest kind, forward, static. */
static const candidate *find_plain(const candidate *list, size_t count, weft_subject subject, const candidate *like) {
    const int32_t order = subject == WEFT_SUBJECT_GEMM ? WEFT_ORDER_RASTER_N : WEFT_ORDER_HEAD_FIRST;
    for (size_t i = 0; i < count; i++) {
        const weft_schedule *s = &list[i].schedule;
        if (s->order == order && s->sweep == WEFT_SWEEP_FORWARD && s->dispatch == WEFT_DISPATCH_STATIC &&
            s->tile_m == like->schedule.tile_m && s->tile_n == like->schedule.tile_n) {
            return &list[i];
        }
    }
    return like;
}

static void explain(const candidate *best, const candidate *plain, char *text, size_t size) {
    if (best == plain) {
        snprintf(text, size, "no other schedule is predicted to be faster by 3 %%, or as fast with fewer reads from DRAM");
        return;
    }
    const double best_gb = (double)best->sim.total.dram_read_bytes / 1e9,
                 plain_gb = (double)plain->sim.total.dram_read_bytes / 1e9;
    char name[128];
    candidate_name(plain, name, sizeof name);
    snprintf(text, size,
             "against %s: speed %+.1f %%, DRAM reads %+.1f %% (%.3f instead of %.3f GB), L2 hits %.2f instead of %.2f %%",
             name, 100 * (plain->sim.seconds / best->sim.seconds - 1), 100 * (best_gb / plain_gb - 1), best_gb, plain_gb,
             100 * weft_hit_rate(&best->sim.total), 100 * weft_hit_rate(&plain->sim.total));
}

enum { SHOWN = 5 };

int cmd_plan(const settings *s, const char *const *words, size_t count) {
    (void)count;
    const int subject = subject_or_complain("plan", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    const candidate_space space = {1, 1, 1, 3};
    candidate *list = NULL;
    size_t candidates = 0;
    int code = candidates_make(s, (weft_subject)subject, &space, &list, &candidates);
    if (code == EXIT_OK && candidates == 0) {
        code = complain(EXIT_FAILED, "no schedule fits this problem on this machine");
    }
    if (code == EXIT_OK) {
        char reason[320];
        explain(&list[0], find_plain(list, candidates, (weft_subject)subject, &list[0]), reason, sizeof reason);
        const size_t shown = candidates < SHOWN ? candidates : SHOWN;
        if (s->json) {
            json_t *rows = json_array();
            for (size_t i = 0; i < shown; i++) {
                weft_json_append(&rows, candidate_json(&list[i]));
            }
            code = print_json(json_pack("{s:s, s:o, s:I, s:s, s:o}", "machine", s->machine ? s->machine : "host",
                                        "recommended", candidate_json(&list[0]), "searched", (json_int_t)candidates,
                                        "reason", reason, "best", rows));
        } else {
            char name[128];
            candidate_name(&list[0], name, sizeof name);
            printf("recommended: %s\n  %s\n\nthe best of %zu schedules (each simulated for up to %d waves of tiles):\n",
                   name, reason, candidates, (int)space.waves);
            candidate_print_header(0);
            for (size_t i = 0; i < shown; i++) {
                candidate_print(&list[i]);
            }
        }
    }
    free(list);
    return code;
}
