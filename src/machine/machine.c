/* Finding a machine: built in, in a file, or this host. */
#include <pthread.h>
#include <weft/machine.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/nearest.h"
#include "base/status.h"
#include "base/struct.h"
#include "machine/embedded.h"
#include "machine/machine.h"
#include "machine/names.h"
#include "machine/sheet.h"

/* What messages show of a file's name: all of it, or its end, so that there is room for what is wrong with it. */
typedef struct shown {
    char text[84];
} shown;

static shown show(const char *label) {
    shown result;
    size_t length = strlen(label), room = sizeof result.text - 1;
    if (length <= room) {
        snprintf(result.text, sizeof result.text, "%s", label);
    } else {
        snprintf(result.text, sizeof result.text, "...%s", label + (length - room + 3));
    }
    return result;
}

/* Reads a whole file, at most one byte more than a machine file may have. The caller frees *text. */
static weft_status read_file(const char *path, const char *label, char **text, size_t *length, weft_message *message) {
    const size_t room = WEFT_SHEET_MAX_BYTES + 1;
    struct stat info;
    errno = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        int error = errno;
        if (error == ENOENT || error == ENOTDIR) {
            return weft_fail(message, WEFT_NOT_FOUND, "%s: no such file", label);
        }
        if (error == EACCES) {
            return weft_fail(message, WEFT_IO, "%s: no permission to read it", label);
        }
        return weft_fail(message, WEFT_IO, "%s: cannot be opened (error %d)", label, error);
    }
    weft_status status = WEFT_OK;
    *text = NULL;
    *length = 0;
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        status = weft_fail(message, WEFT_IO, "%s: a directory, not a file", label);
        goto done;
    }
    *text = malloc(room);
    if (!*text) {
        status = weft_fail(message, WEFT_NO_MEMORY, "%s: out of memory", label);
        goto done;
    }
    *length = fread(*text, 1, room, file);
    if (ferror(file)) {
        status = weft_fail(message, WEFT_IO, "%s: cannot be read", label);
    }
done:
    fclose(file);
    if (status != WEFT_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

static weft_status parse_file(weft_sheet *sheet, const char *path, weft_message *message) {
    const shown label = show(path);
    char *text = NULL;
    size_t length = 0;
    weft_status status = read_file(path, label.text, &text, &length, message);
    if (status == WEFT_OK) {
        status = weft_sheet_parse(sheet, text, length, label.text, message);
    }
    free(text);
    return status;
}

static int is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length >= 4 && strcmp(name + length - 4, ".ini") == 0);
}

static weft_status fail_unknown(const char *name, weft_message *message) {
    char names[160] = "";
    size_t used = 0;
    weft_near near = weft_near_to(name);
    for (size_t i = 0; i < weft_embedded_machines_count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", weft_embedded_machines[i].name);
        weft_near_try(&near, weft_embedded_machines[i].name);
    }
    return weft_fail(message, WEFT_NOT_FOUND, "no machine \"%.40s\"%s%s%s; there are %shost, or give a file by its path",
                     name, near.best ? ": did you mean " : "", near.best ? near.best : "", near.best ? "?" : "", names);
}

static weft_status find(weft_sheet *sheet, const char *name, weft_message *message) {
    if (!name) {
        return weft_fail(message, WEFT_INVALID, "the machine's name is null");
    }
    if (is_path(name)) {
        return parse_file(sheet, name, message);
    }
    if (weft_names_agree(name, "host") || weft_names_agree(name, "cpu")) {
        weft_sheet_host(sheet);
        return WEFT_OK;
    }
    for (size_t i = 0; i < 2 * weft_embedded_machines_count;
         i++) { /* the names, then the aliases, which are in the files */
        const int is_alias = i >= weft_embedded_machines_count;
        const weft_embedded *built_in = &weft_embedded_machines[i % weft_embedded_machines_count];
        if (!is_alias && !weft_names_agree(name, built_in->name)) {
            continue;
        }
        const weft_status status = weft_sheet_parse(sheet, built_in->text, built_in->length, built_in->name, message);
        if (status || !is_alias || weft_names_list(sheet->machine.aliases, name)) {
            return status;
        }
    }
    return fail_unknown(name, message);
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
    const shown name = show(label ? label : "machine");
    const weft_status status = !text && length > 0 ? weft_fail(message, WEFT_INVALID, "text is null")
                                                   : weft_sheet_parse(&sheet, text ? text : "", length, name.text, message);
    return give(machine, &sheet.machine, status, message);
}

/* The host does not change, and asking takes a tenth of a millisecond. */
static weft_machine host;

static void ask_host(void) {
    weft_sheet sheet;
    weft_sheet_host(&sheet);
    host = sheet.machine;
    host.struct_size = sizeof host;
}

const weft_machine *weft_machine_this_host(void) {
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask_host);
    return &host;
}

weft_status weft_machine_host(weft_machine *machine, weft_message *message) {
    return give(machine, weft_machine_this_host(), WEFT_OK, message);
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
    const size_t step = values && room > 0 ? values->struct_size : 0;
    for (size_t i = 0; status == WEFT_OK && i < room && i < WEFT_KEYS && step > 0; i++) {
        const weft_key *key = &weft_keys[i];
        weft_machine_value value = {.section = key->section, .key = key->key, .unit = key->unit, .text = key->text};
        weft_key_write(key, &sheet.machine, value.value, sizeof value.value);
        memcpy(value.source, sheet.source[i], sizeof value.source);
        char *at = (char *)values + i * step;
        memcpy(at, &step, sizeof step);
        status = weft_struct_give(at, &value, sizeof value, LEAST, "WEFT_MACHINE_VALUE_INIT", message);
    }
    return status;
}
