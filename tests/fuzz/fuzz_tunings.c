/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JSON file of tunings. What is taken is written again, and read again as the same; what is refused changes
 * nothing and says where. */
#include <stdio.h>

#include <weft/tune.h>

#include "folder.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static char store[80], paths[3][80];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    folder_begin();
    snprintf(store, sizeof store, "%s/tuning.db", folder);
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
    }
    require(setenv("WEFT_TUNING_DB", store, 1) == 0);
    return 0;
}

static size_t read_file(const char *path, char *text, size_t most) {
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, most, file) : 0;
    require(file && size < most && fclose(file) == 0);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 1 << 20 };
    static char once[MOST], twice[MOST];
    weft_message message = {""};
    int64_t taken = -1, written = -1, again = -1;
    FILE *file = fopen(paths[0], "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    const weft_status status = weft_tunings_import(paths[0], &taken, &message);
    if (status != WEFT_OK) {
        require(status == WEFT_INVALID && taken == 0);
        require(strncmp(message.text, paths[0], strlen(paths[0])) == 0);
        require(memchr(message.text, '\0', sizeof message.text) != NULL);
        return 0;
    }
    require(weft_tunings_export(paths[1], &written, NULL) == WEFT_OK && written <= taken);
    require(weft_tunings_forget(&again, NULL) == WEFT_OK && again == written);
    require(weft_tunings_import(paths[1], &again, NULL) == WEFT_OK && again == written);
    require(weft_tunings_export(paths[2], &again, NULL) == WEFT_OK && again == written);
    const size_t length = read_file(paths[1], once, MOST);
    require(read_file(paths[2], twice, MOST) == length && memcmp(once, twice, length) == 0);
    require(weft_tunings_forget(&again, NULL) == WEFT_OK && again == written);
    return 0;
}
