/* SPDX-License-Identifier: Apache-2.0 */
#include <iostream>
#include <weft/machine.h>
int main() { std::cout << "weft " << weft_version() << " " << weft_order_describe(WEFT_ORDER_HILBERT)->name << "\n"; }
