/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a fuzzer, in a folder of its own that goes with it. */
#ifndef WEFT_TESTS_FUZZ_FOLDER_H
#define WEFT_TESTS_FUZZ_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "require.h"

static char folder[64];

static inline void folder_clear(void) {
    DIR *all = opendir(folder);
    char name[512];
    for (struct dirent *entry; all && (entry = readdir(all));) {
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        (void)(entry->d_name[0] == '.' || unlink(name));
    }
    require(all && closedir(all) == 0);
}

static void folder_end(void) {
    folder_clear();
    rmdir(folder);
}

/* Memory is the fastest disk. */
static inline void folder_begin(void) {
    snprintf(folder, sizeof folder, "%s/weft-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(folder) != NULL);
    atexit(folder_end);
}

#endif
