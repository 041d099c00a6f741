/* Sheets: a machine together with the source and the line of each of its values. */
#ifndef WEFT_MACHINE_SHEET_H
#define WEFT_MACHINE_SHEET_H

#include <weft/machine.h>

/* The keys, in the order of keys.def. */
typedef enum weft_key_id {
#define WEFT_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text) WEFT_KEY_##ID,
#include "machine/keys.def"
#undef WEFT_KEY
    WEFT_KEYS /* how many there are */
} weft_key_id;

typedef enum weft_key_type {
    WEFT_KEY_IS_TEXT,
    WEFT_KEY_IS_CHOICE,
    WEFT_KEY_IS_INT,
    WEFT_KEY_IS_BYTES,
    WEFT_KEY_IS_REAL
} weft_key_type;

/* A row of keys.def; the field of a machine that it fills is `offset` bytes into the struct. */
typedef struct weft_key {
    const char *section, *key;
    size_t offset;
    weft_key_type type;
    double minimum, maximum;
    const char *words, *unit, *text;
    int optional; /* a file without it has 0 */
} weft_key;

extern const weft_key weft_keys[WEFT_KEYS];

typedef struct weft_sheet {
    weft_machine machine;
    char source[WEFT_KEYS][sizeof((weft_machine_value *)0)->source];
    int line[WEFT_KEYS]; /* where the value stands in its file, from 1; 0: nowhere */
} weft_sheet;

/* The longest machine file and the longest line in it. inih keeps 200 bytes for a line, its end and a null. */
enum { WEFT_SHEET_MAX_BYTES = 65536, WEFT_SHEET_MAX_LINE = 197 };

/* Reads the text of a value into the machine's field. On failure returns 0 and says in `reason` what is allowed. */
int weft_key_read(const weft_key *key, const char *text, weft_machine *machine, char *reason, size_t size);

/* Writes the machine's field as text that weft_key_read() reads back to the same value, in any locale. */
void weft_key_write(const weft_key *key, const weft_machine *machine, char *text, size_t size);

/* Reads a machine file's text. On failure the sheet is not to be used. */
weft_status weft_sheet_parse(weft_sheet *sheet, const char *text, size_t length, const char *label, weft_message *message);

/* Checks what no key can check alone. */
weft_status weft_sheet_check(const weft_sheet *sheet, const char *label, weft_message *message);

/* Writes a sheet as a machine file that weft_sheet_parse() reads back to the same. `comment` is null or lines that begin
 * with
 * '#'. As snprintf: at most `size` bytes with the final null; returns the length of the whole. */
size_t weft_sheet_write(const weft_sheet *sheet, const char *comment, char *text, size_t size);

/* Describes the host's CPU. The result passes weft_sheet_check(). */
void weft_sheet_host(weft_sheet *sheet);

#endif
