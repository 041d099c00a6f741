/* SPDX-License-Identifier: Apache-2.0 */
/* What was tuned: finding it, listing it, forgetting it. */
#include <weft/tune.h>

#include "base/status.h"
#include "base/struct.h"
#include "tune/store/known.h"
#include "tune/store/store.h"

weft_status weft_tuned_find(const void *problem, const weft_schedule *schedule, const weft_device *device,
                            weft_tuned *tuned, weft_message *message) {
    weft_plan draft;
    weft_tuned ours;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    weft_status status = weft_plan_draft(&draft, problem, schedule, device, message);
    status = status ? status : weft_known_find(&draft, &ours, message);
    return status ? status : weft_struct_give(tuned, &ours, sizeof ours, sizeof(size_t), "WEFT_TUNED_INIT", message);
}

weft_status weft_tunings_list(int (*row)(void *user, const weft_tuning *tuning), void *user, weft_message *message) {
    weft_store *store = NULL;
    weft_status status = row ? weft_store_open(&store, 0, message) : weft_fail(message, WEFT_INVALID, "row is null");
    if (status == WEFT_NOT_FOUND) {
        return WEFT_OK; /* no store is an empty one */
    }
    status = status ? status : weft_store_list(store, row, user, message);
    weft_store_close(store);
    return status;
}

/* Forgets a key, or all with null. */
static weft_status forget(const weft_tune_key *key, int64_t *count, weft_message *message) {
    weft_store *store = NULL;
    int64_t unseen = 0;
    count = count ? count : &unseen;
    *count = 0;
    weft_status status = weft_store_open(&store, 0, message);
    if (status == WEFT_NOT_FOUND) {
        return WEFT_OK;
    }
    status = status ? status : weft_store_forget(store, key, count, message);
    weft_store_close(store);
    weft_known_clear();
    return status;
}

weft_status weft_tunings_forget(int64_t *count, weft_message *message) {
    return forget(NULL, count, message);
}

weft_status weft_tuned_forget(const void *problem, const weft_schedule *schedule, const weft_device *device, int64_t *count,
                              weft_message *message) {
    weft_plan draft;
    weft_tune_key key;
    weft_status status = weft_plan_draft(&draft, problem, schedule, device, message);
    status = status ? status : weft_tune_key_make(&key, &draft, message);
    return status ? status : forget(&key, count, message);
}
