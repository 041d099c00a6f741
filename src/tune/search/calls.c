/* The public calls of weft/tune.h. */
#include <weft/tune.h>

#include "base/status.h"
#include "tune/search/tune.h"
#include "tune/store/known.h"
#include "tune/store/store.h"

weft_status weft_tune_attention(const weft_attention *problem, const weft_schedule *schedule, const weft_device *device,
                                const weft_tune_options *options, weft_tuned *tuned, weft_tune_state *state,
                                weft_message *message) {
    weft_plan draft;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    const weft_status status = weft_plan_draft_attention(&draft, problem, schedule, device, message);
    return status ? status : weft_tune_draft(&draft, options, tuned, state, message);
}

weft_status weft_tune_gemm(const weft_gemm *problem, const weft_schedule *schedule, const weft_device *device,
                           const weft_tune_options *options, weft_tuned *tuned, weft_tune_state *state,
                           weft_message *message) {
    weft_plan draft;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    const weft_status status = weft_plan_draft_gemm(&draft, problem, schedule, device, message);
    return status ? status : weft_tune_draft(&draft, options, tuned, state, message);
}

weft_status weft_tuned_attention(const weft_attention *problem, const weft_schedule *schedule, const weft_device *device,
                                 weft_tuned *tuned, weft_message *message) {
    weft_plan draft;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    const weft_status status = weft_plan_draft_attention(&draft, problem, schedule, device, message);
    return status ? status : weft_known_find(&draft, tuned, message);
}

weft_status weft_tuned_gemm(const weft_gemm *problem, const weft_schedule *schedule, const weft_device *device,
                            weft_tuned *tuned, weft_message *message) {
    weft_plan draft;
    if (!tuned) {
        return weft_fail(message, WEFT_INVALID, "tuned is null");
    }
    const weft_status status = weft_plan_draft_gemm(&draft, problem, schedule, device, message);
    return status ? status : weft_known_find(&draft, tuned, message);
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

static weft_status forget_draft(const weft_plan *draft, int64_t *count, weft_message *message) {
    weft_tune_key key;
    const weft_status status = weft_tune_key_make(&key, draft, message);
    return status ? status : forget(&key, count, message);
}

weft_status weft_tuned_forget_attention(const weft_attention *problem, const weft_schedule *schedule,
                                        const weft_device *device, int64_t *count, weft_message *message) {
    weft_plan draft;
    const weft_status status = weft_plan_draft_attention(&draft, problem, schedule, device, message);
    return status ? status : forget_draft(&draft, count, message);
}

weft_status weft_tuned_forget_gemm(const weft_gemm *problem, const weft_schedule *schedule, const weft_device *device,
                                   int64_t *count, weft_message *message) {
    weft_plan draft;
    const weft_status status = weft_plan_draft_gemm(&draft, problem, schedule, device, message);
    return status ? status : forget_draft(&draft, count, message);
}
