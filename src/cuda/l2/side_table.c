/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/l2/side_table.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "cuda/l2/sides.h"

enum { DEVICES = 64 }; /* whose sides are remembered; those beyond have none */

typedef struct known {
    int measured, sides;
    uint8_t side_of_sm[WEFT_SIDES_MAX_SMS];
} known;

static weft_status measure(const weft_cuda_driver *driver, const weft_cuda_device *device, known *k,
                           weft_message *message) {
    weft_cuda_sides *s = malloc(sizeof *s);
    if (!s) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    const weft_status status = weft_cuda_sides_measure(driver, device, s, message);
    k->measured = status == WEFT_OK; /* else the next plan tries again */
    k->sides = s->sides;
    for (int i = 0; i < s->sms && status == WEFT_OK; i++) {
        if (s->sm[i] < WEFT_SIDES_MAX_SMS) {
            k->side_of_sm[s->sm[i]] = s->side[i];
        } else {
            k->sides = 1;
        }
    }
    free(s);
    return status;
}

weft_status weft_cuda_side_table(const weft_cuda_driver *driver, const weft_cuda_device *device, uint64_t *table,
                                 weft_message *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static known devices[DEVICES]; /* each written once, under the lock */
    *table = 0;
    if (device->index < 0 || device->index >= DEVICES || device->multiprocessors > WEFT_SIDES_MAX_SMS) {
        return WEFT_OK;
    }
    known *k = &devices[device->index];
    pthread_mutex_lock(&lock);
    const weft_status status = k->measured ? WEFT_OK : measure(driver, device, k, message);
    pthread_mutex_unlock(&lock);
    if (status == WEFT_UNSUPPORTED) { /* others hold the GPU: the plan goes without */
        return WEFT_OK;
    }
    if (status || k->sides != 2) {
        return status;
    }
    weft_cu_result result = driver->memory_new(table, sizeof k->side_of_sm);
    if (result) {
        *table = 0;
        return weft_cuda_fail(driver, result, "no memory on the GPU for the sides of its L2", message);
    }
    result = weft_cuda_copy_in(driver, *table, k->side_of_sm, sizeof k->side_of_sm);
    return result ? weft_cuda_fail(driver, result, "the sides of the L2 cannot be copied", message) : WEFT_OK;
}
