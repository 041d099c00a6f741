/* SPDX-License-Identifier: Apache-2.0 */
/* Sheets: INI files of numbers with their sources. A form is one kind of them (machines, profiles): a table of keys, each
 * of which fills a field of a struct. */
#ifndef WEFT_SHEET_SHEET_H
#define WEFT_SHEET_SHEET_H

#include <weft/profile.h>

#include "base/embedded.h"

typedef enum weft_key_type {
    WEFT_KEY_IS_TEXT,
    WEFT_KEY_IS_CHOICE,
    WEFT_KEY_IS_INT,
    WEFT_KEY_IS_BYTES,
    WEFT_KEY_IS_REAL
} weft_key_type;

/* A row of a form's keys.def; the field that it fills is `offset` bytes into the struct. */
typedef struct weft_key {
    const char *section, *key;
    size_t offset;
    weft_key_type type;
    double minimum, maximum;
    const char *words, *unit, *text;
    int optional; /* 1: a file without it has 0 */
} weft_key;

typedef struct weft_sheet weft_sheet;

typedef struct weft_form {
    const char *noun; /* "machine", for messages */
    const weft_key *keys;
    int count; /* of the keys, at most WEFT_SHEET_KEYS */
    const weft_embedded *files;
    const size_t *files_count; /* built-in sheets */
    const char *also;          /* other names that a caller may give, for messages: "host, " */

    /* Other names of a sheet, separated by commas; null: there are none. */
    const char *(*aliases)(const weft_sheet *sheet);

    /* Checks what no key can check alone; null: there is nothing. */
    weft_status (*check)(const weft_sheet *sheet, const char *label, weft_message *message);
} weft_form;

enum { WEFT_SHEET_KEYS = 48, WEFT_SHEET_MAX_BYTES = 65536 };

struct weft_sheet {
    const weft_form *form;
    union { /* what the keys fill */
        weft_machine machine;
        weft_profile profile;
    };
    char source[WEFT_SHEET_KEYS][sizeof((weft_machine_value *)0)->source];
    int line[WEFT_SHEET_KEYS]; /* where the value stands in its file, from 1; 0: nowhere */
};

/* Reads the text of a value into the field of a struct. On failure returns 0 and says in `reason` what is allowed. */
int weft_key_read(const weft_key *key, const char *text, void *record, char *reason, size_t size);

/* Writes the field as text that weft_key_read() reads back to the same value, in any locale. */
void weft_key_write(const weft_key *key, const void *record, char *text, size_t size);

/* Checks a caller's struct: every number lies within its key's limits, every text has an end. */
weft_status weft_record_check(const weft_form *form, const void *record, weft_message *message);

/* Reads and checks a file's text. On failure the sheet is not to be used. */
weft_status weft_sheet_parse(weft_sheet *sheet, const weft_form *form, const char *text, size_t length, const char *label,
                             weft_message *message);

/* What a caller hands over as text, of which a null is empty; a null label is the form's noun. */
weft_status weft_sheet_parse_given(weft_sheet *sheet, const weft_form *form, const char *text, size_t length,
                                   const char *label, weft_message *message);

/* Finds a built-in sheet by name or alias, as weft_names_agree() has it, or a file by path (anything with a '/' or ending
 * in ".ini"). */
weft_status weft_sheet_find(weft_sheet *sheet, const weft_form *form, const char *name, weft_message *message);

/* Fills at most `room` of a caller's values, which lie as far apart as the first of them is long. */
weft_status weft_sheet_values(const weft_sheet *sheet, weft_machine_value *values, size_t room, weft_message *message);

/* Writes a sheet as a file that weft_sheet_parse() reads back to the same. `comment` is null or lines that begin with '#'.
 * As snprintf: at most `size` bytes with the final null; returns the length of the whole. */
size_t weft_sheet_write(const weft_sheet *sheet, const char *comment, char *text, size_t size);

#endif
