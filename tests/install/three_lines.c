/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <weft/weft.h>
int main(void) { return printf("weft %s %s\n", weft_version(), weft_order_describe(WEFT_ORDER_HILBERT)->name) < 0; }
