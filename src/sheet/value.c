/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text, both ways. Numbers are read by hand: strtod() would follow the program's locale, and a file must mean the
 * same everywhere. */
#include "base/names.h"
#include "sheet/sheet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* What a double holds exactly: 15 decimal digits, and powers of ten up to 22. Within these one multiplication or division
 * gives the correctly rounded value; beyond them lies no number of a sheet. */
enum { MAX_DIGITS = 15, MAX_POWER = 22 };

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads an exponent, "e-3" or nothing, at *text. Returns 0 when it is malformed or beyond three digits. */
static int read_exponent(const char **text, int *exponent) {
    const char *at = *text;
    *exponent = 0;
    if (*at != 'e' && *at != 'E') {
        return 1;
    }
    at++;
    int negative = *at == '-';
    if (*at == '-' || *at == '+') {
        at++;
    }
    if (!is_digit(*at)) {
        return 0;
    }
    for (; is_digit(*at); at++) {
        *exponent = *exponent * 10 + (*at - '0');
        if (*exponent > 999) {
            return 0;
        }
    }
    if (negative) {
        *exponent = -*exponent;
    }
    *text = at;
    return 1;
}

/* Reads a decimal number at *text and moves *text behind it. Returns 0 when there is none. */
static int read_decimal(const char **text, double *value) {
    const char *at = *text;
    int negative = *at == '-';
    if (negative) {
        at++;
    }
    if (!is_digit(*at)) {
        return 0;
    }
    int64_t digits = 0;
    int count = 0, fraction = 0, exponent;
    for (int in_fraction = 0; is_digit(*at) || (*at == '.' && !in_fraction); at++) {
        if (*at == '.') {
            in_fraction = 1;
            continue;
        }
        digits = digits * 10 + (*at - '0');
        count += digits > 0;
        fraction += in_fraction;
        if (count > MAX_DIGITS || fraction > 999) {
            return 0;
        }
    }
    if (at[-1] == '.' || !read_exponent(&at, &exponent)) {
        return 0;
    }
    exponent -= fraction;
    if (digits == 0) {
        exponent = 0;
    }
    if (exponent > MAX_POWER || exponent < -MAX_POWER) {
        return 0;
    }
    double power = 1;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--) {
        power *= 10;
    }
    *value = exponent < 0 ? (double)digits / power : (double)digits * power;
    if (negative) {
        *value = 0 - *value;
    }
    *text = at;
    return 1;
}

/* What a suffix stands for, 1 for none; 0 for anything else. */
static double read_suffix(const char *text) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                 {"bytes", 1}, {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    text += strspn(text, " \t");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (weft_names_agree(text, units[i].name)) {
            return units[i].bytes;
        }
    }
    return 0;
}

/* Position of `text` among words separated by '|'; -1 when it is none of them. */
static int find_word(const char *words, const char *text) {
    size_t length = strlen(text);
    for (int number = 0;; number++) {
        size_t word = strcspn(words, "|");
        if (word == length && memcmp(words, text, length) == 0) {
            return number;
        }
        if (!words[word]) {
            return -1;
        }
        words += word + 1;
    }
}

/* A long number that ends in zeros as one writes it: 3350000000000 is 3.35e12. */
static void shorten(char *text, size_t size) {
    enum { LONG = 9 };
    char digits[64];
    const size_t length = strlen(text);
    size_t kept = length;
    while (kept > 1 && text[kept - 1] == '0') {
        kept--;
    }
    if (length > LONG && length < sizeof digits && length - kept >= LONG / 2 && strspn(text, "0123456789") == length) {
        memcpy(digits, text, length + 1);
        snprintf(text, size, "%c%s%.*se%zu", digits[0], kept > 1 ? "." : "", (int)kept - 1, digits + 1, length - 1);
    }
}

/* %.15g gives back every number of 15 digits; whatever the locale puts between them becomes a point. */
static void write_real(double value, char *text, size_t size) {
    char raw[64];
    snprintf(raw, sizeof raw, "%.15g", value);
    size_t used = 0;
    for (const char *from = raw; *from && used + 1 < size;) {
        size_t plain = strspn(from, "0123456789e+-"), other = plain ? 0 : strcspn(from, "0123456789e+-");
        if (other) {
            text[used++] = '.';
            from += other;
        }
        for (; plain > 0 && used + 1 < size; plain--) {
            text[used++] = *from++;
        }
    }
    text[used] = '\0';
}

static int read_text(const weft_key *key, const char *text, char *field, char *reason, size_t size) {
    size_t length = strlen(text);
    if (length < (size_t)key->minimum || length > (size_t)key->maximum) {
        snprintf(reason, size, "must have %.0f to %.0f bytes", key->minimum, key->maximum);
        return 0;
    }
    if (key->words[0] && text[strspn(text, key->words)]) {
        snprintf(reason, size, "may hold only %s", key->words);
        return 0;
    }
    memcpy(field, text, length + 1);
    return 1;
}

static int read_number(const weft_key *key, const char *text, double *value, char *reason, size_t size) {
    int whole = key->type != WEFT_KEY_IS_REAL;
    double factor = 0;
    if (read_decimal(&text, value)) {
        factor = key->type == WEFT_KEY_IS_BYTES ? read_suffix(text) : !*text;
    }
    *value *= factor;
    int in_range = *value >= key->minimum && *value <= key->maximum;
    if (factor <= 0 || (whole && in_range && *value != (double)(int64_t)*value)) {
        snprintf(reason, size, "must be a %snumber%s%s", whole ? "whole " : "",
                 key->type == WEFT_KEY_IS_BYTES ? ", of bytes, kB, MB, GB, KiB, MiB or GiB"
                 : key->unit[0]                 ? ", in "
                                                : "",
                 key->type == WEFT_KEY_IS_BYTES ? "" : key->unit);
        return 0;
    }
    if (!in_range) {
        char minimum[32], maximum[32];
        write_real(key->minimum, minimum, sizeof minimum);
        write_real(key->maximum, maximum, sizeof maximum);
        snprintf(reason, size, "must be %s to %s%s%s", minimum, maximum, key->unit[0] ? " " : "", key->unit);
        return 0;
    }
    return 1;
}

int weft_key_read(const weft_key *key, const char *text, void *record, char *reason, size_t size) {
    char *field = (char *)record + key->offset;
    if (key->type == WEFT_KEY_IS_TEXT) {
        return read_text(key, text, field, reason, size);
    }
    if (key->type == WEFT_KEY_IS_CHOICE) {
        int64_t number = find_word(key->words, text);
        if (number < 0) {
            snprintf(reason, size, "must be %s", key->words);
            return 0;
        }
        memcpy(field, &number, sizeof number);
        return 1;
    }
    double value = 0;
    if (!read_number(key, text, &value, reason, size)) {
        return 0;
    }
    int64_t whole = key->type == WEFT_KEY_IS_REAL ? 0 : (int64_t)value;
    memcpy(field, key->type == WEFT_KEY_IS_REAL ? (const void *)&value : (const void *)&whole, sizeof value);
    return 1;
}

void weft_key_write(const weft_key *key, const void *record, char *text, size_t size) {
    const char *field = (const char *)record + key->offset;
    int64_t whole = 0;
    double real = 0;
    switch (key->type) {
    case WEFT_KEY_IS_TEXT:
        snprintf(text, size, "%s", field);
        return;
    case WEFT_KEY_IS_REAL:
        memcpy(&real, field, sizeof real);
        write_real(real, text, size);
        shorten(text, size);
        return;
    case WEFT_KEY_IS_CHOICE: {
        memcpy(&whole, field, sizeof whole);
        const char *word = key->words;
        for (; whole > 0; whole--) {
            word += strcspn(word, "|") + 1;
        }
        snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
        return;
    }
    case WEFT_KEY_IS_INT:
    case WEFT_KEY_IS_BYTES:
        memcpy(&whole, field, sizeof whole);
        snprintf(text, size, "%" PRId64, whole);
        return;
    }
}

weft_status weft_record_check(const weft_form *form, const void *record, weft_message *message) {
    for (const weft_key *key = form->keys; key < form->keys + form->count; key++) {
        const char *field = (const char *)record + key->offset;
        double value = key->minimum;
        int64_t whole;
        if (key->type == WEFT_KEY_IS_TEXT) {
            value = memchr(field, '\0', (size_t)key->maximum + 1) ? value : key->maximum + 1;
        } else if (key->type == WEFT_KEY_IS_REAL) {
            memcpy(&value, field, sizeof value);
        } else {
            memcpy(&whole, field, sizeof whole);
            value = (double)whole;
        }
        if (!(value >= key->minimum && value <= key->maximum)) {
            return weft_fail(message, WEFT_INVALID, "%s: [%s] %s %g is not %g to %g", form->noun, key->section, key->key,
                             value, key->minimum, key->maximum);
        }
    }
    return WEFT_OK;
}
