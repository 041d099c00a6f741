/* SPDX-License-Identifier: Apache-2.0 */
#include "report/colour.h"

#include <math.h>

/* sRGB from a linear intensity. */
static uint32_t channel(double linear) {
    const double clipped = fmin(1.0, fmax(0.0, linear));
    const double coded = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * pow(clipped, 1 / 2.4) - 0.055;
    return (uint32_t)lround(255 * coded);
}

/* From the Oklab space, in which equal distances look equal. */
static uint32_t oklab(double lightness, double a, double b) {
    const double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    const double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    const double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    return channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s) << 16 |
           channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s) << 8 |
           channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
}

uint32_t weft_colour_ramp(double share) {
    const double t = fmin(1.0, fmax(0.0, share));
    const double hue = (300 - 195 * t) * 3.141592653589793 / 180; /* violet, blue, teal, green, yellow */
    const double chroma = 0.115 + 0.05 * t * t;
    return oklab(0.36 + 0.54 * t, chroma * cos(hue), chroma * sin(hue));
}

uint32_t weft_colour_category(int64_t number) {
    static const uint32_t palette[WEFT_CATEGORIES] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7,
                                                      0x56b4e9, 0xe69f00, 0x7f7f7f, 0xb8a800};
    return palette[(number % WEFT_CATEGORIES + WEFT_CATEGORIES) % WEFT_CATEGORIES];
}
