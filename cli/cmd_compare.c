/* weft compare: one problem under every order and sweep that is left open, side by side. */
#include <stdlib.h>

#include "candidates.h"
#include "cli.h"

int cmd_compare(const settings *s, const char *const *words, size_t count) {
    (void)count;
    const int subject = subject_or_complain("compare", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    const candidate_space space = {0, 0, 0, 0};
    candidate *list = NULL;
    size_t candidates = 0;
    int code = candidates_make(s, (weft_subject)subject, &space, &list, &candidates);
    if (code == EXIT_OK && s->device == WEFT_DEVICE_CUDA) {
        code = candidates_measure(s, list, candidates);
    }
    if (code == EXIT_OK && s->json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < candidates; i++) {
            json_array_append_new(rows, candidate_json(&list[i]));
        }
        code = print_json(json_pack("{s:s, s:o}", "machine",
                                    s->machine                      ? s->machine
                                    : s->device == WEFT_DEVICE_CUDA ? "gpu"
                                                                    : "host",
                                    "schedules", rows));
    } else if (code == EXIT_OK) {
        candidate_print_header(s->device == WEFT_DEVICE_CUDA);
        for (size_t i = 0; i < candidates; i++) {
            candidate_print(&list[i]);
        }
    }
    free(list);
    return code;
}
