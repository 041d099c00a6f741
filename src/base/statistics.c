/* SPDX-License-Identifier: Apache-2.0 */
#include "base/statistics.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void weft_sort(double *numbers, size_t count) {
    qsort(numbers, count, sizeof *numbers, by_value);
}

double weft_quantile(const double *sorted, size_t count, double share) {
    const double at = share * (double)(count - 1);
    const size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}
