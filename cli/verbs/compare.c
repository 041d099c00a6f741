/* weft compare: one problem under every order and sweep that is left open, side by side. */
#include <stdlib.h>

#include "cli.h"
#include "base/json.h"
#include "verbs/count.h"
#include "verbs/measure_host.h"

int cmd_compare(const settings *s, const char *const *words, size_t count) {
    (void)count;
    const int subject = subject_or_complain("compare", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    const int on_gpu = s->device == WEFT_DEVICE_CUDA;
    if (s->counters && !on_gpu) {
        return complain(EXIT_USAGE, "--counters are of a GPU: --device cuda");
    }
    device_case *counted = NULL;
    candidate *list = NULL;
    size_t candidates = 0;
    int code = candidates_make(s, (weft_subject)subject, &list, &candidates);
    const int on_host = s->device == WEFT_DEVICE_CPU;
    if (code == EXIT_OK && on_gpu) {
        code = candidates_measure(s, list, candidates, (weft_subject)subject);
    } else if (code == EXIT_OK && on_host) {
        code = measure_on_host(s, list, candidates, (weft_subject)subject);
    }
    if (code == EXIT_OK && s->counters) {
        counted = calloc(candidates + 1, sizeof *counted);
        code = counted ? count_candidates(list, candidates, (weft_subject)subject, counted)
                       : complain(EXIT_FAILED, "out of memory");
    }
    if (code == EXIT_OK && s->json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < candidates; i++) {
            json_t *row = candidate_json(&list[i]);
            if (counted) {
                weft_json_set(&row, "counters", device_case_json(&counted[i]));
            }
            weft_json_append(&rows, row);
        }
        code = print_json(json_pack("{s:s, s:o}", "machine",
                                    s->machine ? s->machine
                                    : on_gpu   ? "gpu"
                                               : "host",
                                    "schedules", rows));
    } else if (code == EXIT_OK) {
        candidate_print_header(on_gpu || on_host);
        for (size_t i = 0; i < candidates; i++) {
            candidate_print(&list[i]);
            if (counted) {
                count_print(&counted[i]);
            }
        }
    }
    free(counted);
    free(list);
    return code;
}
