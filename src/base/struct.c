/* SPDX-License-Identifier: Apache-2.0 */
#include "base/struct.h"

#include <string.h>

#include "base/status.h"

/* No struct of weft's is longer: a size beyond it is that of a struct that was never initialised. */
enum { LONGEST = 4096 };

static weft_status check_size(size_t *given, size_t least, const void *theirs, const char *macro, weft_message *message) {
    if (!theirs) {
        return weft_fail(message, WEFT_INVALID, "a struct is null: initialise one with %s", macro);
    }
    memcpy(given, theirs, sizeof *given);
    if (*given < least || *given > LONGEST) {
        return weft_fail(message, WEFT_INVALID, "struct_size %zu is not one that this library knows: initialise with %s",
                         *given, macro);
    }
    return WEFT_OK;
}

weft_status weft_struct_take(void *ours, size_t known, size_t least, const void *theirs, const char *macro,
                             weft_message *message) {
    size_t given = 0;
    const weft_status status = check_size(&given, least, theirs, macro, message);
    if (status) {
        return status;
    }
    for (size_t i = known; i < given; i++) {
        if (((const unsigned char *)theirs)[i] != 0) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "a field at byte %zu of a struct for %s is set, and weft " WEFT_VERSION " does not know it", i,
                             macro);
        }
    }
    memcpy(ours, theirs, given < known ? given : known);
    memcpy(ours, &known, sizeof known);
    return WEFT_OK;
}

weft_status weft_struct_take_options(void *ours, size_t known, const void *theirs, const char *macro,
                                     weft_message *message) {
    return theirs ? weft_struct_take(ours, known, sizeof known, theirs, macro, message) : WEFT_OK;
}

weft_status weft_struct_give(void *theirs, const void *ours, size_t known, size_t least, const char *macro,
                             weft_message *message) {
    size_t given = 0;
    const weft_status status = check_size(&given, least, theirs, macro, message);
    if (status) {
        return status;
    }
    memset(theirs, 0, given);
    memcpy(theirs, ours, given < known ? given : known);
    memcpy(theirs, &given, sizeof given);
    return WEFT_OK;
}
