/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, which is read here and nowhere else. */
#ifndef WEFT_BASE_ENVIRONMENT_H
#define WEFT_BASE_ENVIRONMENT_H

#define WEFT_VARIABLE(variable, name, loads_code, text) WEFT_VARIABLE_##variable,
typedef enum weft_variable {
#include "base/environment.def"
    WEFT_VARIABLES
} weft_variable;
#undef WEFT_VARIABLE

/* The value of a variable; null where it is not set or empty. Null, too, where the process has rights that its caller has
 * not (set-user-ID, set-group-ID, file capabilities): its caller must not say what it loads or writes. */
const char *weft_environment(weft_variable variable);

#endif
