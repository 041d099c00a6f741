/* Colours that people with any colour vision can tell apart: a ramp that grows evenly in lightness from violet over teal to
 * yellow, and eight colours for categories. */
#ifndef WEFT_REPORT_COLOUR_H
#define WEFT_REPORT_COLOUR_H

#include <stdint.h>

/* Red, green and blue in the lowest 24 bits. */
typedef uint32_t weft_colour;

enum { WEFT_CATEGORIES = 8 };

/* `share` is between 0 and 1. */
weft_colour weft_colour_ramp(double share);

/* After Okabe and Ito's palette, for domains and schedules; `number` wraps around. */
weft_colour weft_colour_category(int64_t number);

#endif
