/* SPDX-License-Identifier: Apache-2.0 */
/* Reads sheets: `[section]` lines and `key = value | source` lines. */
#include "sheet/sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"
#include "sheet/ini.h"

typedef struct parser {
    weft_sheet *sheet;
    const char *label;
    int line;                   /* the one being read, from 1 */
    const char *section;        /* the open one; "": none yet */
    char seen[WEFT_SHEET_KEYS]; /* by a section's first key: whether the section was opened */
    weft_status status;         /* of the first failure, which ends the reading */
    weft_message *message;
} parser;

/* A section's first key, or -1. */
static int find_section(const weft_form *form, const char *name) {
    for (int i = 0; i < form->count; i++) {
        if (strcmp(form->keys[i].section, name) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_key(const weft_form *form, const char *section, const char *key) {
    for (int i = 0; i < form->count; i++) {
        if (strcmp(form->keys[i].section, section) == 0 && strcmp(form->keys[i].key, key) == 0) {
            return i;
        }
    }
    return -1;
}

static void fail(parser *p, const char *what) {
    p->status = weft_fail(p->message, WEFT_INVALID, "%s:%d: %s", p->label, p->line, what);
}

static void open_section(parser *p, const char *name) {
    int first = find_section(p->sheet->form, name);
    if (first < 0 || p->seen[first]) {
        char what[128];
        weft_near near = weft_near_to(name);
        for (int i = 0; i < p->sheet->form->count && first < 0; i++) {
            weft_near_try(&near, p->sheet->form->keys[i].section);
        }
        snprintf(what, sizeof what, "%s section [%.40s]%s%s%s", first < 0 ? "unknown" : "duplicate", name,
                 near.best ? ": did you mean [" : "", near.best ? near.best : "", near.best ? "]?" : "");
        fail(p, what);
        return;
    }
    p->seen[first] = 1;
    p->section = p->sheet->form->keys[first].section;
}

/* Cuts "value | source" in two; *source is null when there is no '|'. */
static void cut(const char *text, char *value, size_t size, const char **source) {
    size_t length = strcspn(text, "|");
    *source = text[length] ? text + length + 1 + strspn(text + length + 1, " \t") : NULL;
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    snprintf(value, size, "%.*s", (int)length, text);
}

/* A key that its section does not have: another section may have it, or the section one of a similar name. */
static void fail_key(parser *p, const char *name) {
    char what[224];
    weft_near near = weft_near_to(name);
    const char *home = NULL; /* of a key of this very name */
    for (int i = 0; i < p->sheet->form->count; i++) {
        const weft_key *key = &p->sheet->form->keys[i];
        home = !home && strcmp(key->key, name) == 0 ? key->section : home;
        if (strcmp(key->section, p->section) == 0) {
            weft_near_try(&near, key->key);
        }
    }
    if (!p->section[0]) {
        snprintf(what, sizeof what, "key %.40s stands before any [section]", name);
    } else if (home) {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]: it is a key of [%s]", name, p->section, home);
    } else if (near.best) {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]: did you mean %s?", name, p->section, near.best);
    } else {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]", name, p->section);
    }
    fail(p, what);
}

static void take_key(parser *p, const char *name, const char *text) {
    char value[WEFT_INI_MAX_LINE + 1], reason[96], what[224];
    const char *source;
    int id = find_key(p->sheet->form, p->section, name);
    if (id < 0) {
        fail_key(p, name);
        return;
    }
    const weft_key *key = &p->sheet->form->keys[id];
    if (p->sheet->line[id]) {
        snprintf(what, sizeof what, "duplicate key %s in [%s], first on line %d", name, p->section, p->sheet->line[id]);
        fail(p, what);
        return;
    }
    cut(text, value, sizeof value, &source);
    if (source ? !*source : key->type != WEFT_KEY_IS_TEXT) {
        snprintf(what, sizeof what, "%s has no source: write %s = value | where it comes from", name, name);
        fail(p, what);
        return;
    }
    if (source && strlen(source) >= sizeof p->sheet->source[id]) {
        snprintf(what, sizeof what, "the source of %s is longer than %zu bytes", name, sizeof p->sheet->source[id] - 1);
        fail(p, what);
        return;
    }
    if (!weft_key_read(key, value, &p->sheet->machine, reason, sizeof reason)) {
        snprintf(what, sizeof what, "%s = %.40s: %s", name, value, reason);
        fail(p, what);
        return;
    }
    if (source) {
        memcpy(p->sheet->source[id], source, strlen(source) + 1);
    }
    p->sheet->line[id] = p->line;
}

static void read_lines(parser *p, const char *text, const char *end) {
    weft_ini_line line;
    while (text < end && p->status == WEFT_OK) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        p->line++;
        switch (weft_ini_read(&line, text, (size_t)((next ? next : end) - text))) {
        case WEFT_INI_WRONG:
            fail(p, line.wrong);
            break;
        case WEFT_INI_SECTION:
            open_section(p, line.name);
            break;
        case WEFT_INI_KEY:
            take_key(p, line.name, line.value);
            break;
        case WEFT_INI_BLANK:
            break;
        }
        text = next ? next + 1 : end;
    }
}

weft_status weft_sheet_parse(weft_sheet *sheet, const weft_form *form, const char *text, size_t length, const char *label,
                             weft_message *message) {
    parser p = {.sheet = sheet, .label = label, .section = "", .message = message};
    memset(sheet, 0, sizeof *sheet);
    sheet->form = form;
    if (length > WEFT_SHEET_MAX_BYTES) {
        return weft_fail(message, WEFT_INVALID, "%s: longer than %d bytes", label, (int)WEFT_SHEET_MAX_BYTES);
    }
    /* Some editors write a byte order mark. */
    size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    read_lines(&p, text + mark, text + length);
    if (p.status != WEFT_OK) {
        return p.status;
    }
    for (int i = 0; i < form->count; i++) {
        if (!sheet->line[i] && form->keys[i].optional) {
            snprintf(sheet->source[i], sizeof sheet->source[i], "not given");
        } else if (!sheet->line[i]) {
            return weft_fail(message, WEFT_INVALID, "%s:%d: missing key %s in [%s]", label, p.line ? p.line : 1,
                             form->keys[i].key, form->keys[i].section);
        }
    }
    return form->check ? form->check(sheet, label, message) : WEFT_OK;
}
