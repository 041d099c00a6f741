/* SPDX-License-Identifier: Apache-2.0 */
/* What a handful of numbers says. */
#ifndef WEFT_BASE_STATISTICS_H
#define WEFT_BASE_STATISTICS_H

#include <stddef.h>

/* Sorts numbers, the least first. */
void weft_sort(double *numbers, size_t count);

/* The value at a share, 0 to 1, of a sorted list that is not empty: between two neighbours where it falls between them. */
double weft_quantile(const double *sorted, size_t count, double share);

#endif
