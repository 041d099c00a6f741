/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <stdlib.h>
#include <sys/auxv.h>

const char *weft_environment(weft_variable variable) {
#define WEFT_VARIABLE(variable, name, loads_code, text) name,
    static const char *const names[] = {
#include "base/environment.def"
    };
#undef WEFT_VARIABLE
    const char *value = getauxval(AT_SECURE) ? NULL : getenv(names[variable]);
    return value && *value ? value : NULL;
}
