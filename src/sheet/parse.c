/* Reads sheets: `[section]` lines and `key = value | source` lines.
 *
 * inih splits the lines; what it would bend silently (long lines, continued lines, nulls, comments behind a value, text
 * behind a section) is refused by the line reader before inih sees it. */
#include "sheet/sheet.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"

typedef struct parser {
    weft_sheet *sheet;
    const char *text; /* length bytes, read up to `at` */
    size_t length, at;
    int line; /* the one being read, from 1 */
    const char *label;
    char seen[WEFT_SHEET_KEYS]; /* by a section's first key: whether the section was opened */
    weft_status status;         /* of the first failure, after which nothing more is read */
    weft_message *message;
} parser;

/* A section's first key, or -1. */
static int find_section(const weft_form *form, const char *name, size_t length) {
    for (int i = 0; i < form->count; i++) {
        if (strlen(form->keys[i].section) == length && memcmp(form->keys[i].section, name, length) == 0) {
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

/* Bytes of the UTF-8 character at `text`, of which `room` bytes are there; 0 when it is none. */
static size_t character_bytes(const unsigned char *text, size_t room) {
    /* By first byte: how many follow, and the range of the second, which excludes overlong forms and surrogates. */
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t more = first < 0x80 ? 0 : first < 0xc2 ? 4 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 4;
    if (more == 0) {
        return 1;
    }
    if (more == 4 || more >= room) {
        return 0;
    }
    if (first == 0xe0) {
        low = 0xa0;
    }
    if (first == 0xed) {
        high = 0x9f;
    }
    if (first == 0xf0) {
        low = 0x90;
    }
    if (first == 0xf4) {
        high = 0x8f;
    }
    for (size_t i = 1; i <= more; i++) {
        if (text[i] < low || text[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return more + 1;
}

/* What is wrong with the bytes of a line; null when they are plain text. */
static const char *check_bytes(const char *line, size_t length) {
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)line[i];
        if (c == 0) {
            return "a null byte";
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return "a control character";
        }
        size_t bytes = character_bytes((const unsigned char *)line + i, length - i);
        if (bytes == 0) {
            return "not UTF-8";
        }
        i += bytes;
    }
    return NULL;
}

static void open_section(parser *p, const char *line) {
    size_t length = strcspn(line + 1, "]");
    const char *after = line + 1 + length;
    char what[128];
    if (*after != ']' || after[1 + strspn(after + 1, " \t")]) {
        fail(p, "a section is written [name], alone on its line");
        return;
    }
    int first = find_section(p->sheet->form, line + 1, length);
    if (first < 0 || p->seen[first]) {
        char name[41];
        snprintf(name, sizeof name, "%.*s", length > 40 ? 40 : (int)length, line + 1);
        weft_near near = weft_near_to(name);
        for (int i = 0; i < p->sheet->form->count && first < 0; i++) {
            weft_near_try(&near, p->sheet->form->keys[i].section);
        }
        snprintf(what, sizeof what, "%s section [%s]%s%s%s", first < 0 ? "unknown" : "duplicate", name,
                 near.best ? ": did you mean [" : "", near.best ? near.best : "", near.best ? "]?" : "");
        fail(p, what);
        return;
    }
    p->seen[first] = 1;
}

/* Refuses lines that inih would read otherwise than a person does. */
static void check_form(parser *p, const char *line) {
    size_t blanks = strspn(line, " \t");
    if (strchr(";#", line[blanks])) {
        return; /* a comment, or nothing: strchr() also finds the final null */
    }
    if (blanks > 0) {
        fail(p, "a line must not begin with a blank: values are not continued");
        return;
    }
    for (const char *mark = line; (mark = strchr(mark + 1, ';'));) {
        if (mark[-1] == ' ' || mark[-1] == '\t') {
            fail(p, "a comment must have its own line");
            return;
        }
    }
    if (line[0] == '[') {
        open_section(p, line);
        return;
    }
    size_t key = strcspn(line, "=:");
    if (key == 0 || line[key] != '=') {
        fail(p, "neither [section] nor key = value | source");
    }
}

/* inih's reader: hands out one line without its end. A null ends the reading, after a failure too. */
static char *next_line(char *line, int room, void *user) {
    parser *p = user;
    if (p->status != WEFT_OK || p->at >= p->length) {
        return NULL;
    }
    const char *start = p->text + p->at;
    const char *end = memchr(start, '\n', p->length - p->at);
    size_t length = end ? (size_t)(end - start) : p->length - p->at;
    p->at += length + (end != NULL);
    p->line++;
    if (length > 0 && start[length - 1] == '\r') {
        length--;
    }
    if (length > WEFT_SHEET_MAX_LINE || length + 1 > (size_t)room) {
        char what[64];
        snprintf(what, sizeof what, "the line is longer than %d bytes", (int)WEFT_SHEET_MAX_LINE);
        fail(p, what);
        return NULL;
    }
    const char *what = check_bytes(start, length);
    if (what) {
        fail(p, what);
        return NULL;
    }
    memcpy(line, start, length);
    line[length] = '\0';
    check_form(p, line);
    return p->status == WEFT_OK ? line : NULL;
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
static void fail_key(parser *p, const char *section, const char *name) {
    char what[224];
    weft_near near = weft_near_to(name);
    const char *home = NULL; /* of a key of this very name */
    for (int i = 0; i < p->sheet->form->count; i++) {
        const weft_key *key = &p->sheet->form->keys[i];
        home = !home && strcmp(key->key, name) == 0 ? key->section : home;
        if (strcmp(key->section, section) == 0) {
            weft_near_try(&near, key->key);
        }
    }
    if (!section[0]) {
        snprintf(what, sizeof what, "key %.40s stands before any [section]", name);
    } else if (home) {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]: it is a key of [%s]", name, section, home);
    } else if (near.best) {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]: did you mean %s?", name, section, near.best);
    } else {
        snprintf(what, sizeof what, "unknown key %.40s in [%s]", name, section);
    }
    fail(p, what);
}

/* inih's handler, called for each key. */
static int take(void *user, const char *section, const char *name, const char *text) {
    parser *p = user;
    char value[WEFT_SHEET_MAX_LINE + 1], reason[96], what[224];
    const char *source;
    if (p->status != WEFT_OK) {
        return 0;
    }
    int id = find_key(p->sheet->form, section, name);
    if (id < 0) {
        fail_key(p, section, name);
        return 0;
    }
    const weft_key *key = &p->sheet->form->keys[id];
    if (p->sheet->line[id]) {
        snprintf(what, sizeof what, "duplicate key %s in [%s], first on line %d", name, section, p->sheet->line[id]);
        fail(p, what);
        return 0;
    }
    cut(text ? text : "", value, sizeof value, &source);
    if (source ? !*source : key->type != WEFT_KEY_IS_TEXT) {
        snprintf(what, sizeof what, "%s has no source: write %s = value | where it comes from", name, name);
        fail(p, what);
        return 0;
    }
    if (source && strlen(source) >= sizeof p->sheet->source[id]) {
        snprintf(what, sizeof what, "the source of %s is longer than %zu bytes", name, sizeof p->sheet->source[id] - 1);
        fail(p, what);
        return 0;
    }
    if (!weft_key_read(key, value, &p->sheet->machine, reason, sizeof reason)) {
        snprintf(what, sizeof what, "%s = %.40s: %s", name, value, reason);
        fail(p, what);
        return 0;
    }
    if (source) {
        memcpy(p->sheet->source[id], source, strlen(source) + 1);
    }
    p->sheet->line[id] = p->line;
    return 1;
}

weft_status weft_sheet_parse(weft_sheet *sheet, const weft_form *form, const char *text, size_t length, const char *label,
                             weft_message *message) {
    parser p = {.sheet = sheet, .text = text, .length = length, .label = label, .message = message};
    memset(sheet, 0, sizeof *sheet);
    sheet->form = form;
    if (length > WEFT_SHEET_MAX_BYTES) {
        return weft_fail(message, WEFT_INVALID, "%s: longer than %d bytes", label, (int)WEFT_SHEET_MAX_BYTES);
    }
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        p.at = 3; /* a byte order mark, which some editors write */
    }
    int result = ini_parse_stream(next_line, &p, take, &p);
    if (p.status != WEFT_OK) {
        return p.status;
    }
    if (result != 0) {
        return result == -2 ? weft_fail(message, WEFT_NO_MEMORY, "%s: out of memory", label)
                            : weft_fail(message, WEFT_INVALID, "%s:%d: not understood", label, result);
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
