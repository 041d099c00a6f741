/* SPDX-License-Identifier: Apache-2.0 */
/* A store of the test's own, in a folder of its own. */
#ifndef WEFT_TESTS_TUNE_STORES_H
#define WEFT_TESTS_TUNE_STORES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmocka_all.h"

static char store_folder[64], store_path[128];

/* Makes a new, empty folder and points WEFT_TUNING_DB into it. */
static inline void store_begin(void) {
    snprintf(store_folder, sizeof store_folder, "/tmp/weft-tune-XXXXXX");
    assert_non_null(mkdtemp(store_folder));
    snprintf(store_path, sizeof store_path, "%s/tuning.db", store_folder);
    assert_int_equal(setenv("WEFT_TUNING_DB", store_path, 1), 0);
}

/* How many files of the folder have `part` in their names. */
static inline int store_files(const char *part) {
    DIR *folder = opendir(store_folder);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        count += strstr(entry->d_name, part) != NULL;
    }
    closedir(folder);
    return count;
}

static inline void store_end(void) {
    DIR *folder = opendir(store_folder);
    char path[512];
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", store_folder, entry->d_name);
        (void)(entry->d_name[0] == '.' || unlink(path));
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(store_folder);
}

static inline void store_write_file(const void *bytes, size_t count) {
    FILE *file = fopen(store_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

#endif
