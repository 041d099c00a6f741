/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a machine: built in, in a file, or this host. */
#include <pthread.h>
#include <weft/machine.h>

#include <string.h>

#include "base/fork.h"
#include "base/names.h"
#include "base/struct.h"
#include "machine/machine.h"
#include "machine/sheet.h"

static weft_status find(weft_sheet *sheet, const char *name, weft_message *message) {
    if (name && (weft_names_agree(name, "host") || weft_names_agree(name, "cpu"))) {
        return weft_sheet_host(sheet, message);
    }
    return weft_sheet_find(sheet, &weft_machine_form, name, message);
}

enum { LEAST = sizeof(size_t) }; /* of a caller's struct */

/* Hands a machine over whole, or zeros. */
static weft_status give(weft_machine *machine, const weft_machine *found, weft_status status, weft_message *message) {
    const weft_machine none = WEFT_MACHINE_INIT;
    const weft_status given =
        weft_struct_give(machine, status ? &none : found, sizeof none, LEAST, "WEFT_MACHINE_INIT", message);
    return status ? status : given;
}

weft_status weft_machine_copy(weft_machine *ours, const weft_machine *theirs, weft_message *message) {
    const weft_machine none = WEFT_MACHINE_INIT;
    *ours = none;
    return weft_struct_take(ours, sizeof *ours, LEAST, theirs, "WEFT_MACHINE_INIT", message);
}

weft_status weft_machine_load(weft_machine *machine, const char *name_or_path, weft_message *message) {
    weft_sheet sheet;
    const weft_status status = find(&sheet, name_or_path, message);
    return give(machine, &sheet.machine, status, message);
}

weft_status weft_machine_parse(weft_machine *machine, const char *text, size_t length, const char *label,
                               weft_message *message) {
    weft_sheet sheet;
    const weft_status status = weft_sheet_parse_given(&sheet, &weft_machine_form, text, length, label, message);
    return give(machine, &sheet.machine, status, message);
}

/* The host does not change, and asking takes a tenth of a millisecond. */
static weft_machine host;
static int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

weft_status weft_machine_this_host(const weft_machine **machine, weft_message *message) {
    weft_status status = WEFT_OK;
    weft_fork_hold();
    pthread_mutex_lock(&lock);
    if (!known) {
        weft_sheet sheet;
        status = weft_sheet_host(&sheet, message);
        host = sheet.machine;
        host.struct_size = sizeof host;
        known = status == WEFT_OK;
    }
    pthread_mutex_unlock(&lock);
    weft_fork_release();
    *machine = &host;
    return status;
}

weft_status weft_machine_host(weft_machine *machine, weft_message *message) {
    const weft_machine *found;
    const weft_status status = weft_machine_this_host(&found, message);
    return give(machine, found, status, message);
}

const char *weft_machine_name(size_t number) {
    return number < weft_embedded_machines_count ? weft_embedded_machines[number].name : NULL;
}

weft_status weft_machine_values(const char *name_or_path, weft_machine *machine, weft_machine_value *values, size_t room,
                                size_t *count, weft_message *message) {
    weft_sheet sheet;
    weft_status status = find(&sheet, name_or_path, message);
    if (machine) {
        status = give(machine, &sheet.machine, status, message);
    }
    if (count) {
        *count = status == WEFT_OK ? WEFT_KEYS : 0;
    }
    return status ? status : weft_sheet_values(&sheet, values, room, message);
}
