/* SPDX-License-Identifier: Apache-2.0 */
#include "base/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

int weft_names_agree(const char *one, const char *other) {
    for (;; one++, other++) {
        one += strspn(one, "-_");
        other += strspn(other, "-_");
        if (tolower((unsigned char)*one) != tolower((unsigned char)*other)) {
            return 0;
        }
        if (!*one) {
            return 1;
        }
    }
}

int weft_names_list(const char *list, const char *name) {
    while (*list) {
        char item[96];
        const size_t length = strcspn(list, ", ");
        snprintf(item, sizeof item, "%.*s", (int)length, list);
        if (length > 0 && weft_names_agree(item, name)) {
            return 1;
        }
        list += length + strspn(list + length, ", ");
    }
    return 0;
}

size_t weft_character_bytes(const unsigned char *text, size_t room) {
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

int weft_is_text(const char *text) {
    for (size_t left = strlen(text), bytes; left > 0; text += bytes, left -= bytes) {
        if ((bytes = weft_character_bytes((const unsigned char *)text, left)) == 0) {
            return 0;
        }
    }
    return 1;
}

int weft_is_line(const char *text) {
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return 0;
        }
    }
    return weft_is_text(text);
}

void weft_copy_text(char *to, size_t size, const char *text) {
    size_t length = 0;
    for (size_t left = strlen(text), bytes = 1; left > 0 && bytes > 0; left -= bytes) {
        bytes = weft_character_bytes((const unsigned char *)text + length, left);
        bytes = length + bytes < size ? bytes : 0;
        length += bytes;
    }
    memcpy(to, text, length);
    to[length] = '\0';
}
