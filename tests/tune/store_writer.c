/* SPDX-License-Identifier: Apache-2.0 */
/* Writes rows for as long as it lives, and says the number of each when it is in the store: for tests that kill it.
 *   store_writer FIRST
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tune/store/store.h"

int main(int argc, char **argv) {
    const long first = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    weft_store *store = NULL;
    weft_message message = {""};
    if (weft_store_open(&store, 1, &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    for (long i = first; i < first + 1000000; i++) {
        weft_tune_key key = {.device = "a device", .driver = 13, .build = "0.1.0-test"};
        const weft_tuned tuned = {.schedule = WEFT_SCHEDULE_INIT, .seconds = 1, .runs = i, .date = i, .whole = 1};
        snprintf(key.problem, sizeof key.problem, "number %ld", i);
        if (weft_store_put(store, &key, &tuned, &message)) {
            fprintf(stderr, "%s\n", message.text);
            return 1;
        }
        printf("%ld\n", i);
        fflush(stdout);
    }
    weft_store_close(store);
    return 0;
}
