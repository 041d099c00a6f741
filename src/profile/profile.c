/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel profiles: built in, or in a file. */
#include <weft/profile.h>

#include "base/struct.h"
#include "profile/profile.h"
#include "sheet/sheet.h"

#define WEFT_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text)                                       \
    {section, key, offsetof(weft_profile, field), WEFT_KEY_IS_##TYPE, minimum, maximum, words, unit, text, 0},
#define WEFT_OPTIONAL_KEY(ID, field, section, key, TYPE, minimum, maximum, words, unit, text)                              \
    {section, key, offsetof(weft_profile, field), WEFT_KEY_IS_##TYPE, minimum, maximum, words, unit, text, 1},
static const weft_key keys[] = {
#include "profile/keys.def"
};
#undef WEFT_KEY
#undef WEFT_OPTIONAL_KEY
enum { KEYS = sizeof keys / sizeof *keys, LEAST = sizeof(size_t) };
_Static_assert((int)KEYS <= (int)WEFT_SHEET_KEYS, "a sheet has room for every key of a profile");

static const weft_form form = {.noun = "profile",
                               .keys = keys,
                               .count = KEYS,
                               .files = weft_embedded_profiles,
                               .files_count = &weft_embedded_profiles_count,
                               .also = ""};

/* Hands a profile over whole, or that of no kernel. */
static weft_status give(weft_profile *profile, const weft_profile *found, weft_status status, weft_message *message) {
    const weft_profile none = WEFT_PROFILE_INIT;
    const weft_status given =
        weft_struct_give(profile, status ? &none : found, sizeof none, LEAST, "WEFT_PROFILE_INIT", message);
    return status ? status : given;
}

weft_status weft_profile_copy(weft_profile *ours, const weft_profile *theirs, weft_message *message) {
    const weft_profile none = WEFT_PROFILE_INIT;
    *ours = none;
    const weft_status status = weft_struct_take(ours, sizeof *ours, LEAST, theirs, "WEFT_PROFILE_INIT", message);
    return status ? status : weft_record_check(&form, ours, message);
}

weft_status weft_profile_load(weft_profile *profile, const char *name_or_path, weft_message *message) {
    weft_sheet sheet;
    const weft_status status = weft_sheet_find(&sheet, &form, name_or_path, message);
    return give(profile, &sheet.profile, status, message);
}

weft_status weft_profile_parse(weft_profile *profile, const char *text, size_t length, const char *label,
                               weft_message *message) {
    weft_sheet sheet;
    const weft_status status = weft_sheet_parse_given(&sheet, &form, text, length, label, message);
    return give(profile, &sheet.profile, status, message);
}

const char *weft_profile_name(size_t number) {
    return number < weft_embedded_profiles_count ? weft_embedded_profiles[number].name : NULL;
}

weft_status weft_profile_values(const char *name_or_path, weft_profile *profile, weft_machine_value *values, size_t room,
                                size_t *count, weft_message *message) {
    weft_sheet sheet;
    weft_status status = weft_sheet_find(&sheet, &form, name_or_path, message);
    if (profile) {
        status = give(profile, &sheet.profile, status, message);
    }
    if (count) {
        *count = status == WEFT_OK ? KEYS : 0;
    }
    return status ? status : weft_sheet_values(&sheet, values, room, message);
}
