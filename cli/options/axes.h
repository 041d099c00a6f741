/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter sweeps: options with several values, as a list (4K,8K,16K), as a range (4K:64K:x2 doubles, 1K:8K:1K adds) or as
 * a list of both. Each such option is an axis, and every combination of their values is a point. */
#ifndef WEFT_CLI_AXES_H
#define WEFT_CLI_AXES_H

#include "options/options.h"

enum { AXES = 16, AXES_POINTS = 10000 }; /* at most */

typedef struct axis {
    const option *option;
    char **values; /* as option_read() takes them */
    size_t count;
} axis;

/* In the order in which they were given. */
typedef struct axes {
    axis list[AXES];
    size_t count;
} axes;

/* Whether a text gives an option several values. */
int axes_is_list(const option *o, const char *text);

/* Makes an axis of an option, whose first value the settings get. As options_parse() returns. */
int axes_read(settings *s, const option *o, const char *text, weft_message *message);

/* Takes an option's axis away: what is given later counts. Null axes are fine. */
void axes_drop(axes *all, const option *o);

/* EXIT_USAGE, with a message, when there are more than AXES_POINTS points. Null axes are fine. */
int axes_check(const axes *all, weft_message *message);

/* How many points there are: 1 without axes. Only of axes that passed axes_check(). */
size_t axes_points(const axes *all);

/* The value of an axis at a point; the last axis varies fastest. */
const char *axes_value(const axes *all, size_t axis, size_t point);

/* The settings of a point: `s` with the axes' values in place. */
settings axes_settings(const axes *all, const settings *s, size_t point);

/* "seq 4096, machine h100": cut to the size. */
void axes_name(const axes *all, size_t point, char *text, size_t size);

void axes_release(axes *all);

#endif
