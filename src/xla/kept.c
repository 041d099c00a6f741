/* SPDX-License-Identifier: Apache-2.0 */
#include "xla/kept.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef struct kept {
    weft_xla_key key;
    weft_plan *plan;
    struct kept *next;
} kept;

static weft_status make(weft_plan **plan, const weft_xla_key *key, weft_message *message) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = key->kind;
    device.index = key->index;
    const weft_plan_options options = {sizeof options, &key->schedule, NULL, &device, 0};
    return weft_plan_create(plan, &key->problem, &options, message);
}

weft_status weft_xla_keep(const weft_plan **plan, const weft_xla_key *key, weft_message *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static kept *first; /* a program has tens of forms, so a list will do */
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    kept *found = first;
    while (found && memcmp(&found->key, key, sizeof *key) != 0) {
        found = found->next;
    }
    if (!found) {
        found = malloc(sizeof *found);
        status = found ? make(&found->plan, key, message) : weft_fail(message, WEFT_NO_MEMORY, "no memory to keep a plan");
        if (status) {
            free(found);
            found = NULL;
        } else {
            memcpy(&found->key, key, sizeof *key); /* the padding too */
            found->next = first;
            first = found;
        }
    }
    pthread_mutex_unlock(&lock);
    *plan = found ? found->plan : NULL;
    return status;
}
