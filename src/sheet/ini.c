/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines of INI files. */
#include "sheet/ini.h"

#include <string.h>

#include "base/names.h"

_Static_assert(WEFT_INI_MAX_LINE == 197, "a message below names it");

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
        size_t bytes = weft_character_bytes((const unsigned char *)line + i, length - i);
        if (bytes == 0) {
            return "not UTF-8";
        }
        i += bytes;
    }
    return NULL;
}

/* Sets `wrong` and returns its kind. */
static weft_ini_kind refuse(weft_ini_line *line, const char *wrong) {
    line->wrong = wrong;
    return WEFT_INI_WRONG;
}

/* Ends the text behind its last byte that is no blank. */
static void trim(char *text) {
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    text[length] = '\0';
}

weft_ini_kind weft_ini_read(weft_ini_line *line, const char *start, size_t length) {
    char *text = line->text;
    if (length > 0 && start[length - 1] == '\r') {
        length--;
    }
    if (length > WEFT_INI_MAX_LINE) {
        return refuse(line, "the line is longer than 197 bytes");
    }
    const char *wrong = check_bytes(start, length);
    if (wrong) {
        return refuse(line, wrong);
    }
    memcpy(text, start, length);
    text[length] = '\0';
    trim(text);
    if (!text[0] || strchr(";#", text[strspn(text, " \t")])) {
        return WEFT_INI_BLANK;
    }
    if (text[0] == ' ' || text[0] == '\t') {
        return refuse(line, "a line must not begin with a blank: values are not continued");
    }
    for (const char *mark = text; (mark = strchr(mark + 1, ';'));) {
        if (mark[-1] == ' ' || mark[-1] == '\t') {
            return refuse(line, "a comment must have its own line");
        }
    }
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (!end || end[1]) {
            return refuse(line, "a section is written [name], alone on its line");
        }
        *end = '\0';
        line->name = text + 1;
        return WEFT_INI_SECTION;
    }
    size_t key = strcspn(text, "=:");
    if (key == 0 || text[key] != '=') {
        return refuse(line, "neither [section] nor key = value | source");
    }
    text[key] = '\0';
    trim(text);
    line->name = text;
    line->value = text + key + 1 + strspn(text + key + 1, " \t");
    return WEFT_INI_KEY;
}
