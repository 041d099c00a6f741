/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file of tunings; such a file with some bytes changed; and one with rows of anything, or tables that are
 * none. It is read or refused or set aside, and afterwards the next tuning can be stored and found. */
#include <math.h>
#include <stdio.h>

#include <sqlite3.h>

#include <weft/tune.h>

#include "../plans.h"
#include "folder.h"
#include "tune/store/key.h"
#include "tune/store/store.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { LARGEST = 1 << 17 };

static char path[80], exported[80];
static uint8_t good[LARGEST]; /* a store with two rows */
static size_t good_size;
static weft_tune_key key;

static const weft_gemm *problem(void) {
    static weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 32;
    return &p;
}

static weft_status put_one(void) {
    weft_store *store = NULL;
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_message message = {""};
    tuned.seconds = 0.5;
    tuned.runs = tuned.date = tuned.whole = 1;
    weft_status status = weft_store_open(&store, 1, &message);
    status = status ? status : weft_store_put(store, &key, &tuned, &message);
    weft_store_close(store);
    require((status == WEFT_OK) == (message.text[0] == '\0'));
    return status;
}

static void write_file(const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, size, file) == size);
    require(fclose(file) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    folder_begin();
    snprintf(path, sizeof path, "%s/tuning.db", folder);
    snprintf(exported, sizeof exported, "%s/exported", folder);
    require(setenv("WEFT_TUNING_DB", path, 1) == 0);
    weft_plan draft;
    require(weft_plan_draft(&draft, problem(), NULL, NULL, NULL) == WEFT_OK);
    require(weft_tune_key_make(&key, &draft, NULL) == WEFT_OK);
    require(put_one() == WEFT_OK);
    snprintf(key.given, sizeof key.given, "tile_m=16");
    require(put_one() == WEFT_OK);
    key.given[0] = '\0';
    FILE *file = fopen(path, "rb");
    good_size = file ? fread(good, 1, sizeof good, file) : 0;
    require(good_size > 0 && good_size < sizeof good && fclose(file) == 0);
    return 0;
}

static void bind_any(sqlite3_stmt *s, int column, bytes *in) {
    char text[64];
    const uint8_t kind = next_byte(in);
    const size_t length = next_byte(in) % sizeof text;
    double real;
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)next_byte(in);
    }
    const int64_t number = next_number(in);
    memcpy(&real, &number, sizeof real);
    switch (kind % 4) {
    case 0:
        sqlite3_bind_int64(s, column, number);
        break;
    case 1:
        sqlite3_bind_double(s, column, real);
        break;
    case 2:
        sqlite3_bind_text(s, column, text, (int)length, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_bind_blob(s, column, text, (int)length, SQLITE_TRANSIENT);
    }
}

/* Rows whose key may be the problem's own, so that plans take what they say. */
static void put_rows(bytes *in) {
    sqlite3 *db = NULL;
    require(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    for (int rows = next_byte(in) % 3; rows >= 0; rows--) {
        static const char *const schedules[] = {"tile_m=16 tile_n=16",
                                                "tile_m=1 workers=2147483647",
                                                "order=hilbert",
                                                "cluster_m=3 cluster_n=5",
                                                "split=7",
                                                "domains=4096 group=9",
                                                "table=7"};
        sqlite3_stmt *s = NULL;
        const uint8_t ours = next_byte(in);
        require(sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO tunings VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", -1, &s,
                                   NULL) == SQLITE_OK);
        for (int column = 1; column <= 11; column++) {
            bind_any(s, column, in);
        }
        if (ours & 1) {
            sqlite3_bind_text(s, 1, key.device, -1, SQLITE_STATIC);
            sqlite3_bind_int(s, 2, key.driver);
            sqlite3_bind_text(s, 3, key.build, -1, SQLITE_STATIC);
            sqlite3_bind_text(s, 4, key.problem, -1, SQLITE_STATIC);
            sqlite3_bind_text(s, 5, "", -1, SQLITE_STATIC);
        }
        if (ours & 2) {
            sqlite3_bind_text(s, 6, schedules[ours / 4 % 7], -1, SQLITE_STATIC);
        }
        (void)sqlite3_step(s);
        sqlite3_finalize(s);
    }
    /* A view that never ends, and a trigger that takes away what is stored. */
    static const char *const changes[] = {
        "DROP TABLE trials",
        "DROP TABLE tunings; CREATE TABLE tunings(device)",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 3",
        "PRAGMA application_id = 7",
        "ALTER TABLE tunings ADD COLUMN more",
        "CREATE TRIGGER t AFTER INSERT ON tunings BEGIN DELETE FROM tunings; END",
        ("DROP TABLE tunings; CREATE VIEW tunings AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
         "SELECT i AS device, i AS driver, i AS build, i AS problem, i AS given, i AS schedule, i AS seconds, i AS spread, "
         "i AS runs, i AS date, i AS whole FROM n")};
    const uint8_t change = next_byte(in) % 32;
    if (change < sizeof changes / sizeof *changes) {
        sqlite3_exec(db, changes[change], NULL, NULL, NULL);
    }
    sqlite3_close(db);
}

/* What is listed is what a tuning can be. */
static int look(void *user, const weft_tuning *t) {
    int64_t *count = user;
    char words[WEFT_WORDS];
    weft_schedule_write(&t->tuned.schedule, words);
    require(isfinite(t->tuned.seconds) && t->tuned.seconds > 0 && isfinite(t->tuned.spread) && t->tuned.spread >= 0);
    require(t->tuned.runs >= 0 && t->tuned.date >= 0);
    require(strlen(t->device) < LARGEST && strlen(t->build) < LARGEST && strlen(t->given) < LARGEST);
    ++*count;
    return 0;
}

/* Everything that reads; what is refused says why. */
static void read_all(int carry) {
    weft_message message = {""};
    weft_tuned tuned = WEFT_TUNED_INIT;
    weft_device stored = WEFT_DEVICE_INIT;
    weft_plan *plan = NULL;
    int64_t listed = 0, written = 0;
    stored.mode = WEFT_STORED;
    weft_status status = weft_tunings_list(look, &listed, &message);
    require(status == WEFT_OK || message.text[0]);
    if (status == WEFT_OK && carry) { /* and so it can be carried to another machine */
        require(weft_tunings_export(exported, &written, &message) == WEFT_OK && written == listed);
        require(weft_tunings_import(exported, &written, &message) == WEFT_OK && written <= listed);
    }
    status = weft_tuned_find(problem(), NULL, NULL, &tuned, &message);
    require(status == WEFT_OK || message.text[0]);
    status = plan_on(&plan, problem(), NULL, NULL, &stored, &message);
    require((status == WEFT_OK) == (plan != NULL));
    weft_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t changed[LARGEST];
    bytes in = {data, size};
    weft_message notice;
    const uint8_t kind = next_byte(&in);
    weft_tuned tuned = WEFT_TUNED_INIT;
    int64_t count;
    if (kind % 4 == 0) {
        write_file(in.data, in.left);
    } else {
        memcpy(changed, good, good_size);
        while (kind % 4 == 1 && in.left > 0) {
            const size_t at = (size_t)next_byte(&in) << 8 | next_byte(&in);
            changed[at % good_size] = next_byte(&in);
        }
        write_file(changed, good_size);
        if (kind % 4 > 1) {
            put_rows(&in);
        }
    }
    read_all(kind & 64);
    /* A store that a newer weft made stays as it is; any other takes a row and gives it back. */
    const weft_status status = put_one();
    if (status == WEFT_OK) {
        require(weft_tuned_find(problem(), NULL, NULL, &tuned, NULL) == WEFT_OK);
        require(weft_tunings_forget(&count, NULL) == WEFT_OK && count >= 1);
    }
    require(status == WEFT_OK || status == WEFT_UNSUPPORTED || status == WEFT_IO);
    (void)weft_tunings_notice(&notice);
    folder_clear();
    return 0;
}
