/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a sheet, built in or in a file, and its values for a caller. */
#include "sheet/sheet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/names.h"
#include "base/nearest.h"
#include "base/status.h"
#include "base/struct.h"

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

/* Reads a whole file, at most one byte more than a sheet may have. The caller frees *text. */
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

static weft_status parse_file(weft_sheet *sheet, const weft_form *form, const char *path, weft_message *message) {
    const shown label = show(path);
    char *text = NULL;
    size_t length = 0;
    weft_status status = read_file(path, label.text, &text, &length, message);
    if (status == WEFT_OK) {
        status = weft_sheet_parse(sheet, form, text, length, label.text, message);
    }
    free(text);
    return status;
}

static int is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length >= 4 && strcmp(name + length - 4, ".ini") == 0);
}

static weft_status fail_unknown(const weft_form *form, const char *name, weft_message *message) {
    char names[160] = "";
    size_t used = 0;
    weft_near near = weft_near_to(name);
    for (size_t i = 0; i < *form->files_count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s, ", form->files[i].name);
        weft_near_try(&near, form->files[i].name);
    }
    char suggestion[96] = "; t";
    if (near.best) {
        snprintf(suggestion, sizeof suggestion, ": did you mean %s? T", near.best);
    }
    return weft_fail(message, WEFT_NOT_FOUND, "no %s \"%.40s\"%shere are %s%sor give a file by its path", form->noun, name,
                     suggestion, names, form->also);
}

static weft_status parse_built_in(weft_sheet *sheet, const weft_form *form, size_t number, weft_message *message) {
    const weft_embedded *file = &form->files[number];
    return weft_sheet_parse(sheet, form, file->text, file->length, file->name, message);
}

weft_status weft_sheet_find(weft_sheet *sheet, const weft_form *form, const char *name, weft_message *message) {
    if (!name) {
        return weft_fail(message, WEFT_INVALID, "the %s's name is null", form->noun);
    }
    if (is_path(name)) {
        return parse_file(sheet, form, name, message);
    }
    for (size_t i = 0; i < *form->files_count; i++) {
        if (weft_names_agree(name, form->files[i].name)) {
            return parse_built_in(sheet, form, i, message);
        }
    }
    for (size_t i = 0; form->aliases && i < *form->files_count; i++) { /* they are in the files */
        const weft_status status = parse_built_in(sheet, form, i, message);
        if (status || weft_names_list(form->aliases(sheet), name)) {
            return status;
        }
    }
    return fail_unknown(form, name, message);
}

weft_status weft_sheet_parse_given(weft_sheet *sheet, const weft_form *form, const char *text, size_t length,
                                   const char *label, weft_message *message) {
    const shown name = show(label ? label : form->noun);
    return !text && length > 0 ? weft_fail(message, WEFT_INVALID, "text is null")
                               : weft_sheet_parse(sheet, form, text ? text : "", length, name.text, message);
}

weft_status weft_sheet_values(const weft_sheet *sheet, weft_machine_value *values, size_t room, weft_message *message) {
    const size_t step = values && room > 0 ? values->struct_size : 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < room && i < (size_t)sheet->form->count && step > 0; i++) {
        const weft_key *key = &sheet->form->keys[i];
        weft_machine_value value = {.section = key->section, .key = key->key, .unit = key->unit, .text = key->text};
        weft_key_write(key, &sheet->machine, value.value, sizeof value.value);
        memcpy(value.source, sheet->source[i], sizeof value.source);
        char *at = (char *)values + i * step;
        memcpy(at, &step, sizeof step);
        status = weft_struct_give(at, &value, sizeof value, sizeof(size_t), "WEFT_MACHINE_VALUE_INIT", message);
    }
    return status;
}
