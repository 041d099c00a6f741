/* SPDX-License-Identifier: Apache-2.0 */
/* The later of two times, without a branch: which one it is cannot be predicted. */
#ifndef WEFT_BASE_LATER_H
#define WEFT_BASE_LATER_H

static inline double weft_later(double a, double b) {
#ifdef __aarch64__
    return __builtin_fmax(a, b); /* one instruction; compilers make a branch of a comparison */
#else
    return a > b ? a : b; /* one instruction; fmax() is a call */
#endif
}

#endif
