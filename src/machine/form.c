/* SPDX-License-Identifier: Apache-2.0 */
/* The form of machine files: their keys. */
#include "machine/sheet.h"

#define WEFT_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text)                                       \
    {section, key, offsetof(weft_machine, field), WEFT_KEY_IS_##TYPE, minimum, maximum, words, unit, text, 0},
#define WEFT_OPTIONAL_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text)                              \
    {section, key, offsetof(weft_machine, field), WEFT_KEY_IS_##TYPE, minimum, maximum, words, unit, text, 1},
static const weft_key keys[WEFT_KEYS] = {
#include "machine/keys.def"
};
#undef WEFT_KEY
_Static_assert((int)WEFT_KEYS <= (int)WEFT_SHEET_KEYS, "a sheet has room for every key of a machine");

static const char *aliases(const weft_sheet *sheet) {
    return sheet->machine.aliases;
}

const weft_form weft_machine_form = {.noun = "machine",
                                     .keys = keys,
                                     .count = WEFT_KEYS,
                                     .files = weft_embedded_machines,
                                     .files_count = &weft_embedded_machines_count,
                                     .also = "host, ",
                                     .aliases = aliases,
                                     .check = weft_sheet_check};
