/* SPDX-License-Identifier: Apache-2.0 */
/* What every verb says: complaints, exit codes, JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"
#include "progress.h"

static int complained;         /* the user was told what is wrong */
static const char *about = ""; /* what stands before that */

void complain_about(const char *what) {
    about = what;
}

int complain(int code, const char *format, ...) {
    va_list arguments;
    complained = 1;
    progress_wipe();
    va_start(arguments, format);
    fprintf(stderr, "weft: %s", about);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

int complain_no_memory(void) {
    __fpurge(stdout); /* where nobody has seen it yet: half an answer is none */
    return complain(EXIT_FAILED, "out of memory: there is no result");
}

int has_complained(void) {
    return complained;
}

/* What a user can put right on the command line is bad usage; the rest has failed. */
int exit_code(weft_status status) {
    switch (status) {
    case WEFT_OK:
        return EXIT_OK;
    case WEFT_INVALID:
    case WEFT_NOT_FOUND:
    case WEFT_UNSUPPORTED:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int complain_status(weft_status status, const weft_message *message) {
    return complain(exit_code(status), "%s", message->text);
}

int print_json(json_t *object) {
    char *text = weft_json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (!text) {
        return complain_no_memory();
    }
    puts(text); /* main() sees whether that went well */
    free(text);
    return EXIT_OK;
}

json_t *plan_json(const weft_plan *plan) {
    const size_t length = weft_plan_json(plan, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;
    json_t *object =
        text && weft_plan_json(plan, text, length + 1) == length ? weft_json_read(text, strlen(text), 0, NULL) : NULL;
    free(text);
    return object;
}

json_t *plan_member(const weft_plan *plan, const char *member) {
    json_t *whole = plan_json(plan), *part = json_incref(json_object_get(whole, member));
    json_decref(whole);
    return part;
}

/* "'weft run attention', 'weft run gemm' and 'weft run combine'": the operations that words name. */
static void list_operations(const char *verb, char *text, size_t size) {
    const char *last = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        if (!operation_base(i)) {
            if (last && used < size) {
                used += (size_t)snprintf(text + used, size - used, "%s'weft %s %s'", used ? ", " : "", verb, last);
            }
            last = weft_operation_describe(i)->name;
        }
    }
    if (last && used < size) {
        snprintf(text + used, size - used, "%s'weft %s %s'", used ? " and " : "", verb, last);
    }
}

int check_operation(const settings *s, const char *verb, const char *word) {
    char known[256];
    list_operations(verb, known, sizeof known);
    return s->operation ? EXIT_OK : complain(EXIT_USAGE, "'%s %s' is not known: %s are", verb, word, known);
}

int check_plan_words(const settings *s, const char *verb, const char *const *words, size_t count) {
    if (check_operation(s, verb, words[0])) {
        return EXIT_USAGE;
    }
    return count > 1              ? complain(EXIT_USAGE, "%.60s: nothing more is expected here", words[1])
           : s->step_seconds != 0 ? complain(EXIT_USAGE, "--step-seconds is for traces")
                                  : EXIT_OK;
}
