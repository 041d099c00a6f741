/* SPDX-License-Identifier: Apache-2.0 */
/* Colours that people with any colour vision can tell apart: a ramp that grows evenly in lightness from violet over teal to
 * yellow, and eight colours for categories. */
#ifndef WEFT_REPORT_COLOUR_H
#define WEFT_REPORT_COLOUR_H

#include <weft/report.h>

enum { WEFT_CATEGORIES = 8 };

/* After Okabe and Ito's palette, for domains and schedules; `number` wraps around. */
uint32_t weft_colour_category(int64_t number);

#endif
