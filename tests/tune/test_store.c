/* SPDX-License-Identifier: Apache-2.0 */
/* The store: rows in and out, and files that are not what they should be. */
#include "stores.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "tune/store/store.h"

static weft_tune_key key_of(int number) {
    weft_tune_key key = {.device = "a device", .driver = 13, .build = "0.1.0-test"};
    snprintf(key.problem, sizeof key.problem, "attention number %d", number);
    return key;
}

static weft_tuned tuned_of(int number) {
    weft_tuned t = {.schedule = WEFT_SCHEDULE_INIT,
                    .seconds = 1e-3 * number,
                    .spread = 0.01,
                    .runs = 21,
                    .date = 1000 + number,
                    .whole = 1};
    t.schedule.tile_m = 16 * number;
    t.schedule.sweep = WEFT_SWEEP_SAWTOOTH;
    return t;
}

static weft_store *opened(int to_write) {
    weft_store *store = NULL;
    weft_message message = {""};
    if (weft_store_open(&store, to_write, &message)) {
        fail_msg("%s", message.text);
    }
    return store;
}

static void put(int number) {
    weft_store *store = opened(1);
    const weft_tune_key key = key_of(number);
    const weft_tuned tuned = tuned_of(number);
    assert_int_equal(weft_store_put(store, &key, &tuned, NULL), WEFT_OK);
    weft_store_close(store);
}

static weft_status find(int number, weft_tuned *tuned) {
    weft_store *store = opened(0);
    const weft_tune_key key = key_of(number);
    const weft_status status = weft_store_find(store, &key, tuned, NULL);
    weft_store_close(store);
    return status;
}

static int count_row(void *user, const weft_tuning *t) {
    assert_string_equal(t->device, "a device");
    ++*(int *)user;
    return 0;
}

static void rows(void **state) {
    (void)state;
    weft_store *store = NULL;
    weft_tuned tuned = WEFT_TUNED_INIT;
    store_begin();
    assert_int_equal(weft_store_open(&store, 0, NULL), WEFT_NOT_FOUND); /* reading makes no file */
    assert_int_equal(store_files("tuning.db"), 0);
    for (int i = 1; i <= 20; i++) {
        put(i);
    }
    put(3); /* again: replaced, not added */
    for (int i = 1; i <= 20; i++) {
        const weft_tuned want = tuned_of(i);
        assert_int_equal(find(i, &tuned), WEFT_OK);
        assert_true(weft_schedule_same(&tuned.schedule, &want.schedule));
        assert_true(tuned.seconds == want.seconds && tuned.spread == want.spread && tuned.runs == 21 && tuned.whole == 1);
        assert_int_equal(tuned.date, want.date);
    }
    assert_int_equal(find(21, &tuned), WEFT_NOT_FOUND);
    store = opened(1);
    weft_tune_key other = key_of(1);
    other.driver = 12; /* every part of the key counts */
    assert_int_equal(weft_store_find(store, &other, &tuned, NULL), WEFT_NOT_FOUND);
    other = key_of(1);
    other.build = "0.2.0-test";
    assert_int_equal(weft_store_find(store, &other, &tuned, NULL), WEFT_NOT_FOUND);
    int seen = 0;
    assert_int_equal(weft_store_list(store, count_row, &seen, NULL), WEFT_OK);
    assert_int_equal(seen, 20);
    const weft_tune_key key = key_of(5);
    int64_t count;
    assert_int_equal(weft_store_forget(store, &key, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(weft_store_forget(store, NULL, &count, NULL), WEFT_OK);
    assert_int_equal(count, 19);
    weft_store_close(store);
    store_end();
}

static void count_trial(void *user, const weft_tuned *trial) {
    (void)trial;
    ++*(int *)user;
}

static void trials(void **state) {
    (void)state;
    store_begin();
    weft_store *store = opened(1);
    const weft_tune_key key = key_of(1), other = key_of(2);
    for (int i = 1; i <= 6; i++) {
        const weft_tuned trial = tuned_of(i % 3 + 1); /* each twice: the later replaces */
        assert_int_equal(weft_store_put_trial(store, &key, &trial, NULL), WEFT_OK);
    }
    int seen = 0;
    assert_int_equal(weft_store_trials(store, &key, count_trial, &seen, NULL), WEFT_OK);
    assert_int_equal(seen, 3);
    assert_int_equal(weft_store_trials(store, &other, count_trial, &seen, NULL), WEFT_OK);
    assert_int_equal(seen, 3);
    assert_int_equal(weft_store_drop_trials(store, &key, NULL), WEFT_OK);
    assert_int_equal(weft_store_trials(store, &key, count_trial, &seen, NULL), WEFT_OK);
    assert_int_equal(seen, 3);
    weft_store_close(store);
    store_end();
}

/* Runs statements on the file, past weft. */
static void sql(const char *text) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* What is there is set aside, said, and a new store works. */
static void is_set_aside(const char *what) {
    weft_message notice = {""};
    weft_tuned tuned = WEFT_TUNED_INIT;
    (void)weft_tunings_notice(NULL);
    put(7);
    assert_true(weft_tunings_notice(&notice));
    assert_non_null(strstr(notice.text, what));
    assert_false(weft_tunings_notice(&notice));
    assert_true(store_files(".aside-") >= 1);
    assert_int_equal(find(7, &tuned), WEFT_OK);
    store_end();
}

static void bad_files(void **state) {
    (void)state;
    char zeros[8192] = {0}, garbage[5000];
    memset(garbage, 0xa5, sizeof garbage);
    store_begin();
    store_write_file(zeros, sizeof zeros);
    is_set_aside("damaged");
    store_begin();
    store_write_file(garbage, sizeof garbage);
    is_set_aside("damaged");
    store_begin();
    store_write_file("SQLite format 3", 16); /* cut off after the first word of it */
    is_set_aside("damaged");
    store_begin();
    sql("CREATE TABLE letters(text TEXT); INSERT INTO letters VALUES('dear'); PRAGMA user_version = 2;");
    is_set_aside("not weft's");
    store_begin();
    put(1);
    sql("ALTER TABLE tunings RENAME COLUMN spread TO breadth;"); /* weft's mark, and another schema */
    is_set_aside("not as weft makes it");
    store_begin();
    put(1);
    sql("DROP TABLE trials;");
    is_set_aside("not as weft makes it");

    store_begin(); /* an empty file is an empty store */
    store_write_file("", 0);
    put(1);
    assert_int_equal(store_files(".aside-"), 0);
    store_end();
}

/* A page in the middle is overwritten: found by the check, and set aside. */
static void bad_page(void **state) {
    (void)state;
    store_begin();
    for (int i = 1; i <= 200; i++) {
        put(i);
    }
    sql("PRAGMA wal_checkpoint(TRUNCATE);");
    FILE *file = fopen(store_path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 4 * 4096 + 8, SEEK_SET), 0);
    for (int i = 0; i < 3000; i++) {
        fputc(0x5a, file);
    }
    fclose(file);
    is_set_aside("damaged");
}

static void older_and_newer(void **state) {
    (void)state;
    weft_store *store = NULL;
    weft_message message = {""};
    weft_tuned tuned = WEFT_TUNED_INIT;
    store_begin();
    sql("CREATE TABLE tunings(device TEXT, driver INTEGER, build TEXT, problem TEXT, schedule TEXT, seconds REAL, date "
        "INTEGER, "
        "PRIMARY KEY(device, driver, build, problem));"
        "INSERT INTO tunings VALUES('a device', 13, '0.1.0-test', 'attention number 4', 'tile_m=64', 0.25, 77);"
        "PRAGMA application_id = 1464157780; PRAGMA user_version = 1;");
    assert_int_equal(find(4, &tuned), WEFT_OK); /* brought up to date, the row with it */
    assert_int_equal(tuned.schedule.tile_m, 64);
    assert_true(tuned.seconds == 0.25 && tuned.date == 77 && tuned.whole == 1);
    put(4);
    assert_int_equal(store_files(".aside-"), 0);
    sql("PRAGMA user_version = 3;");
    assert_int_equal(weft_store_open(&store, 1, &message), WEFT_UNSUPPORTED);
    assert_non_null(strstr(message.text, "newer weft"));
    assert_int_equal(weft_store_open(&store, 0, &message), WEFT_UNSUPPORTED);
    sql("PRAGMA user_version = 2;"); /* and it was left alone */
    assert_int_equal(find(4, &tuned), WEFT_OK);
    store_end();
}

/* A row whose schedule means nothing here, as an order that was taken out, is no row. */
static void strange_rows(void **state) {
    (void)state;
    weft_tuned tuned = WEFT_TUNED_INIT;
    int seen = 0;
    store_begin();
    put(1);
    put(2);
    sql("UPDATE tunings SET schedule = 'order=spiral' WHERE problem = 'attention number 1';");
    assert_int_equal(find(1, &tuned), WEFT_NOT_FOUND);
    assert_int_equal(find(2, &tuned), WEFT_OK);
    weft_store *store = opened(0);
    assert_int_equal(weft_store_list(store, count_row, &seen, NULL), WEFT_OK);
    assert_int_equal(seen, 1);
    weft_store_close(store);
    store_end();
}

/* Numbers that no tuning has, and text that JSON cannot hold: such a row is none, and the others can be exported. */
static void impossible_rows(void **state) {
    (void)state;
    static const char *const changes[] = {
        "seconds = 9e999", "seconds = 0", "seconds = -1",     "spread = -0.5",    "spread = 9e999",
        "runs = -1",       "date = -7",   "seconds = 'long'", "device = x'ff00'", "given = 'a' || x'c328'"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char statement[128];
        int seen = 0;
        int64_t count = 0;
        weft_message message = {""};
        store_begin();
        put(1);
        put(2);
        snprintf(statement, sizeof statement, "UPDATE tunings SET %s WHERE problem = 'attention number 1';", changes[i]);
        sql(statement);
        weft_store *store = opened(0);
        assert_int_equal(weft_store_list(store, count_row, &seen, NULL), WEFT_OK);
        assert_int_equal(seen, 1);
        weft_store_close(store);
        assert_int_equal(weft_tunings_export("/dev/null", &count, &message), WEFT_OK);
        assert_int_equal(count, 1);
        store_end();
    }
}

/* A view in the place of a table may be without end, and a trigger may take away what is stored: such a file is set aside.
 */
static void views_and_triggers(void **state) {
    (void)state;
    static const char *const changes[] = {
        "CREATE TRIGGER t AFTER INSERT ON tunings BEGIN DELETE FROM tunings; END;",
        ("DROP TABLE tunings; CREATE VIEW tunings AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
         "SELECT "
         "i AS device, i AS driver, i AS build, i AS problem, i AS given, i AS schedule, i AS seconds, i AS spread, "
         "i AS runs, i AS date, i AS whole FROM n;")};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        weft_tuned tuned = WEFT_TUNED_INIT;
        store_begin();
        put(1);
        sql(changes[i]);
        put(2);
        assert_int_equal(store_files(".aside-"), 1);
        assert_int_equal(find(1, &tuned), WEFT_NOT_FOUND);
        assert_int_equal(find(2, &tuned), WEFT_OK);
        store_end();
    }
}

static void places(void **state) {
    (void)state;
    char path[256];
    weft_store *store = NULL;
    weft_message message = {""};
    assert_int_equal(unsetenv("WEFT_TUNING_DB"), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/somewhere", 1), 0);
    assert_int_equal(weft_tunings_path(path, sizeof path), 25);
    assert_string_equal(path, "/somewhere/weft/tuning.db");
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/home/me", 1), 0);
    weft_tunings_path(path, sizeof path);
    assert_string_equal(path, "/home/me/.cache/weft/tuning.db");
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
    assert_int_equal(weft_tunings_path(path, sizeof path), 0);
    assert_int_equal(weft_store_open(&store, 1, &message), WEFT_IO);
    assert_non_null(strstr(message.text, "WEFT_TUNING_DB"));
    assert_int_equal(setenv("WEFT_TUNING_DB", "/none/such/folder/tuning.db", 1), 0);
    assert_int_equal(weft_store_open(&store, 1, &message), WEFT_IO);
    assert_int_equal(weft_store_open(&store, 0, &message), WEFT_NOT_FOUND);

    store_begin(); /* the default place is made */
    assert_int_equal(unsetenv("WEFT_TUNING_DB"), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", store_folder, 1), 0);
    weft_store_close(opened(1));
    char command[256];
    snprintf(command, sizeof command, "%s/weft/tuning.db", store_folder);
    assert_int_equal(access(command, R_OK), 0);
    snprintf(command, sizeof command, "rm -r %s/weft", store_folder);
    assert_int_equal(system(command), 0);
    store_end();
}

/* A file's mode beside `path`, whose name ends in `end`. */
static unsigned mode_of(const char *end) {
    char path[160];
    struct stat info;
    snprintf(path, sizeof path, "%s%s", store_path, end);
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777U;
}

/* What a store holds is its owner's alone, whatever the process gives files that it makes. A mode that is there stays. */
static void private_files(void **state) {
    (void)state;
    const mode_t before = umask(0);
    store_begin();
    weft_store *store = opened(1);
    assert_int_equal(mode_of(""), 0600);
    assert_int_equal(mode_of("-wal"), 0600);
    assert_int_equal(mode_of("-shm"), 0600);
    assert_int_equal(mode_of(".lock"), 0600);
    weft_store_close(store);
    assert_int_equal(chmod(store_path, 0640), 0);
    put(1);
    assert_int_equal(mode_of(""), 0640);
    store_write_file("garbage, and no store", 22);
    put(1); /* set aside, and a new one begun */
    assert_int_equal(store_files(".aside-"), 1);
    assert_int_equal(mode_of(""), 0600);
    store_end();
    (void)umask(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows),
                                       cmocka_unit_test(trials),
                                       cmocka_unit_test(bad_files),
                                       cmocka_unit_test(bad_page),
                                       cmocka_unit_test(older_and_newer),
                                       cmocka_unit_test(strange_rows),
                                       cmocka_unit_test(impossible_rows),
                                       cmocka_unit_test(views_and_triggers),
                                       cmocka_unit_test(places),
                                       cmocka_unit_test(private_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
