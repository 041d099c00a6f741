/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a JSON file, to carry to other machines: {"weft_tunings": 1, "rows": [{...}]}. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "tune/store/known.h"
#include "tune/store/store.h"

enum { FORMAT = 1, MOST = 1 << 30 /* bytes of a file */, MEMBERS = 11 /* of a row */ };

static int add_row(void *user, const weft_tuning *t) {
    json_t **rows = user;
    char words[WEFT_WORDS];
    weft_schedule_write(&t->tuned.schedule, words);
    json_t *row = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:f, s:f, s:I, s:I, s:b}", "device", t->device, "driver",
                            t->driver, "build", t->build, "problem", t->problem, "given", t->given, "schedule", words,
                            "seconds", t->tuned.seconds, "spread", t->tuned.spread, "runs", (json_int_t)t->tuned.runs,
                            "date", (json_int_t)t->tuned.date, "whole", t->tuned.whole);
    weft_json_append(rows, row);
    return *rows == NULL;
}

weft_status weft_tunings_export(const char *path, int64_t *count, weft_message *message) {
    json_t *rows = json_array();
    weft_status status = weft_tunings_list(add_row, &rows, message);
    if (count) {
        *count = status ? 0 : (int64_t)json_array_size(rows);
    }
    json_t *whole = json_pack("{s:i, s:o}", "weft_tunings", FORMAT, "rows", rows);
    char *text = weft_json_text(whole, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (status == WEFT_OK && (!path || !text)) {
        status = weft_fail(message, path ? WEFT_NO_MEMORY : WEFT_INVALID, path ? "out of memory" : "path is null");
    } else if (status == WEFT_OK) {
        const size_t length = strlen(text);
        text[length] = '\n'; /* in the place of the final null */
        status = weft_file_write(strcmp(path, "-") == 0 ? NULL : path, text, length + 1, message);
    }
    free(text);
    json_decref(whole);
    return status;
}

/* Reads one row; its strings belong to the object. */
static weft_status read_row(json_t *object, weft_tuning *row, weft_message *message) {
    const char *words = NULL;
    json_int_t runs, date;
    json_error_t error;
    int whole;
    memset(row, 0, sizeof *row);
    if (json_unpack_ex(object, &error, 0, "{s:s, s:i, s:s, s:s, s:s, s:s, s:F, s:F, s:I, s:I, s:b}", "device", &row->device,
                       "driver", &row->driver, "build", &row->build, "problem", &row->problem, "given", &row->given,
                       "schedule", &words, "seconds", &row->tuned.seconds, "spread", &row->tuned.spread, "runs", &runs,
                       "date", &date, "whole", &whole) != 0) {
        return weft_json_lacked_memory(&error) ? weft_fail(message, WEFT_NO_MEMORY, "out of memory")
                                               : weft_fail(message, WEFT_INVALID, "%.200s", error.text);
    }
    if (json_object_size(object) != MEMBERS) { /* which JSON_STRICT takes memory for, and does not say when it has none */
        return weft_fail(message, WEFT_INVALID, "%zu members, and a row has %d", json_object_size(object), (int)MEMBERS);
    }
    row->tuned.runs = runs;
    row->tuned.date = date;
    row->tuned.whole = whole;
    if (!weft_tuned_can_be(&row->tuned)) {
        return weft_fail(message, WEFT_INVALID, "seconds, spread, runs or date is not a number that can be");
    }
    return weft_schedule_read(&row->tuned.schedule, words, message);
}

static weft_status read_rows(json_t *rows, weft_tuning *list, const char *path, weft_message *message) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        weft_message why = {""};
        const weft_status status = read_row(json_array_get(rows, i), &list[i], &why);
        if (status) {
            return weft_fail(message, status, "%.80s: row %zu: %.130s", path, i + 1, why.text);
        }
    }
    return WEFT_OK;
}

weft_status weft_tunings_import(const char *path, int64_t *count, weft_message *message) {
    json_error_t error;
    json_int_t format = 0;
    json_t *rows = NULL;
    weft_tuning *list = NULL;
    weft_store *store = NULL;
    int64_t taken = 0;
    char *text = NULL;
    size_t length = 0;
    weft_status status = WEFT_OK;
    if (!path) {
        return weft_fail(message, WEFT_INVALID, "path is null");
    }
    if (strcmp(path, "-") != 0 && access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return weft_fail(message, WEFT_NOT_FOUND, "%.200s: cannot be opened", path);
    }
    if ((status = weft_file_read(strcmp(path, "-") == 0 ? NULL : path, MOST, &text, &length, message))) {
        return status;
    }
    json_t *whole = weft_json_read(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!whole) {
        const int no_memory = weft_json_lacked_memory(&error);
        status = no_memory ? weft_fail(message, WEFT_NO_MEMORY, "out of memory")
                           : weft_fail(message, WEFT_INVALID, "%.80s:%d: %.120s", path, error.line, error.text);
        goto done;
    }
    format = json_integer_value(json_object_get(whole, "weft_tunings"));
    rows = json_object_get(whole, "rows");
    if (format != FORMAT || !json_is_array(rows)) {
        status = weft_fail(message, WEFT_INVALID, "%.200s: not a file of tunings", path);
        goto done;
    }
    list = calloc(json_array_size(rows) + 1, sizeof *list);
    status = list ? read_rows(rows, list, path, message) : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    if (status == WEFT_OK && (status = weft_store_open(&store, 1, message)) == WEFT_OK) {
        status = weft_store_put_all(store, list, json_array_size(rows), &taken, message);
        weft_known_clear();
    }
done:
    weft_store_close(store);
    free(list);
    free(text);
    json_decref(whole);
    if (count) {
        *count = taken;
    }
    return status;
}
