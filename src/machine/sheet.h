/* SPDX-License-Identifier: Apache-2.0 */
/* The form of machine files. */
#ifndef WEFT_MACHINE_SHEET_H
#define WEFT_MACHINE_SHEET_H

#include "sheet/sheet.h"

/* The keys, in the order of keys.def. */
typedef enum weft_key_id {
#define WEFT_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text) WEFT_KEY_##ID,
#include "machine/keys.def"
#undef WEFT_KEY
    WEFT_KEYS /* how many there are */
} weft_key_id;

extern const weft_form weft_machine_form;

/* Checks what no key of a machine can check alone. */
weft_status weft_sheet_check(const weft_sheet *sheet, const char *label, weft_message *message);

/* Describes the host's CPU. The result passes weft_sheet_check(). WEFT_IO when what the kernel says cannot be read; what it
 * does not say is assumed. */
weft_status weft_sheet_host(weft_sheet *sheet, weft_message *message);

#endif
